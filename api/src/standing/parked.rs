//! Outputs that cannot be opened when weir starts, or again after a change that failed: their results are kept, and they are
//! tried again until they can.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use weir_connectors::thread::side_by_side;
use weir_model::Position;

use super::{Query, StandingQueries, lock};
use crate::app::App;
use crate::error::ApiError;
use crate::outputs::{Lane, Link, Named, Opened};
use crate::procedures::Preparing;
use crate::wire::standing::{Output, StandingSettings};

/// The first pause between two tries.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// So many outputs are tried at a time: each may ask for a schema, of a registry that hangs.
const TRIES_MAX: usize = 16;

/// Tries what is parked again, as long as there is an app. To be told whenever something is.
pub async fn look_after(app: Weak<App>, parked: Arc<Notify>) {
    loop {
        parked.notified().await;
        let (mut pause, mut left) = (PAUSE_MIN, true);
        while left {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let Some(app) = app.upgrade().filter(|app| !*app.stopping().borrow()) else { return };
            // One whose try ends through a bug is not parked for ever for that.
            left = tokio::task::spawn_blocking(move || app.standing.try_parked()).await.unwrap_or(true);
        }
    }
}

impl StandingQueries {
    /// Told when an output is parked.
    pub fn parked(&self) -> Arc<Notify> {
        self.parked.clone()
    }

    /// Outputs of a query that was there before a restart.
    pub(super) fn reopen(&self, query: &Arc<Query>, settings: &StandingSettings) -> Result<(), ApiError> {
        let lanes: Vec<_> = settings.outputs.iter().map(|(name, _)| query.add_lane(name)).collect();
        for (lane, (_, definition)) in lanes.iter().zip(&settings.outputs) {
            match self.open_again(query, lane, definition) {
                Ok(opened) => query.start_output(lane, opened)?,
                Err(error) => self.park(query, lane, &format!("the output cannot be opened: {error}")),
            }
        }
        Ok(())
    }

    /// Opens an output where it stood.
    pub(super) fn open_again(&self, query: &Query, lane: &Lane, definition: &Output) -> Result<Opened, ApiError> {
        let link = Link::prepare(definition, Preparing::again(&query.graph, &self.procedures))?;
        self.open_at(query, lane, link, position_of(query, lane))
    }

    fn open_at(&self, query: &Query, lane: &Lane, link: Link, position: Option<Position>) -> Result<Opened, ApiError> {
        let named = Named { query: &query.name, output: &lane.name };
        Opened::open(query.id, named, link, query.graph.ids(), position.as_ref(), &self.runtime)
    }

    pub(super) fn park(&self, query: &Query, lane: &Lane, reason: &str) {
        lane.park(reason);
        let (query, output) = (&query.name, &lane.name);
        tracing::error!(
            query,
            output,
            "{reason}. Its results wait, and it is tried again, until it can or is changed or removed"
        );
        self.parked.notify_one();
    }

    /// Tries each output that is parked. True: some still are.
    fn try_parked(&self) -> bool {
        let queries: Vec<_> = lock(&self.queries).values().cloned().collect();
        let mut parked = Vec::new();
        for query in queries {
            let lanes = query.lanes().into_iter().filter(|lane| lane.may_be_tried());
            parked.extend(lanes.map(|lane| (query.clone(), lane)));
        }
        let left = AtomicUsize::new(0);
        side_by_side("parked", parked, TRIES_MAX, |(query, lane)| {
            let _entered = self.runtime.enter();
            if !self.try_one(&query, &lane) {
                left.fetch_add(1, Ordering::Relaxed);
            }
        });
        left.into_inner() > 0
    }

    /// False where it cannot be opened.
    fn try_one(&self, query: &Arc<Query>, lane: &Arc<Lane>) -> bool {
        let turn = lane.turn();
        let definition = query.settings().outputs.into_iter().find(|(name, _)| *name == lane.name);
        let Some((_, definition)) = definition else { return true };
        let is_wanted = || {
            let is_there = || query.lanes().iter().any(|own| Arc::ptr_eq(own, lane));
            lane.turn() == turn && lane.may_be_tried() && !query.is_ending() && is_there()
        };
        // The world is asked while others may change things. But what is opened at a position cuts off what is behind it: had
        // another output been there meanwhile, that would be results that were delivered.
        let link = Link::prepare(&definition, Preparing::again(&query.graph, &self.procedures));
        let take_turn = || self.turns.of(&query.graph, &query.name, "given back an output");
        // Whoever has it for long is waited for the next time.
        let Ok(alone) = position_of(query, lane).map(|_| take_turn()).transpose() else { return false };
        if !is_wanted() {
            return true;
        }
        let position = alone.as_ref().and_then(|_| position_of(query, lane));
        let opened = link.and_then(|link| self.open_at(query, lane, link, position));
        let Ok(_one) = alone.map_or_else(take_turn, Ok) else { return false };
        if !is_wanted() {
            return true;
        }
        match opened.and_then(|opened| query.start_output(lane, opened)) {
            Ok(()) => {
                tracing::info!(query = query.name, output = lane.name, "the output is open, and gets what has waited");
                true
            }
            Err(error) => {
                lane.park(&format!("the output cannot be opened: {error}"));
                false
            }
        }
    }
}

/// Where the destination of an output stood; none of one that cannot tell.
pub(super) fn position_of(query: &Query, lane: &Lane) -> Option<Position> {
    let delivered = query.installed().delivered(&query.frontier(&lane.name));
    delivered.map(|(_, position)| position).filter(|position| !position.0.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::{Value as Json, json};
    use weir_connectors::destination::Written;
    use weir_connectors::{ConnectorError, Destination, DestinationConfig, DestinationContext, Outgoing, Retries};

    use super::*;
    use crate::standing::tests::a_query;
    use crate::wire::letters::Refusals;
    use crate::wire::standing::DestinationOutput;

    const COUNT: usize = 3;

    /// Is prepared once `COUNT` of them are being prepared at the same time.
    #[derive(Clone, Default)]
    struct Meets(Arc<AtomicUsize>);

    impl DestinationConfig for Meets {
        fn settings(&self) -> Json {
            json!({"type": "Meets"})
        }

        fn check(&self) -> Result<(), ConnectorError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let begun = Instant::now();
            while self.0.load(Ordering::SeqCst) < COUNT {
                if begun.elapsed() > Duration::from_secs(10) {
                    return Err(ConnectorError::config("type", "no other is prepared meanwhile"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Destination for Meets {
        fn write(&mut self, _: &[Outgoing], _: u64) -> Result<Written, ConnectorError> {
            Ok(Written::default())
        }
    }

    /// Each may ask a registry that hangs; those behind them, whose file is back, waited for all of that.
    #[test]
    fn outputs_that_are_parked_are_tried_side_by_side() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, queries, query) = a_query();
        let config = Arc::new(Meets::default());
        for name in ["a", "b", "c"] {
            let output = DestinationOutput { config: config.clone(), refusals: Refusals::GiveUp, retries: Retries::default() };
            lock(&query.settings).outputs.push((name.to_owned(), Output::Destination(output)));
            query.add_lane(name).park("its registry hangs");
        }
        assert_eq!(query.lanes().len(), COUNT);
        assert!(!queries.try_parked(), "{:?}", query.lanes().iter().map(|lane| lane.parked()).collect::<Vec<_>>());
        assert!(query.lanes().iter().all(|lane| lane.running().is_some()));
        queries.shut_down(Instant::now());
    }
}
