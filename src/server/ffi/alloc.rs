//! Memory comes from the server, so that it counts in its `used_memory` and towards `maxmemory`.
//!
//! The first step of loading makes the server's allocator known, so nothing is allocated before. Outside a server, in tests,
//! memory comes from the system.
//!
//! The server's allocator is whatever the server was built with, and promises little about alignment. Rust's code relies on
//! the alignment that it asks for: a table that is read 16 bytes at a time crashes the server if it gets less. So if Rust
//! asks for a larger alignment than [`PROMISED`], it gets an aligned address inside a larger block.

use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, allow(dead_code, reason = "there is no server"))]
static ALLOCATOR: Aligned<Server> = Aligned(Server);

/// The alignment of each block of the server, if the block is at least as large. More is not certain: the server may put a
/// number at the beginning of C's block, and jemalloc, as the servers' authors build it, aligns to no more.
const PROMISED: usize = size_of::<usize>();

/// The size of what Rust allocates for a panic: seven words. Rust asks for the alignment of a word only, but passes it to the
/// unwinder as a C type that is aligned to [`UNWINDERS`]. LLVM's unwinder, which zig links in, relies on that: without it, a
/// panic would crash the server.
const EXCEPTION: usize = 7 * size_of::<usize>();
const UNWINDERS: usize = 16;

/// The layout with the alignment that the block really gets.
fn aligned(layout: Layout) -> Layout {
    if (layout.size(), layout.align()) != (EXCEPTION, align_of::<usize>()) {
        return layout;
    }
    layout.align_to(UNWINDERS).unwrap_or(layout)
}

/// An allocator of the server's kind.
///
/// # Safety
/// `alloc` and `resize` return null, or a block of the size that was asked for, which is not 0, aligned to [`PROMISED`] or to
/// its size. A block stays as it is until it is freed or resized, and resizing keeps its content.
unsafe trait Blocks {
    unsafe fn alloc(&self, size: usize) -> *mut u8;
    unsafe fn resize(&self, block: *mut u8, size: usize) -> *mut u8;
    unsafe fn free(&self, block: *mut u8);
}

/// The same allocator, for any alignment.
struct Aligned<B>(B);

// SAFETY: a block is aligned as the layout says, since it is at least as large as its alignment, or aligned by
// `Self::inside`; and each block returns to `B` the way it came, since the layout alone decides which way.
unsafe impl<B: Blocks> GlobalAlloc for Aligned<B> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = aligned(layout);
        // SAFETY: the size is not 0, as the caller promises.
        unsafe {
            if layout.align() <= PROMISED {
                self.0.alloc(layout.size().max(layout.align()))
            } else {
                self.inside(layout)
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is of this allocator with this layout; so if it lies inside a larger block, `inside` has put the
        // address of that one before it.
        unsafe {
            let inside = aligned(layout).align() > PROMISED;
            self.0.free(if inside { block.sub(PROMISED).cast::<*mut u8>().read_unaligned() } else { block });
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block is of this allocator with this layout, which is also valid with the new size. Both blocks are at
        // least as large as what is copied.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            if aligned(layout).align().max(aligned(new).align()) <= PROMISED {
                return self.0.resize(block, size.max(layout.align()));
            }
            // The server would keep the content, but the aligned address may have another distance from the beginning.
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

impl<B: Blocks> Aligned<B> {
    /// Allocates a larger block. Returns its first aligned address with room before it for the address of the larger block.
    /// Blocks begin at multiples of [`PROMISED`], which is that room, so it is at most one alignment further on.
    ///
    /// # Safety
    /// The alignment must be larger than [`PROMISED`].
    unsafe fn inside(&self, layout: Layout) -> *mut u8 {
        let Some(size) = layout.size().checked_add(layout.align()) else { return ptr::null_mut() };
        // SAFETY: all is within the block.
        unsafe {
            let start = self.0.alloc(size);
            if start.is_null() {
                return start;
            }
            let block = start.map_addr(|start| (start | layout.align().wrapping_sub(1)).wrapping_add(1));
            block.sub(PROMISED).cast::<*mut u8>().write_unaligned(start);
            block
        }
    }
}

/// The server's own functions. They end the server if no memory is left.
struct Server;

// SAFETY: every server promises this: these functions are its C allocator's, at most with a number before each block.
unsafe impl Blocks for Server {
    unsafe fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        unsafe { raw::RedisModule_Alloc.map_or(ptr::null_mut(), |alloc| alloc(size).cast()) }
    }

    unsafe fn resize(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        unsafe { raw::RedisModule_Realloc.map_or(ptr::null_mut(), |realloc| realloc(block.cast(), size).cast()) }
    }

    unsafe fn free(&self, block: *mut u8) {
        // SAFETY: the caller's promises are passed on.
        unsafe { _ = raw::RedisModule_Free.map(|free| free(block.cast())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlock_testing::Random;
    use std::alloc::System;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// The worst allocator that a server may have: its blocks are aligned as badly as is allowed, move whenever they can, and
    /// are reused at once.
    #[derive(Default)]
    struct Worst {
        sizes: RefCell<HashMap<usize, usize>>,
        is_full: bool,
    }

    impl Worst {
        /// What to ask the system for, and where the block begins in that: it is aligned as badly as is allowed.
        fn layout(size: usize) -> (Layout, usize) {
            let least = 1 << size.min(8).ilog2();
            (Layout::from_size_align(size + least, 16).unwrap(), least)
        }
    }

    // SAFETY: each block is one of the system's, except for its first bytes.
    unsafe impl Blocks for Worst {
        unsafe fn alloc(&self, size: usize) -> *mut u8 {
            if self.is_full || size > 1 << 40 {
                return ptr::null_mut();
            }
            let (layout, least) = Self::layout(size);
            // SAFETY: the layout's size is not 0, and the block lies within the system's.
            let block = unsafe {
                let start = System.alloc(layout);
                start.write_bytes(0xaa, layout.size());
                start.add(least)
            };
            self.sizes.borrow_mut().insert(block.addr(), size);
            block
        }

        unsafe fn resize(&self, block: *mut u8, size: usize) -> *mut u8 {
            let before = self.sizes.borrow()[&block.addr()];
            // SAFETY: both blocks are of this allocator, and as large as what is copied.
            unsafe {
                let moved = self.alloc(size);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, before.min(size));
                    self.free(block);
                }
                moved
            }
        }

        unsafe fn free(&self, block: *mut u8) {
            let size = self.sizes.borrow_mut().remove(&block.addr()).expect("a block, not freed yet, at its beginning");
            let (layout, least) = Self::layout(size);
            // SAFETY: `alloc` has taken it from the system with this layout, at this distance from its beginning.
            unsafe {
                let start = block.sub(least);
                start.write_bytes(0xdd, layout.size());
                System.dealloc(start, layout);
            }
        }
    }

    /// A block in use, with its content.
    struct Used {
        block: *mut u8,
        layout: Layout,
        contents: u8,
    }

    impl Used {
        fn fill(block: *mut u8, layout: Layout, contents: u8) -> Self {
            assert!(!block.is_null());
            assert_eq!(block.addr() % aligned(layout).align(), 0, "{layout:?}");
            // SAFETY: the block is this large.
            unsafe { block.write_bytes(contents, layout.size()) };
            Self { block, layout, contents }
        }

        fn check(&self, size: usize) {
            // SAFETY: the block is at least this large.
            let bytes = unsafe { std::slice::from_raw_parts(self.block, size) };
            assert!(bytes == vec![self.contents; size], "{:?} to {size}", self.layout);
        }
    }

    fn below(random: &mut Random, bound: usize) -> usize {
        usize::try_from(random.below(bound as u64)).unwrap()
    }

    #[test]
    fn each_block_is_aligned_as_asked_and_keeps_what_is_in_it() {
        let histories = if cfg!(miri) { 5 } else { 1_000 };
        for seed in 0..histories {
            let (mut random, allocator) = (Random::from(seed), Aligned(Worst::default()));
            let mut used: Vec<Used> = Vec::new();
            let layout = |random: &mut Random| {
                if random.is(10) {
                    return Layout::new::<[usize; EXCEPTION / size_of::<usize>()]>();
                }
                let largest = random.one_of(&[8, 100, 5_000]);
                Layout::from_size_align(1 + below(random, largest), 1 << random.below(13)).unwrap()
            };
            for contents in 0..200 {
                let at = below(&mut random, used.len());
                // SAFETY: blocks are freed as they were allocated, and no layout is empty.
                unsafe {
                    match random.below(5) {
                        0 => {
                            let layout = layout(&mut random);
                            used.push(Used::fill(allocator.alloc(layout), layout, contents));
                        }
                        1 => {
                            let layout = layout(&mut random);
                            let zeroed = Used { block: allocator.alloc_zeroed(layout), layout, contents: 0 };
                            zeroed.check(layout.size());
                            used.push(Used::fill(zeroed.block, layout, contents));
                        }
                        2 | 3 if !used.is_empty() => {
                            let Used { block, layout: old, contents: before } = used.swap_remove(at);
                            let new = Layout::from_size_align(layout(&mut random).size(), old.align()).unwrap();
                            let block = allocator.realloc(block, old, new.size());
                            Used { block, layout: new, contents: before }.check(old.size().min(new.size()));
                            used.push(Used::fill(block, new, contents));
                        }
                        4 if !used.is_empty() => {
                            let gone = used.swap_remove(at);
                            gone.check(gone.layout.size());
                            allocator.dealloc(gone.block, gone.layout);
                        }
                        _ => {}
                    }
                }
            }
            for Used { block, layout, .. } in used {
                // SAFETY: as above.
                unsafe { allocator.dealloc(block, layout) };
            }
            assert!(allocator.0.sizes.take().is_empty(), "everything is released");
        }
    }

    #[test]
    fn what_a_panic_throws_is_aligned_as_unwinders_rely_on() {
        let allocator = Aligned(Worst::default());
        let layout = Layout::new::<[usize; 7]>();
        // SAFETY: the block is freed as it was allocated, and the layout is not empty.
        unsafe {
            let used = Used::fill(allocator.alloc(layout), layout, 7);
            assert_eq!(used.block.addr() % 16, 0);
            allocator.dealloc(used.block, layout);
        }
    }

    #[test]
    fn where_there_is_no_memory_there_is_no_block_and_the_old_one_stays() {
        let mut allocator = Aligned(Worst::default());
        for align in [1, 8, 16, 4096] {
            let layout = Layout::from_size_align(100, align).unwrap();
            let largest = Layout::from_size_align((isize::MAX as usize + 1) - align, align).unwrap();
            // SAFETY: blocks are freed as they were allocated, and no layout is empty.
            unsafe {
                assert!(allocator.alloc(largest).is_null());
                let used = Used::fill(allocator.alloc(layout), layout, 7);
                allocator.0.is_full = true;
                assert!(allocator.alloc(layout).is_null());
                assert!(allocator.alloc_zeroed(layout).is_null());
                assert!(allocator.realloc(used.block, layout, 200).is_null());
                allocator.0.is_full = false;
                used.check(100);
                allocator.dealloc(used.block, layout);
            }
        }
    }
}
