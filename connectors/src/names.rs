//! Names that nobody else has.

use std::hash::{BuildHasher, Hasher, RandomState};

pub fn unlikely() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// One that says where it is.
pub fn of_this_machine() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "weir".to_owned());
    format!("{}:{}", host.trim(), unlikely())
}
