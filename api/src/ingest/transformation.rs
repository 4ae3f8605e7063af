//! What becomes of a record before its query runs: `transformation` of v2, a function in JavaScript.
//!
//! A record whose transformation fails is one that failed, and is told of like those that cannot be decoded.

use serde_json::{Value as Json, json};
use weir_model::Value;

use crate::error::ApiError;
use crate::wire::decode::{Fields, Mistakes};

const FIELD: &str = "transformation";

/// The only language.
const KIND: &str = "JavaScript";

/// As a definition has it.
#[derive(Default)]
pub struct Transformation {
    function: Option<String>,
}

/// A record that has not become another one.
pub struct Untransformed {
    pub number: u64,
    pub reason: String,
    pub record: Value,
}

/// What a transformation has done.
#[derive(Default)]
pub struct Applied {
    pub untransformed: Vec<Untransformed>,
    /// The first record that it has left out, as what those before it became is as much as may be held at once.
    pub next: Option<u64>,
    /// The bytes of the values that it has made.
    pub bytes: usize,
}

/// Why a stream cannot go on.
pub enum Stopped {
    /// It is to end.
    Asked,
    GivenUp(String),
}

impl Transformation {
    /// Out of the definition of a stream.
    pub fn read(definition: &Json) -> Result<Transformation, ApiError> {
        let mut mistakes = Mistakes::default();
        let read = Transformation::of(definition, &mut mistakes);
        mistakes.or(read).map_err(ApiError::Decode)
    }

    fn of(definition: &Json, mistakes: &mut Mistakes) -> Option<Transformation> {
        let Some(given) = definition.get(FIELD).filter(|given| !given.is_null()) else {
            return Some(Transformation::default());
        };
        let path = format!(".{FIELD}");
        let mut of_it = Mistakes::default();
        let read = Transformation::within(given, &path, &mut of_it);
        mistakes.within(&path, of_it);
        read
    }

    fn within(given: &Json, path: &str, mistakes: &mut Mistakes) -> Option<Transformation> {
        let (fields, kind) = Fields::tagged(given, path, mistakes)?;
        if kind != KIND {
            mistakes.at(path, format!("type '{kind}' names no known transformation; there is {KIND}"));
            return None;
        }
        if cfg!(not(feature = "javascript")) {
            mistakes.at(path, "transformations of records are not in this build of weir; leave it out");
            return None;
        }
        Some(Transformation { function: Some(fields.required_text("function", mistakes)?) })
    }

    /// Whether the engine takes the function.
    pub fn check(&self) -> Result<(), ApiError> {
        let Err(problem) = self.start("a definition") else { return Ok(()) };
        Err(ApiError::Decode(vec![format!("DecodingFailure at .{FIELD}.function: {problem}")]))
    }

    pub fn is_some(&self) -> bool {
        self.function.is_some()
    }

    fn shown(&self) -> Option<Json> {
        self.function.as_ref().map(|function| json!({"type": KIND, "function": function}))
    }

    /// Adds it to a definition that is to be stored, or shown.
    pub fn show(&self, whole: &mut Json) {
        if let Some(shown) = self.shown() {
            whole[FIELD] = shown;
        }
    }

    /// Starts it. None where there is none.
    #[cfg(feature = "javascript")]
    pub fn start(&self, stream: &str) -> Result<Option<Running>, String> {
        let function = self.function.as_ref();
        function.map(|text| weir_connectors::javascript::Script::start(stream, text).map(|script| Running { script })).transpose()
    }

    #[cfg(not(feature = "javascript"))]
    pub fn start(&self, _stream: &str) -> Result<Option<Running>, String> {
        Ok(None)
    }
}

/// The function of one stream, at work.
pub struct Running {
    #[cfg(feature = "javascript")]
    script: weir_connectors::javascript::Script,
}

impl Running {
    /// Puts what records become in their places; takes out those that fail, with their numbers, and those that are left for
    /// later.
    #[cfg(feature = "javascript")]
    pub fn apply(
        &mut self,
        records: &mut Vec<Value>,
        numbers: &mut Vec<u64>,
        stopping: impl Fn() -> bool,
    ) -> Result<Applied, Stopped> {
        use weir_connectors::javascript::Stopped as Why;
        if records.is_empty() {
            return Ok(Applied::default());
        }
        let given = std::sync::Arc::new(std::mem::take(records));
        let transformed = self.script.apply(given.clone(), stopping).map_err(|stopped| match stopped {
            Why::Asked => Stopped::Asked,
            Why::GivenUp(reason) => Stopped::GivenUp(reason),
        })?;
        let all = std::mem::take(numbers);
        let next = all.get(transformed.outcomes.len()).copied();
        let mut applied = Applied { untransformed: Vec::new(), next, bytes: transformed.bytes };
        for ((outcome, number), record) in transformed.outcomes.into_iter().zip(all).zip(given.iter()) {
            match outcome {
                Ok(value) => {
                    records.push(value);
                    numbers.push(number);
                }
                Err(reason) => {
                    let reason = format!("the transformation failed: {reason}");
                    applied.untransformed.push(Untransformed { number, reason, record: record.clone() });
                }
            }
        }
        Ok(applied)
    }

    #[cfg(not(feature = "javascript"))]
    pub fn apply(
        &mut self,
        _records: &mut Vec<Value>,
        _numbers: &mut Vec<u64>,
        _stopping: impl Fn() -> bool,
    ) -> Result<Applied, Stopped> {
        Ok(Applied::default())
    }
}

#[cfg(all(test, feature = "javascript"))]
mod tests {
    use super::*;

    fn read(given: Json) -> Result<Transformation, String> {
        let checked = Transformation::read(&json!({"transformation": given})).and_then(|read| read.check().map(|()| read));
        checked.map_err(|error| match error {
            ApiError::Decode(mistakes) => mistakes.join("; "),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn a_definition_is_read_and_what_cannot_be_is_refused() {
        let refused = |given: Json, expected: &str| {
            let mistakes = read(given).err().expect("should have been refused");
            assert!(mistakes.contains(expected), "{mistakes}");
        };
        assert!(!read(Json::Null).expect("nothing is fine").is_some());
        let (given, mut shown) = (json!({"type": "JavaScript", "function": "that => that.a"}), json!({}));
        read(given.clone()).expect("is read").show(&mut shown);
        assert_eq!(shown, json!({"transformation": given}));
        refused(json!("x"), "expecting object");
        refused(json!({"function": "x => x"}), "type");
        refused(json!({"type": "Lua", "function": "x"}), "names no known transformation");
        refused(json!({"type": "JavaScript"}), ".function: Missing required field (in .transformation)");
        refused(json!({"type": "JavaScript", "function": "x => {"}), ".transformation.function: SyntaxError");
        refused(json!({"type": "JavaScript", "function": "5"}), "not the text of one function");
    }

    fn running(function: &str) -> Running {
        let transformation = read(json!({"type": "JavaScript", "function": function})).expect("is read");
        transformation.start("s").expect("starts").expect("is there")
    }

    #[test]
    fn records_and_their_numbers_stay_together() {
        let function = "n => { if (n % 2) throw new Error(`odd: ${n}`); return n / 2; }";
        let mut running = running(function);
        let (mut records, mut numbers) = ((0..6).map(Value::Integer).collect::<Vec<_>>(), (10..16).collect::<Vec<_>>());
        let applied = running.apply(&mut records, &mut numbers, || false).ok().expect("goes on");
        assert_eq!((numbers, applied.next), (vec![10, 12, 14], None));
        assert_eq!(records.iter().map(Value::shown).collect::<Vec<_>>(), ["0", "1", "2"]);
        let failed = applied.untransformed.into_iter();
        let failed: Vec<_> = failed.map(|failed| (failed.number, failed.reason, failed.record.shown())).collect();
        assert_eq!(failed[1], (13, "the transformation failed: Error: odd: 3".to_owned(), "3".to_owned()));
        assert_eq!(failed.len(), 3);
    }

    #[test]
    fn what_becomes_very_large_is_left_for_later() {
        let function = "n => { if (n === 0) throw new Error('zero'); return 'x'.repeat(25000000); }";
        let mut running = running(function);
        let (mut records, mut numbers) = ((0..6).map(Value::Integer).collect::<Vec<_>>(), (10..16).collect::<Vec<_>>());
        let applied = running.apply(&mut records, &mut numbers, || false).ok().expect("goes on");
        assert_eq!((numbers, records.len()), (vec![11, 12, 13], 3));
        assert_eq!((applied.next, applied.untransformed.len()), (Some(14), 1));
        assert!(applied.bytes >= 75_000_000, "{}", applied.bytes);
    }
}
