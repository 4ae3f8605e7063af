//! Progress: one line on the terminal that says how far something is. Nothing where standard error is no terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::terminal::counted;

const BETWEEN: Duration = Duration::from_millis(100);

const BAR: usize = 30;

pub struct Progress {
    what: &'static str,
    total: Option<u64>,
    began: Instant,
    /// When it was shown last; None where it is not shown at all.
    shown: Option<Instant>,
}

impl Progress {
    /// `total` is about how much there is, where that is known.
    pub fn new(what: &'static str, total: Option<u64>) -> Progress {
        let began = Instant::now();
        let shown = std::io::stderr().is_terminal().then_some(began);
        Progress { what, total: total.filter(|total| *total > 0), began, shown }
    }

    pub fn set(&mut self, done: u64) {
        if let Some(shown) = &mut self.shown
            && shown.elapsed() >= BETWEEN
        {
            *shown = Instant::now();
            let line = line(self.what, done, self.total, self.began.elapsed());
            let _ = write!(std::io::stderr().lock(), "\r{line}\x1b[K");
        }
    }

    /// Leaves an empty line for what is said next.
    pub fn end(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Ends the line also when something went wrong.
impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn line(what: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let done_shown = amount(done as f64);
    let Some(total) = total else { return format!("{done_shown} {what}, {} a second", amount(rate)) };
    format!("{}  {done_shown} {what}, {} a second", bar(done, total), amount(rate))
}

/// How much of it is done, as a picture and in figures.
pub fn bar(done: u64, total: u64) -> String {
    // What there is was estimated, or grows.
    let part = (done as f64 / total.max(1) as f64).min(1.0);
    let full = (part * BAR as f64) as usize;
    format!("{}{} {:3.0} %", "█".repeat(full), "░".repeat(BAR - full), part * 100.0)
}

/// How large something is that was written or read.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..100 => counted(bytes, "byte", "bytes"),
        // More of them would be shown as 1000.0.
        100..999_950 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

pub fn amount(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.1} G", n / 1e9),
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let second = Duration::from_secs(1);
        let half = format!("{}{}", "█".repeat(15), "░".repeat(15));
        assert_eq!(line("bytes", 5_000_000, Some(10_000_000), second), format!("{half}  50 %  5.0 M bytes, 5.0 M a second"));
        assert_eq!(line("nodes", 20, Some(10), second), format!("{} 100 %  20 nodes, 20 a second", "█".repeat(30)));
        assert_eq!(line("bytes", 12_345, None, second), "12 k bytes, 12 k a second");
    }

    #[test]
    fn what_is_small_has_a_size_too() {
        let sizes = [0, 1, 99, 100, 257, 999_949, 999_950, 1_234_567_890].map(size);
        assert_eq!(sizes, ["0 bytes", "1 byte", "99 bytes", "0.1 kB", "0.3 kB", "999.9 kB", "1.0 MB", "1234.6 MB"]);
    }
}
