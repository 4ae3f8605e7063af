//! Heap: mimalloc. It is asked for an alignment only where the usual one will not do: its own way to an alignment takes a detour for
//! every size that is no power of two, some 130 instructions each time.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_collect, mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// What every piece is aligned to.
const USUAL: usize = 8;

pub struct Heap;

/// Gives back to the system what was freed a second ago and is still free. Nobody does where nobody allocates.
pub fn give_back() {
    #[expect(unsafe_code, reason = "a call into C")]
    // SAFETY: it looks after what is free, and may be called at any time.
    unsafe {
        mi_collect(false)
    }
}

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: every piece comes from mimalloc, aligned as asked for, and goes back there; mimalloc tells by its address how large it is.
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
    use super::*;

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
