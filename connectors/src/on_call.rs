//! On call: work behind a bounded queue that has a thread, of the crew, only while something is there. Thousands of outputs that
//! have little to do are then thousands of values, and not of threads.
//!
//!     post ─> queue ─> take, take, …, nothing there ─> rests ─ post ─> take, …
//!                                                      └ what takes no time is done by whoever posts it

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError};
use weir_model::crew::{self, Shift};
use weir_model::lock::lock;

/// How soon a thread that waits sees that it shall stop, and looks after what is under way.
pub const LOOK: Duration = Duration::from_millis(20);

/// Where nothing comes and nothing is under way it looks less and less often, but at least this often.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// What works through a queue, one item after another.
pub trait Work: Send + 'static {
    type Item: Send + 'static;

    /// Does an item, and what else waits where that is quicker. False: it has ended and takes no more.
    fn take(&mut self, item: Self::Item, more: &Receiver<Self::Item>) -> bool;

    /// Whether taking the item takes no time while it rests, so that nobody has to be called for it.
    fn is_quick(&self, item: &Self::Item) -> bool;

    /// Called when nothing is there, and now and then while nothing comes.
    fn look_after(&mut self) -> Care {
        Care::None
    }

    /// It shall end, whatever waits.
    fn is_stopped(&self) -> bool;

    /// The last call.
    fn end(&mut self);
}

/// What work needs while nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Care {
    /// Something of it is under way.
    Close,
    /// Somebody has to look now and then.
    Loose,
    /// Nothing: it needs no thread.
    None,
}

/// Why an item was not taken.
#[derive(Debug)]
pub enum Refusal {
    /// Whoever posted it did not want to wait any longer.
    Stopped,
    /// The work has ended.
    Ended,
    /// There is nobody to do it.
    NoThread(io::Error),
}

pub struct OnCall<W: Work> {
    /// None once nothing more comes.
    sender: Option<Sender<W::Item>>,
    desk: Arc<Desk<W>>,
}

struct Desk<W: Work> {
    place: Mutex<Place<W>>,
    /// Nothing more comes: the thread does not go before it has ended the work.
    closing: AtomicBool,
}

/// Either somebody is at it, or the work rests here; for a moment both, until the thread has taken it.
struct Place<W: Work> {
    resting: Option<(W, Receiver<W::Item>)>,
    shift: Option<Arc<Shift>>,
}

impl<W: Work> OnCall<W> {
    pub fn new(capacity: usize, work: W) -> OnCall<W> {
        let (sender, receiver) = crossbeam_channel::bounded(capacity);
        let place = Mutex::new(Place { resting: Some((work, receiver)), shift: None });
        let desk = Desk { place, closing: AtomicBool::new(false) };
        OnCall { sender: Some(sender), desk: Arc::new(desk) }
    }

    /// Hands over an item, waiting for room until `is_stopped` says otherwise.
    pub fn post(&self, item: W::Item, is_stopped: impl Fn() -> bool) -> Result<(), Refusal> {
        let sender = self.sender.as_ref().ok_or(Refusal::Ended)?;
        let Some(mut item) = self.desk.take_quickly(item) else { return Ok(()) };
        loop {
            match sender.send_timeout(item, LOOK) {
                Ok(()) => return self.desk.call().map_err(Refusal::NoThread),
                Err(SendTimeoutError::Timeout(_)) if is_stopped() => return Err(Refusal::Stopped),
                Err(SendTimeoutError::Timeout(again)) => item = again,
                Err(SendTimeoutError::Disconnected(_)) => return Err(Refusal::Ended),
            }
        }
    }

    /// Hands over an item if there is room; gives it back otherwise.
    pub fn post_if_room(&self, item: W::Item) -> Result<Option<W::Item>, Refusal> {
        let sender = self.sender.as_ref().ok_or(Refusal::Ended)?;
        let Some(item) = self.desk.take_quickly(item) else { return Ok(None) };
        match sender.try_send(item) {
            Ok(()) => self.desk.call().map(|()| None).map_err(Refusal::NoThread),
            Err(TrySendError::Full(item)) => Ok(Some(item)),
            Err(TrySendError::Disconnected(_)) => Err(Refusal::Ended),
        }
    }

    /// Whether nothing waits, so that whoever posts next need not wait.
    pub fn is_free(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_empty)
    }

    /// Whether what is posted next is taken without waiting for room. Holds until then, where one alone posts.
    pub fn has_room(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| !sender.is_full())
    }

    #[cfg(test)]
    pub fn is_resting(&self) -> bool {
        self.desk.place().shift.is_none()
    }

    /// Nothing more comes: it ends when what waits is done.
    pub fn hang_up(&mut self) {
        self.sender = None;
        self.desk.closing.store(true, Ordering::SeqCst);
        if self.desk.call().is_err()
            && let Some((mut work, _)) = self.desk.place().resting.take()
        {
            work.end();
        }
    }

    /// Waits for the end after `hang_up`. False: it is not there yet.
    pub fn has_ended_within(&self, patience: Duration) -> bool {
        let shift = self.desk.place().shift.clone();
        shift.is_none_or(|shift| shift.has_ended_within(patience))
    }
}

impl<W: Work> Drop for OnCall<W> {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl<W: Work> Desk<W> {
    fn place(&self) -> MutexGuard<'_, Place<W>> {
        lock(&self.place)
    }

    /// Gives back what nobody is there for.
    fn take_quickly(&self, item: W::Item) -> Option<W::Item> {
        let mut place = self.place();
        if place.shift.is_some() {
            return Some(item);
        }
        let quick = place.resting.take_if(|(work, receiver)| receiver.is_empty() && work.is_quick(&item));
        let Some((mut work, receiver)) = quick else { return Some(item) };
        // Should it panic, it is gone, and has told why, as where a thread of its own is at it.
        work.take(item, &receiver);
        place.resting = Some((work, receiver));
        None
    }

    /// Sees to it that somebody is at it.
    fn call(self: &Arc<Self>) -> io::Result<()> {
        let mut place = self.place();
        if place.shift.is_none() && place.resting.is_some() {
            let desk = self.clone();
            place.shift = Some(crew::run(move || desk.work())?);
        }
        Ok(())
    }

    fn work(&self) {
        let taken = self.place().resting.take();
        let Some((work, receiver)) = taken else { return };
        // Should it panic, it is gone before whoever sends to it finds nobody there, and has told why.
        let (receiver, mut work) = (receiver, work);
        let mut look = LOOK;
        while !work.is_stopped() {
            let item = match receiver.try_recv() {
                Ok(item) => item,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    let care = work.look_after();
                    if care == Care::None {
                        let mut place = self.place();
                        if receiver.is_empty() && !self.closing.load(Ordering::SeqCst) {
                            *place = Place { resting: Some((work, receiver)), shift: None };
                            return;
                        }
                        continue;
                    }
                    match receiver.recv_timeout(look) {
                        Ok(item) => item,
                        Err(RecvTimeoutError::Disconnected) => break,
                        Err(RecvTimeoutError::Timeout) => {
                            look = if care == Care::Close { LOOK } else { (look * 2).min(LOOK_MAX) };
                            continue;
                        }
                    }
                }
            };
            look = LOOK;
            if !work.take(item, &receiver) {
                break;
            }
        }
        work.end();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Adds up numbers; even ones take no time.
    struct Sum {
        sum: Arc<AtomicU64>,
        ended: Arc<AtomicBool>,
        care: Care,
    }

    impl Work for Sum {
        type Item = u64;

        fn take(&mut self, item: u64, _: &Receiver<u64>) -> bool {
            assert_ne!(item, 98, "on purpose");
            self.sum.fetch_add(item, Ordering::SeqCst);
            item != 99
        }

        fn is_quick(&self, item: &u64) -> bool {
            item.is_multiple_of(2)
        }

        fn look_after(&mut self) -> Care {
            self.care
        }

        fn is_stopped(&self) -> bool {
            false
        }

        fn end(&mut self) {
            self.ended.store(true, Ordering::SeqCst);
        }
    }

    fn sum(care: Care) -> (OnCall<Sum>, Arc<AtomicU64>, Arc<AtomicBool>) {
        let (sum, ended) = <(Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        (OnCall::new(2, Sum { sum: sum.clone(), ended: ended.clone(), care }), sum, ended)
    }

    fn happens(within: Duration, what: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + within;
        while !what() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        what()
    }

    #[test]
    fn it_rests_when_nothing_is_there_and_goes_on_with_the_next() {
        let (mut work, sum, ended) = sum(Care::None);
        assert!(work.is_resting());
        for round in 1..=3 {
            work.post(1, || false).unwrap();
            assert!(happens(PATIENCE, || sum.load(Ordering::SeqCst) == round));
            assert!(happens(PATIENCE, || work.is_resting()));
        }
        work.hang_up();
        assert!(work.has_ended_within(PATIENCE) && ended.load(Ordering::SeqCst));
    }

    #[test]
    fn what_takes_no_time_calls_nobody() {
        let (work, sum, _) = sum(Care::None);
        work.post(2, || false).unwrap();
        assert!(work.post_if_room(4).unwrap().is_none());
        assert!(work.is_resting());
        assert_eq!(sum.load(Ordering::SeqCst), 6);
    }

    #[test]
    fn what_has_to_be_looked_after_keeps_its_thread() {
        let (work, sum, _) = sum(Care::Loose);
        work.post(1, || false).unwrap();
        assert!(!happens(Duration::from_secs(3), || work.is_resting()));
        assert_eq!(sum.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_has_ended_takes_no_more() {
        let (work, _, ended) = sum(Care::None);
        work.post(99, || false).unwrap();
        assert!(happens(PATIENCE, || ended.load(Ordering::SeqCst)));
        assert!(happens(PATIENCE, || matches!(work.post(1, || false), Err(Refusal::Ended))));
    }

    #[test]
    fn what_panics_where_it_is_posted_takes_no_more() {
        let (work, sum, _) = sum(Care::None);
        assert!(catch_unwind(AssertUnwindSafe(|| work.post(98, || false))).is_err());
        assert!(matches!(work.post(2, || false), Err(Refusal::Ended)));
        assert_eq!(sum.load(Ordering::SeqCst), 0);
    }

    /// Whoever posts and a thread that goes to rest meet at any moment: nothing may be left behind.
    #[test]
    fn nothing_is_left_lying_when_both_come_at_once() {
        let (work, sum, _) = sum(Care::None);
        for round in 1..=20_000 {
            work.post(1, || false).unwrap();
            // Each by itself: together they may take long on a busy machine.
            let deadline = Instant::now() + PATIENCE;
            while round % 3 > 0 && sum.load(Ordering::SeqCst) < round {
                assert!(Instant::now() < deadline, "item {round} is left lying");
                std::hint::spin_loop();
            }
        }
        assert!(happens(PATIENCE, || sum.load(Ordering::SeqCst) == 20_000));
    }
}
