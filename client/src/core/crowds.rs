//! Which locks are waited for by this client now. A newcomer behind others of its own program need not try first: that
//! would only tell what is known. But it must not come before one of them that tries still, and is to wait next.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Crowds(Mutex<HashMap<Arc<[u8]>, Crowd>>);

#[derive(Default)]
struct Crowd {
    trying: usize,
    waiting: usize,
}

/// One of those that want a lock, until this is dropped.
pub(super) struct InCrowd {
    crowds: Arc<Crowds>,
    key: Arc<[u8]>,
    waits: bool,
}

impl Crowds {
    /// Whether there is no need to try is in what this returns.
    pub(super) fn join(self: &Arc<Self>, key: &[u8]) -> InCrowd {
        let mut crowds = self.crowds();
        let known = crowds.get_key_value(key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| Arc::from(key));
        let crowd = crowds.entry(key.clone()).or_default();
        let waits = crowd.trying == 0 && crowd.waiting > 0;
        *crowd.count(waits) += 1;
        InCrowd { crowds: self.clone(), key, waits }
    }

    fn crowds(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Crowd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crowd {
    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.trying }
    }
}

impl InCrowd {
    /// Whether others wait before it, so that it need not try.
    pub(super) fn is_behind_others(&self) -> bool {
        self.waits
    }

    /// The server has it wait.
    pub(super) fn waits(&mut self) {
        if !std::mem::replace(&mut self.waits, true) {
            if let Some(crowd) = self.crowds.crowds().get_mut(&self.key) {
                crowd.trying -= 1;
                crowd.waiting += 1;
            }
        }
    }
}

impl Drop for InCrowd {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.crowds.crowds().entry(self.key.clone()) {
            let crowd = entry.get_mut();
            *crowd.count(self.waits) -= 1;
            if crowd.trying == 0 && crowd.waiting == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_behind_those_that_wait_need_not_try_unless_one_of_them_tries_still() {
        let crowds = Arc::<Crowds>::default();
        let mut first = crowds.join(b"a");
        assert!(!first.is_behind_others() && !crowds.join(b"b").is_behind_others());
        let second = crowds.join(b"a");
        assert!(!second.is_behind_others(), "the first may get it");
        first.waits();
        assert!(!crowds.join(b"a").is_behind_others(), "the second is to wait before");
        drop(second);
        let third = crowds.join(b"a");
        assert!(third.is_behind_others());
        drop((first, third));
        assert!(!crowds.join(b"a").is_behind_others());
        assert!(crowds.crowds().is_empty());
    }
}
