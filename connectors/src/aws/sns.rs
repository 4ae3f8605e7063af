//! An output to a topic of SNS.
//!
//! At least once, in order: a result counts as delivered when the topic has taken it, and what follows a message that was not
//! taken waits. What becomes of it among subscribers is theirs and the topic's.

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::sync::OnceCell;
use weir_model::Position;

use super::access::{Access, AwsCredentials, AwsRegion};
use super::batches::{Batched, Request, Sent, unless_said};
use super::client::{Client, Failed, Opening, Service, element};
use super::write_to_sqs::{BOUNDS, check_group, group, unlike};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::secret;

static SNS: Service = Service { name: "sns", target: "", content_type: "application/x-www-form-urlencoded" };
/// The version of the protocol.
const VERSION: &str = "2010-03-31";

/// Publishes each result to an SNS topic.
///
/// Each result arrives at least once, in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WriteToSNS")]
pub struct WriteToSns {
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the topic. The one in its ARN when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of another server that speaks the same protocol, to be used instead of Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub endpoint: Option<String>,
    /// The ARN of the topic, such as `arn:aws:sns:eu-west-1:123456789012:alerts`.
    pub topic: String,
    /// The message group of all messages. Used for FIFO topics only. `weir` when not given.
    #[serde(default = "group")]
    pub message_group_id: String,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

impl WriteToSns {
    /// `arn:aws:sns:eu-west-1:123456789012:name` is in eu-west-1.
    fn region_of_topic(&self) -> Result<&str, ConnectorError> {
        let parts: Vec<&str> = self.topic.split(':').collect();
        match parts.as_slice() {
            ["arn", _, "sns", region, _, name] if !region.is_empty() && !name.is_empty() => Ok(region),
            _ => Err(ConnectorError::config("topic", format!("'{}' is no ARN of a topic", self.topic))),
        }
    }
}

impl DestinationConfig for WriteToSns {
    fn settings(&self) -> Json {
        crate::settings("WriteToSNS", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    /// In both notations.
    fn is_line(&self, _generation: Generation) -> bool {
        true
    }

    fn check(&self) -> Result<(), ConnectorError> {
        self.region_of_topic()?;
        check_group(&self.message_group_id)
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let of_topic = AwsRegion { region: self.region_of_topic()?.to_owned() };
        let (credentials, region) = (self.credentials.clone(), Some(self.region.clone().unwrap_or(of_topic)));
        let access = Access { credentials, region, endpoint: self.endpoint.clone(), hosts: context.hosts.clone() };
        access.check()?;
        Ok(Box::new(Batched {
            stop: Arc::default(),
            stops_at_refused: false,
            runtime: context.runtime.clone(),
            client: Opening { service: &SNS, access, address: None, client: OnceCell::new() },
            bounds: BOUNDS,
            at_once: 1,
            together_max: usize::MAX,
            request: Publish {
                topic: self.topic.clone(),
                group: self.topic.ends_with(".fifo").then(|| self.message_group_id.clone()),
            },
        }))
    }
}

struct Publish {
    topic: String,
    group: Option<String>,
}

impl Request for Publish {
    fn keeps_order(&self) -> bool {
        self.group.is_some()
    }

    async fn send(&self, client: &Client, results: &[Outgoing], range: Range<usize>) -> Sent {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut fields = vec![pair("Action", "PublishBatch"), pair("Version", VERSION), pair("TopicArn", &self.topic)];
        for (place, index) in range.clone().enumerate() {
            let mut member = |name: &str, value: &str| {
                fields.push((format!("PublishBatchRequestEntries.member.{}.{name}", place + 1), value.to_owned()));
            };
            member("Id", &index.to_string());
            member("Message", &String::from_utf8_lossy(&results[index].body));
            if let Some(group) = &self.group {
                member("MessageGroupId", group);
                member("MessageDeduplicationId", &unlike());
            }
        }
        let answer = client.form(&fields).await?;
        Ok(failures(&self.topic, range, &answer))
    }
}

fn failures(topic: &str, range: Range<usize>, answer: &str) -> Vec<(usize, Failed)> {
    let members = |name: &str| element(answer, name).unwrap_or_default().split("<member>").skip(1);
    let of = |member: &str| -> Option<usize> { element(member, "Id")?.parse().ok() };
    let failed = |member: &str| {
        let index = of(member)?;
        let code = element(member, "Code").unwrap_or_default().to_owned();
        let reason = format!("{topic}: {code}: {}", element(member, "Message").unwrap_or_default());
        Some((index, Failed { code, reason, retryable: element(member, "SenderFault") != Some("true") }))
    };
    let taken: Vec<usize> = members("Successful").filter_map(of).collect();
    unless_said(topic, range, &taken, members("Failed").filter_map(failed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_in_an_answer() {
        let answer = "<PublishBatchResponse><PublishBatchResult><Successful><member><Id>0</Id></member></Successful><Failed>\
            <member><Id>1</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member><member><Id>2</Id>\
            <Code>InvalidParameter</Code><SenderFault>true</SenderFault></member></Failed></PublishBatchResult>";
        let found = |range: Range<usize>, answer: &str| -> Vec<(usize, bool)> {
            failures("t", range, answer).iter().map(|(index, failed)| (*index, failed.retryable)).collect()
        };
        assert_eq!(found(0..3, answer), [(1, true), (2, false)]);
        // What it does not speak of may not have been taken.
        assert_eq!(found(0..4, answer), [(1, true), (2, false), (3, true)]);
        assert!(found(0..1, &answer.replace("<Failed>", "<Failed/>")).is_empty());
        assert_eq!((found(0..1, "<Failed/>"), found(5..6, "")), (vec![(0, true)], vec![(5, true)]));
    }
}
