//! One caller does the work, and every caller gets its answer.

use crate::arguments;
use crate::callbacks::woken_safely;
use crate::fencing::Unfenced;
use crate::flights::{Boarded, Flight, Landed};
use crate::guard::Guard;
use crate::held_lock::{Attempted, attempt};
use crate::locks::Locks;
use crate::shell::Shared;
use futures_util::future::{Either, pending, select};
use rlock_client_core::request::forget;
use rlock_client_core::{Aim, Answering, Error, ErrorKind, Lasting, Side, Terms, Until, Wish};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An answer that many callers need and one of them computes: [`Locks::once`].
#[derive(Clone)]
#[must_use]
pub struct Once {
    shared: Arc<Shared>,
    key: Arc<[u8]>,
    keep: Duration,
    wait: Option<Duration>,
    terms: Terms,
}

/// The result of a request for an answer: [`Once::begin`].
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// The stored answer.
    Answer(Vec<u8>),
    /// There is none, and this caller leads: it does the work.
    Lead(Lead),
}

/// The lead: do the work under this lock, then call [`answer`](Self::answer). If dropped, there is no answer: the lock
/// is released in the background, and the next caller leads.
#[must_use = "dropped at once, the next caller leads"]
pub struct Lead {
    guard: Guard,
    keep: Duration,
    /// The callers of this client that wait for the same answer.
    flight: Option<Flight>,
}

impl Locks {
    /// An answer that many callers need, in any number of processes, and one of them computes: a fresh access token,
    /// the response to a request that was sent twice, an entry of a cache. The server keeps it for `keep`, and until
    /// then all callers get it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn log_in() -> Result<Vec<u8>, rlock_client::Error> { Ok(Vec::new()) }
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// let token = locks.once("token:shop", Duration::from_secs(3_000)).run(log_in()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// At most one caller works at a time, within the limits of leases. Once there is an answer no caller works while
    /// it is kept, unless it is lost by a failover, by eviction or by [`forget`](Self::forget). It is not "exactly
    /// once".
    ///
    /// Callers of one client that request the same key share one request, and its error if no server replies. The key
    /// is that of a plain lock. An answer has at most 64 KiB, unless the server's `rlock.max-answer` says otherwise.
    pub fn once(&self, key: impl AsRef<[u8]>, keep: Duration) -> Once {
        let lease = Lasting::Kept(self.shared.settings.lease);
        let terms = Terms { side: Side::Plain, permits: None, max: None, lease, fenced: false, replicas: None };
        Once { shared: self.shared.clone(), key: Arc::from(key.as_ref()), keep, wait: None, terms }
    }

    /// Removes the answer of this key, if there is one: the next caller of [`once`](Self::once) works.
    ///
    /// # Cancel safety
    /// If dropped, the answer may have been removed or not.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) if no server replies.
    pub async fn forget(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        let key = key.as_ref();
        if key.is_empty() {
            return Err(Error::configuration("lock", "a name is empty"));
        }
        self.shared.ask(key, key, None, forget(key)).await.map(drop)
    }
}

impl Once {
    /// Limits the wait for another caller's answer, or for the lead. Zero: it tries once. Without this there is no
    /// limit. It does not limit the work.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Sets the leader's lease, which is renewed while it works: see [`Lock::lease`](crate::Lock::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Lasting::Kept(lease);
        self
    }

    /// Waits only if fewer clients than this wait already: see [`Lock::max_waiters`](crate::Lock::max_waiters).
    pub fn max_waiters(mut self, count: u32) -> Self {
        self.terms.max = Some(count);
        self
    }

    /// Returns the answer. If there is none, and no other caller is computing it, this work computes it. The work is
    /// stopped if its lock is lost, as by [`Guard::run`].
    ///
    /// If the work fails, nothing is stored, and only this caller gets its error: the next caller works. If no reply
    /// says whether the answer is stored, this caller gets it anyway, because the work was protected, and the doubt is
    /// logged.
    ///
    /// # Cancel safety
    /// If dropped, it leaves neither a waiter nor a hold. The work is dropped, and the next caller works.
    ///
    /// # Errors
    /// The work's own. [`Timeout`](ErrorKind::Timeout) if there was neither an answer nor the lead in time.
    /// [`Lost`](ErrorKind::Lost) if the lock was lost before the answer was stored. [`Refused`](ErrorKind::Refused) if
    /// the answer is too long. [`ModuleTooOld`](ErrorKind::ModuleTooOld) if the server's module does not support it.
    /// Otherwise like [`Lock::acquire`](crate::Lock::acquire).
    pub async fn run<E: From<Error>>(self, work: impl Future<Output = Result<Vec<u8>, E>>) -> Result<Vec<u8>, E> {
        let lead = match self.begin().await? {
            Begun::Answer(value) => return Ok(value),
            Begun::Lead(lead) => lead,
        };
        match lead.guard.until_lost(work).await? {
            Ok(value) => {
                lead.answer(&value).await?;
                Ok(value)
            }
            Err(error) => {
                lead.give_up().await;
                Err(error)
            }
        }
    }

    /// The first half of [`run`](Self::run), for work that is not a future: returns the answer, or the lead.
    ///
    /// # Cancel safety
    /// If dropped, it leaves neither a waiter nor a hold.
    ///
    /// # Errors
    /// Like [`run`](Self::run).
    pub async fn begin(&self) -> Result<Begun, Error> {
        let shown = String::from_utf8_lossy(&self.key);
        arguments::checked(std::slice::from_ref(&self.key), &shown, &self.terms, None)?;
        arguments::check_time(&shown, self.keep, "the time to keep an answer must be at least 1 ms")?;
        self.shared.thread.check(&self.key)?;
        let until = self.wait.map_or(Until::Granted, |limit| Until::within(limit, Instant::now()));
        if matches!(until, Until::Now) {
            return self.ask(until, None).await;
        }
        let landed = match self.shared.flights.board(&self.key) {
            Boarded::First(flight) => return self.ask(until, Some(flight)).await,
            Boarded::Behind(landed) => landed,
        };
        let limit = async {
            match until {
                Until::Time(time) => self.shared.thread.alarms.at(time).await,
                _ => pending().await,
            }
        };
        match woken_safely(select(pin!(landed), pin!(limit))).await {
            Either::Left((Ok(Landed::Answer(value)), _)) => Ok(Begun::Answer(value.to_vec())),
            Either::Left((Ok(Landed::Unavailable(error)), _)) => Err(error),
            Either::Left((Ok(Landed::Turn(flight)), _)) => self.ask(until, Some(flight)).await,
            Either::Left((Err(_), _)) => self.ask(until, None).await,
            Either::Right(_) => Err(Error::new(ErrorKind::Timeout, &self.key)),
        }
    }

    async fn ask(&self, until: Until, flight: Option<Flight>) -> Result<Begun, Error> {
        let (key, holder) = (self.key.clone(), self.shared.fresh_holder());
        let wish = Wish { aim: Aim::Answer, key, more: Vec::new(), holder, named: false, terms: self.terms, until };
        let attempted = match woken_safely(attempt(&self.shared, wish)).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                flight.into_iter().for_each(|flight| flight.fails(&error));
                return Err(error);
            }
            attempted => attempted?,
        };
        match attempted {
            Attempted::Answered(value) => {
                flight.into_iter().for_each(|flight| flight.lands(&value));
                Ok(Begun::Answer(value))
            }
            Attempted::Held(held) => {
                let guard = Guard::of(held, Unfenced::NONE, self.terms);
                Ok(Begun::Lead(Lead { guard, keep: self.keep, flight }))
            }
            Attempted::Busy => Err(Error::new(ErrorKind::Timeout, &self.key)),
        }
    }
}

impl Lead {
    /// The lock that protects the work.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Stores the answer and releases the lock, in one step. All callers get it from then on. Also `Ok` if no reply
    /// says whether it is stored: that is logged, and the work was protected. The client then repeats the request in
    /// the background.
    ///
    /// # Cancel safety
    /// If dropped after the first poll, it goes on in the background.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the lock was lost; then nothing is stored. The server's refusals, for example of an
    /// answer that is too long; then the lock is released.
    pub async fn answer(mut self, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let value = value.as_ref();
        let answering = Answering { value: Arc::from(value), keep: self.keep };
        let is_stored = self.guard.ends(Some(answering)).await?;
        self.flight.take().filter(|_| is_stored).into_iter().for_each(|flight| flight.lands(value));
        Ok(())
    }

    /// Releases the lock without an answer: the next caller leads. It waits for the reply like [`Guard::run`].
    pub async fn give_up(mut self) {
        // Whatever the error, there is no answer.
        _ = self.guard.ends(None).await;
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("key", &String::from_utf8_lossy(&self.key)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("guard", &self.guard).finish_non_exhaustive()
    }
}
