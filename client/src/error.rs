//! What can go wrong, for a caller to match on. Opaque, so that a new cause breaks nobody's code; the server's own
//! words are kept, since they are what an operator will look for.

use crate::kind::Kind;
use crate::server_line;
use redis::RedisError;
use std::convert::Infallible;
use std::sync::Arc;
use std::{fmt, io};

/// Why a lock was not taken, kept or given back. [What to do about each kind](crate#errors).
#[derive(Clone, PartialEq)]
pub struct Error(Box<Details>);

/// Boxed, as each answer is as large as the error that it may be.
#[derive(Clone, Debug, PartialEq)]
struct Details {
    kind: ErrorKind,
    /// The lock's name, or what else it is about.
    about: String,
    source: Option<RedisError>,
    /// Nobody knows whether it was lost.
    in_doubt: bool,
}

/// The causes, for a `match`. The predicates of [`Error`] are shorter where only one matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was not free in time.
    Timeout,
    /// The lease ended, or may have ended, before the lock was given back; or somebody had taken the lock away by then,
    /// or [nobody knows](Error::is_in_doubt) whether it was still held.
    Lost,
    /// No server could be reached, none answered, or it said that it cannot do it now: no memory, no replicas, no
    /// master yet; [`Error::code`] has its word. Whatever was sent is taken back in the background.
    Unavailable,
    /// Fewer replicas than asked for have confirmed the lock in time. It was released.
    TooFewReplicas {
        /// How many were asked for.
        wanted: usize,
        /// How many have confirmed.
        confirmed: usize,
    },
    /// The name is a plain lock's and was used as a read-write lock's, or the reverse.
    WrongKind,
    /// A reader of this lock asked to wait for its write side: it would wait for itself.
    Deadlock,
    /// As many clients wait on the server as it allows.
    QueueFull,
    /// The server has no rlock module.
    ModuleMissing,
    /// The server's rlock module cannot do what is asked for; a newer one can.
    ModuleTooOld,
    /// The server refused for another reason: a lease or a holder out of its limits, missing rights, an operator who
    /// ended the wait (`UNBLOCKED`) …
    Refused,
    /// The options make no sense together, or an address cannot be read.
    Configuration,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, about: impl AsRef<[u8]>) -> Self {
        let about = String::from_utf8_lossy(about.as_ref()).into_owned();
        Self(Box::new(Details { kind, about, source: None, in_doubt: false }))
    }

    /// A mistake in how things were put together.
    pub(crate) fn configuration(about: impl AsRef<[u8]>, why: &'static str) -> Self {
        Self::because(ErrorKind::Configuration, about, (redis::ErrorKind::InvalidClientConfig, why).into())
    }

    pub(crate) fn because(kind: ErrorKind, about: impl AsRef<[u8]>, source: RedisError) -> Self {
        let mut error = Self::new(kind, about);
        error.0.source = Some(source);
        error
    }

    /// The server's no, sorted by its code.
    pub(crate) fn refused(about: impl AsRef<[u8]>, answer: RedisError) -> Self {
        let kind = match answer.code() {
            Some("WRONGKIND") => ErrorKind::WrongKind,
            Some("DEADLOCK") => ErrorKind::Deadlock,
            Some("QUEUEFULL") => ErrorKind::QueueFull,
            Some("ERR") if server_line::is_unknown_command(&answer) => ErrorKind::ModuleMissing,
            _ => ErrorKind::Refused,
        };
        Self::because(kind, about, answer)
    }

    /// What would tell whether it was held until it was given back is lost, for this reason.
    pub(crate) fn in_doubt(about: impl AsRef<[u8]>, cause: RedisError) -> Self {
        let mut error = Self::because(ErrorKind::Lost, about, cause);
        error.0.in_doubt = true;
        error
    }

    /// The same, where what counts is that the lease has ended.
    pub(crate) fn into_loss(mut self) -> Self {
        self.0.kind = ErrorKind::Lost;
        self
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
        let source = self.0.source.as_ref()?;
        source.code().and(source.detail())
    }

    /// The lock's name, or what else it is about.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.0.about
    }

    /// Why, without what it is about: the server's own line, or what the system says if no server has answered. If
    /// nothing more is known than the [`kind`](Self::kind), the same as the whole error shows.
    #[must_use]
    pub fn reason(&self) -> String {
        self.0.source.as_ref().map_or_else(|| self.to_string(), server_line::whole)
    }

    /// The kind that the lock is of, where it [was taken for the other](Self::is_wrong_kind).
    #[must_use]
    pub fn kind_of_lock(&self) -> Option<Kind> {
        server_line::kind(self.0.source.as_ref()?)
    }

    /// The lock was not free in time.
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
        self.0.in_doubt
    }

    /// No server could be reached, or none answered.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// The name is a plain lock's and was used as a read-write lock's, or the reverse.
    #[must_use]
    pub fn is_wrong_kind(&self) -> bool {
        self.0.kind == ErrorKind::WrongKind
    }

    /// A reader of this lock asked to wait for its write side.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        self.0.kind == ErrorKind::Deadlock
    }

    /// As many clients wait on the server as it allows.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.0.kind == ErrorKind::QueueFull
    }

    /// The server has no rlock module.
    #[must_use]
    pub fn is_module_missing(&self) -> bool {
        self.0.kind == ErrorKind::ModuleMissing
    }

    /// Fewer replicas than asked for have confirmed the lock.
    #[must_use]
    pub fn is_too_few_replicas(&self) -> bool {
        matches!(self.0.kind, ErrorKind::TooFewReplicas { .. })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { kind, about, source, in_doubt } = &*self.0;
        let mut shown = f.debug_struct("Error");
        shown.field("kind", kind).field("about", about).field("source", source).field("in_doubt", in_doubt).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = &self.0.about;
        match self.0.kind {
            ErrorKind::Timeout => write!(f, "{about}: not free in time")?,
            ErrorKind::Lost if self.0.in_doubt => {
                write!(
                    f,
                    "{about}: not known whether it was held until it was given back, as no answer to that has come"
                )?;
            }
            ErrorKind::Lost => write!(f, "{about}: lost, the lease has ended")?,
            ErrorKind::Unavailable if self.code().is_some() => write!(f, "{about}: not now")?,
            ErrorKind::Unavailable => write!(f, "{about}: no server answers")?,
            ErrorKind::TooFewReplicas { wanted, confirmed } => {
                write!(
                    f,
                    "{about}: {confirmed} of {wanted} replicas have confirmed the lock in time; it was released"
                )?;
            }
            ErrorKind::ModuleMissing => write!(
                f,
                "{about}: the server has no rlock module: add `loadmodule /path/to/librlock.so` to its configuration"
            )?,
            ErrorKind::ModuleTooOld => {
                write!(f, "{about}: the server's rlock module is too old to wait for locks: 0.1.0 or newer is needed")?;
            }
            ErrorKind::Configuration => write!(f, "{about}: cannot be used")?,
            ErrorKind::WrongKind | ErrorKind::Deadlock | ErrorKind::QueueFull | ErrorKind::Refused => {
                write!(f, "{about}: refused")?;
            }
        }
        match &self.0.source {
            Some(source) => write!(f, ": {}", server_line::whole(source)),
            None => Ok(()),
        }
    }
}

/// Its `source()` is the [`std::io::Error`] by which no server has answered: a connection that was refused or broke, time
/// that was over, TLS that failed. If a server has answered there is none.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().and_then(of_the_system).map(|error| error as _)
    }
}

/// The library has it in a box of its own.
fn of_the_system(error: &RedisError) -> Option<&io::Error> {
    type Boxed = Arc<dyn std::error::Error + Send + Sync>;
    std::error::Error::source(error)?.downcast_ref::<Boxed>()?.downcast_ref()
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
        let error = Error::in_doubt("orders:42", redis::RedisError::from(std::io::Error::other("gone")));
        let shown = format!("{error:?}");
        assert!(shown.contains("Lost") && shown.contains("orders:42") && shown.contains("gone"), "{shown}");
    }
}
