//! The definition of an output to a stream of Redis, and what writes it: at least once, in order.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, RedisAccess};
use super::connection::{Connection, Reply, put_command};
use crate::config;
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::ends::{Refused, Writer, way_time_max};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::publisher::{ANSWERS_TIME_MAX, BYTES_MAX, Publish, Publisher};

/// Adds each result to a Redis stream, as an entry of one field.
///
/// Each result arrives at least once, in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToRedis {
    #[serde(flatten)]
    pub access: RedisAccess,
    /// The key of the Redis stream.
    pub key: String,
    /// The field that holds the result. `value` when not given.
    #[serde(default = "value")]
    pub field: String,
    /// About how many entries the Redis stream keeps; older ones are removed. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub length_max: Option<u64>,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
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
        self.access.check(&HostPolicy::default())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = login.place.clone();
        let adder = Adder { login, definition: self.clone(), answer_time_max: ANSWERS_TIME_MAX };
        Ok(Box::new(Publisher::new(context, &place, adder)))
    }
}

struct Adder {
    login: Login,
    definition: WriteToRedis,
    /// For one answer, besides the time that what it answers may be under way.
    answer_time_max: Duration,
}

impl Publish for Adder {
    type Connection = Connection;

    async fn connect(&mut self) -> Result<Connection, Refused> {
        Ok(self.login.connect().await?)
    }

    async fn publish(
        &mut self,
        connection: &mut Connection,
        results: &[Outgoing],
        _ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused> {
        let WriteToRedis { key, field, length_max, .. } = &self.definition;
        let length = length_max.map(|length| length.to_string());
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
        let patience = self.answer_time_max + way_time_max(bytes.len());
        for index in first..end {
            match connection.answer(Instant::now() + patience).await? {
                Some(Reply::Error(error)) if is_elsewhere(&error) => return Err(Refused::Passing(error)),
                // All of them wait for somebody to mend it: no result is at fault.
                Some(Reply::Error(error)) => {
                    let is_other = error.starts_with("WRONGTYPE");
                    let reason = if is_other { format!("{key} holds something else than a stream") } else { error };
                    written.left.push(index);
                    written.left_reason.get_or_insert(reason);
                }
                Some(_) => {}
                None => return Err(Refused::Passing("the server does not answer any more".to_owned())),
            }
        }
        Ok(end)
    }

    fn writer(connection: &Connection) -> &Writer {
        &connection.writer
    }
}

/// Whether the server, or what it knows of us, is not what it was. After a failover the name may be that of another one, which
/// only a new connection finds.
fn is_elsewhere(error: &str) -> bool {
    matches!(error.split(' ').next(), Some("READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;
    use crate::conformance::{bodies, output, runtime};

    #[test]
    fn answers_that_come_one_by_one_are_waited_for_however_long_all_of_them_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(200));
                connection.write_all(b"$3\r\n1-0\r\n").unwrap();
            }
        });
        let runtime = runtime();
        let (context, results) = (output(&runtime), bodies(&["1", "2", "3", "4", "5", "6", "7", "8"]));
        let definition: WriteToRedis = serde_json::from_value(json!({"url": url, "key": "k"})).unwrap();
        let login = definition.access.login(&context.hosts).unwrap();
        let adder = Adder { login, definition, answer_time_max: Duration::from_secs(1) };
        let written = Publisher::new(&context, "x", adder).write(&results, 2).unwrap();
        assert!(written.left.is_empty(), "{written:?}");
        answering.join().unwrap();
    }

    #[test]
    fn a_server_that_is_no_master_any_more_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            // The first connection stays open: nothing but its answer says that another one is better.
            let answers = ["-READONLY You can't write against a read only replica.\r\n", "$3\r\n1-0\r\n"];
            let connections = answers.map(|answer| {
                let (mut connection, _) = listener.accept().unwrap();
                assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
                connection.write_all(answer.as_bytes()).unwrap();
                connection
            });
            drop(connections);
        });
        let runtime = runtime();
        let config = crate::parse_destination_v1(&json!({"type": "WriteToRedis", "url": url, "key": "k"})).unwrap();
        let mut destination = config.open(&output(&runtime), None).unwrap();
        let results = [Outgoing { body: b"{}".to_vec(), positive: true, mark: 1, id: None }];
        let refused = destination.write(&results, 2).err().unwrap();
        assert!(refused.retryable() && refused.to_string().contains("READONLY"), "{refused}");
        assert!(destination.write(&results, 2).unwrap().left.is_empty());
        answering.join().unwrap();
    }

    #[test]
    fn a_key_that_holds_something_else_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            for answer in ["-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "$3\r\n1-0\r\n"] {
                assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
                connection.write_all(answer.as_bytes()).unwrap();
            }
        });
        let runtime = runtime();
        let config = crate::parse_destination_v1(&json!({"type": "WriteToRedis", "url": url, "key": "k"})).unwrap();
        let mut destination = config.open(&output(&runtime), None).unwrap();
        let results = [Outgoing { body: b"{}".to_vec(), positive: true, mark: 1, id: None }];
        let written = destination.write(&results, 2).unwrap();
        assert_eq!((written.left, written.refused.len()), (vec![0], 0));
        assert_eq!(written.left_reason.as_deref(), Some("k holds something else than a stream"));
        // Somebody has removed it.
        let written = destination.write(&results, 2).unwrap();
        assert_eq!((written.left.len(), written.refused.len()), (0, 0));
        answering.join().unwrap();
    }
}
