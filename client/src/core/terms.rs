//! The terms on which a lock is acquired, and for how long the caller is willing to wait for it.

use crate::clock::now;
use crate::link::request::Side;
use std::time::Duration;
use tokio::time::Instant;

/// The server says at that time that it is over; its word needs as long to come.
const LATE_MAX: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub side: Side,
    pub lease: Lease,
    pub fenced: bool,
    pub replicas: Option<Replicas>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Lease {
    /// Renewed by the watchdog.
    Kept(Duration),
    /// Ends by itself.
    Fixed(Duration),
}

/// How many replicas have to confirm the lock, within which time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub wanted: usize,
    pub timeout: Duration,
}

/// How long the caller is willing to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Now,
    Time(Instant),
    Granted,
}

impl Lease {
    pub(crate) fn length(self) -> Duration {
        match self {
            Self::Kept(length) | Self::Fixed(length) => length,
        }
    }
}

impl Until {
    /// A time so far away that it cannot be told is no limit.
    pub(crate) fn within(limit: Duration) -> Self {
        if limit.is_zero() {
            return Self::Now;
        }
        now().checked_add(limit).map_or(Self::Granted, Self::Time)
    }

    /// When the caller wants to know, come what may. To ask once may take as long as an answer may.
    pub(super) fn end(self, answer: Duration) -> Option<Instant> {
        match self {
            Self::Now => now().checked_add(answer),
            Self::Time(time) => time.checked_add(LATE_MAX),
            Self::Granted => None,
        }
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// `None`: there is no limit.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::Time(time) => Some(time.saturating_duration_since(now())),
            Self::Granted => None,
        }
    }
}
