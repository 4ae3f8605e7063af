//! Thread: builders of threads that are named after what users called their streams, outputs and queries; and several at once.

use std::sync::Mutex;

use weir_model::lock::lock;

/// A thread whose name says what it does, and for which of them. A name may hold what the system takes in none.
pub fn named(what: &str, whose: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("{what} {}", whose.replace('\0', " ")))
}

/// Does the work with each of the items, with up to `most` at a time: on this thread, and on as many more as are to be had.
pub fn side_by_side<T: Send>(what: &str, items: Vec<T>, most: usize, work: impl Fn(T) + Sync) {
    let others = items.len().min(most).saturating_sub(1);
    let left = Mutex::new(items.into_iter());
    let next = || lock(&left).next();
    let work = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..others {
            if let Err(error) = std::thread::Builder::new().name(what.to_owned()).spawn_scoped(scope, work) {
                tracing::warn!("{what}: some wait for others, as no thread could be started: {error}");
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn so_many_are_done_at_a_time_and_all_of_them() {
        let (all, sum) = (Barrier::new(4), AtomicUsize::new(0));
        side_by_side("test", (1..=8).collect(), 4, |n| {
            // With fewer at a time it would never go on.
            all.wait();
            sum.fetch_add(n, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 36);
        side_by_side("test", Vec::<usize>::new(), 4, |_| unreachable!("there is none"));
    }

    #[test]
    fn any_name_will_do() {
        for whose in ["", "a", "\0", "é\0\n"] {
            named("test", whose).spawn(|| ()).expect("it starts").join().expect("it ends");
        }
    }
}
