//! Deliveries under way, as spans of traces: from results being handed to an output to its destination having them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use weir_model::Tick;
use weir_model::lock::lock;

use super::Named;
use crate::traces::{self, Kind, Span};

/// What is handed over beyond that while nothing is delivered is not told.
const UNDER_WAY_MAX: usize = 1024;

pub struct Spans {
    query: String,
    output: String,
    namespace: String,
    under_way: Mutex<VecDeque<(Tick, Span)>>,
}

impl Spans {
    pub fn new(named: Named<'_>, namespace: &str) -> Spans {
        let [query, output, namespace] = [named.query, named.output, namespace].map(str::to_owned);
        Spans { query, output, namespace, under_way: Mutex::default() }
    }

    /// Results before the tick are handed over.
    pub fn begin(&self, upper: Tick, results: usize) {
        let Some(mut span) = traces::begin(Kind::Producer, || format!("deliver {}", self.output)) else { return };
        span.set("weir.namespace", self.namespace.as_str());
        span.set("weir.standing_query", self.query.as_str());
        span.set("weir.output", self.output.as_str());
        span.set("weir.results", results as u64);
        let mut under_way = self.lock();
        if under_way.len() < UNDER_WAY_MAX {
            under_way.push_back((upper, span));
        } else {
            drop(under_way);
            span.forget();
        }
    }

    /// Everything before the tick is delivered.
    pub fn end(&self, upper: Tick) {
        let mut under_way = self.lock();
        while under_way.pop_front_if(|(of, _)| *of <= upper).is_some() {}
    }

    /// What is not delivered will not be, not by this output.
    pub fn give_up(&self) {
        for (_, mut span) in self.lock().drain(..) {
            span.fail("not delivered by the output when it ended");
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Tick, Span)>> {
        lock(&self.under_way)
    }
}
