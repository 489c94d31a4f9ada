//! Settings of a client and of one lock, and how long a caller is willing to wait.

use std::time::{Duration, Instant};

/// The server replies when the time is over; its reply may take this long.
const LATE_MAX: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a lease lasts, if a lock does not say otherwise.
    pub lease: Duration,
    /// How long the client keeps asking silent servers.
    pub patience: Duration,
    /// The limit for opening a connection, until it is ready for requests.
    pub connect: Duration,
    /// The limit for a reply.
    pub answer: Duration,
    /// A session ends after this time without a waiting attempt.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let (lease, patience) = (seconds(30), seconds(10));
        Self { lease, patience, connect: seconds(2), answer: seconds(3), idle: seconds(30) }
    }
}

/// The kind of lock, and its side. A permit is released like a plain lock.
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
    /// The number of permits, if a permit is wanted rather than a lock.
    pub permits: Option<u32>,
    /// Fail instead of waiting if this many wait already.
    pub max: Option<u32>,
    pub lease: Lasting,
    pub fenced: bool,
    pub replicas: Option<Replicas>,
}

/// The length of a lease, and whether the client renews it.
#[derive(Clone, Copy, Debug)]
pub enum Lasting {
    Kept(Duration),
    /// It ends after this time.
    Fixed(Duration),
}

/// How many replicas have to confirm the lock, and within which time.
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
    /// A time too far away to be represented means no limit.
    pub fn within(limit: Duration, now: Instant) -> Self {
        if limit.is_zero() {
            return Self::Now;
        }
        now.checked_add(limit).map_or(Self::Granted, Self::Time)
    }

    /// When the caller needs an outcome in any case. A single try may take as long as a reply may.
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
