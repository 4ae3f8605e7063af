//! The pass `parse`: the events of `procs` read from a file and decoded from JSON, batch by batch, and dropped.
//!
//! What a file ingest does before the query, and nothing else.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};

use weir_model::{Value, json};

use crate::measure::{Clock, Run};
use crate::passes::Settings;

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(settings.events_file()?)?);
    let mut line = Vec::new();
    let mut records: Vec<Value> = Vec::new();
    let (mut count, mut with_parent) = (0u64, 0u64);
    let clock = Clock::start()?;
    loop {
        line.clear();
        let more = file.read_until(b'\n', &mut line)? > 0;
        if more {
            records.push(json::parse(&line).map_err(|error| format!("event {count}: {error}"))?);
            count += 1;
        }
        // A batch lives as long as it would on its way to the query.
        if !more || records.len() as u64 == settings.batch {
            with_parent += records.iter().filter(|record| has_parent(record)).count() as u64;
            records.clear();
        }
        if !more {
            break;
        }
    }
    let mut run = clock.stop("parse", count)?;
    let wanted = settings.processes().expected_chains(2);
    if (count, with_parent) != (settings.events, wanted) {
        return Err(format!("{count} events, {with_parent} with a parent; {} and {wanted} were written", settings.events).into());
    }
    run.settings = format!("file to values, {} events a batch, 1 thread", settings.batch);
    Ok(run)
}

fn has_parent(record: &Value) -> bool {
    matches!(record, Value::Map(map) if map.get("parent_id").is_some_and(|parent| !parent.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_event_is_decoded() {
        let settings = test_settings("parse", 2_500);
        let run = run(&settings);
        std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
        assert_eq!(run.expect("it runs").events, 2_500);
    }
}
