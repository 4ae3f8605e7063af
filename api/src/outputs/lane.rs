//! Lane: one output of a query for as long as it has its name, whatever its definition becomes.
//!
//! What was handed over and is not delivered stays here too, so that another output can take the place of one that runs and go on
//! where that stood.
//!
//!     thread of the query ─> queue ─ as long as there is room ─> output
//!                              └ from then on a thread of the lane's own, until it is through ─> output
//!
//! So an output that is slow, or hangs, makes neither the others of its query wait nor the query itself. How much lies here is
//! bounded from outside: ingest waits while it is too much. Where nothing takes it, it is let go of, and found again from the
//! log. What the output has delivered in an earlier life may come again for another one, and does not lie here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use weir_model::Tick;
use weir_model::lock::{lock, read, write};

use super::{Named, RunningOutput, Sent, TapPoints};
use crate::meter::Meter;

/// Results that wait here while nothing takes them. When more come, they are left to be found again from the log.
const WAITING_MAX: usize = 100_000;

pub struct Lane {
    pub name: String,
    /// The name of the query.
    query: String,
    queue: Mutex<Queue>,
    /// Held while results are handed over, so that they keep their order.
    handing: Mutex<()>,
    running: RwLock<Option<Arc<RunningOutput>>>,
    /// An output is about to begin, or to take the place of one that runs.
    changing: AtomicBool,
    /// Why none runs.
    parked: Mutex<Option<String>>,
    /// Results that its outputs are through with: delivered, or given up.
    pub done: Meter,
    /// For those who listen.
    pub tap_points: Arc<TapPoints>,
}

/// What became of results that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// The output has them, or there is none, or they are on their way.
    All,
    /// There was no room for all of them: somebody has to `follow`.
    Some,
}

/// What lies in a lane.
pub struct Lying {
    /// Results that are not delivered, with those that were let go of.
    pub waiting: usize,
    /// The tick of the oldest.
    pub oldest: Option<Tick>,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<(Arc<Vec<Sent>>, Tick)>,
    /// How many of the first batches have been handed over.
    given: usize,
    /// How many results came and are not delivered, without those that are skipped; also of those that were let go of.
    results: usize,
    /// How many of the batches that were handed over the destination has taken: the first ones.
    taken: usize,
    /// How many results are in the batches the destination has not taken, without those that are skipped.
    untaken: usize,
    /// A thread of the lane's own hands over.
    followed: bool,
    /// Some were let go of, with all that was here: the tick of the oldest.
    lost: Option<Tick>,
    /// Which of the outputs that were here one after another is heard.
    turn: u64,
    /// Results of earlier ticks were delivered in an earlier life. They come where they were found again, and are skipped.
    from: Tick,
}

impl Lane {
    pub fn new(Named { query, output }: Named<'_>) -> Lane {
        Lane {
            name: output.to_owned(),
            query: query.to_owned(),
            queue: Mutex::default(),
            handing: Mutex::default(),
            running: RwLock::default(),
            changing: AtomicBool::default(),
            parked: Mutex::default(),
            done: Meter::default(),
            tap_points: Arc::default(),
        }
    }

    /// The output that takes the results; none while it is changed, or where it could not be opened.
    pub fn running(&self) -> Option<Arc<RunningOutput>> {
        read(&self.running).clone()
    }

    /// Results that nobody took had to be let go of: they come again after a restart.
    pub fn has_lost(&self) -> bool {
        lock(&self.queue).lost.is_some()
    }

    /// Why none runs, where it is known. Once results were let go of, it does not matter any more why it could not be opened.
    pub fn parked(&self) -> Option<String> {
        if self.has_lost() { Some(lost()) } else { lock(&self.parked).clone() }
    }

    /// None runs from here on, for this reason.
    pub fn park(&self, reason: &str) {
        *lock(&self.parked) = Some(reason.to_owned());
        self.set_changing(false);
    }

    /// None runs, and one could begin now.
    pub fn may_be_tried(&self) -> bool {
        lock(&self.parked).is_some() && self.running().is_none() && !self.has_lost()
    }

    /// Changes whenever another output takes over.
    pub fn turn(&self) -> u64 {
        lock(&self.queue).turn
    }

    /// Results wait for the output to begin.
    pub fn has_left(&self) -> bool {
        !lock(&self.queue).is_given()
    }

    pub fn held(&self) -> Lying {
        let queue = lock(&self.queue);
        Lying { waiting: queue.results, oldest: queue.lost.or_else(|| queue.oldest()) }
    }

    /// Results of earlier ticks are skipped by the output.
    pub fn goes_on_from(&self, from: Tick) {
        let mut queue = lock(&self.queue);
        queue.from = from;
        queue.count();
    }

    /// To be set before the first output begins and before one that runs is closed for another, and cleared when that has
    /// started, or none could: until then what comes is for the next one, and waited for as if that ran.
    pub fn set_changing(&self, is_changing: bool) {
        self.changing.store(is_changing, Ordering::SeqCst);
    }

    /// An output is about to begin, or to take the place of one that runs.
    pub fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst)
    }

    /// Whether somebody takes what lies here: the output that runs, if it does, or the one that comes next.
    fn is_taken(&self, takes: impl FnOnce(&RunningOutput) -> bool) -> bool {
        // Both under one lock: between two looks, an output could begin to be changed, or cease to be.
        let running = read(&self.running);
        self.is_changing() || running.as_deref().is_some_and(takes)
    }

    /// Whether an output runs that has not failed, or comes next.
    pub fn takes(&self) -> bool {
        self.is_taken(|running| running.failure().is_none())
    }

    /// Results that the destination of the output which runs, or comes next, has not taken. What it has, and holds until it is
    /// enough for an object, is not among them: nobody who waits would make that sooner.
    pub fn behind(&self) -> usize {
        if !self.takes() {
            return 0;
        }
        let mut queue = lock(&self.queue);
        // Under the lock of the queue: what another output has taken, in whose place one begins, counts for nothing.
        if let Some(running) = read(&self.running).as_deref() {
            queue.take(running.taken());
        }
        queue.untaken
    }

    /// Everything that came has been handed over, and nobody is at it any more.
    pub fn has_all(&self) -> bool {
        let queue = lock(&self.queue);
        queue.is_given() && !queue.followed
    }

    /// Results of this tick and later ones that are not reported as delivered. None: more than are kept here.
    pub fn left(&self, from: Tick) -> Option<usize> {
        let queue = lock(&self.queue);
        queue.lost.is_none().then(|| queue.batches.iter().map(|(results, _)| fresh(results, from)).sum())
    }

    /// Takes the results of complete ticks, and hands them over as far as there is room.
    pub fn send(&self, results: &Arc<Vec<Sent>>, upper: Tick, stop: &AtomicBool) -> Given {
        let has_lost = {
            let mut queue = lock(&self.queue);
            // Under the lock of the queue: whether something is let go of is settled before an output begins, or after.
            let is_taken = self.is_taken(|running| !running.is_over());
            queue.push(results, upper, is_taken)
        };
        if has_lost {
            tracing::warn!(query = self.query, output = self.name, "its results are not kept in memory any longer: {}", lost());
        }
        self.hand_over(stop)
    }

    /// Hands over what waits, as far as there is room.
    pub fn hand_over(&self, stop: &AtomicBool) -> Given {
        if lock(&self.queue).followed {
            return Given::All;
        }
        let _one = lock(&self.handing);
        while let Some(running) = self.running() {
            let mut queue = lock(&self.queue);
            // Another that came at the same time may have found no room: whoever follows goes on with it.
            if queue.is_given() || queue.followed {
                break;
            }
            if !running.has_room() && !running.is_over() {
                queue.followed = true;
                return Given::Some;
            }
            let Some((results, upper)) = queue.give() else { break };
            drop(queue);
            running.send(&results, upper, stop);
        }
        Given::All
    }

    /// Hands over what waits until nothing does, waiting for room. `noting` is called whenever something has been handed over.
    pub fn follow(&self, stop: &AtomicBool, mut noting: impl FnMut()) {
        loop {
            let one = lock(&self.handing);
            let running = self.running().filter(|_| !stop.load(Ordering::Relaxed));
            let given = {
                let mut queue = lock(&self.queue);
                let given = if running.is_some() { queue.give() } else { None };
                queue.followed = given.is_some();
                given
            };
            if let (Some(running), Some((results, upper))) = (&running, &given) {
                running.send(results, *upper, stop);
            }
            drop(one);
            drop(running);
            noting();
            if given.is_none() {
                return;
            }
        }
    }

    /// Nobody follows, after all.
    pub fn leave(&self) {
        lock(&self.queue).followed = false;
    }

    /// Whether the output, where there is one, has everything that is here and takes what comes next without waiting.
    pub fn is_free(&self) -> bool {
        self.running().is_none_or(|running| running.is_free() && lock(&self.queue).is_given())
    }

    /// Whose reports count from now on: those of the output that comes next.
    pub fn begin(&self) -> u64 {
        let _one = lock(&self.handing);
        let mut queue = lock(&self.queue);
        queue.begin();
        queue.turn += 1;
        queue.turn
    }

    pub fn start(&self, running: RunningOutput) {
        *lock(&self.parked) = None;
        *write(&self.running) = Some(Arc::new(running));
    }

    /// An output has delivered everything before `upper`. One whose turn is over is not heard.
    pub fn delivered(&self, turn: u64, upper: Tick, note: impl FnOnce()) {
        let mut queue = lock(&self.queue);
        if queue.turn == turn {
            let done = queue.forget(upper);
            if done > 0 {
                self.done.mark(done as u64);
            }
            note();
        }
    }

    /// When the output is to have ended: it is not wanted any more, and is given `patience`.
    pub fn end_by(&self, patience: Duration) -> Instant {
        self.running().map_or_else(Instant::now, |running| running.end_by(patience))
    }

    /// It is late: whoever waits to hand over something need not wait any more, and what it has not delivered it does not
    /// deliver.
    pub fn give_up(&self) {
        if let Some(running) = self.running() {
            running.give_up();
        }
    }

    /// No other output comes: it ends, and so does what those who listen hear. What it reports from here on, should it hang for
    /// longer, is not heard.
    pub fn end(&self, deadline: Instant) {
        self.close(deadline);
        lock(&self.queue).turn += 1;
        self.tap_points.close();
    }

    /// Ends the output; what it was handed is delivered as far as the time allows.
    pub fn close(&self, deadline: Instant) {
        let Some(mut running) = write(&self.running).take() else { return };
        // The thread of the query may be sending at this moment.
        loop {
            match Arc::try_unwrap(running) {
                Ok(output) => return output.close(deadline),
                Err(shared) => {
                    if Instant::now() >= deadline {
                        shared.give_up();
                    }
                    running = shared;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

/// What becomes of an output whose results were let go of.
fn lost() -> String {
    format!(
        "more than {WAITING_MAX} results have come while it did not run, and no more are kept in memory: it begins when weir \
         starts again, with all of them"
    )
}

impl Queue {
    /// True: with this it is too much, and all that is here is let go of.
    fn push(&mut self, results: &Arc<Vec<Sent>>, upper: Tick, is_taken: bool) -> bool {
        let count = fresh(results, self.from);
        self.results += count;
        if self.lost.is_some() {
            return false;
        }
        if !is_taken && self.results > WAITING_MAX {
            let first = || results.get(old(results, self.from)).map(|result| result.place.tick);
            let lost = Some(self.oldest().or_else(first).unwrap_or(upper));
            let Queue { results, turn, from, followed, .. } = *self;
            *self = Queue { lost, results, turn, from, followed, ..Queue::default() };
            return true;
        }
        // Of what the output has delivered in an earlier life it only needs to know that nothing else came.
        let results = if count == 0 && !results.is_empty() { Arc::default() } else { results.clone() };
        let waits = self.given < self.batches.len();
        match self.batches.back_mut().filter(|(last, _)| waits && last.is_empty() && results.is_empty()) {
            Some((_, last)) => *last = upper,
            None => self.batches.push_back((results, upper)),
        }
        self.untaken += count;
        false
    }

    /// The tick of the first result that is not skipped.
    fn oldest(&self) -> Option<Tick> {
        let first = self.batches.iter().find_map(|(results, _)| results.get(old(results, self.from)));
        first.map(|result| result.place.tick)
    }

    /// All of it is for another output.
    fn begin(&mut self) {
        (self.given, self.taken) = (0, 0);
        self.count();
    }

    /// Counts anew what is here.
    fn count(&mut self) {
        let count = |from: usize| self.batches.iter().skip(from).map(|(results, _)| fresh(results, self.from)).sum::<usize>();
        self.untaken = count(self.taken);
        if self.lost.is_none() {
            self.results = count(0);
        }
    }

    /// The destination has all that was handed over and comes before this tick.
    fn take(&mut self, upper: Tick) {
        while self.taken < self.given
            && let Some((results, _)) = self.batches.get(self.taken).filter(|(_, of)| *of <= upper)
        {
            self.untaken -= fresh(results, self.from);
            self.taken += 1;
        }
    }

    /// The next that has not been handed over.
    fn give(&mut self) -> Option<(Arc<Vec<Sent>>, Tick)> {
        let next = self.batches.get(self.given).cloned()?;
        self.given += 1;
        Some(next)
    }

    fn is_given(&self) -> bool {
        self.given == self.batches.len()
    }

    /// Forgets the batches up to this tick. Answers with how many results they had, without those that were skipped.
    fn forget(&mut self, upper: Tick) -> usize {
        let mut done = 0;
        while let Some((results, _)) = self.batches.pop_front_if(|(_, of)| *of <= upper) {
            let count = fresh(&results, self.from);
            self.results -= count;
            done += count;
            // Where it was not handed over, another output had it.
            self.given = self.given.saturating_sub(1);
            match self.taken.checked_sub(1) {
                Some(taken) => self.taken = taken,
                None => self.untaken -= count,
            }
        }
        done
    }
}

/// How many of the first ones are of earlier ticks.
fn old(results: &[Sent], from: Tick) -> usize {
    results.partition_point(|result| result.place.tick < from)
}

/// How many are of this tick and later ones.
fn fresh(results: &[Sent], from: Tick) -> usize {
    results.len() - old(results, from)
}

#[cfg(test)]
mod tests {
    use weir_model::lock::try_lock;
    use weir_model::{NodeId, Place};

    use super::*;

    fn lane() -> Lane {
        Lane::new(Named { query: "adults", output: "hook" })
    }

    fn results(count: usize) -> Arc<Vec<Sent>> {
        let sent =
            Sent { place: Place::before(Tick(1)), positive: true, id: NodeId::default(), data: Arc::default(), cause: None };
        Arc::new(vec![sent; count])
    }

    #[test]
    fn what_is_not_delivered_is_given_again_to_the_next() {
        let mut queue = Queue::default();
        for upper in 1..=4 {
            queue.push(&results(1), Tick(upper), true);
        }
        let given: Vec<Tick> = std::iter::from_fn(|| queue.give()).take(3).map(|(_, upper)| upper).collect();
        assert_eq!(given, [1, 2, 3].map(Tick));
        queue.forget(Tick(1));
        assert_eq!((queue.given, queue.results), (2, 3));
        queue.begin();
        assert_eq!(std::iter::from_fn(|| queue.give()).map(|(_, upper)| upper).collect::<Vec<_>>(), [2, 3, 4].map(Tick));
    }

    /// One batch may have more results than ingest waits for: with that the valve never closed.
    #[test]
    fn what_was_handed_over_counts_until_it_is_taken() {
        let mut queue = Queue { from: Tick(1), ..Queue::default() };
        let old = Sent { place: Place::before(Tick(0)), ..results(1)[0].clone() };
        queue.push(&Arc::new(vec![old]), Tick(1), true);
        for upper in 2..=4 {
            queue.push(&results(10), Tick(upper), true);
        }
        assert_eq!(queue.untaken, 30, "what is skipped waits for nobody");
        (0..3).for_each(|_| assert!(queue.give().is_some()));
        assert_eq!(queue.untaken, 30);
        queue.take(Tick(2));
        assert_eq!((queue.taken, queue.untaken, queue.results), (2, 20, 30), "it is taken, and not delivered");
        queue.take(Tick(9));
        assert_eq!((queue.taken, queue.untaken), (3, 10), "what was not handed over cannot be taken");
        queue.forget(Tick(2));
        assert_eq!((queue.given, queue.taken, queue.untaken, queue.results), (1, 1, 10, 20));
        queue.begin();
        assert_eq!((queue.given, queue.taken, queue.untaken), (0, 0, 20), "another output has taken none of it");
        // What it says is behind what was handed over, where the one before it had that.
        queue.forget(Tick(4));
        assert_eq!((queue.given, queue.taken, queue.untaken, queue.results), (0, 0, 0, 0));
    }

    #[test]
    fn who_has_ended_is_not_heard() {
        let lane = lane();
        let turn = lane.begin();
        let mut heard = 0;
        lane.delivered(turn, Tick(1), || heard += 1);
        lane.end(Instant::now());
        lane.delivered(turn, Tick(2), || heard += 1);
        assert_eq!(heard, 1);
    }

    #[test]
    fn what_is_left_is_what_was_not_reported() {
        let (lane, stop) = (lane(), AtomicBool::new(false));
        let turn = lane.begin();
        lane.send(&results(3), Tick(2), &stop);
        assert!(!lane.has_all() && !lane.takes(), "nobody is there for it");
        // Those of earlier ticks were delivered in an earlier life.
        assert_eq!((lane.left(Tick(1)), lane.left(Tick(2))), (Some(3), Some(0)));
        lane.delivered(turn, Tick(2), || ());
        assert_eq!(lane.left(Tick(1)), Some(0));
        for upper in [3, 4] {
            lane.send(&results(WAITING_MAX), Tick(upper), &stop);
        }
        assert_eq!(lane.left(Tick(1)), None);
    }

    #[test]
    fn what_was_delivered_in_an_earlier_life_does_not_wait() {
        let sent = |tick| Sent { place: Place::before(Tick(tick)), ..results(1)[0].clone() };
        let (lane, stop) = (lane(), AtomicBool::new(false));
        let lying = || (lane.held().waiting, lane.held().oldest);
        lane.goes_on_from(Tick(5));
        let turn = lane.begin();
        lane.send(&Arc::new(vec![sent(1), sent(2)]), Tick(3), &stop);
        lane.send(&results(0), Tick(4), &stop);
        assert_eq!(lying(), (0, None));
        lane.send(&Arc::new(vec![sent(4), sent(5), sent(6)]), Tick(7), &stop);
        lane.send(&Arc::new(vec![sent(7)]), Tick(8), &stop);
        assert_eq!(lying(), (3, Some(Tick(5))));
        lane.delivered(turn, Tick(7), || ());
        assert_eq!(lying(), (1, Some(Tick(7))));
        assert_eq!(lane.done.count(), 2, "those of ticks 5 and 6");
    }

    #[test]
    fn what_comes_while_the_output_is_changed_is_kept_for_the_next() {
        let (lane, stop) = (lane(), AtomicBool::new(false));
        lane.set_changing(true);
        lane.send(&results(WAITING_MAX), Tick(1), &stop);
        lane.send(&results(1), Tick(2), &stop);
        lane.send(&results(0), Tick(3), &stop);
        assert_eq!((lane.has_lost(), lane.behind()), (false, WAITING_MAX + 1));
        lane.set_changing(false);
        assert_eq!(lane.behind(), 0, "nobody takes it");
        lane.send(&results(0), Tick(4), &stop);
        assert!(lane.has_lost());
    }

    /// What is let go of while an output begins never comes, and the output would run for nothing.
    #[test]
    fn nothing_is_let_go_of_while_an_output_begins() {
        let lane = lane();
        std::thread::scope(|scope| {
            let running = write(&lane.running);
            scope.spawn(|| lane.send(&results(WAITING_MAX + 1), Tick(2), &AtomicBool::new(false)));
            // Whoever has the queue now has yet to look whether somebody takes what lies there.
            let deadline = Instant::now() + Duration::from_secs(60);
            while try_lock(&lane.queue).is_some() {
                assert!(Instant::now() < deadline, "it is looked at before the queue is locked");
                std::thread::sleep(Duration::from_millis(1));
            }
            lane.set_changing(true);
            drop(running);
        });
        assert!(!lane.has_lost());
        assert_eq!(lane.held().waiting, WAITING_MAX + 1);
        lane.park("it cannot be opened");
        assert!(!lane.is_changing() && !lane.takes(), "nobody is waited for that cannot be opened");
    }

    /// They are found again for another output: the one they were for was never opened again.
    #[test]
    fn what_was_delivered_in_an_earlier_life_takes_no_room() {
        let (lane, stop) = (lane(), AtomicBool::new(false));
        lane.goes_on_from(Tick(5));
        lane.park("there is no such directory");
        for upper in [2, 3] {
            lane.send(&results(WAITING_MAX), Tick(upper), &stop);
        }
        assert!(lane.may_be_tried() && lane.held().waiting == 0);
        let batches = |lane: &Lane| {
            let queue = lock(&lane.queue);
            queue.batches.iter().map(|(results, upper)| (results.len(), *upper)).collect::<Vec<_>>()
        };
        assert_eq!(batches(&lane), [(0, Tick(3))], "how far they went is known");
        let sent = |tick| Sent { place: Place::before(Tick(tick)), ..results(1)[0].clone() };
        lane.send(&Arc::new(vec![sent(4), sent(5)]), Tick(6), &stop);
        assert_eq!((lane.held().waiting, lane.held().oldest), (1, Some(Tick(5))));
    }

    #[test]
    fn where_some_were_let_go_of_it_is_said_why_none_runs_and_how_many_wait() {
        let (lane, stop) = (lane(), AtomicBool::new(false));
        lane.park("there is no such directory");
        lane.send(&results(WAITING_MAX), Tick(2), &stop);
        assert_eq!(lane.parked().as_deref(), Some("there is no such directory"));
        for upper in [3, 4] {
            lane.send(&results(1), Tick(upper), &stop);
            assert!(lane.has_lost() && !lane.may_be_tried());
        }
        assert_eq!(lane.parked(), Some(lost()), "it could be opened by now, and is not");
        assert_eq!((lane.held().waiting, lane.held().oldest), (WAITING_MAX + 2, Some(results(1)[0].place.tick)));
        lane.goes_on_from(Tick(0));
        assert_eq!((lane.held().waiting, lane.behind()), (WAITING_MAX + 2, 0));
    }

    #[test]
    fn progress_alone_takes_no_room() {
        let mut queue = Queue::default();
        queue.push(&results(2), Tick(1), true);
        (2..100).for_each(|upper| _ = queue.push(&results(0), Tick(upper), false));
        assert_eq!(queue.batches.iter().map(|(_, upper)| *upper).collect::<Vec<_>>(), [1, 99].map(Tick));
    }

    #[test]
    fn where_nobody_takes_them_so_many_wait_and_no_more() {
        let mut queue = Queue::default();
        assert!(!queue.push(&results(WAITING_MAX), Tick(1), false));
        assert!(!queue.push(&results(1), Tick(2), true), "who takes them is waited for");
        assert!(queue.push(&results(1), Tick(3), false));
        assert!(!queue.push(&results(1), Tick(4), true), "it is told once");
        assert!(queue.lost.is_some() && queue.batches.is_empty() && queue.results == WAITING_MAX + 3);
    }
}
