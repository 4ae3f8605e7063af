//! The standard output of the service: one line a result, in v1 in the form of its log, in v2 the result alone.

use std::io::Write;
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
            text: Vec::new(),
        }))
    }
}

struct Printer {
    /// What its name is, where the line says it.
    output: Option<String>,
    shown: bool,
    lossy: bool,
    text: Vec<u8>,
}

impl Destination for Printer {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        if self.shown {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
            self.text.clear();
            for result in results {
                write_line(self.output.as_deref(), now, &result.body, &mut self.text);
            }
            let printed = status_lines::above(&std::io::stdout(), || {
                let mut out = std::io::stdout().lock();
                out.write_all(&self.text).and_then(|()| out.flush())
            });
            printed.map_err(|error| ConnectorError::io("standard output", "cannot be written to", error))?;
        }
        Ok(Written::default())
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
