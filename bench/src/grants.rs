//! The clients that were granted a lock, in order: how often it changed hands, and how fairly.

use std::cell::RefCell;

#[derive(Default)]
pub struct Grants(RefCell<Vec<usize>>);

impl Grants {
    pub fn give(&self, client: usize) {
        self.0.borrow_mut().push(client);
    }

    pub fn count(&self) -> f64 {
        self.0.borrow().len() as f64
    }

    /// The largest number of grants of one client minus the smallest. Only whole rounds count, in which each client could
    /// have had the lock once: the end of the turn cuts the last round short.
    pub fn unfairness(&self, clients: usize) -> f64 {
        let grants = self.0.borrow();
        let whole = grants.len() - grants.len() % clients;
        // With fewer grants than clients, all of them count.
        let counted = if whole == 0 { grants.len() } else { whole };
        let mut counts = vec![0_u32; clients];
        grants[..counted].iter().for_each(|&client| counts[client] += 1);
        f64::from(counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0))
    }
}
