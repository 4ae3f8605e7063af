//! Heap: mimalloc. It is asked for an alignment only where the usual one will not do: its own way to an alignment takes a detour
//! for every size that is no power of two, some 130 instructions each time.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::Once;
use std::time::{Duration, Instant};

use super::is_near;
use libmimalloc_sys::{
    mi_collect, mi_free, mi_malloc, mi_malloc_aligned, mi_option_set, mi_option_t, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// What every piece is aligned to.
const USUAL: usize = 8;

/// How long mimalloc keeps what is free: the place of `mi_option_purge_delay` in its list, for which the crate has no name.
const PURGE_DELAY: mi_option_t = 15;

/// A delay that never ends.
const NEVER_MILLIS: i32 = i32::MAX;

/// How often what is free goes back to the system, and how often while memory is to be looked after.
const GIVEN_BACK_EVERY: Duration = Duration::from_secs(1);
const GIVEN_BACK_EVERY_NEAR: Duration = Duration::from_millis(50);

pub struct Heap;

/// Begins a thread, one in a process, that gives back to the system what is free. Left to mimalloc, it is done each second by
/// whoever allocates just then: workers stood still for up to 30 ms.
pub fn tend() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let tend = || {
            crate::scheduling::polite();
            loop {
                let rested = Instant::now();
                while rested.elapsed() < if is_near() { GIVEN_BACK_EVERY_NEAR } else { GIVEN_BACK_EVERY } {
                    std::thread::sleep(GIVEN_BACK_EVERY_NEAR);
                }
                collect(true);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("heap".to_owned()).spawn(tend) {
            return tracing::warn!(%error, "no thread to give back memory: whoever needs some does, and waits for it");
        }
        #[expect(unsafe_code, reason = "a call into C")]
        // SAFETY: options may be set at any time.
        unsafe {
            mi_option_set(PURGE_DELAY, NEVER_MILLIS.into());
        }
        // What was to go back before that does so now; and once nothing is left to, nothing is due any more.
        collect(true);
        collect(true);
    });
}

/// Gathers what this thread has freed, so that it can be given back. To be called before it rests for long.
pub fn gather_freed() {
    collect(false);
}

fn collect(all: bool) {
    #[expect(unsafe_code, reason = "a call into C")]
    // SAFETY: it looks after what is free, and may be called at any time.
    unsafe {
        mi_collect(all)
    }
}

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: every piece comes from mimalloc, aligned as asked for, and goes back there; mimalloc tells by its address how large it
// is.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two will do.
        let place = unsafe {
            if layout.align() <= USUAL { mi_malloc(layout.size()) } else { mi_malloc_aligned(layout.size(), layout.align()) }
        };
        place.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let place = unsafe {
            if layout.align() <= USUAL { mi_zalloc(layout.size()) } else { mi_zalloc_aligned(layout.size(), layout.align()) }
        };
        place.cast()
    }

    unsafe fn dealloc(&self, place: *mut u8, _: Layout) {
        // SAFETY: the caller promises that it came from here and is not used any more.
        unsafe { mi_free(place.cast()) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `alloc`; the caller promises that the piece came from here.
        let place = unsafe {
            let (place, align) = (place.cast(), layout.align());
            if align <= USUAL { mi_realloc(place, size) } else { mi_realloc_aligned(place, size, align) }
        };
        place.cast()
    }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;
    use crate::memory::resident;

    #[test]
    fn what_is_freed_goes_back_to_the_system() {
        const PIECE: usize = 512 << 20;
        /// By mimalloc's own choice.
        const USUAL_MILLIS: i64 = 1000;
        #[expect(unsafe_code, reason = "a call into C")]
        // SAFETY: options may be read at any time.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        // Another test may have begun the thread.
        assert!([USUAL_MILLIS, NEVER_MILLIS.into()].contains(&delay()), "another option is in that place");
        tend();
        assert_eq!(delay(), i64::from(NEVER_MILLIS));
        let piece = vec![1_u8; PIECE];
        // What other tests have and let go of meanwhile is much less.
        let used = resident().expect("what is resident");
        let most = PIECE as u64 * 3 / 4;
        assert!(used > most, "a piece that is in use");
        drop(std::hint::black_box(piece));
        let freed = Instant::now();
        while resident().expect("what is resident") > used - most {
            assert!(freed.elapsed() < Duration::from_secs(60), "it is kept");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "allocators are")]
    fn pieces_are_aligned_zeroed_and_moved_with_what_is_in_them() {
        for size in (1..=300).chain([1000, 4096, 70_000, 1 << 20]) {
            for align in [1, 2, 4, 8, 16, 64, 4096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: each piece is used within its size, and given back once.
                unsafe {
                    let (one, other) = (Heap.alloc(layout), Heap.alloc_zeroed(layout));
                    assert!([one, other].iter().all(|place| (*place as usize).is_multiple_of(align)), "{layout:?}");
                    assert!(std::slice::from_raw_parts(other, size).iter().all(|byte| *byte == 0), "{layout:?}");
                    one.write_bytes(7, size);
                    let moved = Heap.realloc(one, layout, 2 * size);
                    assert!((moved as usize).is_multiple_of(align), "{layout:?}");
                    assert!(std::slice::from_raw_parts(moved, size).iter().all(|byte| *byte == 7), "{layout:?}");
                    Heap.dealloc(moved, Layout::from_size_align(2 * size, align).unwrap());
                    Heap.dealloc(other, layout);
                }
            }
        }
    }
}
