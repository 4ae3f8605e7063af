//! The definition of an output to JetStream, and what writes it: in order, each with an id that is the same whenever the same
//! result is sent again, by which the stream drops repetitions within its window (two minutes, if nobody changed it). What was
//! taken before one that comes again, and stands behind it, has another one then.

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
use crate::ends::{Refused, Writer, way_time_max};
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
        let publishing = Publishing { login, subject, answer_time_max: ANSWERS_TIME_MAX };
        Ok(Box::new(Publisher::new(context, &place, publishing)))
    }
}

struct Publishing {
    login: Login,
    subject: String,
    /// For one answer, besides the time that what it answers may be under way.
    answer_time_max: Duration,
}

impl Publish for Publishing {
    type Connection = Connection;

    const IDS: bool = true;

    const DROPS_KNOWN: bool = true;

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
        let patience = self.answer_time_max + way_time_max(bytes.len());
        let mut deadline = Instant::now() + patience;
        while !asked.is_empty() {
            let answer = match connection.message(deadline).await {
                Ok(Some(answer)) => answer,
                silence => {
                    // What was taken behind one of which nothing is known comes again behind it, and is not to be dropped then.
                    written.left.extend(asked.values());
                    written.refused.extend(unfit);
                    written.keep_order(end, end, false);
                    let problem = silence.err().unwrap_or_else(|| "the server does not answer any more".to_owned());
                    return Err(Refused::Passing(problem));
                }
            };
            let Some(index) = asked.remove(&answer.subject) else { continue };
            deadline = Instant::now() + patience;
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
    use std::net::{SocketAddr, TcpStream};
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side};

    const PAYLOAD_MAX: usize = 1_000;

    /// What a stream does with messages.
    #[derive(Default)]
    struct Stream {
        /// It has no room for this one, the first time.
        full: Mutex<Option<&'static str>>,
        /// And does not say so.
        is_silent: bool,
        known: Mutex<Vec<Vec<u8>>>,
    }

    /// A server as far as an output needs one: it says how long a message may be, acknowledges each, a `pause` after the last,
    /// and keeps those whose ids it does not know.
    fn serve(mut connection: TcpStream, pause: Duration, stream: &Stream, taken: &Mutex<Vec<String>>) {
        let payload_max = PAYLOAD_MAX;
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
                    let (headers, body) = (message[..head].to_vec(), String::from_utf8(message[head..whole].to_vec()).unwrap());
                    std::thread::sleep(pause);
                    let is_full = stream.full.lock().unwrap().take_if(|full| **full == *body).is_some();
                    let answer = if is_full {
                        r#"{"error":{"code":503,"err_code":10077,"description":"no room"}}"#
                    } else {
                        let mut known = stream.known.lock().unwrap();
                        if !known.contains(&headers) {
                            known.push(headers);
                            taken.lock().unwrap().push(body);
                        }
                        r#"{"stream":"s","seq":1}"#
                    };
                    if !(is_full && stream.is_silent) {
                        write!(connection, "MSG {reply} 1 {}\r\n{answer}\r\n", answer.len()).unwrap();
                    }
                }
                _ => {}
            }
            line.clear();
        }
    }

    #[test]
    fn nothing_overtakes_a_result_that_is_more_than_the_server_takes() {
        let (address, taken) = other_side(|connection, taken| serve(connection, Duration::ZERO, &Stream::default(), taken));
        let (runtime, long) = (runtime(), "x".repeat(PAYLOAD_MAX));
        let definition = json!({"type": "WriteToNats", "servers": [format!("nats://{address}")], "subject": "results"});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let results = bodies(&["1", "2", &long, "3", "4"]);
        let open = || config.open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
    }

    #[test]
    fn answers_that_come_one_by_one_are_waited_for_however_long_all_of_them_take() {
        let pause = Duration::from_millis(200);
        let (address, taken) = other_side(move |connection, taken| serve(connection, pause, &Stream::default(), taken));
        let (runtime, texts) = (runtime(), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        let written = publisher(&runtime, address).write(&bodies(&texts), 1).unwrap();
        assert!(written.left.is_empty(), "{written:?}");
        assert_eq!(*taken.lock().unwrap(), texts);
    }

    fn publisher(runtime: &Runtime, address: SocketAddr) -> Publisher<Publishing> {
        let definition = json!({"servers": [format!("nats://{address}")], "subject": "results"});
        let WriteToNats { access, subject, .. } = serde_json::from_value(definition).unwrap();
        let context = output(runtime);
        let login = access.login(&context.hosts).unwrap();
        Publisher::new(&context, "x", Publishing { login, subject, answer_time_max: Duration::from_secs(1) })
    }

    /// With its old id it would not be there behind the other.
    #[test]
    fn what_has_overtaken_one_that_was_not_taken_is_there_again_behind_it() {
        let stream = Arc::new(Stream { full: Mutex::new(Some("2")), ..Stream::default() });
        let (address, taken) = other_side(move |connection, taken| serve(connection, Duration::ZERO, &stream, taken));
        let runtime = runtime();
        let definition = json!({"type": "WriteToNats", "servers": [format!("nats://{address}")], "subject": "results"});
        let mut destination = crate::parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        let results = bodies(&["1", "2", "3"]);
        let written = destination.write(&results, 1).unwrap();
        assert_eq!((written.left, written.untried), (vec![1, 2], vec![2]));
        assert!(destination.write(&results[1..], 1).unwrap().left.is_empty());
        assert_eq!(*taken.lock().unwrap(), ["1", "3", "2", "3"]);
    }

    /// As above, where no answer says that it was not taken.
    #[test]
    fn what_has_overtaken_one_of_which_nothing_is_known_is_there_again_behind_it() {
        let stream = Arc::new(Stream { full: Mutex::new(Some("2")), is_silent: true, ..Stream::default() });
        let (address, taken) = other_side(move |connection, taken| serve(connection, Duration::ZERO, &stream, taken));
        let runtime = runtime();
        let (mut publisher, results) = (publisher(&runtime, address), bodies(&["1", "2", "3"]));
        assert!(publisher.write(&results, 1).is_err_and(|error| error.retryable()));
        assert!(publisher.write(&results, 1).unwrap().left.is_empty());
        assert_eq!(*taken.lock().unwrap(), ["1", "3", "2", "3"]);
    }
}
