//! Spans to a collector: OTLP over HTTP in its JSON form, in batches, again where the collector may take them later.
//!
//! The crates of OpenTelemetry were considered: a span is a dozen fields, and they bring two client libraries and a runtime.

use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use warp::http::header::CONTENT_TYPE;
use warp::http::{HeaderMap, HeaderName, HeaderValue};
use weir_connectors::http;

use super::{Attribute, Ended, Figures, Said, TraceSettings};
use crate::error::chain;

/// Spans sent at a time.
const BATCH_MAX: usize = 512;

/// How long a span waits for others.
const GATHER_MAX: Duration = Duration::from_secs(1);

/// How long each request may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Tries of a batch, with pauses between them that double.
const TRIES_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

pub struct Collector {
    http: http::Client,
    endpoint: String,
    headers: HeaderMap,
    /// What all spans have in common.
    resource: Json,
}

/// Why a batch was not taken.
struct Refused {
    reason: String,
    /// Whether it may be taken later, and after how long where the collector says.
    again: Option<Option<Duration>>,
}

impl Collector {
    pub fn new(settings: &TraceSettings) -> Result<Collector, String> {
        let http = http::patient_client().map_err(|error| chain(&error))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &settings.headers {
            // Of the value nothing is told: it is a secret.
            let wrong = || format!("traces.headers: '{name}' or its value cannot be a header");
            let name = HeaderName::try_from(name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let resource = json!({"attributes": attributes(&[
            ("service.name", settings.service_name.as_str().into()),
            ("service.version", crate::VERSION.into()),
            ("service.instance.id", crate::error::uuid().into()),
            ("host.name", host.into()),
            ("process.pid", u64::from(std::process::id()).into()),
            ("telemetry.sdk.name", "weir".into()),
            ("telemetry.sdk.language", "rust".into()),
            ("telemetry.sdk.version", crate::VERSION.into()),
        ])});
        Ok(Collector { http, endpoint: settings.endpoint.clone(), headers, resource })
    }

    /// Sends spans until there is nobody who could say more.
    pub async fn run(self, mut said: mpsc::Receiver<Said>, figures: &Figures) {
        let (mut failing, mut finished) = (false, None);
        while let Some(batch) = gather(&mut said, &mut finished).await {
            let count = batch.len() as u64;
            if count > 0 {
                let sent = self.send(&batch, finished.is_some()).await;
                match &sent {
                    Err(reason) if !failing => tracing::warn!("traces cannot be sent, and are dropped until they can: {reason}"),
                    Ok(_) if failing => tracing::info!("traces are sent again"),
                    _ => {}
                }
                failing = sent.is_err();
                let dropped = sent.unwrap_or(count).min(count);
                figures.sent.fetch_add(count - dropped, Ordering::Relaxed);
                figures.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
            if let Some(finished) = finished.take() {
                // Whoever asked may have stopped waiting.
                let _: Result<(), ()> = oneshot::Sender::send(finished, ());
            }
        }
    }

    /// Sends spans. Answers with how many the collector did not want; an error when it took none. `last`: there is no time to try
    /// again.
    async fn send(&self, batch: &[Ended], last: bool) -> Result<u64, String> {
        let body = self.body(batch).to_string();
        let mut pause = PAUSE_FIRST;
        for tries in 1.. {
            match self.post(body.clone()).await {
                Ok(rejected) => return Ok(rejected),
                Err(Refused { again: Some(after), .. }) if tries < TRIES_MAX && !last => {
                    sleep(after.unwrap_or(pause).min(PAUSE_MAX)).await;
                    pause *= 2;
                }
                Err(Refused { reason, .. }) => return Err(reason),
            }
        }
        Ok(0)
    }

    async fn post(&self, body: String) -> Result<u64, Refused> {
        let request = self.http.post(&self.endpoint).timeout(TIME_MAX).headers(self.headers.clone());
        let answer = request.body(body).send().await;
        // The address is not told: it may hold what is secret.
        let answer = answer.map_err(|error| Refused { reason: chain(&error.without_url()), again: Some(None) })?;
        let status = answer.status();
        if !status.is_success() {
            let after = answer.headers().get("retry-after").and_then(|after| after.to_str().ok()?.trim().parse().ok());
            let again = matches!(status.as_u16(), 429 | 502 | 503 | 504).then(|| after.map(Duration::from_secs));
            return Err(Refused { reason: format!("the collector answered {status}"), again });
        }
        let said: Json = answer.bytes().await.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let rejected = &said["partialSuccess"]["rejectedSpans"];
        let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        if rejected > 0 {
            let reason = said["partialSuccess"]["errorMessage"].as_str().unwrap_or_default();
            tracing::warn!("the collector of traces did not want {rejected} spans: {reason}");
        }
        Ok(rejected)
    }

    fn body(&self, batch: &[Ended]) -> Json {
        let spans: Vec<Json> = batch.iter().map(span).collect();
        json!({"resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{"scope": {"name": "weir", "version": crate::VERSION}, "spans": spans}],
        }]})
    }
}

/// The next spans; fewer when time is up or somebody wants what there is to be sent. None at the end.
async fn gather(said: &mut mpsc::Receiver<Said>, finished: &mut Option<oneshot::Sender<()>>) -> Option<Vec<Ended>> {
    let mut batch = Vec::new();
    let mut next = Some(said.recv().await?);
    let until = Instant::now() + GATHER_MAX;
    while let Some(message) = next {
        match message {
            Said::Ended(ended) => batch.push(*ended),
            Said::Finish(done) => {
                *finished = Some(done);
                break;
            }
        }
        next = if batch.len() < BATCH_MAX { timeout_at(until, said.recv()).await.ok().flatten() } else { None };
    }
    Some(batch)
}

fn span(ended: &Ended) -> Json {
    let began = ended.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut shown = json!({
        "traceId": format!("{:032x}", ended.context.trace),
        "spanId": format!("{:016x}", ended.context.span),
        "name": ended.name,
        "kind": ended.kind as u8,
        // Whole numbers of 64 bits are texts in this form.
        "startTimeUnixNano": began.as_nanos().to_string(),
        "endTimeUnixNano": (began + ended.took).as_nanos().to_string(),
        "attributes": attributes(&ended.attributes),
        "status": {},
    });
    if let Some(parent) = ended.parent {
        shown["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(reason) = &ended.error {
        shown["status"] = json!({"code": 2, "message": reason});
    }
    shown
}

fn attributes(all: &[(&'static str, Attribute)]) -> Json {
    let value = |attribute: &Attribute| match attribute {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Integer(number) => json!({"intValue": number.to_string()}),
    };
    all.iter().map(|(name, attribute)| json!({"key": name, "value": value(attribute)})).collect()
}
