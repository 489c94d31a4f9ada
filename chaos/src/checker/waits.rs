//! Waits as they were seen: the same waiter in one sample after the other.

use super::ROUGHNESS;
use super::by_lock::LockHistory;
use crate::history::{Moment, Sample, Waiting, WaitsBy};
use std::collections::HashMap;
use std::time::Duration;

pub struct Wait<'a> {
    pub holder: &'a str,
    pub by: &'a WaitsBy,
    pub first: &'a Sample,
    pub last: &'a Sample,
    pub waiting: &'a Waiting,
}

impl Wait<'_> {
    /// It had begun by then, by what was seen first and what it was said to have waited last.
    pub fn begun_by(&self) -> Moment {
        let waited = Duration::from_millis(self.waiting.waited_ms.max(0).unsigned_abs());
        self.first.answered.max(self.last.answered + ROUGHNESS - waited)
    }
}

pub fn waits<'a>(lock: &LockHistory<'a>) -> Vec<Wait<'a>> {
    let mut waits: Vec<Wait> = Vec::new();
    let mut latest: HashMap<(&str, &str, Option<i64>), usize> = HashMap::new();
    for &sample in &lock.samples {
        for waiting in &sample.waiters {
            let name = (sample.server.as_str(), waiting.holder.as_str(), waiting.by.client());
            match latest.get(&name).map(|place| &mut waits[*place]) {
                Some(wait) if is_same((wait.last, wait.waiting), (sample, waiting)) => {
                    wait.last = sample;
                    wait.waiting = waiting;
                }
                _ => {
                    latest.insert(name, waits.len());
                    waits.push(Wait { holder: name.1, by: &waiting.by, first: sample, last: sample, waiting });
                }
            }
        }
    }
    waits
}

/// Whether somebody who is seen twice has waited all the time in between, or has begun anew.
pub fn is_same(earlier: (&Sample, &Waiting), later: (&Sample, &Waiting)) -> bool {
    let is_one = earlier.1.holder == later.1.holder && earlier.1.by.client() == later.1.by.client();
    let waited = later.1.waited_ms.saturating_sub(earlier.1.waited_ms).max(0).unsigned_abs();
    is_one && Duration::from_millis(waited) + ROUGHNESS >= later.0.asked.since(earlier.0.answered)
}
