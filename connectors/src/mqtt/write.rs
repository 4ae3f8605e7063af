//! The definition of an output to a topic of MQTT, and what writes it: at least once, in order.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{ALIVE_SECONDS, Login, MqttAccess, is_topic};
use super::connection::Connection;
use super::packet::{BYE, PACKET_BYTES_MAX, PING, Packet, publish, publish_bytes};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::{Refused, Writer, way_time_max};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// Messages sent before the first answer is waited for: brokers let a client have as many.
const MESSAGES_MAX: usize = 100;

/// Publishes each result to a topic of an MQTT 3.1.1 broker.
///
/// Each result arrives at least once, in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToMqtt {
    #[serde(flatten)]
    pub access: MqttAccess,
    /// The topic to publish to.
    pub topic: String,
    /// The client id at the broker. No other client may use it. When not given, one is made from the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Whether the broker keeps the last result for those who subscribe later. False when not given.
    #[serde(default)]
    pub retained: bool,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

impl DestinationConfig for WriteToMqtt {
    fn settings(&self) -> Json {
        crate::settings("WriteToMqtt", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn check(&self) -> Result<(), ConnectorError> {
        if !is_topic(&self.topic, false) {
            return Err(ConnectorError::config("topic", "is no topic that can be published to: no + and #"));
        }
        if self.client_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > u16::MAX.into()) {
            return Err(ConnectorError::config("clientId", "is empty, or longer than 65535 bytes"));
        }
        self.access.check(&HostPolicy::default())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let client = self.client_id.clone().unwrap_or_else(|| client_of(&context.identity));
        let (place, topic, retained) = (login.place.clone(), self.topic.clone(), self.retained);
        let publishing = Publishing::new(login, client, topic, retained, ANSWERS_TIME_MAX);
        Ok(Box::new(Publisher::new(context, &place, publishing)))
    }
}

/// 23 letters and digits: what every broker has to take.
fn client_of(identity: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(identity.as_bytes());
    digest.iter().take(9).fold("weir-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

struct Publishing {
    login: Login,
    client: String,
    topic: String,
    retained: bool,
    /// The last connection ended while it had results.
    broke: bool,
    /// What the broker has said since then, if it has.
    packet_bytes_max: Option<usize>,
    /// For one acknowledgement, besides the time that its message may be under way.
    answer_time_max: Duration,
}

impl Publishing {
    fn new(login: Login, client: String, topic: String, retained: bool, answer_time_max: Duration) -> Publishing {
        Publishing { login, client, topic, retained, broke: false, packet_bytes_max: None, answer_time_max }
    }

    /// Why no packet can carry a result.
    fn unfit(&self, body: &[u8]) -> Option<String> {
        let (length, bytes_max) = (body.len(), self.packet_bytes_max.unwrap_or(usize::MAX));
        if length + self.topic.len() + 4 > PACKET_BYTES_MAX {
            Some(format!("the result has {length} bytes, more than MQTT can carry"))
        } else if publish_bytes(&self.topic, body) > bytes_max {
            Some(format!("the result has {length} bytes, and the broker takes packets of {bytes_max}"))
        } else {
            None
        }
    }
}

/// How often the broker wants to hear something.
const ALIVE: Duration = Duration::from_secs(ALIVE_SECONDS as u64 / 2);

/// Sends messages, and waits until `waiting` of them are acknowledged.
async fn acknowledged(
    connection: &mut Connection,
    messages: &[u8],
    mut waiting: usize,
    answer_time_max: Duration,
) -> Result<(), String> {
    connection.writer.send(messages).await?;
    let patience = answer_time_max + way_time_max(messages.len());
    let mut deadline = Instant::now() + patience;
    while waiting > 0 {
        match connection.packet(deadline.min(Instant::now() + ALIVE)).await? {
            Some(Packet::Acknowledged(_)) => {
                waiting -= 1;
                deadline = Instant::now() + patience;
            }
            Some(_) => {}
            None if Instant::now() < deadline => connection.writer.send(&PING).await?,
            None => return Err("the broker does not answer any more".to_owned()),
        }
    }
    Ok(())
}

impl Publish for Publishing {
    type Connection = Connection;

    const ALIVE: Option<(Duration, &[u8])> = Some((ALIVE, &PING));

    async fn connect(&mut self) -> Result<Connection, Refused> {
        // A broker closes the connection over a packet that is longer than it takes, and in this version does not say why. So it
        // is asked, and again later: it may be set up otherwise then.
        if std::mem::take(&mut self.broke) || self.packet_bytes_max.is_some() {
            // One that does not know the newer version answers without a limit. A question that fails or is refused says nothing:
            // what is known stays, and it is asked again before the next connection.
            if let Ok(said) = self.login.packet_bytes_max(&self.client).await {
                self.packet_bytes_max = said;
            }
        }
        Ok(self.login.connect(&self.client, true).await?.0)
    }

    async fn publish(
        &mut self,
        connection: &mut Connection,
        results: &[Outgoing],
        _ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused> {
        let (mut bytes, mut end, mut waiting, mut unfit) = (Vec::new(), first, 0_usize, None);
        while end < results.len() && waiting < MESSAGES_MAX && bytes.len() < BYTES_MAX {
            let body = &results[end].body;
            if let Some(problem) = self.unfit(body) {
                unfit = Some((end, problem));
                end += 1;
                break;
            }
            waiting += 1;
            publish(&self.topic, waiting as u16, self.retained, body, &mut bytes);
            end += 1;
        }
        if let Err(problem) = acknowledged(connection, &bytes, waiting, self.answer_time_max).await {
            self.broke = true;
            return Err(problem.into());
        }
        written.refused.extend(unfit);
        Ok(end)
    }

    fn writer(connection: &Connection) -> &Writer {
        &connection.writer
    }

    fn bye() -> Vec<u8> {
        BYE.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side, write};

    /// A kind and flags, and what stands behind them; none at the end.
    fn packet(connection: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
        let mut one = || {
            let mut byte = [0];
            connection.read_exact(&mut byte).ok().map(|()| byte[0])
        };
        let (kind, mut length) = (one()?, 0);
        for place in 0..4 {
            let byte = one()?;
            length |= usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body).ok()?;
        Some((kind, body))
    }

    const SILENT: u8 = u8::MAX;

    /// A broker as far as an output needs one: it acknowledges each message and keeps it. It closes the connection over a packet
    /// that is longer than it takes, and says how long one may be where it is asked, if it knows version 5 and `refuses` is 0:
    /// otherwise that is the reason it gives, and `SILENT` none.
    fn serve(
        mut connection: TcpStream,
        packet_bytes_max: usize,
        (version, refuses): (u8, &AtomicU8),
        taken: &Mutex<Vec<String>>,
    ) {
        while let Some((kind, body)) = packet(&mut connection) {
            match kind >> 4 {
                1 if body[6] == 5 && refuses.load(Ordering::Relaxed) == SILENT => return,
                1 if body[6] == 5 && refuses.load(Ordering::Relaxed) > 0 => {
                    return connection.write_all(&[0x20, 3, 0, refuses.load(Ordering::Relaxed), 0]).unwrap();
                }
                1 if body[6] > version => return connection.write_all(&[0x20, 2, 0, 1]).unwrap(),
                1 if body[6] == 5 => {
                    let answer = [&[0x20, 8, 0, 0, 5, 0x27][..], &(packet_bytes_max as u32).to_be_bytes()].concat();
                    connection.write_all(&answer).unwrap();
                }
                1 => connection.write_all(&[0x20, 2, 0, 0]).unwrap(),
                // Packets of the tests are so long that their length is two bytes, or less.
                3 if body.len() + 3 > packet_bytes_max => return,
                3 => {
                    let (topic, rest) = body[2..].split_at(usize::from(body[0]) << 8 | usize::from(body[1]));
                    assert_eq!(topic, b"results");
                    taken.lock().unwrap().push(String::from_utf8(rest[2..].to_vec()).unwrap());
                    connection.write_all(&[0x40, 2, rest[0], rest[1]]).unwrap();
                }
                _ => {}
            }
        }
    }

    #[test]
    fn acknowledgements_that_come_one_by_one_are_waited_for_however_long_all_of_them_take() {
        let (address, taken) = other_side(|mut connection: TcpStream, taken: &Mutex<Vec<String>>| {
            while let Some((kind, body)) = packet(&mut connection) {
                match kind >> 4 {
                    1 => connection.write_all(&[0x20, 2, 0, 0]).unwrap(),
                    3 => {
                        std::thread::sleep(Duration::from_millis(200));
                        let rest = &body[2 + "results".len()..];
                        taken.lock().unwrap().push(String::from_utf8(rest[2..].to_vec()).unwrap());
                        connection.write_all(&[0x40, 2, rest[0], rest[1]]).unwrap();
                    }
                    _ => {}
                }
            }
        });
        let (runtime, texts) = (runtime(), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        let definition = json!({"url": format!("mqtt://{address}"), "topic": "results"});
        let WriteToMqtt { access, topic, .. } = serde_json::from_value(definition).unwrap();
        let context = output(&runtime);
        let login = access.login(&context.hosts).unwrap();
        let publishing = Publishing::new(login, "weir".to_owned(), topic, false, Duration::from_secs(1));
        let written = Publisher::new(&context, "x", publishing).write(&bodies(&texts), 1).unwrap();
        assert!(written.left.is_empty(), "{written:?}");
        assert_eq!(*taken.lock().unwrap(), texts);
    }

    #[test]
    fn nothing_overtakes_a_result_that_no_packet_can_carry() {
        let (address, taken) = other_side(|connection, taken| serve(connection, usize::MAX, (4, &AtomicU8::new(0)), taken));
        let runtime = runtime();
        let definition = json!({"type": "WriteToMqtt", "url": format!("mqtt://{address}"), "topic": "results"});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let mut results = bodies(&["1", "2", "", "3", "4"]);
        // Zeros that nobody reads take no room.
        results[2].body = vec![0; PACKET_BYTES_MAX];
        let open = || config.open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
    }

    #[test]
    fn a_result_that_is_more_than_the_broker_takes_is_refused_where_that_says_so() {
        const PACKET_BYTES_MAX: usize = 1_000;
        let runtime = runtime();
        let results = bodies(&["1", "2", &"x".repeat(PACKET_BYTES_MAX), "3", "4"]);
        let opened = |address: SocketAddr| {
            let definition = json!({"type": "WriteToMqtt", "url": format!("mqtt://{address}"), "topic": "results"});
            crate::parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap()
        };
        let refuses = Arc::new(AtomicU8::new(0));
        let reason = refuses.clone();
        let (address, taken) = other_side(move |connection, taken| serve(connection, PACKET_BYTES_MAX, (5, &reason), taken));
        let mut destination = opened(address);
        let written = write(&mut *destination, &results);
        let [(2, problem)] = written.refused.as_slice() else { panic!("{written:?}") };
        assert!(problem.contains("takes packets of 1000"), "{problem}");
        assert!(written.left.is_empty());
        // The first two went out together with it, and then again.
        assert_eq!(*taken.lock().unwrap(), ["1", "2", "1", "2", "3", "4"]);
        let written = write(&mut *destination, &results[2..]);
        assert_eq!((written.refused.len(), written.left.len()), (1, 0), "it is known by now");
        // It is gone, not available, or takes no other login.
        for reason in [SILENT, 0x88, 0x89] {
            refuses.store(reason, Ordering::Relaxed);
            destination.close().unwrap();
            let written = write(&mut *destination, &results[2..]);
            assert_eq!((written.refused.len(), written.left.len()), (1, 0), "what is known stays where a question fails");
        }

        // From one that does not say so it cannot be known.
        let (address, taken) = other_side(|connection, taken| serve(connection, PACKET_BYTES_MAX, (4, &AtomicU8::new(0)), taken));
        let mut destination = opened(address);
        for _ in 0..2 {
            assert!(destination.write(&results, 1).is_err_and(|error| error.retryable()));
        }
        let written = write(&mut *destination, &results[..2]);
        assert_eq!((written.refused.len(), written.left.len()), (0, 0));
        assert_eq!(*taken.lock().unwrap(), ["1", "2", "1", "2", "1", "2"]);
    }
}
