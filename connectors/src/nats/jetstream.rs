//! JetStream: what its API is asked and what it answers, in JSON; and what the subject says that a message is answered to.

use serde_json::{Value as Json, json};

use super::connection::{Connection, Message};
use crate::ends::Refused;

/// Numbers of errors that mean something here.
pub const STREAM_NOT_FOUND: u64 = 10_059;
pub const CONSUMER_NOT_FOUND: u64 = 10_014;
pub const EXPLICIT_ACKNOWLEDGEMENT: [u64; 3] = [10_098, 10_099, 10_084];
pub const MESSAGE_TOO_LARGE: u64 = 10_054;

/// Why a question came to nothing.
#[derive(Debug)]
pub enum Failed {
    /// With a new connection, or later, it may work.
    Broken(String),
    /// The API says no.
    Refused { number: u64, words: String },
}

impl From<String> for Failed {
    fn from(problem: String) -> Failed {
        Failed::Broken(problem)
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Refused {
        Refused::Passing(failed.text())
    }
}

impl Failed {
    pub fn text(self) -> String {
        match self {
            Failed::Broken(problem) => problem,
            Failed::Refused { words, .. } => words,
        }
    }
}

pub async fn ask(connection: &mut Connection, prefix: &str, what: &str, question: Option<&Json>) -> Result<Json, Failed> {
    let question = question.map(Json::to_string).unwrap_or_default();
    let answer = connection.ask(&format!("{prefix}.{what}"), question.as_bytes()).await?;
    read(&answer)
}

/// An answer, if it is one and says yes.
pub fn read(answer: &Message) -> Result<Json, Failed> {
    match answer.status() {
        Some((503, _)) => return Err(Failed::Broken("no stream and no JetStream takes the subject".to_owned())),
        Some((code, words)) => return Err(Failed::Broken(format!("the server answers {code} {words}"))),
        None => {}
    }
    let said: Json =
        serde_json::from_slice(&answer.payload).map_err(|_| Failed::Broken("the answer is not that of JetStream".to_owned()))?;
    let Some(error) = said.get("error").filter(|error| !error.is_null()) else { return Ok(said) };
    let words = error["description"].as_str().unwrap_or("the server gives no reason").to_owned();
    match error["err_code"].as_u64() {
        // 503 and the like pass: the cluster has no leader at the moment.
        Some(number) if error["code"].as_u64().is_none_or(|code| code < 500) => Err(Failed::Refused { number, words }),
        _ => Err(Failed::Broken(words)),
    }
}

/// Where a message lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub in_stream: u64,
    /// Deliveries of the consumer, this one included.
    pub in_consumer: u64,
}

impl Place {
    /// From the subject that the message is answered to. There are two forms of it: the newer one has a domain and an account
    /// before the stream.
    pub fn of(reply: &str) -> Option<Place> {
        let words: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let words = match words.len() {
            7 => &words[..],
            9.. => &words[2..],
            _ => return None,
        };
        Some(Place { in_stream: words[3].parse().ok()?, in_consumer: words[4].parse().ok()? })
    }
}

/// Asks a consumer for `count` messages, which come to the inbox; until then the server says every five seconds that it is there.
pub fn pull(count: usize, bytes_max: usize) -> Vec<u8> {
    const SECOND: u64 = 1_000_000_000;
    json!({"batch": count, "max_bytes": bytes_max, "expires": 30 * SECOND, "idle_heartbeat": 5 * SECOND}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_it_lies() {
        let place = Some(Place { in_stream: 33, in_consumer: 7 });
        assert_eq!(Place::of("$JS.ACK.events.weir.1.33.7.1690000000000000000.5"), place);
        assert_eq!(Place::of("$JS.ACK.hub.ABCDEF.events.weir.1.33.7.1690000000000000000.5.xyz"), place);
        for reply in ["_INBOX.1.2", "$JS.ACK.events.weir.1.33", "$JS.ACK.events.weir.1.x.7.1.5", "$JS.ACK.a.b.c.d.e.f.g.h"] {
            assert_eq!(Place::of(reply), None, "{reply}");
        }
    }

    #[test]
    fn what_the_api_refuses_is_told_from_what_may_pass() {
        let said = |headers: &str, payload: &str| {
            let (headers, payload) = (headers.to_owned(), payload.as_bytes().to_vec());
            read(&Message { subject: "s".to_owned(), reply: None, headers, payload })
        };
        assert_eq!(said("", r#"{"seq": 5}"#).unwrap()["seq"], 5);
        let refused = said("", r#"{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}"#);
        assert!(matches!(refused, Err(Failed::Refused { number: STREAM_NOT_FOUND, .. })));
        for (headers, payload) in [
            ("NATS/1.0 503\r\n\r\n", ""),
            ("", "nonsense"),
            ("", r#"{"error": {"code": 503, "err_code": 10008, "description": "no leader"}}"#),
        ] {
            assert!(matches!(said(headers, payload), Err(Failed::Broken(_))), "{payload}");
        }
    }
}
