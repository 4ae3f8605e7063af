//! Online: the same with a weir that runs, over HTTP.

use std::future::Future;
use std::io::Write;

use tokio::runtime::{Builder, Runtime};

use super::{Format, Moved, Progress};
use crate::client::{Client, Problem};
use crate::error::chain;

/// Writes an export as the service gives it. Says what it was.
pub fn export(
    url: &str,
    namespace: Option<&str>,
    format: Format,
    at: Option<u64>,
    out: &mut dyn Write,
) -> Result<String, String> {
    let mut client = client(url, namespace)?;
    client.at = at;
    let mut progress = Progress::new("bytes", None);
    let bytes = run(async {
        let pairs = [("format", format.name().to_owned())];
        let of = ("namespace", namespace.unwrap_or("default"));
        client
            .download(of, "/api/v1/admin/export", &pairs, &mut |part, so_far| {
                progress.set(so_far);
                out.write_all(part).map_err(|error| chain(&error))
            })
            .await
    })?;
    Ok(format!("{:.1} MB", bytes as f64 / 1e6))
}

/// Downloads a backup into `out`; `since` are the parameters of one that goes on where another ended.
pub fn back_up_over_http(url: &str, since: &[(&str, String)], out: &mut dyn Write) -> Result<u64, String> {
    const PATH: &str = "/api/v1/admin/backup";
    let client = client(url, None)?;
    let mut progress = Progress::new("bytes", None);
    run(async {
        client
            .download(("route", PATH), PATH, since, &mut |part, so_far| {
                progress.set(so_far);
                out.write_all(part).map_err(|error| chain(&error))
            })
            .await
    })
}

/// Sends portions of whole lines.
pub struct Importer {
    client: Client,
    format: Format,
    runtime: Runtime,
}

impl Importer {
    pub fn new(url: &str, namespace: Option<&str>, format: Format) -> Result<Importer, String> {
        Ok(Importer { client: client(url, namespace)?, format, runtime: runtime()? })
    }

    pub fn send(&mut self, portion: &[u8], first: u64) -> Result<Moved, String> {
        let pairs = [("format", self.format.name().to_owned()), ("line", first.to_string())];
        let answer = self.runtime.block_on(self.client.upload("/api/v1/admin/import", &pairs, portion.to_vec()));
        let answer = answer.map_err(|problem| problem.to_string())?;
        serde_json::from_slice(&answer).map_err(|error| format!("the answer of {} cannot be read: {error}", self.client.url()))
    }
}

fn client(url: &str, namespace: Option<&str>) -> Result<Client, String> {
    Client::new(url, namespace.map(str::to_owned)).map_err(|problem| problem.to_string())
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| format!("cannot ask over HTTP: {error}"))
}

fn run<T>(asked: impl Future<Output = Result<T, Problem>>) -> Result<T, String> {
    runtime()?.block_on(asked).map_err(|problem| problem.to_string())
}
