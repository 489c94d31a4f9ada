//! What a server answers, as it is, to a command that this crate knows nothing of.

/// An answer to [`Locks::command`](crate::Locks::command), as RESP2 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Any bytes.
    Text(Vec<u8>),
    /// Answers in their order. A map is names and values by turns.
    List(Vec<Reply>),
    /// Its line, of an error within a list. One that is the whole answer is an [`Error`](crate::Error).
    Error(String),
}
