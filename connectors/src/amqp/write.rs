//! The definition of an output to AMQP, and what writes it: confirmed by the server, at least once, in order.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{AmqpAccess, Login, is_name};
use super::connection::{Connection, Event, HEARTBEAT_SECONDS, SILENCE_MAX};
use super::frame::{self, HEARTBEAT, Method};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Note, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::{Refused, Writer, way_time_max};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// Publishes each result to an exchange of an AMQP 0.9.1 server, such as RabbitMQ.
///
/// Each result arrives at least once, in order, each confirmed by the server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToAmqp {
    #[serde(flatten)]
    pub access: AmqpAccess,
    /// The exchange to publish to, which must exist. Without it messages go directly to the queue that `routingKey` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// The routing key of every message. A result that the server can route to no queue is tried again until there is one; the
    /// results after it wait.
    pub routing_key: String,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

impl DestinationConfig for WriteToAmqp {
    fn settings(&self) -> Json {
        crate::settings("WriteToAmqp", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn check(&self) -> Result<(), ConnectorError> {
        for (field, name) in [("exchange", self.exchange.as_deref().unwrap_or_default()), ("routingKey", &self.routing_key)] {
            if !is_name(name) {
                return Err(ConnectorError::config(field, "is longer than 255 bytes"));
            }
        }
        self.access.check(&HostPolicy::default())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = login.place.clone();
        let publishing = Publishing::new(login, self.clone(), ANSWERS_TIME_MAX);
        Ok(Box::new(Publisher::new(context, &place, publishing)))
    }
}

/// How often the server wants to hear something.
const ALIVE: Duration = Duration::from_secs(HEARTBEAT_SECONDS as u64 / 2);

struct Publishing {
    login: Login,
    definition: WriteToAmqp,
    /// Messages on this connection.
    published: u64,
    /// For one confirmation, besides the time that its message may be under way.
    answer_time_max: Duration,
    /// Messages sent before the first answer is waited for. Fewer, for a while, after some of which nothing was heard in time: a
    /// server confirms many at once, so that of many slow ones nothing may be heard for longer than of each.
    together_max: usize,
    /// Fewer still while one that the server does not take is looked for: it does not say which one that was.
    looked_through: usize,
    note: Option<Note>,
}

impl Publishing {
    fn new(login: Login, definition: WriteToAmqp, answer_time_max: Duration) -> Publishing {
        let (published, together_max, looked_through) = (0, usize::MAX, usize::MAX);
        Publishing { login, definition, published, answer_time_max, together_max, looked_through, note: None }
    }

    fn tell_blocked(&self, reason: &str) {
        if let Some(note) = &self.note {
            note(&format!("waits for the server, which takes nothing for now: {reason}"));
        }
    }
}

impl Publish for Publishing {
    type Connection = Connection;

    const IDS: bool = true;

    const ALIVE: Option<(Duration, &[u8])> = Some((ALIVE, &HEARTBEAT));

    fn tells(&mut self, note: &Note) {
        self.note = Some(note.clone());
    }

    async fn connect(&mut self) -> Result<Connection, Refused> {
        let mut connection = self.login.connect().await?;
        connection.ask(frame::CONFIRM, Method::default().u8(0), frame::CONFIRM_OK).await?;
        self.published = 0;
        Ok(connection)
    }

    async fn publish(
        &mut self,
        connection: &mut Connection,
        results: &[Outgoing],
        ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused> {
        let exchange = self.definition.exchange.as_deref().unwrap_or_default();
        let content_type =
            if self.definition.format == OutputFormat::Json { "application/json" } else { "application/octet-stream" };
        let (mut bytes, mut end) = (Vec::new(), first);
        // By the number of the message, which counts on along the connection.
        let before = self.published;
        let together_max = self.together_max.min(self.looked_through);
        while end < results.len() && bytes.len() < BYTES_MAX && end - first < together_max {
            // Mandatory: one that leads nowhere comes back.
            let publish = Method::default().u16(0).word(exchange).word(&self.definition.routing_key).u8(1);
            publish.put(frame::PUBLISH, &mut bytes);
            frame::message(content_type, &ids[end], &results[end].body, connection.frame_bytes_max, &mut bytes);
            self.published += 1;
            end += 1;
        }
        // One alone says nothing of how many go together.
        let fewer = if end - first > 1 { (end - first) / 2 } else { self.together_max };
        // One that is far behind with the first of them does not read the others, either.
        let sent = connection.send_hearing(&bytes, |reason| self.tell_blocked(reason)).await;
        sent.inspect_err(|_| self.together_max = fewer)?;
        let patience = self.answer_time_max + way_time_max(bytes.len());
        let mut deadline = Instant::now() + patience;
        let mut unsure: BTreeSet<u64> = (before + 1..=self.published).collect();
        let by_id: HashMap<&str, usize> = (first..end).map(|index| (ids[index].as_str(), index)).collect();
        while !unsure.is_empty() {
            let event = connection.event(deadline.min(Instant::now() + ALIVE)).await?;
            match event {
                Some(Event::Confirmed { number, several, safe }) => {
                    deadline = Instant::now() + patience;
                    let done: Vec<u64> = match several {
                        true => unsure.range(..=number).copied().collect(),
                        false => unsure.get(&number).copied().into_iter().collect(),
                    };
                    for number in done {
                        unsure.remove(&number);
                        if !safe {
                            written.left.push(first + (number - before - 1) as usize);
                            written.left_reason.get_or_insert_with(|| "the server could not keep a message".to_owned());
                        }
                    }
                }
                Some(Event::Returned(reason, id)) => {
                    written.left.extend(by_id.get(id.as_str()));
                    written.left_reason.get_or_insert(format!("a message leads to no queue: {reason}"));
                }
                Some(Event::Unfit(problem)) => {
                    // It is over. Those before the first that is not safe are; what may be safe behind that is sent again.
                    let _ = connection.writer.send(&frame::bye()).await;
                    *connection = self.connect().await?;
                    let index = |number: u64| first + (number - before - 1) as usize;
                    let Some(begin) = unsure.first().copied().map(index) else { return Ok(end) };
                    if unsure.len() == 1 {
                        written.refused.push((begin, problem));
                        return Ok(begin + 1);
                    }
                    self.looked_through = unsure.len() / 2;
                    return Ok(begin);
                }
                Some(Event::Blocked(reason)) => self.tell_blocked(&reason),
                Some(Event::Unblocked) => deadline = Instant::now() + patience,
                Some(_) => {}
                // It says when that is over, and until then at least that it is there. It does not hear whether we are.
                None if connection.writer.is_held() => {
                    connection.incoming.heard_within(SILENCE_MAX)?;
                    deadline = Instant::now() + patience;
                }
                None if Instant::now() < deadline => {
                    connection.send_hearing(&HEARTBEAT, |reason| self.tell_blocked(reason)).await?;
                }
                None => {
                    self.together_max = fewer;
                    return Err(Refused::Passing("the server does not answer any more".to_owned()));
                }
            }
        }
        self.looked_through = self.looked_through.saturating_mul(2);
        // Not before all of a `write` has gone out: one that takes too long has all of it sent again, and would do so each time.
        if end == ids.len() {
            self.together_max = self.together_max.saturating_add(self.together_max / 8 + 1);
        }
        Ok(end)
    }

    fn writer(connection: &Connection) -> &Writer {
        &connection.writer
    }

    fn bye() -> Vec<u8> {
        frame::bye()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use serde_json::json;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::amqp::frame::tests::next_frame;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side, read};

    const BODY_BYTES_MAX: usize = 1_000;

    /// A server as far as an output needs one: it confirms each message and keeps it. One that is too long it closes the channel
    /// for, and hears nothing more on that, as RabbitMQ does. Before the first one it takes nothing for the time of `blocks`, and
    /// says so to whom that means something; while it is `silent` it confirms nothing.
    fn serve(mut connection: TcpStream, blocks: Duration, silent: &AtomicBool, taken: &Mutex<Vec<String>>) -> Option<()> {
        read(&mut connection, 8)?;
        let mut out = Method::default().frame(frame::START);
        let (mut number, mut left, mut body, mut closed, mut knows) = (0, 0, Vec::new(), false, false);
        loop {
            connection.write_all(&out).ok()?;
            out.clear();
            let (kind, payload) = next_frame(&mut connection)?;
            let two = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
            match kind {
                1 => match (two(0), two(2)) {
                    frame::START_OK => {
                        const ABILITY: &[u8] = b"\x12connection.blockedt\x01";
                        knows = payload.windows(ABILITY.len()).any(|part| part == ABILITY);
                        Method::default().u16(0).u32(0).u16(0).put(frame::TUNE, &mut out);
                    }
                    frame::OPEN => Method::default().put(frame::OPEN_OK, &mut out),
                    frame::CHANNEL_OPEN => Method::default().put(frame::CHANNEL_OPEN_OK, &mut out),
                    frame::CONFIRM => Method::default().put(frame::CONFIRM_OK, &mut out),
                    frame::CLOSE => return None,
                    _ => {}
                },
                2 => {
                    left = u64::from_be_bytes(payload[4..12].try_into().unwrap()) as usize;
                    number += 1;
                    body.clear();
                    if number == 1 && !blocks.is_zero() {
                        if knows {
                            connection.write_all(&Method::default().word("low on memory").frame(frame::BLOCKED)).ok()?;
                        }
                        thread::sleep(blocks);
                        if knows {
                            connection.write_all(&Method::default().frame(frame::UNBLOCKED)).ok()?;
                        }
                    }
                    if left > BODY_BYTES_MAX && !closed {
                        closed = true;
                        let why = Method::default().u16(406).word("PRECONDITION_FAILED - message size is larger than max size");
                        why.u16(frame::PUBLISH.0).u16(frame::PUBLISH.1).put(frame::CHANNEL_CLOSE, &mut out);
                    }
                }
                3 if !closed => {
                    body.extend(payload);
                    if body.len() == left {
                        taken.lock().unwrap().push(String::from_utf8(std::mem::take(&mut body)).unwrap());
                        if !silent.load(Ordering::Relaxed) {
                            Method::default().u64(number).u8(0).put(frame::ACK, &mut out);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn nothing_overtakes_a_result_that_is_more_than_the_server_takes() {
        let (address, taken) = other_side(|connection, taken| serve(connection, Duration::ZERO, &AtomicBool::new(false), taken));
        let (runtime, long) = (runtime(), "x".repeat(BODY_BYTES_MAX + 1));
        let definition = json!({"type": "WriteToAmqp", "url": format!("amqp://{address}"), "routingKey": "results"});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let open = || config.open(&output(&runtime), None).unwrap();
        for refused in [1, 2, 4] {
            taken.lock().unwrap().clear();
            let mut texts = ["1", "2", "3", "4", "5", "6"];
            texts[refused] = &long;
            nothing_overtakes_what_is_refused(open, &bodies(&texts), refused, || taken.lock().unwrap().clone());
        }
    }

    fn publisher(runtime: &Runtime, address: SocketAddr, answer_time_max: Duration) -> Publisher<Publishing> {
        let definition = json!({"url": format!("amqp://{address}"), "routingKey": "results"});
        let definition: WriteToAmqp = serde_json::from_value(definition).unwrap();
        let context = output(runtime);
        let login = definition.access.login(&context.hosts).unwrap();
        Publisher::new(&context, "x", Publishing::new(login, definition, answer_time_max))
    }

    #[test]
    fn a_server_that_takes_nothing_for_now_is_waited_for() {
        let blocks = Duration::from_secs(3);
        let (address, taken) = other_side(move |connection, taken| serve(connection, blocks, &AtomicBool::new(false), taken));
        let (runtime, told) = (runtime(), Arc::<Mutex<Vec<String>>>::default());
        let mut publisher = publisher(&runtime, address, Duration::from_secs(1));
        let telling = told.clone();
        let note: Note = Arc::new(move |problem: &str| telling.lock().unwrap().push(problem.to_owned()));
        publisher.tells(&note);
        let written = publisher.write(&bodies(&["1", "2"]), 1).unwrap();
        assert_eq!((written.left, written.refused.len()), (vec![], 0));
        assert_eq!(*taken.lock().unwrap(), ["1", "2"], "each was sent once");
        let told = told.lock().unwrap();
        let [problem] = told.as_slice() else { panic!("{told:?}") };
        assert!(problem.contains("low on memory"), "{problem}");
    }

    /// What goes together grew with each part that got through, so that the next one took too long, each time.
    #[test]
    fn of_what_takes_too_long_less_is_sent_together_until_all_of_it_is_through() {
        let silent = Arc::new(AtomicBool::new(false));
        let of_server = silent.clone();
        let (address, taken) = other_side(move |connection, taken| serve(connection, Duration::ZERO, &of_server, taken));
        let runtime = runtime();
        let mut publisher = publisher(&runtime, address, Duration::from_secs(1));
        let results = bodies(&["1", "2", "3", "4", "5", "6", "7", "8"]);
        // Two at a time where all get through, and then three.
        for (is_silent, sent) in [(true, 8), (true, 4), (false, 8), (true, 3)] {
            silent.store(is_silent, Ordering::Relaxed);
            taken.lock().unwrap().clear();
            assert_eq!(publisher.write(&results, 1).is_err_and(|error| error.retryable()), is_silent);
            assert_eq!(taken.lock().unwrap().len(), sent);
        }
    }
}
