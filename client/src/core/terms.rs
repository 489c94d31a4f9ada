//! The terms on which a lock is acquired, and for how long the caller is willing to wait for it.

use crate::link::request::{Side, Wait};
use std::time::Duration;
use tokio::time::Instant;

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
        Instant::now().checked_add(limit).map_or(Self::Granted, Self::Time)
    }

    /// How long the server may keep a request that is sent now.
    pub(super) fn wait(self) -> Wait {
        match self.left() {
            None => Wait::ForEver,
            Some(Duration::ZERO) => Wait::No,
            Some(left) => Wait::For(left),
        }
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// `None`: there is no limit.
    pub(super) fn left(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::Time(time) => Some(time.saturating_duration_since(Instant::now())),
            Self::Granted => None,
        }
    }
}
