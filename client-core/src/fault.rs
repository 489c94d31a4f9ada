//! Why a request has no answer, sorted by what to do next.

use crate::error::{Cause, Error, ErrorKind};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Fault {
    pub what: What,
    pub cause: Cause,
    /// The server that it is about, if it is known.
    pub at: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Another node owns the key's slot, from now on.
    Moved,
    /// Another node has this key already, while the slot is being moved.
    Ask,
    /// The server did nothing, and may later on.
    NotNow,
    /// The server did nothing, since it is no master any more.
    NotHere,
    /// There is no connection: nothing was sent.
    Unreachable,
    /// It was sent, and nobody knows what became of it.
    Silent,
    /// The server's no.
    Refused,
    /// The same, of a server whose module has locks, but no sessions.
    TooOld,
    /// It was done, and fewer replicas have confirmed it than are wanted.
    TooFewReplicas { wanted: usize, confirmed: usize },
}

impl Fault {
    fn new(what: What, cause: Cause) -> Self {
        Self { what, cause, at: None }
    }

    /// What this server does, in words that follow its name. It will do so the next time.
    pub fn of_set_up(words: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::Refused, Cause::Client(words.into()))
    }

    /// The same, of the server at this place, unless another one is known.
    pub fn at(mut self, place: impl FnOnce() -> Arc<str>) -> Self {
        self.at.get_or_insert_with(place);
        self
    }

    /// The server's line.
    pub fn of_answer(line: String) -> Self {
        let (code, text) = line.split_once(' ').unwrap_or((&line, ""));
        let what = match code {
            "MOVED" => What::Moved,
            "ASK" => What::Ask,
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "BUSY" | "OOM" | "NOSESSION"
            | "TAKENOVER" => What::NotNow,
            "READONLY" => What::NotHere,
            // Told to all that wait when the server becomes a replica: to clients that block by the server, and to tickets
            // by the module. An operator's CLIENT UNBLOCK has other words.
            "UNBLOCKED" if text.contains("state changed") || text.contains("become a replica") => What::NotHere,
            _ => What::Refused,
        };
        Self::new(what, Cause::Server(line))
    }

    /// The line of a server to which no connection was made.
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

    /// For a connection that was gone again before it could be used.
    pub fn broken() -> Self {
        Self::unreachable(io::ErrorKind::ConnectionReset.into())
    }

    /// Something between here and the server answers in its own way.
    pub fn not_an_answer() -> Self {
        Self::of_set_up("answers, but not as the rlock module does")
    }

    /// Nobody knows where the lock is: it passes.
    pub fn nowhere(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(What::NotNow, Cause::Client(why.into()))
    }

    pub(super) fn too_few_replicas(wanted: usize, confirmed: usize) -> Self {
        Self::new(What::TooFewReplicas { wanted, confirmed }, Cause::Client("too few replicas".into()))
    }

    /// Another server has taken the place of the one that was asked.
    pub fn superseded() -> Self {
        Self::new(What::NotHere, Cause::Client("is not the master any more".into()))
    }

    /// The same cause, of something that was sent or was not.
    pub(super) fn when(&self, was_sent: bool) -> Self {
        let what = if was_sent { What::Silent } else { What::Unreachable };
        Self { what, ..self.clone() }
    }

    /// Of a client whose servers were what they should be: it passes, as an outage does.
    pub(super) fn into_outage(self) -> Self {
        if self.what == What::Refused { Self { what: What::Unreachable, ..self } } else { self }
    }

    /// Whether it is not what a server says, but what it is.
    pub(super) fn is_of_set_up(&self) -> bool {
        self.what == What::Refused && matches!(self.cause, Cause::Client(_))
    }

    /// Whether asking again, later or elsewhere, may help.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self.what, What::Refused | What::TooOld)
    }

    fn code(&self) -> &str {
        self.cause.code().unwrap_or("")
    }

    /// Whether the server does not know the session, or another process has it: one that was forked from this one.
    pub(super) fn is_no_session(&self) -> bool {
        matches!(self.code(), "NOSESSION" | "TAKENOVER")
    }

    /// Whether as many wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.code() == "QUEUEFULL"
    }

    /// Whether a later request of the same holder has taken the place in the queue.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(&self.cause, Cause::Server(line) if line.starts_with("UNBLOCKED another request of this holder"))
    }

    /// Whether something else is in the lock's place.
    pub(super) fn is_overwritten(&self) -> bool {
        matches!(self.code(), "WRONGTYPE" | "WRONGKIND")
    }

    /// Whether the answer may still come.
    pub(super) fn is_overdue(&self) -> bool {
        self.what == What::Silent && !self.is_prompt()
    }

    /// Whether the fault showed at once, and did not take a whole time limit.
    pub(super) fn is_prompt(&self) -> bool {
        !matches!(&self.cause, Cause::System(error) if error.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether it says that another server may be the one to ask by now.
    pub(super) fn doubts_the_server(&self) -> bool {
        match self.what {
            What::NotHere | What::Unreachable | What::Silent => true,
            // It is cut off from the other nodes, which may have chosen another master by now.
            What::NotNow => matches!(self.code(), "CLUSTERDOWN" | "MASTERDOWN" | "LOADING"),
            What::Moved | What::Ask | What::Refused | What::TooOld | What::TooFewReplicas { .. } => false,
        }
    }

    /// Where it sends us: `host:port`.
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

    /// ERR, of a server without the module, or with an older one.
    pub fn is_unknown_command(&self) -> bool {
        matches!(&self.cause, Cause::Server(line) if line.contains("unknown command"))
    }
}
