//! InfluxDB, by its line protocol: the database is made once, then one request a report.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use weir_connectors::http;

use super::{InfluxSettings, each};
use crate::clock;
use crate::error::chain;

/// How long each request may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// What all lines say of where they come from; there is one member.
const MEMBER: &str = "member_id=0";

pub struct Influx {
    http: http::Client,
    settings: InfluxSettings,
    has_database: bool,
}

impl Influx {
    pub fn new(settings: InfluxSettings) -> Result<Influx, String> {
        let http = http::patient_client().map_err(|error| chain(&error))?;
        Ok(Influx { http, settings, has_database: false })
    }

    pub async fn write(&mut self, figures: &Json) -> Result<(), String> {
        let database = &self.settings.database;
        if !self.has_database {
            let query = format!("CREATE DATABASE \"{}\"", database.replace('\\', "\\\\").replace('"', "\\\""));
            self.post("query", &[("q", query.as_str())], String::new()).await?;
            self.has_database = true;
        }
        self.post("write", &[("db", database.as_str()), ("precision", "ms")], lines(figures, clock::millis(SystemTime::now())))
            .await
    }

    async fn post(&self, path: &str, parameters: &[(&str, &str)], body: String) -> Result<(), String> {
        let mut url = format!("{}/{path}", self.settings.url);
        for (index, (name, value)) in parameters.iter().enumerate() {
            let _ = write!(url, "{}{name}={}", if index == 0 { '?' } else { '&' }, encoded(value));
        }
        let mut request = self.http.post(url).timeout(TIME_MAX).body(body);
        if let Some((user, password)) = &self.settings.user {
            request = request.basic_auth(user, Some(password));
        }
        // The address is not told: it may hold what is secret.
        let answer = request.send().await.map_err(|error| chain(&error.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("InfluxDB answered {status} to {path}")) }
    }
}

fn lines(figures: &Json, millis: u64) -> String {
    let mut text = String::new();
    for (_, name, fields) in each(figures) {
        let fields: Vec<String> = fields
            .iter()
            .filter_map(|(field, value)| {
                let number = value.as_f64().filter(|number| number.is_finite())?;
                // Counters are integers, which are marked so.
                let mark = if value.is_u64() || value.is_i64() { "i" } else { "" };
                Some(if mark.is_empty() {
                    format!("{}={number}", escaped(field))
                } else {
                    format!("{}={value}i", escaped(field))
                })
            })
            .collect();
        if !fields.is_empty() {
            let _ = writeln!(text, "{},{MEMBER} {} {millis}", escaped(name), fields.join(","));
        }
    }
    text
}

/// A name in a line: what separates is marked, and lines stay lines.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            ',' | ' ' | '=' | '\\' => out.extend(['\\', c]),
            '\n' | '\r' => out.push('_'),
            other => out.push(other),
        }
    }
    out
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => out.push(byte as char),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_as_lines() {
        let figures = json!({
            "counters": [{"name": "ingest.my stream,x\n.count", "count": 7}],
            "gauges": [{"name": "memory.heap.used", "value": 1.5}],
            "timers": [{"name": "t", "90": 2.0, "min": 0.5}],
        });
        assert_eq!(
            lines(&figures, 12),
            "ingest.my\\ stream\\,x_.count,member_id=0 count=7i 12\nmemory.heap.used,member_id=0 value=1.5 12\n\
             t,member_id=0 90=2,min=0.5 12\n"
        );
        assert_eq!(encoded("CREATE \"a\""), "CREATE%20%22a%22");
    }
}
