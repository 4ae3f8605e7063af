//! The allocator of the process: the heap, but for large pieces of the graph where memory runs short.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::heap::Heap;
use super::space::{PAGE, Space};
use super::{INTO_FILE, SPACE};

/// Smaller pieces are never put into the file.
const LARGE: usize = 16 << 10;

thread_local! {
    static HOLDS_GRAPH: Cell<bool> = const { Cell::new(false) };
}

/// What this thread allocates from now on is the graph, mostly, and may be put into the file.
pub fn holds_graph() {
    HOLDS_GRAPH.set(true);
}

pub struct Allocator;

/// Whether this is for the file.
fn goes_into_file(layout: Layout) -> bool {
    // A thread that is ending holds nothing any more.
    let holds_graph = || HOLDS_GRAPH.try_with(Cell::get).unwrap_or(false);
    layout.size() >= LARGE && INTO_FILE.load(Ordering::Relaxed) && layout.align() <= PAGE && holds_graph()
}

/// Pages of the file, if it is time for them and the disk has room.
fn in_file(layout: Layout) -> Option<NonNull<u8>> {
    if goes_into_file(layout) { SPACE.get()?.allocate(layout.size()) } else { None }
}

/// Where a piece came from, if that is the file.
fn space_of(place: *mut u8, layout: Layout) -> Option<&'static Space> {
    if layout.size() < LARGE { None } else { SPACE.get().filter(|space| space.contains(place)) }
}

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: a piece comes either from the heap or from the space, and goes back where it came from, which its size
// and its address tell. Pages are aligned as far as they are used for.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match in_file(layout) {
            Some(place) => place.as_ptr(),
            // SAFETY: as the caller promises.
            None => unsafe { Heap.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match in_file(layout) {
            // SAFETY: so many bytes were given out, and nobody else has them.
            Some(place) => unsafe {
                place.as_ptr().write_bytes(0, layout.size());
                place.as_ptr()
            },
            // SAFETY: as the caller promises.
            None => unsafe { Heap.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        match (space_of(place, layout), NonNull::new(place)) {
            (Some(space), Some(place)) => space.release(place, layout.size()),
            // SAFETY: it did not come from the space, so it came from there.
            _ => unsafe { Heap.dealloc(place, layout) },
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is one for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if space_of(place, layout).is_none() && (size <= layout.size() || !goes_into_file(wanted)) {
            // SAFETY: as the caller promises, and it came from there.
            return unsafe { Heap.realloc(place, layout, size) };
        }
        // SAFETY: the new piece is another one, and both are at least as long as what is copied.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(place, size.min(layout.size()));
                self.dealloc(place, layout);
            }
            moved
        }
    }
}
