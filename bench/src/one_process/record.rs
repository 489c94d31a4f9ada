//! The hand-offs of a turn: how many, and how long it took from each release until who came next knew of it.

use std::cell::{Cell, RefCell};
use std::time::Instant;

pub struct Record {
    begun: Cell<Instant>,
    count: Cell<usize>,
    released: Vec<Cell<Instant>>,
    /// In ns. Where a turn had ended in between, the wake-up is none of the server's.
    wake_ups: RefCell<Vec<u32>>,
}

impl Record {
    pub fn of(locks: usize) -> Self {
        let now = Cell::new(Instant::now());
        Self { begun: now.clone(), count: Cell::default(), released: vec![now; locks], wake_ups: RefCell::default() }
    }

    pub fn begin(&self, at: Instant) {
        self.begun.set(at);
        self.count.set(0);
        self.wake_ups.borrow_mut().clear();
    }

    /// Who has the lock is about to send that it gives it back.
    pub fn release(&self, lock: usize, at: Instant) {
        self.released[lock].set(at);
    }

    /// Who came next has read that it has the lock.
    pub fn grant(&self, lock: usize, at: Instant) {
        self.count.set(self.count.get() + 1);
        let released = self.released[lock].get();
        if released >= self.begun.get() {
            let wake_up = at.duration_since(released).as_nanos();
            self.wake_ups.borrow_mut().push(u32::try_from(wake_up).unwrap_or(u32::MAX));
        }
    }

    pub fn count(&self) -> f64 {
        self.count.get() as f64
    }

    /// Of how many both the release and the grant are within the turn.
    pub fn wake_ups(&self) -> usize {
        self.wake_ups.borrow().len()
    }

    /// So many of a hundred were told within this time.
    pub fn wake_up_us(&self, percentile: usize) -> f64 {
        let mut sorted = self.wake_ups.borrow().clone();
        sorted.sort_unstable();
        let place = (sorted.len() * percentile / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(f64::NAN, |ns| f64::from(*ns) / 1_000.0)
    }
}
