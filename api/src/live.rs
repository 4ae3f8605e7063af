//! What the live page shows: rates, and the last matches and cancellations, as they happen.
//!
//! Results come by the hundred thousand; a page is read by people. So a few of each moment are shown and all are counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use weir_model::lock::lock;

use crate::app::App;
use crate::clock;
use crate::events::{Broadcast, Event};

/// How often rates are sent.
const INTERVAL: Duration = Duration::from_millis(500);

/// Results shown an interval; the rest are only counted.
const SHOWN_PER_INTERVAL_MAX: u64 = 20;

/// Results a page gets when it is opened.
const RECENT_MAX: usize = 50;

/// Rates a page gets when it is opened: a minute of them.
const HISTORY_MAX: usize = 120;

#[derive(Default)]
pub struct LiveState {
    pub broadcast: Broadcast,
    matches: AtomicU64,
    cancellations: AtomicU64,
    /// Records that did not come through an ingest stream: those of the demonstration.
    pub generated: AtomicU64,
    shown: AtomicU64,
    recent: Mutex<VecDeque<Json>>,
    history: Mutex<VecDeque<Json>>,
    /// What was last sent of the graphs; nothing since a page asked for the state.
    told: Mutex<Option<Vec<Json>>>,
}

impl LiveState {
    /// Counts results, without looking at them.
    pub fn count(&self, matches: u64, cancellations: u64) {
        self.matches.fetch_add(matches, Ordering::Relaxed);
        self.cancellations.fetch_add(cancellations, Ordering::Relaxed);
    }

    /// Whether there is room for one more result on the page in this moment.
    pub fn shows_more(&self) -> bool {
        self.shown.load(Ordering::Relaxed) < SHOWN_PER_INTERVAL_MAX
    }

    /// Shows a result. `data` is JSON.
    pub fn show(&self, query: &str, positive: bool, data: &str) {
        self.shown.fetch_add(1, Ordering::Relaxed);
        let data: Json = serde_json::from_str(data).unwrap_or(Json::Null);
        let shown = json!({"query": query, "positive": positive, "data": data, "at": clock::millis(SystemTime::now())});
        self.broadcast.send(Event { name: "result", id: None, data: shown.to_string() });
        let mut recent = lock(&self.recent);
        recent.push_front(shown);
        recent.truncate(RECENT_MAX);
    }

    fn totals(&self) -> (u64, u64) {
        (self.matches.load(Ordering::Relaxed), self.cancellations.load(Ordering::Relaxed))
    }

    /// What has to be sent of the graphs: nothing where it is what was sent last, and the texts of queries only where those
    /// differ.
    fn news(&self, graphs: Vec<Json>) -> Option<Json> {
        let mut told = lock(&self.told);
        if told.as_ref() == Some(&graphs) {
            return None;
        }
        let known = told.as_ref().is_some_and(|told| queries(told) == queries(&graphs));
        let news = if known { without_texts(graphs.clone()) } else { graphs.clone() };
        *told = Some(graphs);
        Some(Json::Array(news))
    }
}

/// What a page needs to begin with.
pub fn state(app: &App) -> Json {
    let live = &app.live;
    let recent: Vec<Json> = lock(&live.recent).iter().cloned().collect();
    let history: Vec<Json> = lock(&live.history).iter().cloned().collect();
    let graphs = graphs(app);
    // Whoever asks holds another list than the rest: all is sent again.
    *lock(&live.told) = None;
    json!({
        "version": crate::VERSION,
        "store": app.settings.store.label(),
        "recent": recent,
        "history": history,
        "graphs": graphs,
    })
}

/// The streams and standing queries of every graph, briefly.
fn graphs(app: &App) -> Vec<Json> {
    let graphs = app.engine.graphs();
    let described = graphs.iter().filter_map(|name| app.engine.graph(name)).map(|graph| {
        let ingests = app.ingests.list(&graph);
        let ingests: Vec<Json> = ingests
            .iter()
            .map(|stream| {
                json!({
                    "name": stream.name,
                    "status": stream.status().name(),
                    "count": stream.ingested(),
                    "rate": stream.records_per_second(),
                    "failed": stream.failed_records(),
                    "message": stream.told(),
                })
            })
            .collect();
        let standing: Vec<Json> = app
            .standing
            .list(&graph)
            .iter()
            .map(|query| json!({"name": query.name, "query": query.pattern(), "count": query.result_count(), "rate": query.results_per_second()}))
            .collect();
        json!({"name": graph.name(), "ingests": ingests, "standing": standing})
    });
    described.collect()
}

/// The standing queries of graphs: the name of the graph, the name, the text.
fn queries(graphs: &[Json]) -> Vec<[&Json; 3]> {
    graphs
        .iter()
        .flat_map(|graph| standing(graph).iter().map(move |query| [&graph["name"], &query["name"], &query["query"]]))
        .collect()
}

fn standing(graph: &Json) -> &[Json] {
    graph["standing"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The texts of standing queries may be long, and numbers differ twice a second.
fn without_texts(mut graphs: Vec<Json>) -> Vec<Json> {
    let standing = graphs.iter_mut().filter_map(|graph| graph["standing"].as_array_mut()).flatten();
    for query in standing.filter_map(Json::as_object_mut) {
        query.remove("query");
    }
    graphs
}

/// Sends rates to the page until weir stops.
pub async fn tick(app: Arc<App>) {
    let mut stop = app.stopping();
    let mut before = counts(&app);
    let mut timer = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let now = counts(&app);
        let per_second = |index: usize| now[index].saturating_sub(before[index]) as f64 / INTERVAL.as_secs_f64();
        let rates = json!({
            "at": clock::millis(SystemTime::now()),
            "records": per_second(0), "matches": per_second(1), "cancellations": per_second(2),
            "totalRecords": now[0], "totalMatches": now[1], "totalCancellations": now[2],
        });
        before = now;
        app.live.shown.store(0, Ordering::Relaxed);
        {
            let mut history = lock(&app.live.history);
            history.push_back(rates.clone());
            while history.len() > HISTORY_MAX {
                history.pop_front();
            }
        }
        if app.live.broadcast.is_heard() {
            app.live.broadcast.send(Event { name: "rates", id: None, data: rates.to_string() });
            if let Some(news) = app.live.news(graphs(&app)) {
                app.live.broadcast.send(Event { name: "graphs", id: None, data: news.to_string() });
            }
        }
    }
}

/// Records, matches, cancellations.
fn counts(app: &App) -> [u64; 3] {
    let (matches, cancellations) = app.live.totals();
    [app.ingests.records() + app.live.generated.load(Ordering::Relaxed), matches, cancellations]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_sent_where_they_differ_and_texts_where_they_do() {
        let live = LiveState::default();
        let graphs = |count: u64, text: &str| {
            vec![json!({"name": "quine", "ingests": [], "standing": [{"name": "q", "query": text, "count": count, "rate": 0}]})]
        };
        let sent = |graphs| live.news(graphs).map(|news| news[0]["standing"][0].clone());
        let whole = |count: u64, text: &str| Some(json!({"name": "q", "query": text, "count": count, "rate": 0}));
        assert_eq!(sent(graphs(1, "MATCH (n)")), whole(1, "MATCH (n)"));
        assert_eq!(sent(graphs(1, "MATCH (n)")), None);
        assert_eq!(sent(graphs(2, "MATCH (n)")), Some(json!({"name": "q", "count": 2, "rate": 0})));
        assert_eq!(sent(graphs(2, "MATCH (m)")), whole(2, "MATCH (m)"));
        // A page has asked for the state.
        *lock(&live.told) = None;
        assert_eq!(sent(graphs(2, "MATCH (m)")), whole(2, "MATCH (m)"));
    }
}
