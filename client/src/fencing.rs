//! Whether a lock is fenced, as a type: the guard of a fenced one has a token, and no other has.

/// A lock that is [fenced](crate::Lock::fenced).
#[derive(Clone, Copy, Debug)]
pub enum Fenced {}

/// A lock that is not.
#[derive(Clone, Copy, Debug)]
pub enum Unfenced {}
