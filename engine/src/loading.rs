//! Loading: how far a start of weir has come, in pages read and entries of the log replayed, of those there are. Those who read
//! and replay count them; whoever waits for the start looks.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Default, Debug)]
pub struct Loading {
    /// Pages that hold the present, of all graphs.
    pub(crate) pages: Part,
    /// Entries of the log beyond the checkpoints, as they are read: how many there are nobody knows before.
    pub(crate) read: AtomicU64,
    /// Those of them that are replayed.
    pub(crate) entries: Part,
    /// Nothing more is replayed until outputs have taken some of what was found.
    pub(crate) waits: AtomicBool,
}

const REPLAYED: &str = "entries of the log replayed";

/// How much is done, and of how much.
#[derive(Default, Debug)]
pub struct Part {
    done: AtomicU64,
    total: AtomicU64,
}

impl Part {
    pub(crate) fn add_expected(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// What is done, and what there is; never more than that.
    pub fn reached(&self) -> (u64, u64) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed).min(total), total)
    }
}

impl Loading {
    /// What is being done now, and how far it is; none before anything is known.
    pub fn reached(&self) -> Option<(&'static str, u64, u64)> {
        let (replayed, entries) = self.entries.reached();
        let (read, pages) = self.pages.reached();
        match (replayed, read) {
            (0, read) if read < pages => Some(("pages read", read, pages)),
            (replayed, _) if entries > 0 => Some((REPLAYED, replayed, entries)),
            _ if pages > 0 => Some(("pages read", read, pages)),
            _ => None,
        }
    }
}

/// Empty where nothing is known yet.
impl fmt::Display for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((what, done, total)) = self.reached() {
            write!(f, "{done} of {total} {what} ({} %)", done * 100 / total.max(1))?;
        }
        match (self.read.load(Ordering::Relaxed), self.reached()) {
            // Of what is replayed all was read.
            (0, _) | (_, Some((REPLAYED, ..))) if self.waits.load(Ordering::Relaxed) => {
                write!(f, ", and the rest waits until outputs have taken results")
            }
            (0, _) | (_, Some((REPLAYED, ..))) => Ok(()),
            (read, reached) => write!(f, "{}{read} entries of the log read", if reached.is_some() { ", " } else { "" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_far_it_is() {
        let loading = Loading::default();
        assert_eq!(loading.to_string(), "");
        loading.pages.add_expected(4);
        loading.pages.one();
        assert_eq!(loading.to_string(), "1 of 4 pages read (25 %)");
        loading.read.fetch_add(3, Ordering::Relaxed);
        loading.entries.add_expected(3);
        assert_eq!(loading.to_string(), "1 of 4 pages read (25 %), 3 entries of the log read");
        (0..3).for_each(|_| loading.pages.one());
        assert_eq!(loading.to_string(), "0 of 3 entries of the log replayed (0 %)");
        loading.waits.store(true, Ordering::Relaxed);
        let waits = "0 of 3 entries of the log replayed (0 %), and the rest waits until outputs have taken results";
        assert_eq!(loading.to_string(), waits);
        loading.waits.store(false, Ordering::Relaxed);
        loading.entries.one();
        loading.entries.one();
        assert_eq!(loading.to_string(), "2 of 3 entries of the log replayed (66 %)");
    }
}
