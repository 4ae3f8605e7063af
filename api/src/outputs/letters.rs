//! Results that a destination refuses, on their way to the destinations of dead letters.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use weir_connectors::delivery::TakesRefused;
use weir_connectors::{DeadLetters, LetterForm, Outgoing, RecordSchema};
use weir_model::{IdScheme, Value};

pub struct Letters {
    open: DeadLetters,
    query: String,
    output: String,
}

impl Letters {
    pub fn new(open: DeadLetters, query: &str, output: &str) -> Letters {
        Letters { open, query: query.to_owned(), output: output.to_owned() }
    }
}

impl TakesRefused for Letters {
    fn take(&mut self, refused: &[(Outgoing, String)], stop: &AtomicBool, late: &mut dyn FnMut(String)) -> Result<bool, String> {
        let (query, output) = (&self.query, &self.output);
        let letter = |index: usize, form, _: Option<&RecordSchema>| {
            let (result, reason) = &refused[index];
            Ok(body(result, reason, form, (query, output)))
        };
        self.open.send(refused.len(), letter, || stop.load(Ordering::Relaxed), late)
    }

    fn close(&mut self, all: bool) {
        std::mem::take(&mut self.open).close(all);
    }
}

fn body(result: &Outgoing, reason: &str, form: LetterForm, (query, output): (&str, &str)) -> Vec<u8> {
    let body = result.body.strip_suffix(b"\n").unwrap_or(&result.body);
    let shown = || match serde_json::from_slice::<Json>(body) {
        Ok(json) => json,
        // By a schema: bytes are written as values are.
        Err(_) => {
            let mut text = Vec::new();
            weir_model::json::write(&Value::Bytes(body.into()), IdScheme::Uuid, &mut text);
            Json::from(String::from_utf8_lossy(&text).trim_matches('"'))
        }
    };
    match form {
        LetterForm::Bytes => result.body.clone(),
        // Definitions of results that are refused have none by a schema.
        LetterForm::Json { envelope: false } | LetterForm::Message { envelope: false } => shown().to_string().into_bytes(),
        LetterForm::Json { envelope: true } | LetterForm::Message { envelope: true } => {
            let mut letter = json!({"standingQuery": query, "output": output, "message": reason, "tick": result.mark.to_string(),
                "isPositiveMatch": result.positive, "result": shown()});
            if let Some(id) = result.id {
                letter["resultId"] = id.to_string().into();
            }
            letter.to_string().into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_what_was_sent_and_why_it_was_refused() {
        let result = Outgoing { body: b"{\"data\":{\"a\":1}}\n".to_vec(), positive: false, mark: 1 << 60, id: None };
        let letter = |form| String::from_utf8(body(&result, "no \"a\"", form, ("q", "o"))).expect("text");
        assert_eq!(letter(LetterForm::Bytes), "{\"data\":{\"a\":1}}\n");
        assert_eq!(letter(LetterForm::Json { envelope: false }), "{\"data\":{\"a\":1}}");
        let whole: Json = serde_json::from_str(&letter(LetterForm::Json { envelope: true })).expect("JSON");
        let expected = json!({"standingQuery": "q", "output": "o", "message": "no \"a\"", "tick": (1u64 << 60).to_string(),
            "isPositiveMatch": false, "result": {"data": {"a": 1}}});
        assert_eq!(whole, expected);
        let by_schema = Outgoing { body: vec![0, 255], ..Outgoing::default() };
        assert_eq!(body(&by_schema, "no", LetterForm::Json { envelope: false }, ("q", "o")), b"\"AP8=\"");
    }
}
