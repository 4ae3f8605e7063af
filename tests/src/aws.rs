//! A server that stands in for Amazon's, started by `services/aws.sh` in a temporary directory on loopback, and ended with the test.
//! Where it cannot be had, the test says loudly what it leaves out.

use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::client::send;

pub struct Amazon {
    directory: TempDir,
    pub address: String,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/aws.sh")
}

impl Amazon {
    pub fn start(left_out: &str) -> Option<Amazon> {
        let directory = tempfile::Builder::new().prefix("weir-aws-").tempdir().expect("a temporary directory");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(directory.path()).arg(port.to_string()).stdin(Stdio::null());
        let started = command.output().expect("bash");
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

    /// An operation of Kinesis.
    fn kinesis(&self, operation: &str, body: &Json) -> Json {
        let address = self.address.parse().expect("an address");
        let target = format!("Kinesis_20131202.{operation}");
        let headers = [("X-Amz-Target", target.as_str()), ("Content-Type", "application/x-amz-json-1.1")];
        let answer = send(address, "POST", "/", &headers, body.to_string().as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{operation}: {}", answer.text());
        serde_json::from_str(&answer.text()).unwrap_or_default()
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
        let address = self.address.parse().expect("an address");
        let headers = [("X-Amz-Target", "AmazonSQS.CreateQueue"), ("Content-Type", "application/x-amz-json-1.0")];
        // What was lost on its way is given out again soon.
        let body = json!({"QueueName": name, "Attributes": {"VisibilityTimeout": "5"}}).to_string();
        let answer = send(address, "POST", "/", &headers, body.as_bytes()).expect("an answer");
        let made: Json = serde_json::from_str(&answer.expect(200).text()).expect("JSON");
        // The server may call itself by another name.
        let path = made["QueueUrl"].as_str().and_then(|url| url.splitn(4, '/').nth(3)).expect("a URL with a path");
        format!("/{path}")
    }

    /// Messages `{"id": n}` to a queue, by its path.
    pub fn send_messages(&self, queue: &str, ids: Range<u64>) {
        let address = self.address.parse().expect("an address");
        let headers = [("X-Amz-Target", "AmazonSQS.SendMessageBatch"), ("Content-Type", "application/x-amz-json-1.0")];
        for from in ids.clone().step_by(10) {
            let entry = |id: u64| json!({"Id": id.to_string(), "MessageBody": json!({"id": id}).to_string()});
            let entries: Vec<Json> = (from..ids.end.min(from + 10)).map(entry).collect();
            let body = json!({"QueueUrl": format!("http://{}{queue}", self.address), "Entries": entries});
            send(address, "POST", "/", &headers, body.to_string().as_bytes()).expect("an answer").expect(200);
        }
    }

    /// Makes a topic of SNS that hands on to a queue, by its name, what it is told. Says what it is called.
    pub fn create_topic(&self, name: &str, queue: &str) -> String {
        let address = self.address.parse().expect("an address");
        let form = |fields: &str| {
            let headers = [("Content-Type", "application/x-www-form-urlencoded")];
            let body = format!("Version=2010-03-31&{fields}");
            send(address, "POST", "/", &headers, body.as_bytes()).expect("an answer").expect(200).text()
        };
        let made = form(&format!("Action=CreateTopic&Name={name}"));
        let topic =
            made.split_once("<TopicArn>").and_then(|(_, rest)| rest.split_once("</TopicArn>")).expect("a topic").0.to_owned();
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

impl Drop for Amazon {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).output();
    }
}
