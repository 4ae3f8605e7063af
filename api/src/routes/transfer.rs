//! Everything out and in: backups and exports leave as they are read, imports come in portions.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream;
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
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

/// A backup of everything.
pub async fn back_up(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    backed_up(app, request, None).await
}

/// A backup of what has come since another: the body says where that one ended. With thousands of namespaces that is too long
/// for a URL.
pub async fn back_up_since(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let text = if request.is_text() {
        request.text()?.to_owned()
    } else if let Json::String(text) = request.data()? {
        text
    } else {
        return Err(ApiError::bad("the body should be the text that says where a backup ended"));
    };
    let since = text.trim().parse::<Since>().map_err(ApiError::bad)?;
    backed_up(app, request, Some(since)).await
}

async fn backed_up(app: Arc<App>, request: Request, since: Option<Since>) -> Result<Reply, ApiError> {
    if !app.settings.webserver.backups_enabled {
        let reason =
            "backups over HTTP are off (webserver.backups-enabled = false); end weir, and run `weir backup` without `--url`";
        return Err(ApiError::bad(reason));
    }
    let leave_out: Vec<String> = request.parameter("leaveOut").map(names).unwrap_or_default();
    let (out, parts) = Parts::of(&app);
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
    let (out, parts) = Parts::of(&app);
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

/// Why there are no more parts is an error of the request, or of weir.
type Part = Result<Vec<u8>, ApiError>;

/// What a thread writes, on its way to the body of an answer. A client that takes nothing is not waited for: much of the graph
/// stands still meanwhile.
struct Parts {
    bytes: Vec<u8>,
    sender: mpsc::Sender<Part>,
    has_ended: bool,
    /// It has ended with an error.
    has_failed: Arc<AtomicBool>,
    /// How long it waits for a client that takes nothing.
    patience: Duration,
    stopping: watch::Receiver<bool>,
    runtime: Handle,
}

/// The parts as they come.
struct Coming {
    parts: mpsc::Receiver<Part>,
    has_failed: Arc<AtomicBool>,
}

impl Coming {
    /// None once all have come.
    async fn next(&mut self) -> Option<Part> {
        match self.parts.recv().await {
            // The reason found no way here any more.
            None if self.has_failed.load(Ordering::Relaxed) => Some(Err(broken_off())),
            next => next,
        }
    }
}

fn broken_off() -> ApiError {
    ApiError::Failed("an error in weir itself: the thread that wrote the answer ended before it was whole".to_owned())
}

impl Parts {
    fn of(app: &App) -> (Parts, Coming) {
        Parts::new(app.queries.settings.client_patience, app.stopping())
    }

    fn new(patience: Duration, stopping: watch::Receiver<bool>) -> (Parts, Coming) {
        let (sender, parts) = mpsc::channel(WAITING_MAX);
        let has_failed = Arc::<AtomicBool>::default();
        let coming = Coming { parts, has_failed: has_failed.clone() };
        let (bytes, runtime) = (Vec::new(), Handle::current());
        (Parts { bytes, sender, has_ended: false, has_failed, patience, stopping, runtime }, coming)
    }

    fn cut(&self) -> Cut {
        let has_failed = self.has_failed.clone();
        Cut::new(move || has_failed.load(Ordering::Relaxed))
    }

    /// An error breaks the connection, so that nobody takes a part for the whole. What still waits stays here: where nothing has
    /// left yet, the error is the answer.
    fn end(mut self, ended: Result<(), String>) {
        if let Err(reason) = ended.and_then(|()| self.flush().map_err(|error| error.to_string())) {
            self.fail(ApiError::bad(reason));
        }
        self.has_ended = true;
    }

    fn fail(&self, why: ApiError) {
        self.has_failed.store(true, Ordering::Relaxed);
        // Waits for nobody; meanwhile the body has no end.
        let sender = self.sender.clone();
        self.runtime.spawn(async move { sender.send(Err(why)).await });
    }
}

/// A thread that ends without a word, as where it meets a mistake in weir, has not written everything.
impl Drop for Parts {
    fn drop(&mut self) {
        if !self.has_ended {
            self.fail(broken_off());
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
        let Parts { sender, patience, stopping, runtime, .. } = self;
        runtime.block_on(async {
            let sent = tokio::select! {
                sent = timeout(*patience, sender.send(Ok(bytes))) => sent,
                _ = stopping.wait_for(|stop| *stop) => return Err(io::Error::other("weir stops")),
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
async fn first_part(mut parts: Coming) -> Result<mpsc::Receiver<Part>, ApiError> {
    match parts.next().await {
        Some(Err(why)) => Err(why),
        first => {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            tokio::spawn(async move {
                let mut next = first;
                while let Some(part) = next {
                    let is_last = part.is_err();
                    if sender.send(part).await.is_err() || is_last {
                        return;
                    }
                    next = parts.next().await;
                }
            });
            Ok(receiver)
        }
    }
}

/// To be kept under a name: browsers would show it.
fn body(content_type: &'static str, name: &'static str, parts: mpsc::Receiver<Part>, cut: Cut) -> Response {
    let parts = stream::unfold(parts, |mut parts| async move {
        let part = parts.recv().await?.map_err(|why| io::Error::other(why.to_string()));
        Some((part, parts))
    });
    let mut reply = warp::reply::stream(parts).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    reply.extensions_mut().insert(cut);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// What a thread wrote, and whether its answer broke off.
    async fn answer(writes: impl FnOnce(Parts) + Send + 'static) -> Result<(Vec<u8>, bool), ApiError> {
        let (_stop, stopping) = watch::channel(false);
        let (out, parts) = Parts::new(LONG, stopping);
        let has_failed = out.has_failed.clone();
        let thread = tokio::task::spawn_blocking(move || writes(out));
        let mut parts = first_part(parts).await?;
        let (mut whole, mut is_cut) = (Vec::new(), false);
        while let Some(part) = parts.recv().await {
            match part {
                Ok(bytes) => whole.extend(bytes),
                Err(_) => is_cut = true,
            }
        }
        // It may have panicked.
        let _ = thread.await;
        assert_eq!(has_failed.load(Ordering::Relaxed), is_cut, "what stands still is told so, too");
        Ok((whole, is_cut))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_answer_whose_thread_panics_does_not_end_like_a_whole_one() {
        let line = || vec![b'x'; PART_BYTES];
        let whole = answer(move |mut out| {
            out.write_all(&line()).expect("is taken");
            out.write_all(b"the rest").expect("is taken");
            out.end(Ok(()));
        });
        let (bytes, is_cut) = whole.await.expect("an answer");
        assert_eq!((bytes.len(), is_cut), (PART_BYTES + 8, false));
        // With nothing in it.
        assert_eq!(answer(|out| out.end(Ok(()))).await.expect("an answer"), (Vec::new(), false));

        let lost = answer(move |mut out| {
            out.write_all(&line()).expect("is taken");
            panic!("a mistake in weir");
        });
        let (bytes, is_cut) = lost.await.expect("its beginning");
        assert_eq!((bytes.len(), is_cut), (PART_BYTES, true));
        let told = answer(|_out| panic!("a mistake in weir")).await;
        assert!(matches!(told, Err(ApiError::Failed(reason)) if reason.contains("before it was whole")));
        let told = answer(|out| out.end(Err("no such thing".to_owned()))).await;
        assert!(matches!(told, Err(ApiError::Bad(reasons)) if reasons == ["no such thing"]));
    }
}
