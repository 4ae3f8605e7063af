//! Everything out and in: backups and exports leave as they are read, imports come in portions.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use warp::http::HeaderValue;
use warp::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use warp::reply::{Reply as _, Response};
use weir_cypher_compiler::Options as CompileOptions;
use weir_engine::store::Since;

use super::reply::{Reply, blocking};
use super::request::Request;
use crate::app::App;
use crate::error::{ApiError, chain};
use crate::leaving::Cut;
use crate::transfer::{Format, take_in, write_graph};

/// Parts that wait for a client: it slows the thread that reads.
const WAITING_MAX: usize = 4;

/// What leaves at once.
const PART_BYTES: usize = 256 << 10;

/// A backup of everything, or of what has come since another: `since` says where that one ended.
pub async fn back_up(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    if !app.settings.webserver.backups_enabled {
        let reason =
            "backups over HTTP are off (webserver.backups-enabled = false); end weir, and run `weir backup` without `--url`";
        return Err(ApiError::bad(reason));
    }
    let since: Option<Since> = request.parameter("since").map(str::parse).transpose().map_err(ApiError::bad)?;
    let leave_out: Vec<String> = request.parameter("leaveOut").map(names).unwrap_or_default();
    let (out, parts) = Parts::new(&app);
    let cut = out.cut();
    tokio::task::spawn_blocking(move || {
        let mut out = out;
        match app.engine.back_up(since.as_ref(), &leave_out, &mut out) {
            Ok(_) => out.end(Ok(())),
            Err(error) => {
                tracing::warn!("a backup over HTTP broke off: {}", chain(&error));
                out.end(Err(chain(&error)));
            }
        }
    });
    let name = "attachment; filename=\"weir.backup\"";
    Ok(Reply::Whole(body("application/octet-stream", name, first_part(parts).await?, cut)))
}

/// Namespaces as they are kept, out of a list.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
}

pub async fn export(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let format = format(&request)?;
    let common = request.common(&app)?;
    let (out, parts) = Parts::new(&app);
    let cut = out.cut();
    tokio::task::spawn_blocking(move || {
        let mut out = out;
        let written =
            write_graph(&common.graph, format, common.at, &mut |part, _| out.write_all(part).map_err(|error| error.to_string()));
        out.end(written.map(drop));
    });
    let (content_type, name) = match format {
        Format::Jsonl => ("application/x-ndjson", "attachment; filename=\"graph.jsonl\""),
        Format::Cypher => ("text/plain; charset=utf-8", "attachment; filename=\"graph.cypher\""),
        Format::Parquet => ("application/vnd.apache.parquet", "attachment; filename=\"graph.parquet\""),
    };
    Ok(Reply::Whole(body(content_type, name, first_part(parts).await?, cut)))
}

pub async fn import(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (format, graph) = (format(&request)?, request.graph(&app)?);
    let mut mistakes = Vec::new();
    let first = request.integer(&["line"], &mut mistakes).unwrap_or(1).max(1) as u64;
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let moved = blocking(move || {
        let options = CompileOptions { ids: graph.ids(), open_cypher: graph.open_cypher(), ..CompileOptions::default() };
        take_in(&graph, format, &request.body, first, &options).map_err(ApiError::bad)
    });
    let moved = serde_json::to_value(moved.await?);
    Ok(Reply::Value(moved.map_err(|error| ApiError::Failed(error.to_string()))?))
}

fn format(request: &Request) -> Result<Format, ApiError> {
    let Some(name) = request.parameter("format") else { return Ok(Format::default()) };
    Format::of(name).ok_or_else(|| ApiError::bad(format!("`format` is 'jsonl', 'cypher' or 'parquet', not '{name}'")))
}

type Part = Result<Vec<u8>, String>;

/// What a thread writes, on its way to the body of an answer. A client that takes nothing is not waited for: much of the graph
/// stands still meanwhile.
struct Parts {
    bytes: Vec<u8>,
    sender: mpsc::Sender<Part>,
    /// It has ended with an error.
    has_failed: Arc<AtomicBool>,
    app: Arc<App>,
    runtime: Handle,
}

impl Parts {
    fn new(app: &Arc<App>) -> (Parts, mpsc::Receiver<Part>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (bytes, has_failed) = (Vec::new(), Arc::default());
        (Parts { bytes, sender, has_failed, app: app.clone(), runtime: Handle::current() }, receiver)
    }

    fn cut(&self) -> Cut {
        let has_failed = self.has_failed.clone();
        Cut::new(move || has_failed.load(Ordering::Relaxed))
    }

    /// An error breaks the connection, so that nobody takes a part for the whole. What still waits stays here: where nothing has
    /// left yet, the error is the answer.
    fn end(mut self, ended: Result<(), String>) {
        if let Err(reason) = ended.and_then(|()| self.flush().map_err(|error| error.to_string())) {
            self.has_failed.store(true, Ordering::Relaxed);
            // Waits for nobody; meanwhile the body has no end.
            let sender = self.sender;
            self.runtime.spawn(async move { sender.send(Err(reason)).await });
        }
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let patience = self.app.queries.settings.client_patience;
        self.runtime.block_on(async {
            let sent = tokio::select! {
                sent = timeout(patience, self.sender.send(Ok(bytes))) => sent,
                () = self.app.stopped() => return Err(io::Error::other("weir stops")),
            };
            match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
                Err(_) => {
                    let problem = format!("the client has taken nothing for {} s (query.client-patience)", patience.as_secs());
                    Err(io::Error::new(io::ErrorKind::TimedOut, problem))
                }
            }
        })
    }
}

/// What fails before anything has left is told with a status.
async fn first_part(mut parts: mpsc::Receiver<Part>) -> Result<mpsc::Receiver<Part>, ApiError> {
    match parts.recv().await {
        Some(Err(reason)) => Err(ApiError::bad(reason)),
        first => {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            tokio::spawn(async move {
                let mut next = first;
                while let Some(part) = next {
                    if sender.send(part).await.is_err() {
                        return;
                    }
                    next = parts.recv().await;
                }
            });
            Ok(receiver)
        }
    }
}

/// To be kept under a name: browsers would show it.
fn body(content_type: &'static str, name: &'static str, parts: mpsc::Receiver<Part>, cut: Cut) -> Response {
    let parts = stream::unfold(parts, |mut parts| async move {
        let part = parts.recv().await?.map_err(io::Error::other);
        Some((part, parts))
    });
    let mut reply = warp::reply::stream(parts).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    reply.extensions_mut().insert(cut);
    reply
}
