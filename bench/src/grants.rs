//! Who got a lock, in order, and what that says: how often it changed hands, and how fairly.

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

    /// Grants to another client than the one before. Who gives a lock back may be the first to take it again.
    pub fn changes(&self) -> f64 {
        self.0.borrow().windows(2).filter(|pair| pair[0] != pair[1]).count() as f64
    }

    /// The most grants that one of so many clients got, less the fewest: over whole rounds, in which each could have had
    /// the lock once, since a cut in the midst of a round is nobody's fault.
    pub fn unfairness(&self, clients: usize) -> f64 {
        let grants = self.0.borrow();
        let whole = grants.len() - grants.len() % clients;
        // Fewer grants than clients: what there is must do.
        let counted = if whole == 0 { grants.len() } else { whole };
        let mut counts = vec![0_u32; clients];
        grants[..counted].iter().for_each(|&client| counts[client] += 1);
        f64::from(counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0))
    }
}
