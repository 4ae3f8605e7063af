//! The server: connections in, requests to the routes.
//!
//! warp's own loop has neither a bound on connections nor a limit of time for headers, and its filters cost more than most
//! queries, so both are here: hyper takes the requests, one function answers them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::app::App;
use crate::config::Webserver;
use crate::routes;

/// How long requests under way may take when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Binds the configured address. The error says which one and what to do.
pub async fn bind(settings: &Webserver) -> Result<TcpListener, String> {
    let (address, port) = (settings.address.as_str(), settings.port);
    TcpListener::bind((address, port)).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}:{port}: the port is in use. Is another weir running? Choose another port with \
             `--port <PORT>` or -Dweir.webserver.port=<PORT>"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("cannot listen on {address}:{port}: permission denied. Ports below 1024 need privileges; choose one above")
        }
        _ => format!("cannot listen on {address}:{port} (webserver.address, webserver.port): {error}"),
    })
}

/// Serves until `stop` turns true, then lets requests under way finish.
pub async fn serve(app: Arc<App>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
    let settings = &app.settings.webserver;
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(settings.header_timeout).max_concurrent_streams(256);
    let http = Arc::new(http);
    let places = Arc::new(Semaphore::new(settings.connections_max));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely too many open files: a pause lets some of them close.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let header_timeout = settings.header_timeout;
        let (http, app, watcher) = (http.clone(), app.clone(), graceful.watcher());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let app = app.clone();
                async move { Ok::<_, Infallible>(routes::answer(app, remote, request).await) }
            });
            // hyper counts the time for headers from their first byte on. A client that sends none has no more of it.
            if !matches!(tokio::time::timeout(header_timeout, begins(&stream)).await, Ok(Ok(()))) {
                return;
            }
            let connection = http.serve_connection_with_upgrades(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not finished {} s after the server stopped; they are cut", DRAIN_MAX.as_secs());
    }
}

/// Waits until it is clear whether the client speaks HTTP/1 or HTTP/2: so long hyper would wait for ever.
async fn begins(stream: &TcpStream) -> io::Result<()> {
    const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut first = [0; HTTP_2.len()];
    loop {
        let count = stream.peek(&mut first).await?;
        if count == 0 || count == HTTP_2.len() || !HTTP_2.starts_with(&first[..count]) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Where a browser on this machine finds the server.
pub fn url(settings: &Webserver, bound: Option<SocketAddr>) -> String {
    if let Some(advertised) = &settings.advertised {
        return advertised.clone();
    }
    let port = bound.map_or(settings.port, |address| address.port());
    match settings.address.as_str() {
        "0.0.0.0" | "::" => format!("http://127.0.0.1:{port}"),
        address if address.contains(':') => format!("http://[{address}]:{port}"),
        address => format!("http://{address}:{port}"),
    }
}
