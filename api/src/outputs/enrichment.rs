//! Enrichment: an output that begins with a query, from results to the rows that go on.
//!
//!     results ─ query ─> rows ─ … ─> destination
//!                 └ failed ─> what the destination does with results that are refused
//!
//! Of queries that only read, several run at a time where that is quicker (`side_by_side`). Those that write run one after
//! another, so that their effects have the order of the results. Either way the rows go on in that order, those of a batch
//! together.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Receiver;
use weir_connectors::delivery::Delivered;
use weir_connectors::on_call::{LOOK, Work};
use weir_connectors::{DeliveryCounters, Envelope, Generation};
use weir_engine::{Cause, EngineError, Graph, QueryOptions};
use weir_model::expression::FailureKind;
use weir_model::{IdScheme, Map, Position, Text, Tick, Value};

use super::chain::Chain;
use super::link::QueryLink;
use super::running::{Batch, End, note_end};
use super::side_by_side::{Halt, SideBySide};
use super::taps::Taps;
use super::{Link, Named, Sent};
use crate::error::{chain, failure_text};

/// The pause between tries of a query that could not run through no fault of its own.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A query that fails on its result is tried less and less often: the pause doubles up to this.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Where queries take long, batches that wait are put together until they have this many results: side by side they are through
/// sooner.
const TOGETHER_MAX: usize = 1024;

/// The work of the output.
pub struct Enrichment {
    asker: Asker,
    end: Option<End>,
    /// Where there is no destination, the last query reports.
    progress: Option<Delivered>,
    beside: SideBySide,
}

/// What it takes to run the queries on a result, for any thread.
pub struct Asker {
    pub name: String,
    pub query: String,
    pub graph: Graph,
    pub link: QueryLink,
    /// There is a destination.
    pub has_end: bool,
    /// A query that fails on a result is tried until it does not.
    pub tries_failed: bool,
    pub taps: Arc<Taps>,
    pub stop: Arc<AtomicBool>,
    pub counters: Arc<DeliveryCounters>,
    /// Why the output has ended by itself.
    pub failed: Arc<OnceLock<String>>,
    /// That values cannot go on.
    pub told: AtomicBool,
    pub chain: Arc<Chain>,
}

/// What came of some results.
#[derive(Default)]
pub struct Asked {
    rows: Vec<Sent>,
    /// Rows of the first query, while somebody listens.
    heard: Vec<Sent>,
    failed: Vec<Failed>,
    /// Results that were left out because of a loop.
    cut: usize,
}

/// A result, or a row on its way, that a query failed on.
pub struct Failed {
    pub result: Sent,
    /// As the query was given it.
    pub structure: Envelope,
    pub reason: String,
}

impl Enrichment {
    pub fn new(asker: Asker, end: Option<End>, progress: Option<Delivered>) -> Enrichment {
        let beside = SideBySide::new(&asker.name, asker.link.threads());
        Enrichment { asker, end, progress, beside }
    }
}

impl Work for Enrichment {
    type Item = Batch;

    fn take(&mut self, (mut batch, mut upper): Batch, more: &Receiver<Batch>) -> bool {
        while self.beside.wants_many()
            && batch.len() < TOGETHER_MAX
            && let Ok((results, later)) = more.try_recv()
        {
            batch.extend(results);
            upper = later;
        }
        let asker = &self.asker;
        let alone = self.end.is_none() && !batch.is_empty();
        if alone {
            asker.counters.asking(Some(Instant::now()));
        }
        let asked = self.beside.each(&batch, |result, asked, may_wait| asker.ask_about(result, asked, may_wait));
        if alone {
            asker.counters.asking(None);
        }
        let Some(asked) = asked.map(Asked::together) else { return false };
        asker.taps.show_enriched(&asked.heard);
        match (&self.end, &mut self.progress) {
            (Some(end), _) => {
                if let Err(reason) = end.send(asked.rows.iter(), &asked.failed, upper, || asker.stop.load(Ordering::Relaxed)) {
                    // Where it is being ended, that the destination takes no more is no failure.
                    if !asker.stop.load(Ordering::Relaxed) {
                        asker.has_ended(end.delivery.failure().unwrap_or(reason));
                    }
                    return false;
                }
            }
            (None, Some(progress)) => progress(upper.0, Position::default()),
            (None, None) => {}
        }
        true
    }

    fn is_quick(&self, (batch, _): &Batch) -> bool {
        batch.is_empty() && self.end.as_ref().is_none_or(|end| end.delivery.is_free())
    }

    /// While what waits shall still be delivered, it is taken; each query looks for itself whether it shall end.
    fn is_stopped(&self) -> bool {
        false
    }

    fn end(&mut self) {
        if let Some(end) = self.end.take() {
            // Bounded from outside: whoever closes the output sets `stop` when the time is over.
            let patience = if self.asker.stop.load(Ordering::Relaxed) { Duration::ZERO } else { Duration::from_secs(10) };
            end.delivery.close(patience);
        }
    }
}

impl Drop for Enrichment {
    /// Told at once: whoever waits until what was sent is taken sends nothing more, and would wait for ever.
    fn drop(&mut self) {
        if thread::panicking() {
            self.asker.has_ended("the thread of its query has panicked; this is a bug".to_owned());
        }
    }
}

impl Asked {
    /// What came of more of them, behind it.
    fn append(&mut self, mut more: Asked) {
        self.rows.append(&mut more.rows);
        self.heard.append(&mut more.heard);
        self.failed.append(&mut more.failed);
        self.cut += more.cut;
    }

    fn together(parts: Vec<Asked>) -> Asked {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.append(part));
        all
    }
}

impl Asker {
    fn has_ended(&self, reason: String) {
        note_end(&self.failed, Named { query: &self.query, output: &self.name }, reason);
    }

    /// Runs the queries for a result. What came of it goes behind what came of others, or nothing does where it is stopped or
    /// would have to wait.
    fn ask_about(&self, result: &Sent, asked: &mut Asked, may_wait: bool) -> Result<(), Halt> {
        // One that takes no time does not look.
        if self.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        if !result.positive && self.link.positive_only {
            return Ok(());
        }
        let mut own = Asked::default();
        self.ask(&self.link, result, &mut own, may_wait)?;
        if !self.has_end {
            if own.failed.is_empty() && own.cut == 0 {
                self.counters.delivered.fetch_add(1, Ordering::Relaxed);
            }
            own.failed.drain(..).for_each(|failed| self.leave_out(&failed.reason));
        }
        // Each has an id of its own.
        (1..).zip(&mut own.rows).for_each(|(number, row)| row.place.row = number);
        (1..).zip(&mut own.heard).for_each(|(number, row)| row.place.row = number);
        asked.append(own);
        Ok(())
    }

    /// Runs a query for a result and hands its rows to what follows.
    fn ask(&self, link: &QueryLink, result: &Sent, asked: &mut Asked, may_wait: bool) -> Result<(), Halt> {
        let cause = match link.prepared.writes().then(|| self.chain.next(&self.graph, result)).transpose() {
            Ok(cause) => cause,
            Err(reason) => {
                self.chain.cut(&self.name, &reason);
                self.counters.given_up(1, &reason);
                asked.cut += 1;
                return Ok(());
            }
        };
        let rows = match self.run(link, result, cause.as_ref(), may_wait)? {
            Ok(rows) => rows,
            Err(reason) => {
                asked.failed.push(Failed { result: result.clone(), structure: link.structure, reason });
                return Ok(());
            }
        };
        if std::ptr::eq(link, &self.link) && self.taps.hears_enriched() {
            asked.heard.extend_from_slice(&rows);
        }
        match link.next.as_deref() {
            None => Ok(()),
            Some(Link::Destination(..)) => {
                asked.rows.extend(rows);
                Ok(())
            }
            Some(Link::Query(next)) => rows.iter().try_for_each(|row| self.ask(next, row, asked, may_wait)),
        }
    }

    /// The rows of a query, or why there are none: once for all, so that what it is tried again for is over.
    fn run(
        &self,
        link: &QueryLink,
        result: &Sent,
        cause: Option<&Arc<Cause>>,
        may_wait: bool,
    ) -> Result<Result<Vec<Sent>, String>, Halt> {
        let parameter = that(result, link, self.graph.ids());
        let columns: Vec<Text> = link.prepared.plan.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut rows: Vec<Sent> = Vec::new();
        let sent = |row: &[Value]| {
            let data = columns.iter().zip(row).map(|(column, value)| (column.clone(), self.carried(column, value)));
            Sent { data: Arc::new(data.collect()), ..result.clone() }
        };
        let mut pause = RETRY_PAUSE;
        for tries in 1.. {
            rows.clear();
            let ended = self.graph.query(
                &link.prepared,
                std::slice::from_ref(&parameter),
                QueryOptions { cancelled: Some(&self.stop), cause, ..QueryOptions::default() },
                &mut |row| {
                    rows.push(sent(row));
                    ControlFlow::Continue(())
                },
            );
            let (again, problem) = match ended {
                Ok(_) => {
                    if tries > 1 {
                        self.counters.trying(0, None);
                    }
                    break;
                }
                Err(_) if self.stop.load(Ordering::Relaxed) => return Err(Halt::Stopped),
                Err(EngineError::Unconfirmed { upper, rows: answer, error }) => {
                    self.wait_confirmed(tries, upper, *error)?;
                    rows.extend(answer.iter().map(|row| sent(row)));
                    break;
                }
                // What it asks the world for follows from what others keep changing: no reason to give the result up.
                Err(EngineError::Query(failure)) if failure.kind == FailureKind::WouldFetch => {
                    (Some(RETRY_PAUSE), format!("the query could not run on a result: {}", failure_text(&failure)))
                }
                Err(EngineError::Query(failure)) => {
                    let again = self.tries_failed.then_some(pause);
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                    (again, format!("the query failed on a result: {}", failure_text(&failure)))
                }
                // Nothing is written before the log has been replayed, and nothing has failed.
                Err(EngineError::Starting) if !may_wait => return Err(Halt::Waits),
                Err(EngineError::Starting) => {
                    self.pause(RETRY_PAUSE)?;
                    continue;
                }
                Err(error) => {
                    let again = (error.is_passing() || link.retries || self.tries_failed).then_some(RETRY_PAUSE);
                    (again, format!("the query could not run on a result: {}", chain(&error)))
                }
            };
            let Some(again) = again else { return Ok(Err(problem)) };
            if !may_wait {
                return Err(Halt::Waits);
            }
            self.wait(tries, again, &format!("{problem}; it is tried again"))?;
        }
        Ok(Ok(rows))
    }

    /// Waits until what a query has changed is known to stay. The query itself does not run again: it would change it twice.
    fn wait_confirmed(&self, tries: u32, upper: Tick, mut error: EngineError) -> Result<(), Halt> {
        for tries in tries.. {
            let problem = format!("the query has run on a result, and it is waited until its changes stay: {}", chain(&error));
            self.wait(tries, RETRY_PAUSE, &problem)?;
            match self.graph.confirm(upper) {
                Ok(()) => break,
                Err(later) => error = later,
            }
        }
        self.counters.trying(0, None);
        Ok(())
    }

    /// Waits before something is tried again.
    fn wait(&self, tries: u32, pause: Duration, problem: &str) -> Result<(), Halt> {
        tracing::warn!(query = self.query, output = self.name, "{problem}");
        self.counters.note(problem);
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        self.counters.trying(tries, Some(SystemTime::now() + pause));
        self.pause(pause)
    }

    fn pause(&self, pause: Duration) -> Result<(), Halt> {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Halt::Stopped);
            }
            thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
        Ok(())
    }

    /// A value as it goes on. The first that cannot is told.
    fn carried(&self, column: &Text, value: &Value) -> Value {
        if !stays(value) {
            return value.clone();
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            let (query, output) = (&self.query, &self.name);
            tracing::warn!(
                query,
                output,
                "column {column} of the output's query is a node, an edge or a path, which goes on as null; return id(…) or properties(…) of it"
            );
        }
        Value::Null
    }

    /// Where there is no destination that would say what becomes of it.
    fn leave_out(&self, reason: &str) {
        let problem = format!("{reason}; it is left out");
        tracing::warn!(query = self.query, output = self.name, "{problem}");
        self.counters.given_up(1, &problem);
    }
}

/// A result as a parameter. In v2 ids are texts there, as they are in Quine: other ids are derived from them, and they compare
/// with texts.
fn that(result: &Sent, link: &QueryLink, ids: IdScheme) -> Value {
    let data: Arc<Map> = match link.generation {
        Generation::V2 if result.data.iter().any(|(_, value)| holds_id(value)) => {
            Arc::new(result.data.iter().map(|(column, value)| (column.clone(), with_texts(value, ids))).collect())
        }
        _ => result.data.clone(),
    };
    match link.structure {
        Envelope::Bare => Value::Map(data),
        structure => Value::Map(result.meta().whole(structure, &data).into()),
    }
}

fn holds_id(value: &Value) -> bool {
    match value {
        Value::Id(_) => true,
        Value::List(items) => items.iter().any(holds_id),
        Value::Map(map) => map.iter().any(|(_, value)| holds_id(value)),
        _ => false,
    }
}

/// The value with the text of each id in its place.
fn with_texts(value: &Value, ids: IdScheme) -> Value {
    match value {
        // Shared as it is, however long it is.
        _ if !holds_id(value) => value.clone(),
        Value::Id(id) => Value::text(&ids.text(*id)),
        Value::List(items) => Value::list(items.iter().map(|item| with_texts(item, ids)).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(key, value)| (key.clone(), with_texts(value, ids)))),
        other => other.clone(),
    }
}

/// Whether it is a node, an edge or a path, which cannot leave as a plain value.
fn stays(value: &Value) -> bool {
    match value {
        Value::Node(_) | Value::Edge(_) | Value::Path(_) | Value::FullNode(_) | Value::FullEdge(_) => true,
        // A path comes as the list of its nodes and edges.
        Value::List(items) => matches!(&**items, [Value::FullNode(_), Value::FullEdge(_), ..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use weir_model::NodeId;

    use super::*;

    #[test]
    fn ids_become_texts_wherever_they_are() {
        let id = || Value::Id(NodeId::new(0, 7));
        let inner = Value::map([("ids".into(), Value::list(vec![Value::Integer(1), id()])), ("x".into(), Value::Null)]);
        let value = Value::list(vec![Value::list(vec![Value::Boolean(true)]), inner]);
        assert!(holds_id(&value));
        let (uuid, other) = ("00000000-0000-0000-0000-000000000007", "#00000000000000000000000000000007");
        for (ids, text) in [(IdScheme::Uuid, uuid), (IdScheme::Uuid4, other)] {
            let told = with_texts(&value, ids);
            assert!(!holds_id(&told));
            let Value::List(items) = &told else { panic!("a list") };
            assert!(matches!(&items[0], Value::List(plain) if matches!(&**plain, [Value::Boolean(true)])));
            let Value::Map(map) = &items[1] else { panic!("a map") };
            assert!(map.get("x").is_some_and(Value::is_null));
            let Some(Value::List(both)) = map.get("ids") else { panic!("a list") };
            assert!(matches!(&**both, [Value::Integer(1), Value::Text(found)] if found == text), "{text}");
        }
    }
}
