//! What the checker says about a history, as data and for a terminal.

use crate::history::Moment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// How many violations of each promise a terminal is shown: more of the same tell nothing new.
const SHOWN_OF_EACH: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    /// Where a promise ends: how often it did, and of how many times.
    pub counted: BTreeMap<String, (u64, u64)>,
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

impl Violation {
    /// Of what no lock's history shows.
    pub fn told(promise: &str, at: Moment, what: String) -> Self {
        let promise = Promise::Told(promise.to_owned());
        Self { promise, lock: String::new(), at, what, evidence: Vec::new() }
    }
}

/// What there was of a history in numbers, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures(BTreeMap<String, u64>);

impl Figures {
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Of what is called the longest, the longest counts, and of all else the sum.
    pub fn add(&mut self, name: &str, value: u64) {
        let known = self.0.entry(name.to_owned()).or_default();
        *known = if name.starts_with("longest ") { value.max(*known) } else { *known + value };
    }
}

impl Verdict {
    pub fn count(&mut self, what: &str, times: u64, of: u64) {
        if of > 0 {
            let known = self.counted.entry(what.to_owned()).or_default();
            *known = (known.0 + times, known.1 + of);
        }
    }

    /// What two histories have come to together.
    pub fn join(&mut self, other: Self) {
        for (name, value) in other.figures.0 {
            self.figures.add(&name, value);
        }
        for (what, (times, of)) in other.counted {
            self.count(&what, times, of);
        }
        self.violations.extend(other.violations);
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
        for (name, value) in &self.figures.0 {
            writeln!(out, "{name}: {value}")?;
        }
        for (what, (times, of)) in &self.counted {
            writeln!(out, "{what}: {times} of {of}")?;
        }
        if self.violations.is_empty() {
            return writeln!(out, "No promise was broken.");
        }
        let mut by_promise: BTreeMap<&Promise, Vec<&Violation>> = BTreeMap::new();
        for violation in &self.violations {
            by_promise.entry(&violation.promise).or_default().push(violation);
        }
        for (promise, violations) in by_promise {
            writeln!(out, "BROKEN, {} times: {promise}", violations.len())?;
            for Violation { lock, what, .. } in violations.iter().take(SHOWN_OF_EACH) {
                writeln!(out, "  {lock}: {what}")?;
            }
        }
        Ok(())
    }
}
