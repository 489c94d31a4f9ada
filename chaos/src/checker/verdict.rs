//! What the checker says about a history, as data and for a terminal.

use super::exposed::Failovers;
use crate::history::Moment;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// How many violations of each promise are printed.
const SHOWN_OF_EACH: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    /// Events that no promise excludes: how often each happened, and in how many cases it could have.
    pub counted: BTreeMap<String, (u64, u64)>,
    pub figures: Figures,
    /// By their kind.
    #[serde(default)]
    pub failovers: BTreeMap<String, Failovers>,
}

/// One of the sentences below, or what the writer of a history saw broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Promise(pub Cow<'static, str>);

impl Promise {
    pub const fn of(words: &'static str) -> Self {
        Self(Cow::Borrowed(words))
    }
}

pub const FORGOTTEN: &str = "a failover forgot a lock";

pub const FORGOTTEN_ANSWER: &str = "a failover forgot an answer";

// The promises to clients.
pub const ONE_HOLDER: Promise = Promise::of("A lock has one exclusive holder, and no readers at the same time.");
pub const AS_MANY_PERMITS_AS_ASKED_FOR: Promise =
    Promise::of("No more permits are out than the limit of the latest grant.");
pub const ALL_OR_NONE: Promise = Promise::of("Of several locks wanted together all are held, or none.");
pub const HOLDS_LAST: Promise = Promise::of("A hold lasts until it is released or its lease ends.");
pub const TOKENS_GROW: Promise = Promise::of("Each fencing token of a lock is greater than all before it.");
pub const FIRST_COME_FIRST_SERVED: Promise = Promise::of("No request overtakes a waiter.");
pub const OVERTAKEN_SELDOM: Promise = Promise::of("A waiter for several locks is overtaken four times at most.");
pub const FREE_LOCKS_ARE_GRANTED: Promise = Promise::of("A free lock is granted to its waiters at once.");
pub const NO_GRANT_WITHOUT_WAITER: Promise = Promise::of("A lock is granted only to a holder that still wants it.");
pub const RELEASES_ARE_FINAL: Promise = Promise::of("A released lock is not held.");
pub const NO_GRANT_WHILE_FORBIDDEN: Promise = Promise::of("No lock is granted while the server may not write.");
pub const WAITS_END: Promise = Promise::of("A wait ends when its time is up.");
pub const WAITERS_ARE_ANSWERED: Promise = Promise::of("A waiter that leaves the queue gets an answer.");
pub const DROPPED_GUARDS_ARE_RELEASED: Promise = Promise::of("A dropped guard releases its lock.");
pub const ANSWERS_ARE_OF_HOLDERS: Promise = Promise::of("An answer is one that a holder of the lock gave.");
pub const ANSWERS_ARE_KEPT: Promise = Promise::of("After an answer no caller leads for as long as it is kept.");
pub const ANSWERS_ARE_THE_LATEST: Promise = Promise::of("A caller gets the latest answer, and none that has expired.");
pub const ANSWERS_END_WAITS: Promise = Promise::of("An answer ends the waits of all callers.");
pub const LEASES_AS_ASKED_FOR: Promise = Promise::of("A lease is no longer than was asked for.");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    pub promise: Promise,
    /// Empty if the violation is not about one lock.
    pub lock: String,
    pub at: Moment,
    /// A sentence that names clients, holders and numbers.
    pub what: String,
    /// The calls that show it: client and number.
    pub evidence: Vec<(String, u64)>,
}

impl Violation {
    /// A violation that no lock's history shows.
    pub fn without_lock(promise: Promise, at: Moment, what: String) -> Self {
        Self { promise, lock: String::new(), at, what, evidence: Vec::new() }
    }
}

/// The figures of a history, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures(BTreeMap<String, u64>);

impl Figures {
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Keeps only the figures with these names.
    pub fn keep(&mut self, names: &[&str]) {
        self.0.retain(|name, _| names.contains(&name.as_str()));
    }

    /// A name that begins with `longest` keeps the maximum; every other name adds up.
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

    /// A few violations of each promise: more of the same say nothing new.
    pub fn shown(&self) -> impl Iterator<Item = &Violation> {
        let mut shown: BTreeMap<&Promise, usize> = BTreeMap::new();
        self.violations.iter().filter(move |violation| {
            let count = shown.entry(&violation.promise).or_default();
            *count += 1;
            *count <= SHOWN_OF_EACH
        })
    }

    /// Adds the verdict on another history.
    pub fn join(&mut self, other: Self) {
        for (name, value) in other.figures.0 {
            self.figures.add(&name, value);
        }
        for (what, (times, of)) in other.counted {
            self.count(&what, times, of);
        }
        for (by, failovers) in other.failovers {
            *self.failovers.entry(by).or_default() += failovers;
        }
        self.violations.extend(other.violations);
    }
}

impl Display for Violation {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "VIOLATION {}: {}", self.promise.0, self.what)?;
        if self.lock.is_empty() { Ok(()) } else { write!(out, " (lock {})", self.lock) }
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
        for (by, it) in &self.failovers {
            let Failovers { all, exposed, locks, doubled, locks_doubled } = it;
            writeln!(
                out,
                "failovers, {by}: {all}, {exposed} with {locks} exposed locks; with two holders {doubled}, {locks_doubled}"
            )?;
        }
        if self.violations.is_empty() {
            return writeln!(out, "No promise was broken.");
        }
        writeln!(out, "BROKEN, {} times. The first of each promise:", self.violations.len())?;
        self.shown().try_for_each(|violation| writeln!(out, "{violation}"))
    }
}
