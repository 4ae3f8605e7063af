//! The definition of a stream of changes from PostgreSQL, and what reads it.
//!
//!     slot ─ START_REPLICATION ─> transactions, in the order of their commits ─> changes ─> Feed ─> graph
//!
//! The position is the place of a commit in the server's log with the number of changes of it that were taken, so that each
//! change has its effect once, also when weir is killed in the middle of a transaction. The server keeps what comes after the
//! slot's place, which moves as changes become durable here; what comes again from there and has been taken is passed over.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, PostgresAccess, is_name};
use super::changes::{Cell, Change, Column, Event, Table, Tables, Transaction, present};
use super::connection::{Connection, Failed, literal, name, row};
use super::message::{self, Said, broken};
use super::unacknowledged::Unacknowledged;
use crate::config;
use crate::ends::{ANSWER_TIME_MAX, Refused};
use crate::error::ConnectorError;
use crate::feed::{Inlet, Reads};
use crate::fields::Fields;
use crate::formats::StreamFormat;
use crate::keeper::Keeper;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// A server that has said nothing for this long is gone: it is asked for a sign of life every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A slot is made when the transactions that run at that moment have ended.
const SLOT_TIME_MAX: Duration = Duration::from_secs(60);

/// Between two rows of a table that is read as a whole.
const ROW_TIME_MAX: Duration = Duration::from_secs(300);

/// SQLSTATE of what is not there.
const UNDEFINED_OBJECT: &str = "42704";

/// The tables of publications, with what each is and the columns that changes may have. Before version 18 changes have no
/// generated columns, whatever the view says; since then the view is right. Before version 12 there are none.
const TABLES: &str = "SELECT to_jsonb(t) || jsonb_build_object('relkind', c.relkind, \
    'columns', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute a \
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
    AND (current_setting('server_version_num')::int >= 180000 OR coalesce(to_jsonb(a) ->> 'attgenerated', '') = ''))) \
    FROM pg_catalog.pg_publication_tables t \
    JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname \
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename";

/// Reads changes of PostgreSQL tables by logical replication.
///
/// Each change has its effect once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresIngest {
    /// How a change is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: PostgresAccess,
    /// The publication that selects tables and kinds of changes. It must exist.
    pub publication: String,
    /// The replication slot, by which the server keeps what was not read yet. Each stream needs its own. Drop the slot when you
    /// delete the stream for good: otherwise the server keeps its log for ever.
    pub slot: String,
    /// Whether the replication slot is created if it does not exist. True when not given.
    #[serde(default = "yes")]
    pub create_slot: bool,
    /// Whether the stream begins with all rows that the tables have. When false, the default, it begins with the first change
    /// after the slot was created.
    #[serde(default)]
    pub snapshot: bool,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "one", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most changes to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl SourceConfig for PostgresIngest {
    fn settings(&self) -> Json {
        crate::settings("PostgresIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &[], self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if !is_name(&self.publication) {
            return Err(ConnectorError::config("publication", "is no name: 1 to 63 bytes"));
        }
        if !is_name(&self.slot)
            || !self.slot.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        {
            return Err(ConnectorError::config(
                "slot",
                "is no name of a slot: 1 to 63 lower-case letters, digits and underscores",
            ));
        }
        self.access.check(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        Stood::read(position).map(|stood| stood.shown())
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("slot {} of {}", self.slot, login.place);
        let stood = match from.filter(|position| !position.0.is_empty()) {
            None => None,
            Some(position) => Some(Stood::read(&position.0).ok_or_else(|| ConnectorError::Position {
                place: place.clone(),
                problem: "the stored position is not one of this kind of source".to_owned(),
            })?),
        };
        let position = stood.as_ref().map(|stood| stood.position(0)).unwrap_or_default();
        let keeper = Arc::new(Keeper::default());
        let reader = Reader { login, definition: self.clone(), stood, keeper: keeper.clone(), last: 0 };
        Ok(Box::new(keeper.feed(&context.runtime, &place, position, reader)))
    }
}

/// Where the source stands.
#[derive(Clone, PartialEq, Debug, Default)]
struct Stood {
    /// Whether rows that were there at the beginning are not all read.
    beginning: bool,
    /// The number the server has given itself: another one counts otherwise.
    system: u64,
    /// The place of the last commit, and how many changes of it have been taken.
    lsn: u64,
    index: u64,
}

impl Stood {
    /// Behind the number of the record, which counts in this life alone, and which is what a feed acknowledges by.
    fn position(&self, number: u64) -> Vec<u8> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.push(self.beginning.into());
        for part in [self.system, self.lsn, self.index] {
            bytes.extend_from_slice(&part.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Stood> {
        let (_number, rest) = bytes.split_first_chunk::<8>()?;
        let (beginning, rest) = rest.split_first()?;
        let (parts, left) = rest.as_chunks::<8>();
        let [system, lsn, index] = parts else { return None };
        let stood = Stood {
            beginning: *beginning == 1,
            system: u64::from_le_bytes(*system),
            lsn: u64::from_le_bytes(*lsn),
            index: u64::from_le_bytes(*index),
        };
        (*beginning <= 1 && left.is_empty()).then_some(stood)
    }

    /// As the server writes places in its log.
    fn shown(&self) -> Json {
        let lsn = format!("{:X}/{:X}", self.lsn >> 32, self.lsn & u64::from(u32::MAX));
        let mut shown = json!({"lsn": lsn, "changes": self.index});
        if self.beginning {
            shown["beginning"] = true.into();
        }
        shown
    }

    fn is_behind(&self, lsn: u64, index: u64) -> bool {
        (self.lsn, self.index) < (lsn, index)
    }
}

struct Reader {
    login: Login,
    definition: PostgresIngest,
    /// None before anything is known.
    stood: Option<Stood>,
    keeper: Arc<Keeper<Unacknowledged>>,
    /// The number of the last record.
    last: u64,
}

impl Reads for Reader {
    async fn connection(&mut self, inlet: &Inlet) -> Result<Infallible, Refused> {
        let mut connection = self.login.connect(true).await?;
        let system = self.system(&mut connection).await?;
        self.publication(&mut connection).await?;
        let has_slot = self.has_slot(&mut connection).await?;
        let mut stood = self.stood.clone().unwrap_or(Stood { beginning: self.definition.snapshot, system, lsn: 0, index: 0 });
        let mut exported = None;
        if !has_slot {
            let slot = &self.definition.slot;
            // Until the rows are all read, a slot can be made once more: what has been read comes again then, and with it what
            // has changed.
            if self.stood.is_some() && !stood.beginning {
                let hint = "what has changed since is lost; delete this ingest stream and create it anew, with another snapshot if need be";
                return Err(Refused::Position(format!("there is no slot {slot} any more: {hint}")));
            }
            if !self.definition.create_slot {
                return Err(Refused::Passing(format!("there is no slot {slot}; make it, or let weir do so with createSlot")));
            }
            exported = Some(self.make_slot(&mut connection).await?);
        }
        if stood.beginning {
            self.rows(&stood, exported.as_deref(), inlet).await?;
            stood.beginning = false;
        }
        if self.stood.as_ref() != Some(&stood) {
            inlet.stands(stood.position(self.last)).await;
            self.stood = Some(stood.clone());
        }
        self.changes(connection, stood, inlet).await
    }
}

impl Reader {
    async fn system(&self, connection: &mut Connection) -> Result<u64, Refused> {
        let rows = connection.query("IDENTIFY_SYSTEM", ANSWER_TIME_MAX).await?;
        let number = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok()).ok_or_else(broken)?;
        match &self.stood {
            Some(stood) if stood.system != number => Err(Refused::Position(
                "another server of PostgreSQL is there than the one that was read; delete this ingest stream and create it anew"
                    .to_owned(),
            )),
            _ => Ok(number),
        }
    }

    /// One that comes later than the slot would never be seen by it.
    async fn publication(&self, connection: &mut Connection) -> Result<(), Refused> {
        let publication = &self.definition.publication;
        let sql = format!("SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = {}", literal(publication));
        if connection.query(&sql, ANSWER_TIME_MAX).await?.is_empty() {
            let hint = format!("CREATE PUBLICATION {} FOR TABLE …", name(publication));
            return Err(Refused::Passing(format!("there is no publication {publication}; make it with {hint}")));
        }
        Ok(())
    }

    /// Whether there is the slot.
    async fn has_slot(&self, connection: &mut Connection) -> Result<bool, Refused> {
        let slot = &self.definition.slot;
        let sql = format!("SELECT to_jsonb(s) FROM pg_catalog.pg_replication_slots s WHERE slot_name = {}", literal(slot));
        let rows = connection.query(&sql, ANSWER_TIME_MAX).await?;
        let Some(shown) = rows.first().and_then(|row| row.first()?.as_deref()) else {
            return Ok(false);
        };
        let shown: Json = serde_json::from_str(shown).map_err(|_| broken())?;
        if shown["plugin"] != "pgoutput" {
            return Err(Refused::ForGood(format!("the slot {slot} is not one of the plug-in pgoutput")));
        }
        if shown["wal_status"] == "lost" {
            let hint = "drop it, delete this ingest stream and create it anew, with another snapshot if need be";
            return Err(Refused::Position(format!("the server has given up what the slot {slot} was to keep; {hint}")));
        }
        Ok(true)
    }

    /// Makes the slot, and gives the name of what was to be seen at that moment, which is valid as long as nothing else is asked.
    async fn make_slot(&self, connection: &mut Connection) -> Result<String, Refused> {
        let slot = &self.definition.slot;
        let sql = format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT", name(slot));
        let made = connection.query(&sql, SLOT_TIME_MAX).await;
        let rows = made.map_err(|failed| match Refused::from(failed) {
            Refused::Passing(problem) => {
                Refused::Passing(format!("the slot {slot} cannot be made (it waits for transactions that run to end): {problem}"))
            }
            other => other,
        })?;
        tracing::info!("slot {slot} of {}: made", self.login.place);
        let exported = rows.into_iter().next().and_then(|row| row.into_iter().nth(2)?);
        Ok(exported.ok_or_else(broken)?)
    }

    /// Reads all rows of the tables, as they were when the slot was made, or, if that moment is over, as they are now: then
    /// changes that these rows have in them already come once more.
    async fn rows(&mut self, stood: &Stood, exported: Option<&str>, inlet: &Inlet) -> Result<(), Refused> {
        let mut connection = self.login.connect(false).await?;
        connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ANSWER_TIME_MAX).await?;
        if let Some(exported) = exported {
            connection.query(&format!("SET TRANSACTION SNAPSHOT {}", literal(exported)), ANSWER_TIME_MAX).await?;
        }
        let sql = format!("{TABLES} WHERE pubname = {} ORDER BY schemaname, tablename", literal(&self.definition.publication));
        for row in connection.query(&sql, ANSWER_TIME_MAX).await? {
            let shown = row.into_iter().next().flatten().ok_or_else(broken)?;
            let shown: Json = serde_json::from_str(&shown).map_err(|_| broken())?;
            let (sql, table) = selection(&shown).ok_or_else(broken)?;
            self.table(&mut connection, &sql, table, stood, inlet).await?;
        }
        Ok(())
    }

    async fn table(
        &mut self,
        connection: &mut Connection,
        sql: &str,
        mut table: Table,
        stood: &Stood,
        inlet: &Inlet,
    ) -> Result<(), Refused> {
        let mut bytes = Vec::new();
        message::put_query(sql, &mut bytes);
        connection.writer.send(&bytes).await?;
        loop {
            let Some(message) = connection.message(Instant::now() + ROW_TIME_MAX).await? else {
                connection.incoming.heard_within(ROW_TIME_MAX)?;
                continue;
            };
            match message.kind {
                b'T' => {
                    table.columns = columns(&message.body).ok_or_else(broken)?;
                    inlet.connected();
                }
                b'D' => {
                    let cells = row(&message.body).ok_or_else(broken)?.into_iter();
                    let cells: Vec<Cell> = cells.map(|value| value.map_or(Cell::Null, Cell::Text)).collect();
                    self.take(present(&table, &cells)?, stood, inlet).await;
                }
                b'C' => {}
                b'Z' => return Ok(()),
                b'E' => return Err(Failed::Said(Said::read(&message.body)).into()),
                _ => return Err(broken().into()),
            }
        }
    }

    /// Hands on a record; with it the source stands there.
    async fn take(&mut self, record: Vec<u8>, stood: &Stood, inlet: &Inlet) {
        if let Some(number) = self.keeper.took(|_, _| true) {
            self.last = number;
            inlet.record(record, stood.position(number)).await;
        }
    }

    async fn changes(&mut self, mut connection: Connection, mut stood: Stood, inlet: &Inlet) -> Result<Infallible, Refused> {
        let PostgresIngest { slot, publication, .. } = &self.definition;
        let names = literal(&name(publication));
        let sql = format!("START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', publication_names {names})", name(slot));
        let mut bytes = Vec::new();
        message::put_query(&sql, &mut bytes);
        connection.writer.send(&bytes).await?;
        let answer = connection.answer(Instant::now() + SILENCE_MAX).await?;
        match answer.kind {
            b'W' => {}
            b'E' => return Err(no_changes(&self.definition, Said::read(&answer.body))),
            _ => return Err(broken().into()),
        }
        self.keeper.connected(connection.writer.clone(), Unacknowledged::connected);
        inlet.connected();
        let mut tables = Tables::default();
        let mut transaction: Option<(Transaction, u64)> = None;
        loop {
            let Some(message) = connection.message(Instant::now() + SILENCE_MAX).await? else {
                connection.incoming.heard_within(SILENCE_MAX)?;
                continue;
            };
            let mut fields = Fields(&message.body);
            match message.kind {
                b'd' => {}
                b'E' => return Err(no_changes(&self.definition, Said::read(&message.body))),
                b'c' | b'C' => return Err(Refused::Passing("the server has ended the stream of changes".to_owned())),
                _ => return Err(broken().into()),
            }
            match fields.u8().ok_or_else(broken)? {
                // It is there, and has told everything up to this place.
                b'k' => {
                    let lsn = fields.u64().ok_or_else(broken)?;
                    let (_clock, asked) = (fields.u64(), fields.u8().ok_or_else(broken)?);
                    let (last, between) = (self.last, transaction.is_none());
                    self.keeper.took(|waiting, _| {
                        if between {
                            waiting.ended(last, lsn);
                        }
                        waiting.asked |= asked == 1;
                        false
                    });
                    continue;
                }
                b'w' => {
                    fields.bytes(24).ok_or_else(broken)?;
                }
                _ => return Err(broken().into()),
            }
            match (tables.event(fields.0)?, &mut transaction) {
                (Event::Other, _) => {}
                (Event::Begin(begun), None) => transaction = Some((begun, 0)),
                (Event::Change(change), Some((of, index))) => {
                    self.change(&tables, &change, of, index, &mut stood, inlet).await?;
                }
                (Event::Truncated(changes), Some((of, index))) => {
                    for change in changes {
                        self.change(&tables, &change, of, index, &mut stood, inlet).await?;
                    }
                }
                (Event::Commit(lsn), Some(_)) => {
                    transaction = None;
                    let last = self.last;
                    self.keeper.took(|waiting, _| {
                        waiting.ended(last, lsn);
                        false
                    });
                }
                _ => return Err(broken().into()),
            }
        }
    }

    async fn change(
        &mut self,
        tables: &Tables,
        change: &Change,
        transaction: &Transaction,
        index: &mut u64,
        stood: &mut Stood,
        inlet: &Inlet,
    ) -> Result<(), Refused> {
        *index += 1;
        if stood.is_behind(transaction.lsn, *index) {
            let record = tables.record(change, transaction)?;
            (stood.lsn, stood.index) = (transaction.lsn, *index);
            // What is taken stays so, whatever becomes of this connection.
            self.stood = Some(stood.clone());
            self.take(record, stood, inlet).await;
        }
        Ok(())
    }
}

/// Why the server tells no changes: it looks the publication up as of the place where the slot stands.
fn no_changes(PostgresIngest { slot, publication, .. }: &PostgresIngest, said: Said) -> Refused {
    if !said.of_class(UNDEFINED_OBJECT) {
        return Failed::Said(said).into();
    }
    let hint = "drop the slot, delete this ingest stream and create it anew, with another snapshot if need be";
    let problem = format!("there is no publication {publication} as of the place where the slot {slot} stands");
    Refused::Passing(format!("{problem}; where it was made anew since, {hint}. The server says: {}", said.words))
}

/// How a table is read that a publication has, of which it may have some columns and some rows.
fn selection(shown: &Json) -> Option<(String, Table)> {
    let (schema, table) = (shown["schemaname"].as_str()?, shown["tablename"].as_str()?);
    let wanted = |column: &Json| shown["attnames"].as_array().is_none_or(|wanted| wanted.contains(column));
    let columns = shown["columns"].as_array().into_iter().flatten().filter(|column| wanted(column));
    let columns = columns.map(|column| Some(name(column.as_str()?))).collect::<Option<Vec<_>>>()?.join(", ");
    let filter = shown["rowfilter"].as_str().map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
    // Tables that inherit from one are published by themselves. Partitions are not where their root stands for them, and it
    // has no rows of its own.
    let only = if shown["relkind"] == "r" { "ONLY " } else { "" };
    let sql = format!("SELECT {columns} FROM {only}{}.{}{filter}", name(schema), name(table));
    Some((sql, Table { schema: schema.to_owned(), name: table.to_owned(), columns: Vec::new() }))
}

/// What an answer says of its columns.
pub(crate) fn columns(body: &[u8]) -> Option<Vec<Column>> {
    let mut fields = Fields(body);
    let count = fields.u16()?;
    let column = |_| {
        let name = fields.text()?;
        let _table_and_place = (fields.u32()?, fields.u16()?);
        let kind = fields.u32()?;
        let _size_modifier_and_format = (fields.u16()?, fields.u32()?, fields.u16()?);
        Some(Column { name, key: false, kind })
    };
    (0..count).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_again_and_nothing_else_is() {
        let stood = Stood { beginning: false, system: 7, lsn: 1 << 40, index: 3 };
        let bytes = stood.position(12);
        assert_eq!(bytes.first_chunk::<8>(), Some(&12_u64.to_le_bytes()));
        assert_eq!(Stood::read(&bytes), Some(stood.clone()));
        for end in 0..bytes.len() {
            assert_eq!(Stood::read(&bytes[..end]), None);
        }
        assert_eq!(Stood::read(&[&bytes[..], b"x"].concat()), None);
        assert!(stood.is_behind(1 << 40, 4) && stood.is_behind((1 << 40) + 1, 1));
        assert!(!stood.is_behind(1 << 40, 3) && !stood.is_behind((1 << 40) - 1, 9));
    }

    #[test]
    fn a_publication_that_was_made_anew_is_told_from_what_else_the_server_says() {
        let definition = json!({"url": "postgres://h/d", "username": "u", "publication": "p", "slot": "s"});
        let definition: PostgresIngest = serde_json::from_value(definition).unwrap();
        let told = |code: &str| {
            let said = Said { code: code.to_owned(), words: "no (…)".to_owned(), fatal: true };
            match no_changes(&definition, said) {
                Refused::Passing(problem) => problem,
                other => panic!("{other:?}"),
            }
        };
        let told_of_it = told("42704");
        for part in ["there is no publication p as of the place where the slot s stands", "drop the slot", "no (…)"] {
            assert!(told_of_it.contains(part), "{told_of_it}");
        }
        assert_eq!(told("57P01"), "the server says: no (…)");
    }

    #[test]
    fn a_table_is_read_as_it_is_published() {
        let sql = |shown: Json| selection(&shown).map(|(sql, _)| sql);
        let published = json!({"schemaname": "public", "tablename": "a\"b", "rowfilter": "(id > 3)", "relkind": "r",
            "attnames": ["id", "x y", "sum"], "columns": ["id", "name", "x y"]});
        assert_eq!(sql(published).unwrap(), "SELECT \"id\", \"x y\" FROM ONLY \"public\".\"a\"\"b\" WHERE (id > 3)");
        // All of its partitions.
        let whole = json!({"schemaname": "s", "tablename": "t", "relkind": "p", "columns": ["id", "name"]});
        assert_eq!(sql(whole).unwrap(), "SELECT \"id\", \"name\" FROM \"s\".\"t\"");
        // A table may have no columns at all.
        let bare = json!({"schemaname": "s", "tablename": "t", "relkind": "r", "attnames": null, "columns": null});
        assert_eq!(sql(bare).unwrap(), "SELECT  FROM ONLY \"s\".\"t\"");
        assert_eq!(sql(json!({})), None);
    }
}
