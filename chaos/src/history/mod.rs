//! The records of a run: every step of a client, a fault or an observer, with its moment.
//!
//! Each process of a run writes its own file, one JSON object a line, each in one system call: so a process that is
//! killed has written everything it did before. All use the one clock of the machine, and the files are read together.

#[cfg(test)]
mod described;
mod journal;
mod observed;
mod operation;

pub use journal::{Journal, read_all};
pub use observed::{Holding, Promotion, Reach, Sample, Trouble, Waiting, WaitsBy};
pub use operation::{Answer, By, Call, Operation, Request, Side, pair};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};
use std::time::Duration;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A client is about to send this.
    Called(Call),
    /// The call with that number, of that client, was answered. Without an answer the call may or may not have had its
    /// effect.
    Answered { at: Moment, client: String, number: u64, answer: Answer },
    /// At this moment `rlock-client` reported that the lock of the call with that number is held `until` then.
    Vouched { at: Moment, client: String, number: u64, until: Moment },
    /// The work under that call has ended, or its loss was reported: the lock is not guaranteed from here on.
    Ended { at: Moment, client: String, number: u64 },
    /// A sample of a lock.
    Seen(Sample),
    /// A fault.
    Troubled(Trouble),
    /// A replica became the master.
    Promoted(Promotion),
    /// Between the two moments the server certainly could not write: it had said so, and its state was not changed
    /// yet.
    Forbade { from: Moment, until: Moment, server: String, what: String },
    /// A figure of the run that is not about a promise: the longest silence of a server, for example.
    Measured { at: Moment, what: String, value: f64 },
    /// A promise was seen broken during the run: a server ended by itself, or something was left at the end.
    Broken { at: Moment, promise: String, what: String },
}

impl Record {
    pub fn at(&self) -> Moment {
        match self {
            Self::Called(call) => call.at,
            Self::Seen(sample) => sample.asked,
            Self::Troubled(trouble) => trouble.began,
            Self::Promoted(promotion) => promotion.from,
            Self::Forbade { from, .. } => *from,
            Self::Answered { at, .. }
            | Self::Vouched { at, .. }
            | Self::Ended { at, .. }
            | Self::Measured { at, .. }
            | Self::Broken { at, .. } => *at,
        }
    }
}

/// The figures with names that begin with `name`: moment, name and value.
pub fn measured<'a>(records: &'a [Record], name: &'a str) -> impl Iterator<Item = (Moment, &'a String, f64)> {
    records.iter().filter_map(move |record| match record {
        Record::Measured { at, what, value } if what.starts_with(name) => Some((*at, what, *value)),
        _ => None,
    })
}

/// Nanoseconds of a clock that cannot be set and is the same for all processes of a machine: so moments of all
/// processes of a run can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(pub u64);

impl Moment {
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
        Self(Duration::from(time).as_nanos().try_into().expect("the machine has not run for 500 years"))
    }

    /// How long after `earlier`; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }
}
