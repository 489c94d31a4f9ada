//! Why a lock was lost: one of four reasons, which are the same in all languages.

use crate::advice::in_words;
use crate::error::Error;
use std::fmt;

/// Why a lock was lost, as far as this client knows: `Guard::loss`,
/// [`Error::loss`](crate::Error::loss).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// The server replied to a renewal or a release that the lock is not held: it was broken or deleted, a restart or a
    /// failover forgot it, or this machine was suspended for longer than the lease.
    NotHeld,
    /// Something else is stored under the lock's name. The server's words are in the error.
    Overwritten(Error),
    /// The lease ended because no renewal came through. The error is the last renewal's.
    NotRenewed(Error),
    /// The lease ended and no renewal had failed: a fixed lease, or the program or its machine stalled.
    Ended,
}

impl Loss {
    /// The reason as one word, the same in all languages: `not-held`, `overwritten`, `not-renewed` or `ended`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotHeld => "not-held",
            Self::Overwritten(_) => "overwritten",
            Self::NotRenewed(_) => "not-renewed",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld => f.write_str("the server says that it is not held: it was broken, deleted or forgotten"),
            Self::Overwritten(error) => write!(f, "its name now stores something else ({})", error.reason()),
            Self::NotRenewed(error) => write!(f, "the lease could not be renewed: {}", in_words(error)),
            Self::Ended => f.write_str("the lease has ended"),
        }
    }
}

impl std::error::Error for Loss {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Overwritten(error) | Self::NotRenewed(error) => Some(error),
            Self::NotHeld | Self::Ended => None,
        }
    }
}
