//! An operator at work while weir is killed: standing queries come and go, and backups are taken.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use weir_tests::client;
use weir_tests::random::Random;
use weir_tests::service::{Home, Weir, binary, net};

use super::Writes;

/// The longest time between two things that an operator does.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Of these things, one is a backup.
const BACKUP_ONCE_IN: u64 = 4;

const GUESTS: usize = 3;

/// Begins with the whole graph: who adds up its results has its answer.
const GUEST: &str = "MATCH (a)-[:parent]->(b) WHERE a.name IS NOT NULL RETURN a.id AS child, b.id AS parent";

/// A name for a standing query, and what is known of it. The number is that of the file of its results.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Guest {
    Gone,
    There(u64),
    /// Asked for, or asked to go, when weir was killed.
    Unknown(u64),
}

pub struct Operator {
    random: Random,
    guests: [Guest; GUESTS],
    created: u64,
    deleted: u64,
    /// Those of which it was not known whether they were there.
    doubtful: u64,
    /// The last one that came whole, and the writes that had been acknowledged before.
    backup: Option<(Vec<u8>, BTreeSet<u64>)>,
    backups: u64,
}

fn place(guest: usize) -> String {
    format!("/api/v1/query/standing/guest-{guest}")
}

fn file(number: u64) -> String {
    format!("guest-{number}.jsonl")
}

impl Operator {
    pub fn new(seed: u64) -> Operator {
        let random = Random::new(seed);
        Operator { random, guests: [Guest::Gone; GUESTS], created: 0, deleted: 0, doubtful: 0, backup: None, backups: 0 }
    }

    /// Does one thing. False when weir is gone.
    pub fn act(&mut self, address: SocketAddr, writes: &Writes) -> bool {
        sleep(Duration::from_micros(self.random.below(PAUSE_MAX.as_micros() as u64)));
        if self.random.once_in(BACKUP_ONCE_IN) {
            return self.back_up(address, writes);
        }
        let guest = self.random.below(GUESTS as u64) as usize;
        match self.guests[guest] {
            Guest::Gone => self.create(address, guest),
            Guest::There(number) => self.delete(address, guest, number),
            Guest::Unknown(_) => panic!("weir is gone"),
        }
    }

    fn create(&mut self, address: SocketAddr, guest: usize) -> bool {
        self.created += 1;
        self.guests[guest] = Guest::Unknown(self.created);
        let body = json!({
            "pattern": {"type": "Cypher", "query": GUEST, "mode": "MultipleValues"},
            "includeCancellations": true, "startFrom": "WholeGraph",
            "outputs": {"file": {"type": "WriteToFile", "path": file(self.created)}},
        });
        let headers = [("Content-Type", "application/json")];
        let Ok(answer) = client::send(address, "POST", &place(guest), &headers, body.to_string().as_bytes()) else {
            return false;
        };
        answer.expect(201);
        self.guests[guest] = Guest::There(self.created);
        true
    }

    fn delete(&mut self, address: SocketAddr, guest: usize, number: u64) -> bool {
        self.guests[guest] = Guest::Unknown(number);
        let Ok(answer) = client::send(address, "DELETE", &place(guest), &[], b"") else { return false };
        answer.expect(200);
        self.guests[guest] = Guest::Gone;
        self.deleted += 1;
        true
    }

    fn back_up(&mut self, address: SocketAddr, writes: &Writes) -> bool {
        let acknowledged = writes.acknowledged();
        let Ok(answer) = client::send(address, "GET", "/api/v1/admin/backup", &[], b"") else { return false };
        self.backup = Some((answer.expect(200).body, acknowledged));
        self.backups += 1;
        true
    }

    /// After a start: what was acknowledged is so.
    pub fn look(&mut self, weir: &Weir) {
        for (index, guest) in self.guests.iter_mut().enumerate() {
            let answer = weir.get(&place(index));
            let is_there = answer.status == 200;
            assert!(is_there || answer.status == 404, "{}", answer.shown());
            *guest = match *guest {
                Guest::Unknown(number) => {
                    self.doubtful += 1;
                    if is_there { Guest::There(number) } else { Guest::Gone }
                }
                known => {
                    assert_eq!(is_there, known != Guest::Gone, "standing query {index} after a start: {}", answer.shown());
                    known
                }
            };
            if let Guest::There(number) = *guest {
                assert!(answer.text().contains(&file(number)), "another one is there: {}", answer.shown());
            }
        }
    }

    pub fn counts(&self) -> String {
        let Operator { created, deleted, doubtful, backups, .. } = self;
        format!("{created} standing queries created, {deleted} deleted, of {doubtful} a kill left open which; {backups} backups")
    }

    /// Who is there in the end has reported the answer, each row once. Before weir stops.
    pub fn read(&self, weir: &Weir) -> Vec<(u64, Vec<String>)> {
        let mut answer: Vec<String> =
            weir.rows(GUEST).iter().map(|row| json!({"child": row[0], "parent": row[1]}).to_string()).collect();
        answer.sort();
        let number = |guest: &Guest| match guest {
            Guest::There(number) => Some((*number, answer.clone())),
            _ => None,
        };
        self.guests.iter().filter_map(number).collect()
    }

    /// The store is sound, and so is what the last backup makes of another; its graph is of one moment, not before it was asked
    /// for.
    pub fn check(self, home: &Home, expected: &[(u64, Vec<String>)]) {
        for (number, answer) in expected {
            assert_eq!(net(&home.lines(&file(*number))), *answer, "what {} adds up to", file(*number));
        }
        run(home, &["check", "-Dweir.store.filepath=data"]);
        let Some((backup, acknowledged)) = self.backup else { return };
        let other = Home::new();
        other.write("backup", backup);
        let restored = "-Dweir.store.filepath=restored";
        run(&other, &["restore", "backup", restored]);
        run(&other, &["check", restored]);
        let weir = other.start(&[restored]);
        let mut writes = Writes::default();
        writes.read(&weir);
        writes.check_against(&acknowledged);
        weir.stop();
    }
}

fn run(home: &Home, arguments: &[&str]) {
    let done = Command::new(binary()).current_dir(home.path()).args(arguments).output().expect("weir runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {said}");
}
