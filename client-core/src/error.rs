//! What can go wrong, for a caller to match on. Opaque, so that a new cause breaks nobody's code; the server's own
//! words are kept, since they are what an operator will look for.

use crate::kind::Kind;
use crate::loss::Loss;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::{fmt, io};

/// What is behind an error or a fault.
#[derive(Clone, Debug)]
pub enum Cause {
    /// A server's line: a code, and a text behind it.
    Server(String),
    /// Why no server has answered.
    System(Arc<io::Error>),
    /// What this client knows, in words that follow the server's name where there is one.
    Client(Cow<'static, str>),
}

impl Cause {
    pub fn code(&self) -> Option<&str> {
        if let Self::Server(line) = self { line.split(' ').next() } else { None }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::System(Arc::new(error))
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(line) => f.write_str(line),
            Self::System(error) => error.fmt(f),
            Self::Client(text) => f.write_str(text),
        }
    }
}

/// Why a lock was not taken, kept or given back. [What to do about each kind](crate#errors).
#[derive(Clone, PartialEq)]
pub struct Error(Box<Details>);

/// Boxed, as each answer is as large as the error that it may be.
#[derive(Clone, Debug, PartialEq)]
struct Details {
    kind: ErrorKind,
    /// The lock's name, or what else it is about.
    about: String,
    source: Option<Cause>,
    /// The server, if it is known.
    at: Option<Arc<str>>,
    /// Why a lock was lost. None for a lost lock: a release in doubt.
    loss: Option<Loss>,
}

/// The causes, for a `match`. What programs act on most has a predicate of [`Error`] as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not granted in time: another client had it, or the server was in a [grace](crate#fairness).
    Timeout,
    /// The lease ended, or may have ended, before the lock was given back; or somebody had taken the lock away by then,
    /// or [nobody knows](Error::is_in_doubt) whether it was still held.
    Lost,
    /// No server could be reached, none answered, or it said that it cannot do it now: no memory, no replicas, no
    /// master yet; [`Error::code`] has its word. Whatever was sent is taken back in the background.
    Unavailable,
    /// Fewer replicas than asked for have confirmed the lock in time: the grant, which was released; or, as the cause of a
    /// [loss](crate::Loss::NotRenewed), its renewal.
    TooFewReplicas {
        /// How many were asked for.
        wanted: usize,
        /// How many have confirmed.
        confirmed: usize,
    },
    /// The name is a plain lock's and was used as a read-write lock's or for permits, or the reverse.
    WrongKind,
    /// A reader of this lock asked to wait for its write side: it would wait for itself.
    Deadlock,
    /// As many clients wait on the server as it allows, or for this lock as `Lock::max_waiters` does.
    QueueFull,
    /// The server has no rlock module.
    ModuleMissing,
    /// The server's rlock module cannot do what is asked for; a newer one can.
    ModuleTooOld,
    /// The server refused for another reason: a lease or a holder out of its limits, missing rights, an operator who
    /// ended the wait (`UNBLOCKED`) … Or it is not the server that it was taken for: TLS that cannot work, a web server,
    /// no sentinel, a master that sentinels do not know. A client that was served before takes these for an outage.
    Refused,
    /// An argument is refused before anything is sent, the options make no sense together, or an address cannot be read.
    Configuration,
}

impl Error {
    pub fn new(kind: ErrorKind, about: impl AsRef<[u8]>) -> Self {
        let about = String::from_utf8_lossy(about.as_ref()).into_owned();
        Self(Box::new(Details { kind, about, source: None, at: None, loss: None }))
    }

    /// A mistake in how things were put together.
    pub fn configuration(about: impl AsRef<[u8]>, why: &'static str) -> Self {
        Self::because(ErrorKind::Configuration, about, Cause::Client(why.into()))
    }

    pub fn because(kind: ErrorKind, about: impl AsRef<[u8]>, source: Cause) -> Self {
        let mut error = Self::new(kind, about);
        error.0.source = Some(source);
        error
    }

    pub fn at(mut self, server: Option<Arc<str>>) -> Self {
        self.0.at = server;
        self
    }

    /// The server, as it is called where it is spoken of.
    pub fn server(&self) -> String {
        self.0.at.as_ref().map_or_else(|| "the server".to_owned(), |at| format!("the server at {at}"))
    }

    pub fn is_about_its_server(&self) -> bool {
        self.0.at.as_deref() == Some(&*self.0.about)
    }

    pub fn source_of_it(&self) -> Option<&Cause> {
        self.0.source.as_ref()
    }

    /// The same, of all the locks that were wanted together.
    pub fn about_all(mut self, names: String) -> Self {
        self.0.about = names;
        self
    }

    /// The reply to a release is lost, for this reason.
    pub fn in_doubt(about: impl AsRef<[u8]>, cause: Cause) -> Self {
        Self::because(ErrorKind::Lost, about, cause)
    }

    pub fn lost(about: impl AsRef<[u8]>, loss: Loss) -> Self {
        let mut error = Self::new(ErrorKind::Lost, about);
        if let Loss::Overwritten(cause) | Loss::NotRenewed(cause) = &loss {
            error.0.source.clone_from(&cause.0.source);
        }
        error.0.loss = Some(loss);
        error
    }

    /// The cause.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The code of the server's answer, if it was the server that said no: `WRONGPASS`, `NOPERM`, `WRONGTYPE`, `MOVED` if it
    /// is one node of a cluster that was taken for a server of its own …
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.source.as_ref()?.code()
    }

    /// What the server's answer says behind its [`code`](Self::code), if it was the server that said no.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let Some(Cause::Server(line)) = &self.0.source else { return None };
        line.split_once(' ').map(|(_, text)| text)
    }

    /// The lock's name, or what else it is about. Empty, if it is about the servers as a whole.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.0.about
    }

    /// Why, without what it is about: the server's own line, or what the system says if no server has answered. If
    /// nothing more is known than the [`kind`](Self::kind), the same as the whole error shows.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.0.source {
            // It is about a server, whose name it follows.
            Some(Cause::Client(words)) if self.0.at.is_some() => format!("{} {words}", self.server()),
            Some(source) => source.to_string(),
            None => self.to_string(),
        }
    }

    /// The kind that the lock is of, where it was taken for [another](ErrorKind::WrongKind).
    #[must_use]
    pub fn kind_of_lock(&self) -> Option<Kind> {
        match self.text()? {
            text if self.code() != Some("WRONGKIND") || text.is_empty() => None,
            text if text.contains("is a plain lock") => Some(Kind::Plain),
            text if text.contains("is a read-write lock") => Some(Kind::ReadWrite),
            text if text.contains("holds permits") => Some(Kind::Permits),
            _ => None,
        }
    }

    /// The lock was not granted in time: another client had it, or the server was in a [grace](crate#fairness).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// The lease ended, or may have ended, before the lock was given back; or somebody had taken the lock away by then,
    /// or [nobody knows](Self::is_in_doubt) whether it was still held.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Of a lock that [is lost](Self::is_lost): it may have been held until it was given back after all. It could be
    /// vouched for when its release began; but the answer to that is lost with its connection, and the next one, that
    /// nothing is held, is the same whether that release has given it back or the server had forgotten it before.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.is_lost() && self.0.loss.is_none()
    }

    /// Why the lock was lost. `None` for other errors, and for a release [in doubt](Self::is_in_doubt).
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss.clone()
    }

    /// No server could be reached, or none answered.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// As many clients wait on the server as it allows, or for this lock as `Lock::max_waiters` does.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.0.kind == ErrorKind::QueueFull
    }

    /// The server wants a password, or refuses the one that it was given.
    #[must_use]
    pub fn is_about_a_password(&self) -> bool {
        let Some(Cause::Server(line)) = &self.0.source else { return false };
        line.starts_with("NOAUTH") || refuses_a_password(line)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { kind, about, source, at, loss } = &*self.0;
        let mut shown = f.debug_struct("Error");
        shown.field("kind", kind).field("about", about).field("source", source).field("at", at);
        shown.field("loss", loss).finish()
    }
}

/// A wrong one, of a user that may not be known; or of a server that has none at all, which has no code for that.
pub fn refuses_a_password(line: &str) -> bool {
    line.starts_with("WRONGPASS") || line.starts_with("ERR AUTH ")
}

/// Its `source()` is the [`std::io::Error`] by which no server has answered: a connection that was refused or broke, time
/// that was over. If a server has answered there is none.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Some(Cause::System(error)) = &self.0.source { Some(&**error) } else { None }
    }
}

/// An [`Address`](crate::Address) fits wherever one is read, and that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_by_value_and_tells_all() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::in_doubt("orders:42", io::Error::other("gone").into());
        let shown = format!("{error:?}");
        assert!(shown.contains("Lost") && shown.contains("orders:42") && shown.contains("gone"), "{shown}");
    }
}
