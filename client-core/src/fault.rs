//! Why a request has no useful reply, sorted by what to do next.

use crate::error::{Cause, Error, ErrorKind};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Fault {
    pub what: What,
    pub cause: Cause,
    /// The server, if it is known.
    pub at: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Another node owns the key's slot from now on.
    Moved,
    /// Another node has this key already, while the slot is being moved.
    Ask,
    /// The server did nothing, but may later.
    NotNow,
    /// The server did nothing, because it is not a master any more.
    NotHere,
    /// There is no connection: nothing was sent.
    Unreachable,
    /// The request was sent, and its outcome is unknown.
    Silent,
    /// The server refused.
    Refused,
    /// The server refused: its module has locks, but no sessions.
    TooOld,
    /// The server did it, but fewer replicas than wanted confirmed it.
    TooFewReplicas { wanted: usize, confirmed: usize },
}

impl Fault {
    fn new(what: What, cause: Cause) -> Self {
        Self { what, cause, at: None }
    }

    /// What is wrong with this server, in words that follow its name. The next request would fail in the same way.
    pub fn of_set_up(words: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::Refused, Cause::Client(words.into()))
    }

    /// Adds the server's place, unless one is known.
    pub fn at(mut self, place: impl FnOnce() -> Arc<str>) -> Self {
        self.at.get_or_insert_with(place);
        self
    }

    /// From an error line of the server.
    pub fn of_answer(line: String) -> Self {
        let (code, text) = line.split_once(' ').unwrap_or((&line, ""));
        let what = match code {
            "MOVED" => What::Moved,
            "ASK" => What::Ask,
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "BUSY" | "OOM" | "NOSESSION"
            | "TAKENOVER" => What::NotNow,
            "READONLY" => What::NotHere,
            // All waiters get this when the server becomes a replica: the server sends it to blocked clients, the
            // module to tickets. An operator's CLIENT UNBLOCK has other words.
            "UNBLOCKED" if text.contains("state changed") || text.contains("become a replica") => What::NotHere,
            _ => What::Refused,
        };
        Self::new(what, Cause::Server(line))
    }

    /// From an error line that the server sent while connecting.
    pub fn of_connecting(line: String) -> Self {
        let is_full = line.contains("max number of clients");
        let passes = is_full || ["LOADING", "MASTERDOWN", "BUSY"].iter().any(|code| line.starts_with(code));
        Self::new(if passes { What::NotNow } else { What::Refused }, Cause::Server(line))
    }

    pub fn unreachable(error: io::Error) -> Self {
        Self::new(What::Unreachable, error.into())
    }

    pub fn silent(error: io::Error) -> Self {
        Self::new(What::Silent, error.into())
    }

    pub fn timed_out() -> Self {
        Self::silent(io::ErrorKind::TimedOut.into())
    }

    /// A connection that was gone before it could be used.
    pub fn broken() -> Self {
        Self::unreachable(io::ErrorKind::ConnectionReset.into())
    }

    /// The module sends no such reply: something between client and server replies in its own way.
    pub fn not_an_answer() -> Self {
        Self::of_set_up("answers, but not as the rlock module does")
    }

    /// The owner of the lock is unknown for now.
    pub fn nowhere(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::NotNow, Cause::Client(why.into()))
    }

    pub(super) fn too_few_replicas(wanted: usize, confirmed: usize) -> Self {
        Self::new(What::TooFewReplicas { wanted, confirmed }, Cause::Client("too few replicas".into()))
    }

    /// Another server has replaced the one that got the request.
    pub fn superseded() -> Self {
        Self::new(What::NotHere, Cause::Client("is not the master any more".into()))
    }

    /// The same cause, for a request that was sent, or was not.
    pub(super) fn when(&self, was_sent: bool) -> Self {
        let what = if was_sent { What::Silent } else { What::Unreachable };
        Self { what, ..self.clone() }
    }

    /// Treats a refusal as temporary, like an outage. For a client that was served before.
    pub(super) fn into_outage(self) -> Self {
        if self.what == What::Refused { Self { what: What::Unreachable, ..self } } else { self }
    }

    /// Whether it is about what the server is, rather than what it replied.
    pub(super) fn is_of_set_up(&self) -> bool {
        self.what == What::Refused && matches!(self.cause, Cause::Client(_))
    }

    /// Whether a retry, later or elsewhere, may help.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self.what, What::Refused | What::TooOld)
    }

    fn code(&self) -> &str {
        self.cause.code().unwrap_or("")
    }

    /// Whether the server does not know the session, or another process has it: a fork of this one.
    pub(super) fn is_no_session(&self) -> bool {
        matches!(self.code(), "NOSESSION" | "TAKENOVER")
    }

    /// Whether a limit of waiters is reached.
    pub(super) fn is_full(&self) -> bool {
        self.code() == "QUEUEFULL"
    }

    /// Whether a later request of the same holder took the place in the queue.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(&self.cause, Cause::Server(line) if line.starts_with("UNBLOCKED another request of this holder"))
    }

    /// Whether something else is stored in the lock's place.
    pub(super) fn is_overwritten(&self) -> bool {
        matches!(self.code(), "WRONGTYPE" | "WRONGKIND")
    }

    /// Whether the reply may still come.
    pub(super) fn is_overdue(&self) -> bool {
        self.what == What::Silent && !self.is_prompt()
    }

    /// Whether the fault showed at once, rather than after a whole time limit.
    pub(super) fn is_prompt(&self) -> bool {
        !matches!(&self.cause, Cause::System(error) if error.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether another server may have become the right one.
    pub(super) fn doubts_the_server(&self) -> bool {
        match self.what {
            What::NotHere | What::Unreachable | What::Silent => true,
            // It is cut off from the other nodes, which may have elected another master.
            What::NotNow => matches!(self.code(), "CLUSTERDOWN" | "MASTERDOWN" | "LOADING"),
            What::Moved | What::Ask | What::Refused | What::TooOld | What::TooFewReplicas { .. } => false,
        }
    }

    /// Where it redirects the client: `host:port`.
    pub(super) fn redirection(&self) -> Option<&str> {
        let Cause::Server(line) = &self.cause else { return None };
        if matches!(self.what, What::Moved | What::Ask) { line.split(' ').nth(2) } else { None }
    }

    pub fn into_error(self, about: &[u8]) -> Error {
        if let What::TooFewReplicas { wanted, confirmed } = self.what {
            return Error::new(ErrorKind::TooFewReplicas { wanted, confirmed }, about);
        }
        let kind = match (self.what, self.code()) {
            (What::Refused, "WRONGKIND") => ErrorKind::WrongKind,
            (What::Refused, "DEADLOCK") => ErrorKind::Deadlock,
            (What::Refused, "QUEUEFULL") => ErrorKind::QueueFull,
            (What::Refused, "ERR") if self.is_unknown_command() => ErrorKind::ModuleMissing,
            (What::Refused, _) => ErrorKind::Refused,
            (What::TooOld, _) => ErrorKind::ModuleTooOld,
            _ => ErrorKind::Unavailable,
        };
        Error::because(kind, about, self.cause).at(self.at)
    }

    /// ERR from a server without the module, or with an older one.
    pub fn is_unknown_command(&self) -> bool {
        matches!(&self.cause, Cause::Server(line) if line.contains("unknown command"))
    }
}
