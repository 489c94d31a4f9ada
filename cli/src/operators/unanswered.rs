//! Why a question has no answer.

use rlock_client::Error;

#[derive(Debug)]
pub enum Unanswered {
    Error(Error),
    /// Something between here and the server answers in its own way.
    Nonsense,
}

impl Unanswered {
    /// No server could be reached, or none answered.
    pub fn is_unavailable(&self) -> bool {
        self.error().is_some_and(Error::is_unavailable)
    }

    /// Of the server's answer, if it was the server that said no.
    pub fn code(&self) -> Option<&str> {
        self.error()?.code()
    }

    /// Without what it is about.
    pub fn reason(&self) -> String {
        self.error().map_or_else(|| "the answer is not one of the rlock module".to_owned(), Error::reason)
    }

    fn error(&self) -> Option<&Error> {
        match self {
            Self::Error(error) => Some(error),
            Self::Nonsense => None,
        }
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
