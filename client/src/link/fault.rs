//! Why a request has no answer, sorted by what to do next.

use crate::error::{Error, ErrorKind};
use crate::server_line;
use redis::{ErrorKind as RedisKind, RedisError, ServerErrorKind};
use std::io;

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Another node owns the key's slot, from now on.
    Moved(String),
    /// Another node has this key already, while the slot is being moved.
    Ask(String),
    /// The server did nothing, and may later on.
    NotNow(RedisError),
    /// The server did nothing, since it is no master any more.
    NotHere(RedisError),
    /// There is no connection: nothing was sent.
    Unreachable(RedisError),
    /// It was sent, and nobody knows what became of it.
    Silent(RedisError),
    /// The server's no.
    Refused(RedisError),
    /// The same, of a server whose module has locks, but no sessions.
    TooOld(RedisError),
}

impl Fault {
    /// For an answer, or the lack of one, to something that was sent.
    pub(crate) fn of_request(error: RedisError) -> Self {
        if let Some((address, _)) = error.redirect_node() {
            let address = address.to_owned();
            return match error.kind() {
                RedisKind::Server(ServerErrorKind::Ask) => Self::Ask(address),
                _ => Self::Moved(address),
            };
        }
        match error.code() {
            Some(
                "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "BUSY" | "OOM" | "NOSESSION"
                | "TAKENOVER",
            ) => Self::NotNow(error),
            Some("READONLY") => Self::NotHere(error),
            Some("UNBLOCKED") if server_line::is_a_role_change(&error) => Self::NotHere(error),
            Some(_) => Self::Refused(error),
            None => Self::Silent(error),
        }
    }

    /// For a connection that was not made.
    pub(crate) fn of_connecting(error: RedisError) -> Self {
        match (error.kind(), error.code()) {
            (RedisKind::AuthenticationFailed, _) => {
                // The library keeps the server's own line to itself.
                let text = error.detail().unwrap_or("the password was refused").to_owned();
                Self::Refused(redis::make_extension_error("WRONGPASS".to_owned(), Some(text)))
            }
            (RedisKind::InvalidClientConfig, _) => Self::Refused(error),
            (_, Some("LOADING" | "MASTERDOWN")) => Self::NotNow(error),
            (_, Some("ERR")) if server_line::is_full(&error) => Self::NotNow(error),
            (_, Some(_)) => Self::Refused(error),
            (_, None) => Self::Unreachable(error),
        }
    }

    pub(crate) fn timed_out() -> RedisError {
        RedisError::from(io::Error::from(io::ErrorKind::TimedOut))
    }

    /// For a connection that was gone again before it could be used.
    pub(crate) fn broken_at_once() -> RedisError {
        RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset))
    }

    /// For an answer that came when another server had taken the place of the one that gave it.
    pub(crate) fn superseded() -> Self {
        let what = "another server is the master by now";
        Self::NotHere(RedisError::from((RedisKind::MasterNameNotFoundBySentinel, what)))
    }

    /// Whether asking again, later or elsewhere, may help.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::TooOld(_))
    }

    /// Whether the server does not know the session, or another process has it: one that was forked from this one.
    pub(crate) fn is_no_session(&self) -> bool {
        matches!(self, Self::NotNow(error) if matches!(error.code(), Some("NOSESSION" | "TAKENOVER")))
    }

    /// Whether something else is in the lock's place.
    pub(crate) fn is_overwritten(&self) -> bool {
        matches!(self, Self::Refused(error) if matches!(error.code(), Some("WRONGTYPE" | "WRONGKIND")))
    }

    /// Whether the fault showed at once, and did not take a whole time limit.
    pub(crate) fn is_prompt(&self) -> bool {
        match self {
            Self::Unreachable(error) | Self::Silent(error) => !error.is_timeout(),
            _ => true,
        }
    }

    /// Whether it says that another server may be the one to ask by now.
    pub(crate) fn doubts_the_server(&self) -> bool {
        match self {
            Self::NotHere(_) | Self::Unreachable(_) | Self::Silent(_) => true,
            // It is cut off from the other nodes, which may have chosen another master by now.
            Self::NotNow(error) => matches!(error.code(), Some("CLUSTERDOWN" | "MASTERDOWN" | "LOADING")),
            Self::Moved(_) | Self::Ask(_) | Self::Refused(_) | Self::TooOld(_) => false,
        }
    }

    pub(crate) fn into_cause(self) -> RedisError {
        match self {
            Self::Refused(error)
            | Self::TooOld(error)
            | Self::NotNow(error)
            | Self::NotHere(error)
            | Self::Unreachable(error)
            | Self::Silent(error) => error,
            Self::Moved(address) | Self::Ask(address) => sent_around(&address),
        }
    }

    pub(crate) fn into_error(self, about: &[u8]) -> Error {
        match self {
            Self::Refused(answer) => Error::refused(about, answer),
            Self::TooOld(answer) => Error::because(ErrorKind::ModuleTooOld, about, answer),
            passing => Error::because(ErrorKind::Unavailable, about, passing.into_cause()),
        }
    }
}

/// Nodes that send a request from one to the other do not agree on the slots, which passes; or this is a node of a
/// cluster that was not taken for one.
fn sent_around(address: &str) -> RedisError {
    redis::make_extension_error("MOVED".to_owned(), Some(address.to_owned()))
}
