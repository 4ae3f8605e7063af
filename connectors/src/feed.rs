//! A feed: records that a task receives from the network whenever they come, for a source that is asked for them by a thread.
//!
//!     task ─ Inlet ─> queue, bounded in records and bytes ─ Feed::next ─> Frames
//!
//! What every source of this kind needs is here once: the bound that holds back the other side while the graph is behind,
//! the trouble that is shown while the task tries to come back, and an end that takes no longer than a moment.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinHandle};
use weir_model::Position;
use weir_model::lock::lock;

use crate::bell::{Bell, Call};
use crate::ends::Refused;
use crate::error::{ConnectorError, Fault};
use crate::frames::{Frames, Limits, Progress};
use crate::source::Source;

/// Bytes received and not asked for yet, at most; then the other side has to wait. Passed by one record that is larger.
const BYTES_WAITING_MAX: usize = 8 << 20;

/// Records received and not asked for yet, at most: they may have few bytes.
const RECORDS_WAITING_MAX: usize = 10_000;

/// The pause between two tries to reach the other side, at first.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The pause between two tries to reach the other side, at most.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A connection that has lasted this long works, also when nothing has come over it.
pub const LASTS_MIN: Duration = Duration::from_secs(5);

struct Item {
    /// None where there is only a position.
    bytes: Option<Vec<u8>>,
    /// Where the source stands after the record.
    position: Vec<u8>,
    /// What is known of it besides (`Origin`).
    origin: Vec<u8>,
    /// As `Inlet::connection` was when it came.
    connection: u64,
    _room: Option<OwnedSemaphorePermit>,
}

/// The end of the task.
pub struct Inlet {
    items: Sender<Item>,
    room: Arc<Semaphore>,
    trouble: Trouble,
    bell: Bell,
    known: Arc<Mutex<Known>>,
    /// How many connections there have been that begin with what earlier ones had not acknowledged.
    connection: Arc<AtomicU64>,
    lasts_min: Duration,
    _end: Knell,
}

/// Rings for the end of the task. The last of the fields, which go in their order: the channel is closed by then. Who goes to
/// rest before that is called, and who does later sees that it is closed.
struct Knell(Bell);

impl Drop for Knell {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// What is known of the connection.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    /// It stands, and what is left is to see it last.
    Stands(#[expect(dead_code, reason = "it is there to be dropped")] Lasting),
    /// As `Stands`, for a connection whose records do not say that it works.
    Begun(#[expect(dead_code, reason = "it is there to be dropped")] Lasting),
    Works,
}

/// The task that sees it last. It ends when that is of no interest any more.
struct Lasting(AbortHandle);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who tells the other side what is done. The positions of its records are their numbers.
pub trait Acknowledge: Send + Sync {
    /// Everything up to this record is durable.
    fn durable(&self, number: u64);

    /// The stream has ended.
    fn end(&self) {}
}

/// Who reads from one connection after another.
pub trait Reads: Send + 'static {
    /// Reads from one connection until it ends.
    fn connection(&mut self, inlet: &Inlet) -> impl Future<Output = Result<Infallible, Refused>> + Send;
}

/// The end of the source.
pub struct Feed {
    place: String,
    runtime: Handle,
    items: Receiver<Item>,
    task: JoinHandle<Result<(), ConnectorError>>,
    trouble: Trouble,
    position: Vec<u8>,
    bell: Bell,
    acknowledges: Option<Arc<dyn Acknowledge>>,
    /// What waits of connections before this one comes again.
    connection: Arc<AtomicU64>,
}

/// The number of a record, which counts since the stream was started last, as people are shown it.
pub fn shown_number(position: &[u8]) -> Option<Json> {
    Some(json!({"message": u64::from_le_bytes(position.try_into().ok()?)}))
}

impl Inlet {
    /// Hands on a record, as soon as there is room.
    pub async fn record(&self, bytes: Vec<u8>, position: Vec<u8>) {
        self.record_from(bytes, position, Vec::new()).await;
    }

    /// As `record`, with what is known of the record besides its bytes.
    pub async fn record_from(&self, bytes: Vec<u8>, position: Vec<u8>, origin: Vec<u8>) {
        if !matches!(*self.known(), Known::Works | Known::Begun(_)) {
            self.works();
        }
        // What is known of it besides may be larger than itself.
        let size = (bytes.len() + position.len() + origin.len()).min(BYTES_WAITING_MAX) as u32;
        let room = self.room.clone().acquire_many_owned(size).await.ok();
        // Nobody takes it any more: the task is about to end, too.
        let _ = self.items.send(self.item(Some(bytes), position, origin, room)).await;
        self.bell.ring();
    }

    /// As `record`, for one that is acknowledged by its number.
    pub async fn numbered(&self, bytes: Vec<u8>, number: u64) {
        self.record(bytes, number.to_le_bytes().to_vec()).await;
    }

    /// Says where the source stands when no record does.
    pub async fn stands(&self, position: Vec<u8>) {
        let _ = self.items.send(self.item(None, position, Vec::new(), None)).await;
        self.bell.ring();
    }

    fn item(&self, bytes: Option<Vec<u8>>, position: Vec<u8>, origin: Vec<u8>, room: Option<OwnedSemaphorePermit>) -> Item {
        Item { bytes, position, origin, connection: self.connection.load(Ordering::Relaxed), _room: room }
    }

    /// The other side gives again what earlier connections brought and nobody has acknowledged. What still waits of them is not
    /// handed out any more: it can never be acknowledged, and would take effect once more for each connection.
    pub fn drop_earlier(&self) {
        self.connection.fetch_add(1, Ordering::Relaxed);
    }

    /// What keeps records from coming.
    pub fn trouble(&self, reason: &str) {
        self.trouble.note(reason);
        self.bell.ring();
    }

    pub fn works(&self) {
        *self.known() = Known::Works;
        if self.trouble.clear() {
            self.bell.ring();
        }
    }

    /// A connection stands. It works when it has brought a record, or has lasted for a while: whoever lets us in may still throw
    /// us out.
    pub fn connected(&self) {
        let mut known = self.known();
        if matches!(*known, Known::Nothing) {
            *known = Known::Stands(self.lasting());
        }
    }

    /// A connection has begun. It works when it has lasted for a while, whatever it brings: of a server that says something to
    /// all who come, and then closes, records would say each time that all is well.
    pub fn begun(&self) {
        let lasting = self.lasting();
        *self.known() = Known::Begun(lasting);
    }

    /// Sees a connection last.
    fn lasting(&self) -> Lasting {
        let (shared, trouble, bell, lasts_min) = (self.known.clone(), self.trouble.clone(), self.bell.clone(), self.lasts_min);
        let lasting = tokio::spawn(async move {
            tokio::time::sleep(lasts_min).await;
            let cleared = {
                let mut known = lock(&shared);
                let lasts = matches!(*known, Known::Stands(_) | Known::Begun(_));
                if lasts {
                    *known = Known::Works;
                }
                // With the lock held: what is said of the end of the connection comes later, and stays.
                lasts && trouble.clear()
            };
            if cleared {
                bell.ring();
            }
        });
        Lasting(lasting.abort_handle())
    }

    /// A connection has ended. Whether it worked.
    pub fn ended(&self) -> bool {
        matches!(std::mem::take(&mut *self.known()), Known::Works)
    }

    /// Reads, for as long as another connection can help.
    pub async fn keep_reading(self, mut reader: impl Reads) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        loop {
            let Err(refused) = reader.connection(&self).await;
            self.again(refused, &mut pauses).await?;
        }
    }

    /// After a connection has ended: says why and waits, or gives the error where another one cannot help.
    pub async fn again(&self, refused: Refused, pauses: &mut Pauses) -> Result<(), ConnectorError> {
        let Refused::Passing(problem) = refused else {
            self.ended();
            return Err(refused.error(&self.trouble.place));
        };
        self.again_after(&problem, Duration::ZERO, pauses).await;
        Ok(())
    }

    /// As `again`, for what may work later; waits as long as the other side has asked for (`least`), or longer.
    pub async fn again_after(&self, problem: &str, least: Duration, pauses: &mut Pauses) {
        let worked = self.ended();
        self.trouble(problem);
        if worked {
            pauses.reset();
        }
        pauses.wait(least).await;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Drop for Inlet {
    /// The task has ended, in whichever way. What is left of it is said by its `Knell`.
    fn drop(&mut self) {
        *self.known() = Known::Nothing;
    }
}

impl Feed {
    /// Starts the task. It ends by itself when there is nothing more to come, or when trying again cannot help.
    pub fn start<F>(runtime: &Handle, place: &str, position: Vec<u8>, run: impl FnOnce(Inlet) -> F) -> Feed
    where
        F: Future<Output = Result<(), ConnectorError>> + Send + 'static,
    {
        let (sender, items) = channel(RECORDS_WAITING_MAX);
        let trouble = Trouble::new(place);
        let room = Arc::new(Semaphore::new(BYTES_WAITING_MAX));
        let bell = Bell::default();
        let connection = Arc::<AtomicU64>::default();
        let inlet = Inlet {
            items: sender,
            room,
            trouble: trouble.clone(),
            bell: bell.clone(),
            known: Arc::default(),
            connection: connection.clone(),
            lasts_min: LASTS_MIN,
            _end: Knell(bell.clone()),
        };
        let task = runtime.spawn(run(inlet));
        let (place, runtime) = (place.to_owned(), runtime.clone());
        Feed { place, runtime, items, task, trouble, position, bell, acknowledges: None, connection }
    }

    pub fn acknowledged_by(mut self, keeper: Arc<dyn Acknowledge>) -> Feed {
        self.acknowledges = Some(keeper);
        self
    }

    /// How the task has ended.
    fn end(&mut self) -> Result<Progress, ConnectorError> {
        match self.runtime.block_on(&mut self.task) {
            Ok(ended) => ended.map(|()| Progress::Finished),
            Err(error) => Err(ConnectorError::World {
                place: self.place.clone(),
                problem: format!("the task that receives has ended: {error}"),
                fault: Fault::World,
                retryable: false,
                source: None,
            }),
        }
    }
}

impl Source for Feed {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        let mut ended = false;
        while !batch.full(limits) {
            let item = match self.items.try_recv() {
                Ok(item) => Some(item),
                Err(_) if !batch.is_empty() => break,
                Err(_) => {
                    let wait = deadline.saturating_duration_since(Instant::now());
                    let (runtime, items) = (&self.runtime, &mut self.items);
                    match runtime.block_on(async { tokio::time::timeout(wait, items.recv()).await }) {
                        Ok(item) => item,
                        Err(_) => break,
                    }
                }
            };
            let Some(item) = item else {
                ended = true;
                break;
            };
            // Looked at for each: a connection may begin meanwhile.
            if item.connection < self.connection.load(Ordering::Relaxed) {
                continue;
            }
            if let Some(bytes) = &item.bytes {
                batch.push(bytes);
                if !item.origin.is_empty() {
                    batch.tell(|origin| origin.raw(&item.origin));
                }
            }
            self.position = item.position;
        }
        batch.position.0.clear();
        batch.position.0.extend_from_slice(&self.position);
        if ended { self.end() } else { Ok(Progress::More) }
    }

    fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        // An empty one is that of before the first record. Those of an earlier life do not come here: nothing is read at them.
        if let (Some(keeper), Some(number)) = (&self.acknowledges, position.0.first_chunk::<8>()) {
            keeper.durable(u64::from_le_bytes(*number));
        }
        Ok(())
    }

    fn rest(&mut self, call: Call) -> bool {
        let items = &self.items;
        self.bell.arm_unless(call, || !items.is_empty() || items.is_closed())
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(keeper) = &self.acknowledges {
            keeper.end();
        }
        self.task.abort();
    }
}

/// Growing pauses between tries.
pub struct Pauses {
    next: Duration,
}

impl Pauses {
    pub fn new() -> Pauses {
        Pauses { next: PAUSE_MIN }
    }

    pub fn reset(&mut self) {
        *self = Pauses::new();
    }

    /// Waits, `least` or longer.
    pub async fn wait(&mut self, least: Duration) {
        tokio::time::sleep(crate::delivery::jittered(self.next).max(least)).await;
        self.next = (self.next * 2).min(PAUSE_MAX);
    }
}

/// What keeps a task from its work, if anything. Said in the log when it begins and when it is over.
#[derive(Clone)]
pub struct Trouble {
    place: String,
    /// By place: that of the whole, which comes first, and those of its parts.
    reasons: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Trouble {
    pub fn new(place: &str) -> Trouble {
        Trouble { place: place.to_owned(), reasons: Arc::default() }
    }

    /// The trouble of a part, which works or does not by itself: what one part can do says nothing of the others. Whoever asks
    /// what is wrong with the whole is told.
    pub fn of(&self, part: &str) -> Trouble {
        Trouble { place: format!("{}, {part}", self.place), reasons: self.reasons.clone() }
    }

    pub fn note(&self, reason: &str) {
        if self.lock().insert(self.place.clone(), reason.to_owned()).is_none() {
            tracing::warn!("{}: {reason}; it is tried again", self.place);
        }
    }

    /// Whether there was any.
    pub fn clear(&self) -> bool {
        let cleared = self.forget();
        if cleared {
            tracing::info!("{}: it works again", self.place);
        }
        cleared
    }

    /// As `clear`, without a word in the log: the trouble is nobody's any more.
    pub fn forget(&self) -> bool {
        self.lock().remove(&self.place).is_some()
    }

    /// The first there is, with its place, which the reason need not name.
    pub fn get(&self) -> Option<String> {
        self.lock().first_key_value().map(|(place, reason)| format!("{place}: {reason}"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        lock(&self.reasons)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn one_that_rests_is_called_for_a_record_for_trouble_and_at_the_end() {
        let runtime = runtime();
        let (go, mut gone) = tokio::sync::mpsc::channel(1);
        let mut feed = Feed::start(runtime.handle(), "here", Vec::new(), |inlet| async move {
            gone.recv().await;
            inlet.record(vec![1], vec![1]).await;
            gone.recv().await;
            inlet.trouble("a word");
            gone.recv().await;
            inlet.works();
            // Nothing new: nobody is called.
            inlet.works();
            gone.recv().await;
            Ok(())
        });
        let limits = Limits { wait_max: Duration::from_millis(50), ..Limits::default() };
        let (mut batch, mut progress) = (Frames::default(), Progress::More);
        for expected in [(1, false), (0, true), (0, false), (0, false)] {
            let (call, called) = crossbeam_channel::bounded(1);
            assert!(feed.rest(Box::new(move || call.send(()).unwrap())), "{expected:?}");
            assert!(called.recv_timeout(Duration::from_millis(50)).is_err(), "nothing has come yet: {expected:?}");
            runtime.block_on(go.send(())).unwrap();
            called.recv_timeout(Duration::from_secs(60)).expect("a call");
            if expected.0 == 1 {
                assert!(!feed.rest(Box::new(|| panic!("it has come before"))));
            }
            batch.clear();
            progress = feed.next(&limits, &mut batch).unwrap();
            assert_eq!((batch.len(), feed.trouble().is_some()), expected);
        }
        assert_eq!(progress, Progress::Finished);
        assert!(!feed.rest(Box::new(|| panic!("it has ended before"))));
    }

    #[test]
    fn what_waits_of_earlier_connections_is_not_handed_out_where_it_comes_again() {
        let runtime = runtime();
        let (go, mut gone) = tokio::sync::mpsc::channel(1);
        let (say, mut said) = tokio::sync::mpsc::channel(1);
        let mut feed = Feed::start(runtime.handle(), "here", Vec::new(), |inlet| async move {
            for connection in 1..=3 {
                inlet.drop_earlier();
                inlet.record(vec![connection], vec![connection, 1]).await;
                inlet.record(vec![connection], vec![connection, 2]).await;
            }
            say.send(()).await.unwrap();
            gone.recv().await;
            inlet.drop_earlier();
            say.send(()).await.unwrap();
            gone.recv().await;
            inlet.record(vec![4], vec![4, 1]).await;
            Ok(())
        });
        let mut next = |wait: Duration| {
            let (limits, mut batch) = (Limits { records_max: 1, wait_max: wait, ..Limits::default() }, Frames::default());
            feed.next(&limits, &mut batch).unwrap();
            ((0..batch.len()).map(|index| batch.get(index).bytes.to_vec()).collect::<Vec<_>>(), batch.position.0)
        };
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(60));
        runtime.block_on(said.recv()).unwrap();
        assert_eq!(next(long), (vec![vec![3]], vec![3, 1]), "six wait, and two of them can be acknowledged");
        runtime.block_on(go.send(())).unwrap();
        runtime.block_on(said.recv()).unwrap();
        assert_eq!(next(short), (vec![], vec![3, 1]), "the last of them comes again, too");
        runtime.block_on(go.send(())).unwrap();
        assert_eq!(next(long), (vec![vec![4]], vec![4, 1]));
    }

    /// Much longer than a machine stands still between two lines of a test.
    const TEST_LASTS_MIN: Duration = Duration::from_secs(2);

    fn inlet(items: Sender<Item>, trouble: Trouble, lasts_min: Duration) -> Inlet {
        let (room, bell) = (Arc::new(Semaphore::new(BYTES_WAITING_MAX)), Bell::default());
        let (known, connection) = Default::default();
        Inlet { items, room, trouble, bell: bell.clone(), known, connection, lasts_min, _end: Knell(bell) }
    }

    #[test]
    fn each_part_has_troubles_of_its_own_and_the_whole_has_all_of_them() {
        let whole = Trouble::new("here");
        let (one, other) = (whole.of("one"), whole.of("other"));
        other.note("a word");
        assert!(!one.clear() && !whole.clear());
        assert_eq!(whole.get().as_deref(), Some("here, other: a word"));
        whole.note("all of it");
        assert_eq!(whole.get().as_deref(), Some("here: all of it"));
        assert!(whole.clear() && other.forget());
        assert_eq!(whole.get(), None);
    }

    #[test]
    fn whoever_is_called_for_the_end_sees_it() {
        let (items, received) = channel(10);
        let inlet = inlet(items, Trouble::new("here"), LASTS_MIN);
        let (seen, ended) = crossbeam_channel::bounded(1);
        inlet.bell.arm(Box::new(move || seen.send(received.is_closed()).unwrap()));
        drop(inlet);
        assert_eq!(ended.try_recv(), Ok(true), "called, and when the channel was closed");
    }

    #[test]
    fn a_connection_works_when_it_has_brought_a_record_or_has_lasted() {
        let (items, _received) = channel(10);
        let trouble = Trouble::new("here");
        let inlet = inlet(items, trouble.clone(), TEST_LASTS_MIN);
        let mut pauses = Pauses::new();
        runtime().block_on(async {
            let again = async |pauses: &mut Pauses| inlet.again(Refused::Passing("a word".to_owned()), pauses).await.unwrap();
            // Those that stand and end at once.
            for times in [2, 4] {
                inlet.connected();
                again(&mut pauses).await;
                assert_eq!((pauses.next, trouble.get().is_some()), (PAUSE_MIN * times, true));
            }
            inlet.connected();
            assert!(trouble.get().is_some(), "that it stands says nothing yet");
            inlet.record(vec![1], vec![1]).await;
            assert_eq!(trouble.get(), None);
            again(&mut pauses).await;
            assert_eq!((pauses.next, trouble.get().is_some()), (PAUSE_MIN * 2, true));
            // Nothing comes over this one, and what is said of it more than once changes nothing.
            let since = Instant::now();
            while trouble.get().is_some() {
                assert!(since.elapsed() < Duration::from_secs(60), "it has lasted");
                inlet.connected();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert!(since.elapsed() >= TEST_LASTS_MIN, "{:?}", since.elapsed());
            again(&mut pauses).await;
            assert_eq!(pauses.next, PAUSE_MIN * 2);
            // The end of one is not taken back later.
            inlet.connected();
            again(&mut pauses).await;
            tokio::time::sleep(TEST_LASTS_MIN + Duration::from_millis(300)).await;
            assert!(trouble.get().is_some());
        });
    }

    #[test]
    fn of_one_that_says_something_to_all_who_come_records_say_nothing() {
        let (items, _received) = channel(10);
        let trouble = Trouble::new("here");
        let inlet = inlet(items, trouble.clone(), TEST_LASTS_MIN);
        let mut pauses = Pauses::new();
        runtime().block_on(async {
            for times in [2, 4] {
                inlet.begun();
                inlet.record(vec![1], vec![1]).await;
                inlet.again_after("a word", Duration::ZERO, &mut pauses).await;
                assert_eq!((pauses.next, trouble.get().is_some()), (PAUSE_MIN * times, true));
            }
            inlet.begun();
            inlet.record(vec![1], vec![1]).await;
            assert!(trouble.get().is_some(), "that it brings something says nothing yet");
            let since = Instant::now();
            while trouble.get().is_some() {
                assert!(since.elapsed() < Duration::from_secs(60), "it has lasted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let begun = Instant::now();
            inlet.again_after("a word", Duration::from_millis(400), &mut pauses).await;
            assert!(begun.elapsed() >= Duration::from_millis(400), "the other side has asked for so long");
            assert_eq!(pauses.next, PAUSE_MIN * 2);
        });
    }

    #[test]
    fn what_waits_is_bounded_and_comes_in_order_before_the_end() {
        let runtime = runtime();
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let mut feed = Feed::start(runtime.handle(), "here", Vec::new(), |inlet| async move {
            for n in 0..40u8 {
                inlet.record(vec![n; 1 << 20], vec![n]).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            inlet.trouble("a word");
            Err(ConnectorError::config("", "enough"))
        });
        let begun = Instant::now();
        while sent.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "none waits");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(200));
        let waiting = sent.load(Ordering::Relaxed);
        assert!((1..=8).contains(&waiting), "{waiting} records of 1 MiB wait");
        let (mut batch, mut seen) = (Frames::default(), Vec::new());
        let limits = Limits { wait_max: Duration::from_secs(5), ..Limits::default() };
        let ended = loop {
            batch.clear();
            let progress = feed.next(&limits, &mut batch);
            seen.extend((0..batch.len()).map(|index| batch.get(index).bytes[0]));
            match progress {
                Ok(_) => assert_eq!(batch.position.0.first(), seen.last()),
                Err(error) => break error,
            }
        };
        assert_eq!(seen, (0..40).collect::<Vec<u8>>());
        assert!(ended.to_string().contains("enough") && feed.trouble().is_some_and(|word| word == "here: a word"));
    }
}
