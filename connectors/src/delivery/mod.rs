//! Delivery: from encoded results to a destination, once for all of them. A bounded queue, one thread while there is something to
//! write, batches, retries, counters and an orderly end.
//!
//!     send ─> queue ─> batch ─ write, again after a while if that may help ─> delivered(mark, position)
//!
//! It does not know what a mark means: the caller gives one with each batch and is told when everything before it is out. How
//! often and how soon something is tried again says `retries`.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Receiver;
use weir_model::lock::lock;
use weir_model::{NodeId, Position};

use crate::destination::{Destination, Note, Written};
use crate::error::ConnectorError;
use crate::on_call::{Care, LOOK, OnCall, Refusal, Work};

mod retries;
pub use retries::{Retries, RetryPolicy};

/// Batches that wait for the destination; then whoever sends has to wait too.
const QUEUE_BATCHES_MAX: usize = 64;
/// Bytes of results that are put together for one write. What came together stays so.
const WRITE_BYTES_MAX: usize = 1 << 18;
/// How long at most the other side may ask to be left alone by one that gives results up after a few tries.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(60);
/// For an orderly end after it was asked for; longer than any destination but a hanging one needs.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// One encoded result.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outgoing {
    /// In the format of the output.
    pub body: Vec<u8>,
    /// False for a cancellation.
    pub positive: bool,
    /// Grows along the results of an output, and is the same for the same result after a restart.
    pub mark: u64,
    /// One id for a match and its cancellation, where the caller has one.
    pub id: Option<NodeId>,
}

/// What becomes of a result that the other side refuses for good, or that was tried too often.
pub enum OnRefused {
    /// It is counted and told of, and the next one comes.
    GiveUp,
    /// None is given up: what may pass is tried until it works, and what is refused for good ends the output.
    End,
    /// It is tried until it works, whatever the reason, and what comes behind it waits.
    Retry,
    /// It goes there, and what comes behind it waits until all of them have it.
    Letters(Box<dyn TakesRefused>),
}

impl OnRefused {
    /// What is left of the policy of an output.
    fn in_force(&self, policy: RetryPolicy) -> RetryPolicy {
        match self {
            OnRefused::GiveUp | OnRefused::Letters(_) => policy,
            OnRefused::End | OnRefused::Retry => RetryPolicy { tries_max: None, ..policy },
        }
    }
}

/// Where results go that the other side refuses.
pub trait TakesRefused: Send {
    /// True when they are there; false: stopped before. `late` is told why they are not there yet.
    fn take(&mut self, refused: &[(Outgoing, String)], stop: &AtomicBool, late: &mut dyn FnMut(String)) -> Result<bool, String>;

    fn close(&mut self, all: bool);
}

/// What has become of the results of one output. Read at any time.
#[derive(Debug, Default)]
pub struct DeliveryCounters {
    pub delivered: AtomicU64,
    pub bytes: AtomicU64,
    /// Given up: refused by the other side, or tried too often.
    pub failed: AtomicU64,
    /// Tries beyond the first.
    pub retries: AtomicU64,
    /// Dropped by a lossy destination because they came too fast.
    pub dropped: AtomicU64,
    /// Sent and not written yet.
    pub waiting: AtomicU64,
    /// Refused, and taken by the destinations of dead letters.
    pub dead_letters: AtomicU64,
    state: Mutex<DeliveryState>,
}

/// What a delivery is about.
#[derive(Clone, Debug, Default)]
pub struct DeliveryState {
    pub policy: RetryPolicy,
    /// Tries so far of what is tried again; 0 where nothing is.
    pub tries: u32,
    /// When the next one is, while it is waited for.
    pub next_try: Option<SystemTime>,
    /// Since when the other side has been asked, while it has not answered.
    pub asked: Option<Instant>,
    /// The newest thing that went wrong, also when it passed, and when that was.
    pub last_error: Option<(String, SystemTime)>,
}

impl DeliveryCounters {
    /// The newest thing that went wrong, also when it passed.
    pub fn last_error(&self) -> Option<String> {
        self.state().last_error.map(|(error, _)| error)
    }

    pub fn state(&self) -> DeliveryState {
        self.lock().clone()
    }

    /// Results that were given up before anybody was asked to take them.
    pub fn given_up(&self, count: u64, reason: &str) {
        self.failed.fetch_add(count, Ordering::Relaxed);
        self.note(reason);
    }

    /// Something went wrong.
    pub fn note(&self, error: &str) {
        self.lock().last_error = Some((error.to_owned(), SystemTime::now()));
    }

    /// What is tried again, or that nothing is.
    pub fn trying(&self, tries: u32, next_try: Option<SystemTime>) {
        let mut state = self.lock();
        (state.tries, state.next_try) = (tries, next_try);
    }

    /// Since when there is no answer.
    pub fn asking(&self, asked: Option<Instant>) {
        self.lock().asked = asked;
    }

    fn lock(&self) -> MutexGuard<'_, DeliveryState> {
        lock(&self.state)
    }
}

struct Batch {
    results: Vec<Outgoing>,
    /// What nobody is asked to take, and why.
    unfit: Vec<(Outgoing, String)>,
    mark: u64,
}

/// A running output.
pub struct Delivery {
    worker: OnCall<Worker>,
    lossy: bool,
    shared: Arc<Shared>,
    /// Its end was waited for.
    ended: bool,
}

struct Shared {
    output: String,
    counters: Arc<DeliveryCounters>,
    /// The newest mark whose results were dropped.
    dropped_up_to: AtomicU64,
    /// The destination has taken everything before this mark; of one that may lose, everything before it was sent.
    taken: AtomicU64,
    /// Somebody waits until everything before this mark counts as written.
    wanted: AtomicU64,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
    /// Since when.
    stopped: OnceLock<Instant>,
    /// Why the output has ended.
    failure: Mutex<Option<String>>,
}

/// Told after each write: everything before the mark is out, and where the destination stands.
pub type Delivered = Box<dyn FnMut(u64, Position) + Send>;

impl Delivery {
    /// The caller has stored `destination.position()` before: results written and not known of after a crash are written
    /// again otherwise. `output` is what it is called where it is told of, `retries` what it says over what its destination has.
    pub fn start(
        output: &str,
        mut destination: Box<dyn Destination>,
        on_refused: OnRefused,
        retries: Retries,
        delivered: Delivered,
    ) -> Delivery {
        let lossy = destination.lossy();
        let shared = Arc::new(Shared {
            output: output.to_owned(),
            counters: Arc::default(),
            dropped_up_to: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            stop: Arc::default(),
            stopped: OnceLock::new(),
            failure: Mutex::new(None),
        });
        destination.ends_by(&shared.stop);
        destination.tries_by_itself(retries);
        let (name, counters) = (shared.output.clone(), shared.counters.clone());
        let note: Note = Arc::new(move |problem: &str| {
            tracing::warn!("output {name}: {problem}");
            counters.note(problem);
        });
        destination.tells(&note);
        if matches!(on_refused, OnRefused::End | OnRefused::Retry) {
            destination.stops_at_refused();
        }
        let at = destination.position();
        let (held, tries, upper, told) = (0, 0, 0, 0);
        let worker = Worker { shared: shared.clone(), destination, delivered, on_refused, retries, held, tries, upper, told, at };
        shared.counters.lock().policy = worker.policy();
        Delivery { worker: OnCall::new(QUEUE_BATCHES_MAX, worker), lossy, shared, ended: false }
    }

    /// Hands over results, waiting while the queue is full. `mark` grows from call to call; no results are fine, and say
    /// that there is nothing before the mark. An error means that the output has ended.
    pub fn send(&self, results: Vec<Outgoing>, mark: u64) -> Result<(), ConnectorError> {
        self.send_all(results, Vec::new(), mark)
    }

    /// As `send`, with results that can only be refused (`unfit`).
    pub fn send_all(&self, results: Vec<Outgoing>, unfit: Vec<(Outgoing, String)>, mark: u64) -> Result<(), ConnectorError> {
        let count = (results.len() + unfit.len()) as u64;
        let waiting = &self.shared.counters.waiting;
        waiting.fetch_add(count, Ordering::Relaxed);
        let batch = Batch { results, unfit, mark };
        let sent = if self.lossy {
            self.worker.post_if_room(batch).map(|full| {
                if let Some(full) = full {
                    waiting.fetch_sub(count, Ordering::Relaxed);
                    self.shared.counters.dropped.fetch_add(count, Ordering::Relaxed);
                    self.shared.dropped_up_to.fetch_max(full.mark, Ordering::Release);
                }
                // Nobody waits for one that may lose: what is too much for it is dropped.
                self.shared.taken.fetch_max(mark, Ordering::Release);
            })
        } else {
            self.worker.post(batch, || self.shared.stop.load(Ordering::Relaxed))
        };
        match sent {
            Ok(()) if self.failure().is_none() => Ok(()),
            Err(Refusal::NoThread(error)) => Err(ConnectorError::io(&self.shared.output, "cannot start a thread", error)),
            _ => Err(self.shared.ended()),
        }
    }

    /// Whether what is sent next is taken without waiting.
    pub fn is_free(&self) -> bool {
        self.worker.is_free()
    }

    /// Whether what is sent next is taken without waiting for the other side.
    pub fn has_room(&self) -> bool {
        self.lossy || self.worker.has_room()
    }

    #[cfg(test)]
    fn is_resting(&self) -> bool {
        self.worker.is_resting()
    }

    pub fn counters(&self) -> &Arc<DeliveryCounters> {
        &self.shared.counters
    }

    /// For whoever ends it while another hands over results.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
    }

    /// Nobody has to wait for what comes before this mark: the destination has it, though it may not count as written yet.
    pub fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Acquire)
    }

    /// Somebody waits until everything before this mark counts as written: what the destination holds of it is stored as soon as
    /// all of it is taken.
    pub fn store_up_to(&self, mark: u64) {
        self.stopper().store_up_to(mark);
    }

    /// Why the output has ended by itself.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }

    /// Ends the output: what is waiting is written, as far as the time allows. Returns whether all of it was.
    pub fn close(mut self, patience: Duration) -> bool {
        self.end(patience)
    }

    fn end(&mut self, patience: Duration) -> bool {
        if !std::mem::replace(&mut self.ended, true) {
            self.worker.hang_up();
            if !self.worker.has_ended_within(patience) {
                let stopped = self.shared.stop();
                // A request that hangs is not waited for: the thread ends with it, or with the process. Outputs that were stopped
                // at the same time have their grace at the same time.
                self.worker.has_ended_within(STOP_GRACE.saturating_sub(stopped.elapsed()));
            }
        }
        self.shared.counters.waiting.load(Ordering::Relaxed) == 0
    }
}

/// A delivery from anywhere else, mainly to end it: nothing that waits is written any more, and nobody waits for room.
pub struct Stopper(Arc<Shared>);

impl Stopper {
    pub fn stop(&self) {
        self.0.stop();
    }

    /// As `Delivery::taken`.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Acquire)
    }

    /// As `Delivery::store_up_to`.
    pub fn store_up_to(&self, mark: u64) {
        self.0.wanted.fetch_max(mark, Ordering::Relaxed);
    }

    /// Why the delivery has ended by itself.
    pub fn failure(&self) -> Option<String> {
        lock(&self.0.failure).clone()
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl Shared {
    /// Answers with when it was stopped first.
    fn stop(&self) -> Instant {
        let stopped = *self.stopped.get_or_init(Instant::now);
        self.stop.store(true, Ordering::Relaxed);
        stopped
    }

    fn ended(&self) -> ConnectorError {
        let failure = lock(&self.failure).clone();
        ConnectorError::World {
            place: format!("output {}", self.output),
            problem: failure.unwrap_or_else(|| "the output was closed".to_owned()),
            fault: crate::error::Fault::World,
            retryable: false,
            source: None,
        }
    }

    fn fail(&self, reason: &str) {
        tracing::error!("output {} has ended: {reason}", self.output);
        lock(&self.failure).get_or_insert_with(|| reason.to_owned());
        self.counters.note(reason);
    }
}

struct Worker {
    shared: Arc<Shared>,
    destination: Box<dyn Destination>,
    delivered: Delivered,
    on_refused: OnRefused,
    /// What the output says over what its destination has.
    retries: Retries,
    /// Results that the destination has taken and that do not count as written yet.
    held: u64,
    /// Tries that the destination makes by itself.
    tries: u32,
    /// The destination has taken everything before this mark.
    upper: u64,
    /// Everything before this mark counts as written.
    told: u64,
    /// Where the destination stood then.
    at: Position,
}

impl Work for Worker {
    type Item = Batch;

    fn take(&mut self, first: Batch, more: &Receiver<Batch>) -> bool {
        let Batch { mut results, mut unfit, mut mark } = first;
        // Whatever waits goes along, so that a slow destination is asked less often.
        let bytes = |results: &[Outgoing]| results.iter().map(|result| result.body.len()).sum::<usize>();
        let mut size = bytes(&results);
        while results.len() < self.destination.results_max() && size < WRITE_BYTES_MAX {
            let Ok(more) = more.try_recv() else { break };
            size += bytes(&more.results);
            results.extend(more.results);
            unfit.extend(more.unfit);
            mark = more.mark;
        }
        let written = match self.refuse_unfit(&mut results, unfit) {
            Ok(true) => self.write(results, mark),
            other => other,
        };
        self.shared.counters.trying(0, None);
        match written {
            Ok(true) => {
                // Read before the queue is looked at: what was dropped came behind what the queue held then.
                let dropped = self.shared.dropped_up_to.load(Ordering::Acquire);
                let mark = if more.is_empty() { mark.max(dropped) } else { mark };
                self.upper = mark;
                self.tell();
                true
            }
            Ok(false) => false,
            Err(error) => {
                self.shared.fail(&error.to_string());
                false
            }
        }
    }

    fn is_quick(&self, batch: &Batch) -> bool {
        batch.results.is_empty() && batch.unfit.is_empty()
    }

    fn look_after(&mut self) -> Care {
        // Not before all of it is here, or it would be stored in many small parts.
        let wanted = self.shared.wanted.load(Ordering::Relaxed);
        if self.told < wanted && wanted <= self.upper {
            self.destination.store_now();
        }
        if let Err(error) = self.destination.idle() {
            let (reason, counters) = (error.to_string(), &self.shared.counters);
            if counters.last_error().as_ref() != Some(&reason) {
                tracing::warn!("output {}: {reason}", self.shared.output);
            }
            counters.note(&reason);
        }
        let tries = self.destination.tries();
        if tries != self.tries {
            let counters = &self.shared.counters;
            counters.retries.fetch_add(u64::from(tries > self.tries), Ordering::Relaxed);
            counters.trying(tries, None);
            self.tries = tries;
        }
        self.settle();
        match (self.held > 0 || self.told < self.upper, self.destination.rests()) {
            (true, _) => Care::Close,
            (false, false) => Care::Loose,
            (false, true) => Care::None,
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        if let Err(error) = self.destination.close() {
            self.shared.counters.note(&error.to_string());
            tracing::warn!("output {}: {error}", self.shared.output);
        }
        self.settle();
        if let OnRefused::Letters(letters) = &mut self.on_refused {
            letters.close(!self.shared.stop.load(Ordering::Relaxed));
        }
    }
}

impl Drop for Worker {
    /// Told at once: whoever waits until what was sent is taken sends nothing more, and would wait for ever.
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.fail("the delivery thread has panicked; this is a bug");
        }
    }
}

impl Worker {
    /// Tells what counts as written by now that did not when it was taken, and where the destination has moved to meanwhile.
    fn settle(&mut self) {
        self.released(0);
        if self.destination.settled(self.upper) > self.told || self.destination.position() != self.at {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told = self.destination.settled(self.upper).max(self.told);
        self.at = self.destination.position();
        self.shared.taken.fetch_max(self.upper, Ordering::Release);
        (self.delivered)(self.told, self.at.clone());
    }

    /// Everything before the mark is taken, of results that the output ends with: those from there on come again, and no others.
    fn ends_at(&mut self, mark: u64) {
        self.upper = self.upper.max(mark);
        if self.destination.settled(self.upper) > self.told {
            self.tell();
        }
    }

    /// Counts what was taken, without what is held, and with what is held no longer.
    fn released(&mut self, taken: u64) {
        let held = self.destination.held();
        let delivered = (taken + self.held).saturating_sub(held);
        self.held = held;
        self.shared.counters.delivered.fetch_add(delivered, Ordering::Relaxed);
        self.shared.counters.waiting.fetch_sub(delivered, Ordering::Relaxed);
    }

    /// How what fails now is tried again. One that is not opened yet may have another then.
    fn policy(&self) -> RetryPolicy {
        self.on_refused.in_force(self.retries.over(self.destination.retry()))
    }

    /// Writes all of the results or does with those that cannot be what is chosen for them. False: stopped before.
    fn write(&mut self, mut results: Vec<Outgoing>, upper: u64) -> Result<bool, ConnectorError> {
        let policy = self.policy();
        self.shared.counters.lock().policy = policy;
        let mut backoff = policy.backoff_min;
        // Of each of the results. Counted for all of them together, one that fails used up the tries of those behind it.
        let mut tries = vec![0; results.len()];
        while !results.is_empty() {
            let given = results.len();
            self.shared.counters.asking(Some(Instant::now()));
            let answer = self.destination.write(&results, upper);
            self.shared.counters.asking(None);
            let (reason, pause_min) = match answer {
                Ok(written) => {
                    let pause_min = written.pause_min;
                    let Some(reason) = self.sort_out(written, &mut results, &mut tries)? else { return Ok(false) };
                    (reason, pause_min)
                }
                Err(error) if error.retryable() => {
                    // Where nobody was asked: what this machine lacks does not speak against the other side.
                    if !matches!(error, ConnectorError::Secret { .. }) {
                        tries.iter_mut().for_each(|tries| *tries += 1);
                    }
                    (error.to_string(), Duration::ZERO)
                }
                Err(error) => return Err(error),
            };
            if results.is_empty() {
                return Ok(true);
            }
            self.shared.counters.note(&reason);
            if self.is_stopped() {
                return Ok(false);
            }
            if !self.give_up(&mut results, &mut tries, policy, &reason)? {
                return Ok(false);
            }
            let Some(first) = tries.first() else { return Ok(true) };
            let told = (*first).max(1);
            // Where some get through, the rest need not wait for long.
            if results.len() < given {
                backoff = policy.backoff_min;
            }
            tracing::warn!("output {}: {reason}; {} results are tried again", self.shared.output, results.len());
            self.shared.counters.retries.fetch_add(1, Ordering::Relaxed);
            let pause_max = if policy.tries_max.is_some() { ASKED_PAUSE_MAX } else { Duration::MAX };
            if !self.wait(jittered(backoff).max(pause_min.min(pause_max)), told) {
                return Ok(false);
            }
            backoff = (backoff * 2).min(policy.backoff_max);
        }
        Ok(true)
    }

    /// Leaves those of the results that are to be tried again, in their order, and says why the first of them is; those that are
    /// refused go their way. None: stopped before.
    fn sort_out(
        &mut self,
        mut written: Written,
        results: &mut Vec<Outgoing>,
        tries: &mut Vec<u32>,
    ) -> Result<Option<String>, ConnectorError> {
        let problem = written.refused.first().map(|(_, problem)| problem.clone());
        if let Some(problem) = &problem
            && matches!(self.on_refused, OnRefused::End)
        {
            let refusal = crate::http::refusal(&self.shared.output, format!("what it was sent is refused for good: {problem}"));
            let (left, refused) = self.count(std::mem::take(results), written.refused, &written.left);
            // Marks grow along the results, so that all before the lowest of these has been taken, now or earlier.
            let not_taken = left.iter().chain(refused.iter().map(|(result, _)| result));
            if let Some(first) = not_taken.map(|result| result.mark).min() {
                self.ends_at(first);
            }
            return Err(refusal);
        }
        let reason = written.left_reason.take().or(problem).unwrap_or_else(|| "not written".to_owned());
        if matches!(self.on_refused, OnRefused::Retry) {
            // Tried when those behind it were through, it would be overtaken by them: a match by its cancellation.
            written.left.extend(written.refused.drain(..).map(|(index, _)| index));
            written.left.sort_unstable();
        }
        *tries = written.tries(tries);
        let (left, refused) = self.count(std::mem::take(results), written.refused, &written.left);
        *results = left;
        Ok(self.refuse(refused)?.then_some(reason))
    }

    /// Waits before the next try. False: stopped before.
    fn wait(&self, pause: Duration, tries: u32) -> bool {
        self.shared.counters.trying(tries, Some(SystemTime::now() + pause));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.is_stopped() {
                return false;
            }
            thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
        self.shared.counters.trying(tries, None);
        true
    }

    /// Takes out those that were tried as often as the policy has it, and does with them what is chosen. False: stopped before.
    fn give_up(
        &mut self,
        results: &mut Vec<Outgoing>,
        tries: &mut Vec<u32>,
        policy: RetryPolicy,
        reason: &str,
    ) -> Result<bool, ConnectorError> {
        let Some(max) = policy.tries_max.filter(|max| tries.iter().any(|tries| tries >= max)) else { return Ok(true) };
        let comes_again: Vec<bool> = tries.iter().map(|tries| *tries < max).collect();
        self.destination.gave_up(&comes_again);
        let all = std::mem::take(results).into_iter().zip(std::mem::take(tries));
        let (over, left): (Vec<_>, Vec<_>) = all.partition(|(_, tries)| *tries >= max);
        (*results, *tries) = left.into_iter().unzip();
        self.refuse(over.into_iter().map(|(result, _)| (result, reason.to_owned())).collect())
    }

    /// Counts what is written; returns what is left, and what is refused.
    fn count(
        &mut self,
        results: Vec<Outgoing>,
        refused: Vec<(usize, String)>,
        left: &[usize],
    ) -> (Vec<Outgoing>, Vec<(Outgoing, String)>) {
        let mut reasons: HashMap<usize, String> = refused.into_iter().collect();
        let (mut remaining, mut given_back) = (Vec::with_capacity(left.len()), Vec::with_capacity(reasons.len()));
        let (mut delivered, mut bytes) = (0, 0);
        for (index, result) in results.into_iter().enumerate() {
            if left.binary_search(&index).is_ok() {
                remaining.push(result);
            } else if let Some(reason) = reasons.remove(&index) {
                given_back.push((result, reason));
            } else {
                delivered += 1;
                bytes += result.body.len() as u64;
            }
        }
        self.shared.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.released(delivered);
        (remaining, given_back)
    }

    /// Does what is chosen with results that nobody is asked to take. Where that ends the output, what comes before the first of
    /// them is written first: it may be of earlier batches, which would have got through by themselves.
    fn refuse_unfit(&mut self, results: &mut Vec<Outgoing>, unfit: Vec<(Outgoing, String)>) -> Result<bool, ConnectorError> {
        let ends = matches!(self.on_refused, OnRefused::End | OnRefused::Retry);
        if let Some(first) = unfit.iter().map(|(result, _)| result.mark).min().filter(|_| ends) {
            results.retain(|result| result.mark < first);
            if !self.write(std::mem::take(results), first)? {
                return Ok(false);
            }
            self.ends_at(first);
        }
        self.refuse(unfit)
    }

    /// Does what is chosen with results that are not written. False: stopped before.
    fn refuse(&mut self, refused: Vec<(Outgoing, String)>) -> Result<bool, ConnectorError> {
        let Some((_, reason)) = refused.first() else { return Ok(true) };
        let (shared, count) = (self.shared.clone(), refused.len() as u64);
        let (output, counters) = (&shared.output, &shared.counters);
        counters.note(reason);
        match &mut self.on_refused {
            OnRefused::Letters(letters) => {
                tracing::warn!("output {output}: {count} results were not delivered and go to the dead letters: {reason}");
                let mut late = |why: String| {
                    tracing::warn!("output {output}: {why}");
                    counters.note(&why);
                };
                match letters.take(&refused, &shared.stop, &mut late) {
                    Ok(true) => _ = counters.dead_letters.fetch_add(count, Ordering::Relaxed),
                    Ok(false) => return Ok(false),
                    Err(problem) => return Err(crate::http::refusal(output, problem)),
                }
            }
            // Nothing makes it fit.
            OnRefused::End | OnRefused::Retry => {
                return Err(crate::http::refusal(output, format!("a result cannot be sent: {reason}")));
            }
            OnRefused::GiveUp => {
                counters.failed.fetch_add(count, Ordering::Relaxed);
                tracing::warn!("output {output}: {count} results were not delivered: {reason}");
            }
        }
        counters.waiting.fetch_sub(count, Ordering::Relaxed);
        Ok(true)
    }
}

/// What is asked of the other side, unless the output ends meanwhile: then nobody waits for an answer, and what was asked for
/// comes again.
pub(crate) async fn unless_stopped<T>(stop: &AtomicBool, asked: impl Future<Output = T>) -> Option<T> {
    let mut asked = pin!(asked);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(answer) = tokio::time::timeout(LOOK, &mut asked).await {
            return Some(answer);
        }
    }
    None
}

/// What is told of a request whose answer `unless_stopped` did not wait for.
pub(crate) fn unheard(place: &str) -> ConnectorError {
    ConnectorError::passing(place, "the output ends before there is an answer".to_owned())
}

/// Between the whole and half of it, so that many outputs do not come back to a server at the same moment.
pub(crate) fn jittered(backoff: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    backoff.mul_f64(0.5 + 0.5 * f64::from(nanos % 1_000_003) / 1_000_003.0)
}

#[cfg(test)]
mod tests;
