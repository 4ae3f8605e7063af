//! Groups of a real Redis: shared streams, kills, cuts, and what the dead have left.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use super::*;
use crate::conformance::anything;
use crate::frames::{Frames, Limits};
use crate::real_server::{RealServer, Way, open, read, texts, wait};
use crate::{RecordStream, parse_source_v1};

fn start(left_out: &str) -> Option<RealServer> {
    RealServer::start("redis.sh", 2, left_out)
}

fn cli(server: &RealServer) -> Command {
    let mut cli = Command::new("redis-cli");
    cli.arg("-p").arg(server.address(0).port().to_string());
    cli
}

/// A command, and what Redis says.
fn say(server: &RealServer, command: &[&str]) -> String {
    String::from_utf8_lossy(&cli(server).args(command).output().unwrap().stdout).trim().to_owned()
}

/// Entries whose field `value` is a number.
fn add(server: &RealServer, numbers: Range<u32>) {
    let mut cli = cli(server).arg("--pipe").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let commands: String = numbers.map(|n| format!("XADD events * value {n}\r\n")).collect();
    cli.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    assert!(cli.wait().unwrap().success());
}

/// How many entries were given to somebody and are not acknowledged.
fn pending(server: &RealServer) -> usize {
    say(server, &["XPENDING", "events", "readers"]).lines().next().unwrap().parse().unwrap()
}

/// New entries that are given to one of the group in the same moment, so that nobody else is.
fn give(server: &RealServer, consumer: &str, numbers: Range<u32>) {
    let script = "for n = ARGV[2], ARGV[3] - 1 do redis.call('XADD', KEYS[1], '*', 'value', n) end \
        redis.call('XREADGROUP', 'GROUP', 'readers', ARGV[1], 'STREAMS', KEYS[1], '>')";
    say(server, &["EVAL", script, "1", "events", consumer, &numbers.start.to_string(), &numbers.end.to_string()]);
}

fn definition(server: &RealServer, more: Json) -> Json {
    let url = format!("redis://{}", server.address(0));
    let mut all = json!({"type": "RedisIngest", "url": url, "key": "events", "field": "value", "group": "readers", "startFrom": "Earliest"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn through(way: &Way) -> Json {
    json!({"url": format!("redis://{}", way.address)})
}

fn in_order(records: &[String]) -> Vec<u32> {
    records.iter().map(|record| record.parse().unwrap()).collect()
}

fn numbers(records: &[String]) -> BTreeSet<u32> {
    in_order(records).into_iter().collect()
}

/// What comes until nothing has come for `quiet`; all of it is durable at once.
fn rest(stream: &mut RecordStream, quiet: Duration) -> Vec<String> {
    let (mut found, mut batch, mut last) = (Vec::new(), Frames::default(), Instant::now());
    while last.elapsed() < quiet {
        stream.next(&Limits::default(), &mut batch).unwrap();
        if !batch.is_empty() {
            last = Instant::now();
        }
        found.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
        stream.durable(&batch.position).unwrap();
    }
    found
}

#[test]
fn those_of_a_group_share_a_stream_and_what_is_durable_is_acknowledged() {
    let Some(server) = start("sharing a stream of Redis") else { return };
    add(&server, 0..5_000);
    let mut both = [open(&definition(&server, json!({})), None), open(&definition(&server, json!({})), None)];
    let mut shares = [Vec::new(), Vec::new()];
    for (stream, share) in both.iter_mut().zip(&mut shares) {
        share.extend(texts(&read(stream, 500, true)));
    }
    add(&server, 5_000..6_000);
    // It is no record, and passed over.
    say(&server, &["XADD", "events", "*", "other", "x"]);
    while shares.iter().map(Vec::len).sum::<usize>() < 6_000 {
        for (stream, share) in both.iter_mut().zip(&mut shares) {
            share.extend(rest(stream, Duration::from_millis(200)));
        }
    }
    assert!(shares.iter().all(|share| share.len() >= 500));
    let mut all = in_order(&shares.concat());
    all.sort_unstable();
    assert!(all.into_iter().eq(0..6_000), "each came once");
    wait(|| pending(&server) == 0, "all is acknowledged");
    // The group has all of it: the next one begins where these are.
    drop(both);
    assert_eq!(rest(&mut open(&definition(&server, json!({})), None), Duration::from_secs(1)), Vec::<String>::new());
}

#[test]
fn what_was_not_acknowledged_before_a_kill_comes_again_and_nothing_else() {
    let Some(server) = start("kills of one of a group of Redis") else { return };
    // Without a name of its own it is the one that the stored position holds.
    for more in [json!({}), json!({"consumer": "me", "claimAfterSeconds": 0})] {
        say(&server, &["FLUSHALL"]);
        add(&server, 0..500);
        let way = Way::to(server.address(0));
        let mut stream = open(&definition(&server, merged(more.clone(), through(&way))), None);
        let batches = read(&mut stream, 500, false);
        assert!(in_order(&texts(&batches)).into_iter().eq(0..500));
        let done = batches[..3].iter().map(|(texts, _)| texts.len() as u32).sum();
        stream.durable(&batches[2].1).unwrap();
        wait(|| pending(&server) == 500 - done as usize, "what is durable is acknowledged");
        // It leaves no time for last words, as a kill.
        way.set(false);
        drop(stream);
        // Another one, who may be alive, has something, too.
        give(&server, "another", 500..510);
        let mut again = open(&definition(&server, more), Some(&batches[2].1));
        let came = texts(&read(&mut again, 500 - done as usize, true));
        assert!(in_order(&came).into_iter().eq(done..500));
        assert_eq!(rest(&mut again, Duration::from_secs(1)), Vec::<String>::new());
        wait(|| pending(&server) == 10, "the others are acknowledged, too");
    }
}

#[test]
fn what_the_dead_have_left_is_taken_over_and_what_is_worked_on_is_not() {
    let Some(server) = start("entries that others have left") else { return };
    add(&server, 0..300);
    // It would take over what is left, too, but later than the other one does.
    let mut slow = open(&definition(&server, json!({"claimAfterSeconds": 6, "consumer": "slow"})), None);
    read(&mut slow, 300, false);
    give(&server, "dead", 300..400);
    // What was deleted meanwhile is given up.
    let deleted = say(&server, &["XPENDING", "events", "readers", "-", "+", "1", "dead"]);
    say(&server, &["XDEL", "events", deleted.lines().next().unwrap()]);
    let mut never = open(&definition(&server, json!({"claimAfterSeconds": 0, "consumer": "never"})), None);
    let mut heir = open(&definition(&server, json!({"claimAfterSeconds": 4})), None);
    assert_eq!(numbers(&texts(&read(&mut heir, 99, true))), (301..400).collect());
    // Nobody else gets what is worked on, however long that takes.
    let (since, mut batch) = (Instant::now(), Frames::default());
    while since.elapsed() < Duration::from_secs(8) {
        for stream in [&mut slow, &mut never, &mut heir] {
            stream.next(&Limits::default(), &mut batch).unwrap();
            assert!(batch.is_empty());
        }
    }
    wait(|| pending(&server) == 300, "what was taken over is acknowledged");
    drop((never, heir));
    // What is left at the end is given back: nobody waits for it as long as for what the dead have.
    drop(slow);
    let given_back = || say(&server, &["XPENDING", "events", "readers", "IDLE", "100000000", "-", "+", "1000", "slow"]);
    wait(|| given_back().lines().count() == 4 * 300, "it is given back");
    let mut next = open(&definition(&server, json!({})), None);
    assert_eq!(numbers(&texts(&read(&mut next, 300, true))), (0..300).collect());
    wait(|| pending(&server) == 0, "all is acknowledged");
}

#[test]
fn a_cut_repeats_nothing_and_what_came_for_the_connection_before_is_read() {
    let Some(server) = start("cuts between weir and a group of Redis") else { return };
    let way = Way::to(server.address(0));
    add(&server, 0..300);
    let me = merged(json!({"consumer": "me", "claimAfterSeconds": 0}), through(&way));
    let mut stream = open(&definition(&server, me), None);
    let batches = read(&mut stream, 300, false);
    let mut batch = Frames::default();
    for (index, last) in [(0, 300), (1, 400), (2, 500)] {
        way.set(false);
        // Nobody hears that these are durable, and nothing new comes.
        stream.durable(&batches[index].1).unwrap();
        add(&server, last..last + 100);
        wait(
            || {
                stream.next(&Limits::default(), &mut batch).unwrap();
                assert!(batch.is_empty());
                stream.trouble().is_some()
            },
            "the stream says what is wrong",
        );
        way.set(true);
        let came = read(&mut stream, 100, false);
        assert_eq!(numbers(&texts(&came)), (last..last + 100).collect());
        assert_eq!(stream.trouble(), None);
    }
    // The server was still holding back an answer of the last connection.
    give(&server, "me", 1_000..1_001);
    assert_eq!(numbers(&texts(&read(&mut stream, 1, false))), [1_000].into());
    add(&server, 2_000..2_001);
    let (_, last) = read(&mut stream, 1, false).pop().unwrap();
    stream.durable(&last).unwrap();
    wait(|| pending(&server) == 0, "all is acknowledged");
    assert_eq!(rest(&mut stream, Duration::from_secs(1)), Vec::<String>::new());
}

#[test]
fn a_stream_that_is_deleted_and_made_anew_is_read_from_its_beginning() {
    let Some(server) = start("groups and streams of Redis that are deleted") else { return };
    let mut stream = open(&definition(&server, json!({"startFrom": "Latest", "consumer": "me"})), None);
    wait(
        || {
            assert_eq!(rest(&mut stream, Duration::from_millis(100)), Vec::<String>::new());
            say(&server, &["XINFO", "GROUPS", "events"]).contains("readers")
        },
        "the group is there",
    );
    add(&server, 0..10);
    read(&mut stream, 10, true);
    for (first, command) in [(10, ["DEL", "events"].as_slice()), (30, &["FLUSHALL"]), (50, &["DEL", "events"])] {
        // With entries that are under way, and with the same ids as before.
        say(&server, &["XADD", "events", "99999999999999-1", "value", &first.to_string()]);
        let under_way = read(&mut stream, 1, false);
        say(&server, command);
        say(&server, &["XADD", "events", "99999999999999-1", "value", &(first + 1).to_string()]);
        say(&server, &["XADD", "events", "*", "other", "x"]);
        stream.durable(&under_way[0].1).unwrap();
        assert_eq!(numbers(&texts(&read(&mut stream, 1, true))), [first + 1].into());
        wait(|| pending(&server) == 0 && stream.trouble().is_none(), "all is acknowledged");
        say(&server, &["DEL", "events"]);
    }
    // The group alone: what is there comes once more.
    add(&server, 70..80);
    assert_eq!(numbers(&texts(&read(&mut stream, 10, true))), (70..80).collect());
    say(&server, &["XGROUP", "DESTROY", "events", "readers"]);
    assert_eq!(numbers(&texts(&read(&mut stream, 10, true))), (70..80).collect());
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    for (more, problem) in [
        (json!({"group": null, "consumer": "me"}), "`consumer`: goes with a group only"),
        (json!({"group": null, "claimAfterSeconds": 5}), "`claimAfterSeconds`: goes with a group only"),
        (json!({"group": ""}), "`group`: is empty"),
        (json!({"claimAfterSeconds": 0}), "`consumer`: is missing"),
        (json!({"claimAfterSeconds": 86_401}), "`claimAfterSeconds`: a day"),
        (json!({"group": null, "recordDecoders": ["Gzip"]}), "`recordDecoders`: goes with a field only"),
    ] {
        let definition = merged(json!({"type": "RedisIngest", "url": "redis://h", "key": "k", "group": "g"}), more);
        let refused = parse_source_v1(&definition).unwrap().check(&anything()).unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}

fn merged(mut one: Json, other: Json) -> Json {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}
