//! A consumer of a stream of Kinesis: what the service sends records to as they come, at a rate of its own (enhanced fan-out).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::client::Client;
use super::reader::call;
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::http;

const CREATION_TIME_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(500);

/// As a definition has it.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// It is there already.
    pub arn: Option<String>,
    /// Registered where there is none.
    pub name: String,
}

impl Consumer {
    /// The ARN of one that is active.
    pub async fn ensure(
        &self,
        client: &Client,
        stream: &str,
        retries: u32,
        place: &str,
        trouble: &Trouble,
    ) -> Result<Arc<str>, ConnectorError> {
        if let Some(arn) = &self.arn {
            return Ok(arn.as_str().into());
        }
        let place = format!("{place}, consumer {}", self.name);
        let summary = call(client, "DescribeStreamSummary", &json!({"StreamName": stream}), retries, trouble).await;
        let summary = summary.map_err(|failed| failed.fatal(&place))?;
        let of_stream = summary.pointer("/StreamDescriptionSummary/StreamARN").and_then(Json::as_str);
        let of_stream = of_stream.ok_or_else(|| http::refusal(&place, "the stream has no ARN".to_owned()))?;
        let this = json!({"StreamARN": of_stream, "ConsumerName": self.name});
        let begun = tokio::time::Instant::now();
        loop {
            match call(client, "DescribeStreamConsumer", &this, retries, trouble).await {
                Ok(told) => {
                    let field = |name: &str| told["ConsumerDescription"][name].as_str();
                    if let (Some("ACTIVE"), Some(arn)) = (field("ConsumerStatus"), field("ConsumerARN")) {
                        return Ok(arn.into());
                    }
                }
                Err(failed) if failed.code == "ResourceNotFoundException" => {
                    match call(client, "RegisterStreamConsumer", &this, retries, trouble).await {
                        Ok(_) => {}
                        // Another of the application was faster.
                        Err(failed) if failed.code == "ResourceInUseException" => {}
                        Err(failed) => return Err(failed.fatal(&place)),
                    }
                }
                Err(failed) => return Err(failed.fatal(&place)),
            }
            if begun.elapsed() > CREATION_TIME_MAX {
                return Err(http::refusal(&place, "it does not become active".to_owned()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
