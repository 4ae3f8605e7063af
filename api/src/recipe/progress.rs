//! How far the streams and queries of a recipe are: one line a stream when it ends; on a terminal, the state of all of them every
//! second, with rates, and with a bar where it is known how much there is.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use weir_connectors::status_lines;
use weir_model::visible::visible;

use crate::app::App;
use crate::ingest::Stream;
use crate::log::tell;
use crate::standing::Query;
use crate::terminal::Terminal;
use crate::transfer::progress::{amount, bar};

/// A stream that is looked at.
pub struct Watched {
    stream: Arc<Stream>,
    total: Option<Total>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Total {
    Records(u64),
    Bytes(u64),
}

impl Watched {
    /// `definition` is that of the stream, in the notation of v1.
    pub fn new(stream: Arc<Stream>, definition: &Json) -> Watched {
        Watched { stream, total: Total::of(definition) }
    }

    fn line(&self) -> String {
        let (stream, name) = (&self.stream, visible(&self.stream.name));
        format!("{name} status is {} and ingested {}", stream.status().name().to_lowercase(), stream.ingested())
    }

    fn drawn(&self) -> String {
        let bar = match self.total {
            None => String::new(),
            Some(Total::Records(total)) => format!("{} ", bar(self.stream.ingested(), total)),
            Some(Total::Bytes(total)) => format!("{} ", bar(self.stream.ingested_bytes(), total)),
        };
        format!("{bar}{}, {} a second", self.line(), amount(self.stream.records_per_second()))
    }
}

impl Total {
    /// Its limit, or the size of the file that is read from its beginning, unless that grows or is packed.
    fn of(definition: &Json) -> Option<Total> {
        if let Some(limit) = definition["ingestLimit"].as_u64() {
            return Some(Total::Records(limit));
        }
        let whole = ["startAtOffset", "fileIngestMode"].iter().all(|key| matches!(&definition[*key], Json::Null))
            && definition["recordDecoders"].as_array().is_none_or(Vec::is_empty);
        let path = definition["path"].as_str().filter(|_| whole && definition["type"] == "FileIngest")?;
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(Total::Bytes(metadata.len()))
    }
}

/// Tells how far the streams and queries are, until weir stops or there is nothing more to tell.
pub async fn watch(app: Arc<App>, mut streams: Vec<Watched>, queries: Vec<Arc<Query>>) {
    let mut stop = app.stopping();
    let mut timer = tokio::time::interval(Duration::from_secs(1));
    let terminal = std::io::stderr().is_terminal();
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            _ = stop.wait_for(|stop| *stop) => {
                status_lines::leave();
                return;
            }
        }
        let ended: Vec<String> =
            streams.extract_if(.., |watched| watched.stream.status().is_terminal()).map(|watched| watched.line()).collect();
        if terminal {
            let of_query = |query: &Arc<Query>| {
                let (name, per_second) = (visible(&query.name), amount(query.results_per_second()));
                format!("{name} count {}, {per_second} a second", query.result_count())
            };
            let all = streams.iter().map(Watched::drawn).chain(queries.iter().map(of_query));
            let text: String = ended.into_iter().map(|line| line + "\n").collect();
            status_lines::draw(&text, fitting(all.collect(), Terminal::of_error()));
        } else {
            ended.iter().for_each(tell);
        }
        if streams.is_empty() && !terminal {
            return;
        }
    }
}

/// The lines as they are drawn, as many as the terminal has beside the one that the cursor is in.
fn fitting(mut lines: Vec<String>, terminal: Terminal) -> String {
    let width = terminal.width.unwrap_or(usize::MAX);
    let room = terminal.height.map_or(usize::MAX, |height| height.saturating_sub(1));
    if lines.len() > room {
        let shown = room.saturating_sub(1);
        let more = format!("… and {} more", lines.len() - shown);
        lines.truncate(shown);
        lines.extend((room > 0).then_some(more));
    }
    // A line that wraps would be two.
    let cut = |line: String| format!(" | => {line}").chars().take(width).chain(['\n']).collect::<String>();
    lines.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn how_much_there_is() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"12345").expect("write");
        let with = |more: Json| {
            let mut definition = json!({"type": "FileIngest", "path": file.path()});
            more.as_object().into_iter().flatten().for_each(|(key, value)| definition[key] = value.clone());
            Total::of(&definition)
        };
        assert_eq!(with(json!({})), Some(Total::Bytes(5)));
        assert_eq!(with(json!({"ingestLimit": 2})), Some(Total::Records(2)));
        assert_eq!(with(json!({"recordDecoders": ["Gzip"]})), None);
        assert_eq!(with(json!({"startAtOffset": 3})), None);
        assert_eq!(Total::of(&json!({"type": "KafkaIngest"})), None);
    }

    /// What goes above the first line of a terminal cannot be erased, and stayed in what scrolls back, each second anew.
    #[test]
    fn lines_are_cut_to_the_terminal() {
        let drawn = |width: Option<usize>, height: Option<usize>| {
            let lines = ["one", "two", "three"].map(str::to_owned).to_vec();
            fitting(lines, Terminal { width, height, ..Terminal::default() })
        };
        let all = " | => one\n | => two\n | => three\n";
        assert_eq!(drawn(None, None), all);
        assert_eq!(drawn(Some(80), Some(4)), all);
        assert_eq!(drawn(Some(80), Some(3)), " | => one\n | => … and 2 more\n");
        assert_eq!(drawn(Some(8), Some(3)), " | => on\n | => … \n");
        assert_eq!(drawn(Some(80), Some(2)), " | => … and 3 more\n");
        assert_eq!(drawn(Some(80), Some(1)), "");
    }
}
