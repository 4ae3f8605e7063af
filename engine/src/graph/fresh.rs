//! Ids for the nodes that CREATE makes: random, and nobody looks whether there is such a node. With 122 random bits no two are
//! the same by chance; the scheme `long` has 54, so that among a hundred million nodes two may well be.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use weir_model::random::{STEP, mix};
use weir_model::{IdScheme, NodeId};

/// Random ones, of the form the scheme gives them.
pub struct FreshIds {
    state: AtomicU64,
}

impl FreshIds {
    pub fn new() -> FreshIds {
        // The standard library seeds each of these from the operating system.
        FreshIds { state: AtomicU64::new(RandomState::new().build_hasher().finish()) }
    }

    fn random(&self) -> u64 {
        mix(self.state.fetch_add(STEP, Ordering::Relaxed))
    }

    pub fn next(&self, ids: IdScheme) -> NodeId {
        let (high, low) = (self.random(), self.random());
        let version = match ids {
            IdScheme::Long { .. } => return NodeId::new(0, ((low as i64) % (1 << 53)) as u64),
            IdScheme::Uuid | IdScheme::Uuid4 => 4,
            IdScheme::Uuid3 { .. } => 3,
            IdScheme::Uuid5 { .. } => 5,
        };
        NodeId::new(high & !0xf000 | version << 12, low >> 2 | 1 << 63)
    }
}
