//! The words of the commands, both ways: the module reads them, clients write them, and both follow the same tables.
//!
//! - [`COMMANDS`]: what each command is called, its arguments and its options
//! - [`ERRORS`]: what each error replies
//! - [`read()`]: a command's words as a [`Request`]
//! - [`Request::write`]: a request as words
//!
//! ```
//! use rlock_core::words::{self, Request};
//!
//! let sent = [&b"RLOCK.RELEASE"[..], b"orders:42", b"worker-8", b"ALL"];
//! let request = words::read(&words::RELEASE, &sent).unwrap();
//! assert_eq!((request.holder, request.all), (Some(&b"worker-8"[..]), true));
//!
//! let mut written = Vec::new();
//! request.write(&words::RELEASE, |word| written.push(word.to_vec()));
//! assert_eq!(written, sent);
//! ```

mod errors;
mod read;
mod table;
mod write;

use crate::lock::{Lease, Limit, Release, Side, Wish};
use crate::waiting::commands::Waiting;
pub use errors::{ERRORS, Error};
pub use read::read;
pub use table::{
    ACQUIRE, ANSWER, Argument, Audience, BREAK, CANCEL, COMMANDS, Command, EVENTS, Form, INSPECT, KEYS_MAX, KeyUse,
    MACQUIRE, Meaning, ONCE, OptionWord, PACQUIRE, QUEUES, RACQUIRE, RELEASE, RENEW, Rule, SESSIONS, WACQUIRE,
};

/// What a command's words say: the value of each argument and option that the command has and that was given. `A` is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a, A> {
    pub keys: &'a [A],
    pub holder: Option<A>,
    pub lease: Option<Lease>,
    pub value: Option<A>,
    pub keep: Option<Lease>,
    pub session: Option<A>,
    /// One ticket for a wait; any number of tickets to take back.
    pub tickets: &'a [A],
    /// 0 is forever.
    pub wait_ms: Option<i64>,
    pub max: Option<usize>,
    pub limit: Option<Limit>,
    /// The number of the last event that is acknowledged.
    pub seq: Option<u64>,
    pub ttl_ms: Option<i64>,
    pub count: Option<usize>,
    /// The number of the session to end.
    pub id: Option<u64>,
    pub side: Option<Side>,
    pub fenced: bool,
    pub all: bool,
}

impl<A> Default for Request<'_, A> {
    fn default() -> Self {
        Self {
            keys: &[],
            holder: None,
            lease: None,
            value: None,
            keep: None,
            session: None,
            tickets: &[],
            wait_ms: None,
            max: None,
            limit: None,
            seq: None,
            ttl_ms: None,
            count: None,
            id: None,
            side: None,
            fenced: false,
            all: false,
        }
    }
}

/// The values as the types that the commands use. A value is missing only if the command's entry lacks its argument.
impl<A: Copy> Request<'_, A> {
    /// The one key.
    ///
    /// # Errors
    /// If the command has none.
    pub fn key(&self) -> Result<A, Error> {
        self.keys.first().copied().ok_or(Error::Arity)
    }

    /// # Errors
    /// If the command has none.
    pub fn holder(&self) -> Result<A, Error> {
        self.holder.ok_or(Error::Arity)
    }

    /// # Errors
    /// If the command has none.
    pub fn lease(&self) -> Result<Lease, Error> {
        self.lease.ok_or(Error::Arity)
    }

    /// The value of an answer, and for how long it is kept.
    ///
    /// # Errors
    /// If the command has none.
    pub fn answer(&self) -> Result<(A, Lease), Error> {
        self.value.zip(self.keep).ok_or(Error::Arity)
    }

    /// # Errors
    /// If the command has none.
    pub fn session(&self) -> Result<A, Error> {
        self.session.ok_or(Error::Arity)
    }

    /// An acquire of this side.
    ///
    /// # Errors
    /// If the command is no acquire.
    pub fn wish(&self, side: Side) -> Result<Wish<A>, Error> {
        Ok(Wish { holder: self.holder()?, side, lease: self.lease()?, fenced: self.fenced })
    }

    /// How an acquire waits. A ticket is named by its session's name and its own.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting<(A, A)>> {
        let ticket = self.session.zip(self.tickets.first().copied());
        self.wait_ms.map(|limit_ms| Waiting { limit_ms, max: self.max, ticket })
    }

    #[must_use]
    pub fn release(&self) -> Release {
        Release { side: self.side, lease: self.lease, all: self.all }
    }

    /// The number of entries to show.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.unwrap_or(100)
    }
}
