//! The pass `decode-parquet`: rows of a file, as a query needs them that asks for three of the columns, on one thread. The same
//! events as the other decoders read, without their lists and parts.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use weir_connectors::Source;
use weir_connectors::decode::{RawDecoder, decode};
use weir_connectors::parquet::ParquetReader;
use weir_connectors::{Frames, Limits, Progress};
use weir_model::{Map, Text, Value};

use crate::decode::{WANTED, event};
use crate::measure::{Clock, Run};
use crate::passes::Settings;

const SCHEMA: &str = "message event { required int64 id; required binary kind (string); required binary user (string); required binary host (string);
    required int64 at; required double amount; required binary note (string); }";

const TEXTS: [&str; 4] = ["kind", "user", "host", "note"];

const ROWS: usize = 400_000;
const GROUP_ROWS: usize = 100_000;

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("events.parquet");
    write(&path)?;
    let wanted = WANTED.map(Text::new);
    let (mut frames, mut records, mut failures, mut count) = (Frames::default(), Vec::new(), Vec::new(), 0u64);
    let limits = Limits { records_max: settings.batch as usize, ..Limits::default() };
    let clock = Clock::start()?;
    while count < settings.events {
        let mut reader = ParquetReader::open(&path, "events", Some(&wanted), None)?;
        loop {
            frames.clear();
            let progress = reader.next(&limits, &mut frames)?;
            decode(&RawDecoder, &frames, &mut records, &mut failures);
            count += records.len() as u64;
            records.clear();
            if progress == Progress::Finished {
                break;
            }
        }
        if let Some(failure) = failures.first() {
            return Err(failure.reason.clone().into());
        }
    }
    let mut run = clock.stop("decode-parquet", count)?;
    run.settings = format!("3 of 7 columns, snappy, groups of {GROUP_ROWS} rows, {} rows a batch, 1 thread", settings.batch);
    Ok(run)
}

fn write(path: &Path) -> Result<(), Box<dyn Error>> {
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut writer = SerializedFileWriter::new(File::create(path)?, Arc::new(parse_message_type(SCHEMA)?), properties)?;
    for first in (0..ROWS).step_by(GROUP_ROWS) {
        let events: Vec<Map> = (first..first + GROUP_ROWS).map(event).collect();
        let mut group = writer.next_row_group()?;
        for name in ["id", "kind", "user", "host", "at", "amount", "note"] {
            let values = || events.iter().map(|event| event.get(name).unwrap_or(&Value::Null));
            if TEXTS.contains(&name) {
                column::<ByteArrayType>(&mut group, values().map(|value| ByteArray::from(value.to_text().as_str())).collect())?;
            } else if name == "amount" {
                column::<DoubleType>(
                    &mut group,
                    values().map(|value| if let Value::Float(x) = value { *x } else { 0.0 }).collect(),
                )?;
            } else {
                column::<Int64Type>(
                    &mut group,
                    values().map(|value| if let Value::Integer(n) = value { *n } else { 0 }).collect(),
                )?;
            }
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: Vec<T::T>) -> Result<(), Box<dyn Error>> {
    let mut column = group.next_column()?.ok_or("the schema has too few columns")?;
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()?;
    Ok(())
}
