//! The kinds of lock, as a server names them.

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
