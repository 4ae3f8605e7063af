//! Requests with what they must be answered: one weir for all cases of a test, which run in their order, and hold what the
//! OpenAPI documents promise.

use serde_json::{Value as Json, json};

use crate::client::Answer;
use crate::contract::{Sent, breach};
use crate::service::{Home, Weir};

pub const DATA: &str = "application/json";
pub const TEXT: &str = "text/plain";

/// What an answer must be.
pub enum Is {
    /// No body.
    Empty,
    /// JSON, with at least these fields; `"…"` stands for anything.
    Json(Json),
    /// A text that begins so.
    Text(&'static str),
}

pub struct Case {
    pub request: &'static str,
    pub content_type: &'static str,
    pub body: String,
    pub status: u16,
    pub is: Is,
}

pub fn case(request: &'static str, status: u16, is: Is) -> Case {
    Case { request, content_type: "", body: String::new(), status, is }
}

pub fn with(request: &'static str, body: Json, status: u16, is: Is) -> Case {
    Case { request, content_type: DATA, body: body.to_string(), status, is }
}

pub fn cypher(request: &'static str, text: &str, status: u16, is: Is) -> Case {
    Case { request, content_type: TEXT, body: text.to_owned(), status, is }
}

/// An error of v2, in which each generation finds its own key.
pub fn v2_error(status: u16, word: &str, kind: &str, message: &str) -> Is {
    Is::Json(
        json!({"errors": [{"type": kind, "message": message}], "error": {"code": status, "status": word, "message": message}}),
    )
}

pub fn content(content: Json) -> Is {
    Is::Json(json!({"content": content, "warnings": []}))
}

/// `{id}` in paths stands for the node `idFrom('r')`.
pub fn run(weir: &Weir, cases: Vec<Case>) {
    let id = weir.rows("RETURN idFrom('r')")[0][0].as_str().expect("an id").to_owned();
    let mut wrong = Vec::new();
    for case in cases {
        let request = case.request.replace("{id}", &id);
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let headers: &[(&str, &str)] = if case.content_type.is_empty() { &[] } else { &[("Content-Type", case.content_type)] };
        let body = case.body.replace("{id}", &id);
        let answer = weir.send(method, path, headers, body.as_bytes());
        let content_type = (!case.content_type.is_empty()).then_some(case.content_type);
        let sent = Sent { method, target: path, content_type, body: body.as_bytes() };
        if let Some(how) = check(case.status, &case.is, &answer).err().or_else(|| breach(&sent, &answer)) {
            wrong.push(format!("{request}\n  {how}\n  answered {}", answer.shown()));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// How an answer is not what it must be.
pub fn check(status: u16, is: &Is, answer: &Answer) -> Result<(), String> {
    if answer.status != status {
        return Err(format!("status {} for {status}", answer.status));
    }
    match is {
        Is::Empty if answer.body.is_empty() => Ok(()),
        Is::Empty => Err("a body".to_owned()),
        Is::Text(begin) if answer.text().starts_with(begin) => Ok(()),
        Is::Text(begin) => Err(format!("should begin with {begin}")),
        Is::Json(expected) => {
            if answer.header("content-type") != Some(DATA) {
                return Err("not JSON by its content type".to_owned());
            }
            fits(expected, &answer.json(), "")
        }
    }
}

/// Objects may hold more than is expected.
fn fits(expected: &Json, found: &Json, at: &str) -> Result<(), String> {
    match (expected, found) {
        (Json::String(any), _) if any == "…" => Ok(()),
        (Json::Object(a), Json::Object(b)) => a.iter().try_for_each(|(key, expected)| {
            let found = b.get(key).ok_or_else(|| format!("{at}/{key} is missing"))?;
            fits(expected, found, &format!("{at}/{key}"))
        }),
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(index, (a, b))| fits(a, b, &format!("{at}/{index}")))
        }
        (Json::String(begin), Json::String(whole)) if begin.strip_suffix('…').is_some_and(|begin| whole.starts_with(begin)) => {
            Ok(())
        }
        _ if expected == found => Ok(()),
        _ => Err(format!("{at} is {found} for {expected}")),
    }
}

/// Ann, at `idFrom('r')`, who knows Bo.
pub const TWO: &str = "MATCH (a), (b) WHERE id(a) = idFrom('r') AND id(b) = idFrom('s') SET a:Person, a.name = 'Ann', b.name = 'Bo' CREATE (a)-[:KNOWS]->(b)";

pub fn weir() -> Weir {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    weir.rows(TWO);
    weir
}
