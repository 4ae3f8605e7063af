//! The definition of an output to a topic of MQTT, and what writes it: at least once, in order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{ALIVE_SECONDS, Login, MqttAccess, is_topic};
use super::connection::Connection;
use super::packet::{BYE, PACKET_BYTES_MAX, PING, Packet, publish};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;

/// Messages sent before the first answer is waited for: brokers let a client have so many.
const MESSAGES_MAX: usize = 100;

/// Bytes of them, about.
const BYTES_MAX: usize = 4 << 20;

/// For the answers to them.
const ANSWERS_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// While there is nothing to write, the broker hears this often that weir is there.
const ALIVE: std::time::Duration = std::time::Duration::from_secs(ALIVE_SECONDS as u64 / 2);

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
        self.access.login(&HostPolicy::default()).map(|_| ())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let client = self.client_id.clone().unwrap_or_else(|| client_of(&context.identity));
        let (topic, retained, runtime) = (self.topic.clone(), self.retained, context.runtime.clone());
        Ok(Box::new(Publisher { login, client, topic, retained, runtime, connection: None, said: Instant::now() }))
    }
}

/// 23 letters and digits: what every broker has to take.
fn client_of(identity: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(identity.as_bytes());
    digest.iter().take(9).fold("weir-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

struct Publisher {
    login: Login,
    client: String,
    topic: String,
    retained: bool,
    runtime: Handle,
    /// None after an error.
    connection: Option<Connection>,
    /// When the broker has heard something.
    said: Instant,
}

impl Publisher {
    async fn publish(&mut self, results: &[Outgoing]) -> Result<Written, Refused> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.login.connect(&self.client, true).await?.0,
        };
        self.said = Instant::now();
        let mut written = Written::default();
        let mut first = 0;
        while first < results.len() {
            let (mut bytes, mut end, mut waiting) = (Vec::new(), first, 0_usize);
            while end < results.len() && waiting < MESSAGES_MAX && bytes.len() < BYTES_MAX {
                let body = &results[end].body;
                if body.len() + self.topic.len() + 4 > PACKET_BYTES_MAX {
                    written.refused.push((end, format!("the result has {} bytes, more than MQTT can carry", body.len())));
                } else {
                    waiting += 1;
                    publish(&self.topic, waiting as u16, self.retained, body, &mut bytes);
                }
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
            first = end;
        }
        self.connection = Some(connection);
        Ok(written)
    }
}

impl Destination for Publisher {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.publish(results)).map_err(|refused| refused.error(&self.login.place))
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if self.said.elapsed() < ALIVE {
            return Ok(());
        }
        self.said = Instant::now();
        if let Some(connection) = &self.connection
            && self.runtime.block_on(connection.writer.send(&PING)).is_err()
        {
            self.connection = None;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        if let Some(connection) = self.connection.take() {
            // It is over anyway.
            let _ = self.runtime.block_on(connection.writer.send(&BYE));
        }
        Ok(())
    }
}
