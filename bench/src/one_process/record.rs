//! When each lock was given back, and how long it took until who came next knew of it.

use std::cell::{Cell, RefCell};
use std::time::Instant;

pub struct Record {
    released: Vec<Cell<Instant>>,
    /// In ns, in the order of the grants.
    wake_ups: RefCell<Vec<u32>>,
}

impl Record {
    pub fn of(locks: usize) -> Self {
        Self { released: vec![Cell::new(Instant::now()); locks], wake_ups: RefCell::default() }
    }

    /// Who has the lock is about to send that it gives it back.
    pub fn release(&self, lock: usize, at: Instant) {
        self.released[lock].set(at);
    }

    /// Who came next has read that it has the lock.
    pub fn grant(&self, lock: usize, at: Instant) {
        let wake_up = at.duration_since(self.released[lock].get()).as_nanos();
        self.wake_ups.borrow_mut().push(u32::try_from(wake_up).unwrap_or(u32::MAX));
    }

    pub fn count(&self) -> f64 {
        self.wake_ups.borrow().len() as f64
    }

    /// So many of a hundred were told within this time.
    pub fn wake_up_us(&self, percentile: usize) -> f64 {
        let mut sorted = self.wake_ups.borrow().clone();
        sorted.sort_unstable();
        let place = (sorted.len() * percentile / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(f64::NAN, |ns| f64::from(*ns) / 1_000.0)
    }
}
