//! Prefetch: asks the processor for memory that will be read soon, so that it waits for many places at once and not for one after
//! the other.

/// The bytes that come together.
const LINE: usize = 64;

/// Fetches what a reference points at, or its beginning if that is large.
#[expect(unsafe_code, reason = "the instruction takes an address; it reads nothing, and no address is wrong")]
pub fn prefetch<T>(of: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect but on time, and the feature it needs is part of the architecture.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(of).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = of;
}

/// Fetches all of a few things.
pub fn prefetch_all<T>(of: &[T]) {
    of.iter().step_by((LINE / size_of::<T>().max(1)).max(1)).chain(of.last()).for_each(prefetch);
}
