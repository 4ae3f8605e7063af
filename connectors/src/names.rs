//! Names that nobody else has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Another one each time.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub fn unlikely() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// One that says where it is.
pub fn of_this_machine() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "weir".to_owned());
    format!("{}:{}", host.trim(), unlikely())
}
