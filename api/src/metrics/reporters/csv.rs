//! A file a figure: a line of names once, then one a report.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

use super::each;

/// The longest name of a file; longer ones are not possible everywhere.
const NAME_BYTES_MAX: usize = 200;

pub fn write(directory: &Path, figures: &Json) -> Result<(), String> {
    let place = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(place)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for (_, name, fields) in each(figures) {
        let file = file_name(name);
        let line = |first: &str, cells: Vec<String>| format!("{first},{}\n", cells.join(","));
        let mut text = String::new();
        if !directory.join(&file).exists() {
            text = line("t", fields.iter().map(|(field, _)| (*field).to_owned()).collect());
        }
        text.push_str(&line(&seconds.to_string(), fields.iter().map(|(_, value)| value.to_string()).collect()));
        let opened = OpenOptions::new().create(true).append(true).open(directory.join(&file));
        opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(place)?;
    }
    Ok(())
}

/// Names of streams and queries can hold anything; here they must not lead elsewhere, or be the same for two of them.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => safe.push(byte as char),
            other => safe.push_str(&format!("%{other:02X}")),
        }
    }
    if safe.len() > NAME_BYTES_MAX {
        let number =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        safe.truncate(NAME_BYTES_MAX);
        safe.push_str(&format!("~{number:016x}"));
    }
    // `.` and `..` alone would be directories.
    format!("{safe}.csv")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_appended_and_names_are_made_safe() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("metrics");
        let figures = |count: u64| {
            json!({"counters": [{"name": "ingest.a/../b.count", "count": count}], "gauges": [{"name": "g", "value": 1.5}],
                "timers": [{"name": "t", "min": 0.5, "max": 2.0}]})
        };
        write(&place, &figures(1)).expect("written");
        write(&place, &figures(2)).expect("written");
        let read = |name: &str| fs::read_to_string(place.join(name)).expect(name);
        let lines: Vec<String> = read("ingest.a%2F..%2Fb.count.csv").lines().map(str::to_owned).collect();
        assert_eq!((lines.len(), lines[0].as_str()), (3, "t,count"));
        assert!(lines[1].ends_with(",1") && lines[2].ends_with(",2"), "{lines:?}");
        assert!(read("g.csv").starts_with("t,value\n") && read("t.csv").starts_with("t,min,max\n"));
        let long = file_name(&"é".repeat(500));
        assert!(long.len() < 255 && long != file_name(&"é".repeat(501)));
        assert!(write(Path::new("/dev/null/x"), &figures(1)).is_err());
    }
}
