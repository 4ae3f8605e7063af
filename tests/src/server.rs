//! A real server for tests: started by a script of `services/` in a temporary directory on loopback, and ended with the test.
//! Where it cannot be had, the test says loudly what it leaves out.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::kafka::free_ports;
use crate::service::wait_until;

/// After `kill -9`. A machine that is busy takes its time.
const GONE_TIME_MAX: Duration = Duration::from_secs(60);

pub struct Server {
    script: &'static str,
    directory: TempDir,
    pub port: u16,
    variables: Vec<(String, String)>,
}

impl Server {
    /// Starts `script`, as `nats.sh`; it may take `ports` ports in a row.
    pub fn start(script: &'static str, ports: u16, left_out: &str) -> Option<Server> {
        Server::start_with(&[], script, ports, left_out)
    }

    /// As `start`, with variables that the script looks at.
    pub fn start_with(variables: &[(&str, &str)], script: &'static str, ports: u16, left_out: &str) -> Option<Server> {
        let directory = tempfile::Builder::new().prefix("weir-server-").tempdir().expect("a temporary directory");
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let server = Server { script, directory, port: free_ports(ports), variables };
        match server.run() {
            Ok(()) => Some(server),
            Err(reason) => {
                eprintln!("**** LEFT OUT: {left_out}. tests/services/{script} start: {reason}");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services").join(self.script)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of the port that is `index` behind the first.
    pub fn address(&self, index: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + index))
    }

    /// Starts it, on the data it has.
    pub fn run(&self) -> Result<(), String> {
        let mut command = Command::new("bash");
        command.arg(self.path()).arg("start").arg(self.directory()).arg(self.port.to_string()).stdin(Stdio::null());
        let started = command.envs(self.variables.iter().cloned()).output().expect("bash");
        if started.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&started.stderr).trim().lines().last().unwrap_or_default().to_owned())
    }

    /// In order, so that it has written all it was given, and once more.
    pub fn restart(&self) {
        self.stop();
        self.run().expect("it starts again");
    }

    fn stop(&self) {
        // Where that fails, starting it says why.
        let _ = Command::new("bash").arg(self.path()).arg("stop").arg(self.directory()).output();
    }

    /// What the script answers to a question of its own.
    pub fn ask(&self, question: &str, about: &str) -> String {
        let mut command = Command::new("bash");
        command.arg(self.path()).arg(question).arg(self.directory()).arg(about).stdin(Stdio::null());
        String::from_utf8_lossy(&command.output().expect("bash").stdout).trim().to_owned()
    }

    /// SIGKILL, to all of its processes: what was started may be a script that waits for the server.
    pub fn kill(&self) {
        let pid = fs::read_to_string(self.directory().join("pid")).expect("it runs");
        let pid = pid.split_whitespace().next().expect("a number");
        let killed = Command::new("kill").args(["-9", "--", &format!("-{pid}")]).status().expect("kill runs");
        assert!(killed.success(), "the group {pid} is killed");
        // The port may be closed before the process is gone, and until then the script says that it runs.
        wait_gone(pid);
        wait_until("nobody listens", GONE_TIME_MAX, || TcpStream::connect(self.address(0)).is_err());
    }

    /// What the script has said under that name.
    pub fn said(&self, name: &str) -> String {
        let all = fs::read_to_string(self.directory().join("env")).expect("the script has said something");
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("{name} is not in {all}")).to_owned()
    }

    /// Whom to trust for TLS.
    pub fn authority(&self) -> String {
        self.made("ca.pem")
    }

    /// A file that its script has made.
    pub fn made(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join(name)).expect("the script has made it")
    }
}

/// Waits until a group of processes that was killed has ended, with all threads: what they listened on and what they had locked
/// is free no sooner.
pub(crate) fn wait_gone(group: &str) {
    wait_until(&format!("the group {group} was killed and is gone"), GONE_TIME_MAX, || !is_there(group));
}

fn is_there(group: &str) -> bool {
    fs::read_dir("/proc").expect("the processes").flatten().any(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let (state, of) = (fields.next(), fields.nth(1));
        // One that nobody has waited for is a name and nothing else, unless a thread of it is still there.
        let threads = || fs::read_dir(process.path().join("task")).map_or(0, Iterator::count);
        of == Some(group) && (state != Some("Z") || threads() > 1)
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
