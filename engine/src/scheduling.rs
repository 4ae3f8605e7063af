//! How threads share the cores: those that records wait for run at once, those that keep house take the time that is left.

use std::time::{Duration, Instant};

/// How long a thread wants to run when its turn comes. One that runs is interrupted for a thread whose turns are shorter
/// (Linux since 6.12); otherwise whoever wakes waits for its end, which is 3 ms.
#[cfg(target_os = "linux")]
const PROMPT_TURN_NANOS: u64 = 200_000;

/// What the system thinks right.
#[cfg(target_os = "linux")]
const USUAL_TURN_NANOS: u64 = 0;

/// The longest rest at a time of those that keep house.
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

/// Rests after work that nobody waits for, as long as it took: on a machine with few cores others, weir's own and strangers, have their turn
/// within milliseconds.
pub struct Breath {
    since: Instant,
}

impl Breath {
    pub fn begin() -> Breath {
        Breath { since: Instant::now() }
    }

    pub fn take(&mut self) {
        std::thread::sleep(self.since.elapsed().min(REST_MAX));
        self.since = Instant::now();
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
