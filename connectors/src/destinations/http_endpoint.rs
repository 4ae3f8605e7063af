//! An HTTP server that takes one result a request.
//!
//! At least once, as far as the tries reach: an answer that is lost on the way makes the request come again. What the
//! server refuses (4xx but 408 and 429) is not tried again; what it cannot take now is, a few times with growing pauses
//! (longer ones where the server asks for them), and then given up and counted: a broken hook must not hold the graph for
//! ever. With a parallelism of 1 results arrive in order. An output that ends makes no further request, and waits for no
//! answer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_model::Position;

use crate::config::{self, Secret};
use crate::delivery::{Outgoing, RetryPolicy, unless_stopped};
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::http;

/// Bytes taken in of an answer that nobody reads, at most.
const DRAINED_BYTES_MAX: usize = 64 << 10;

/// About three seconds for each result where the server does not ask for longer pauses.
const RETRY: RetryPolicy =
    RetryPolicy { tries_max: Some(6), backoff_min: Duration::from_millis(100), backoff_max: Duration::from_secs(2) };

/// Sends each result to an HTTP endpoint, as JSON in the body of a POST request.
///
/// What the server cannot take at the moment (no connection, 408, 429, 5xx) is tried again as `retryPolicy` says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostToEndpoint {
    /// The `http` or `https` URL to post to.
    pub url: String,
    /// How many requests run at a time. 8 when not given. With more than 1 the results may arrive in another order.
    #[serde(default = "parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// Whether the body is the data of the result alone, without `meta`. Cancellations are sent too.
    #[serde(default)]
    pub only_positive_match_data: bool,
    /// Headers to send with each request, by name. Their values are secret: they are never shown.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

fn parallelism() -> u32 {
    8
}

impl DestinationConfig for PostToEndpoint {
    fn settings(&self) -> serde_json::Value {
        let url = http::without_password(&self.url);
        crate::settings("PostToEndpoint", &PostToEndpoint { url, ..self.clone() })
    }

    fn stored(&self) -> serde_json::Value {
        crate::stored("PostToEndpoint", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        if self.only_positive_match_data { Envelope::Bare } else { self.structure }
    }

    fn check(&self) -> Result<(), ConnectorError> {
        http::url("url", &self.url)?;
        http::headers(&self.headers, true).map(|_| ())
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let url = http::url("url", &self.url)?;
        context.hosts.check(&url)?;
        Ok(Box::new(Poster {
            client: http::client()?,
            runtime: context.runtime.clone(),
            url,
            headers: self.headers.clone(),
            parallelism: self.parallelism as usize,
            stop: Arc::default(),
            stops_at_refused: false,
            alone: false,
        }))
    }
}

struct Poster {
    client: Client,
    runtime: Handle,
    url: Url,
    headers: BTreeMap<String, Secret>,
    parallelism: usize,
    stop: Arc<AtomicBool>,
    /// Nothing is sent behind what is refused or fails, but for what is under way with it.
    stops_at_refused: bool,
    /// The first result is tried again, and nothing is sent with it.
    alone: bool,
}

/// What became of one request.
pub(super) enum Outcome {
    Taken,
    Refused(String),
    /// May work later, after this long at the earliest.
    Failed(String, Duration),
    /// Not sent: one before it failed or is refused, and it must not overtake that; or the output ends.
    Held,
}

fn is_to_come_again(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(_) | Outcome::Failed(..))
}

pub(super) async fn post(client: &Client, url: &Url, headers: &HeaderMap, body: Vec<u8>) -> Outcome {
    let answer = client.post(url.clone()).headers(headers.clone()).body(body).send().await;
    match answer {
        Ok(answer) if answer.status().is_success() => {
            // The rest of the answer is read so that the connection can be used again, unless it is long.
            let _ = http::whole(answer, DRAINED_BYTES_MAX).await;
            Outcome::Taken
        }
        Ok(answer) => {
            let status = answer.status();
            let problem = format!("POST {} was answered with {status}", http::shown(url));
            match http::may_pass(status) {
                true => Outcome::Failed(problem, http::retry_after(answer.headers())),
                false => Outcome::Refused(problem),
            }
        }
        Err(error) => {
            let problem = format!("POST {}: {}", http::shown(url), http::chain(&error.without_url()));
            Outcome::Failed(problem, Duration::ZERO)
        }
    }
}

impl Destination for Poster {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let mut headers = http::headers(&self.headers, false)?;
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        let (poster, halted) = (&*self, &Cell::new(false));
        let one = |result: &Outgoing| {
            let (body, headers) = (result.body.clone(), &headers);
            async move {
                if halted.get() {
                    return Outcome::Held;
                }
                let posted = post(&poster.client, &poster.url, headers, body);
                let outcome = unless_stopped(&poster.stop, posted).await.unwrap_or(Outcome::Held);
                if poster.stops_at_refused && is_to_come_again(&outcome) {
                    halted.set(true);
                }
                outcome
            }
        };
        let one_by_one = if self.parallelism > 1 { usize::from(self.alone).min(results.len()) } else { results.len() };
        let (first, others) = results.split_at(one_by_one);
        let outcomes: Vec<Outcome> = self.runtime.block_on(async {
            let mut outcomes = Vec::with_capacity(results.len());
            for result in first {
                let outcome = one(result).await;
                let stop = matches!(outcome, Outcome::Failed(..) | Outcome::Held) || halted.get();
                outcomes.push(outcome);
                if stop {
                    outcomes.resize_with(results.len(), || Outcome::Held);
                    return outcomes;
                }
            }
            outcomes.extend(stream::iter(others.iter().map(one)).buffered(self.parallelism).collect::<Vec<_>>().await);
            outcomes
        });
        self.alone = self.stops_at_refused && outcomes.iter().any(is_to_come_again);
        let mut written = Written::default();
        for (index, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Outcome::Taken => {}
                Outcome::Refused(problem) => written.refused.push((index, problem)),
                Outcome::Failed(problem, pause_min) => {
                    written.left.push(index);
                    written.pause_min = written.pause_min.max(pause_min);
                    written.left_reason.get_or_insert(problem);
                }
                Outcome::Held => written.leave_untried(index..index + 1),
            }
        }
        Ok(written)
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn retry(&self) -> RetryPolicy {
        RETRY
    }
}
