//! A registry of schemas, started by `services/schema-registry.sh` in a temporary directory on loopback, and ended with the test.
//! Where it cannot be had, the test says loudly what it leaves out.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::client::send;
use crate::kafka::free_ports;

pub struct Registry {
    directory: TempDir,
    address: SocketAddr,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/schema-registry.sh")
}

impl Registry {
    pub fn start(left_out: &str) -> Option<Registry> {
        let directory = tempfile::Builder::new().prefix("weir-registry-").tempdir().expect("a temporary directory");
        let port = free_ports(2);
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(directory.path()).arg(port.to_string()).stdin(Stdio::null());
        let started = command.output().expect("bash");
        if !started.status.success() {
            let reason = String::from_utf8_lossy(&started.stderr).trim().lines().last().unwrap_or_default().to_owned();
            eprintln!("**** LEFT OUT: {left_out}. tests/services/schema-registry.sh start: {reason}");
            return None;
        }
        Some(Registry { directory, address: SocketAddr::from(([127, 0, 0, 1], port)) })
    }

    pub fn url(&self) -> String {
        format!("http://{}/apis/ccompat/v7", self.address)
    }

    /// Registers a schema; its number.
    pub fn register(&self, subject: &str, kind: &str, schema: &str, references: Json) -> u32 {
        let body = json!({"schema": schema, "schemaType": kind, "references": references}).to_string();
        let target = format!("/apis/ccompat/v7/subjects/{subject}/versions");
        let headers = [("Content-Type", "application/vnd.schemaregistry.v1+json")];
        let answer = send(self.address, "POST", &target, &headers, body.as_bytes()).expect("an answer");
        answer.expect(200).json()["id"].as_u64().and_then(|id| u32::try_from(id).ok()).expect("a number")
    }

    /// The versions of a subject.
    pub fn versions(&self, subject: &str) -> usize {
        let answer =
            send(self.address, "GET", &format!("/apis/ccompat/v7/subjects/{subject}/versions"), &[], &[]).expect("an answer");
        answer.json().as_array().map_or(0, Vec::len)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).output();
    }
}
