//! Crew: threads for whatever work comes next. One without work waits a while before it goes, so work that comes now and then, in
//! thousands of places, starts no thread each time; where all are at work one more is started, so none waits for what stands
//! still.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::lock::lock;

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
    ended: Mutex<bool>,
    end: Condvar,
}

/// Hands work over; it is begun at once.
pub fn run(work: impl FnOnce() + Send + 'static) -> io::Result<Arc<Shift>> {
    let shift = Arc::new(Shift::default());
    let of = shift.clone();
    let job: Job = Box::new(move || {
        // What panics tells so itself; the thread is for others, too.
        let _ = panic::catch_unwind(AssertUnwindSafe(work));
        *lock(&of.ended) = true;
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
        let waited = self.end.wait_timeout_while(lock(&self.ended), patience, |ended| !*ended);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

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
            assert!(shift.has_ended_within(PATIENCE));
        }
    }

    #[test]
    fn threads_without_work_go() {
        assert!(run(|| ()).expect("a thread").has_ended_within(PATIENCE));
        let begun = Instant::now();
        while !lock(&WAITING).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "one stays");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_panic_is_an_end_and_the_thread_goes_on() {
        let shift = run(|| panic!("on purpose")).expect("a thread");
        assert!(shift.has_ended_within(PATIENCE));
        for _ in 0..1000 {
            assert!(run(|| ()).expect("a thread").has_ended_within(PATIENCE));
        }
    }
}
