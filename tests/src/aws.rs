//! A server that stands in for Amazon's, started by `services/aws.sh` in a temporary directory on loopback, and ended with the
//! test. Where it cannot be had, the test says loudly what it leaves out.

use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::client::send;
use crate::kafka::free_ports;

pub struct Amazon {
    directory: TempDir,
    pub address: String,
}

/// Somebody with a key.
pub struct User {
    pub arn: String,
    pub key: String,
    pub secret: String,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/aws.sh")
}

impl Amazon {
    pub fn start(left_out: &str) -> Option<Amazon> {
        Amazon::start_with(&[], left_out)
    }

    /// One that checks signatures and decides permissions. Whoever asks here is the owner, who may do everything.
    pub fn start_strict(left_out: &str) -> Option<Amazon> {
        Amazon::start_with(&[("AWS_STRICT", "1")], left_out)
    }

    fn start_with(variables: &[(&str, &str)], left_out: &str) -> Option<Amazon> {
        let directory = tempfile::Builder::new().prefix("weir-aws-").tempdir().expect("a temporary directory");
        // Not one that the system gives out: a client of another test could have it before the server listens.
        let port = free_ports(1);
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(directory.path()).arg(port.to_string()).stdin(Stdio::null());
        let started = command.envs(variables.iter().copied()).output().expect("bash");
        if !started.status.success() {
            let reason = String::from_utf8_lossy(&started.stderr).trim().lines().last().unwrap_or_default().to_owned();
            eprintln!("**** LEFT OUT: {left_out}. tests/services/aws.sh start: {reason}");
            return None;
        }
        Some(Amazon { directory, address: format!("127.0.0.1:{port}") })
    }

    /// Makes a bucket, or an object in one.
    pub fn put(&self, path: &str, body: &[u8]) {
        let address = self.address.parse().expect("an address");
        let answer = send(address, "PUT", path, &[], body).expect("an answer");
        assert!(matches!(answer.status, 200 | 204), "{path}: {}", answer.text());
    }

    /// Asks in the name of the owner, whose signature is not looked at. What is answered to it.
    fn ask(&self, service: &str, headers: &[(&str, &str)], body: &str) -> String {
        let owner = format!(
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=00"
        );
        let mut headers = headers.to_vec();
        headers.push(("Authorization", owner.as_str()));
        let address = self.address.parse().expect("an address");
        let answer = send(address, "POST", "/", &headers, body.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
        answer.text()
    }

    /// An operation of Kinesis.
    fn kinesis(&self, operation: &str, body: &Json) -> Json {
        let target = format!("Kinesis_20131202.{operation}");
        let headers = [("X-Amz-Target", target.as_str()), ("Content-Type", "application/x-amz-json-1.1")];
        serde_json::from_str(&self.ask("kinesis", &headers, &body.to_string())).unwrap_or_default()
    }

    /// An operation of SQS.
    fn sqs(&self, operation: &str, body: &Json) -> String {
        let target = format!("AmazonSQS.{operation}");
        let headers = [("X-Amz-Target", target.as_str()), ("Content-Type", "application/x-amz-json-1.0")];
        self.ask("sqs", &headers, &body.to_string())
    }

    /// An operation of IAM.
    fn iam(&self, operation: &str, fields: &[(&str, &str)]) -> String {
        let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let fields = fields.iter().map(|&(name, value)| format!("&{name}={}", encoded(value))).collect::<String>();
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        self.ask("iam", &headers, &format!("Version=2010-05-08&Action={operation}{fields}"))
    }

    /// Makes a user who may do nothing but take on roles.
    pub fn create_user(&self, name: &str) -> User {
        let user = self.iam("CreateUser", &[("UserName", name)]);
        let key = self.iam("CreateAccessKey", &[("UserName", name)]);
        let roles = policy(json!({"Action": "sts:AssumeRole", "Resource": "*"}));
        self.iam("PutUserPolicy", &[("UserName", name), ("PolicyName", "roles"), ("PolicyDocument", &roles)]);
        User { arn: element(&user, "Arn"), key: element(&key, "AccessKeyId"), secret: element(&key, "SecretAccessKey") }
    }

    /// Makes a role that `principal` takes on by this operation of STS, and that may do what is `allowed`. Says what it is
    /// called.
    pub fn create_role(&self, name: &str, principal: Json, operation: &str, allowed: &[&str]) -> String {
        let trust = policy(json!({"Principal": principal, "Action": format!("sts:{operation}")}));
        let role = self.iam("CreateRole", &[("RoleName", name), ("AssumeRolePolicyDocument", &trust)]);
        let allowed = policy(json!({"Action": allowed, "Resource": "*"}));
        self.iam("PutRolePolicy", &[("RoleName", name), ("PolicyName", "allowed"), ("PolicyDocument", &allowed)]);
        element(&role, "Arn")
    }

    pub fn create_stream(&self, name: &str, shards: u32) {
        self.kinesis("CreateStream", &json!({"StreamName": name, "ShardCount": shards}));
    }

    /// Records `{"id": n}`, each to a shard of its own choosing.
    pub fn put_records(&self, stream: &str, ids: Range<u64>) {
        let record = |id: u64| json!({"PartitionKey": id.to_string(), "Data": STANDARD.encode(json!({"id": id}).to_string())});
        for from in ids.clone().step_by(500) {
            let records: Vec<Json> = (from..ids.end.min(from + 500)).map(record).collect();
            self.kinesis("PutRecords", &json!({"StreamName": stream, "Records": records}));
        }
    }

    /// Makes a queue of SQS. Its path on the server.
    pub fn create_queue(&self, name: &str) -> String {
        // What was lost on its way is given out again soon.
        let made = self.sqs("CreateQueue", &json!({"QueueName": name, "Attributes": {"VisibilityTimeout": "5"}}));
        let made: Json = serde_json::from_str(&made).expect("JSON");
        // The server may call itself by another name.
        let path = made["QueueUrl"].as_str().and_then(|url| url.splitn(4, '/').nth(3)).expect("a URL with a path");
        format!("/{path}")
    }

    /// Messages `{"id": n}` to a queue, by its path.
    pub fn send_messages(&self, queue: &str, ids: Range<u64>) {
        for from in ids.clone().step_by(10) {
            let entry = |id: u64| json!({"Id": id.to_string(), "MessageBody": json!({"id": id}).to_string()});
            let entries: Vec<Json> = (from..ids.end.min(from + 10)).map(entry).collect();
            let url = format!("http://{}{queue}", self.address);
            self.sqs("SendMessageBatch", &json!({"QueueUrl": url, "Entries": entries}));
        }
    }

    /// Makes a topic of SNS that hands on to a queue, by its name, what it is told. Says what it is called.
    pub fn create_topic(&self, name: &str, queue: &str) -> String {
        let form = |fields: &str| {
            let headers = [("Content-Type", "application/x-www-form-urlencoded")];
            self.ask("sns", &headers, &format!("Version=2010-03-31&{fields}"))
        };
        let topic = element(&form(&format!("Action=CreateTopic&Name={name}")), "TopicArn");
        let account = topic.rsplit(':').nth(1).expect("an account");
        let raw = "Attributes.entry.1.key=RawMessageDelivery&Attributes.entry.1.value=true";
        form(&format!("Action=Subscribe&TopicArn={topic}&Protocol=sqs&Endpoint=arn:aws:sqs:us-east-1:{account}:{queue}&{raw}"));
        topic
    }

    /// A source with who asks and where.
    pub fn with(&self, source: Json) -> Json {
        let mut all = json!({"credentials": {"accessKeyId": "test", "secretAccessKey": "geheim"}, "region": "us-east-1",
            "endpoint": format!("http://{}/", self.address)});
        if let (Json::Object(all), Json::Object(source)) = (&mut all, source) {
            all.extend(source);
        }
        all
    }
}

/// A policy that allows this.
fn policy(mut statement: Json) -> String {
    statement["Effect"] = json!("Allow");
    json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
}

/// What an answer in XML has under that name.
fn element(answer: &str, name: &str) -> String {
    let after = answer.split_once(&format!("<{name}>")).map(|(_, after)| after);
    let found = after.and_then(|after| after.split_once(&format!("</{name}>")));
    found.unwrap_or_else(|| panic!("there is no {name} in {answer}")).0.to_owned()
}

impl Drop for Amazon {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).output();
    }
}
