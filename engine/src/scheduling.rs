//! How threads share the cores: those that records wait for run at once, those that keep house take the time that is left.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread wants to run when its turn comes. One that runs is interrupted for a thread whose turns are shorter
/// (Linux since 6.12); otherwise whoever wakes waits for its end, which is 3 ms.
#[cfg(target_os = "linux")]
const PROMPT_TURN_NANOS: u64 = 200_000;

/// What the system thinks right.
#[cfg(target_os = "linux")]
const USUAL_TURN_NANOS: u64 = 0;

/// Threads that keep house work this long at a time.
const STRETCH: Duration = Duration::from_micros(250);

/// Work that goes node by node breathes after this many of them.
const NODES_A_BREATH: usize = 16;

/// The longest rest at a time of threads that keep house.
const REST_MAX: Duration = Duration::from_millis(10);

/// How far those step back that keep house.
const POLITE_NICE: i32 = 5;

/// Short turns for this thread and every thread that it starts. Where that cannot be had, nothing changes.
pub fn prompt() {
    #[cfg(target_os = "linux")]
    turns(PROMPT_TURN_NANOS);
}

/// Steps back behind the threads that records wait for.
pub fn polite() {
    #[cfg(target_os = "linux")]
    turns(USUAL_TURN_NANOS);
    // A failure changes nothing but speed.
    let _ = rustix::process::nice(POLITE_NICE);
}

thread_local! {
    /// Since when this thread has worked without a rest, and whether it may rest; none where nobody said that it keeps house.
    static WORKING: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// As long as it lives its thread does work that nobody waits for, and rests in between as long as it worked: on a machine with
/// few cores others, weir's own and strangers, have their turn within a fraction of a millisecond. Left to the system they have
/// it with the next tick of its clock, which may be 4 ms away.
pub struct Breath(());

impl Breath {
    pub fn begin() -> Breath {
        WORKING.set(Some((Instant::now(), true)));
        Breath(())
    }

    /// Whether there is time to rest: without it others have their turn, but no more of it than they need.
    pub fn may_rest(&self, may_rest: bool) {
        WORKING.set(WORKING.get().map(|(since, _)| (since, may_rest)));
    }
}

impl Drop for Breath {
    fn drop(&mut self) {
        WORKING.set(None);
    }
}

/// To be called every some ten microseconds by what may be work that nobody waits for. For other threads it does nothing.
pub fn breathe() {
    let Some((since, may_rest)) = WORKING.get() else { return };
    let worked = since.elapsed();
    if worked < STRETCH {
        return;
    }
    if may_rest {
        std::thread::sleep(worked.min(REST_MAX));
    } else {
        std::thread::yield_now();
    }
    WORKING.set(Some((Instant::now(), may_rest)));
}

/// `breathe` for what goes node by node, with the number of those that are done.
pub fn breathe_after(nodes: usize) {
    if nodes.is_multiple_of(NODES_A_BREATH) {
        breathe();
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "neither rustix nor libc has a function for these two calls of the kernel")]
fn turns(nanos: u64) {
    let own_thread: libc::pid_t = 0;
    let flags: libc::c_uint = 0;
    let size = size_of::<libc::sched_attr>() as u32;
    let mut set = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes to a place that has as many and lives longer than the call.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, own_thread, &raw mut set, size, flags) } == 0;
    // Whoever started weir in a class of its own knows what they want.
    if known && set.sched_policy == libc::SCHED_OTHER as u32 {
        set.sched_runtime = nanos;
        // SAFETY: the kernel reads `set`, whose field `size` says how long it is, and keeps nothing of it.
        unsafe { libc::syscall(libc::SYS_sched_setattr, own_thread, &raw const set, flags) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn one_who_keeps_house_rests_as_long_as_it_works_and_others_do_not() {
        let took = |work: Duration| {
            let (begun, mut worked) = (Instant::now(), Duration::ZERO);
            while worked < work {
                let since = Instant::now();
                while since.elapsed() < STRETCH {}
                worked += STRETCH;
                breathe();
            }
            begun.elapsed()
        };
        let work = Duration::from_millis(20);
        let breath = Breath::begin();
        assert!(took(work) >= 2 * work);
        breath.may_rest(false);
        assert!(WORKING.get().is_some_and(|(_, may_rest)| !may_rest));
        drop(breath);
        assert_eq!(WORKING.get(), None);
    }

    #[test]
    fn one_who_steps_back_does_so_for_its_own_thread_alone() {
        let nice = || rustix::process::getpriority_process(None).unwrap_or_default();
        let before = nice();
        let inside = std::thread::spawn(move || {
            prompt();
            let prompt = nice();
            polite();
            (prompt, nice())
        });
        assert_eq!(inside.join().unwrap(), (before, (before + POLITE_NICE).min(19)));
        assert_eq!(nice(), before);
    }
}
