//! The lease table: who reads which shard, and how far it has been read. Its rows are those of Amazon's client library, so that
//! others who use that one see them as their own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map as JsonMap, Value as Json, json};

use crate::aws::client::{Client, Failed, Service};
use crate::aws::reader::call;
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::http;

pub static DYNAMODB: Service =
    Service { name: "dynamodb", target: "DynamoDB_20120810", content_type: "application/x-amz-json-1.0" };

/// A lease whose shard has been read to its end.
pub const SHARD_END: &str = "SHARD_END";

const CREATION_TIME_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(500);

/// A row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lease {
    pub shard: String,
    pub owner: Option<String>,
    /// Who has still to say how far it was read.
    pub checkpoint_owner: Option<String>,
    /// Goes up as long as the owner is alive.
    pub counter: u64,
    /// A sequence number, or a word.
    pub checkpoint: String,
    pub parents: Vec<String>,
    /// weir's own: when the row was made, in milliseconds since 1970. That is what `LATEST` means, also to who comes later. Of
    /// one that Amazon's library made: when the first weir took it; 0 before.
    pub from: u64,
}

/// The moment, as a row has it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Lease {
    fn read(item: &Json) -> Option<Lease> {
        let text = |name: &str| item.get(name)?.get("S")?.as_str().map(str::to_owned);
        let number = |name: &str| item.get(name)?.get("N")?.as_str()?.parse::<u64>().ok();
        let parents = item.get("parentShardId").and_then(|parents| parents.get("SS")).and_then(Json::as_array);
        Some(Lease {
            shard: text("leaseKey")?,
            owner: text("leaseOwner"),
            checkpoint_owner: text("checkpointOwner"),
            counter: number("leaseCounter").unwrap_or_default(),
            checkpoint: text("checkpoint")?,
            parents: parents.into_iter().flatten().filter_map(|parent| parent.as_str().map(str::to_owned)).collect(),
            from: number("weirFrom").unwrap_or_default(),
        })
    }

    fn item(&self) -> Json {
        let mut item = json!({
            "leaseKey": {"S": self.shard},
            "leaseCounter": {"N": self.counter.to_string()},
            "checkpoint": {"S": self.checkpoint},
            "checkpointSubSequenceNumber": {"N": "0"},
            "ownerSwitchesSinceCheckpoint": {"N": "0"},
            "weirFrom": {"N": self.from.to_string()},
        });
        if !self.parents.is_empty() {
            item["parentShardId"] = json!({"SS": self.parents});
        }
        item
    }

    pub fn is_ended(&self) -> bool {
        self.checkpoint == SHARD_END
    }
}

pub struct Table {
    pub name: String,
    pub retries: u32,
    /// Reads and writes a second, of a table that is paid for by what it could do.
    pub provisioned: Option<(u32, u32)>,
}

/// A row that is not as it was thought to be.
pub struct Changed;

/// A change of a row: what is set, what is taken away, and what has to hold.
#[derive(Default)]
struct Change {
    set: Vec<String>,
    remove: Vec<&'static str>,
    conditions: Vec<String>,
    values: JsonMap<String, Json>,
}

impl Change {
    fn value(&mut self, value: Json) -> String {
        let name = format!(":v{}", self.values.len());
        self.values.insert(name.clone(), value);
        name
    }

    fn set(mut self, field: &str, value: Json) -> Change {
        let name = self.value(value);
        self.set.push(format!("{field} = {name}"));
        self
    }

    fn remove(mut self, field: &'static str) -> Change {
        self.remove.push(field);
        self
    }

    fn if_is(mut self, field: &str, value: Option<Json>) -> Change {
        let condition = match value {
            Some(value) => format!("{field} = {}", self.value(value)),
            None => format!("attribute_not_exists({field})"),
        };
        self.conditions.push(condition);
        self
    }
}

fn text(text: &str) -> Json {
    json!({"S": text})
}

fn number(number: u64) -> Json {
    json!({"N": number.to_string()})
}

/// The table, and who asks.
pub struct Leases {
    pub table: Table,
    pub client: Client,
    pub place: String,
    pub trouble: Trouble,
}

impl Leases {
    async fn call(&self, operation: &str, mut body: Json) -> Result<Json, Failed> {
        body["TableName"] = self.table.name.as_str().into();
        call(&self.client, operation, &body, self.table.retries, &self.trouble).await
    }

    fn fatal(&self, failed: Failed) -> ConnectorError {
        failed.fatal(&format!("{}, lease table {}", self.place, self.table.name))
    }

    /// Makes the table where there is none, and waits until it can be used.
    pub async fn ensure(&self) -> Result<(), ConnectorError> {
        let begun = tokio::time::Instant::now();
        let mut made = false;
        loop {
            match self.call("DescribeTable", json!({})).await {
                Ok(told) if told.pointer("/Table/TableStatus").and_then(Json::as_str) == Some("ACTIVE") => return Ok(()),
                Ok(_) => {}
                Err(failed) if failed.code == "ResourceNotFoundException" && !made => {
                    made = true;
                    self.create().await?;
                }
                Err(failed) if failed.code == "ResourceNotFoundException" => {}
                Err(failed) => return Err(self.fatal(failed)),
            }
            if begun.elapsed() > CREATION_TIME_MAX {
                return Err(http::refusal(&self.place, format!("the lease table {} does not become active", self.table.name)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn create(&self) -> Result<(), ConnectorError> {
        let mut request = json!({
            "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        });
        match self.table.provisioned {
            None => request["BillingMode"] = "PAY_PER_REQUEST".into(),
            Some((reads, writes)) => {
                request["BillingMode"] = "PROVISIONED".into();
                request["ProvisionedThroughput"] = json!({"ReadCapacityUnits": reads, "WriteCapacityUnits": writes});
            }
        }
        match self.call("CreateTable", request).await {
            Err(failed) if failed.code != "ResourceInUseException" => Err(self.fatal(failed)),
            _ => Ok(()),
        }
    }

    pub async fn all(&self) -> Result<Vec<Lease>, ConnectorError> {
        let (mut leases, mut request) = (Vec::new(), json!({"ConsistentRead": true}));
        loop {
            let answer = self.call("Scan", request.clone()).await.map_err(|failed| self.fatal(failed))?;
            leases.extend(answer["Items"].as_array().into_iter().flatten().filter_map(Lease::read));
            match answer.get("LastEvaluatedKey").filter(|key| !key.is_null()) {
                Some(key) => request["ExclusiveStartKey"] = key.clone(),
                None => return Ok(leases),
            }
        }
    }

    /// Adds a row, unless somebody has.
    pub async fn add(&self, lease: &Lease) -> Result<(), ConnectorError> {
        let request = json!({"Item": lease.item(), "ConditionExpression": "attribute_not_exists(leaseKey)"});
        self.unless_changed(self.call("PutItem", request).await).map(drop)
    }

    /// Takes a row away whose shard has been read.
    pub async fn delete(&self, lease: &Lease) -> Result<(), ConnectorError> {
        let request = json!({
            "Key": {"leaseKey": text(&lease.shard)},
            "ConditionExpression": "checkpoint = :end",
            "ExpressionAttributeValues": {":end": text(SHARD_END)},
        });
        self.unless_changed(self.call("DeleteItem", request).await).map(drop)
    }

    /// Says that the owner is alive.
    pub async fn renew(&self, lease: &Lease, worker: &str) -> Result<Result<Lease, Changed>, ConnectorError> {
        let change = Change::default().set("leaseCounter", number(lease.counter + 1));
        self.change(lease, as_it_was(change, lease).if_is("leaseOwner", Some(text(worker)))).await
    }

    /// Makes it this worker's. Whoever has it, if it is to say how far it has read, is waited for.
    pub async fn take(&self, lease: &Lease, worker: &str, asked: bool) -> Result<Result<Lease, Changed>, ConnectorError> {
        let mut change = Change::default().set("leaseOwner", text(worker)).set("leaseCounter", number(lease.counter + 1));
        change = match lease.owner.as_deref() {
            // It was this one's before it died; whoever it has asked then may still be about to answer.
            Some(owner) if owner == worker => change,
            Some(owner) if asked => change.set("checkpointOwner", text(owner)),
            _ => change.remove("checkpointOwner"),
        };
        if lease.from == 0 {
            change = change.set("weirFrom", number(now()));
        }
        self.change(lease, as_it_was(change, lease).if_is("leaseOwner", lease.owner.as_deref().map(text))).await
    }

    /// Says how far its shard has been read. `leaving` is said by who has been asked to.
    pub async fn checkpoint(
        &self,
        lease: &Lease,
        worker: &str,
        checkpoint: &str,
        leaving: bool,
    ) -> Result<Result<Lease, Changed>, ConnectorError> {
        let change = Change::default()
            .set("checkpoint", text(checkpoint))
            .set("checkpointSubSequenceNumber", number(0))
            .set("ownerSwitchesSinceCheckpoint", number(0));
        let owner = if leaving { "checkpointOwner" } else { "leaseOwner" };
        self.change(lease, change.if_is(owner, Some(text(worker)))).await
    }

    /// Nobody is waited for any more.
    pub async fn left(&self, lease: &Lease, by: &str) -> Result<Result<Lease, Changed>, ConnectorError> {
        self.change(lease, Change::default().remove("checkpointOwner").if_is("checkpointOwner", Some(text(by)))).await
    }

    /// Gives it to whoever comes.
    pub async fn release(&self, lease: &Lease, worker: &str) -> Result<Result<Lease, Changed>, ConnectorError> {
        let change = Change::default().set("leaseCounter", number(lease.counter + 1)).remove("leaseOwner");
        self.change(lease, change.if_is("leaseOwner", Some(text(worker)))).await
    }

    async fn change(&self, lease: &Lease, change: Change) -> Result<Result<Lease, Changed>, ConnectorError> {
        let mut update = String::new();
        if !change.set.is_empty() {
            update.push_str(&format!("SET {} ", change.set.join(", ")));
        }
        if !change.remove.is_empty() {
            update.push_str(&format!("REMOVE {}", change.remove.join(", ")));
        }
        let request = json!({
            "Key": {"leaseKey": text(&lease.shard)},
            "UpdateExpression": update.trim(),
            "ConditionExpression": change.conditions.join(" AND "),
            "ExpressionAttributeValues": change.values,
            "ReturnValues": "ALL_NEW",
        });
        let answer = self.unless_changed(self.call("UpdateItem", request).await)?;
        Ok(answer.and_then(|answer| Lease::read(&answer["Attributes"])).ok_or(Changed))
    }

    /// None where a condition did not hold.
    fn unless_changed(&self, answer: Result<Json, Failed>) -> Result<Option<Json>, ConnectorError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(failed) if failed.code == "ConditionalCheckFailedException" => Ok(None),
            Err(failed) => Err(self.fatal(failed)),
        }
    }
}

/// A counter that has moved says that somebody else was there.
fn as_it_was(change: Change, lease: &Lease) -> Change {
    change.if_is("leaseCounter", Some(number(lease.counter)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;

    #[test]
    fn a_row_of_amazons_library_begins_when_it_is_taken() {
        let server = StandIn::start(|_| (200, "{}".to_owned()));
        let begun = now();
        let taken_with = |from: u64| {
            runtime().block_on(async {
                let client = Client::open(&DYNAMODB, &server.access(), None).await.unwrap();
                let table = Table { name: "t".to_owned(), retries: 3, provisioned: None };
                let leases = Leases { table, client, place: "here".to_owned(), trouble: Trouble::new("here") };
                let lease = Lease { shard: "a".to_owned(), checkpoint: "LATEST".to_owned(), from, ..Lease::default() };
                let _ = leases.take(&lease, "me", false).await.unwrap();
            });
            server.asked().remove(0).body
        };
        let taken = taken_with(0);
        let update = taken["UpdateExpression"].as_str().unwrap();
        let (_, name) = update.split_once("weirFrom = ").unwrap();
        let name = name.split([',', ' ']).next().unwrap();
        let from = taken["ExpressionAttributeValues"][name]["N"].as_str().unwrap().parse::<u64>().unwrap();
        assert!(from >= begun && from <= now(), "{taken}");
        // One that says when it was made goes on saying so.
        assert!(!taken_with(5).to_string().contains("weirFrom"));
    }

    #[test]
    fn a_row_comes_back() {
        let lease = Lease {
            shard: "shardId-000000000000".to_owned(),
            counter: 7,
            checkpoint: "4957".to_owned(),
            parents: vec!["a".to_owned()],
            from: 5,
            ..Lease::default()
        };
        assert_eq!(Lease::read(&lease.item()), Some(lease.clone()));
        let mut owned = lease.item();
        owned["leaseOwner"] = text("me");
        assert_eq!(Lease::read(&owned), Some(Lease { owner: Some("me".to_owned()), ..lease }));
        assert_eq!(Lease::read(&json!({"leaseKey": {"S": "x"}})), None);
    }
}
