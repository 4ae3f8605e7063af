//! What a result is on its way out where that can be chosen: text, or a record by a schema, alone or behind the number it has in
//! a registry.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use weir_model::protobuf::{Declared, MessageType};
use weir_model::{IdScheme, Map};

use crate::avro::AvroWriter;
use crate::config;
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::host_policy::HostPolicy;
use crate::registry::{self, MAGIC, Registration, Registry, SchemaRegistry};
use crate::{fetch, schema, secret};

/// How a result is written to a message service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum OutputFormat {
    /// As JSON.
    #[default]
    #[serde(rename = "JSON")]
    Json,
    /// As a Protobuf message; its fields are filled by name. A result that does not fit the message is refused.
    Protobuf(ProtobufOutput),
    /// As an Avro datum; its fields are filled by name. A result that does not fit the schema is refused.
    Avro(AvroOutput),
}

/// Where the Protobuf schema of results is found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtobufOutput {
    /// Where the compiled descriptor set is found, as `protoc --include_imports --descriptor_set_out=FILE` writes it: an `http`,
    /// `https` or `file` URL, or the path of a file. Without it the newest schema of `subject` in `schemaRegistry` is used.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The message type of results: its full name, or the end of it if no other message of the set ends so. With a registry the
    /// first message of the schema when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The schema registry that has the schema. Each message then begins with the header that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
    /// The subject of the schema in the registry. For Kafka the topic with `-value` appended when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Where the Avro schema of results is found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvroOutput {
    /// Where the schema is found: an `http`, `https` or `file` URL, or the path of a file. With `schemaRegistry` it is registered
    /// there; without it the newest schema of `subject` in the registry is used.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The schema registry. Each datum then begins with the header that names its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
    /// The subject of the schema in the registry. For Kafka the topic with `-value` appended when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl<'de> Deserialize<'de> for OutputFormat {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<OutputFormat, D::Error> {
        let given = Json::deserialize(input)?;
        let format = config::kind(&given).and_then(|kind| match kind {
            "JSON" => Ok(OutputFormat::Json),
            "Protobuf" => config::from_json(&given).map(OutputFormat::Protobuf),
            "Avro" => config::from_json(&given).map(OutputFormat::Avro),
            other => Err(config::unknown_kind(other)),
        });
        format.map_err(config::inside)
    }
}

/// What results are written by.
pub struct RecordSchema {
    form: Form,
    /// What stands before each: the number of the schema, where a registry has it.
    header: Vec<u8>,
    /// As it is told.
    pub name: String,
}

enum Form {
    Protobuf(MessageType),
    Avro(AvroWriter),
}

impl RecordSchema {
    /// The bytes of a record.
    pub fn write(&self, map: &Map, ids: IdScheme) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.header);
        match &self.form {
            Form::Protobuf(message) => message.encode(map, ids, &mut out).map_err(|error| error.to_string())?,
            Form::Avro(writer) => writer.write(map, ids, &mut out)?,
        }
        Ok(out)
    }
}

impl OutputFormat {
    /// The schema that results are written by, if there is one: fetched from where the definition says. `usual` is the subject
    /// where none is given.
    pub fn schema(
        &self,
        usual: Option<String>,
        files: &FilePolicy,
        hosts: &HostPolicy,
    ) -> Result<Option<Arc<RecordSchema>>, ConnectorError> {
        let schema = match self {
            OutputFormat::Json => return Ok(None),
            OutputFormat::Protobuf(protobuf) => protobuf.schema(usual, files, hosts),
            OutputFormat::Avro(avro) => avro.schema(usual, files, hosts),
        };
        schema.map(|schema| Some(Arc::new(schema))).map_err(|error| error.within("format"))
    }
}

impl ProtobufOutput {
    fn schema(&self, usual: Option<String>, files: &FilePolicy, hosts: &HostPolicy) -> Result<RecordSchema, ConnectorError> {
        let (message, header) = match (&self.schema_url, &self.schema_registry, &self.type_name) {
            (Some(url), None, Some(name)) => (schema::message(url, name, files, hosts)?, Vec::new()),
            (Some(_), None, None) => return Err(ConnectorError::config("typeName", "Missing required field")),
            (None, None, _) => return Err(nowhere()),
            (Some(_), Some(_), _) => {
                let problem =
                    "registries keep declarations, not descriptor sets: register the .proto file there and leave this out";
                return Err(ConnectorError::config("schemaUrl", problem));
            }
            (None, Some(registry), name) => {
                let (registry, subject) = (Registry::open(registry, hosts)?, subject(&self.subject, usual)?);
                let found = latest(&registry, &subject, "PROTOBUF")?;
                let wrong = |error| ConnectorError::config("subject", format!("schema {} of {subject}: {error}", found.id));
                let declared = Declared::read(&found.text, &found.references).map_err(wrong)?;
                let (message, places) =
                    declared.named(name.as_deref()).map_err(|error| ConnectorError::config("typeName", error.to_string()))?;
                let mut header = number_of(found.id);
                match &places[..] {
                    [0] => header.push(0),
                    places => std::iter::once(&places.len()).chain(places).for_each(|place| zigzag(*place, &mut header)),
                }
                (message, header)
            }
        };
        Ok(RecordSchema { name: message.full_name().to_owned(), form: Form::Protobuf(message), header })
    }
}

impl AvroOutput {
    fn schema(&self, usual: Option<String>, files: &FilePolicy, hosts: &HostPolicy) -> Result<RecordSchema, ConnectorError> {
        let text = self.schema_url.as_ref().map(|url| schema::text(url, files, hosts)).transpose()?;
        let writer = |text: &str, others: &[&str], field: &str| {
            AvroWriter::new(text, others).map_err(|problem| ConnectorError::config(field, problem))
        };
        let Some(registry) = &self.schema_registry else {
            let (Some(text), Some(url)) = (&text, &self.schema_url) else { return Err(nowhere()) };
            return Ok(RecordSchema {
                form: Form::Avro(writer(text, &[], "schemaUrl")?),
                header: Vec::new(),
                name: format!("the schema at {}", fetch::shown(url)),
            });
        };
        let (registry, subject) = (Registry::open(registry, hosts)?, subject(&self.subject, usual)?);
        let (id, writer) = match &text {
            Some(text) => {
                let writer = writer(text, &[], "schemaUrl")?;
                let registered = registry::blocking(registry.register(&subject, "AVRO", text))?;
                (registered.map_err(|failed| registry.told(failed, &subject))?, writer)
            }
            None => {
                let found = latest(&registry, &subject, "AVRO")?;
                let others: Vec<&str> = found.references.iter().map(|(_, text)| text.as_str()).collect();
                (found.id, writer(&found.text, &others, "subject")?)
            }
        };
        Ok(RecordSchema { form: Form::Avro(writer), header: number_of(id), name: format!("schema {id} of {subject}") })
    }
}

fn nowhere() -> ConnectorError {
    ConnectorError::config("schemaUrl", "is missing: say where the schema is found, there or with schemaRegistry")
}

fn subject(given: &Option<String>, usual: Option<String>) -> Result<String, ConnectorError> {
    let missing = || ConnectorError::config("subject", "is missing: say what the schema is registered for");
    given.clone().or(usual).ok_or_else(missing)
}

fn latest(registry: &Registry, subject: &str, kind: &str) -> Result<Registration, ConnectorError> {
    let found = registry::blocking(registry.latest(subject))?.map_err(|failed| registry.told(failed, subject))?;
    if found.kind == kind {
        return Ok(found);
    }
    Err(ConnectorError::config("subject", format!("the schema of {subject} is of {}, and the format is of {kind}", found.kind)))
}

fn number_of(id: u32) -> Vec<u8> {
    let mut header = vec![MAGIC];
    header.extend(id.to_be_bytes());
    header
}

fn zigzag(n: usize, out: &mut Vec<u8>) {
    let mut left = (n as u64) << 1;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
