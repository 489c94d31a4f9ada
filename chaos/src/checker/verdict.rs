//! What the checker says about a history, as data and for a terminal.

use crate::history::Moment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// How many violations of each promise a terminal is shown: more of the same tell nothing new.
const SHOWN_OF_EACH: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    /// Where a promise ends, and how often it did.
    pub counted: Vec<Counted>,
    pub figures: Figures,
}

/// What is promised to whoever takes a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Promise {
    OneHolder,
    HoldsLast,
    TokensGrow,
    FirstComeFirstServed,
    NobodySleepsAtAFreeLock,
    NoGrantToNobody,
    NoGrantWhileForbidden,
    WaitsEnd,
    WaitersAreAnswered,
    WhatIsDroppedIsGivenBack,
    OneOutcomeEach,
    WhatIsTakenBackIsGone,
    NoGrantToTheAbsent,
    NothingOfAnEndedSession,
    SessionsLast,
    LeasesAsAskedFor,
    AnswersAreExplained,
    /// What was seen broken by whoever wrote the history, in its words.
    Told(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    pub promise: Promise,
    /// Empty where it is not about one lock.
    pub lock: String,
    pub at: Moment,
    /// A sentence that names clients, holders and numbers.
    pub what: String,
    /// The calls that show it: of which client, with which number.
    pub evidence: Vec<(String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub what: String,
    pub times: u64,
    pub of: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub operations: u64,
    pub grants: u64,
    pub refusals: u64,
    /// Calls of which nobody knows what they did.
    pub unknown: u64,
    /// Grants to whoever was ready to wait.
    pub waited_grants: u64,
    /// Those that were told as events of a session.
    #[serde(default)]
    pub told_grants: u64,
    pub renewals: u64,
    pub releases: u64,
    pub samples: u64,
    pub troubles: u64,
    pub locks: u64,
    /// For how long, at least, somebody stood before a free lock while nothing excused it.
    pub longest_free_with_waiter: Duration,
    /// Pieces of evidence that somebody held a lock from one moment to another.
    pub holds_certain: u64,
    /// What was held against the model in whole.
    pub lin_checked_locks: u64,
    pub lin_checked_operations: u64,
    /// Locks with too many orders to try them all: neither proved right nor wrong.
    pub lin_undecided_locks: u64,
}

impl Figures {
    /// What two histories have come to together.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.grants += other.grants;
        self.refusals += other.refusals;
        self.unknown += other.unknown;
        self.waited_grants += other.waited_grants;
        self.told_grants += other.told_grants;
        self.renewals += other.renewals;
        self.releases += other.releases;
        self.samples += other.samples;
        self.troubles += other.troubles;
        self.locks = self.locks.max(other.locks);
        self.longest_free_with_waiter = self.longest_free_with_waiter.max(other.longest_free_with_waiter);
        self.holds_certain += other.holds_certain;
        self.lin_checked_locks += other.lin_checked_locks;
        self.lin_checked_operations += other.lin_checked_operations;
        self.lin_undecided_locks += other.lin_undecided_locks;
    }
}

impl Display for Promise {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::OneHolder => "A lock has one exclusive holder, and no readers beside it.",
            Self::HoldsLast => "A hold lasts until it is given back or its lease ends.",
            Self::TokensGrow => "Each fencing token of a lock is greater than all before it.",
            Self::FirstComeFirstServed => "Nobody overtakes a waiter.",
            Self::NobodySleepsAtAFreeLock => "Whoever waits is served as soon as the lock is free.",
            Self::NoGrantToNobody => "Nothing is granted to one who was refused, or waits no more.",
            Self::NoGrantWhileForbidden => "Nothing is granted while the server may not write.",
            Self::WaitsEnd => "A wait ends when its time is up.",
            Self::WaitersAreAnswered => "Whoever leaves a queue is told.",
            Self::WhatIsDroppedIsGivenBack => "What a guard drops is given back.",
            Self::OneOutcomeEach => "Each ticket has one outcome, however often it is told.",
            Self::WhatIsTakenBackIsGone => "Of a ticket that was taken back nothing is held, queued or told.",
            Self::NoGrantToTheAbsent => "Nothing is granted to a session that nobody attends to.",
            Self::NothingOfAnEndedSession => "Of a session that has ended nothing waits, and nothing is held unknown.",
            Self::SessionsLast => "A session lives on while it is polled in time.",
            Self::LeasesAsAskedFor => "A lease is no longer than was asked for.",
            Self::AnswersAreExplained => "All answers are those of one lock that does one thing after the other.",
            Self::Told(promise) => promise,
        })
    }
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let figures = &self.figures;
        writeln!(
            out,
            "{} operations on {} locks: {} grants ({} to waiters, {} of them by ticket), {} refusals, {} renewals, {} releases, {} unknown",
            figures.operations,
            figures.locks,
            figures.grants,
            figures.waited_grants,
            figures.told_grants,
            figures.refusals,
            figures.renewals,
            figures.releases,
            figures.unknown,
        )?;
        writeln!(
            out,
            "{} samples, {} troubles, {} holds certain",
            figures.samples, figures.troubles, figures.holds_certain
        )?;
        writeln!(
            out,
            "held against the model: {} locks with {} operations, and {} more undecided",
            figures.lin_checked_locks, figures.lin_checked_operations, figures.lin_undecided_locks,
        )?;
        writeln!(
            out,
            "longest wait at a free lock: {} ms, what excuses it taken off",
            figures.longest_free_with_waiter.as_millis()
        )?;
        for counted in &self.counted {
            writeln!(out, "{}: {} of {}", counted.what, counted.times, counted.of)?;
        }
        self.write_violations(out)
    }
}

impl Verdict {
    fn write_violations(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.violations.is_empty() {
            return writeln!(out, "No promise was broken.");
        }
        let mut by_promise: BTreeMap<&Promise, Vec<&Violation>> = BTreeMap::new();
        for violation in &self.violations {
            by_promise.entry(&violation.promise).or_default().push(violation);
        }
        for (promise, violations) in by_promise {
            writeln!(out, "BROKEN, {} times: {promise}", violations.len())?;
            for violation in violations.iter().take(SHOWN_OF_EACH) {
                let lock = if violation.lock.is_empty() { "-" } else { &violation.lock };
                writeln!(out, "  {lock}: {}", violation.what)?;
            }
            if violations.len() > SHOWN_OF_EACH {
                writeln!(out, "  and {} more", violations.len() - SHOWN_OF_EACH)?;
            }
        }
        Ok(())
    }
}
