//! An output to a queue of SQS.
//!
//! At least once, in order: a result counts as delivered when the queue has taken it, and what follows a message that was not
//! taken waits. A queue whose name ends with `.fifo` keeps that order, and what it took of a request behind such a message comes
//! once more behind it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;
use weir_model::Position;

use super::access::{Access, AwsCredentials, AwsRegion};
use super::batches::{Batched, Bounds, Request, Sent, unless_said};
use super::client::{Client, Failed, Opening};
use super::sqs::{SQS, service_of};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::host_policy::HostPolicy;
use crate::http;

/// What SQS and SNS take in one request.
pub const BOUNDS: Bounds = Bounds { results_max: 10, bytes_max: 256 << 10, bytes_each: 0 };

/// Sends each result to an SQS queue, as the body of a message.
///
/// Each result arrives at least once, in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WriteToSQS")]
pub struct WriteToSqs {
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the queue. When not given, the one in `queueUrl`, or else as the AWS tools find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of the queue.
    pub queue_url: String,
    /// The message group of all messages. Used for FIFO queues only. `weir` when not given.
    #[serde(default = "group")]
    pub message_group_id: String,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

pub fn group() -> String {
    "weir".to_owned()
}

/// The rules of SQS and SNS for groups.
pub fn check_group(group: &str) -> Result<(), ConnectorError> {
    if matches!(group.len(), 1..=128) && group.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    Err(ConnectorError::config("messageGroupId", "is 1 to 128 letters, digits and signs"))
}

impl DestinationConfig for WriteToSqs {
    fn settings(&self) -> Json {
        let queue_url = http::without_password(&self.queue_url);
        crate::settings("WriteToSQS", &WriteToSqs { queue_url, ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("WriteToSQS", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn check(&self) -> Result<(), ConnectorError> {
        service_of(&self.queue_url)?;
        check_group(&self.message_group_id)
    }

    fn try_out(&self, _files: &FilePolicy) -> Result<(), ConnectorError> {
        let access = Access::of(&self.credentials, &self.region, &None, &HostPolicy::default());
        access.try_region(SQS.name, Some(service_of(&self.queue_url)?))
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let access = Access::of(&self.credentials, &self.region, &None, &context.hosts);
        let address = service_of(&self.queue_url)?;
        context.hosts.check(&address)?;
        Ok(Box::new(Batched {
            stop: Arc::default(),
            stops_at_refused: false,
            runtime: context.runtime.clone(),
            client: Opening { service: &SQS, access, address: Some(address), client: OnceCell::new() },
            bounds: BOUNDS,
            at_once: 1,
            together_max: usize::MAX,
            request: SendMessages {
                queue: self.queue_url.clone(),
                shown: http::shown(&http::url("queueUrl", &self.queue_url)?),
                group: self.queue_url.ends_with(".fifo").then(|| self.message_group_id.clone()),
            },
        }))
    }
}

struct SendMessages {
    queue: String,
    /// The URL of `queue`, as it may be told.
    shown: String,
    group: Option<String>,
}

/// A FIFO queue drops a message whose word for it is that of an earlier one. Equal results may be meant, so each gets its own.
pub fn unlike() -> String {
    let part = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", part(), part())
}

impl Request for SendMessages {
    fn keeps_order(&self) -> bool {
        self.group.is_some()
    }

    async fn send(&self, client: &Client, results: &[Outgoing], range: Range<usize>) -> Sent {
        let message = |index: usize| {
            let mut entry = json!({"Id": index.to_string(), "MessageBody": String::from_utf8_lossy(&results[index].body)});
            if let Some(group) = &self.group {
                entry["MessageGroupId"] = group.as_str().into();
                entry["MessageDeduplicationId"] = unlike().into();
            }
            entry
        };
        let entries: Vec<Json> = range.clone().map(message).collect();
        let answer = client.call("SendMessageBatch", &json!({"QueueUrl": self.queue, "Entries": entries})).await?;
        let of = |told: &Json| -> Option<usize> { told["Id"].as_str()?.parse().ok() };
        let failed = |told: &Json| {
            let index = of(told)?;
            let code = told["Code"].as_str().unwrap_or_default().to_owned();
            let reason = format!("{}: {code}: {}", self.shown, told["Message"].as_str().unwrap_or_default());
            Some((index, Failed { code, reason, retryable: !told["SenderFault"].as_bool().unwrap_or_default() }))
        };
        let told = |name: &str| answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let taken: Vec<usize> = told("Successful").iter().filter_map(of).collect();
        Ok(unless_said(&self.shown, range, &taken, told("Failed").iter().filter_map(failed).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::{output, runtime};
    use crate::parse_destination_v1;
    use crate::real_server::results;

    #[test]
    fn only_what_the_answer_speaks_of_is_delivered() {
        let taken = |ids: &[&str]| json!({"Successful": ids.iter().map(|id| json!({"Id": id})).collect::<Vec<_>>()}).to_string();
        let (some, all) = (taken(&["0", "2"]), taken(&["0", "1", "2"]));
        let answers = [(String::new(), vec![0, 1, 2]), ("{}".to_owned(), vec![0, 1, 2]), (some, vec![1]), (all, vec![])];
        let runtime = runtime();
        for (answer, left) in answers {
            let said = answer.clone();
            let server = StandIn::start(move |_| (200, answer.clone()));
            let definition = json!({"type": "WriteToSQS", "queueUrl": format!("{}1/queue", server.url), "region": "us-east-1",
                "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
            let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
            let written = destination.write(&results(3), 0).unwrap();
            assert_eq!((written.left, written.refused.len()), (left, 0), "{said}");
        }
    }

    #[test]
    fn only_a_queue_that_keeps_the_order_gets_once_more_what_has_overtaken_another() {
        let runtime = runtime();
        for (queue, left) in [("queue", vec![1]), ("queue.fifo", vec![1, 2])] {
            let answer = json!({"Successful": [{"Id": "0"}, {"Id": "2"}], "Failed": [{"Id": "1", "Code": "InternalError"}]});
            let server = StandIn::start(move |_| (200, answer.to_string()));
            let definition = json!({"type": "WriteToSQS", "queueUrl": format!("{}1/{queue}", server.url), "region": "us-east-1",
                "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
            let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
            let written = destination.write(&results(3), 0).unwrap();
            assert_eq!((written.left, written.refused.len()), (left, 0), "{queue}");
        }
    }

    #[test]
    fn what_is_told_of_a_failure_has_no_password() {
        let server = StandIn::start(|_| {
            let failed = |id: &str, fault: bool| json!({"Id": id, "Code": "InvalidParameter", "SenderFault": fault});
            (200, json!({"Failed": [failed("0", true), failed("1", false)]}).to_string())
        });
        let queue = format!("{}1/queue?token=hush", server.url.replace("//", "//weir:hush@"));
        let definition = json!({"type": "WriteToSQS", "queueUrl": queue, "region": "us-east-1",
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
        let runtime = runtime();
        let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        let written = destination.write(&results(2), 0).unwrap();
        let told = [written.refused[0].1.clone(), written.left_reason.unwrap()];
        assert!(told.iter().all(|told| told.contains("/1/queue: InvalidParameter") && !told.contains("hush")), "{told:?}");
        assert_eq!(server.asked()[0].body["QueueUrl"], json!(queue));
    }
}
