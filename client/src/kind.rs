//! What a program asks for, as types.

/// What [`Locks::lock`](crate::Locks::lock) and the sides of a read-write lock are.
#[derive(Clone, Copy, Debug)]
pub enum Single {}

/// What [`Locks::permits`](crate::Locks::permits) has: one of them is acquired. It has no owner, as a holder has one permit
/// at most.
#[derive(Clone, Copy, Debug)]
pub enum Permit {}

/// What [`Locks::all`](crate::Locks::all) has: all of them are acquired. They have no owner.
#[derive(Clone, Copy, Debug)]
pub enum Several {}
