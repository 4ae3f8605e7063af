//! The definition of an output to JetStream, and what writes it: in order, each with an id that is the same whenever the same
//! result is sent again, by which the stream drops repetitions within its window (two minutes, if nobody changed it).

use std::collections::HashMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, NatsAccess, is_subject};
use super::connection::{Connection, put};
use super::jetstream::{Failed, MESSAGE_TOO_LARGE, read};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::{Refused, Writer};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// Publishes each result to NATS JetStream.
///
/// Each result arrives at least once, in order; the server drops repetitions within its duplicate window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToNats {
    #[serde(flatten)]
    pub access: NatsAccess,
    /// The subject to publish to. A JetStream stream has to capture it.
    pub subject: String,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

impl DestinationConfig for WriteToNats {
    fn settings(&self) -> Json {
        crate::settings("WriteToNats", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn check(&self) -> Result<(), ConnectorError> {
        if !is_subject(&self.subject) || self.subject.contains(['*', '>']) {
            return Err(ConnectorError::config("subject", "is no subject that can be published to: no stars, no white space"));
        }
        self.access.check(&HostPolicy::default())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let (place, subject) = (login.place.clone(), self.subject.clone());
        Ok(Box::new(Publisher::new(context, &place, Publishing { login, subject })))
    }
}

struct Publishing {
    login: Login,
    subject: String,
}

impl Publish for Publishing {
    type Connection = Connection;

    const IDS: bool = true;

    /// What a server asks, which gives up after some minutes, is only read with answers: this answers it beforehand.
    const ALIVE: Option<(Duration, &[u8])> = Some((Duration::from_secs(30), b"PONG\r\n"));

    async fn connect(&mut self) -> Result<Connection, Refused> {
        Ok(self.login.connect().await?)
    }

    async fn publish(
        &mut self,
        connection: &mut Connection,
        results: &[Outgoing],
        ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused> {
        let payload_max = connection.greeting.max_payload;
        let (mut bytes, mut end) = (Vec::new(), first);
        let (mut asked, mut unfit) = (HashMap::new(), None);
        while end < results.len() && bytes.len() < BYTES_MAX {
            let headers = format!("Nats-Msg-Id: {}\r\n", ids[end]);
            let body = &results[end].body;
            // The server would close the connection. Its limit is for headers, too.
            if body.len() + headers.len() + 12 > payload_max {
                let problem = format!("the result has {} bytes, and the server takes messages of {payload_max}", body.len());
                unfit = Some((end, problem));
                end += 1;
                break;
            }
            let inbox = connection.next_inbox();
            put(&self.subject, Some(&inbox), &headers, body, &mut bytes);
            asked.insert(inbox, end);
            end += 1;
        }
        connection.writer.send(&bytes).await?;
        let deadline = Instant::now() + ANSWERS_TIME_MAX;
        while !asked.is_empty() {
            let answer = connection
                .message(deadline)
                .await?
                .ok_or_else(|| Refused::Passing("the server does not answer any more".to_owned()))?;
            let Some(index) = asked.remove(&answer.subject) else { continue };
            match read(&answer) {
                Ok(_) => {}
                Err(Failed::Refused { number: MESSAGE_TOO_LARGE, words }) => written.refused.push((index, words)),
                Err(failed) => {
                    written.left.push(index);
                    written.left_reason.get_or_insert(failed.text());
                }
            }
        }
        written.refused.extend(unfit);
        Ok(end)
    }

    fn writer(connection: &Connection) -> &Writer {
        &connection.writer
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;

    use serde_json::json;

    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side};

    /// A server as far as an output needs one: it says how long a message may be, and acknowledges and keeps each.
    fn serve(mut connection: TcpStream, payload_max: usize, taken: &Mutex<Vec<String>>) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        write!(connection, "INFO {{\"headers\":true,\"max_payload\":{payload_max}}}\r\n").unwrap();
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["PING"] => connection.write_all(b"PONG\r\n").unwrap(),
                ["HPUB", _, reply, head, whole] => {
                    let (head, whole): (usize, usize) = (head.parse().unwrap(), whole.parse().unwrap());
                    assert!(whole <= payload_max, "it would close the connection");
                    let mut message = vec![0; whole + 2];
                    reader.read_exact(&mut message).unwrap();
                    taken.lock().unwrap().push(String::from_utf8(message[head..whole].to_vec()).unwrap());
                    let answer = r#"{"stream":"s","seq":1}"#;
                    write!(connection, "MSG {reply} 1 {}\r\n{answer}\r\n", answer.len()).unwrap();
                }
                _ => {}
            }
            line.clear();
        }
    }

    #[test]
    fn nothing_overtakes_a_result_that_is_more_than_the_server_takes() {
        const PAYLOAD_MAX: usize = 1_000;
        let (address, taken) = other_side(|connection, taken| serve(connection, PAYLOAD_MAX, taken));
        let (runtime, long) = (runtime(), "x".repeat(PAYLOAD_MAX));
        let definition = json!({"type": "WriteToNats", "servers": [format!("nats://{address}")], "subject": "results"});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let results = bodies(&["1", "2", &long, "3", "4"]);
        let open = || config.open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
    }
}
