//! The holders of each lock, as its clients see it.
//!
//! The clients of both sides are in this process, so one clock decides: a lock is held twice if a client is granted it while
//! the guard of another client still says that its lease is guaranteed.

use rlock_client::{Fenced, Guard};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a client is: with the master that is cut off, or with all other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    CutOff,
    Rest,
}

#[derive(Default)]
struct Record {
    name: String,
    /// The holder before the cut. A lock that the master granted since has none.
    first: Option<(Side, Arc<Guard<Fenced>>)>,
    held: Vec<Arc<Guard<Fenced>>>,
    token: u64,
    is_held_twice: bool,
    was_granted_by_the_rest: bool,
}

#[derive(Default)]
pub struct Ledger(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    records: Vec<Record>,
    grants: usize,
    fallen: usize,
}

/// What has become of the locks so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that were held before the cut: by clients on the side of the master that is cut off, and by the rest.
    pub held: [usize; 2],
    /// How many of these the same holders still hold.
    pub kept: [usize; 2],
    /// Locks that the master granted since the cut.
    pub late: usize,
    pub held_twice: usize,
    /// The name of one lock that is held twice.
    pub example: Option<String>,
    /// Held on the side that was cut off, and not granted by the rest since.
    pub without_next_holder: usize,
    pub grants: usize,
    /// Tokens that were not larger than the one before.
    pub fallen: usize,
}

impl Ledger {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lock to count, and returns its place.
    pub fn add(&self, name: &str) -> usize {
        let mut pages = self.pages();
        pages.records.push(Record { name: name.to_owned(), ..Record::default() });
        pages.records.len() - 1
    }

    pub fn granted(&self, place: usize, side: Side, guard: Guard<Fenced>) {
        let (mut pages, token) = (self.pages(), guard.token());
        let record = &mut pages.records[place];
        record.held.retain(|other| !other.is_lost());
        record.is_held_twice |= !record.held.is_empty();
        record.was_granted_by_the_rest |= side == Side::Rest;
        let has_fallen = token <= record.token;
        record.token = record.token.max(token);
        record.held.push(Arc::new(guard));
        pages.grants += 1;
        pages.fallen += usize::from(has_fallen);
    }

    /// Remembers the current holders as those before the cut.
    pub fn begin(&self, side_of: impl Fn(usize) -> Side) {
        for (place, record) in self.pages().records.iter_mut().enumerate() {
            record.first = record.held.first().map(|guard| (side_of(place), guard.clone()));
            record.was_granted_by_the_rest = false;
        }
    }

    pub fn counts(&self) -> Counts {
        let pages = self.pages();
        let mut counts = Counts { grants: pages.grants, fallen: pages.fallen, ..Counts::default() };
        for record in &pages.records {
            match &record.first {
                Some((side, guard)) => {
                    counts.held[*side as usize] += 1;
                    counts.kept[*side as usize] += usize::from(!guard.is_lost());
                }
                None => counts.late += 1,
            }
            let is_of_the_rest = matches!(record.first, Some((Side::Rest, _)));
            counts.without_next_holder += usize::from(!is_of_the_rest && !record.was_granted_by_the_rest);
            if record.is_held_twice {
                counts.held_twice += 1;
                counts.example.get_or_insert_with(|| record.name.clone());
            }
        }
        counts
    }

    /// Drops all guards, which releases the locks, and returns their names.
    pub fn close(&self) -> Vec<String> {
        self.pages().records.drain(..).map(|record| record.name).collect()
    }
}
