//! Errors, for a caller to match on. The type is opaque, so that a new cause breaks no program. It keeps the server's
//! own words, because operators search for them.

use crate::kind::Kind;
use crate::loss::Loss;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::{fmt, io};

/// The cause of an error or a fault.
#[derive(Clone, Debug)]
pub enum Cause {
    /// A server's error line: a code, then a text.
    Server(String),
    /// Why no server replied.
    System(Arc<io::Error>),
    /// This client's own words. They follow the server's name where there is one.
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

/// Why a lock was not acquired, kept or released. [What to do about each kind](crate#errors).
#[derive(Clone, PartialEq)]
pub struct Error(Box<Details>);

/// Boxed, because a `Result` is at least as large as its error.
#[derive(Clone, Debug, PartialEq)]
struct Details {
    kind: ErrorKind,
    /// The lock's name, or another subject.
    about: String,
    source: Option<Cause>,
    /// The server, if it is known.
    at: Option<Arc<str>>,
    /// Why a lock was lost. If the kind is `Lost`, `None` means a release in doubt.
    loss: Option<Loss>,
}

/// The kinds of errors, for a `match`. [`Error`] has predicates for the most common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not granted in time: another client had it, or the server was in a [grace](crate#fairness).
    Timeout,
    /// The lease ended, or may have ended, before the lock was released; or another client took the lock away; or [it
    /// is unknown](Error::is_in_doubt) whether it was still held.
    Lost,
    /// No server could be reached, none replied, or one replied that it cannot serve the request now: no memory, no
    /// replicas, no master yet; [`Error::code`] has its code. In the background the client takes back what it sent.
    Unavailable,
    /// Fewer replicas than requested confirmed the lock in time. The lock was released; or, as the cause of a
    /// [loss](crate::Loss::NotRenewed), its renewal does not count.
    TooFewReplicas {
        /// How many were requested.
        wanted: usize,
        /// How many confirmed.
        confirmed: usize,
    },
    /// The name belongs to a plain lock and was used as a read-write lock or for permits, or vice versa.
    WrongKind,
    /// A reader of this lock asked to wait for its write side: it would wait for itself.
    Deadlock,
    /// The server's limit of waiting clients is reached, or this lock's `Lock::max_waiters`.
    QueueFull,
    /// The server has no rlock module.
    ModuleMissing,
    /// The server's rlock module is too old for this request.
    ModuleTooOld,
    /// The server refused for another reason: a lease or a holder beyond its limits, missing rights, an operator that
    /// ended the wait (`UNBLOCKED`) … Or it is the wrong kind of server: TLS that cannot work, a web server, no
    /// sentinel, a master that sentinels do not know. A client that was served before treats these as an outage.
    Refused,
    /// An argument is invalid, options contradict each other, or an address cannot be read. Nothing was sent.
    Configuration,
}

impl Error {
    pub fn new(kind: ErrorKind, about: impl AsRef<[u8]>) -> Self {
        let about = String::from_utf8_lossy(about.as_ref()).into_owned();
        Self(Box::new(Details { kind, about, source: None, at: None, loss: None }))
    }

    /// A mistake in the program's arguments.
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

    /// The server's name for use in a sentence.
    pub fn server(&self) -> String {
        self.0.at.as_ref().map_or_else(|| "the server".to_owned(), |at| format!("the server at {at}"))
    }

    pub fn is_about_its_server(&self) -> bool {
        self.0.at.as_deref() == Some(&*self.0.about)
    }

    pub fn source_of_it(&self) -> Option<&Cause> {
        self.0.source.as_ref()
    }

    /// The same error, for all the locks that were requested together.
    pub fn about_all(mut self, names: String) -> Self {
        self.0.about = names;
        self
    }

    /// The reply to a release is lost for this reason.
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

    /// The code of the server's error reply, if there is one: `WRONGPASS`, `NOPERM`, `WRONGTYPE`, or `MOVED` if it is a
    /// node of a cluster and the client uses it as a single server …
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.source.as_ref()?.code()
    }

    /// The text after the [`code`](Self::code) of the server's error reply, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let Some(Cause::Server(line)) = &self.0.source else { return None };
        line.split_once(' ').map(|(_, text)| text)
    }

    /// The lock's name, or another subject. Empty if the error is about the servers as a whole.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.0.about
    }

    /// The reason without the subject: the server's own line, or the system's words if no server replied. If only the
    /// [`kind`](Self::kind) is known, the same text as the whole error.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.0.source {
            // The words follow the server's name.
            Some(Cause::Client(words)) if self.0.at.is_some() => format!("{} {words}", self.server()),
            Some(source) => source.to_string(),
            None => self.to_string(),
        }
    }

    /// The actual kind of the lock, if it was used as [another kind](ErrorKind::WrongKind).
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

    /// The lease ended, or may have ended, before the lock was released; or another client took the lock away; or [it
    /// is unknown](Self::is_in_doubt) whether it was still held.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Whether a [lost](Self::is_lost) lock may have been held until its release after all. It was guaranteed when its
    /// release began, but the reply was lost with the connection. A second release gets the reply that nothing is held,
    /// whether the first one released the lock or the server had forgotten it before.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.is_lost() && self.0.loss.is_none()
    }

    /// Why the lock was lost. `None` for other errors, and for a release [in doubt](Self::is_in_doubt).
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss.clone()
    }

    /// No server could be reached, or none replied.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// The server's limit of waiting clients is reached, or this lock's `Lock::max_waiters`.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.0.kind == ErrorKind::QueueFull
    }

    /// The server requires a password, or refuses the given one.
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

/// Whether the line refuses a password or a user, or says (without a code of its own) that the server has no password.
pub fn refuses_a_password(line: &str) -> bool {
    line.starts_with("WRONGPASS") || line.starts_with("ERR AUTH ")
}

/// If no server replied, its `source()` is the [`std::io::Error`] that was the reason: a connection that was refused or
/// broke, or a timeout. `None` if a server replied.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Some(Cause::System(error)) = &self.0.source { Some(&**error) } else { None }
    }
}

/// Lets functions take an [`Address`](crate::Address) as well as its text; the conversion cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_by_value_and_shows_everything() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::in_doubt("orders:42", io::Error::other("gone").into());
        let shown = format!("{error:?}");
        assert!(shown.contains("Lost") && shown.contains("orders:42") && shown.contains("gone"), "{shown}");
    }
}
