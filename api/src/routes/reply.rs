//! What handlers answer with, and how each family sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::Stream;
use serde_json::{Value as Json, json};
use warp::http::header::{CACHE_CONTROL, CONTENT_TYPE, WARNING};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::{Reply as _, Response};

use crate::error::{self, ApiError};
use crate::leaving::Cut;
use crate::wire::family::Family;

pub const JSON: &str = "application/json";

/// The longest header `Warning`, as proxies refuse answers with long headers. The body says what more there is.
const WARNING_BYTES_MAX: usize = 4000;

pub enum Reply {
    /// 200 with a value.
    Value(Json),
    /// 200 with a list of named things.
    Items(Vec<Json>),
    /// 201 with the thing that is there now, and what whoever made it should look at.
    Created(Json, Vec<String>),
    /// 200 with the thing as it is now, and the same.
    Changed(Json, Vec<String>),
    /// 202: it has begun.
    Accepted,
    /// 201 without a body. What whoever made it should look at stands in the header alone.
    Added(Vec<String>),
    /// No body.
    Empty(StatusCode),
    /// As it is: streams, pages, plain texts.
    Whole(Response),
}

impl Reply {
    pub fn into_response(self, family: Family) -> Response {
        match self {
            Reply::Value(value) => json_text(family.body(value).to_string()),
            Reply::Items(items) => json_text(family.items(items).to_string()),
            Reply::Created(value, warnings) => resource(StatusCode::CREATED, family, value, warnings),
            Reply::Changed(value, warnings) => resource(StatusCode::OK, family, value, warnings),
            Reply::Accepted if family == Family::Preview => {
                let body = json!({"message": "The request has been accepted and its work has begun."});
                error::response(StatusCode::ACCEPTED, Some(JSON), body.to_string())
            }
            Reply::Accepted => error::response(StatusCode::ACCEPTED, None, String::new()),
            Reply::Added(warnings) => {
                let header = warning_header(&warnings, "more");
                warned(error::response(StatusCode::CREATED, None, String::new()), &header)
            }
            Reply::Empty(status) => error::response(status, None, String::new()),
            Reply::Whole(response) => response,
        }
    }
}

fn resource(status: StatusCode, family: Family, value: Json, warnings: Vec<String>) -> Response {
    let header = warning_header(&warnings, "more in the body");
    warned(error::response(status, Some(JSON), family.resource(value, warnings).to_string()), &header)
}

fn warned(mut response: Response, header: &str) -> Response {
    if let Ok(texts) = HeaderValue::from_str(header)
        && !texts.is_empty()
    {
        response.headers_mut().insert(WARNING, texts);
    }
    response
}

/// The value of the header; empty without warnings. `rest`: what is said of those that do not fit, behind their number.
fn warning_header(warnings: &[String], rest: &str) -> String {
    let mut header = String::new();
    for (index, warning) in warnings.iter().enumerate() {
        let next = one_warning(warning);
        if header.len() + next.len() + 2 > WARNING_BYTES_MAX {
            add(&mut header, &one_warning(&format!("{} {rest}", warnings.len() - index)));
            break;
        }
        add(&mut header, &next);
    }
    header
}

fn add(header: &mut String, next: &str) {
    if !header.is_empty() {
        header.push_str(", ");
    }
    header.push_str(next);
}

fn one_warning(text: &str) -> String {
    format!("199 quine \"{}\"", in_a_header(text))
}

/// A text between quotes in a header.
fn in_a_header(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '"' || c == '\\' {
                '\''
            } else if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

/// Runs what blocks (queries, creating and stopping things) away from the threads that serve connections.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::Failed(format!("a task failed: {error}")))?
}

/// As `blocking`, for what changes nothing: its flag is set when nobody waits for the answer any more.
pub async fn reading<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let gone = Gone::default();
    let flag = gone.0.clone();
    blocking(move || work(&flag)).await
}

/// Sets its flag when the request is over, however that came.
#[derive(Default)]
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn json_bytes(body: Vec<u8>) -> Response {
    let mut reply = warp::http::Response::new(body).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// A body that leaves as it comes. An error breaks the connection.
pub fn json_parts(parts: impl Stream<Item = std::io::Result<Vec<u8>>> + Send + Sync + 'static, cut: Cut) -> Response {
    let mut reply = warp::reply::stream(parts).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply.extensions_mut().insert(cut);
    reply
}

pub fn json_text(body: String) -> Response {
    error::response(StatusCode::OK, Some(JSON), body)
}

/// A page or a document, which may be kept for as long as `keep`.
pub fn document(content_type: &'static str, body: impl Into<String>, keep: Duration) -> Response {
    let mut reply = error::response(StatusCode::OK, Some(content_type), body.into());
    let control = if keep.is_zero() { "no-cache".to_owned() } else { format!("max-age={}", keep.as_secs()) };
    if let Ok(control) = HeaderValue::from_str(&control) {
        reply.headers_mut().insert(CACHE_CONTROL, control);
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn what_reads_is_told_when_its_client_leaves() {
        let (sender, ended) = mpsc::sync_channel(1);
        let work = reading(move |gone| {
            let began = Instant::now();
            // Bounded, so that a failure of this test is seen.
            while !gone.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = sender.send(gone.load(Ordering::Relaxed));
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), work).await.is_err());
        assert_eq!(ended.recv_timeout(Duration::from_secs(90)), Ok(true));
    }

    #[test]
    fn the_header_of_warnings_stays_short() {
        let warned = |warnings: &[String]| {
            let value = json!({"name": "x"});
            let response = Reply::Created(value, warnings.to_vec()).into_response(Family::Current);
            response.headers().get(WARNING).map(|header| header.to_str().expect("a text").to_owned())
        };
        assert_eq!(warned(&[]), None);
        let both = ["one \"quoted\"".to_owned(), "zw\u{f6}lf".to_owned()];
        assert_eq!(warned(&both).as_deref(), Some("199 quine \"one 'quoted'\", 199 quine \"zw?lf\""));
        let many: Vec<String> = (0..2000).map(|index| format!("the field `f{index}` is not known, and has no effect")).collect();
        let header = warned(&many).expect("a header");
        assert!((3000..=4096).contains(&header.len()), "{}", header.len());
        let told = header.split(", 199 ").count() - 1;
        assert!(header.ends_with(&format!("\"{} more in the body\"", 2000 - told)), "{header}");
        assert_eq!(warned(&["x".repeat(10_000)]).as_deref(), Some("199 quine \"1 more in the body\""));
        // Without a body there are no more in it.
        for (warnings, header) in
            [(vec![], None), (vec!["one".to_owned(), "x".repeat(10_000)], Some("199 quine \"one\", 199 quine \"1 more\""))]
        {
            let response = Reply::Added(warnings).into_response(Family::Current);
            let told = response.headers().get(WARNING).map(|header| header.to_str().expect("a text"));
            assert_eq!((response.status(), told), (StatusCode::CREATED, header));
        }
    }
}
