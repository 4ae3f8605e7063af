//! What one more edge costs at a node of very many.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::store::InMemory;
use weir_engine::{Engine, StandingQuery, Start};
use weir_model::random::STEP;
use weir_model::{Mutations, NodeId, Symbol, Value};

use crate::data::mix;
use crate::measure::{Clock, Durations, Latency, Run};
use crate::passes::Settings;
use crate::weir;

/// Changes of each kind that are timed.
const CHANGES: u64 = 300;

fn node(n: u64) -> NodeId {
    NodeId::new(mix(n), n)
}

/// A node with `--events` edges that come in gets one more, of either direction, and the chain of four that may run through it
/// has no match by it. Each change comes with a match elsewhere, and is timed until that is received.
pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut star = Star::new(settings)?;
    star.grow(settings.events)?;
    star.watch()?;
    let clock = Clock::start()?;
    let nothing = star.time(CHANGES, |_, _| ())?;
    let filename = star.filename;
    let coming = star.time(CHANGES, |star, other| {
        star.mutations.set_property(other, filename, &Value::text(PROGRAM));
        star.mutations.set_edge(other, star.parent, HUB, 0, true);
    })?;
    let leaving = star.time(CHANGES, Star::leave)?;
    let mut run = clock.stop("hub", 3 * CHANGES)?;
    run.latency_us = coming.latency();
    run.settings = format!(
        "an edge to a node of {} edges, until the match of another change made with it is received, in memory, {} workers; an edge from it: {}; \
         that other change alone: {}",
        settings.events,
        settings.workers,
        shown(&leaving),
        shown(&nothing)
    );
    star.finish(run)
}

/// How often an edge leaves the node that grows.
const LEAVING: u64 = 100;

/// A node that grows to `--events` edges that come in: now and then an edge leaves it, and is timed.
pub fn growing(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut star = Star::new(settings)?;
    star.watch()?;
    let clock = Clock::start()?;
    let mut leaving = Durations::new();
    for part in 1..=LEAVING {
        star.grow(settings.events * part / LEAVING)?;
        // Its match comes when those of what the node has grown by are known.
        star.time(1, |_, _| ())?;
        leaving.add(&star.time(1, Star::leave)?);
    }
    let mut run = clock.stop("hub-growing", settings.events)?;
    run.latency_us = leaving.latency();
    run.settings = format!(
        "an edge from a node that grows to {} edges, {} a batch, {LEAVING} times, until the match of another change made with it is received, in \
         memory, {} workers",
        settings.events, settings.batch, settings.workers
    );
    star.finish(run)
}

fn shown(durations: &Durations) -> String {
    let of = |l: Latency| format!("p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms", l.p50 / 1e3, l.p99 / 1e3, l.max / 1e3);
    durations.latency().map_or(String::new(), of)
}

const HUB: NodeId = NodeId::new(STEP, 0);
const PROGRAM: &str = "/usr/bin/prog";

/// A graph with one node that edges come in at.
struct Star {
    engine: Engine,
    settings: Settings,
    filename: Symbol,
    parent: Symbol,
    /// The last node there is.
    last: u64,
    edges: u64,
    query: Option<StandingQuery>,
    /// The mutations of the change that is made.
    mutations: Mutations,
    changes: u64,
    matches: u64,
}

impl Star {
    fn new(settings: &Settings) -> Result<Star, Box<dyn Error>> {
        let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
        let symbol = |name: &str| engine.default_graph().symbols().intern(name);
        let (parent, filename) = (symbol("parent"), symbol("filename"));
        let settings = settings.clone();
        let (query, mutations) = (None, Mutations::default());
        Ok(Star { engine, settings, filename, parent, last: 0, edges: 0, query, mutations, changes: 0, matches: 0 })
    }

    fn fresh(&mut self) -> NodeId {
        self.last += 1;
        node(self.last)
    }

    /// Lets the node grow to this many edges.
    fn grow(&mut self, edges: u64) -> Result<(), Box<dyn Error>> {
        let graph = self.engine.default_graph();
        while self.edges < edges {
            let mut mutations = Mutations::default();
            for _ in 0..self.settings.batch.min(edges - self.edges) {
                let other = self.fresh();
                mutations.set_property(other, self.filename, &Value::text(PROGRAM));
                mutations.set_edge(other, self.parent, HUB, 0, true);
                self.edges += 1;
            }
            graph.apply(mutations, 1)?;
        }
        Ok(graph.wait_visible()?)
    }

    fn watch(&mut self) -> Result<(), Box<dyn Error>> {
        let query = weir::install_chain(&self.engine.default_graph(), self.settings.mode, Start::Now)?;
        while query.backfill().is_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.query = Some(query);
        Ok(())
    }

    fn leave(&mut self, other: NodeId) {
        self.mutations.set_edge(HUB, self.parent, other, 0, true);
    }

    /// Times a change that is made several times, each with a node that is new.
    fn time(&mut self, times: u64, change: impl Fn(&mut Star, NodeId)) -> Result<Durations, Box<dyn Error>> {
        let graph = self.engine.default_graph();
        let mut durations = Durations::new();
        for _ in 0..times {
            let other = self.fresh();
            change(self, other);
            let mut mutations = std::mem::take(&mut self.mutations);
            let chain = [(); 4].map(|()| self.fresh());
            mutations.start_record(1);
            mutations.set_property(chain[0], self.filename, &Value::text(PROGRAM));
            chain.windows(2).for_each(|pair| mutations.set_edge(pair[0], self.parent, pair[1], 0, true));
            let begun = Instant::now();
            graph.apply(mutations, 2)?;
            let query = self.query.as_ref().ok_or("nobody watches")?;
            let found = loop {
                let batch = query.next(Duration::from_secs(60))?.ok_or("no result within a minute")?;
                if !batch.rows.is_empty() {
                    break batch.rows.len() as u64;
                }
            };
            durations.record(begun.elapsed());
            self.matches += found;
            self.changes += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(durations)
    }

    fn finish(self, mut run: Run) -> Result<Run, Box<dyn Error>> {
        self.engine.shutdown()?;
        run.matches = Some(self.matches);
        run.expected = Some(self.changes);
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn a_hub_gives_no_matches_of_its_own() {
        for pass in [run, growing] {
            let run = pass(&test_settings("hub", 9_000)).expect("it runs");
            assert!(run.count_is_right(), "{run:?}");
        }
    }
}
