//! Whether a lock is fenced, as a type: only guards of fenced locks have tokens.

use crate::held_lock::HeldLock;

/// A lock that is [fenced](crate::Lock::fenced).
#[derive(Clone, Debug)]
pub struct Fenced {
    pub(crate) first: u64,
    pub(crate) more: Vec<u64>,
}

/// A lock that is not fenced.
#[derive(Clone, Copy, Debug)]
pub struct Unfenced(());

/// A lock that was [adopted](crate::Locks::adopt), and may be fenced.
#[derive(Clone, Debug)]
pub struct Adopted {
    pub(crate) tokens: Vec<u64>,
}

/// `None`: the server's reply lacks a token.
pub(crate) type Fencing<F> = fn(&[HeldLock]) -> Option<F>;

impl Fenced {
    pub(crate) fn of(locks: &[HeldLock]) -> Option<Self> {
        let mut tokens = locks.iter().map(HeldLock::token);
        Some(Self { first: tokens.next()??, more: tokens.collect::<Option<_>>()? })
    }
}

impl Unfenced {
    pub(crate) const NONE: Self = Self(());

    pub(crate) fn of(_: &[HeldLock]) -> Option<Self> {
        Some(Self::NONE)
    }
}
