//! Traces: what a request, a query, a batch of records or a delivery took, told to a collector of OpenTelemetry.
//!
//!     what happens ─ begin ─> Span ─ dropped at its end ─> queue (bounded) ─ otlp ─> collector
//!
//! Off, which is the default, all of it is one look at an atomic. Nothing waits for the collector: spans for which the queue has
//! no room are dropped and counted.

mod otlp;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, oneshot};
use warp::http::HeaderMap;

use self::otlp::Collector;

/// Spans that wait to be sent.
const WAITING_MAX: usize = 8192;

/// How long the last spans may take to leave when weir ends.
const FINISH_MAX: Duration = Duration::from_secs(3);

/// The longest text in an attribute.
const TEXT_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// Where the collector takes traces; it ends with `/v1/traces` for most.
    pub endpoint: String,
    /// What is sent with each request, such as a key.
    pub headers: Vec<(String, String)>,
    pub service_name: String,
    /// How many of the traces that begin here are told; those of clients who say are as they say.
    pub ratio: f64,
}

struct Tracer {
    ratio: f64,
    sender: mpsc::Sender<Said>,
    /// Where numbers of traces come from.
    random: RandomState,
    next: AtomicU64,
    figures: Figures,
}

#[derive(Default)]
struct Figures {
    sent: AtomicU64,
    dropped: AtomicU64,
}

enum Said {
    Ended(Box<Ended>),
    /// Everything before it shall be sent now.
    Finish(oneshot::Sender<()>),
}

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Which span something belongs to, as it travels in the header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Context {
    trace: u128,
    span: u64,
}

/// In the numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
    Producer = 4,
    Consumer = 5,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(String),
    Integer(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Attribute {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        Attribute::Text(text[..end].to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Attribute {
        if text.len() > TEXT_BYTES_MAX { text.as_str().into() } else { Attribute::Text(text) }
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Attribute {
        Attribute::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Something under way, told when it is dropped.
pub struct Span {
    tracer: &'static Tracer,
    since: Instant,
    ended: Option<Box<Ended>>,
}

/// What is told of it.
#[derive(Clone, Debug)]
struct Ended {
    context: Context,
    parent: Option<u64>,
    kind: Kind,
    name: String,
    began: SystemTime,
    took: Duration,
    attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed, if it did.
    error: Option<String>,
}

/// Sends traces from now on, to the collector of these settings. A second start in one process (tests) keeps the first.
pub fn start(settings: &TraceSettings) -> Result<(), String> {
    let collector = Collector::new(settings)?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let random = RandomState::new();
    let tracer = Tracer { ratio: settings.ratio, sender, random, next: AtomicU64::new(1), figures: Figures::default() };
    if TRACER.set(tracer).is_ok()
        && let Some(tracer) = TRACER.get()
    {
        tokio::spawn(collector.run(receiver, &tracer.figures));
    }
    Ok(())
}

/// Sends what waits, as far as the time allows.
pub async fn finish() {
    let Some(tracer) = TRACER.get() else { return };
    let (sender, done) = oneshot::channel();
    let finished = async {
        if tracer.sender.send(Said::Finish(sender)).await.is_ok() {
            // Gone when the task is, which has nothing more to send then.
            let _ = done.await;
        }
    };
    if tokio::time::timeout(FINISH_MAX, finished).await.is_err() {
        tracing::warn!("the last traces could not be sent within {} s", FINISH_MAX.as_secs());
    }
}

/// Spans sent, and spans dropped; none where nothing is traced.
pub fn counts() -> Option<(u64, u64)> {
    let figures = &TRACER.get()?.figures;
    Some((figures.sent.load(Ordering::Relaxed), figures.dropped.load(Ordering::Relaxed)))
}

/// A span that begins a trace, if that is to be told.
pub fn begin(kind: Kind, name: impl FnOnce() -> String) -> Option<Span> {
    let tracer = TRACER.get()?;
    let trace = tracer.trace()?;
    Some(tracer.span(trace, None, kind, name()))
}

/// A span within another, which may be one of another process.
pub fn within(parent: Option<Context>, kind: Kind, name: impl FnOnce() -> String) -> Option<Span> {
    let tracer = TRACER.get()?;
    let parent = parent?;
    Some(tracer.span(parent.trace, Some(parent.span), kind, name()))
}

/// The span of a request: in the trace of its client, or one of its own.
pub fn of_request(headers: &HeaderMap, name: impl FnOnce() -> String) -> Option<Span> {
    TRACER.get()?;
    let given = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(Context::parse);
    match given {
        Some((parent, true)) => within(Some(parent), Kind::Server, name),
        Some((_, false)) => None,
        None => begin(Kind::Server, name),
    }
}

impl Context {
    /// `00-<trace>-<span>-<flags>`, and whether it is to be told. As the standard has it, later versions may say more behind
    /// that.
    fn parse(text: &str) -> Option<(Context, bool)> {
        let mut parts = text.trim().split('-');
        let mut hex = |digits: usize| {
            let part = parts.next()?;
            let fine = part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            fine.then(|| u128::from_str_radix(part, 16).ok())?
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let whole = version != 0 || parts.next().is_none();
        let fine = version != 0xff && trace != 0 && span != 0 && whole;
        fine.then_some((Context { trace, span: span as u64 }, flags & 1 == 1))
    }
}

impl Tracer {
    /// The number of a new trace, if it is one of those that are told: the same choice as others make by the same number.
    fn trace(&self) -> Option<u128> {
        let trace = u128::from(self.number()) << 64 | u128::from(self.number());
        let told = (self.ratio * (1u64 << 63) as f64) as u64;
        ((trace as u64 >> 1) < told).then_some(trace)
    }

    /// Random, and not zero.
    fn number(&self) -> u64 {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.next.fetch_add(1, Ordering::Relaxed));
        hasher.finish().max(1)
    }

    fn span(&'static self, trace: u128, parent: Option<u64>, kind: Kind, name: String) -> Span {
        let ended = Ended {
            context: Context { trace, span: self.number() },
            parent,
            kind,
            name,
            began: SystemTime::now(),
            took: Duration::ZERO,
            attributes: Vec::new(),
            error: None,
        };
        Span { tracer: self, since: Instant::now(), ended: Some(Box::new(ended)) }
    }
}

impl Span {
    pub fn context(&self) -> Option<Context> {
        self.ended.as_ref().map(|ended| ended.context)
    }

    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(ended) = &mut self.ended {
            ended.attributes.push((name, value.into()));
        }
    }

    pub fn fail(&mut self, reason: impl Into<String>) {
        if let Some(ended) = &mut self.ended {
            ended.error = Some(reason.into());
        }
    }

    /// It is not told after all.
    pub fn forget(mut self) {
        self.ended = None;
    }

    /// It began earlier than it was heard of.
    pub fn since(&mut self, moment: Instant) {
        let earlier = self.since.saturating_duration_since(moment);
        if let Some(ended) = &mut self.ended {
            ended.began = ended.began.checked_sub(earlier).unwrap_or(ended.began);
            self.since = moment;
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(mut ended) = self.ended.take() else { return };
        ended.took = self.since.elapsed();
        if self.tracer.sender.try_send(Said::Ended(ended)).is_err() {
            self.tracer.figures.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_as_the_standard_has_them() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let context = Context { trace: 0x0af7651916cd43dd8448eb211c80319c, span: 0xb7ad6b7169203331 };
        assert_eq!(Context::parse(&format!("00-{trace}-b7ad6b7169203331-01")), Some((context, true)));
        assert_eq!(Context::parse(&format!("00-{trace}-b7ad6b7169203331-02")), Some((context, false)));
        assert_eq!(Context::parse(&format!("cc-{trace}-b7ad6b7169203331-01-what-will-be")), Some((context, true)));
        for wrong in [
            String::new(),
            format!("00-{trace}-b7ad6b7169203331"),
            format!("00-{trace}-b7ad6b7169203331-01-more"),
            format!("ff-{trace}-b7ad6b7169203331-01"),
            format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-+{}-b7ad6b7169203331-01", &trace[1..]),
        ] {
            assert_eq!(Context::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn so_many_traces_are_told_as_the_ratio_says() {
        let told = |ratio: f64| {
            let (sender, _) = mpsc::channel(1);
            let random = RandomState::new();
            let tracer = Tracer { ratio, sender, random, next: AtomicU64::new(1), figures: Figures::default() };
            (0..10_000).filter(|_| tracer.trace().is_some()).count()
        };
        assert_eq!((told(0.0), told(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&told(0.25)));
    }
}
