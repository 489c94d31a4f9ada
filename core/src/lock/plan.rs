//! What becomes true in one step: a decision's changes, and those that come with it.

use super::{Change, Changes};

/// The changes that become true in one step, in this order. `T` is a string as the host has it.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a, T> {
    pub holder: T,
    pub changes: &'a Changes,
    /// For a break: the change to the read holds of each holder.
    pub broken: &'a [(Vec<u8>, Change)],
    /// For a hand-over: the next holder, and what its grant changes.
    pub next: Option<(T, &'a Changes)>,
}

impl<'a, T> Plan<'a, T> {
    /// One holder's changes, and nothing else.
    pub fn of(holder: T, changes: &'a Changes) -> Self {
        Self { holder, changes, broken: &[], next: None }
    }

    /// Whether a key may be written that is absent, or present but hidden.
    #[must_use]
    pub fn may_create_keys(&self) -> bool {
        self.next.is_some() || self.changes.may_create_keys()
    }
}
