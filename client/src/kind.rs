//! The kinds of lock: what a server tells of one, and as types what a program asks for.

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

/// The kinds of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder at a time.
    Plain,
    /// Many readers, or one writer.
    ReadWrite,
    /// At most so many holders as each asks for.
    Permits,
}
