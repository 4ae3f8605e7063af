//! Crew: threads for whatever work comes next. One without work waits a while before it goes, so work that comes now and then, in
//! thousands of places, starts no thread each time; where all are at work one more is started, so none waits for what stands
//! still.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use weir_model::lock::lock;

/// A thread waits this long for work.
const STAYS: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

/// The threads that wait, the one that came last on top: the others go.
static WAITING: Mutex<Vec<Arc<Member>>> = Mutex::new(Vec::new());

struct Member {
    job: Mutex<Option<Job>>,
    thread: Thread,
}

/// A piece of work that was handed over.
#[derive(Default)]
pub struct Shift {
    ended: Mutex<Option<thread::Result<()>>>,
    end: Condvar,
}

/// Hands work over; it is begun at once.
pub fn run(work: impl FnOnce() + Send + 'static) -> io::Result<Arc<Shift>> {
    let shift = Arc::new(Shift::default());
    let of = shift.clone();
    let job: Job = Box::new(move || {
        let ended = panic::catch_unwind(AssertUnwindSafe(work));
        *lock(&of.ended) = Some(ended);
        of.end.notify_all();
    });
    let member = lock(&WAITING).pop();
    match member {
        Some(member) => {
            *lock(&member.job) = Some(job);
            member.thread.unpark();
        }
        None => drop(thread::Builder::new().name("crew".to_owned()).spawn(move || serve(job))?),
    }
    Ok(shift)
}

fn serve(mut job: Job) {
    let member = Arc::new(Member { job: Mutex::default(), thread: thread::current() });
    loop {
        job();
        lock(&WAITING).push(member.clone());
        match member.wait() {
            Some(next) => job = next,
            None => return,
        }
    }
}

impl Member {
    fn wait(&self) -> Option<Job> {
        let until = Instant::now() + STAYS;
        let mut stays = true;
        loop {
            if let Some(job) = lock(&self.job).take() {
                return Some(job);
            }
            if !stays {
                thread::park();
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                thread::park_timeout(left);
                continue;
            }
            let mut waiting = lock(&WAITING);
            let place = waiting.iter().position(|member| std::ptr::eq(&**member, self));
            if let Some(place) = place {
                waiting.remove(place);
                return None;
            }
            // Somebody has taken it off the list, and comes with a job.
            stays = false;
        }
    }
}

impl Shift {
    /// False: it has not ended by then.
    pub fn has_ended_within(&self, patience: Duration) -> bool {
        let not_ended = |ended: &mut Option<thread::Result<()>>| ended.is_none();
        let waited = self.end.wait_timeout_while(lock(&self.ended), patience, not_ended);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0.is_some()
    }

    /// Waits for the end. An error: it ended through a panic.
    pub fn join(&self) -> thread::Result<()> {
        let mut ended = lock(&self.ended);
        loop {
            match ended.take() {
                Some(result) => {
                    *ended = Some(Ok(()));
                    return result;
                }
                None => ended = self.end.wait(ended).unwrap_or_else(|poisoned| poisoned.into_inner()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn work_is_done_side_by_side_and_its_end_is_known() {
        let all = Arc::new(Barrier::new(9));
        let shifts: Vec<_> = (0..8)
            .map(|_| {
                let all = all.clone();
                run(move || _ = all.wait()).expect("a thread")
            })
            .collect();
        assert!(!shifts[0].has_ended_within(Duration::from_millis(20)), "it waits for all");
        all.wait();
        for shift in shifts {
            assert!(shift.has_ended_within(Duration::from_secs(60)));
            shift.join().expect("no panic");
        }
    }

    #[test]
    fn a_panic_is_told_and_the_thread_goes_on() {
        let shift = run(|| panic!("on purpose")).expect("a thread");
        assert!(shift.join().is_err());
        for _ in 0..1000 {
            run(|| ()).expect("a thread").join().expect("no panic");
        }
    }
}
