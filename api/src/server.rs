//! The server: connections in, requests to the routes.
//!
//! warp's own loop has neither a bound on connections nor a limit of time for headers, and its filters cost more than most
//! queries, so both are here: hyper takes the requests, one function answers them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(target_os = "linux")]
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use warp::http::{HeaderValue, Method, Version, header};
use warp::reply::Response;
use weir_model::lock::lock;

use crate::app::{App, LATE_REQUEST_MAX};
use crate::config::Webserver;
use crate::error::ApiError;
use crate::leaving::{LEAVING_MAX, Left, Requests};
use crate::origin;
use crate::routes;
use crate::sockets::SILENCES_MAX;
use crate::sockets::line::{Line, Traffic};
use crate::startup::{self, Startup};
use crate::tls::Tls;
use crate::wire::family::Family;

/// Addresses that stand for what this machine is called.
const HOST_NAME: &str = "<getHostName>";
const HOST_ADDRESS: &str = "<getHostAddress>";

/// How long the end of weir waits for web sockets whose clients have not taken it yet.
const SOCKETS_MAX: Duration = Duration::from_secs(3);

/// What may follow of a body that the answer did not need, so that the connection can go on, and how long that may take.
const UNREAD_BYTES_MAX: u64 = 64 << 10;
const UNREAD_MAX: Duration = Duration::from_secs(1);

/// How long what follows of such a body is dropped where the connection ends, as long as the client goes on sending.
const DROPPED_MAX: Duration = Duration::from_secs(5);

/// To browsers that have come by TLS once, so that for two years they come in no other way. As the reference has it, but for
/// `preload`: that asks for a place in the list that comes with browsers, and is for the owner of a domain to decide.
const ONLY_TLS: &str = "max-age=63072000; includeSubDomains";

/// Sooner no client is taken for gone: short breaks of a network are none.
const GONE_AFTER_MIN: Duration = Duration::from_secs(4);

/// How often it is looked whether clients that wait for answers are still there.
const LOOK: Duration = Duration::from_secs(1);

/// What a system says of a connection that its client has left.
#[cfg(target_os = "linux")]
const GONE: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
#[cfg(not(target_os = "linux"))]
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// What a listener answers.
#[derive(Clone)]
pub enum Answers {
    All(Arc<App>),
    /// Whether weir lives and is ready: for probes, which have no certificate.
    Health(Arc<App>),
    /// That it is not ready yet, and reads as soon as it can.
    Starting(Arc<Startup>),
    /// The former alone.
    StartingHealth(Arc<Startup>),
}

impl Answers {
    /// `secure`: over TLS of its own.
    async fn answer(&self, remote: SocketAddr, request: Request<Incoming>, settings: &Webserver, secure: bool) -> Response {
        let page = origin::named(&request, settings);
        let mut response = match &page {
            Some(_) if origin::asks_first(&request) => match self {
                // As other answers of a start: the request that follows may find weir ready.
                Answers::Starting(_) | Answers::StartingHealth(_) => closing(origin::permission(), request.version()),
                Answers::All(_) | Answers::Health(_) => origin::permission(),
            },
            _ => self.answer_any(remote, request).await,
        };
        if let Some(page) = page {
            origin::show_to(page, &mut response);
        }
        if !settings.allowed_origins.is_empty() {
            origin::mark_varying(&mut response);
        }
        if secure {
            response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_TLS));
        }
        response
    }

    /// Whoever asks.
    async fn answer_any(&self, remote: SocketAddr, mut request: Request<Incoming>) -> Response {
        let version = request.version();
        let expects = request.headers().contains_key(header::EXPECT);
        let response = match self {
            Answers::All(app) if app.is_stopping() => closing(startup::answer_stopping(&request), version),
            Answers::All(app) => routed(app.clone(), remote, &mut request).await,
            Answers::Health(app) if is_health(request.uri().path()) => routes::answer(app.clone(), remote, &mut request).await,
            Answers::Health(_) => ApiError::NoRoute.into_response(Family::of(request.uri().path())),
            // The next request may find weir ready, and this connection does not lead there.
            Answers::Starting(startup) => match startup.reader(&request) {
                Some(app) => return closing(routed(app, remote, &mut request).await, version),
                None => return closing(startup.answer(&request), version),
            },
            Answers::StartingHealth(startup) => return closing(startup.answer(&request), version),
        };
        // It has not sent its body yet, and only does when somebody reads.
        let waits = expects && request.extensions().get::<routes::BodyAsked>().is_none();
        if request.body().is_end_stream() || (!waits && read_rest(request.body_mut()).await) {
            return response;
        }
        // The end of weir does not wait for what nobody takes any more.
        let stops = matches!(self, Answers::All(app) | Answers::Health(app) if app.is_stopping());
        if !waits && !stops && version <= Version::HTTP_11 {
            tokio::spawn(drop_rest(request.into_body()));
        }
        closing(response, version)
    }

    /// How long it waits for clients that take nothing. None before the graph can be read: no client stays that long then.
    fn patience(&self) -> Option<Duration> {
        match self {
            Answers::All(app) | Answers::Health(app) => Some(app.queries.settings.client_patience),
            Answers::Starting(startup) | Answers::StartingHealth(startup) => startup.patience(),
        }
    }
}

/// What the routes answer, unless a page from elsewhere wants to do more than look.
async fn routed(app: Arc<App>, remote: SocketAddr, request: &mut Request<Incoming>) -> Response {
    if let Some(refusal) = origin::refusal(request, &app.settings.webserver) {
        return refusal;
    }
    routes::answer(app, remote, request).await
}

/// Reads what is left of a body. False when it is too much: then the connection ends after the answer.
async fn read_rest(body: &mut Incoming) -> bool {
    if body.size_hint().lower() > UNREAD_BYTES_MAX {
        return false;
    }
    let rest = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > UNREAD_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(UNREAD_MAX, rest).await.unwrap_or(false)
}

/// Reads on beside an answer after which the connection ends: hyper ends it when the body does, or is dropped. Many clients, such
/// as those of Python, read an answer only when they have sent everything; cut off in the middle, they see a broken pipe instead.
async fn drop_rest(mut body: Incoming) {
    let rest = async { while let Ok(Some(Ok(_))) = tokio::time::timeout(UNREAD_MAX, body.frame()).await {} };
    // Whoever goes on for longer is cut off.
    let _ = tokio::time::timeout(DROPPED_MAX, rest).await;
}

/// Says that this connection ends. HTTP/2 has another way to say so.
fn closing(mut response: Response, version: Version) -> Response {
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Binds the configured address. The error says which one and what to do.
pub async fn bind(settings: &Webserver) -> Result<TcpListener, String> {
    let address = match settings.address.as_str() {
        // As the reference has it: by what this machine is called.
        HOST_NAME | HOST_ADDRESS => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        given => given.to_owned(),
    };
    listen(&address, settings.port, &SERVER_PORT).await
}

/// Binds the port of the probes, which only this machine reaches.
pub async fn bind_health(port: u16) -> Result<TcpListener, String> {
    listen("127.0.0.1", port, &HEALTH_PORT).await
}

/// What a port comes from: the keys, and how another is chosen.
struct PortOf {
    keys: &'static str,
    other: &'static str,
}

const SERVER_PORT: PortOf =
    PortOf { keys: "webserver.address, webserver.port", other: "`--port <PORT>` or -Dweir.webserver.port=<PORT>" };

const HEALTH_PORT: PortOf =
    PortOf { keys: "webserver.use-mtls.health-endpoints.port", other: "-Dweir.webserver.use-mtls.health-endpoints.port=<PORT>" };

async fn listen(address: &str, port: u16, of: &PortOf) -> Result<TcpListener, String> {
    let PortOf { keys, other } = of;
    TcpListener::bind((address, port)).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}:{port}: the port is in use. Is another weir running? Choose another port with {other}"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("cannot listen on {address}:{port} ({keys}): permission denied. Ports below 1024 need privileges; choose one above")
        }
        _ => format!("cannot listen on {address}:{port} ({keys}): {error}"),
    })
}

/// Serves until `stop` turns true, then lets requests under way finish. That weir starts is told until then and no longer.
pub async fn serve(
    answers: Answers,
    settings: Webserver,
    listener: Arc<TcpListener>,
    tls: Option<Arc<Tls>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut http = Builder::new(TokioExecutor::new());
    // Without `half_close`: a client that closes only its sending side is taken for one that is gone, since both send the same.
    // The other way round, the query of one that is gone would run until there is something to send.
    http.http1().timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(settings.header_timeout).max_concurrent_streams(256);
    let connections_max = settings.connections_max;
    let places = Arc::new(Semaphore::new(connections_max));
    let (leave, left) = watch::channel(false);
    let serving = Serving { http: Arc::new(http), answers, settings: Arc::new(settings), tls, left };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, remote, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely too many open files: a pause lets some of them close.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        if let Some(patience) = serving.answers.patience() {
            leave_when_gone(&stream, patience);
        }
        tokio::spawn(serving.clone().connection(stream, remote, place));
    }
    let Serving { answers, left, .. } = serving;
    drop((listener, left));
    // Whoever comes next has the port to itself; what is under way here ends beside it.
    match answers {
        Answers::Starting(_) | Answers::StartingHealth(_) => drop(tokio::spawn(async move {
            // What came last has not said yet what it wants, and would be cut off.
            tokio::time::sleep(LATE_REQUEST_MAX).await;
            drop(leave);
        })),
        _ => {
            if drain(leave).await {
                sockets_end(&places, connections_max, SOCKETS_MAX).await;
            }
        }
    }
}

/// What each connection of a listener is served with.
#[derive(Clone)]
struct Serving {
    http: Arc<Builder<TokioExecutor>>,
    answers: Answers,
    settings: Arc<Webserver>,
    tls: Option<Arc<Tls>>,
    /// Turns true, or has no other end any more, when the server stops.
    left: watch::Receiver<bool>,
}

impl Serving {
    /// A connection, from the first word of the client on.
    async fn connection(self, stream: TcpStream, remote: SocketAddr, place: OwnedSemaphorePermit) {
        let first_word_max = self.settings.header_timeout;
        let Some(tls) = &self.tls else {
            // hyper counts the time for headers from their first byte on. A client that sends none has no more of it.
            if matches!(wait_for(begins(&stream), first_word_max, self.left.clone()).await, Some(Ok(()))) {
                self.talk(&self.http, stream, is_gone, remote, place).await;
            }
            return;
        };
        let stream = match wait_for(tls.accept(stream), first_word_max, self.left.clone()).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return tell_handshake(remote, &error, &self.settings),
            None => return tracing::debug!("a handshake with {remote} took too long"),
        };
        // The handshake has told which it is.
        let http = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => (*self.http).clone().http2_only(),
            _ => (*self.http).clone().http1_only(),
        };
        self.talk(&http, stream, |stream| is_gone(stream.get_ref().0), remote, place).await;
    }

    /// Answers requests until the connection ends. `is_gone`: whether its client has closed it.
    async fn talk<S>(
        &self,
        http: &Builder<TokioExecutor>,
        stream: S,
        is_gone: fn(&S) -> bool,
        remote: SocketAddr,
        place: OwnedSemaphorePermit,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let secure = self.tls.is_some();
        let requests = Arc::new(Requests::default());
        let service = service_fn(|request: Request<Incoming>| {
            let (answers, settings, requests) = (self.answers.clone(), self.settings.clone(), requests.clone());
            let under_way = requests.begin();
            async move {
                let response = answers.answer(remote, request, &settings, secure).await;
                Ok::<_, Infallible>(requests.leave(response, under_way))
            }
        });
        let line = Line::new(stream, place);
        let (traffic, stream) = (line.traffic().clone(), line.stream().clone());
        let is_gone = || is_gone(&lock(&stream));
        let connection = http.serve_connection_with_upgrades(TokioIo::new(line), service).into_owned();
        if let Err(error) = until_its_end(connection, &requests, &traffic, is_gone, self.left.clone()).await {
            tracing::debug!("a connection ended: {error}");
        }
    }
}

/// A client without a certificate that is taken is told nothing it could show, so whoever runs weir has to be told. One that goes
/// without a word, as what watches ports does, is none.
fn tell_handshake(remote: SocketAddr, error: &io::Error, settings: &Webserver) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let asks_certificates = settings.tls.as_ref().is_some_and(|files| files.client_authorities.is_some());
    if asks_certificates && error.kind() == io::ErrorKind::InvalidData && origin::is_due(&mut lock(&TOLD), Instant::now()) {
        tracing::warn!(
            "a client at {remote} was refused, for its handshake failed: {error}; clients must show a certificate that one of \
             webserver.use-mtls.trust-store has signed (told once a minute at most)"
        );
    } else {
        tracing::debug!("a handshake with {remote} failed: {error}");
    }
}

/// The next connection, as soon as there is a place for it. The place goes with the connection, also where that becomes a web
/// socket.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, remote) = listener.accept().await?;
    Ok((stream, remote, place))
}

/// Ends the connection of a client that acknowledges nothing of what it is sent, or takes none of it. Whoever listens to events
/// is never heard, so nothing else tells that he is gone, and by itself the system waits for a quarter of an hour.
#[cfg(target_os = "linux")]
fn leave_when_gone(stream: &TcpStream, patience: Duration) {
    let patience = patience.saturating_mul(SILENCES_MAX).max(GONE_AFTER_MIN);
    let millis = patience.as_millis().min(i32::MAX as u128) as u32;
    if let Err(error) = sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!("a client that goes without a word will be missed late: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn leave_when_gone(_: &TcpStream, _: Duration) {}

/// Lets requests under way finish: each connection holds the other end of `leave`. False: some were not.
async fn drain(leave: watch::Sender<bool>) -> bool {
    leave.send_replace(true);
    let finished = tokio::time::timeout(LEAVING_MAX, leave.closed()).await.is_ok();
    if !finished {
        tracing::warn!("some requests were not finished {} s after the server stopped; they are cut", LEAVING_MAX.as_secs());
    }
    finished
}

/// Web sockets were told that weir stops. Waits until they have ended, or their clients take too long for that: each has a place
/// as long as it is there, and nobody else has one once the requests are finished.
async fn sockets_end(places: &Semaphore, connections_max: usize, patience: Duration) -> bool {
    let all = places.acquire_many(u32::try_from(connections_max).unwrap_or(u32::MAX));
    let ended = tokio::time::timeout(patience, all).await.is_ok();
    if !ended {
        tracing::debug!("some web sockets are cut: their clients do not take it that weir stops");
    }
    ended
}

/// Whether a client has closed its side, or is gone altogether, whatever of what it has sent is still to be read.
fn is_gone(stream: &TcpStream) -> bool {
    let mut looked = [PollFd::new(stream, GONE)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut looked, Some(&at_once)).is_ok() && looked[0].revents().intersects(GONE)
}

/// Talks over a connection until that ends, or its client leaves while something is under way: hyper looks for that only where
/// nothing of the client's lies unread behind the request, no further one and no empty line.
///
/// Once the server stops, what is under way finishes, up to the last byte of its answer; nobody waits for a client that has gone
/// silent in the middle of a request, or answers no pings of HTTP/2, nor for one to take what there is of an answer that was cut.
async fn until_its_end<C: GracefulConnection>(
    connection: C,
    requests: &Requests,
    traffic: &Traffic,
    is_gone: impl Fn() -> bool,
    mut left: watch::Receiver<bool>,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    loop {
        // Requests begin where the connection is polled, which comes first: a connection at rest needs no timer.
        let begun = poll_fn(|_| if requests.left() == Left::Nothing { Poll::Pending } else { Poll::Ready(()) });
        let is_due = async {
            begun.await;
            tokio::time::sleep(LOOK).await;
        };
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            _ = left.wait_for(|left| *left) => break,
            () = is_due => {}
        }
        // Where something still comes it may be the rest of a request, which is answered as far as that goes.
        let is_silent = !traffic.take_heard();
        if is_silent && requests.left() != Left::Nothing && is_gone() {
            return Ok(());
        }
    }
    connection.as_mut().graceful_shutdown();
    // What came until now does not count.
    traffic.take_heard();
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = tokio::time::sleep(LATE_REQUEST_MAX) => {}
        }
        let (is_silent, to_do) = (!traffic.take_heard(), requests.left());
        // An answer without a body may have been made since: requests of HTTP/2 have tasks of their own.
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = std::future::ready(()) => {}
        }
        let is_over = match to_do {
            Left::Answers => is_gone(),
            Left::CutAnswers => true,
            Left::Nothing => !traffic.is_held_up(),
        };
        if is_silent && is_over {
            return Ok(());
        }
    }
}

/// Whether it is the path of a probe. Names of streams and queries may end like one.
fn is_health(path: &str) -> bool {
    let found = routes::find(&Method::GET, path, false);
    found.is_some_and(|(route, _)| ["admin::liveness", "admin::readiness"].contains(&route.name))
}

/// Waits for the first word of a client: no longer than this, and not much longer once the server ends.
async fn wait_for<T>(word: impl Future<Output = T>, limit: Duration, mut left: watch::Receiver<bool>) -> Option<T> {
    let ends = async {
        // An error says that the server is gone.
        let _ = left.wait_for(|left| *left).await;
        tokio::time::sleep(LATE_REQUEST_MAX).await;
    };
    tokio::select! {
        biased;
        word = tokio::time::timeout(limit, word) => word.ok(),
        () = ends => None,
    }
}

/// Waits until it is clear whether the client speaks HTTP/1 or HTTP/2: hyper would wait for that for ever.
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
    let scheme = settings.scheme();
    match (settings.address.as_str(), bound) {
        ("0.0.0.0" | "::", _) => format!("{scheme}://127.0.0.1:{port}"),
        (HOST_NAME | HOST_ADDRESS, Some(bound)) => format!("{scheme}://{bound}"),
        (address, _) if address.contains(':') => format!("{scheme}://[{address}]:{port}"),
        (address, _) => format!("{scheme}://{address}:{port}"),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_told_with_the_option_it_comes_from() {
        let taken = bind_health(0).await.expect("a port");
        let port = taken.local_addr().expect("an address").port();
        let refused = bind_health(port).await.expect_err("it is taken");
        assert!(refused.contains("health-endpoints.port=<PORT>") && !refused.contains("--port"), "{refused}");
    }

    /// That port asks for no certificate, and gave whatever had a path that ends like a probe's.
    #[test]
    fn the_port_of_probes_gives_nothing_else() {
        for path in ["/api/v1/admin/liveness", "/api/v1/admin/readiness", "/api/v2/admin/readiness", "/api/v2/system/liveness"] {
            assert!(is_health(path), "{path}");
        }
        for path in
            ["/api/v1/ingest/liveness", "/api/v1/query/standing/readiness", "/api/v1/namespace/liveness", "/liveness", "/metrics"]
        {
            assert!(!is_health(path), "{path}");
        }
    }

    #[tokio::test]
    async fn web_sockets_are_waited_for_and_not_for_ever() {
        let places = Arc::new(Semaphore::new(3));
        let place = places.clone().acquire_owned().await.expect("a place");
        assert!(!sockets_end(&places, 3, Duration::from_millis(20)).await, "it has not ended");
        let ends = async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(place);
        };
        let (ended, ()) = tokio::join!(sockets_end(&places, 3, Duration::from_secs(60)), ends);
        assert!(ended);
    }

    #[tokio::test]
    async fn clients_that_acknowledge_nothing_are_left() {
        let places = Arc::new(Semaphore::new(1));
        let listener = bind_health(0).await.expect("a port");
        let _client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("it listens");
        let (stream, _, _place) = accept(&listener, &places).await.expect("a connection");
        assert_eq!(places.available_permits(), 0);
        for (patience, millis) in
            [(Duration::from_secs(30), 120_000), (Duration::from_millis(50), 4_000), (Duration::MAX, i32::MAX as u32)]
        {
            leave_when_gone(&stream, patience);
            assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(millis));
        }
    }
}
