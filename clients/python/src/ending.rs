//! The interpreter's end. It ends threads that ask for its lock (GIL) by unwinding them, and not each unwinder gets through
//! Rust's frames: where it does not, the process crashes. So from then on none of our frames asks for it, but those of
//! the thread that ends the interpreter; and it does not end before those that have asked are done.

use pyo3::prelude::*;
use std::cell::Cell;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

static IS_ENDING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// A forked process has none of the threads that are counted.
static PROCESS: AtomicU32 = AtomicU32::new(0);

const LIMIT: Duration = Duration::from_secs(1);

thread_local! {
    static ENDS_IT: Cell<bool> = const { Cell::new(false) };
}

/// For as long as it is there, this thread may ask for the interpreter's lock.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, SeqCst);
        let inside = Self;
        (!IS_ENDING.load(SeqCst) || ENDS_IT.get()).then_some(inside)
    }

    /// The same in a thread that is not to go on once the interpreter ends.
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
