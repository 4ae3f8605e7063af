//! One run of one pass: how long, how much processor time and memory, and whether the count was right.
//!
//! The figures are those of the whole process, read from the kernel at the end; that is why a run has a process to itself.
//! A Run travels as one line of JSON from that process to the one that compares.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub name: String,
    pub events: u64,
    pub seconds: f64,
    /// Of this process, from `Clock::start` on, over all threads.
    pub cpu_seconds: f64,
    pub peak_rss_bytes: u64,
    #[serde(default)]
    pub disk_bytes: u64,
    /// What the process holds at the end beyond what it held at the beginning, by events, where that means anything.
    #[serde(default)]
    pub memory_per_event: Option<f64>,
    /// Processor time of the threads that live at the end, by name, and of those that have ended.
    #[serde(default)]
    pub threads: Vec<(String, f64)>,
    /// Matches found, where the pass looks for any.
    #[serde(default)]
    pub matches: Option<u64>,
    #[serde(default)]
    pub expected: Option<u64>,
    /// What the pass was told, for people.
    #[serde(default)]
    pub settings: String,
    #[serde(default)]
    pub latency_us: Option<Latency>,
}

impl Run {
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    /// A rate with a wrong count is no result.
    pub fn count_is_right(&self) -> bool {
        self.matches == self.expected
    }
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Durations as they come; percentiles at the end. Holds three digits of everything from a nanosecond to a minute.
pub struct Durations(Histogram<u64>);

const DURATION_MAX: u64 = 60_000_000_000;

impl Durations {
    #[expect(clippy::new_without_default, reason = "nothing is made of it by default")]
    pub fn new() -> Durations {
        Durations(Histogram::new_with_bounds(1, DURATION_MAX, 3).expect("the bounds are valid"))
    }

    pub fn record(&mut self, duration: Duration) {
        self.0.saturating_record((duration.as_nanos() as u64).clamp(1, DURATION_MAX));
    }

    pub fn add(&mut self, other: &Durations) {
        // Both have the same bounds, so nothing falls outside.
        self.0 += &other.0;
    }

    /// None before anything was recorded.
    pub fn latency(&self) -> Option<Latency> {
        if self.0.is_empty() {
            return None;
        }
        let at = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        Some(Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: self.0.max() as f64 / 1_000.0 })
    }
}

/// Runs from the moment the work begins: what was made before (data, dataflows) is not counted, except in memory.
pub struct Clock {
    started: Instant,
    cpu_before: f64,
    threads_before: BTreeMap<String, f64>,
}

impl Clock {
    pub fn start() -> io::Result<Clock> {
        Ok(Clock { cpu_before: cpu_seconds()?, threads_before: thread_seconds()?, started: Instant::now() })
    }

    pub fn stop(self, name: &str, events: u64) -> io::Result<Run> {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds()? - self.cpu_before;
        let mut threads: Vec<(String, f64)> = Vec::new();
        for (name, cpu) in thread_seconds()? {
            let before = self.threads_before.get(&name).copied().unwrap_or(0.0);
            threads.push((name, cpu - before));
        }
        threads.push(("ended".into(), cpu_seconds - threads.iter().map(|(_, cpu)| cpu).sum::<f64>()));
        // What is less than the resolution says nothing.
        threads.retain(|(_, cpu)| *cpu > 0.015);
        Ok(Run {
            name: name.to_owned(),
            events,
            seconds,
            cpu_seconds,
            peak_rss_bytes: memory("VmHWM:")?,
            disk_bytes: 0,
            memory_per_event: None,
            threads,
            matches: None,
            expected: None,
            settings: String::new(),
            latency_us: None,
        })
    }
}

fn cpu_seconds() -> io::Result<f64> {
    Ok(name_and_cpu("/proc/self/stat")?.1)
}

/// Processor time of all threads that live, those of one name together; a number at the end of a name does not count.
fn thread_seconds() -> io::Result<BTreeMap<String, f64>> {
    let mut threads = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        // A thread may end while it is looked at.
        let Ok((name, cpu)) = name_and_cpu(task?.path().join("stat")) else { continue };
        *threads.entry(name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()).or_default() += cpu;
    }
    Ok(threads)
}

/// The kernel reports user and system time in hundredths of a second (USER_HZ, the same on every Linux).
fn name_and_cpu(path: impl AsRef<Path>) -> io::Result<(String, f64)> {
    let stat = fs::read_to_string(path)?;
    let unknown = || io::Error::other("/proc/self/stat has an unknown form");
    // The second field is the name in brackets and may hold spaces; count from the closing one.
    let (head, tail) = stat.rsplit_once(')').ok_or_else(unknown)?;
    let name = head.split_once('(').ok_or_else(unknown)?.1;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).ok_or_else(unknown);
    Ok((name.to_owned(), (ticks(11)? + ticks(12)?) / 100.0))
}

/// What the process holds in memory now.
pub fn resident_bytes() -> io::Result<u64> {
    memory("VmRSS:")
}

fn memory(field: &str) -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.map(|n| n * 1_024).ok_or_else(|| io::Error::other(format!("/proc/self/status has no {field}")))
}

/// Bytes of all files in and under a directory.
pub fn bytes_on_disk(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bytes += bytes_on_disk(&entry.path())?;
        } else if kind.is_file() {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut durations = Durations::new();
        assert!(durations.latency().is_none());
        for micros in 1..=1_000 {
            durations.record(Duration::from_micros(micros));
        }
        let latency = durations.latency().expect("something was recorded");
        for (found, wanted) in [(latency.p50, 500.0), (latency.p90, 900.0), (latency.p99, 990.0), (latency.max, 1_000.0)] {
            assert!((found - wanted).abs() <= wanted * 0.002, "{found} for {wanted}");
        }
    }

    #[test]
    fn processor_time_and_memory_are_those_of_this_process() {
        let clock = Clock::start().expect("/proc");
        let block = vec![1u8; 64 << 20];
        let mut n = block.len() as u64;
        // On a busy machine others may have the processor for so long.
        let before = cpu_seconds().expect("/proc");
        while clock.started.elapsed() < Duration::from_millis(100) || cpu_seconds().expect("/proc") <= before {
            n = std::hint::black_box(n.wrapping_mul(3));
        }
        let run = clock.stop("spin", 1).expect("/proc");
        assert!(run.cpu_seconds > 0.0, "{run:?}");
        assert!(run.peak_rss_bytes >= std::hint::black_box(&block).len() as u64, "{run:?}");
    }

    #[test]
    fn a_run_survives_the_way_between_processes() {
        let text = r#"{"name":"drasi","events":10,"seconds":2.0,"cpu_seconds":1.5,"peak_rss_bytes":7,"matches":3,"expected":3}"#;
        let run: Run = serde_json::from_str(text).expect("missing fields have defaults");
        assert!(run.count_is_right());
        assert_eq!(run.rate(), 5.0);
    }
}
