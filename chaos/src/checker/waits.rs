//! Waits: successive samples of the same waiter.

use super::ROUGHNESS;
use super::by_lock::LockHistory;
use super::runs::runs;
use crate::history::{Moment, Sample, Waiting};
use std::time::Duration;

/// A waiter, and the sample that shows it.
pub type Seen<'a> = (&'a Sample, &'a Waiting);

pub struct Wait<'a> {
    pub first: &'a Sample,
    pub last: &'a Sample,
    /// As seen last.
    pub waiting: &'a Waiting,
}

impl Wait<'_> {
    /// The time by which its wait had certainly begun: the time of the last sample, less the wait that it reports. A blocked
    /// client began no earlier than its first sample; a ticket may have waited before, on another connection.
    pub fn begun_by(&self) -> Moment {
        let waited = Duration::from_millis(self.waiting.waited_ms.max(0).unsigned_abs());
        let said = self.last.answered + ROUGHNESS - waited;
        if self.waiting.by.is_ticket() { said } else { said.max(self.first.answered) }
    }
}

pub fn waits<'a>(lock: &LockHistory<'a>) -> Vec<Wait<'a>> {
    waits_by(lock, is_same)
}

/// Joins the samples of a waiter for as long as each continues the last one.
pub fn waits_by<'a>(lock: &LockHistory<'a>, goes_on: fn(Seen, Seen) -> bool) -> Vec<Wait<'a>> {
    let name = |(sample, waiting): Seen<'a>| (&sample.server, &waiting.holder, waiting.by.client());
    let seen = lock.samples.iter().flat_map(|&sample| sample.waiters.iter().map(move |waiting| (sample, waiting)));
    let waits = runs(seen.map(|it| (name(it), it)), goes_on);
    waits.into_iter().map(|((first, _), (last, waiting))| Wait { first, last, waiting }).collect()
}

/// Whether a waiter in two samples has waited all the time in between, rather than begun again.
pub fn is_same(earlier: Seen, later: Seen) -> bool {
    let is_one = earlier.1.holder == later.1.holder && earlier.1.by.client() == later.1.by.client();
    let waited = later.1.waited_ms.saturating_sub(earlier.1.waited_ms).max(0).unsigned_abs();
    is_one && Duration::from_millis(waited) + ROUGHNESS >= later.0.asked.since(earlier.0.answered)
}
