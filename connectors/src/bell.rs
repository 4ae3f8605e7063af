//! A bell: how whoever brings something calls those who rest until then.
//!
//!     rests: arm(call) ─ look once more ─ goes          brings: puts it there ─ ring ─> call
//!
//! Either the one who rests sees what was brought, or the one who brings it sees the call; so nothing lies there unseen.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use weir_model::lock::lock;

/// Made once, by whichever thread brings something. It must not take long.
pub type Call = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
pub struct Bell(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether there may be a call: whoever brings a record would otherwise take a lock for each.
    armed: AtomicBool,
    call: Mutex<Option<Call>>,
}

impl Bell {
    /// Something has come.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.0.armed.load(Ordering::Relaxed)
            && let Some(call) = self.take()
        {
            call();
        }
    }

    /// Keeps the call until something comes. The caller looks afterwards whether it has come before, and then disarms.
    pub fn arm(&self, call: Call) {
        let mut kept = lock(&self.0.call);
        *kept = Some(call);
        self.0.armed.store(true, Ordering::Relaxed);
        drop(kept);
        fence(Ordering::SeqCst);
    }

    /// Nobody rests any more.
    pub fn disarm(&self) {
        drop(self.take());
    }

    /// Arms it where nothing has come, also not meanwhile.
    pub fn arm_unless(&self, call: Call, has_come: impl Fn() -> bool) -> bool {
        self.arm(call);
        if has_come() {
            self.disarm();
            return false;
        }
        true
    }

    fn take(&self) -> Option<Call> {
        let mut kept = lock(&self.0.call);
        // With the lock held: it would be said of the next call otherwise, and nobody would ring that one.
        self.0.armed.store(false, Ordering::Relaxed);
        kept.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;

    #[test]
    fn what_is_brought_is_seen_by_one_of_both() {
        // Brings numbers one by one while the other rests whenever it has seen all of them.
        const NUMBERS: u64 = 200_000;
        let (bell, brought) = (Bell::default(), Arc::new(AtomicU64::new(0)));
        let (sender, called) = crossbeam_channel::bounded(1);
        let bringer = thread::spawn({
            let (bell, brought) = (bell.clone(), brought.clone());
            move || {
                for _ in 0..NUMBERS {
                    brought.fetch_add(1, Ordering::Relaxed);
                    bell.ring();
                }
            }
        });
        let mut seen = 0;
        while seen < NUMBERS {
            let sender = sender.clone();
            let call = Box::new(move || {
                // One that was not taken yet does as well.
                let _ = sender.try_send(());
            });
            if bell.arm_unless(call, || brought.load(Ordering::Relaxed) > seen) {
                called.recv_timeout(std::time::Duration::from_secs(60)).expect("a call");
            }
            // One of before may lie there.
            let _ = called.try_recv();
            seen = brought.load(Ordering::Relaxed);
        }
        bringer.join().expect("it ends");
    }
}
