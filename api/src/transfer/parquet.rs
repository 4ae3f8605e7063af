//! Parquet: a graph as a table, for tools that read columns, and back. One row for each node and each edge, with the fields of
//! the lines:
//!
//!     type | id | created | labels | start | label | end | ordinal | properties.{a column for each key} | other
//!
//! A property has the type that most of its values have; what does not fit into a column, a date or a list say, is in `other`, a
//! map in the exact form of `weir_model::json::exact`. `created` has values in the graph model `open-cypher` alone. Read back,
//! rows are lines.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use weir_connectors::decode::{RawDecoder, decode};
use weir_connectors::parquet::{Cell, ColumnKind, Field, ParquetReader, TableWriter};
use weir_connectors::{Frames, Limits, Progress, Source};
use weir_engine::transfer::Item;
use weir_engine::{Graph, GraphOptions};
use weir_model::json::{write_exact, write_exact_map, write_string};
use weir_model::{IdScheme, Map, Text, Tick, Value};

use super::{EachPart, Format, Moved, PORTION_BYTES, Portion, lines, must_be_importable};
use crate::error::chain;

/// In the footer.
const FORMAT: &str = "1";
const MODEL: &str = "weir.model";

/// Keys with a column of their own: the most frequent.
const COLUMNS_MAX: usize = 512;

const KINDS: [ColumnKind; 5] = [ColumnKind::Boolean, ColumnKind::Integer, ColumnKind::Float, ColumnKind::Text, ColumnKind::Bytes];

const FIXED: [(&str, ColumnKind); 8] = [
    ("type", ColumnKind::Text),
    ("id", ColumnKind::Text),
    ("created", ColumnKind::Boolean),
    ("labels", ColumnKind::Texts),
    ("start", ColumnKind::Text),
    ("label", ColumnKind::Text),
    ("end", ColumnKind::Text),
    ("ordinal", ColumnKind::Integer),
];
const TYPE: usize = 0;
const ID: usize = 1;
const CREATED: usize = 2;
const LABELS: usize = 3;
const START: usize = 4;
const LABEL: usize = 5;
const END: usize = 6;
const ORDINAL: usize = 7;

/// Reads the graph twice: for its columns, and for its rows. What comes between the two has no column, and is in `other`.
pub fn write(graph: &Graph, at: Option<Tick>, part: EachPart<'_>) -> Result<Moved, String> {
    let columns = Columns::of(graph, at)?;
    let mut fields: Vec<Field> = FIXED.map(|(name, kind)| Field::Column(name.into(), kind)).into();
    if !columns.kinds.is_empty() {
        fields.push(Field::Group("properties".into(), columns.kinds.clone()));
    }
    fields.push(Field::Column("other".into(), ColumnKind::Json));
    let model = GraphOptions { open_cypher: graph.open_cypher() };
    let mut table = TableWriter::new(&fields, &[("weir.format", FORMAT), (MODEL, model.name())])?;
    let (mut moved, mut failed) = (Moved::default(), None);
    let exported = graph.export(at, &mut |item| {
        moved.count(&item);
        columns.fill(&item, graph, &mut table);
        let ended = must_be_importable(&item, Format::Parquet, graph.ids()).and_then(|()| table.end_row());
        failed = match ended {
            Ok(None) => None,
            Ok(Some(bytes)) => part(&bytes, moved).err(),
            Err(reason) => Some(reason),
        };
        failed.is_none()
    });
    exported.map_err(|error| chain(&error))?;
    failed.map_or(Ok(()), Err)?;
    part(&table.finish()?, moved)?;
    Ok(moved)
}

/// Where the properties go.
struct Columns {
    kinds: Vec<(Text, ColumnKind)>,
    places: HashMap<Text, usize>,
}

impl Columns {
    fn of(graph: &Graph, at: Option<Tick>) -> Result<Columns, String> {
        let mut counts: HashMap<Text, [u64; KINDS.len()]> = HashMap::default();
        let counted = graph.export(at, &mut |item| {
            for (key, value) in properties(&item).iter() {
                if let Some((kind, _)) = cell(value) {
                    match counts.get_mut(key) {
                        Some(counts) => counts[kind] += 1,
                        None => counts.entry(key.clone()).or_default()[kind] += 1,
                    }
                }
            }
            true
        });
        counted.map_err(|error| chain(&error))?;
        let mut found: Vec<(u64, Text, usize)> = Vec::new();
        for (key, counts) in counts {
            let most = (0..KINDS.len()).max_by_key(|kind| counts[*kind]).unwrap_or_default();
            found.push((counts[most], key, most));
        }
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        // Many readers do not tell upper from lower case.
        let mut taken = HashSet::new();
        found.retain(|(_, key, _)| !key.is_empty() && taken.insert(key.to_lowercase()));
        found.truncate(COLUMNS_MAX);
        found.sort_by(|a, b| a.1.cmp(&b.1));
        let kinds: Vec<(Text, ColumnKind)> = found.into_iter().map(|(_, key, kind)| (key, KINDS[kind])).collect();
        let places = kinds.iter().enumerate().map(|(place, (key, _))| (key.clone(), FIXED.len() + place)).collect();
        Ok(Columns { kinds, places })
    }

    fn fill(&self, item: &Item, graph: &Graph, table: &mut TableWriter) {
        let ids = graph.ids();
        match item {
            Item::Node(node) => {
                table.set(TYPE, Cell::Bytes(b"node"));
                table.set(ID, Cell::Bytes(ids.text(node.id).as_bytes()));
                if graph.open_cypher() {
                    table.set(CREATED, Cell::Boolean(node.created));
                }
                table.set(LABELS, Cell::Texts(&node.labels));
            }
            Item::Edge(edge) => {
                table.set(TYPE, Cell::Bytes(b"relationship"));
                table.set(START, Cell::Bytes(ids.text(edge.source).as_bytes()));
                table.set(LABEL, Cell::Bytes(edge.kind.as_bytes()));
                table.set(END, Cell::Bytes(ids.text(edge.target).as_bytes()));
                table.set(ORDINAL, Cell::Integer(edge.ordinal.into()));
            }
        }
        let mut other = Map::default();
        for (key, value) in properties(item).iter() {
            let place = self.places.get(key);
            match (place, cell(value)) {
                (Some(place), Some((kind, cell))) if self.kinds[place - FIXED.len()].1 == KINDS[kind] => table.set(*place, cell),
                _ => other.insert(key.clone(), value.clone()),
            }
        }
        if !other.is_empty() {
            let mut text = Vec::new();
            write_exact_map(&other, &mut text);
            table.set(FIXED.len() + self.kinds.len(), Cell::Bytes(&text));
        }
    }
}

fn properties(item: &Item) -> &Map {
    match item {
        Item::Node(node) => &node.properties,
        Item::Edge(edge) => &edge.properties,
    }
}

/// A value that fits into a column, and the place of its kind among the kinds.
fn cell(value: &Value) -> Option<(usize, Cell<'_>)> {
    Some(match value {
        Value::Boolean(value) => (0, Cell::Boolean(*value)),
        Value::Integer(value) => (1, Cell::Integer(*value)),
        Value::Float(value) => (2, Cell::Float(*value)),
        Value::Text(value) => (3, Cell::Bytes(value.as_bytes())),
        Value::Bytes(value) => (4, Cell::Bytes(value)),
        _ => return None,
    })
}

/// The rows of a file as portions of lines: row n is line n. Where its footer says which graph model it is of, or the first nodes
/// do because another tool wrote the footer, a portion before them says so, too: nothing is to be taken in by a graph of another
/// one.
pub struct Rows {
    reader: ParquetReader,
    place: String,
    model: Option<GraphOptions>,
    frames: Frames,
    next: u64,
    /// The rows behind the portion that says the model.
    waiting: Option<Portion>,
    ended: bool,
}

impl Rows {
    pub fn open(file: &Path) -> Result<Rows, String> {
        let place = file.display().to_string();
        let reader = ParquetReader::open(file, &place, None, None).map_err(|error| chain(&error))?;
        let unknown = |name| format!("{place}: it is of the graph model '{name}': it was written by a newer weir");
        let named = |name| GraphOptions::named(name).ok_or_else(|| unknown(name));
        let model = reader.about(MODEL).map(named).transpose()?;
        Ok(Rows { reader, place, model, frames: Frames::default(), next: 1, waiting: None, ended: false })
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.reader.row_count()
    }

    fn portion(&mut self) -> Result<Portion, String> {
        let mut portion = Portion { lines: Vec::new(), first: self.next, done: 0 };
        let (mut rows, mut failures, mut shown) = (Vec::new(), Vec::new(), None);
        while portion.lines.len() < PORTION_BYTES && !self.ended {
            self.frames.clear();
            let progress = self.reader.next(&Limits::default(), &mut self.frames).map_err(|error| chain(&error))?;
            self.ended = progress == Progress::Finished;
            rows.clear();
            decode(&RawDecoder, &self.frames, &mut rows, &mut failures);
            if let Some(failure) = failures.first() {
                return Err(format!("{}: {}", self.place, failure.reason));
            }
            self.next += rows.len() as u64;
            for row in &rows {
                shown = shown.max(is_of_open_cypher(row));
                write_line(row, &mut portion.lines);
            }
        }
        portion.done = self.next - 1;
        let model = self.model.or(shown.map(|open_cypher| GraphOptions { open_cypher }));
        if let (1, Some(model)) = (portion.first, model) {
            let mut head = Portion { lines: Vec::new(), first: 1, done: 0 };
            lines::write_head(model, &mut head.lines);
            self.waiting = Some(portion);
            return Ok(head);
        }
        Ok(portion)
    }
}

impl Iterator for Rows {
    type Item = Result<Portion, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(portion) = self.waiting.take() {
            return Some(Ok(portion));
        }
        (!self.ended).then(|| self.portion().inspect_err(|_| self.ended = true))
    }
}

/// Whether a row is of that graph model. None is nothing: tables of other tools need not have the column.
fn is_of_open_cypher(row: &Value) -> Option<bool> {
    let Value::Map(row) = row else { return None };
    if !matches!(row.get("type"), Some(Value::Text(kind)) if kind == "node") {
        return None;
    }
    match row.get("created")? {
        Value::Null => Some(false),
        Value::Boolean(_) => Some(true),
        _ => None,
    }
}

/// A row as `lines` reads it: what is not there is left out.
fn write_line(row: &Value, out: &mut Vec<u8>) {
    let Value::Map(row) = row else { return };
    for (place, (key, value)) in row.iter().filter(|(_, value)| !value.is_null()).enumerate() {
        out.push(if place == 0 { b'{' } else { b',' });
        write_string(key, out);
        out.push(b':');
        match value {
            Value::Map(map) if *key == "properties" => {
                write_exact_map(&map.iter().filter(|(_, value)| !value.is_null()).cloned().collect(), out);
            }
            // It has the exact form already.
            Value::Map(_) => weir_model::json::write(value, IdScheme::default(), out),
            other => write_exact(other, out),
        }
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use weir_model::json::parse;

    use super::super::lines::{Line, read_line};
    use super::*;

    #[test]
    fn a_row_is_a_line() {
        let row = parse(
            br#"{"type":"node","id":"00000000-0000-0001-0000-000000000002","created":null,"labels":["A","B"],"start":null,
                "properties":{"n":1,"none":null,"$odd":"x"},"other":{"n2":{"$float":"2"},"list":[1,{"$date":[3]}]}}"#,
        );
        let mut line = Vec::new();
        let row = row.unwrap();
        assert_eq!(is_of_open_cypher(&row), Some(false));
        write_line(&row, &mut line);
        let Some(Line::Item(Item::Node(node))) = read_line(&line, IdScheme::default()).unwrap() else { panic!("{line:?}") };
        assert_eq!(node.labels, ["A", "B"]);
        let mut text = Vec::new();
        write_exact_map(&node.properties, &mut text);
        let expected = r#"{"n":1,"$odd":"x","n2":{"$float":"2"},"list":[1,{"$date":[3]}]}"#;
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
}
