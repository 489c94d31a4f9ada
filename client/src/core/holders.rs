//! The names under which a client holds locks: fresh ones, and those of owners that callers chose.

use super::hold::Hold;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use uuid::Uuid;

pub(crate) struct Holders {
    /// What all but those of owners begin with: the process's name, if it has one, and a uuid.
    identity: String,
    next: AtomicU64,
    /// The holds of owners that callers chose, since several guards may share one.
    named: Mutex<Named>,
}

/// With fewer, nothing is thrown out.
const MANY_MIN: usize = 64;

#[derive(Default)]
struct Named {
    /// By the lock's name and the owner.
    holds: HashMap<(Vec<u8>, Vec<u8>), Weak<Hold>>,
    /// With so many, those that nobody uses any more are thrown out.
    many: usize,
}

impl Holders {
    pub(super) fn new(name: &str) -> Self {
        let uuid = Uuid::new_v4();
        let identity = if name.is_empty() { uuid.to_string() } else { format!("{name}:{uuid}") };
        Self { identity, next: AtomicU64::new(1), named: Mutex::default() }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// A holder that nobody has had before. It ends with `<uuid>:<n>`, as Redisson's `<uuid>:<thread>`.
    pub(crate) fn fresh(&self) -> Vec<u8> {
        format!("{}:{}", self.identity, self.next.fetch_add(1, Relaxed)).into_bytes()
    }

    /// The hold of an owner that the caller chose.
    pub(crate) fn hold_of(&self, key: &[u8], owner: &[u8]) -> Arc<Hold> {
        let mut named = self.named();
        if named.holds.len() >= named.many {
            named.holds.retain(|_, hold| hold.strong_count() > 0);
            named.many = (2 * named.holds.len()).max(MANY_MIN);
        }
        let place = named.holds.entry((key.to_vec(), owner.to_vec())).or_default();
        match place.upgrade() {
            Some(hold) => hold,
            None => {
                let hold = Arc::new(Hold::new(key.to_vec(), owner.to_vec(), true));
                *place = Arc::downgrade(&hold);
                hold
            }
        }
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A power of two, and a number that is no such thing.
    const MANY: usize = 32_768;
    const FEWER: usize = 24_000;

    const LOOKS: usize = 200;

    /// By how much the fastest look among many may take longer than the fastest among fewer.
    const RATIO: u32 = 3;

    fn until_so_many_hold(holders: &Holders, kept: &mut Vec<Arc<Hold>>, count: usize) {
        while kept.len() < count {
            kept.push(holders.hold_of(b"orders:42", kept.len().to_string().as_bytes()));
        }
    }

    /// The least time that it takes to find all of some that are there already.
    fn fastest_look(holders: &Holders) -> Duration {
        let look = |_| {
            let began = Instant::now();
            (0..LOOKS).for_each(|owner| drop(holders.hold_of(b"orders:42", owner.to_string().as_bytes())));
            began.elapsed()
        };
        (0..LOOKS).map(look).min().unwrap()
    }

    #[test]
    fn an_owner_is_found_as_fast_among_many() {
        let (holders, mut kept) = (Holders::new(""), Vec::new());
        until_so_many_hold(&holders, &mut kept, FEWER);
        let among_fewer = fastest_look(&holders);
        until_so_many_hold(&holders, &mut kept, MANY);
        let among_many = fastest_look(&holders);
        assert!(among_many < among_fewer * RATIO, "{among_many:?} among {MANY}, {among_fewer:?} among {FEWER}");
    }
}
