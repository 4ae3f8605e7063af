//! A proxy between weir and another service that delays, stalls, cuts and resets connections when it is told to: a real
//! Toxiproxy, started by `services/toxiproxy.sh`. Where it cannot be had, the test says loudly what it leaves out.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::client;
use crate::kafka::free_ports;

pub struct Toxiproxy {
    directory: TempDir,
    api: SocketAddr,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/toxiproxy.sh")
}

impl Toxiproxy {
    pub fn start(left_out: &str) -> Option<Toxiproxy> {
        let directory = tempfile::Builder::new().prefix("weir-proxy-").tempdir().expect("a temporary directory");
        let port = free_ports(1);
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(directory.path()).arg(port.to_string()).stdin(Stdio::null());
        let started = command.output().expect("bash runs");
        if !started.status.success() {
            let reason = String::from_utf8_lossy(&started.stderr);
            let reason = reason.trim().lines().last().unwrap_or("no reason given");
            eprintln!("**** LEFT OUT: {left_out}. There is no Toxiproxy: tests/services/toxiproxy.sh start: {reason}");
            return None;
        }
        Some(Toxiproxy { directory, api: SocketAddr::from(([127, 0, 0, 1], port)) })
    }

    fn ask(&self, method: &str, target: &str, body: &Json) {
        let answer = client::send(self.api, method, target, &[], body.to_string().as_bytes()).expect("the proxy answers");
        assert!((200..300).contains(&answer.status), "{method} {target}: {}", answer.shown());
    }

    /// Leads whoever connects to `listen` to `upstream`.
    pub fn lead(&self, name: &str, listen: SocketAddr, upstream: SocketAddr) {
        let body = json!({"name": name, "listen": listen.to_string(), "upstream": upstream.to_string(), "enabled": true});
        self.ask("POST", "/proxies", &body);
    }

    /// Ends all connections and takes no new ones, or takes them again.
    pub fn open(&self, name: &str, open: bool) {
        self.ask("POST", &format!("/proxies/{name}"), &json!({"enabled": open}));
    }

    /// Does something to all connections, in one direction: `upstream` is from weir to the service.
    pub fn poison(&self, name: &str, kind: &str, direction: &str, attributes: Json) {
        let body = json!({"name": format!("{kind}-{direction}"), "type": kind, "stream": direction, "attributes": attributes});
        self.ask("POST", &format!("/proxies/{name}/toxics"), &body);
    }

    /// Ends what `poison` began.
    pub fn cure(&self, name: &str, kind: &str, direction: &str) {
        self.ask("DELETE", &format!("/proxies/{name}/toxics/{kind}-{direction}"), &Json::Null);
    }
}

/// What a network does to connections, each with what does it: a toxic, its attributes, and the directions it is in.
const FAULTS: [(&str, &str, &str, &[&str]); 5] = [
    ("reset", "reset_peer", r#"{"timeout": 50}"#, &["downstream", "upstream"]),
    ("delayed", "latency", r#"{"latency": 300, "jitter": 200}"#, &["downstream", "upstream"]),
    ("slow", "bandwidth", r#"{"rate": 5}"#, &["downstream"]),
    // Connections stay, and nothing passes; then only what weir says does not, and it hears on.
    ("stalled", "timeout", r#"{"timeout": 0}"#, &["downstream", "upstream"]),
    ("half open", "timeout", r#"{"timeout": 0}"#, &["upstream"]),
];

impl Toxiproxy {
    /// Does to connections what a network can do, one thing after another, for `WEIR_FAULT_SECONDS` each. `during` adds something
    /// while it does, and `after` waits for it; both are told what it is.
    pub fn each_fault(&self, name: &str, mut during: impl FnMut(&str), mut after: impl FnMut(&str)) {
        let seconds = std::env::var("WEIR_FAULT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.5);
        let last = Duration::from_secs_f64(seconds);
        let mut fault = |what: &str, begin: &dyn Fn(), end: &dyn Fn()| {
            begin();
            during(what);
            sleep(last);
            end();
            let began = Instant::now();
            after(what);
            eprintln!("{name}: {what} for {last:?}, all is through {:?} later", began.elapsed());
        };
        fault("cut", &|| self.open(name, false), &|| self.open(name, true));
        for (what, kind, attributes, directions) in FAULTS {
            let attributes: Json = serde_json::from_str(attributes).expect("attributes");
            let begin = || directions.iter().for_each(|direction| self.poison(name, kind, direction, attributes.clone()));
            fault(what, &begin, &|| directions.iter().for_each(|direction| self.cure(name, kind, direction)));
        }
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        // Nothing else could be done about it.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).stdin(Stdio::null()).output();
    }
}
