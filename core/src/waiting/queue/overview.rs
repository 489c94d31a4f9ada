//! The queues as people see them: the longest first.

use super::super::lengths::{Lengths, as_count};
use super::super::store::Place;
use super::{Queue, Queues};
use crate::lock::UnixMs;
use std::rc::Rc;

/// The most locks that one look at the queues asks about though they may not be shown. It leaves out the others behind
/// them.
pub const QUEUES_SKIPPED_MAX: usize = 2_000;

/// A lock's queue, from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    pub key: Rc<[u8]>,
    pub waiters: usize,
    /// When the first of its waiters came.
    pub since: UnixMs,
    /// The number of waiters that were granted the lock since its queue was last empty.
    pub served: u64,
}

impl<W, L: Default> Queues<W, L> {
    /// The first `limit` of [`Self::longest_first`] that may be shown, past at most [`QUEUES_SKIPPED_MAX`] others.
    pub fn to_be_shown(
        &self,
        database: i32,
        limit: usize,
        may_be_shown: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = QueueSummary> {
        let mut skipped: usize = 0;
        let asked = self.longest_first(database).map(move |queue| (may_be_shown(&queue.key), queue));
        let bounded = asked.take_while(move |(shown, _)| {
            skipped = skipped.saturating_add(usize::from(!shown));
            skipped < QUEUES_SKIPPED_MAX
        });
        bounded.filter_map(|(shown, queue)| shown.then_some(queue)).take(limit)
    }

    /// The queues of a database, the longest first; of equally long ones, the one that has not changed for longest.
    pub fn longest_first(&self, database: i32) -> impl Iterator<Item = QueueSummary> {
        let of_each_length = self.databases.get(&database).into_iter().flat_map(Lengths::longest_first);
        let places = of_each_length.flat_map(|first| {
            let behind = |place: &Place| self.locks.get(*place)?.by_length.behind();
            std::iter::successors(Some(first), behind)
        });
        places.filter_map(|place| {
            let queue = self.locks.get(place)?;
            let first = self.waiters_of(place).next().and_then(|first| self.waiters.get(first));
            let since = first.map_or(0, |first| first.since);
            let Queue { key, length, served, .. } = queue;
            Some(QueueSummary { key: Rc::clone(key), waiters: as_count(*length), since, served: *served })
        })
    }
}
