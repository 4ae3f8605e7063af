//! Files that are put aside, written to as an output does and left off as a kill does.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_model::Position;

use crate::conformance::{output, runtime};
use crate::decode::tests::Random;
use crate::{Delivery, Destination, DestinationConfig, OnRefused, Outgoing, Retries, parse_destination_v1};

const PATIENCE: Duration = Duration::from_secs(60);

fn defined(path: &Path, rotation: Json) -> Box<dyn DestinationConfig> {
    parse_destination_v1(&json!({"type": "WriteToFile", "path": path, "rotation": rotation})).unwrap()
}

fn result(number: u64) -> Outgoing {
    Outgoing { body: format!("{{\"result\":{number}}}").into_bytes(), positive: true, mark: number, id: None }
}

/// Names of what was put aside, as they sort.
fn aside(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with("out-")).collect();
    names.sort();
    names
}

fn unpacked(path: &Path) -> String {
    let (mut text, mut file) = (String::new(), File::open(path).unwrap());
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(file).read_to_string(&mut text),
        Some("zst") => zstd::Decoder::new(file).unwrap().read_to_string(&mut text),
        _ => file.read_to_string(&mut text),
    }
    .unwrap();
    text
}

/// All that the files hold, in the order of their names, the one at the path last.
fn all(directory: &Path) -> String {
    let asides: String = aside(directory).iter().map(|name| unpacked(&directory.join(name))).collect();
    asides + &fs::read_to_string(directory.join("out.jsonl")).unwrap()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Until what goes on beside has ended.
fn settle(destination: &mut dyn Destination) {
    wait_until("what was put aside is compressed", || {
        destination.idle().unwrap();
        destination.rests()
    });
}

#[test]
fn files_put_aside_hold_each_result_once_wherever_the_process_was_killed() {
    const RESULTS: u64 = 400;
    let runtime = runtime();
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.jsonl");
        let compression = ["None", "Gzip", "Zstd"][seed as usize % 3];
        let config = defined(&path, json!({"bytesMax": 100, "compression": compression}));
        // What is stored: everything before the mark is written, and where the destination stood.
        let (mut stored, mut kills) = ((1, None::<Position>), 0);
        while stored.0 <= RESULTS {
            let mut destination = config.open(&output(&runtime), stored.1.as_ref()).unwrap();
            stored.1 = Some(destination.position());
            let mut next = stored.0;
            while next <= RESULTS && random.below(12) > 0 {
                let upper = (next + 1 + random.below(6) as u64).min(RESULTS + 1);
                let results: Vec<Outgoing> = (next..upper).map(result).collect();
                destination.write(&results, upper).unwrap();
                next = upper;
                if random.below(3) == 0 {
                    stored = (next, Some(destination.position()));
                }
                if random.below(4) == 0 {
                    settle(&mut *destination);
                }
            }
            if next > RESULTS {
                stored = (next, Some(destination.position()));
            }
            drop(destination);
            kills += 1;
            // Half a line; or the file was put aside, and the next one was not there yet.
            match fs::metadata(&path).unwrap().len() {
                0 if random.below(2) == 0 => fs::remove_file(&path).unwrap(),
                _ if next <= RESULTS => {
                    fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(b"{\"")).unwrap();
                }
                _ => {}
            }
            // Half of a compressed file; or all of it, and the other not deleted yet.
            if let Some(name) = aside(directory.path()).iter().find(|name| !name.ends_with(".jsonl")) {
                let (name, whole) = (name.rsplit_once('.').unwrap().0, directory.path().join(name));
                fs::write(directory.path().join(name), unpacked(&whole)).unwrap();
                fs::write(directory.path().join(format!(".{name}.gz.unfinished")), "half").unwrap();
            }
        }
        let mut last = config.open(&output(&runtime), stored.1.as_ref()).unwrap();
        settle(&mut *last);
        let expected: String = (1..=RESULTS).map(|number| format!("{{\"result\":{number}}}\n")).collect();
        assert!(all(directory.path()) == expected, "seed {seed}, {kills} kills: {:?}", aside(directory.path()));
        let names = aside(directory.path());
        let ending = [".jsonl", ".jsonl.gz", ".jsonl.zst"][seed as usize % 3];
        assert!(names.len() > 40 && names.iter().all(|name| name.ends_with(ending)), "seed {seed}: {names:?}");
        let longest = names.iter().map(|name| unpacked(&directory.path().join(name)).len()).max().unwrap();
        // Of a write that is longer by itself there is no half.
        assert!(longest <= 7 * "{\"result\":100}\n".len(), "seed {seed}: {longest}");
        let hidden = fs::read_dir(directory.path()).unwrap().count() - names.len() - 1;
        assert_eq!(hidden, 0, "seed {seed}: something unfinished is left");
    }
}

#[test]
fn results_of_another_output_are_not_taken_for_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let config = defined(&path, json!({"bytesMax": 20}));
    let mut first = config.open(&output(&runtime), None).unwrap();
    for number in [7, 8, 9] {
        first.write(&[result(number)], number + 1).unwrap();
    }
    let position = first.position();
    drop(first);
    // One that begins anew, and one that goes on where another stood, with a result as old as the last one.
    config.open(&output(&runtime), None).unwrap().write(&[result(1)], 2).unwrap();
    assert!(all(directory.path()).ends_with("{\"result\":9}\n{\"result\":1}\n"), "{}", all(directory.path()));
    fs::remove_file(directory.path().join(aside(directory.path()).last().unwrap())).unwrap();
    fs::write(&path, "{\"result\":9}\n").unwrap();
    config.open(&output(&runtime), Some(&position)).unwrap().write(&[result(9)], 10).unwrap();
    assert!(all(directory.path()).ends_with("{\"result\":9}\n{\"result\":9}\n"), "{}", all(directory.path()));
}

#[test]
fn so_many_are_kept_for_so_long() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let mut destination =
        defined(&path, json!({"bytesMax": 10, "keepMax": 3, "compression": "Zstd"})).open(&output(&runtime), None).unwrap();
    for number in 1..=9 {
        destination.write(&[result(number)], number + 1).unwrap();
    }
    settle(&mut *destination);
    drop(destination);
    let kept: String = (6..=9).map(|number| format!("{{\"result\":{number}}}\n")).collect();
    assert_eq!(all(directory.path()), kept);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let old = |number: u64| format!("out-2020-01-01T00-00-0{number}Z-000000000{number}-000000000000000{number}.jsonl.gz");
    for number in 1..=3 {
        fs::write(directory.path().join(old(number)), "old").unwrap();
    }
    let theirs = ["out-2020-01-01.jsonl", "output.jsonl", "out-2020-01-01T00-00-01Z-0000000001-0000000000000001.csv"];
    theirs.iter().for_each(|name| fs::write(directory.path().join(name), "theirs").unwrap());
    let mut destination = defined(&path, json!({"bytesMax": 10, "keepSeconds": 2})).open(&output(&runtime), None).unwrap();
    destination.write(&[result(1)], 2).unwrap();
    wait_until("the old ones are gone, but for the newest", || {
        destination.idle().unwrap();
        !aside(directory.path()).iter().any(|name| *name == old(1) || *name == old(2))
    });
    assert!(aside(directory.path()).contains(&old(3)), "the newest of all stays");
    destination.write(&[result(2)], 3).unwrap();
    destination.write(&[result(3)], 4).unwrap();
    wait_until("those of now are old, too", || {
        destination.idle().unwrap();
        aside(directory.path()).iter().filter(|name| name.starts_with("out-20") && name.len() >= 58).count() == 1
    });
    wait_until("nobody has to look any more", || {
        destination.idle().unwrap();
        destination.rests()
    });
    theirs.iter().for_each(|name| assert!(directory.path().join(name).exists(), "{name} is not ours"));
}

#[test]
fn a_file_is_put_aside_in_time_also_when_nothing_comes_and_that_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let config = defined(&path, json!({"intervalSeconds": 1, "compression": "Gzip"}));
    let told = Arc::new(Mutex::new(Vec::<(u64, Position)>::new()));
    let telling = told.clone();
    let delivered = Box::new(move |mark, position| telling.lock().unwrap().push((mark, position)));
    let destination = config.open(&output(&runtime), None).unwrap();
    let delivery = Delivery::start("out", destination, OnRefused::GiveUp, Retries::default(), delivered);
    delivery.send(vec![result(1)], 2).unwrap();
    wait_until("it is written", || !told.lock().unwrap().is_empty());
    let (_, before) = told.lock().unwrap()[0].clone();
    wait_until("it is put aside and compressed", || aside(directory.path()).iter().any(|name| name.ends_with(".jsonl.gz")));
    wait_until("it is told", || told.lock().unwrap().last().is_some_and(|(mark, position)| *mark == 2 && *position != before));
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    assert!(delivery.close(PATIENCE));
    let (_, position) = told.lock().unwrap().pop().unwrap();
    // Nothing is put aside where nothing came.
    let mut again = config.open(&output(&runtime), Some(&position)).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    again.idle().unwrap();
    assert_eq!(aside(directory.path()).len(), 1);
    assert!(again.rests());
}

#[test]
fn what_goes_wrong_is_told_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let name = "out-2026-01-01T00-00-00Z-0000000001-0000000000000001.jsonl";
    fs::write(directory.path().join(name), "{\"result\":0}\n").unwrap();
    let in_the_way = directory.path().join(format!(".{name}.gz.unfinished"));
    fs::create_dir(&in_the_way).unwrap();
    let config = defined(&path, json!({"bytesMax": 1000, "compression": "Gzip"}));
    let mut destination = config.open(&output(&runtime), None).unwrap();
    let mut problem = None;
    wait_until("it is told", || {
        problem = destination.idle().err();
        problem.is_some()
    });
    let problem = problem.unwrap().to_string();
    assert!(problem.contains(name) && problem.contains("cannot compress the file"), "{problem}");
    assert!(!destination.rests(), "it is tried again");
    destination.write(&[result(1)], 2).unwrap();
    drop(destination);
    fs::remove_dir(&in_the_way).unwrap();
    let mut destination = config.open(&output(&runtime), None).unwrap();
    settle(&mut *destination);
    assert_eq!(aside(directory.path()), [format!("{name}.gz")]);
    assert_eq!(all(directory.path()), "{\"result\":0}\n{\"result\":1}\n");

    // A disk that is full.
    let full = parse_destination_v1(&json!({"type": "WriteToFile", "path": "/dev/full"})).unwrap();
    let refused = full.open(&output(&runtime), None).unwrap().write(&[result(1)], 2).unwrap_err();
    assert!(refused.retryable() && refused.to_string().contains("No space left on device"), "{refused}");
    assert!(refused.to_string().contains("make room there"), "{refused}");

    let refused = |rotation: Json, path: &str| {
        let config = parse_destination_v1(&json!({"type": "WriteToFile", "path": path, "rotation": rotation}));
        config.and_then(|config| config.open(&output(&runtime), None)).err().unwrap().to_string()
    };
    let at = path.to_str().unwrap();
    assert!(refused(json!({"compression": "Gzip"}), at).contains("option `rotation`: say when"));
    assert!(refused(json!({"bytesMax": 0}), at).contains("option `rotation.bytesMax`"));
    assert!(refused(json!({"bytesMax": "x"}), at).contains("option `rotation.bytesMax`"));
    assert!(refused(json!({"bytesMax": 1, "compression": "Lz4"}), at).contains("valid values are: None, Gzip, Zstd"));
    assert!(refused(json!({"bytesMax": 1}), "/dev/null").contains("only a file can be put aside"));
}
