//! A real Redis for tests: started by `services/redis.sh` in a temporary directory on loopback, and ended with the test. Where it
//! cannot be had, the test says loudly what it leaves out.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::kafka::free_ports;
use crate::server::wait_gone;

pub struct Redis {
    directory: TempDir,
    port: u16,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/redis.sh")
}

impl Redis {
    pub fn start(left_out: &str) -> Option<Redis> {
        let directory = tempfile::Builder::new().prefix("weir-redis-").tempdir().expect("a temporary directory");
        let redis = Redis { directory, port: free_ports(2) };
        match redis.run() {
            Ok(()) => Some(redis),
            Err(reason) => {
                eprintln!("**** LEFT OUT: {left_out}. tests/services/redis.sh start: {reason}");
                None
            }
        }
    }

    /// Starts it, on the data it has.
    pub fn run(&self) -> Result<(), String> {
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(self.directory.path()).arg(self.port.to_string()).stdin(Stdio::null());
        let started = command.output().expect("bash");
        if started.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&started.stderr).trim().to_owned())
    }

    /// SIGKILL.
    pub fn kill(&self) {
        let pid = fs::read_to_string(self.directory.path().join("pid")).expect("it runs");
        let pid = pid.split_whitespace().next().expect("a number");
        assert!(Command::new("kill").arg("-9").arg(pid).status().expect("kill runs").success());
        wait_gone(pid);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port + 1)
    }

    /// Whom to trust for TLS.
    pub fn authority(&self) -> String {
        self.made("ca.pem")
    }

    /// A file that its script has made.
    pub fn made(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join(name)).expect("the script has made it")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A command, and what Redis says.
    pub fn say(&self, command: &[&str]) -> String {
        let said = Command::new("redis-cli").arg("-p").arg(self.port.to_string()).args(command).output().expect("redis-cli runs");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// Entries whose field `value` is `{"id": n}`.
    pub fn add(&self, key: &str, ids: Range<u64>) {
        let mut cli = Command::new("redis-cli");
        cli.arg("-p").arg(self.port.to_string()).arg("--pipe").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut cli = cli.spawn().expect("redis-cli runs");
        let commands: String = ids.map(|id| format!("XADD {key} * value '{}'\r\n", json!({"id": id}))).collect();
        cli.stdin.take().expect("a pipe").write_all(commands.as_bytes()).expect("it listens");
        assert!(cli.wait().expect("it ends").success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).output();
    }
}
