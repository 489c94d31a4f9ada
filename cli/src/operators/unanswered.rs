//! Why a question has no answer.

use rlock_client::Error;

#[derive(Debug)]
pub enum Unanswered {
    Error(Error),
    /// Not a reply of the module: something between here and the server has answered.
    Nonsense,
    /// A replica has the locks of its master, but not its queues.
    OfAReplica,
}

impl Unanswered {
    /// No server could be reached, or none answered.
    pub fn is_unavailable(&self) -> bool {
        self.error().is_some_and(Error::is_unavailable)
    }

    /// Whether a server has answered, and said no.
    pub fn is_answered(&self) -> bool {
        self.error().is_none_or(|error| error.code().is_some())
    }

    /// Whether a server has said no with this code.
    pub fn is_refused_with(&self, code: &str) -> bool {
        self.error().is_some_and(|error| error.code() == Some(code))
    }

    /// The reason alone. The caller adds what it is about.
    pub fn reason(&self) -> String {
        match self {
            Self::Error(error) => error.reason(),
            Self::Nonsense => "the answer is not one of the rlock module".to_owned(),
            Self::OfAReplica => "it is a replica, and does not know the waiters: ask its master".to_owned(),
        }
    }

    fn error(&self) -> Option<&Error> {
        match self {
            Self::Error(error) => Some(error),
            Self::Nonsense | Self::OfAReplica => None,
        }
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
