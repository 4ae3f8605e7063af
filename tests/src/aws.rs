//! A server that stands in for Amazon's, started by `services/aws.sh` in a temporary directory on loopback, and ended with the test.
//! Where it cannot be had, the test says loudly what it leaves out.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
