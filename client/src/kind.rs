//! What a program acquires, as types.

/// The kind of [`Locks::lock`](crate::Locks::lock) and of the sides of a read-write lock.
#[derive(Clone, Copy, Debug)]
pub enum Single {}

/// The kind of [`Locks::permits`](crate::Locks::permits): one permit is acquired. It has no owner, because a holder has
/// at most one permit.
#[derive(Clone, Copy, Debug)]
pub enum Permit {}

/// The kind of [`Locks::all`](crate::Locks::all): all of them are acquired. They have no owner.
#[derive(Clone, Copy, Debug)]
pub enum Several {}
