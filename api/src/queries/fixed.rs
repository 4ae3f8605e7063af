//! Queries of weir's own: routes that look at nodes and change them ask in Cypher like everybody else, with fixed texts.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_cypher_compiler::compile;
use weir_engine::{EngineError, Graph, QueryOptions};
use weir_model::expression::FailureKind;
use weir_model::plan::QueryFacts;
use weir_model::{Failure, IdScheme, NodeId, Tick, Value};

use super::{Client, Queries, Running};
use crate::app::App;
use crate::error::ApiError;

/// Runs what asks many times as one query: listed as `text`, in a place, on a thread of its own, and told to end when nobody
/// waits for its answer any more.
pub async fn run<T: Send + 'static>(
    queries: &Queries,
    text: &str,
    graph: &Graph,
    client: Client,
    work: impl FnOnce(&Running) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let listed = queries.register.begin(text, graph.name(), client);
    let _waiting = Waiting(listed.running.clone());
    let place = queries.place(QueryFacts::default(), &listed.running).await;
    let place = place.inspect_err(|error| listed.running.fail(error))?;
    let task = tokio::task::spawn_blocking(move || {
        let running = &listed.running;
        let ended = work(running).map_err(|error| if running.is_cancelled() { running.ending(false) } else { error });
        ended.as_ref().err().into_iter().for_each(|error| running.fail(error));
        // Whoever reads the answer may ask what runs: not this any more.
        drop((listed, place));
        ended
    });
    task.await.map_err(|error| ApiError::Failed(format!("a task failed: {error}")))?
}

/// Somebody waits for an answer; when that is over, however that came, what works for it is told.
struct Waiting(Arc<Running>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Who asks, of which graph, as of when, until when, and whether it is still wanted.
#[derive(Clone, Copy)]
pub struct Fixed<'a> {
    pub app: &'a App,
    pub graph: &'a Graph,
    pub at: Option<Tick>,
    pub deadline: Option<Instant>,
    /// Set by whoever no longer wants the answer. What changes the graph has none: it is never cut short by its client.
    pub cancelled: Option<&'a AtomicBool>,
}

impl<'a> Fixed<'a> {
    pub fn new(app: &'a App, graph: &'a Graph, at: Option<Tick>) -> Fixed<'a> {
        Fixed { app, graph, at, deadline: Instant::now().checked_add(app.queries.settings.time_max), cancelled: None }
    }

    /// Until the flag is set.
    pub fn until(self, cancelled: &'a AtomicBool) -> Fixed<'a> {
        Fixed { cancelled: Some(cancelled), ..self }
    }

    /// Whether there is still time and interest, for those who ask many times: each question alone may be over before it looks.
    pub fn go_on(&self) -> Result<(), ApiError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ApiError::TimeLimit(self.app.queries.settings.time_max.as_millis()));
        }
        if self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Err(EngineError::Query(Failure::new(FailureKind::Interrupted, "The query was cancelled")).into());
        }
        Ok(())
    }

    /// Whether what was asked for, altogether, may be held until the answer is whole.
    pub fn may_hold(&self, bytes: usize) -> Result<(), ApiError> {
        let queries = &self.app.queries;
        if bytes <= queries.settings.memory_bytes_max {
            return Ok(());
        }
        let failure = Failure::new(FailureKind::MemoryLimit, "The answer does not fit; ask for less at a time");
        Err(queries.explained(EngineError::Query(failure)))
    }

    pub fn each(
        &self,
        text: &str,
        parameters: &[(&str, Value)],
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let Fixed { app, graph, at, deadline, cancelled } = *self;
        let compiled = app.queries.plans.get(graph, text, &[], || compile(text, &app.procedures.options(graph, Vec::new())))?;
        let value = |name: &str| parameters.iter().find(|(given, _)| *given == name).map(|(_, value)| value.clone());
        let values = compiled.prepared.plan.parameters.iter().map(|name| value(name).unwrap_or_default()).collect::<Vec<_>>();
        let options = QueryOptions { at, deadline, cancelled, ..QueryOptions::default() };
        graph.query(&compiled.prepared, &values, options, each).map(drop).map_err(|error| app.queries.explained(error))
    }

    pub fn rows(&self, text: &str, parameters: &[(&str, Value)]) -> Result<Vec<Vec<Value>>, ApiError> {
        let mut rows = Vec::new();
        self.each(text, parameters, &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// An id as queries compare it.
    pub fn id(&self, id: NodeId) -> Value {
        match self.graph.ids() {
            IdScheme::Long { .. } => Value::Integer(id.low as i64),
            _ => Value::Id(id),
        }
    }
}

/// The inverse of `Fixed::id`.
pub fn node_id(value: &Value) -> Option<NodeId> {
    match value {
        Value::Id(id) => Some(*id),
        Value::Integer(low) => Some(NodeId::new(0, *low as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_engine::store::InMemory;
    use weir_engine::{Engine, Options};

    use super::*;
    use crate::queries::QuerySettings;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_runs_as_a_query_has_a_place_and_ends_when_its_client_leaves() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() });
        let engine = engine.expect("an engine in memory");
        let graph = engine.default_graph();
        let queries = Queries::new(QuerySettings {
            time_max: LONG,
            memory_bytes_max: 1 << 20,
            all_memory_bytes_max: 1 << 20,
            text_bytes_max: 1 << 20,
            running_max: 1,
            slow_after: LONG,
            client_patience: LONG,
        });
        let began = Instant::now();
        // Bounded, so that a failure of this test is seen.
        let works = move |running: &Running| {
            while !running.is_cancelled() && began.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let listed = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            (queries.register.list().len(), queries.places.available_permits())
        };
        // Whoever waits for it leaves once this has been looked at.
        let listed = tokio::select! {
            biased;
            _ = run(&queries, "a walk", &graph, Client::default(), works) => None,
            listed = listed => Some(listed),
        };
        assert_eq!(listed, Some((1, 0)));
        assert!(queries.register.is_empty_within(LONG));
        assert!(began.elapsed() < LONG, "nobody waited for it any more");
        // One that is ended while its client waits says so.
        let ended = run(&queries, "another", &graph, Client::default(), |running| {
            running.cancel();
            Err::<(), _>(ApiError::bad("no more"))
        });
        assert!(matches!(ended.await, Err(ApiError::Cypher(reason)) if reason.contains("was cancelled")));
    }
}
