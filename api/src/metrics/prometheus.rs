//! The figures in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_connectors::DeliveryCounters;
use weir_engine::{Histogram, Stage};

use super::timer::Timer;
use super::{GraphFigures, Process, closed_valves, graphs, memory_bytes_total, store_bytes};
use crate::app::App;
use crate::ingest::Status;
use crate::outputs::{Figures, State};
use crate::traces;

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Bounds of buckets, in seconds; each is one of the bounds at which the engine's histograms are exact.
const LATENCY_BOUNDS: &[(&str, Duration)] = &[
    ("0.0001", micros(100)),
    ("0.0005", micros(500)),
    ("0.001", micros(1_000)),
    ("0.0025", micros(2_500)),
    ("0.005", micros(5_000)),
    ("0.01", micros(10_000)),
    ("0.025", micros(25_000)),
    ("0.05", micros(50_000)),
    ("0.1", micros(100_000)),
    ("0.25", micros(250_000)),
    ("0.5", micros(500_000)),
    ("1", micros(1_000_000)),
    ("5", micros(5_000_000)),
    ("10", micros(10_000_000)),
    ("60", micros(60_000_000)),
];

/// A family of samples is written in one go, as the format wants it.
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The samples of one histogram.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let count = histogram.count();
        for (text, bound) in LATENCY_BOUNDS {
            // Read one after another while others count on: what is within a bound is never more than all.
            let within = histogram.within(*bound).min(count);
            self.sample(&format!("{name}_bucket"), &[labels, &[("le", *text)]].concat(), within as f64);
        }
        self.sample(&format!("{name}_bucket"), &[labels, &[("le", "+Inf")]].concat(), count as f64);
        self.sample(&format!("{name}_sum"), labels, histogram.seconds());
        self.sample(&format!("{name}_count"), labels, count as f64);
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

pub fn text(app: &App) -> String {
    let mut page = Page { text: String::with_capacity(4096) };
    page.family("weir_build_info", "gauge", "The version that runs.");
    page.sample("weir_build_info", &[("version", crate::VERSION), ("store", app.settings.store.label())], 1.0);
    page.one("weir_ready", "gauge", "1 when requests may be sent here.", flag(app.not_ready().is_none()));
    let failed = app.engine.log_failure().is_some();
    page.one("weir_log_failed", "gauge", "1 when a write failed: nothing more is written or read.", flag(failed));
    page.family("weir_namespace_damaged", "gauge", "1 for a namespace that cannot be read.");
    for (name, _) in app.engine.damaged() {
        page.sample("weir_namespace_damaged", &[("namespace", name.as_str())], 1.0);
    }
    page.family("weir_namespace_neglected", "gauge", "1 for what fails that threads do for a namespace; they try again.");
    for (name, neglected) in app.neglected() {
        for task in neglected.into_keys() {
            page.sample("weir_namespace_neglected", &[("namespace", name.as_str()), ("task", task)], 1.0);
        }
    }
    of_streams(app, &mut page);
    of_queries(app, &mut page);
    let running = app.queries.register.list().len() as f64;
    page.one("weir_queries_running", "gauge", "Ad-hoc queries that run now.", running);
    if let Some(bytes) = store_bytes(app) {
        page.one("weir_store_bytes", "gauge", "Bytes of the files of the store.", bytes as f64);
    }
    let mut each = |name: &str, help: &str, value: &dyn Fn(&Timer) -> f64| {
        page.family(name, "counter", help);
        for (operation, timer) in app.store_timers.all() {
            page.sample(name, &[("operation", operation)], value(timer));
        }
    };
    each("weir_store_operations_total", "What the store was asked for.", &|timer| timer.count() as f64);
    each("weir_store_seconds_total", "How long the store took for it.", &Timer::seconds);
    if let Some((sent, dropped)) = traces::counts() {
        page.one("weir_traces_sent_total", "counter", "Spans that the collector of traces took.", sent as f64);
        page.one("weir_traces_dropped_total", "counter", "Spans that it did not take, or that came too fast.", dropped as f64);
    }
    page.one("weir_memory_total_bytes", "gauge", "Memory of the machine.", memory_bytes_total() as f64);
    if let Some(memory) = weir_engine::memory::figures() {
        page.one("weir_memory_limit_bytes", "gauge", "What the process may have of memory.", memory.limit_bytes as f64);
        page.one("weir_memory_file_bytes", "gauge", "Pieces of the graph that may leave memory.", memory.file_bytes as f64);
        page.one("weir_memory_tight", "gauge", "1 while ingest is slowed because memory is short.", flag(memory.tight));
    }
    let process = Process::read();
    page.one("process_resident_memory_bytes", "gauge", "Resident memory.", process.resident_bytes as f64);
    page.one("process_virtual_memory_bytes", "gauge", "Virtual memory.", process.virtual_bytes as f64);
    page.one("process_cpu_seconds_total", "counter", "Processor time of user and system.", process.cpu_seconds);
    page.one("process_open_fds", "gauge", "Open files and sockets.", process.open_files as f64);
    page.one("process_threads", "gauge", "Threads.", process.threads as f64);
    page.one("process_start_time_seconds", "gauge", "When the process began, since the Unix epoch.", process.start_seconds);
    page.text
}

fn of_streams(app: &App, page: &mut Page) {
    let graphs = graphs(app);
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&crate::ingest::Stream) -> f64| {
        page.family(name, kind, help);
        for graph in &graphs {
            for stream in &graph.streams {
                page.sample(name, &[("namespace", &graph.name), ("ingest", &stream.name)], value(stream));
            }
        }
    };
    each("weir_ingest_records_total", "counter", "Records taken in.", &|stream| stream.ingested() as f64);
    each("weir_ingest_bytes_total", "counter", "Bytes of these records.", &|stream| stream.ingested_bytes() as f64);
    each("weir_ingest_failed_records_total", "counter", "Records that had no effect.", &|stream| stream.failed_records() as f64);
    each("weir_ingest_running", "gauge", "1 while the stream runs.", &|stream| flag(stream.status() == Status::Running));
    each("weir_ingest_failed", "gauge", "1 when the stream has failed.", &|stream| flag(stream.status() == Status::Failed));
    let name = "weir_ingest_lag_records";
    page.family(name, "gauge", "Records of its source that the stream has not read yet, where that is known.");
    for graph in &graphs {
        for (stream, lag) in graph.streams.iter().filter_map(|stream| Some((stream, stream.lag()?))) {
            page.sample(name, &[("namespace", &graph.name), ("ingest", &stream.name)], lag as f64);
        }
    }
    page.one("weir_namespaces", "gauge", "Graphs.", graphs.len() as f64);
}

fn of_queries(app: &App, page: &mut Page) {
    let graphs = graphs(app);
    of_results(&graphs, page);
    of_latency(&graphs, page);
    of_outputs(&graphs, page);
    let closed = closed_valves(&graphs) as f64;
    page.one("weir_ingest_valves_closed", "gauge", "Standing queries that ingest waits for.", closed);
}

fn of_results(graphs: &[GraphFigures], page: &mut Page) {
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&crate::standing::Query) -> f64| {
        page.family(name, kind, help);
        for graph in graphs {
            for query in &graph.queries {
                page.sample(name, &[("namespace", &graph.name), ("query", &query.name)], value(query));
            }
        }
    };
    each("weir_standing_results_total", "counter", "Results found, cancellations included.", &|query| {
        query.result_count() as f64
    });
    each("weir_standing_cancellations_total", "counter", "Cancellations among them.", &|query| query.cancellation_count() as f64);
    each("weir_standing_waiting", "gauge", "Results that wait for the outputs.", &|query| query.waiting() as f64);
    each(
        "weir_standing_behind_changes",
        "gauge",
        "Changes of rows that wait for the query, which takes longer than they come.",
        &|query| query.installed().behind().map_or(0, |(_, changes)| changes) as f64,
    );
    each("weir_standing_behind_seconds", "gauge", "How old the first change is that waits for the query.", &|query| {
        query.behind().map_or(0.0, |behind| behind.by.as_secs_f64())
    });
    each(
        "weir_standing_left_out_total",
        "counter",
        "How often a row was left out, because something of it has no value or is too much to work out.",
        &|query| query.installed().left_out().map_or(0, |left_out| left_out.rows) as f64,
    );
    each("weir_standing_failed", "gauge", "1 where the query has ended by itself because it cost too much.", &|query| {
        flag(query.installed().failure().is_some())
    });
}

fn of_latency(graphs: &[GraphFigures], page: &mut Page) {
    let name = "weir_standing_latency_seconds";
    page.family(name, "histogram", "How long results took, by stage; of queries that had any.");
    for graph in graphs {
        for query in &graph.queries {
            let installed = query.installed();
            for stage in Stage::ALL {
                let histogram = installed.latency().of(stage);
                if histogram.count() > 0 {
                    let labels = [("namespace", graph.name.as_str()), ("query", &query.name), ("stage", stage.name())];
                    page.histogram(name, &labels, histogram);
                }
            }
        }
    }
}

fn of_outputs(graphs: &[GraphFigures], page: &mut Page) {
    let outputs: Vec<_> = graphs
        .iter()
        .flat_map(|graph| graph.queries.iter().map(move |query| (graph.name.as_str(), query)))
        .flat_map(|(graph, query)| query.figures().into_iter().map(move |(figures, holds)| (graph, &query.name, figures, holds)))
        .collect();
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Figures, bool) -> f64| {
        page.family(name, kind, help);
        for (graph, query, figures, holds) in &outputs {
            let labels = [("namespace", *graph), ("query", query.as_str()), ("output", &figures.name)];
            page.sample(name, &labels, value(figures, *holds));
        }
    };
    type Count = fn(&DeliveryCounters) -> u64;
    let counts: [(&str, &str, Count); 5] = [
        ("weir_output_delivered_total", "Results delivered.", |counters| counters.delivered.load(Ordering::Relaxed)),
        ("weir_output_failed_total", "Results given up.", |counters| counters.failed.load(Ordering::Relaxed)),
        ("weir_output_dead_letters_total", "Results that went to dead letters.", |c| c.dead_letters.load(Ordering::Relaxed)),
        ("weir_output_retries_total", "Tries beyond the first.", |counters| counters.retries.load(Ordering::Relaxed)),
        ("weir_output_dropped_total", "Results left out because they came too fast.", |c| c.dropped.load(Ordering::Relaxed)),
    ];
    for (name, help, read) in counts {
        each(name, "counter", help, &|figures, _| figures.count(read) as f64);
    }
    let name = "weir_output_loops_total";
    each(name, "counter", "Results for which it would have written in a loop, and did not.", &|figures, _| figures.loops as f64);
    each("weir_output_waiting", "gauge", "Results that are not delivered yet.", &|figures, _| figures.waiting as f64);
    each("weir_output_lag_seconds", "gauge", "How long ago the oldest of these was found.", &|figures, _| {
        figures.lag().as_secs_f64()
    });
    each("weir_output_retrying", "gauge", "1 while what failed is tried again.", &|figures, _| {
        flag(figures.state == State::Retrying)
    });
    each("weir_output_ended", "gauge", "1 when it has ended by itself or could not be opened.", &|figures, _| {
        flag(matches!(figures.state, State::Failed | State::Parked))
    });
    each("weir_output_holds_ingest", "gauge", "1 while ingest waits for it.", &|_, holds| flag(holds));
}
