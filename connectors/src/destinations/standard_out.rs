//! The standard output of the service: one line a result, in v1 in the form of its log, in v2 the result alone.

use std::io::{self, ErrorKind, StdoutLock, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;
use weir_model::temporal::Date;
use weir_model::visible::visible;

use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::status_lines;

/// Prints each result to the standard output of weir, one per line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrintToStandardOut {
    /// Results are printed with any level but `Trace`, which prints nothing.
    #[serde(default)]
    pub log_level: LogLevel,
    /// Whether results may be left out when they come faster than they can be printed. All are printed when not given.
    #[serde(default)]
    pub log_mode: LogMode,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

/// The level that results are printed with. With `Trace` nothing is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum LogLevel {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

/// What happens when results come faster than they can be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum LogMode {
    /// All are printed. A slow terminal holds the results back.
    #[default]
    Complete,
    /// Some are left out.
    FastSampling,
}

impl DestinationConfig for PrintToStandardOut {
    fn settings(&self) -> serde_json::Value {
        crate::settings("PrintToStandardOut", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        Ok(Box::new(Printer {
            output: (context.generation == Generation::V1).then(|| context.output.clone()),
            shown: self.log_level != LogLevel::Trace,
            lossy: self.log_mode == LogMode::FastSampling,
            rest: Vec::new(),
            is_orphan: false,
        }))
    }
}

struct Printer {
    /// What its name is, where the line says it.
    output: Option<String>,
    shown: bool,
    lossy: bool,
    /// What is missing of a line that was begun. It goes out before anything else.
    rest: Vec<u8>,
    /// The result of that line does not come again.
    is_orphan: bool,
}

impl Printer {
    /// Prints what is missing of a line, and the lines of the results. What is out does not come again, not even the beginning
    /// of a line.
    fn print(&mut self, results: &[Outgoing], now: i64, out: &mut impl Write) -> Result<Written, ConnectorError> {
        let mut text = std::mem::take(&mut self.rest);
        let was_begun = !text.is_empty();
        let mut ends = Vec::with_capacity(results.len() + 1);
        if was_begun {
            ends.push(text.len());
        }
        let orphans = usize::from(self.is_orphan);
        for result in results.iter().skip(ends.len() - orphans) {
            write_line(self.output.as_deref(), now, &result.body, &mut text);
            ends.push(text.len());
        }
        let mut done = 0;
        let poured = pour(&text, &mut done, out);
        let whole = ends.partition_point(|end| *end <= done);
        let begin = whole.checked_sub(1).map_or(0, |last| ends[last]);
        if let Some(end) = ends.get(whole).filter(|_| done > begin || was_begun && whole == 0) {
            self.rest = text[done..*end].to_vec();
        }
        self.is_orphan &= whole == 0;
        let Err(error) = poured else { return Ok(Written::default()) };
        let error = ConnectorError::io("standard output", "cannot be written to", error);
        let printed = whole.saturating_sub(orphans);
        if printed == 0 || !error.retryable() {
            return Err(error);
        }
        let left = (printed..results.len()).collect();
        // One stands behind the other: of those that wait nobody was asked but the first.
        let untried = (printed + 1..results.len()).collect();
        Ok(Written { left, left_reason: Some(error.to_string()), untried, ..Written::default() })
    }
}

/// Writes the text from `done` on, which says how much of it is out.
fn pour(text: &[u8], done: &mut usize, out: &mut impl Write) -> io::Result<()> {
    // What others have written stands before it.
    out.flush()?;
    while *done < text.len() {
        match out.write(&text[*done..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Standard output without the buffer before it: what is in there may not get out.
struct Unbuffered<'o>(StdoutLock<'o>);

impl Write for Unbuffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Destination for Printer {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        if !self.shown {
            return Ok(Written::default());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let standard_out = io::stdout();
        status_lines::above(&standard_out, || self.print(results, now, &mut Unbuffered(standard_out.lock())))
    }

    fn gave_up(&mut self, comes_again: &[bool]) {
        self.is_orphan |= !self.rest.is_empty() && comes_again.first() == Some(&false);
    }

    fn lossy(&self) -> bool {
        self.lossy
    }
}

/// The clock shows UTC.
fn write_line(output: Option<&str>, epoch_millis: i64, body: &[u8], out: &mut Vec<u8>) {
    if let Some(output) = output {
        write_heading(output, epoch_millis, out);
    }
    out.extend_from_slice(body);
    out.push(b'\n');
}

fn write_heading(output: &str, epoch_millis: i64, out: &mut Vec<u8>) {
    const DAY: i64 = 86_400_000;
    let (year, month, day) = Date { epoch_day: epoch_millis.div_euclid(DAY) as _ }.civil();
    let millis = epoch_millis.rem_euclid(DAY);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60);
    let time = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{:03}", millis % 1000);
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b" Standing query `");
    // Whoever names an output must not write lines that look like results of another.
    out.extend_from_slice(visible(output).as_bytes());
    out.extend_from_slice(b"` match: ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::bodies;

    /// A disk with room for some bytes.
    #[derive(Default)]
    struct Disk {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            let count = bytes.len().min(self.room);
            self.text.extend_from_slice(&bytes[..count]);
            self.room -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printer(output: Option<&str>) -> Printer {
        Printer { output: output.map(str::to_owned), shown: true, lossy: false, rest: Vec::new(), is_orphan: false }
    }

    #[test]
    fn what_is_out_when_the_disk_is_full_does_not_come_again() {
        let expected = "1\n22\n333\n";
        for first in 0..expected.len() {
            for second in 0..expected.len() - first {
                let (mut printer, mut disk) = (printer(None), Disk::default());
                let mut left = bodies(&["1", "22", "333"]);
                for room in [first, second, expected.len()] {
                    disk.room = room;
                    match printer.print(&left, 0, &mut disk) {
                        Ok(written) => left = written.left.iter().map(|index| left[*index].clone()).collect(),
                        Err(error) => assert!(error.retryable(), "{error}"),
                    }
                }
                let text = String::from_utf8(disk.text).unwrap();
                assert_eq!((text.as_str(), left.len()), (expected, 0), "{first} bytes, then {second}");
            }
        }
    }

    #[test]
    fn a_line_that_was_begun_ends_as_it_began() {
        let (mut printer, mut disk) = (printer(Some("prn")), Disk { room: 22, ..Disk::default() });
        let results = bodies(&["1", "2"]);
        assert!(printer.print(&results, 0, &mut disk).is_err_and(|error| error.retryable()));
        // Its result is tried no more.
        printer.gave_up(&[false, true]);
        for room in [3, 1_000] {
            disk.room = room;
            let _ = printer.print(&results[1..], 86_400_000, &mut disk);
        }
        let (first, second) = ("1970-01-01 00:00:00,000", "1970-01-02 00:00:00,000");
        let expected = format!("{first} Standing query `prn` match: 1\n{second} Standing query `prn` match: 2\n");
        assert_eq!(String::from_utf8(disk.text).unwrap(), expected);
        assert!(!printer.is_orphan && printer.rest.is_empty());
    }

    #[test]
    fn the_line_of_v1_is_that_of_the_log() {
        let mut out = Vec::new();
        write_line(Some("prn"), 1_795_236_243_098, b"{\"data\":{}}", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "2026-11-21 04:44:03,098 Standing query `prn` match: {\"data\":{}}\n");
        let mut out = Vec::new();
        write_line(None, 0, b"{\"data\":{}}", &mut out);
        assert_eq!(out, b"{\"data\":{}}\n", "v2 says nothing around it");
        let mut out = Vec::new();
        write_line(Some("a\n\u{1b}b"), 0, b"1", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "1970-01-01 00:00:00,000 Standing query `a\\n\\u001bb` match: 1\n");
    }
}
