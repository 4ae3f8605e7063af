//! Results that a destination refuses, on their way to the destinations of dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use weir_connectors::delivery::TakesRefused;
use weir_connectors::{ConnectorError, DeadLetters, FilePolicy, HostPolicy, LetterForm, Outgoing, RecordSchema};
use weir_model::{IdScheme, Map, NodeId, Value};

use super::Named;
use crate::wire::letters::LetterBox;

/// What the envelope of a letter has.
const FIELDS: &str = "standingQuery, output, message, tick, isPositiveMatch, resultId, result";

/// What letters to this destination are written by: None where they are no messages, an error where they could not be told.
pub fn schema(to: &LetterBox, files: &FilePolicy, hosts: &HostPolicy) -> Result<Option<Arc<RecordSchema>>, ConnectorError> {
    let schema = to.schema(files, hosts)?;
    if let (LetterForm::Message { envelope: true }, Some(schema)) = (to.form, &schema) {
        let result = Outgoing { body: b"{}".to_vec(), positive: true, mark: 1, id: Some(NodeId { high: 0, low: 1 }) };
        let letter = Letter { result: &result, reason: "reason", query: "query", output: "output", ids: IdScheme::Uuid };
        let nothing = schema.write(&Map::default(), letter.ids).ok();
        let problem = match letter.message(true, schema) {
            Err(problem) => Some(problem),
            Ok(written) if Some(&written) == nothing.as_ref() => {
                Some(format!("{} has none of the fields that are told: {FIELDS}", schema.name))
            }
            Ok(_) => None,
        };
        if let Some(problem) = problem {
            return Err(ConnectorError::config("outputFormat.typeName", problem));
        }
    }
    Ok(schema)
}

pub struct Letters {
    open: DeadLetters,
    query: String,
    output: String,
    ids: IdScheme,
}

impl Letters {
    pub fn new(open: DeadLetters, named: Named<'_>, ids: IdScheme) -> Letters {
        Letters { open, query: named.query.to_owned(), output: named.output.to_owned(), ids }
    }
}

impl TakesRefused for Letters {
    fn take(&mut self, refused: &[(Outgoing, String)], stop: &AtomicBool, late: &mut dyn FnMut(String)) -> Result<bool, String> {
        let Letters { open, query, output, ids } = self;
        let letter = |index: usize, form, schema: Option<&RecordSchema>| {
            let (result, reason) = &refused[index];
            Letter { result, reason, query, output, ids: *ids }.body(form, schema)
        };
        open.send(refused.len(), letter, || stop.load(Ordering::Relaxed), late)
    }

    fn close(&mut self, all: bool) {
        std::mem::take(&mut self.open).close(all);
    }
}

/// A result that was refused.
struct Letter<'a> {
    result: &'a Outgoing,
    reason: &'a str,
    query: &'a str,
    output: &'a str,
    ids: IdScheme,
}

impl Letter<'_> {
    fn body(&self, form: LetterForm, schema: Option<&RecordSchema>) -> Result<Vec<u8>, String> {
        match (form, schema) {
            (LetterForm::Bytes, _) => Ok(self.result.body.clone()),
            (LetterForm::Message { envelope }, Some(schema)) => self.message(envelope, schema),
            (LetterForm::Json { envelope } | LetterForm::Message { envelope }, _) => {
                Ok(self.json(envelope).to_string().into_bytes())
            }
        }
    }

    /// As it was to be sent, but for the end of its line.
    fn sent(&self) -> &[u8] {
        self.result.body.strip_suffix(b"\n").unwrap_or(&self.result.body)
    }

    fn json(&self, envelope: bool) -> Json {
        let sent = self.sent();
        let shown = serde_json::from_slice(sent).unwrap_or_else(|_| {
            // By a schema: bytes are written as values are.
            let mut text = Vec::new();
            weir_model::json::write(&Value::Bytes(sent.into()), self.ids, &mut text);
            Json::from(String::from_utf8_lossy(&text).trim_matches('"'))
        });
        if !envelope {
            return shown;
        }
        let mut letter = json!({"standingQuery": self.query, "output": self.output, "message": self.reason,
            "tick": self.result.mark.to_string(), "isPositiveMatch": self.result.positive, "result": shown});
        if let Some(id) = self.result.id {
            letter["resultId"] = id.to_string().into();
        }
        letter
    }

    /// As `json`, by a schema. What the result is there says the type of its field: a message, a text, or bytes.
    fn message(&self, envelope: bool, schema: &RecordSchema) -> Result<Vec<u8>, String> {
        let sent = self.sent();
        let parsed = weir_model::json::parse(sent).ok();
        let fit = |problem: String| format!("a dead letter does not fit {}: {problem}", schema.name);
        let whole = match (envelope, &parsed) {
            (false, Some(Value::Map(fields))) => return schema.write(fields, self.ids).map_err(fit),
            (false, _) => Map::default(),
            (true, _) => Map::from_iter([
                ("standingQuery".into(), Value::text(self.query)),
                ("output".into(), Value::text(self.output)),
                ("message".into(), Value::text(self.reason)),
                ("isPositiveMatch".into(), Value::Boolean(self.result.positive)),
                ("resultId".into(), self.result.id.map_or(Value::Null, |id| Value::text(&id.to_string()))),
            ]),
        };
        let text = std::str::from_utf8(sent).ok().filter(|_| parsed.is_some()).map(Value::text);
        let tick = self.result.mark;
        let ticks = if envelope { vec![Value::Integer(tick as i64), Value::text(&tick.to_string())] } else { vec![Value::Null] };
        let mut problem = String::new();
        for result in parsed.into_iter().chain(text).chain([Value::Bytes(sent.into())]) {
            for tick in &ticks {
                let mut letter = whole.clone();
                letter.insert("tick".into(), tick.clone());
                letter.insert("result".into(), result.clone());
                match schema.write(&letter, self.ids) {
                    Ok(written) => return Ok(written),
                    Err(found) => problem = found,
                }
            }
        }
        Err(fit(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(result: &Outgoing, form: LetterForm) -> Vec<u8> {
        let letter = Letter { result, reason: "no \"a\"", query: "q", output: "o", ids: IdScheme::Uuid };
        letter.body(form, None).expect("fits")
    }

    #[test]
    fn letters_have_what_was_sent_and_why_it_was_refused() {
        let result = Outgoing { body: b"{\"data\":{\"a\":1}}\n".to_vec(), positive: false, mark: 1 << 60, id: None };
        let letter = |form| String::from_utf8(body(&result, form)).expect("text");
        assert_eq!(letter(LetterForm::Bytes), "{\"data\":{\"a\":1}}\n");
        assert_eq!(letter(LetterForm::Json { envelope: false }), "{\"data\":{\"a\":1}}");
        let whole: Json = serde_json::from_str(&letter(LetterForm::Json { envelope: true })).expect("JSON");
        let expected = json!({"standingQuery": "q", "output": "o", "message": "no \"a\"", "tick": (1u64 << 60).to_string(),
            "isPositiveMatch": false, "result": {"data": {"a": 1}}});
        assert_eq!(whole, expected);
        let by_schema = Outgoing { body: vec![0, 255], ..Outgoing::default() };
        assert_eq!(body(&by_schema, LetterForm::Json { envelope: false }), b"\"AP8=\"");
    }
}
