//! Inbox: how many results of a query wait, and whom to tell of the first where nobody waits for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use weir_model::lock::lock;

/// Told once.
type Wake = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Inbox {
    /// Results sent and not yet consumed.
    waiting: AtomicUsize,
    /// Consumed, and not taken by the slowest of those they are for.
    behind: AtomicUsize,
    /// Says without a lock whether somebody is to be told.
    resting: AtomicBool,
    wake: Mutex<Option<Wake>>,
}

impl Inbox {
    /// What the ingest valve looks at.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed) + self.behind.load(Ordering::Relaxed)
    }

    pub fn set_behind(&self, count: usize) {
        self.behind.store(count, Ordering::Relaxed);
    }

    /// Around sending: the results count before somebody can take them, and whoever rests is told when they are there.
    pub fn put(&self, count: usize, send: impl FnOnce()) {
        self.waiting.fetch_add(count, Ordering::SeqCst);
        send();
        if self.resting.load(Ordering::SeqCst)
            && let Some(wake) = self.rise()
        {
            wake();
        }
    }

    pub fn taken(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// From here on nobody waits: `wake` is called with the next results. False, and it is not, when some wait already.
    pub fn rest(&self, wake: impl FnOnce() + Send + 'static) -> bool {
        *self.lock() = Some(Box::new(wake));
        self.resting.store(true, Ordering::SeqCst);
        // Either what is sent at this moment sees that somebody rests, or it is seen here.
        self.waiting.load(Ordering::SeqCst) == 0 || self.rise().is_none()
    }

    fn rise(&self) -> Option<Wake> {
        let mut wake = self.lock();
        self.resting.store(false, Ordering::SeqCst);
        wake.take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Wake>> {
        lock(&self.wake)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn whoever_rests_is_told_of_the_first_results_once() {
        let (inbox, told) = <(Inbox, Arc<AtomicUsize>)>::default();
        let wake = |told: &Arc<AtomicUsize>| {
            let told = told.clone();
            move || _ = told.fetch_add(1, Ordering::SeqCst)
        };
        assert!(inbox.rest(wake(&told)));
        inbox.put(2, || ());
        inbox.put(1, || ());
        assert_eq!((told.load(Ordering::SeqCst), inbox.waiting()), (1, 3));
        assert!(!inbox.rest(wake(&told)), "some wait already");
        inbox.taken(3);
        inbox.put(1, || ());
        assert_eq!(told.load(Ordering::SeqCst), 1, "nobody rests");
        inbox.taken(1);
        assert!(inbox.rest(wake(&told)));
        inbox.put(1, || ());
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn what_was_taken_and_lies_elsewhere_waits_and_calls_nobody() {
        let inbox = Inbox::default();
        inbox.put(3, || ());
        inbox.taken(3);
        inbox.set_behind(3);
        assert_eq!(inbox.waiting(), 3);
        assert!(inbox.rest(|| ()), "nothing is here that somebody could take");
        inbox.set_behind(0);
        assert_eq!(inbox.waiting(), 0);
    }

    /// Whatever the order in which one goes to rest and another sends: one of them knows.
    #[test]
    fn nothing_is_missed_when_both_come_at_once() {
        for _ in 0..2000 {
            let (inbox, told) = <(Arc<Inbox>, Arc<AtomicBool>)>::default();
            let sender = std::thread::spawn({
                let inbox = inbox.clone();
                move || inbox.put(1, || ())
            });
            let mine = told.clone();
            let rests = inbox.rest(move || mine.store(true, Ordering::SeqCst));
            sender.join().expect("it ends");
            assert!(!rests || told.load(Ordering::SeqCst));
        }
    }
}
