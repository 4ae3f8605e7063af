//! The definition of an output to a stream of Redis, and what writes it: at least once, in order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, RedisAccess};
use super::connection::{Connection, Reply, put_command};
use crate::config;
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;

/// Bytes sent before the first answer is waited for.
const BYTES_MAX: usize = 4 << 20;

/// For the answers to them.
const ANSWERS_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Adds each result to a stream of Redis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToRedis {
    #[serde(flatten)]
    pub access: RedisAccess,
    /// The key of the stream.
    pub key: String,
    /// The field of an entry that holds the result; `value` when not given.
    #[serde(default = "value")]
    pub field: String,
    /// Entries that the stream keeps, about; the oldest are removed then. All when not given.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub length_max: Option<u64>,
    /// What a result is.
    #[serde(default)]
    pub format: OutputFormat,
    /// What is around the data of a result.
    #[serde(default)]
    pub structure: Envelope,
}

fn value() -> String {
    "value".to_owned()
}

impl DestinationConfig for WriteToRedis {
    fn settings(&self) -> Json {
        crate::settings("WriteToRedis", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn check(&self) -> Result<(), ConnectorError> {
        if self.key.is_empty() {
            return Err(ConnectorError::config("key", "is empty"));
        }
        self.access.login(&HostPolicy::default()).map(|_| ())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        Ok(Box::new(Adder { login, definition: self.clone(), runtime: context.runtime.clone(), connection: None }))
    }
}

struct Adder {
    login: Login,
    definition: WriteToRedis,
    runtime: Handle,
    /// None after an error.
    connection: Option<Connection>,
}

impl Adder {
    async fn add(&mut self, results: &[Outgoing]) -> Result<Written, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.login.connect().await?,
        };
        let WriteToRedis { key, field, length_max, .. } = &self.definition;
        let length = length_max.map(|length| length.to_string());
        let mut written = Written::default();
        let mut first = 0;
        while first < results.len() {
            let (mut bytes, mut end) = (Vec::new(), first);
            while end < results.len() && bytes.len() < BYTES_MAX {
                let mut command: Vec<&[u8]> = vec![b"XADD", key.as_bytes()];
                if let Some(length) = &length {
                    command.extend([b"MAXLEN", &b"~"[..], length.as_bytes()]);
                }
                command.extend([b"*", field.as_bytes(), &results[end].body]);
                put_command(&command, &mut bytes);
                end += 1;
            }
            connection.writer.send(&bytes).await?;
            let deadline = Instant::now() + ANSWERS_TIME_MAX;
            for index in first..end {
                match connection.answer(deadline).await? {
                    Some(Reply::Error(error)) if error.starts_with("WRONGTYPE") => {
                        written.refused.push((index, format!("{key} holds something else than a stream")));
                    }
                    Some(Reply::Error(error)) => {
                        written.left.push(index);
                        written.left_reason.get_or_insert(error);
                    }
                    Some(_) => {}
                    None => return Err("the server does not answer any more".to_owned()),
                }
            }
            first = end;
            // What comes later must not overtake what is tried again.
            if !written.left.is_empty() {
                written.left.extend(first..results.len());
                break;
            }
        }
        self.connection = Some(connection);
        Ok(written)
    }
}

impl Destination for Adder {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.add(results)).map_err(|problem| ConnectorError::passing(&self.login.place, problem))
    }
}
