//! The rates of a comparison as bars in an SVG: the median as the bar, the spread as a line across its end.

use std::fmt::Write;

use crate::measure::Run;
use crate::report::{Environment, rows};

const WIDTH: f64 = 860.0;
const NAMES: f64 = 120.0;
/// Room for the figure behind the longest bar.
const FIGURES: f64 = 110.0;
const ROW: f64 = 30.0;

pub fn svg(environment: &Environment, runs: &[Run]) -> String {
    let rows = rows(runs);
    let most = rows.iter().map(|row| row.rates().most).fold(1.0, f64::max);
    let x = |rate: f64| NAMES + rate / most * (WIDTH - NAMES - FIGURES);
    let height = ROW * (rows.len() as f64 + 2.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"8\" y=\"20\" font-weight=\"bold\">events a second</text>\n"
    );
    for (i, row) in rows.iter().enumerate() {
        let rates = row.rates();
        let top = ROW * (i as f64 + 1.0) + 4.0;
        let (middle, bottom) = (top + 10.0, top + 14.5);
        let fill = if row.runs.iter().all(|run| run.count_is_right()) { "#3b6ea5" } else { "#c0392b" };
        let (start, end) = (x(rates.least), x(rates.most));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<text x=\"8\" y=\"{bottom}\">{}</text><rect x=\"{NAMES}\" y=\"{top}\" width=\"{:.1}\" height=\"20\" fill=\"{fill}\"/>\
             <path d=\"M{start:.1} {middle}H{end:.1}\" stroke=\"black\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{bottom}\">{:.0}</text>",
            escape(row.name),
            x(rates.median) - NAMES,
            end + 6.0,
            rates.median,
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"8\" y=\"{}\" font-size=\"10\">{}</text>\n</svg>",
        height - 10.0,
        escape(&environment.to_string())
    );
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_bar_of_its_length() {
        let environment = Environment {
            commit: "<none>".into(),
            cores: 2,
            processor: String::new(),
            kernel: String::new(),
            load: String::new(),
            events: 1,
            seed: 1,
            batch: 1,
        };
        let run = |name: &str, seconds: f64| -> Run {
            let text = format!(r#"{{"name":"{name}","events":100,"seconds":{seconds},"cpu_seconds":1,"peak_rss_bytes":1}}"#);
            serde_json::from_str(&text).expect("a run")
        };
        let text = svg(&environment, &[run("fast", 1.0), run("half", 2.0)]);
        assert_eq!(text.matches("<rect x=").count(), 2, "{text}");
        assert!(text.contains("width=\"630.0\"") && text.contains("width=\"315.0\""), "{text}");
        assert!(text.contains("commit &lt;none&gt;"), "{text}");
    }
}
