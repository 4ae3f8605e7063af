//! What a server tells of its transactions (`pgoutput`, version 1), and the records of it. Pure: any bytes are an answer or a
//! refusal.

use std::collections::HashMap;

use weir_model::json::write_string;

use super::message::broken;
use super::values;
use crate::fields::Fields;

/// Microseconds from 1970 to 2000, when time begins for PostgreSQL.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A table as the changes that follow know it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub name: String,
    /// Part of what a row is known by.
    pub key: bool,
    /// The number of its type.
    pub kind: u32,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    Begin(Transaction),
    /// What the server may forget when all of the transaction is durable.
    Commit(u64),
    Change(Change),
    /// Several tables were emptied, each a change of its own.
    Truncated(Vec<Change>),
    /// Something that changes no row.
    Other,
}

/// A transaction that was committed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Transaction {
    /// Where its commit stands in the server's log.
    pub lsn: u64,
    /// Microseconds since 1970.
    pub micros: i64,
    pub number: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub operation: &'static str,
    pub table: u32,
    pub row: Option<Vec<Cell>>,
    /// What was there before, and whether that is all of the row or only what it is known by.
    pub before: Option<(Vec<Cell>, bool)>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    Null,
    /// A long value that was not touched: the server does not tell it again.
    Untouched,
    Text(String),
}

/// The tables that were told of on this connection.
#[derive(Default)]
pub struct Tables(HashMap<u32, Table>);

/// For how many tables; more cannot be meant.
const TABLES_MAX: usize = 100_000;

impl Tables {
    /// What one message says.
    pub fn event(&mut self, body: &[u8]) -> Result<Event, String> {
        let mut fields = Fields(body);
        self.read(&mut fields).ok_or_else(broken)
    }

    fn read(&mut self, fields: &mut Fields<'_>) -> Option<Event> {
        Some(match fields.u8()? {
            b'B' => {
                let (lsn, micros, number) = (fields.u64()?, fields.i64()?, fields.u32()?);
                Event::Begin(Transaction { lsn, micros: micros.saturating_add(EPOCH_MICROS), number })
            }
            b'C' => {
                let _flags_and_commit = (fields.u8()?, fields.u64()?);
                Event::Commit(fields.u64()?)
            }
            b'R' => {
                let number = fields.u32()?;
                if self.0.len() >= TABLES_MAX && !self.0.contains_key(&number) {
                    return None;
                }
                self.0.insert(number, table(fields)?);
                Event::Other
            }
            b'I' => {
                let table = fields.u32()?;
                let row = expect(fields, b'N').and_then(cells)?;
                Event::Change(Change { operation: "insert", table, row: Some(row), before: None })
            }
            b'U' => {
                let table = fields.u32()?;
                let before = match fields.0.first()? {
                    b'K' | b'O' => Some(before(fields)?),
                    _ => None,
                };
                let row = expect(fields, b'N').and_then(cells)?;
                Event::Change(Change { operation: "update", table, row: Some(row), before })
            }
            b'D' => {
                let table = fields.u32()?;
                Event::Change(Change { operation: "delete", table, row: None, before: Some(before(fields)?) })
            }
            b'T' => {
                let (count, _options) = (fields.u32()?, fields.u8()?);
                let numbers = (0..count).map(|_| fields.u32()).collect::<Option<Vec<_>>>()?;
                let change = |table| Change { operation: "truncate", table, row: None, before: None };
                Event::Truncated(numbers.into_iter().map(change).collect())
            }
            // Names of types, where a transaction comes from, words of applications.
            b'Y' | b'O' | b'M' => Event::Other,
            _ => return None,
        })
    }

    /// A change as a record.
    pub fn record(&self, change: &Change, transaction: &Transaction) -> Result<Vec<u8>, String> {
        let table = self.0.get(&change.table).ok_or_else(broken)?;
        let mut out = head(change.operation, table);
        let old = change.before.as_ref();
        if let Some(row) = &change.row {
            out.extend_from_slice(b",\"row\":");
            put_row(table, row, old.filter(|(_, whole)| *whole).map(|(cells, _)| cells.as_slice()), |_| true, &mut out)?;
        }
        if let Some((cells, whole)) = old {
            out.extend_from_slice(b",\"before\":");
            put_row(table, cells, None, |column| *whole || column.key, &mut out)?;
        }
        let Transaction { lsn, micros, number } = transaction;
        out.extend_from_slice(
            format!(",\"lsn\":\"{}\",\"committed\":\"{}\",\"transaction\":{number}}}", shown(*lsn), time(*micros)).as_bytes(),
        );
        Ok(out)
    }
}

/// A row that was there when the stream began, as a record.
pub fn present(table: &Table, row: &[Cell]) -> Result<Vec<u8>, String> {
    let mut out = head("snapshot", table);
    out.extend_from_slice(b",\"row\":");
    put_row(table, row, None, |_| true, &mut out)?;
    out.push(b'}');
    Ok(out)
}

/// A position in the server's log, as it is written everywhere.
pub fn shown(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff)
}

fn head(operation: &str, table: &Table) -> Vec<u8> {
    let mut out = format!("{{\"operation\":\"{operation}\",\"schema\":").into_bytes();
    write_string(&table.schema, &mut out);
    out.extend_from_slice(b",\"table\":");
    write_string(&table.name, &mut out);
    out
}

/// A long value that was not touched is taken from the old row, where the server tells that, and left out otherwise.
fn put_row(
    table: &Table,
    row: &[Cell],
    old: Option<&[Cell]>,
    wanted: impl Fn(&Column) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if row.len() != table.columns.len() {
        return Err(broken());
    }
    out.push(b'{');
    let mut first = true;
    for (index, (column, cell)) in table.columns.iter().zip(row).enumerate() {
        let cell = match cell {
            Cell::Untouched => old.and_then(|old| old.get(index)).unwrap_or(cell),
            other => other,
        };
        if *cell == Cell::Untouched || !wanted(column) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write_string(&column.name, out);
        out.push(b':');
        match cell {
            Cell::Text(text) => values::put(column.kind, text, out),
            _ => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    Ok(())
}

fn expect<'f, 'b>(fields: &'f mut Fields<'b>, kind: u8) -> Option<&'f mut Fields<'b>> {
    (fields.u8()? == kind).then_some(fields)
}

fn table(fields: &mut Fields<'_>) -> Option<Table> {
    let schema = fields.text()?;
    // That of the system has no name here.
    let schema = if schema.is_empty() { "pg_catalog".to_owned() } else { schema };
    let (name, _identity) = (fields.text()?, fields.u8()?);
    let count = fields.u16()?;
    let column = |_| {
        let (flags, name, kind, _modifier) = (fields.u8()?, fields.text()?, fields.u32()?, fields.u32()?);
        Some(Column { name, key: flags & 1 == 1, kind })
    };
    let columns = (0..count).map(column).collect::<Option<Vec<_>>>()?;
    Some(Table { schema, name, columns })
}

fn before(fields: &mut Fields<'_>) -> Option<(Vec<Cell>, bool)> {
    let whole = match fields.u8()? {
        b'O' => true,
        b'K' => false,
        _ => return None,
    };
    Some((cells(fields)?, whole))
}

fn cells(fields: &mut Fields<'_>) -> Option<Vec<Cell>> {
    let count = fields.u16()?;
    let cell = |_| {
        Some(match fields.u8()? {
            b'n' => Cell::Null,
            b'u' => Cell::Untouched,
            b't' => {
                let length = fields.u32()? as usize;
                Cell::Text(String::from_utf8_lossy(fields.bytes(length)?).into_owned())
            }
            _ => return None,
        })
    };
    (0..count).map(cell).collect()
}

/// Microseconds since 1970, as ISO 8601 has them.
fn time(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The day and the month of a year that begins with March, so that the day that is sometimes there is the last one.
    let day = days + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [b"t".as_slice(), &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
    }

    fn told() -> Tables {
        let mut tables = Tables::default();
        let columns = b"\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff";
        let relation = [b"R\0\0\0\x05public\0people\0d\0\x02".as_slice(), columns].concat();
        assert_eq!(tables.event(&relation), Ok(Event::Other));
        tables
    }

    fn shown(tables: &mut Tables, body: &[u8]) -> Json {
        let transaction = Transaction { lsn: 0x1_0000_00ff, micros: 1_795_394_462_000_001, number: 7 };
        let Ok(Event::Change(change)) = tables.event(body) else { panic!("{body:?} is no change") };
        serde_json::from_slice(&tables.record(&change, &transaction).unwrap()).unwrap()
    }

    #[test]
    fn changes_become_records() {
        let mut tables = told();
        let row = [b"N\0\x02".as_slice(), &text("1"), &text("Ä")].concat();
        let record = shown(&mut tables, &[b"I\0\0\0\x05".as_slice(), &row].concat());
        let expected = json!({"operation": "insert", "schema": "public", "table": "people", "row": {"id": 1, "name": "Ä"},
            "lsn": "1/FF", "committed": "2026-11-23T00:41:02.000001Z", "transaction": 7});
        assert_eq!(record, expected);
        // A long value that was not touched is not told, but in the old row.
        let untouched = [b"N\0\x02".as_slice(), &text("1"), b"u"].concat();
        assert_eq!(shown(&mut tables, &[b"U\0\0\0\x05".as_slice(), &untouched].concat())["row"], json!({"id": 1}));
        let old = [b"O\0\x02".as_slice(), &text("1"), &text("long")].concat();
        let record = shown(&mut tables, &[b"U\0\0\0\x05".as_slice(), &old, &untouched].concat());
        assert_eq!((&record["row"], &record["before"]), (&json!({"id": 1, "name": "long"}), &json!({"id": 1, "name": "long"})));
        let key = [b"K\0\x02".as_slice(), &text("1"), b"n"].concat();
        let record = shown(&mut tables, &[b"D\0\0\0\x05".as_slice(), &key].concat());
        assert_eq!((record["operation"].as_str(), &record["before"]), (Some("delete"), &json!({"id": 1})));
        assert!(record.get("row").is_none());
        let Ok(Event::Truncated(changes)) = tables.event(b"T\0\0\0\x02\0\0\0\0\x05\0\0\0\x05") else { panic!("two tables") };
        assert_eq!(changes.len(), 2);
        let Ok(Event::Begin(begun)) = tables.event(&[b"B".as_slice(), &[0; 20]].concat()) else { panic!("a beginning") };
        assert_eq!(time(begun.micros), "2000-01-01T00:00:00.000000Z");
        assert_eq!(tables.event(&[b"C".as_slice(), &[0; 16]].concat()), Err(broken()));
        assert_eq!(tables.event(&[b"C".as_slice(), &[0; 16], b"\x01"].concat()), Ok(Event::Commit(1)));
    }

    #[test]
    fn any_bytes_are_an_answer_or_a_refusal() {
        let mut random = crate::decode::tests::Random::new(28);
        let row = [b"U\0\0\0\x05O\0\x02".as_slice(), &text("1"), b"uN\0\x02", &text("22"), b"n"].concat();
        for round in 0..20_000 {
            let mut tables = told();
            let mut bytes = row.clone();
            bytes.truncate(1 + random.below(bytes.len()));
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = b"\0\x01\x05\xffBCRIUDTYOMKNtu"[random.below(18)];
            }
            if let Ok(Event::Change(change)) = tables.event(&bytes)
                && let Ok(record) = tables.record(&change, &Transaction::default())
            {
                let record: Json = serde_json::from_slice(&record).unwrap_or_else(|error| panic!("round {round}: {error}"));
                assert!(record["operation"].is_string());
            }
        }
    }
}
