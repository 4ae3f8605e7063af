//! The events of the workload `procs`, and the exact number of matches they must give.
//!
//! Each event is a function of the seed and its number, so any part of the stream can be made at any time without the part
//! before it: a file, a batch in memory and the count from outside cannot disagree. Nothing here knows of weir.

use std::io::{self, Write};

/// A stream of process starts: `(child)-[:parent]->(parent)`, the parent nearly always one of the events shortly before.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    pub seed: u64,
    pub count: u64,
}

/// How far back a parent lies at most.
const PARENT_WITHIN: u64 = 3_000;

/// Event `i` runs program `i % PROGRAMS` for user `i % USERS`.
pub const PROGRAMS: u64 = 97;
pub const USERS: u64 = 31;

impl Processes {
    /// The process that started this one. One event in a hundred, and the first, has none.
    pub fn parent(&self, i: u64) -> Option<u64> {
        let within = i.min(PARENT_WITHIN);
        let random = self.random(i, 0);
        if within == 0 || random.is_multiple_of(100) {
            return None;
        }
        // Other bits than those that decided whether there is a parent.
        Some(i - 1 - (random >> 32) % within)
    }

    /// Appends event `i` as one line of JSON.
    pub fn write_line(&self, i: u64, out: &mut Vec<u8>) {
        let prog = i % PROGRAMS;
        let begin = out.len();
        // Writing to memory cannot fail, so the results of these writes say nothing.
        let _ = write!(out, r#"{{"customer_id":{},"sensor_id":"s{}","process_id":{i},"parent_id":"#, i % 50, i % 1000);
        let _ = match self.parent(i) {
            Some(parent) => write!(out, "{parent}"),
            None => out.write_all(b"null"),
        };
        let _ = write!(
            out,
            r#","filename":"/usr/bin/prog{prog}","cmdline":"prog{prog} --opt {i}","user":"user{}","timestamp":{},"sha256":""#,
            i % USERS,
            1_700_000_000_000 + i,
        );
        for word in 1..=4 {
            let _ = write!(out, "{:016x}", self.random(i, word));
        }
        out.extend_from_slice(b"\",\"event_type\":\"process_start\"}\n");
        debug_assert!(out.len() - begin < 400, "an event is about 300 bytes");
    }

    /// Every event, one line each.
    pub fn write_all(&self, mut out: impl Write) -> io::Result<u64> {
        let mut lines = Vec::with_capacity(1 << 17);
        let mut bytes = 0;
        for i in 0..self.count {
            self.write_line(i, &mut lines);
            if lines.len() >= 1 << 16 {
                out.write_all(&lines)?;
                bytes += lines.len() as u64;
                lines.clear();
            }
        }
        out.write_all(&lines)?;
        out.flush()?;
        Ok(bytes + lines.len() as u64)
    }

    /// How many matches a chain of `nodes` processes over `parent` has once all events are in, counted from outside by
    /// following the parents. A process has one parent, so each match has its own first process, and the number is the
    /// same with and without DISTINCT on it.
    pub fn expected_chains(&self, nodes: u32) -> u64 {
        (0..self.count).filter(|i| (1..nodes).try_fold(*i, |process, _| self.parent(process)).is_some()).count() as u64
    }

    /// The `nth` random number of event `i`, of at most eight. The seed is mixed first, or neighbouring seeds would give
    /// the same stream with an offset.
    fn random(&self, i: u64, nth: u64) -> u64 {
        mix(mix(self.seed).wrapping_add(i.wrapping_mul(8)).wrapping_add(nth))
    }
}

/// Mixes a number: the same number always gives the same result, and neighbours give nothing alike.
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;

    fn events(processes: Processes) -> Vec<Value> {
        let mut bytes = Vec::new();
        let written = processes.write_all(&mut bytes).expect("memory");
        assert_eq!(written, bytes.len() as u64);
        bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).expect("JSON")).collect()
    }

    #[test]
    fn an_event_has_the_fields_of_the_workload() {
        let events = events(Processes { seed: 7, count: 1_234 });
        assert_eq!(events.len(), 1_234);
        let e = &events[1_200];
        assert_eq!(e["customer_id"], 0);
        assert_eq!(e["sensor_id"], "s200");
        assert_eq!(e["process_id"], 1_200);
        assert_eq!(e["filename"], "/usr/bin/prog36");
        assert_eq!(e["cmdline"], "prog36 --opt 1200");
        assert_eq!(e["user"], "user22");
        assert_eq!(e["timestamp"], 1_700_000_001_200u64);
        assert_eq!(e["event_type"], "process_start");
        let sha = e["sha256"].as_str().expect("text");
        assert!(sha.len() == 64 && sha.bytes().all(|b| b.is_ascii_hexdigit()), "{sha}");
        assert_eq!(e.as_object().expect("object").len(), 10);
    }

    #[test]
    fn parents_lie_before_and_about_one_in_a_hundred_has_none() {
        let processes = Processes { seed: 1, count: 100_000 };
        let mut without = 0;
        for i in 0..processes.count {
            match processes.parent(i) {
                Some(parent) => assert!(parent < i && i - parent <= PARENT_WITHIN, "{parent} of {i}"),
                None => without += 1,
            }
        }
        assert!((800..1_200).contains(&without), "{without}");
    }

    #[test]
    fn the_expected_count_is_what_the_file_itself_gives() {
        let processes = Processes { seed: 42, count: 5_000 };
        let parents: HashMap<u64, Option<u64>> =
            events(processes).iter().map(|e| (e["process_id"].as_u64().expect("a number"), e["parent_id"].as_u64())).collect();
        let up = |id: u64| parents[&id];
        let chains = parents.keys().filter(|id| up(**id).and_then(up).and_then(up).is_some()).count() as u64;
        assert_eq!(processes.expected_chains(4), chains);
        assert_eq!(processes.expected_chains(1), 5_000);
    }

    #[test]
    fn the_seed_decides_everything() {
        let with = |seed| events(Processes { seed, count: 500 });
        assert_eq!(with(3), with(3));
        assert_ne!(with(3), with(4));
    }
}
