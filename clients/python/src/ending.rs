//! The interpreter's end. While it ends, it unwinds threads that ask for its lock (GIL). Not every unwinder gets through
//! Rust's frames: where it does not, the process crashes. So from then on only the thread that ends the interpreter asks for
//! the GIL in our frames, and the interpreter does not end before threads that have asked already are done.

use pyo3::prelude::*;
use std::cell::Cell;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

static IS_ENDING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The process of the counted threads. A forked one has none of them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

const LIMIT: Duration = Duration::from_secs(1);

thread_local! {
    static ENDS_IT: Cell<bool> = const { Cell::new(false) };
}

/// As long as this value exists, its thread may ask for the interpreter's lock.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, SeqCst);
        let inside = Self;
        (!IS_ENDING.load(SeqCst) || ENDS_IT.get()).then_some(inside)
    }

    /// The same for a thread that must not go on once the interpreter ends.
    pub(crate) fn enter_or_rest() -> Self {
        loop {
            match Self::enter() {
                Some(inside) => return inside,
                None => thread::park(),
            }
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, SeqCst);
    }
}

pub(crate) fn begin() {
    PROCESS.store(process::id(), SeqCst);
}

/// Called by the thread that is about to end the interpreter.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    ENDS_IT.set(true);
    IS_ENDING.store(true, SeqCst);
    let limit = Instant::now() + LIMIT;
    while PROCESS.load(SeqCst) == process::id() && INSIDE.load(SeqCst) > 0 && Instant::now() < limit {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}
