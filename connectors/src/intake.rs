//! An intake: records that clients hand in by requests, and the source that gives them to the graph.
//!
//!     request ─ Intake::hand_in ─> queue, bounded in requests and bytes ─ Desk ─> Frames
//!        <───── Taken ────────────────────── durable(position) ────────────┘
//!
//! A request is answered when everything in it is durable. One that bears a key has its effect once, however often it comes:
//! the position, which is stored with the effect, holds the keys of the newest requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use weir_model::Position;

use crate::bell::{Bell, Call};
use crate::body::Records;
use crate::error::{ConnectorError, Fault};
use crate::frames::{Frames, Limits, Progress};
use crate::source::Source;

/// Requests that wait for the source; then clients have to.
const REQUESTS_WAITING_MAX: usize = 1_000;

/// Bytes of the requests that wait, at most. Passed by one request that is larger.
const BYTES_WAITING_MAX: usize = 8 << 20;

/// A request waits this long for room, then it is told to come again.
const ROOM_TIME_MAX: Duration = Duration::from_secs(5);

/// A request waits this long for its records to be durable.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(60);

/// How soon the source comes back while somebody waits for an answer.
const ANSWER_LOOK: Duration = Duration::from_millis(1);

/// A key as it is remembered.
type Key = [u8; 16];

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    pub records: usize,
    /// It has had its effect before.
    pub repeated: bool,
}

/// Why a request was not answered as it wants to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// The graph is behind. Nothing of the request was taken.
    Full,
    /// It may have had its effect.
    Late,
    /// The stream was stopped before.
    Ended,
}

struct Handed {
    records: Records,
    key: Option<Key>,
    receipt: oneshot::Sender<Taken>,
    _room: OwnedSemaphorePermit,
}

/// Where requests and the source of a stream find each other.
#[derive(Clone)]
pub struct Intake {
    sender: Sender<Handed>,
    receiver: Arc<Mutex<Receiver<Handed>>>,
    room: Arc<Semaphore>,
    bell: Bell,
    /// The source has ended, and none has been opened since. Before the first one requests wait for it.
    ended: Arc<AtomicBool>,
}

impl Default for Intake {
    fn default() -> Intake {
        let (sender, receiver) = channel(REQUESTS_WAITING_MAX);
        Intake {
            sender,
            receiver: Arc::new(Mutex::new(receiver)),
            room: Arc::new(Semaphore::new(BYTES_WAITING_MAX)),
            bell: Bell::default(),
            ended: Arc::default(),
        }
    }
}

impl Intake {
    /// Waits until the records are durable.
    pub async fn hand_in(&self, records: Records, key: Option<&str>) -> Result<Taken, NotTaken> {
        let key = key.map(digest);
        if records.is_empty() {
            return Ok(Taken { records: 0, repeated: false });
        }
        let bytes = records.byte_count().clamp(1, BYTES_WAITING_MAX) as u32;
        let (receipt, mut taken) = oneshot::channel();
        let enter = async {
            let room = self.room.clone().acquire_many_owned(bytes).await.ok()?;
            let place = self.sender.reserve().await.ok()?;
            place.send(Handed { records, key, receipt, _room: room });
            self.bell.ring();
            Some(())
        };
        match timeout(ROOM_TIME_MAX, enter).await {
            Ok(Some(())) => {}
            Ok(None) => return Err(NotTaken::Ended),
            Err(_) => return Err(NotTaken::Full),
        }
        // Either a source that ends finds what was put there, or it is seen here that it has ended.
        fence(Ordering::SeqCst);
        if self.ended.load(Ordering::Relaxed) {
            // It may have answered before.
            return taken.try_recv().map_err(|_| NotTaken::Ended);
        }
        match timeout(DURABLE_TIME_MAX, taken).await {
            Ok(taken) => taken.map_err(|_| NotTaken::Ended),
            Err(_) => Err(NotTaken::Late),
        }
    }

    /// The source, at a position it gave. One at a time.
    pub(crate) fn open(
        &self,
        place: &str,
        keys_max: usize,
        runtime: &Handle,
        from: Option<&Position>,
    ) -> Result<Box<dyn Source>, ConnectorError> {
        let queue = self.receiver.clone().try_lock_owned().map_err(|_| ConnectorError::World {
            place: place.to_owned(),
            problem: "the stream is read already".to_owned(),
            fault: Fault::World,
            retryable: true,
            source: None,
        })?;
        let stood = match from.filter(|position| !position.0.is_empty()) {
            None => Stood::default(),
            Some(position) => Stood::read(&position.0).ok_or_else(|| ConnectorError::Position {
                place: place.to_owned(),
                problem: "the stored position is not one of this kind of source".to_owned(),
            })?,
        };
        let durable = stood.requests;
        let waiting = VecDeque::new();
        let (bell, ended) = (self.bell.clone(), self.ended.clone());
        ended.store(false, Ordering::Relaxed);
        Ok(Box::new(Desk { queue, bell, ended, runtime: runtime.clone(), keys_max, stood, durable, current: None, waiting }))
    }
}

fn digest(key: &str) -> Key {
    let mut short = Key::default();
    short.copy_from_slice(&Sha256::digest(key.as_bytes())[..16]);
    short
}

/// Where the source stands: what a position holds.
#[derive(Clone, PartialEq, Debug, Default)]
struct Stood {
    /// Requests whose records are all handed on, since the stream was made.
    requests: u64,
    /// The newest of those that have keys, with their numbers.
    keys: VecDeque<(Key, u64)>,
    /// Requests that are not all handed on, with how many of their records are. One is under way; the others were when weir was
    /// killed, and have not come again.
    parts: VecDeque<(Key, u64)>,
}

/// A position as people are shown it.
pub(crate) fn shown_position(position: &[u8]) -> Option<Json> {
    Stood::read(position).map(|stood| json!({"requests": stood.requests}))
}

impl Stood {
    const VERSION: u8 = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(Stood::VERSION);
        out.extend_from_slice(&self.requests.to_le_bytes());
        out.extend_from_slice(&(self.parts.len() as u64).to_le_bytes());
        for (key, number) in self.parts.iter().chain(&self.keys) {
            out.extend_from_slice(key);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Option<Stood> {
        let (version, rest) = bytes.split_first()?;
        let (requests, rest) = rest.split_first_chunk::<8>()?;
        let (parts_count, rest) = rest.split_first_chunk::<8>()?;
        let (entries, left) = rest.as_chunks::<24>();
        let entry = |bytes: &[u8; 24]| {
            let (key, number) = bytes.split_first_chunk::<16>()?;
            Some((*key, u64::from_le_bytes(number.try_into().ok()?)))
        };
        let mut parts = entries.iter().map(entry).collect::<Option<VecDeque<_>>>()?;
        let count = usize::try_from(u64::from_le_bytes(*parts_count)).ok().filter(|count| *count <= parts.len())?;
        let keys = parts.split_off(count);
        let stood = Stood { requests: u64::from_le_bytes(*requests), keys, parts };
        (*version == Stood::VERSION && left.is_empty()).then_some(stood)
    }
}

/// The end of the source.
struct Desk {
    queue: OwnedMutexGuard<Receiver<Handed>>,
    bell: Bell,
    ended: Arc<AtomicBool>,
    runtime: Handle,
    keys_max: usize,
    stood: Stood,
    /// The number of the last request that is durable.
    durable: u64,
    /// A request, and how many of its records are handed on.
    current: Option<(Handed, usize)>,
    /// Requests that wait for one to be durable.
    waiting: VecDeque<(u64, oneshot::Sender<Taken>, Taken)>,
}

impl Desk {
    /// The next request, if there is one until then.
    fn receive(&mut self, wait: Duration) -> Option<Handed> {
        if let Ok(handed) = self.queue.try_recv() {
            return Some(handed);
        }
        if wait.is_zero() {
            return None;
        }
        let (runtime, queue) = (&self.runtime, &mut self.queue);
        runtime.block_on(async { timeout(wait, queue.recv()).await }).ok().flatten()
    }

    fn begin(&mut self, handed: Handed) {
        // Whoever sent it has given up before anything came of it.
        if handed.receipt.is_closed() {
            return;
        }
        let before = handed.key.and_then(|key| self.stood.keys.iter().find(|(known, _)| *known == key));
        if let Some((_, number)) = before {
            let taken = Taken { records: handed.records.len(), repeated: true };
            self.answer(*number, handed.receipt, taken);
            return;
        }
        // Of a request that was cut off by a restart the beginning is there.
        let part = self.stood.parts.iter().find(|(key, _)| handed.key == Some(*key));
        let done = part.map_or(0, |(_, done)| usize::try_from(*done).unwrap_or(usize::MAX).min(handed.records.len()));
        self.current = Some((handed, done));
    }

    /// Answers when the request of that number is durable.
    fn answer(&mut self, number: u64, receipt: oneshot::Sender<Taken>, taken: Taken) {
        if number <= self.durable {
            // Nobody waits for it any more, perhaps.
            let _ = receipt.send(taken);
        } else {
            self.waiting.push_back((number, receipt, taken));
        }
    }

    fn hand_on(&mut self, limits: &Limits, batch: &mut Frames) {
        let Some((handed, mut done)) = self.current.take() else { return };
        while done < handed.records.len() && !batch.full(limits) {
            batch.push(handed.records.get(done));
            done += 1;
        }
        let key = handed.key.filter(|_| self.keys_max > 0);
        self.stood.parts.retain(|(part, _)| Some(*part) != key);
        if done < handed.records.len() {
            self.stood.parts.extend(key.filter(|_| done > 0).map(|key| (key, done as u64)));
            while self.stood.parts.len() > self.keys_max {
                self.stood.parts.pop_front();
            }
            self.current = Some((handed, done));
            return;
        }
        self.stood.requests += 1;
        if let Some(key) = key {
            self.stood.keys.push_back((key, self.stood.requests));
            while self.stood.keys.len() > self.keys_max {
                self.stood.keys.pop_front();
            }
        }
        self.answer(self.stood.requests, handed.receipt, Taken { records: handed.records.len(), repeated: false });
    }
}

impl Source for Desk {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let wait_max = if self.waiting.is_empty() { limits.wait_max } else { limits.wait_max.min(ANSWER_LOOK) };
        let deadline = Instant::now() + wait_max;
        while !batch.full(limits) {
            if self.current.is_none() {
                let wait = if batch.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
                match self.receive(wait) {
                    Some(handed) => self.begin(handed),
                    None => break,
                }
            }
            self.hand_on(limits, batch);
        }
        self.stood.write(&mut batch.position.0);
        Ok(Progress::More)
    }

    fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        let Some(stood) = Stood::read(&position.0) else { return Ok(()) };
        self.durable = self.durable.max(stood.requests);
        let durable = self.durable;
        // Repetitions stand behind newer ones, so the whole line is looked through.
        let (done, waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(number, ..)| *number <= durable);
        self.waiting = waiting;
        for (_, receipt, taken) in done {
            let _ = receipt.send(taken);
        }
        Ok(())
    }

    fn rest(&mut self, call: Call) -> bool {
        let queue = &self.queue;
        self.current.is_none() && self.waiting.is_empty() && self.bell.arm_unless(call, || !queue.is_empty())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.bell.disarm();
        self.ended.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Their senders are told at once that nobody reads.
        while self.queue.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;
    use crate::body::Cut;
    use crate::conformance::runtime;

    const PATIENT: Limits = Limits { records_max: 1000, bytes_max: 1 << 20, wait_max: Duration::from_secs(30) };

    fn records(lines: &str) -> Records {
        Records::cut(lines.as_bytes().to_vec(), Cut::Lines).unwrap()
    }

    fn hand_in(
        runtime: &tokio::runtime::Runtime,
        intake: &Intake,
        lines: &str,
        key: Option<&'static str>,
    ) -> JoinHandle<Result<Taken, NotTaken>> {
        let (intake, records) = (intake.clone(), records(lines));
        runtime.spawn(async move { intake.hand_in(records, key).await })
    }

    fn next(source: &mut dyn Source, limits: &Limits) -> (Vec<String>, Position) {
        let mut batch = Frames::default();
        source.next(limits, &mut batch).unwrap();
        let texts = (0..batch.len()).map(|index| String::from_utf8(batch.get(index).bytes.to_vec()).unwrap());
        (texts.collect(), batch.position.clone())
    }

    fn answer(runtime: &tokio::runtime::Runtime, asked: JoinHandle<Result<Taken, NotTaken>>) -> Result<Taken, NotTaken> {
        runtime.block_on(async { timeout(Duration::from_secs(30), asked).await }).expect("an answer").unwrap()
    }

    #[test]
    fn a_request_is_answered_when_all_of_it_is_durable() {
        let (runtime, intake) = (runtime(), Intake::default());
        let mut source = intake.open("here", 10, runtime.handle(), None).unwrap();
        assert!(intake.open("here", 10, runtime.handle(), None).is_err(), "one at a time");
        let asked = hand_in(&runtime, &intake, "a\nb\nc", None);
        let two = Limits { records_max: 2, ..PATIENT };
        let (first, halfway) = next(&mut *source, &two);
        let (second, whole) = next(&mut *source, &two);
        assert_eq!((first, second), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
        source.durable(&halfway).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!asked.is_finished(), "only a part is durable");
        source.durable(&whole).unwrap();
        assert_eq!(answer(&runtime, asked), Ok(Taken { records: 3, repeated: false }));
        // The end of the source is told to those who wait, in the queue and out of it.
        let out = hand_in(&runtime, &intake, "d", None);
        assert_eq!(next(&mut *source, &PATIENT).0, ["d"]);
        let queued = hand_in(&runtime, &intake, "e", None);
        while intake.sender.capacity() == REQUESTS_WAITING_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(source);
        assert_eq!((answer(&runtime, out), answer(&runtime, queued)), (Err(NotTaken::Ended), Err(NotTaken::Ended)));
        // So it is to who comes later; nothing of that is left to the next one.
        let late = hand_in(&runtime, &intake, "f", None);
        assert_eq!(answer(&runtime, late), Err(NotTaken::Ended));
        let mut source = intake.open("here", 10, runtime.handle(), None).expect("the next one may open it");
        let asked = hand_in(&runtime, &intake, "g", None);
        let (records, whole) = next(&mut *source, &PATIENT);
        assert_eq!(records, ["g"]);
        source.durable(&whole).unwrap();
        assert_eq!(answer(&runtime, asked), Ok(Taken { records: 1, repeated: false }));
    }

    #[test]
    fn a_key_has_its_effect_once_also_after_a_restart_in_the_middle() {
        let (runtime, intake) = (runtime(), Intake::default());
        let one = Limits { records_max: 1, ..PATIENT };
        let quick = Limits { wait_max: Duration::from_millis(1), ..PATIENT };
        let mut source = intake.open("here", 3, runtime.handle(), None).unwrap();
        let asked = hand_in(&runtime, &intake, "a", Some("k1"));
        let (_, first) = next(&mut *source, &PATIENT);
        // Again while it is not durable: answered together with the first.
        let again = hand_in(&runtime, &intake, "a", Some("k1"));
        while intake.sender.capacity() == REQUESTS_WAITING_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(next(&mut *source, &quick).0, [""; 0]);
        assert!(!again.is_finished());
        source.durable(&first).unwrap();
        assert_eq!(answer(&runtime, asked), Ok(Taken { records: 1, repeated: false }));
        assert_eq!(answer(&runtime, again), Ok(Taken { records: 1, repeated: true }));
        // Killed when the first of two records is durable.
        let lost = hand_in(&runtime, &intake, "b\nc", Some("k2"));
        let (records, halfway) = next(&mut *source, &one);
        assert_eq!(records, ["b"]);
        drop((source, lost));
        let mut source = intake.open("here", 3, runtime.handle(), Some(&halfway)).unwrap();
        // Others come before it comes again.
        hand_in(&runtime, &intake, "x", Some("k0"));
        assert_eq!(next(&mut *source, &PATIENT).0, ["x"]);
        let again = hand_in(&runtime, &intake, "b\nc", Some("k2"));
        let (records, second) = next(&mut *source, &PATIENT);
        assert_eq!(records, ["c"]);
        source.durable(&second).unwrap();
        assert_eq!(answer(&runtime, again), Ok(Taken { records: 2, repeated: false }));
        // All are known after a restart; a fourth pushes out the first.
        drop(source);
        let mut source = intake.open("here", 3, runtime.handle(), Some(&second)).unwrap();
        let again = hand_in(&runtime, &intake, "a", Some("k1"));
        while intake.sender.capacity() == REQUESTS_WAITING_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(next(&mut *source, &Limits { wait_max: Duration::from_millis(500), ..PATIENT }).0, [""; 0]);
        assert_eq!(answer(&runtime, again), Ok(Taken { records: 1, repeated: true }));
        hand_in(&runtime, &intake, "d", Some("k3"));
        assert_eq!(next(&mut *source, &PATIENT).0, ["d"]);
        hand_in(&runtime, &intake, "a", Some("k1"));
        assert_eq!(next(&mut *source, &PATIENT).0, ["a"]);
        drop(source);
        for damaged in [vec![9; 3], vec![2; 33], vec![1; 40]] {
            let refused = intake.open("here", 2, runtime.handle(), Some(&Position(damaged))).err().unwrap();
            assert!(matches!(refused, ConnectorError::Position { .. }), "{refused}");
        }
    }

    #[test]
    fn what_waits_is_bounded_and_then_clients_are_told_so() {
        let (runtime, intake) = (runtime(), Intake::default());
        let large = "x".repeat(BYTES_WAITING_MAX / 2);
        let waiting: Vec<_> = (0..2).map(|_| hand_in(&runtime, &intake, &large, None)).collect();
        while intake.room.available_permits() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        let refused = runtime.block_on(intake.hand_in(records("y"), None));
        assert_eq!(refused, Err(NotTaken::Full));
        assert!(begun.elapsed() >= ROOM_TIME_MAX);
        // One that has given up leaves nothing behind.
        waiting.iter().for_each(JoinHandle::abort);
        while waiting.iter().any(|waiting| !waiting.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut source = intake.open("here", 2, runtime.handle(), None).unwrap();
        let asked = hand_in(&runtime, &intake, "z", None);
        assert_eq!(next(&mut *source, &PATIENT).0, ["z"]);
        drop((source, asked));
    }
}
