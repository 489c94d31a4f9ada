//! What can be set: for a client as a whole, and for one lock; and for how long its caller is willing to wait.

use std::time::{Duration, Instant};

/// The server says at that time that it is over; its word needs as long to come.
const LATE_MAX: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a lease lasts, if a lock does not say otherwise.
    pub lease: Duration,
    /// For how long servers that do not answer are asked again.
    pub patience: Duration,
    /// Making a connection, until it is ready for requests.
    pub connect: Duration,
    /// The answer to a request.
    pub answer: Duration,
    /// Nobody waits by a session.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let (lease, patience) = (seconds(30), seconds(10));
        Self { lease, patience, connect: seconds(2), answer: seconds(3), idle: seconds(30) }
    }
}

/// Which kind of lock, and which side of it. A permit is given back like a plain lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Plain,
    Write,
    Read,
}

impl Side {
    pub const ALL: [Self; 3] = [Self::Plain, Self::Write, Self::Read];
}

#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub side: Side,
    /// Of how many permits one is wanted, and not a lock.
    pub permits: Option<u32>,
    /// Not to wait if so many do already.
    pub max: Option<u32>,
    pub lease: Lasting,
    pub fenced: bool,
    pub replicas: Option<Replicas>,
}

/// How long a lease is, and whether somebody sees to it that it lasts.
#[derive(Clone, Copy, Debug)]
pub enum Lasting {
    Kept(Duration),
    /// It ends by itself.
    Fixed(Duration),
}

/// How many replicas have to confirm the lock, within which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replicas {
    pub wanted: usize,
    pub timeout: Duration,
}

/// How long the caller is willing to wait.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Now,
    Time(Instant),
    Granted,
}

impl Lasting {
    pub fn length(self) -> Duration {
        match self {
            Self::Kept(length) | Self::Fixed(length) => length,
        }
    }
}

impl Until {
    /// A time so far away that it cannot be told is no limit.
    pub fn within(limit: Duration, now: Instant) -> Self {
        if limit.is_zero() {
            return Self::Now;
        }
        now.checked_add(limit).map_or(Self::Granted, Self::Time)
    }

    /// When the caller wants to know, come what may. To ask once may take as long as an answer may.
    pub(super) fn end(self, now: Instant, answer: Duration) -> Option<Instant> {
        match self {
            Self::Now => now.checked_add(answer),
            Self::Time(time) => time.checked_add(LATE_MAX),
            Self::Granted => None,
        }
    }

    pub(super) fn is_over(self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }

    /// `None`: there is no limit.
    pub(super) fn left(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::Time(time) => Some(time.saturating_duration_since(now)),
            Self::Granted => None,
        }
    }
}
