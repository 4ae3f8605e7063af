//! The queries that run: who sent them, how far they are, and the way to end them. Slow ones are logged when they end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use weir_model::lock::lock;
use weir_model::plan::QueryFacts;

use crate::clock;
use crate::error::{ApiError, BACK_SECONDS};
use crate::log;
use crate::traces::{self, Context, Kind, Span};

/// How much of a text the log and lists show.
const TEXT_SHOWN_BYTES_MAX: usize = 4096;

/// How often the end of weir looks whether queries still run.
const LOOK: Duration = Duration::from_millis(5);

/// Who sent a query.
#[derive(Clone, Default)]
pub struct Client {
    pub agent: Option<String>,
    pub remote: Option<SocketAddr>,
    /// The request it belongs to, where that is traced.
    pub trace: Option<Context>,
    /// Who it is, where there are logins.
    pub who: Option<String>,
}

impl Client {
    /// A line of the audit log for a query that writes, or ends others: there may be thousands a second, so only where the level
    /// says debug.
    pub fn audit(&self, text: &str, facts: QueryFacts) {
        if facts.writes || facts.ends {
            let remote = self.remote.map(|remote| remote.to_string()).unwrap_or_default();
            let who = self.who.as_ref().map(|who| format!("{who}: ")).unwrap_or_default();
            tracing::debug!(target: log::AUDIT, "audit: {remote} {who}query: {}", shortened(text));
        }
    }

    /// A query of a request that is traced begins.
    pub fn span(&self, text: &str, namespace: &str) -> Option<Span> {
        let mut span = traces::within(self.trace, Kind::Internal, || "query".to_owned())?;
        span.set("db.system.name", "weir");
        span.set("db.namespace", namespace);
        span.set("db.query.text", shortened(text));
        Some(span)
    }
}

/// What runs.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Query,
    /// Nobody sees it, or ends it, but its client and the end of weir.
    Unlisted,
    /// It takes as long as the graph is large, which is nothing to tell of.
    Long,
}

pub struct Running {
    pub id: u64,
    sort: Sort,
    text: String,
    namespace: String,
    client: Client,
    started: SystemTime,
    began: Instant,
    /// Given out so far.
    pub rows: AtomicU64,
    /// When it last sent something, in milliseconds since it began.
    sent_millis: AtomicU64,
    /// It is to end; `cancel` says so.
    pub cancelled: AtomicBool,
    /// Those that wait for something on its behalf hear that here.
    told: Notify,
    /// Because weir does.
    stopped: AtomicBool,
    failed: OnceLock<String>,
}

impl Running {
    pub fn to_json(&self) -> Json {
        let mut shown = json!({
            "id": self.id.to_string(),
            "query": self.shown(),
            "namespace": self.namespace,
            "startTime": clock::instant(self.started),
            "runningMillis": self.began.elapsed().as_millis() as u64,
            "rows": self.rows.load(Ordering::Relaxed),
            "cancelled": self.cancelled.load(Ordering::Relaxed),
        });
        if let Some(agent) = &self.client.agent {
            shown["userAgent"] = agent.as_str().into();
        }
        if let Some(remote) = self.client.remote {
            shown["remoteAddress"] = remote.to_string().into();
        }
        shown
    }

    fn is_listed(&self) -> bool {
        self.sort != Sort::Unlisted
    }

    /// Its text, the beginning of it where it is long.
    pub fn shown(&self) -> String {
        shortened(&self.text)
    }

    /// It has ended with an error.
    pub fn fail(&self, reason: &dyn std::fmt::Display) {
        self.failed.get_or_init(|| reason.to_string());
    }

    /// A row leaves, or waits until its client has taken others.
    pub fn sends(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.began).as_millis() as u64;
        self.sent_millis.store(millis, Ordering::Relaxed);
    }

    fn silent_for(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.sent_millis.load(Ordering::Relaxed)))
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// It ends, soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Waits until it is to end.
    pub async fn until_cancelled(&self) {
        // Made before the flag is looked at: it hears of an end in between.
        let told = self.told.notified();
        if !self.is_cancelled() {
            told.await;
        }
    }

    /// Weir ends, and so does this.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.cancel();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// What a client is told of one that was ended.
    pub fn ending(&self, committed: bool) -> ApiError {
        match (committed, self.is_stopped()) {
            // Nobody is to do that again.
            (true, _) => ApiError::Cypher("RuntimeError The query was cancelled once its changes were committed".to_owned()),
            (false, true) => ApiError::Busy {
                reason: "RuntimeError The query was cancelled: weir is stopping".to_owned(),
                seconds: BACK_SECONDS,
            },
            (false, false) => ApiError::Cypher("RuntimeError The query was cancelled".to_owned()),
        }
    }
}

pub struct Register {
    slow_after: Duration,
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<Running>>>,
    stopped: AtomicBool,
}

impl Register {
    pub fn new(slow_after: Duration) -> Register {
        Register { slow_after, next: AtomicU64::new(1), running: Mutex::default(), stopped: AtomicBool::new(false) }
    }

    /// Ends the queries that have sent nothing for `silence`, and all that still come. Answers with how many it ended, and how
    /// many go on.
    pub fn stop(&self, silence: Duration) -> (usize, usize) {
        let running = self.lock();
        // Whoever comes into the list after this has seen it.
        self.stopped.store(true, Ordering::Relaxed);
        let going_on = || running.values().filter(|running| !running.is_stopped());
        let silent = going_on().filter(|running| running.silent_for() >= silence);
        (silent.inspect(|running| running.stop()).count(), going_on().count())
    }

    /// Waits until none runs, but no longer than this.
    pub fn is_empty_within(&self, limit: Duration) -> bool {
        let began = Instant::now();
        while !self.lock().is_empty() {
            if began.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// A query begins. It is listed until what this answers is dropped.
    pub fn begin(self: &Arc<Self>, text: &str, namespace: &str, client: Client) -> Listed {
        self.begin_as(Sort::Query, text, namespace, client)
    }

    /// As `begin`, for one that asks what runs: nobody sees it, or ends it, but its client and the end of weir.
    pub fn begin_unlisted(self: &Arc<Self>, text: &str, namespace: &str, client: Client) -> Listed {
        self.begin_as(Sort::Unlisted, text, namespace, client)
    }

    /// As `begin`, for what takes as long as the graph is large: it is never logged as slow.
    pub fn begin_long(self: &Arc<Self>, text: &str, namespace: &str, client: Client) -> Listed {
        self.begin_as(Sort::Long, text, namespace, client)
    }

    fn begin_as(self: &Arc<Self>, sort: Sort, text: &str, namespace: &str, client: Client) -> Listed {
        let span = client.span(text, namespace);
        let running = Arc::new(Running {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            sort,
            text: text.to_owned(),
            namespace: namespace.to_owned(),
            client,
            started: SystemTime::now(),
            began: Instant::now(),
            rows: AtomicU64::new(0),
            sent_millis: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            told: Notify::new(),
            stopped: AtomicBool::new(false),
            failed: OnceLock::new(),
        });
        let mut all = self.lock();
        all.insert(running.id, running.clone());
        if self.stopped.load(Ordering::Relaxed) {
            running.stop();
        }
        drop(all);
        Listed { running, register: self.clone(), span }
    }

    /// In the order in which they began.
    pub fn list(&self) -> Vec<Arc<Running>> {
        self.lock().values().filter(|running| running.is_listed()).cloned().collect()
    }

    /// Ends a query, soon. None when there is no such query, or no more.
    pub fn cancel(&self, id: u64) -> Option<Arc<Running>> {
        let running = self.lock().get(&id).filter(|running| running.is_listed()).cloned()?;
        running.cancel();
        Some(running)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Running>>> {
        lock(&self.running)
    }
}

/// A place in the list.
pub struct Listed {
    pub running: Arc<Running>,
    register: Arc<Register>,
    span: Option<Span>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.register.lock().remove(&self.running.id);
        let took = self.running.began.elapsed();
        if let Some(mut span) = self.span.take() {
            span.set("weir.rows", self.running.rows.load(Ordering::Relaxed));
            match self.running.failed.get() {
                Some(reason) => span.fail(reason.as_str()),
                None if self.running.is_cancelled() => span.fail("cancelled"),
                None => {}
            }
        }
        if took >= self.register.slow_after && self.running.sort != Sort::Long {
            let running = &self.running;
            tracing::warn!(
                target: "weir::slow_query",
                id = running.id,
                namespace = running.namespace,
                millis = took.as_millis() as u64,
                rows = running.rows.load(Ordering::Relaxed),
                cancelled = running.is_cancelled(),
                "a query took long: {}",
                running.shown()
            );
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= TEXT_SHOWN_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(TEXT_SHOWN_BYTES_MAX);
    format!("{} ... ({} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_ends_those_that_run_and_those_that_come() {
        let register = Arc::new(Register::new(Duration::from_secs(1)));
        assert!(register.is_empty_within(Duration::ZERO));
        let first = register.begin("RETURN 1", "quine", Client::default());
        assert!(!register.is_empty_within(Duration::from_millis(20)) && !first.running.is_cancelled());
        assert_eq!(register.stop(Duration::ZERO), (1, 0));
        let late = register.begin("RETURN 2", "quine", Client::default());
        for running in [&first.running, &late.running] {
            assert!(running.is_cancelled() && matches!(running.ending(false), ApiError::Busy { .. }));
            assert!(matches!(running.ending(true), ApiError::Cypher(_)), "it is not to be asked again");
        }
        drop((first, late));
        assert!(register.is_empty_within(Duration::ZERO));
    }

    #[test]
    fn the_end_leaves_those_that_send_until_they_do_not() {
        let register = Arc::new(Register::new(Duration::from_secs(1)));
        let begin = || register.begin("RETURN 1", "quine", Client::default());
        let (computes, sends) = (begin(), begin());
        let silence = Duration::from_millis(500);
        std::thread::sleep(silence);
        // It sends all the time, however long this test is held up.
        sends.running.sends(Instant::now() + Duration::from_secs(3600));
        assert_eq!(register.stop(silence), (1, 1));
        assert!(computes.running.is_stopped() && !sends.running.is_cancelled());
        assert_eq!(register.stop(silence), (0, 1), "what was ended is not ended again");
        sends.running.sends(Instant::now());
        std::thread::sleep(silence + Duration::from_millis(10));
        assert_eq!(register.stop(silence), (1, 0));
        assert!(sends.running.is_stopped());
    }

    #[test]
    fn queries_are_listed_while_they_run() {
        let register = Arc::new(Register::new(Duration::from_secs(1)));
        let first = register.begin("RETURN 1", "quine", Client::default());
        let agent = Some("a test".to_owned());
        let second = register.begin(&"é".repeat(5000), "other", Client { agent, ..Client::default() });
        let listed = register.list();
        assert_eq!(listed.iter().map(|running| running.id).collect::<Vec<_>>(), [1, 2]);
        let shown = listed[1].to_json();
        assert_eq!((&shown["id"], &shown["userAgent"], &shown["rows"]), (&json!("2"), &json!("a test"), &json!(0)));
        assert!(shown["query"].as_str().is_some_and(|text| text.len() < 5000 && text.ends_with("(10000 bytes)")));
        assert!(register.cancel(1).is_some() && first.running.is_cancelled());
        drop(first);
        assert!(register.cancel(1).is_none());
        drop(second);
        assert!(register.list().is_empty());
    }

    #[test]
    fn what_is_not_listed_is_counted_for_the_end_and_ended_by_it() {
        let register = Arc::new(Register::new(Duration::from_secs(1)));
        let asks = register.begin_unlisted("SHOW QUERIES", "quine", Client::default());
        assert!(register.list().is_empty() && register.cancel(asks.running.id).is_none() && !asks.running.is_cancelled());
        assert!(!register.is_empty_within(Duration::ZERO));
        assert_eq!(register.stop(Duration::ZERO), (1, 0));
        assert!(asks.running.is_stopped());
        drop(asks);
        assert!(register.is_empty_within(Duration::ZERO));
    }
}
