//! The time before weir is ready: how far its start is, and what requests are answered meanwhile. Reading a large graph takes a
//! while, and whoever watches over weir must be able to tell that from its being dead.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use warp::http::StatusCode;
use warp::reply::{Reply, Response};
use weir_engine::Loading;
use weir_model::lock::lock;

use crate::app::{App, STOPPING};
use crate::error::{self, ApiError};
use crate::routes;
use crate::transfer::progress::bar;
use crate::wire::family::Family;

/// How often the bar on a terminal moves.
const BETWEEN: Duration = Duration::from_millis(100);
/// How often a line of the log says how far the start is.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// When those come back who follow results.
const COME_BACK_MILLIS: u32 = 500;

pub struct Startup {
    began: Instant,
    /// What is being done.
    now: Mutex<&'static str>,
    /// How far that is.
    loading: Arc<Loading>,
    /// Once the graph can be read.
    app: OnceLock<Weak<App>>,
}

impl Default for Startup {
    fn default() -> Startup {
        Startup {
            began: Instant::now(),
            now: Mutex::new("the store is being opened"),
            loading: Arc::default(),
            app: OnceLock::new(),
        }
    }
}

impl Startup {
    /// The next part has begun.
    pub fn at(&self, part: &'static str) {
        *lock(&self.now) = part;
        tracing::debug!("{} s after the start {part}", self.began.elapsed().as_secs_f32());
    }

    /// Counted by those who load the graph.
    pub fn loading(&self) -> Arc<Loading> {
        self.loading.clone()
    }

    fn now(&self) -> String {
        let now = *lock(&self.now);
        match self.loading.to_string() {
            far if far.is_empty() => now.to_owned(),
            far => format!("{now}: {far}"),
        }
    }

    pub fn reason(&self) -> String {
        format!("{}; it was started {} ms ago", self.now(), self.began.elapsed().as_millis())
    }

    /// Says on the terminal and in the log how far it is, until what is given back is dropped.
    pub fn watch(startup: &Arc<Startup>) -> Watch {
        let (startup, (end, ended)) = (startup.clone(), mpsc::sync_channel(1));
        // A start is not held up for want of this.
        let teller = std::thread::Builder::new().name("startup".to_owned()).spawn(move || tell(&startup, &ended)).ok();
        Watch { end: Some(end), teller }
    }

    /// It lives; everything else has to wait.
    pub fn answer(&self, request: &Request<Incoming>) -> Response {
        instead(request).unwrap_or_else(|asked| match asked {
            Some("ui::page" | "ui::explorer" | "ui::streams" | "documents::page" | "documents::page_v1") => {
                routes::starting(&self.reason())
            }
            _ => ApiError::NotReady(self.reason()).into_response(Family::of(request.uri().path())),
        })
    }

    /// The graph is there, and may be read.
    pub fn answer_reads(&self, app: &Arc<App>) {
        // A second time there is none.
        let _ = self.app.set(Arc::downgrade(app));
    }

    /// How long clients that take nothing are waited for, once the graph is there.
    pub fn patience(&self) -> Option<Duration> {
        Some(self.app.get()?.upgrade()?.queries.settings.client_patience)
    }

    /// Who answers a request already: one that only reads, as soon as the graph is there.
    pub fn reader(&self, request: &Request<Incoming>) -> Option<Arc<App>> {
        let app = self.app.get()?.upgrade()?;
        let reads = || routes::find(request.method(), request.uri().path(), false).is_some_and(|(route, _)| route.only_reads());
        (app.is_ready() || reads()).then_some(app)
    }
}

/// While weir stops it lives as well, and takes nothing more. Connections are closed afterwards.
pub fn answer_stopping(request: &Request<Incoming>) -> Response {
    let refusal = instead(request).map_err(|asked| match asked {
        // Of this v1 has a status, and no words.
        Some("admin::readiness") => ApiError::NotReady(STOPPING.to_owned()),
        _ => ApiError::stopping(),
    });
    refusal.unwrap_or_else(|refusal| refusal.into_response(Family::of(request.uri().path())))
}

/// What is answered at all times. For everything else the name of what was asked, if there is such a thing.
fn instead(request: &Request<Incoming>) -> Result<Response, Option<&'static str>> {
    match routes::find(request.method(), request.uri().path(), false).map(|(route, _)| route.name) {
        Some("admin::liveness") => Ok(StatusCode::NO_CONTENT.into_response()),
        // A browser that follows results gives up at an error, and comes back when a stream ends.
        Some("standing::results" | "ui::events") => {
            Ok(error::response(StatusCode::OK, Some("text/event-stream"), format!("retry: {COME_BACK_MILLIS}\n\n")))
        }
        asked => Err(asked),
    }
}

/// Somebody tells how far it is.
pub struct Watch {
    end: Option<mpsc::SyncSender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        // So that what is said next finds an empty line.
        if let Some(teller) = self.teller.take() {
            let _ = teller.join();
        }
    }
}

fn tell(startup: &Startup, ended: &mpsc::Receiver<()>) {
    let on_terminal = std::io::stderr().is_terminal();
    let (mut said, mut drawn) = (Instant::now(), false);
    let clear = |drawn: &mut bool| {
        if std::mem::take(drawn) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    };
    while ended.recv_timeout(BETWEEN) == Err(mpsc::RecvTimeoutError::Timeout) {
        if said.elapsed() >= BETWEEN_LINES {
            clear(&mut drawn);
            said = Instant::now();
            tracing::info!("starting: {}", startup.reason());
        }
        if let Some((what, done, total)) = startup.loading.reached().filter(|_| on_terminal) {
            let _ = write!(std::io::stderr().lock(), "\r{}  {what}\x1b[K", bar(done, total));
            drawn = true;
        }
    }
    clear(&mut drawn);
}
