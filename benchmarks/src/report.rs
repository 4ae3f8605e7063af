//! Runs as people read them: one table, a row a name, with the spread over the repeats; and where they were made.
//!
//! Every figure in a row is the median of its runs; behind the rate stand the slowest and the fastest.

use std::fmt::{self, Write as _};
use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::measure::Run;
use crate::passes::Settings;

#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    pub commit: String,
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    /// Load of the machine as the runs began: other work on it, mostly.
    pub load: String,
    pub events: u64,
    pub seed: u64,
    pub batch: u64,
}

impl Environment {
    pub fn here(settings: &Settings) -> Environment {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo");
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Environment {
            commit: commit(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor.map_or("unknown".into(), |(_, name)| name.trim().to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split_whitespace().take(2).collect::<Vec<_>>().join(" "),
            events: settings.events,
            seed: settings.seed,
            batch: settings.batch,
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment { commit, cores, processor, kernel, load, events, seed, batch } = self;
        write!(
            f,
            "commit {commit}, {cores} cores of {processor}, Linux {kernel}, load {load}, {events} events, seed {seed}, batch {batch}"
        )
    }
}

/// The commit of the working directory; marked when files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit} with changes"),
        _ => "unknown".into(),
    }
}

/// The runs of one name, in the order of names' first appearance.
pub struct Row<'a> {
    pub name: &'a str,
    pub runs: Vec<&'a Run>,
}

pub fn rows(runs: &[Run]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for run in runs {
        match rows.iter_mut().find(|row| row.name == run.name) {
            Some(row) => row.runs.push(run),
            None => rows.push(Row { name: &run.name, runs: vec![run] }),
        }
    }
    rows
}

impl Row<'_> {
    pub fn rates(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.rate()).collect())
    }

    fn median(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        Spread::of(self.runs.iter().map(|run| figure(run)).collect()).median
    }

    fn memory_per_event(&self) -> Option<f64> {
        let all: Vec<f64> = self.runs.iter().filter_map(|run| run.memory_per_event).collect();
        (!all.is_empty()).then(|| Spread::of(all).median)
    }

    fn latency(&self, figure: impl Fn(&crate::measure::Latency) -> f64) -> String {
        let all: Vec<f64> = self.runs.iter().filter_map(|run| run.latency_us.as_ref().map(&figure)).collect();
        if all.is_empty() { "".into() } else { micros(Spread::of(all).median) }
    }

    /// `found/expected`, of the first run that is wrong if any is.
    fn matches(&self) -> String {
        let shown = self.runs.iter().find(|run| !run.count_is_right()).unwrap_or(&self.runs[0]);
        match (shown.matches, shown.expected) {
            (None, None) => "".into(),
            (found, expected) => {
                let text = |n: Option<u64>| n.map_or("?".into(), |n| n.to_string());
                let verdict = if shown.count_is_right() { "" } else { " WRONG" };
                format!("{}/{}{verdict}", text(found), text(expected))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// Of at least one figure.
    fn of(mut all: Vec<f64>) -> Spread {
        all.sort_by(f64::total_cmp);
        let middle = all.len() / 2;
        let median = if all.len().is_multiple_of(2) { (all[middle - 1] + all[middle]) / 2.0 } else { all[middle] };
        Spread { least: all[0], median, most: all[all.len() - 1] }
    }
}

const HEADINGS: [&str; 13] = [
    "pass",
    "events/s",
    "least–most",
    "events/CPU s",
    "peak MB",
    "B/event in memory",
    "B/event on disk",
    "matches",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
];

/// A table in Markdown, aligned for a terminal as well.
pub fn table(runs: &[Run]) -> String {
    let mut lines: Vec<Vec<String>> = vec![HEADINGS.iter().map(|h| h.to_string()).collect()];
    for row in rows(runs) {
        let rates = row.rates();
        let disk = row.median(|run| run.disk_bytes as f64 / run.events.max(1) as f64);
        lines.push(vec![
            row.name.to_owned(),
            thousands(rates.median),
            format!("{}–{}", thousands(rates.least), thousands(rates.most)),
            thousands(row.median(|run| run.events as f64 / run.cpu_seconds.max(0.01))),
            thousands(row.median(|run| run.peak_rss_bytes as f64 / 1e6)),
            row.memory_per_event().map_or(String::new(), thousands),
            if disk > 0.0 { thousands(disk) } else { "".into() },
            row.matches(),
            row.latency(|l| l.p50),
            row.latency(|l| l.p90),
            row.latency(|l| l.p99),
            row.latency(|l| l.p999),
            row.latency(|l| l.max),
        ]);
    }
    let widths: Vec<usize> = (0..HEADINGS.len()).map(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if i == 0 {
            widths.iter().for_each(|width| text.push_str(&format!("|{}", "-".repeat(width + 2))));
            text.push_str("|\n");
        }
    }
    text
}

/// What each name was told, and where its processor time went, by thread, in the first run.
pub fn settings(runs: &[Run]) -> String {
    let mut text = String::new();
    for row in rows(runs) {
        let run = row.runs[0];
        let micros = |cpu: f64| cpu * 1e6 / run.events.max(1) as f64;
        let threads: Vec<String> = run.threads.iter().map(|(name, cpu)| format!("{name} {:.2}", micros(*cpu))).collect();
        let _ = writeln!(text, "{}: {}", row.name, run.settings);
        if !threads.is_empty() {
            let _ = writeln!(text, "    µs of processor time an event, by thread: {}", threads.join(", "));
        }
    }
    text
}

fn thousands(n: f64) -> String {
    let digits = format!("{:.0}", n);
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn micros(us: f64) -> String {
    match us {
        us if us < 100.0 => format!("{us:.1} µs"),
        us if us < 10_000.0 => format!("{us:.0} µs"),
        us => format!("{:.0} ms", us / 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, seconds: f64, matches: u64) -> Run {
        let text = format!(
            r#"{{"name":"{name}","events":1000000,"seconds":{seconds},"cpu_seconds":2.0,"peak_rss_bytes":5000000,"matches":{matches},"expected":7,
                "latency_us":{{"p50":12.34,"p90":200,"p99":3000,"p999":40000,"max":50000}}}}"#
        );
        serde_json::from_str(&text).expect("a run")
    }

    #[test]
    fn a_row_shows_the_median_and_the_spread() {
        let text = table(&[run("a", 4.0, 7), run("b", 1.0, 7), run("a", 2.0, 7), run("a", 1.0, 7)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for part in ["| a ", "| 500,000 ", "| 250,000–1,000,000 ", "| 7/7 ", "| 12.3 µs ", "| 3000 µs ", "| 40 ms "] {
            assert!(lines[2].contains(part), "{part} not in {text}");
        }
        assert!(lines[3].starts_with("| b "), "{text}");
    }

    #[test]
    fn one_wrong_count_marks_the_row() {
        let text = table(&[run("a", 4.0, 7), run("a", 4.0, 6)]);
        assert!(text.contains("6/7 WRONG"), "{text}");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0.0, 999.0, 1e3, 1234567.0].map(thousands).map(|s| s.leak() as &str));
    }
}
