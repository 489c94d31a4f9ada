//! Why a guard is lost, told apart by what can be done about it.

use crate::advice::in_words;
use crate::error::Error;
use std::fmt;

/// Why a guard is lost, as far as this client knows. [`Guard::loss`](crate::Guard::loss) tells it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// The server said, when it was asked to renew the lease, that the lock is not held: somebody has broken or deleted
    /// it, a failover or a restart has forgotten it, or this machine was suspended for longer than the lease.
    NotHeld,
    /// Something else is under the lock's name. The server's words are in the error.
    Overwritten(Error),
    /// The lease has ended, as it could not be renewed. The error is the last renewal's: no server answered, or it
    /// refused.
    NotRenewed(Error),
    /// The lease has ended, and no renewal had failed: it was a fixed one, or this program or its machine stood still.
    Ended,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld => f.write_str("the server says that it is not held"),
            Self::Overwritten(error) => {
                write!(f, "something else is under its name ({}): keep data under other names", error.reason())
            }
            Self::NotRenewed(error) => write!(f, "it could not be renewed: {}", in_words(error)),
            Self::Ended => f.write_str("its lease has ended"),
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
