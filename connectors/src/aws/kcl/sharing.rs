//! Who reads which shard. Every so often each worker looks at the lease table, says that it is alive, takes what nobody has or
//! too much of which another one has, and says how far its shards are read.
//!
//! A shard changes hands in this order: the new owner asks, the old one stops reading, waits until all it has handed on is
//! durable, and says how far that is; only then does the new one begin. Who has died is not waited for: what it had read and not
//! said is read again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::leases::{DYNAMODB, Lease, Leases, SHARD_END, Table, now};
use super::places::{begins, further, new_leases, order};
use crate::aws::access::Access;
use crate::aws::client::Client;
use crate::aws::consumer::Consumer;
use crate::aws::reader::{Hold, KINESIS, Reader, list_shards};
use crate::aws::shards::{ANSWERS_MAX, Event, Place, Places, Stream};
use crate::error::{ConnectorError, Fault};
use crate::feed::Trouble;

/// For giving everything back at the end.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// Between two looks at the table, at least.
const ROUND_MIN: Duration = Duration::from_millis(200);

/// How long things take that are agreed upon.
#[derive(Clone, Debug)]
pub struct Rules {
    /// A worker that has not been heard of for this long is gone.
    pub failover: Duration,
    pub sync: Duration,
    /// Leases of shards that are read and gone are deleted.
    pub clean_up: bool,
    pub leases_max: usize,
    /// How long an owner is waited for that was asked; None is not at all.
    pub hand_over: Option<Duration>,
    pub checkpoint_records: u64,
    pub checkpoint_after: Duration,
    pub checkpoints: bool,
    /// The checkpoint of leases whose shard nobody has read.
    pub sentinel: &'static str,
    /// Who is sent the records; they are asked for where there is none.
    pub consumer: Option<Consumer>,
}

pub struct Sharing {
    place: String,
    worker: String,
    stream: Arc<Stream>,
    table: Option<Table>,
    rules: Rules,
    /// What this one has read itself, also in earlier lives; of this one what is durable.
    places: Places,
    events: Sender<Event>,
    trouble: Trouble,
    room: Arc<Semaphore>,
    leases: Option<Arc<Leases>>,
    /// The ARN of the consumer.
    consumer: Option<Arc<str>>,
    readers: JoinSet<Result<(String, bool), ConnectorError>>,
    held: BTreeMap<String, Held>,
    /// Readers that have been told to stop, of shards that are not held any more.
    stopping: BTreeSet<String>,
    /// How far this life has handed on shards that were held before, and are not held now.
    handed_on: BTreeMap<String, String>,
    seen: BTreeMap<String, Seen>,
    synced: Option<Instant>,
    /// Shards that are read and gone, of which the source has not been told.
    forgotten: Vec<String>,
}

/// The counter of a lease.
struct Seen {
    counter: u64,
    /// The counter has stood still since then.
    since: Instant,
    /// Whoever has the lease was alive: the counter has moved while this one looked.
    moved: bool,
}

/// A lease of this worker.
struct Held {
    lease: Lease,
    hold: Arc<Hold>,
    running: bool,
    /// Its reader has come to the end of the shard.
    ended: bool,
    /// Somebody else has asked for it.
    leaving: bool,
    since: Instant,
    /// When the table was told how far the shard is read, and how many records had been handed on then.
    told: (Instant, u64),
}

impl Sharing {
    #[expect(clippy::too_many_arguments, reason = "they are what a stream is, and come from one place")]
    pub fn new(
        place: String,
        worker: String,
        stream: Stream,
        table: Table,
        rules: Rules,
        places: Places,
        events: Sender<Event>,
        trouble: Trouble,
    ) -> Sharing {
        Sharing {
            place,
            worker,
            stream: Arc::new(stream),
            table: Some(table),
            rules,
            places,
            events,
            trouble,
            room: Arc::new(Semaphore::new(ANSWERS_MAX)),
            leases: None,
            consumer: None,
            readers: JoinSet::new(),
            held: BTreeMap::new(),
            stopping: BTreeSet::new(),
            handed_on: BTreeMap::new(),
            seen: BTreeMap::new(),
            synced: None,
            forgotten: Vec::new(),
        }
    }

    /// Ends with the source, which is when nobody tells any more what is durable.
    pub async fn run(mut self, stream: Access, table: Access, durable: watch::Receiver<Places>) -> Result<(), ConnectorError> {
        let mut told = durable.clone();
        let gone = async move { while told.changed().await.is_ok() {} };
        let ended = tokio::select! {
            ended = self.rounds(&stream, &table, durable.clone()) => ended,
            () = gone => Ok(()),
        };
        self.places = durable.borrow().clone();
        // What cannot be given back is taken by others after a while.
        let _ = tokio::time::timeout(END_TIME_MAX, self.give_back()).await;
        ended
    }

    async fn rounds(
        &mut self,
        stream: &Access,
        table: &Access,
        mut durable: watch::Receiver<Places>,
    ) -> Result<(), ConnectorError> {
        let kinesis = Client::open(&KINESIS, stream, None).await?;
        let kinesis = Arc::new(if self.rules.consumer.is_some() { kinesis.that_listens()? } else { kinesis });
        if let Some(consumer) = &self.rules.consumer {
            let Stream { name, retries, .. } = &*self.stream;
            self.consumer = Some(consumer.ensure(&kinesis, name, *retries, &self.place, &self.trouble).await?);
        }
        let client = Client::open(&DYNAMODB, table, None).await?;
        let Some(table) = self.table.take() else { return Ok(()) };
        let leases = Arc::new(Leases { table, client, place: self.place.clone(), trouble: self.trouble.clone() });
        leases.ensure().await?;
        self.leases = Some(leases.clone());
        let every = (self.rules.failover / 3).max(ROUND_MIN);
        let mut next = tokio::time::interval(every);
        next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = next.tick() => self.round(&leases, &kinesis).await?,
                Some(ended) = self.readers.join_next() => {
                    let ended = ended.map_err(|error| self.failed(format!("a reader has ended: {error}")))?;
                    let (shard, to_the_end) = ended?;
                    self.reader_ended(&shard, to_the_end);
                }
                Ok(()) = durable.changed() => {}
            }
            self.places = durable.borrow_and_update().clone();
            self.checkpoint_due(&leases).await?;
        }
    }

    fn failed(&self, problem: String) -> ConnectorError {
        ConnectorError::World { place: self.place.clone(), problem, fault: Fault::World, retryable: false, source: None }
    }

    fn reader_ended(&mut self, shard: &str, to_the_end: bool) {
        self.stopping.remove(shard);
        if let Some(held) = self.held.get_mut(shard) {
            held.running = false;
            held.ended |= to_the_end;
        }
    }

    async fn round(&mut self, leases: &Leases, kinesis: &Arc<Client>) -> Result<(), ConnectorError> {
        if self.synced.is_none_or(|at| at.elapsed() >= self.rules.sync) || self.held.values().any(|held| held.ended) {
            self.sync(leases, kinesis).await?;
            self.synced = Some(Instant::now());
        }
        self.tell_forgotten();
        let all = leases.all().await?;
        self.look(&all);
        self.renew(leases, &all).await?;
        self.take(leases, &all).await?;
        self.start(leases, kinesis, &all).await
    }

    /// Makes leases of shards that have none, and deletes those of shards that are read and gone.
    async fn sync(&mut self, leases: &Leases, kinesis: &Client) -> Result<(), ConnectorError> {
        let shards = list_shards(kinesis, &self.stream, &self.place, &self.trouble).await?;
        let all = leases.all().await?;
        for lease in new_leases(&shards, &all, self.rules.sentinel, now()) {
            leases.add(&lease).await?;
        }
        let listed: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        let mut gone: Vec<String> = Vec::new();
        for lease in all.iter().filter(|lease| self.rules.clean_up && lease.is_ended() && !listed.contains(lease.shard.as_str()))
        {
            leases.delete(lease).await?;
            gone.push(lease.shard.clone());
        }
        gone.retain(|shard| self.places.shards.get(shard) == Some(&Place::Read));
        self.forgotten.append(&mut gone);
        Ok(())
    }

    /// Tells the source of shards that are gone, when it has room: were that waited for, no lease would be renewed meanwhile.
    fn tell_forgotten(&mut self) {
        if !self.forgotten.is_empty()
            && let Ok(room) = self.events.try_reserve()
        {
            room.send(Event::Forgotten(std::mem::take(&mut self.forgotten)));
        }
    }

    /// Notes which counters have moved.
    fn look(&mut self, all: &[Lease]) {
        let now = Instant::now();
        self.seen.retain(|shard, _| all.iter().any(|lease| lease.shard == *shard));
        for lease in all {
            let first = || Seen { counter: lease.counter, since: now, moved: false };
            let seen = self.seen.entry(lease.shard.clone()).or_insert_with(first);
            if seen.counter != lease.counter {
                *seen = Seen { counter: lease.counter, since: now, moved: true };
            }
        }
    }

    fn is_free(&self, lease: &Lease) -> bool {
        let still = self.seen.get(&lease.shard).is_some_and(|seen| seen.since.elapsed() > self.rules.failover);
        lease.owner.is_none() || still || (lease.owner.as_deref() == Some(&self.worker) && !self.held.contains_key(&lease.shard))
    }

    /// The dead do not answer: theirs are taken when that is known.
    fn may_be_asked_for(&self, lease: &Lease, owner: &str) -> bool {
        let is_alive = self.seen.get(&lease.shard).is_some_and(|seen| seen.moved);
        is_alive && lease.owner.as_deref() == Some(owner) && lease.checkpoint_owner.is_none()
    }

    /// Says of each lease that this one is alive; lets go of those that others have taken.
    async fn renew(&mut self, leases: &Leases, all: &[Lease]) -> Result<(), ConnectorError> {
        let shards: Vec<String> = self.held.keys().cloned().collect();
        for shard in shards {
            let Some(now) = all.iter().find(|lease| lease.shard == shard) else {
                self.let_go(&shard);
                continue;
            };
            let mine = |owner: &Option<String>| owner.as_deref() == Some(self.worker.as_str());
            if mine(&now.checkpoint_owner) && !mine(&now.owner) {
                if let Some(held) = self.held.get_mut(&shard) {
                    held.leaving = true;
                    held.lease = now.clone();
                    held.hold.stop();
                }
                continue;
            }
            if !mine(&now.owner) {
                self.let_go(&shard);
                continue;
            }
            let asked = Instant::now();
            // One that has changed since is looked at in the next round: it may be that this one is asked for it.
            if let Ok(renewed) = leases.renew(now, &self.worker).await?
                && let Some(held) = self.held.get_mut(&shard)
            {
                held.lease = renewed;
                held.hold.renew(asked);
            }
        }
        self.answer_late(leases, all).await
    }

    /// Who was asked for a shard and died meanwhile says how far it was when it comes back.
    async fn answer_late(&mut self, leases: &Leases, all: &[Lease]) -> Result<(), ConnectorError> {
        let unanswered = |lease: &&Lease| {
            let asked = lease.checkpoint_owner.as_deref() == Some(&self.worker) && lease.owner.as_deref() != Some(&self.worker);
            let of_this_life = self.held.contains_key(&lease.shard) || self.handed_on.contains_key(&lease.shard);
            asked && !of_this_life && !self.stopping.contains(&lease.shard)
        };
        for lease in all.iter().filter(unanswered) {
            if let Some(reached) = self.reached(lease) {
                let _ = leases.checkpoint(lease, &self.worker, reached, true).await?;
            }
            let _ = leases.left(lease, &self.worker).await?;
        }
        Ok(())
    }

    /// What the table does not say yet: how far a shard has been read, as far as that is durable.
    fn reached(&self, lease: &Lease) -> Option<&str> {
        match self.places.shards.get(&lease.shard) {
            Some(Place::After(number)) if self.rules.checkpoints && further(number, &lease.checkpoint) => Some(number),
            // Others have to know of an end, whatever is told them: children wait for it.
            Some(Place::Read) if !lease.is_ended() => Some(SHARD_END),
            _ => None,
        }
    }

    /// It is somebody else's.
    fn let_go(&mut self, shard: &str) {
        let Some(held) = self.held.remove(shard) else { return };
        held.hold.stop();
        if held.running {
            self.stopping.insert(shard.to_owned());
        }
        if let Some(number) = held.hold.sent() {
            self.handed_on.insert(shard.to_owned(), number);
        }
    }

    /// Takes as many leases as fall to this one.
    async fn take(&mut self, leases: &Leases, all: &[Lease]) -> Result<(), ConnectorError> {
        let open: Vec<&Lease> = all.iter().filter(|lease| !lease.is_ended()).collect();
        let mut loads: BTreeMap<&str, usize> = BTreeMap::new();
        for lease in open.iter().filter(|lease| !self.is_free(lease)) {
            *loads.entry(lease.owner.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let others = loads.keys().filter(|owner| **owner != self.worker).count();
        let target = open.len().div_ceil(others + 1).min(self.rules.leases_max);
        let mut mine = self.held.values().filter(|held| !held.leaving && !held.lease.is_ended()).count();
        // What it had in an earlier life comes first.
        let mut free: Vec<&Lease> = open.iter().copied().filter(|lease| self.is_free(lease)).collect();
        free.retain(|lease| !self.held.contains_key(&lease.shard));
        free.sort_by_key(|lease| lease.owner.as_deref() != Some(self.worker.as_str()));
        let nothing_is_free = free.is_empty();
        for lease in free {
            if mine >= target {
                break;
            }
            let asked = Instant::now();
            // Nobody is asked: there is nobody, or nobody answers.
            if let Ok(taken) = leases.take(lease, &self.worker, false).await? {
                self.hold(taken, asked);
                mine += 1;
            }
        }
        let needed = target.saturating_sub(mine);
        let asked = Instant::now();
        let most = loads.iter().filter(|(owner, _)| **owner != self.worker).max_by_key(|(_, load)| **load);
        if let (Some((owner, load)), true, true) = (most, nothing_is_free, needed > 0)
            && (*load > target || (needed > 1 && *load > 1))
            && let Some(lease) = open.iter().find(|lease| self.may_be_asked_for(lease, owner))
            && let Ok(taken) = leases.take(lease, &self.worker, self.rules.hand_over.is_some()).await?
        {
            self.hold(taken, asked);
        }
        Ok(())
    }

    /// It is this one's, which was asked for at that moment.
    fn hold(&mut self, lease: Lease, asked: Instant) {
        // Some of what was handed on before may be under way still, and is waited for should the shard go again at once.
        let sent = self.handed_on.remove(&lease.shard);
        let held = Held {
            hold: Arc::new(Hold::new(self.rules.failover, asked, sent)),
            running: false,
            ended: false,
            leaving: false,
            since: Instant::now(),
            told: (Instant::now(), self.places.taken),
            lease: lease.clone(),
        };
        tracing::info!("{}: {} reads {}", self.place, self.worker, lease.shard);
        self.held.insert(lease.shard, held);
    }

    /// Starts readers of what is held, once nobody else reads it and its parents are read.
    async fn start(&mut self, leases: &Leases, kinesis: &Arc<Client>, all: &[Lease]) -> Result<(), ConnectorError> {
        let is_read = |parent: &String| all.iter().find(|lease| lease.shard == *parent).is_none_or(Lease::is_ended);
        let shards: Vec<String> = self.held.keys().cloned().collect();
        for shard in shards {
            let Some(held) = self.held.get(&shard) else { continue };
            if held.running
                || held.ended
                || held.leaving
                || self.stopping.contains(&shard)
                || !held.lease.parents.iter().all(is_read)
            {
                continue;
            }
            if let Some(before) = held.lease.checkpoint_owner.clone() {
                if held.since.elapsed() < self.rules.hand_over.unwrap_or_default() {
                    continue;
                }
                match leases.left(&held.lease, &before).await? {
                    Ok(lease) => self.held.entry(shard.clone()).and_modify(|held| held.lease = lease),
                    // It has said so meanwhile: the next round sees it.
                    Err(_) => continue,
                };
            }
            self.begin(&shard, kinesis);
        }
        Ok(())
    }

    fn begin(&mut self, shard: &str, kinesis: &Arc<Client>) {
        let Some(held) = self.held.get_mut(shard) else { return };
        let own = held.hold.sent().map(Place::After).or_else(|| self.places.shards.get(shard).cloned());
        let (at, begin) = begins(&held.lease, own, &self.stream.begin);
        if at == Some(Place::Read) {
            held.ended = true;
            return;
        }
        held.running = true;
        let stream = Arc::new(Stream { begin, ..(*self.stream).clone() });
        self.readers.spawn(
            Reader {
                client: kinesis.clone(),
                stream,
                place: self.place.clone(),
                from: held.lease.from,
                at,
                now: false,
                shard: shard.into(),
                events: self.events.clone(),
                room: self.room.clone(),
                trouble: self.trouble.of(shard),
                hold: Some(held.hold.clone()),
                consumer: self.consumer.clone(),
                quiet_until: None,
            }
            .run(),
        );
    }

    /// Tells the table how far shards are whose time it is, and gives away those that others wait for.
    async fn checkpoint_due(&mut self, leases: &Leases) -> Result<(), ConnectorError> {
        let shards: Vec<String> = self.held.keys().cloned().collect();
        for shard in shards {
            let Some(held) = self.held.get(&shard) else { continue };
            let due = held.told.0.elapsed() >= self.rules.checkpoint_after
                || self.places.taken.saturating_sub(held.told.1) >= self.rules.checkpoint_records;
            let end = self.places.shards.get(&shard) == Some(&Place::Read);
            if !(due || end || held.leaving) {
                continue;
            }
            if !self.checkpoint(leases, &shard).await? {
                continue;
            }
            let Some(held) = self.held.get(&shard) else { continue };
            if held.leaving && !held.running && self.is_durable(&shard, held) {
                // Whoever asked may have stopped waiting.
                let _ = leases.left(&held.lease, &self.worker).await?;
                self.let_go(&shard);
            } else if held.lease.is_ended() {
                // Nobody needs to renew it.
                let _ = leases.release(&held.lease, &self.worker).await?;
                self.let_go(&shard);
                self.synced = None;
            }
        }
        Ok(())
    }

    /// Whether all that its readers have handed on is durable.
    fn is_durable(&self, shard: &str, held: &Held) -> bool {
        let Some(sent) = held.hold.sent() else { return true };
        match self.places.shards.get(shard) {
            Some(Place::After(number)) => order(number, &sent) != Ordering::Less,
            Some(Place::Read) => true,
            _ => false,
        }
    }

    /// False: it may not be this one's any more, which the next round sees.
    async fn checkpoint(&mut self, leases: &Leases, shard: &str) -> Result<bool, ConnectorError> {
        let Some(held) = self.held.get(shard) else { return Ok(false) };
        let Some(reached) = self.reached(&held.lease) else { return Ok(true) };
        let told = leases.checkpoint(&held.lease, &self.worker, reached, held.leaving).await?;
        let (Ok(lease), Some(held)) = (told, self.held.get_mut(shard)) else { return Ok(false) };
        held.lease = lease;
        held.told = (Instant::now(), self.places.taken);
        Ok(true)
    }

    async fn give_back(&mut self) {
        self.held.values().for_each(|held| held.hold.stop());
        let Some(leases) = self.leases.clone() else { return };
        let shards: Vec<String> = self.held.keys().cloned().collect();
        for shard in shards {
            let told = self.checkpoint(&leases, &shard).await;
            let Some(held) = self.held.get(&shard).filter(|_| matches!(told, Ok(true))) else { continue };
            let given = match held.leaving {
                true => leases.left(&held.lease, &self.worker).await,
                false => leases.release(&held.lease, &self.worker).await,
            };
            if let Err(error) = given {
                tracing::debug!("{error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::aws::reader::Pace;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;

    fn table() -> Table {
        Table { name: "t".to_owned(), retries: 3, provisioned: None }
    }

    async fn leases(server: &StandIn) -> Leases {
        let client = Client::open(&DYNAMODB, &server.access(), None).await.unwrap();
        Leases { table: table(), client, place: "here".to_owned(), trouble: Trouble::new("here") }
    }

    fn sharing(failover: Duration, places: Places, events: Sender<Event>) -> Sharing {
        let rules = Rules {
            failover,
            sync: Duration::from_secs(60),
            clean_up: true,
            leases_max: 1,
            hand_over: None,
            checkpoint_records: 1,
            checkpoint_after: Duration::from_secs(60),
            checkpoints: true,
            sentinel: "LATEST",
            consumer: None,
        };
        let stream =
            Stream { name: "s".to_owned(), shard_ids: None, begin: Default::default(), retries: 3, pace: Pace::default() };
        let (place, worker) = ("here".to_owned(), "me".to_owned());
        Sharing::new(place, worker, stream, table(), rules, places, events, Trouble::new("here"))
    }

    #[test]
    fn rounds_go_on_while_the_source_has_no_room_to_be_told_of_shards_that_are_gone() {
        let server = StandIn::start(|asked| {
            let answer = match asked.operation.as_str() {
                "ListShards" => json!({"Shards": []}),
                "Scan" => {
                    let read = json!({"leaseKey": {"S": "a"}, "leaseCounter": {"N": "1"}, "checkpoint": {"S": SHARD_END}});
                    json!({"Items": [read]})
                }
                _ => json!({}),
            };
            (200, answer.to_string())
        });
        let (events, mut source) = channel(1);
        let places = Places { shards: BTreeMap::from([("a".to_owned(), Place::Read)]), ..Places::default() };
        let mut sharing = sharing(Duration::from_secs(60), places, events.clone());
        runtime().block_on(async {
            let kinesis = Arc::new(Client::open(&KINESIS, &server.access(), None).await.unwrap());
            let leases = leases(&server).await;
            assert!(events.try_send(Event::Ended("b".to_owned())).is_ok());
            let round = tokio::time::timeout(Duration::from_secs(30), sharing.round(&leases, &kinesis)).await;
            round.expect("it waits for nobody").unwrap();
            assert!(matches!(source.try_recv(), Ok(Event::Ended(shard)) if shard == "b"));
            assert!(source.try_recv().is_err());
            // Told once.
            for told in [true, false] {
                sharing.round(&leases, &kinesis).await.unwrap();
                let is_told = matches!(source.try_recv(), Ok(Event::Forgotten(gone)) if gone == ["a"]);
                assert_eq!(is_told, told);
            }
        });
    }

    #[test]
    fn a_hold_is_as_old_as_the_question_whether_it_is_ours() {
        let server = StandIn::start(|_| {
            std::thread::sleep(Duration::from_millis(300));
            let number = |n: &str| json!({"N": n});
            let lease = json!({"leaseKey": {"S": "a"}, "leaseOwner": {"S": "me"}, "leaseCounter": number("1"),
                "checkpoint": {"S": "7"}, "weirFrom": number("5")});
            (200, json!({"Attributes": lease}).to_string())
        });
        let lease = Lease { shard: "a".to_owned(), checkpoint: "7".to_owned(), from: 5, ..Lease::default() };
        runtime().block_on(async {
            let leases = leases(&server).await;
            // The answers come when others may have it.
            for (failover, has_lapsed) in [(100, true), (60_000, false)] {
                let mut sharing = sharing(Duration::from_millis(failover), Places::default(), channel(1).0);
                sharing.take(&leases, std::slice::from_ref(&lease)).await.unwrap();
                assert_eq!(sharing.held["a"].hold.has_lapsed(), has_lapsed);
                let owned = sharing.held["a"].lease.clone();
                sharing.renew(&leases, &[owned]).await.unwrap();
                assert_eq!(sharing.held["a"].hold.has_lapsed(), has_lapsed);
            }
        });
    }

    #[test]
    fn what_is_under_way_of_a_shard_that_comes_back_is_waited_for_when_it_goes_again_at_once() {
        let server = StandIn::start(|_| (200, json!({"ShardIterator": "i", "NextShardIterator": "i"}).to_string()));
        let lease = Lease { shard: "a".to_owned(), checkpoint: "5".to_owned(), ..Lease::default() };
        let (events, _source) = channel(1);
        let mut sharing = sharing(Duration::from_secs(60), Places::default(), events);
        sharing.handed_on.insert("a".to_owned(), "7".to_owned());
        runtime().block_on(async {
            let kinesis = Arc::new(Client::open(&KINESIS, &server.access(), None).await.unwrap());
            // Nothing comes before it goes: it goes before anybody reads it, or a moment later.
            for is_begun in [false, true] {
                sharing.hold(lease.clone(), Instant::now());
                if is_begun {
                    sharing.begin("a", &kinesis);
                }
                assert_eq!(sharing.held["a"].running, is_begun);
                assert!(!sharing.is_durable("a", &sharing.held["a"]), "begun: {is_begun}");
                sharing.let_go("a");
                assert_eq!(sharing.handed_on.get("a").map(String::as_str), Some("7"), "begun: {is_begun}");
            }
            sharing.hold(lease.clone(), Instant::now());
            sharing.places.shards.insert("a".to_owned(), Place::After("7".to_owned()));
            assert!(sharing.is_durable("a", &sharing.held["a"]));
        });
    }
}
