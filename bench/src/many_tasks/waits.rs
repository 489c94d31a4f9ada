//! How long tasks waited, from asking until they had their lock.

use std::time::Duration;

/// In µs.
#[derive(Default)]
pub struct Waits(Vec<u32>);

impl Waits {
    pub fn note(&mut self, wait: Duration) {
        self.0.push(u32::try_from(wait.as_micros()).unwrap_or(u32::MAX));
    }

    /// Another task's.
    pub fn add(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    pub fn count(&self) -> f64 {
        self.0.len() as f64
    }

    /// So large a share of them was no longer.
    pub fn ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(f64::NAN, |us| f64::from(*us) / 1_000.0)
    }
}
