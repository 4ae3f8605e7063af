//! The query of state: asked again and again, printed when what it says has changed.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cypher_compiler::compile;
use weir_engine::QueryOptions;
use weir_model::visible::visible;
use weir_model::{Text, Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::log::tell;

const STATUS_INTERVAL: Duration = Duration::from_secs(5);
const STATUS_TIME_MAX: Duration = Duration::from_secs(5);
const STATUS_ROWS_MAX: usize = 10;

/// A column's name is cut beyond this many characters.
const STATUS_NAME_MAX: usize = 20;

/// Asks the status query again and again, and prints what it says when that has changed.
pub async fn status(app: Arc<App>, query: String) {
    let mut stop = app.stopping();
    let mut before = String::new();
    loop {
        tokio::select! {
            _ = tokio::time::sleep(STATUS_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let (asked, text) = (app.clone(), query.clone());
        match tokio::task::spawn_blocking(move || ask(&asked, &text)).await {
            Ok(Ok(shown)) if shown != before => {
                tell(told(&shown));
                before = shown;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tell(format_args!("The status query failed and is not asked again: {error}"));
                return;
            }
            Err(_) => return,
        }
    }
}

/// What is said of an answer that is another than before.
fn told(shown: &str) -> &str {
    if shown.is_empty() { "The status query has no result any more" } else { shown }
}

fn ask(app: &App, query: &str) -> Result<String, ApiError> {
    let graph = app.engine.default_graph();
    let plan = compile(query, &app.procedures.options(&graph, Vec::new()))?;
    let columns: Vec<Text> = plan.columns.iter().map(|(name, _)| name.clone()).collect();
    let prepared = graph.prepare(plan);
    let deadline = Instant::now() + STATUS_TIME_MAX;
    let mut shown = String::new();
    let mut rows = 0;
    let options = QueryOptions { deadline: Some(deadline), ..QueryOptions::default() };
    let ended = graph.query(&prepared, &[], options, &mut |row| {
        rows += 1;
        let cells: Vec<(&str, String)> =
            columns.iter().map(Text::as_str).zip(row.iter().map(|value| compact(value, app))).collect();
        shown.push_str(&block(rows, &cells));
        if rows < STATUS_ROWS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match ended {
        Ok(_) => Ok(shown),
        Err(_) if Instant::now() >= deadline => Ok(format!("The status query took longer than {} s", STATUS_TIME_MAX.as_secs())),
        Err(error) => Err(error.into()),
    }
}

fn compact(value: &Value, app: &App) -> String {
    let mut text = Vec::new();
    json::write(value, app.settings.ids, &mut text);
    visible(&String::from_utf8_lossy(&text))
}

/// One row of the answer, as a small table.
fn block(number: usize, cells: &[(&str, String)]) -> String {
    let cut = |name: &str| visible(name).chars().take(STATUS_NAME_MAX).collect::<String>();
    let name_width = cells.iter().map(|(name, _)| cut(name).chars().count()).max().unwrap_or(0);
    let value_width = cells.iter().map(|(_, value)| value.chars().count()).max().unwrap_or(0);
    let width = (name_width + 3 + value_width).clamp(40, 200);
    let mut text = format!("---[ Status Query result {number} ]");
    text.push_str(&"-".repeat(width.saturating_sub(text.chars().count())));
    text.push('\n');
    for (name, value) in cells {
        text.push_str(&format!("{:name_width$} | {value}\n", cut(name)));
    }
    text.push_str(&"-".repeat(name_width + 1));
    text.push('+');
    text.push_str(&"-".repeat(width.saturating_sub(name_width + 2)));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_a_table() {
        let shown = block(1, &[("people", "12".to_owned())]);
        let expected = "---[ Status Query result 1 ]------------\npeople | 12\n-------+--------------------------------\n";
        assert_eq!(shown, expected);
        assert_eq!(told(&shown), expected);
        assert_eq!(told(""), "The status query has no result any more", "an empty line says nothing");
        assert!(block(1, &[("a\n\u{1b}b", "1".to_owned())]).contains("\na\\n\\u001bb | 1\n"));
    }
}
