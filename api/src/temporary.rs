//! A directory of this process alone, which goes with whoever holds it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::clock;

/// Removed when it is dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Temporary {
    pub path: PathBuf,
    keep: bool,
}

impl Temporary {
    pub fn new(keep: bool) -> Result<Temporary, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-recipe-{}-{}-{made}", std::process::id(), clock::millis(SystemTime::now()));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make the directory {}: {error}", path.display()))?;
        Ok(Temporary { path, keep })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
