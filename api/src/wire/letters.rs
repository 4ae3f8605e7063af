//! What failed, in definitions: the destinations of dead letters, and what becomes of results that a destination refuses.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::config::wrong_type;
use weir_connectors::{
    ConnectorError, DESTINATIONS, DestinationConfig, DestinationRow, FilePolicy, HostPolicy, LetterForm, RecordSchema, Retries,
};

use super::decode::{Fields, Mistakes};
use super::family::Family;
use super::standing::Output;
use super::v2::standing::{destination_json, read_destination};

/// Destinations of results that are none of dead letters.
pub const NO_LETTER_BOXES: [&str; 6] = ["Drop", "CypherQuery", "Slack", "Elasticsearch", "S3", "Postgres"];

/// What becomes of a result that the destination refuses, as the destination says.
pub const ON_RESULT_ERROR: &str = "onResultError";

/// What a letter is, of letters and of results; and an option of the former.
const OUTPUT_FORMAT: &str = "outputFormat";
const FORMAT: &str = "format";
const ENVELOPE: &str = "withInfoEnvelope";

#[derive(Clone)]
pub struct LetterBox {
    output: Output,
    pub config: Arc<dyn DestinationConfig>,
    pub retries: Retries,
    pub form: LetterForm,
}

/// What becomes of a result that the other side refuses for good, or that was tried too often.
#[derive(Clone, Default)]
pub enum Refusals {
    #[default]
    GiveUp,
    Fail,
    Retry,
    DeadLetter(Vec<LetterBox>),
}

/// How a definition is written down.
#[derive(Clone, Copy)]
pub enum Notation {
    Shown(Family),
    /// With secrets, as v1 has it.
    Stored,
}

/// The destinations of dead letters; `no` says what one does that is none.
pub fn letter_boxes(fields: &Fields<'_>, no: &str, mistakes: &mut Mistakes) -> Vec<LetterBox> {
    let path = fields.path_of("destinations");
    let Some(given) = fields.get("destinations") else { return Vec::new() };
    let Some(given) = given.as_array() else {
        mistakes.at(&path, wrong_type(given, "array"));
        return Vec::new();
    };
    let read = |(index, given): (usize, &Json)| {
        let (path, mut of_it) = (format!("{path}[{index}]"), Mistakes::default());
        let read = LetterBox::read(given, &path, no, &mut of_it);
        mistakes.within(&path, of_it);
        read
    };
    given.iter().enumerate().filter_map(read).collect()
}

impl LetterBox {
    fn read(given: &Json, path: &str, no: &str, mistakes: &mut Mistakes) -> Option<LetterBox> {
        let (fields, kind) = Fields::tagged(given, path, mistakes)?;
        if NO_LETTER_BOXES.contains(&kind) {
            mistakes.at(path, format!("the destination '{kind}' {no}"));
            return None;
        }
        if fields.get(ON_RESULT_ERROR).is_some() {
            mistakes.at(path, format!("what dead letters go to has no {ON_RESULT_ERROR}: nothing goes on before it has them"));
            return None;
        }
        let form = match fields.get(OUTPUT_FORMAT) {
            None => LetterForm::Json { envelope: false },
            // As clients of the reference service write its default.
            Some(format) if format.is_object() && format.get("type").is_none() => {
                let inner = Fields::of(format, &format!("{path}.{OUTPUT_FORMAT}"), mistakes)?;
                LetterForm::Json { envelope: inner.boolean(ENVELOPE, mistakes).unwrap_or(false) }
            }
            Some(format) => {
                let (inner, name) = Fields::tagged(format, &format!("{path}.{OUTPUT_FORMAT}"), mistakes)?;
                match name {
                    "Bytes" => LetterForm::Bytes,
                    "JSON" => LetterForm::Json { envelope: inner.boolean(ENVELOPE, mistakes).unwrap_or(false) },
                    "Protobuf" => LetterForm::Message { envelope: inner.boolean(ENVELOPE, mistakes).unwrap_or(false) },
                    other => {
                        mistakes.at(
                            &format!("{path}.{OUTPUT_FORMAT}"),
                            format!("type '{other}' names no format; there are Bytes, JSON, Protobuf"),
                        );
                        return None;
                    }
                }
            }
        };
        // A destination of results knows by its format what it is given, and where one ends.
        let mut definition: JsonMap<String, Json> =
            fields.entries().filter(|(name, _)| *name != FORMAT).map(|(name, value)| (name.clone(), value.clone())).collect();
        definition.remove(OUTPUT_FORMAT);
        if let (LetterForm::Message { .. }, Some(format)) = (form, fields.get(OUTPUT_FORMAT).and_then(Json::as_object)) {
            let format = format.iter().filter(|(name, _)| *name != ENVELOPE);
            definition.insert(FORMAT.to_owned(), format.map(|(name, value)| (name.clone(), value.clone())).collect());
        }
        let row = DESTINATIONS.iter().find(|row| [row.name, row.name_v1].contains(&kind));
        if matches!(form, LetterForm::Message { .. }) && row.is_some_and(|row| !takes_a_format(row)) {
            let others = taking_a_format();
            let problem = format!("the destination '{kind}' holds texts and takes no Protobuf; these do: {others}");
            mistakes.at(&format!("{path}.{OUTPUT_FORMAT}"), problem);
            return None;
        }
        let output = read_destination(&Json::Object(definition), path, mistakes)?;
        let Some(to) = output.own_destination().filter(|to| !is_none(&to.config.settings())) else {
            mistakes.at(path, format!("the destination '{kind}' {no}"));
            return None;
        };
        Some(LetterBox { config: to.config.clone(), retries: to.retries, output, form })
    }

    /// What letters are written by, fetched from where the definition says.
    pub fn schema(&self, files: &FilePolicy, hosts: &HostPolicy) -> Result<Option<Arc<RecordSchema>>, ConnectorError> {
        let (LetterForm::Message { .. }, Some(format)) = (self.form, self.config.format()) else { return Ok(None) };
        format.schema(self.config.subject(), files, hosts).map_err(|error| match error {
            ConnectorError::Config { field, problem } => {
                let field = field.strip_prefix(FORMAT).map_or(field.clone(), |inner| format!("{OUTPUT_FORMAT}{inner}"));
                ConnectorError::Config { field, problem }
            }
            other => other,
        })
    }

    pub fn shown(&self, family: Family) -> Json {
        self.written(Notation::Shown(family))
    }

    fn written(&self, notation: Notation) -> Json {
        let mut written = self.output.written(notation);
        let format = written.as_object_mut().and_then(|fields| fields.remove(FORMAT));
        written[OUTPUT_FORMAT] = match self.form {
            LetterForm::Bytes => json!({"type": "Bytes"}),
            LetterForm::Json { envelope } => json!({"type": "JSON", ENVELOPE: envelope}),
            LetterForm::Message { envelope } => {
                let mut format = format.unwrap_or_default();
                format[ENVELOPE] = envelope.into();
                format
            }
        };
        written
    }
}

/// The destinations that can be given something else than JSON.
pub fn taking_a_format() -> String {
    DESTINATIONS.iter().filter(|row| takes_a_format(row)).map(|row| row.name).collect::<Vec<_>>().join(", ")
}

pub fn takes_a_format(row: &DestinationRow) -> bool {
    (row.parse_v1)(&(row.sample)()).is_ok_and(|config| config.format().is_some())
}

/// One that takes no letters, by its name in v1.
fn is_none(settings: &Json) -> bool {
    let named = |row: &&weir_connectors::DestinationRow| settings["type"] == row.name_v1;
    weir_connectors::DESTINATIONS.iter().find(named).is_some_and(|row| NO_LETTER_BOXES.contains(&row.name))
}

impl Output {
    fn written(&self, notation: Notation) -> Json {
        match notation {
            Notation::Shown(Family::V1) => self.to_json(),
            Notation::Shown(family) => destination_json(self, family),
            Notation::Stored => self.to_stored_json(),
        }
    }
}

impl Refusals {
    /// Out of the definition of a destination.
    pub fn read(fields: &Fields<'_>, config: &dyn DestinationConfig, mistakes: &mut Mistakes) -> Option<Refusals> {
        let Some(given) = fields.get(ON_RESULT_ERROR) else { return Some(Refusals::GiveUp) };
        let path = format!(".{ON_RESULT_ERROR}");
        let inner = Fields::of(given, &path, mistakes)?;
        let (_, kind) = Fields::tagged(given, &path, mistakes)?;
        match kind {
            "GiveUp" => Some(Refusals::GiveUp),
            "Fail" => Some(Refusals::Fail),
            "Retry" if config.commits_with_results() => {
                let why = "with exactlyOnce what is refused is left behind when the others are committed; choose another type";
                mistakes.at(&path, why);
                None
            }
            "Retry" => Some(Refusals::Retry),
            "DeadLetter" => {
                let before = mistakes.0.len();
                let boxes = letter_boxes(&inner, "takes no dead letters", mistakes);
                if boxes.is_empty() && mistakes.0.len() == before {
                    mistakes.at(&format!("{path}.destinations"), "at least one destination is needed");
                }
                (mistakes.0.len() == before).then_some(Refusals::DeadLetter(boxes))
            }
            other => {
                mistakes.at(&path, format!("type '{other}' is not one of GiveUp, Fail, Retry, DeadLetter"));
                None
            }
        }
    }

    /// Adds it to the definition of its destination, where it is not the usual.
    pub fn write(&self, definition: &mut Json, notation: Notation) {
        let kind = match self {
            Refusals::GiveUp => return,
            Refusals::Fail => "Fail",
            Refusals::Retry => "Retry",
            Refusals::DeadLetter(_) => "DeadLetter",
        };
        definition[ON_RESULT_ERROR] = json!({"type": kind});
        if let Refusals::DeadLetter(boxes) = self {
            definition[ON_RESULT_ERROR]["destinations"] = boxes.iter().map(|letters| letters.written(notation)).collect();
        }
    }

    /// Where dead letters go.
    pub fn boxes(&self) -> &[LetterBox] {
        if let Refusals::DeadLetter(boxes) = self { boxes } else { &[] }
    }
}
