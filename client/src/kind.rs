//! The kinds of lock.

/// The kinds of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder at a time.
    Plain,
    /// Many readers, or one writer.
    ReadWrite,
}
