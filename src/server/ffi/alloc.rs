//! Memory comes from the server, so that it counts in its `used_memory` and towards `maxmemory`.
//!
//! Outside a server, in tests, it comes from the system. A block must go back to where it came from, and does:
//! within one process either there never is a server, or nothing is allocated before the server's allocator is known,
//! since that is the first thing that loading does.

use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout, System};

#[global_allocator]
static ALLOCATOR: ServerAlloc = ServerAlloc;

struct ServerAlloc;

/// The alignment of the server's allocator. Rarer, larger alignments come from the system and go back to it.
const ALIGNED: usize = 16;

// SAFETY: each block is taken from and given back to the same allocator, which the layout and the presence of a
// server decide, and neither changes between the two (see the file's header). The server's allocator aligns to
// `ALIGNED`, and aborts instead of returning null.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about the layout are passed on.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) if layout.align() <= ALIGNED => alloc(layout.size()).cast(),
                _ => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the allocator that the same choice finds again.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) if layout.align() <= ALIGNED => free(block.cast()),
                _ => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from the allocator that the same choice finds again.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) if layout.align() <= ALIGNED => realloc(block.cast(), size).cast(),
                _ => System.realloc(block, layout, size),
            }
        }
    }
}
