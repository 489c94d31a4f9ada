//! Which locks are waited for by this client now. A newcomer behind others of its own program need not try first: that
//! would only tell what is known.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Crowds(Mutex<HashMap<Arc<[u8]>, usize>>);

/// One of those that wait, until this is dropped.
pub(super) struct InCrowd {
    crowds: Arc<Crowds>,
    key: Arc<[u8]>,
}

impl Crowds {
    pub(super) fn are_at(&self, key: &[u8]) -> bool {
        self.counts().contains_key(key)
    }

    pub(super) fn join(self: &Arc<Self>, key: &[u8]) -> InCrowd {
        let mut counts = self.counts();
        let known = counts.get_key_value(key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| Arc::from(key));
        *counts.entry(key.clone()).or_default() += 1;
        InCrowd { crowds: self.clone(), key }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InCrowd {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.crowds.counts().entry(self.key.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
