//! The definition of an output to a topic of MQTT, and what writes it: at least once, in order.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{ALIVE_SECONDS, Login, MqttAccess, is_topic};
use super::connection::Connection;
use super::packet::{BYE, PACKET_BYTES_MAX, PING, Packet, publish};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::{Refused, Writer};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// Messages sent before the first answer is waited for: brokers let a client have so many.
const MESSAGES_MAX: usize = 100;

/// Publishes each result to a topic of MQTT.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToMqtt {
    #[serde(flatten)]
    pub access: MqttAccess,
    /// The topic.
    pub topic: String,
    /// How the broker knows weir. No other client may have it; made of the output when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Whether the broker keeps the last result for those who subscribe later.
    #[serde(default)]
    pub retained: bool,
    /// What a result is.
    #[serde(default)]
    pub format: OutputFormat,
    /// What is around the data of a result.
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
        Ok(Box::new(Publisher::new(context, &place, Publishing { login, client, topic, retained })))
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
}

impl Publish for Publishing {
    type Connection = Connection;

    const ALIVE: Option<(Duration, &[u8])> = Some((Duration::from_secs(ALIVE_SECONDS as u64 / 2), &PING));

    async fn connect(&mut self) -> Result<Connection, Refused> {
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
            if body.len() + self.topic.len() + 4 > PACKET_BYTES_MAX {
                unfit = Some((end, format!("the result has {} bytes, more than MQTT can carry", body.len())));
                end += 1;
                break;
            }
            waiting += 1;
            publish(&self.topic, waiting as u16, self.retained, body, &mut bytes);
            end += 1;
        }
        connection.writer.send(&bytes).await?;
        let deadline = Instant::now() + ANSWERS_TIME_MAX;
        while waiting > 0 {
            match connection.packet(deadline).await? {
                Some(Packet::Acknowledged(_)) => waiting -= 1,
                Some(_) => {}
                None => return Err(Refused::Passing("the broker does not answer any more".to_owned())),
            }
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
    use std::net::TcpStream;
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side};

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

    /// A broker as far as an output needs one: it acknowledges each message and keeps it.
    fn serve(mut connection: TcpStream, taken: &Mutex<Vec<String>>) {
        while let Some((kind, body)) = packet(&mut connection) {
            match kind >> 4 {
                1 => connection.write_all(&[0x20, 2, 0, 0]).unwrap(),
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
    fn nothing_overtakes_a_result_that_no_packet_can_carry() {
        let (address, taken) = other_side(serve);
        let runtime = runtime();
        let definition = json!({"type": "WriteToMqtt", "url": format!("mqtt://{address}"), "topic": "results"});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let mut results = bodies(&["1", "2", "", "3", "4"]);
        // Zeros that nobody reads take no room.
        results[2].body = vec![0; PACKET_BYTES_MAX];
        let open = || config.open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
    }
}
