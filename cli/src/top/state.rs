//! What is on the screen, apart from how it looks: pure, so that tests need neither a server nor a terminal.

use super::columns;
use super::looks::{Aim, Look};
use crate::address::Address;
use crate::arguments::{Sort, Top};
use crate::inspect::first_holder;
use crate::shown;
use rlock_client::{Error, Inspection, Queue, Statistics};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

pub struct State {
    pub server: Address,
    pub interval: Duration,
    pub sort: Sort,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub rows: Vec<Row>,
    pub totals: Totals,
    pub trouble: Option<Trouble>,
    pub detail: Option<Detail>,
    /// Stays with its lock when the order changes.
    selected: Option<Vec<u8>>,
    last: Option<Last>,
    /// The rows that fit on the screen, as the screen tells.
    pub window: std::ops::Range<usize>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Move(isize),
    Sort,
    Filter,
    Type(char),
    Erase,
    Keep,
    Clear,
    Inspect,
    Back,
    Quit,
}

/// A lock that somebody waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Vec<u8>,
    pub waiters: u64,
    pub oldest_wait: Duration,
    pub holder: Option<String>,
    /// Waiters that got it, per second. Not known from one look alone.
    pub rate: Option<f64>,
}

/// Of all locks together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub waiters: u64,
    pub locks: u64,
    /// Of those that wait the ones that do so by a ticket of a session.
    pub tickets: u64,
    pub sessions: u64,
    pub sessions_unattended: u64,
    pub grants: Option<f64>,
    pub hand_offs: Option<f64>,
    pub timeouts: Option<f64>,
}

/// The server does not answer, or not with what was asked for.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub since: Instant,
    pub answered: bool,
    pub words: String,
}

/// All of one lock.
#[derive(Clone, Debug)]
pub struct Detail {
    pub key: Vec<u8>,
    pub lock: Option<Inspection>,
    pub first_line: u16,
}

struct Last {
    at: Instant,
    served: HashMap<Vec<u8>, u64>,
    counters: HashMap<String, [u64; 3]>,
    holders: HashMap<Vec<u8>, String>,
}

impl State {
    pub fn new(server: Address, args: &Top) -> Self {
        Self {
            server,
            interval: args.interval,
            sort: args.sort,
            filter: args.filter.clone(),
            typing: false,
            rows: Vec::new(),
            totals: Totals::default(),
            trouble: None,
            detail: None,
            selected: None,
            last: None,
            window: 0..0,
        }
    }

    pub fn saw(&mut self, look: Look) {
        self.trouble = None;
        let last = self.last.take();
        let elapsed = last.as_ref().map(|last| look.at.saturating_duration_since(last.at));
        let holders = holders(&look, last.as_ref());
        self.rows = look
            .queues
            .iter()
            .map(|queue| Row {
                key: queue.key.clone(),
                waiters: queue.waiters,
                oldest_wait: queue.oldest_wait,
                holder: holders.get(&queue.key).cloned(),
                rate: rate(served_since(queue, last.as_ref()), elapsed),
            })
            .collect();
        self.totals = totals(&look.statistics, last.as_ref(), elapsed);
        if let (Some(detail), Some((key, lock))) = (&mut self.detail, look.detail) {
            if detail.key == key {
                detail.lock = Some(lock);
            }
        }
        self.last = Some(Last {
            at: look.at,
            served: look.queues.into_iter().map(|queue| (queue.key, queue.served)).collect(),
            counters: look.statistics.iter().map(|it| (it.server.clone(), counters(it))).collect(),
            holders,
        });
    }

    /// What was seen last stays on the screen.
    pub fn saw_nothing(&mut self, error: &Error) {
        let since = self.trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
        self.trouble = Some(Trouble { since, answered: error.code().is_some(), words: shown::line(&error.reason()) });
    }

    /// The rows that the filter leaves, in order.
    pub fn shown(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().filter(|row| shown::name(&row.key).contains(&self.filter)).collect();
        match self.sort {
            Sort::Waiters => rows.sort_by_key(|row| Reverse((row.waiters, row.oldest_wait))),
            Sort::Wait => rows.sort_by_key(|row| Reverse((row.oldest_wait, row.waiters))),
            Sort::Rate => {
                rows.sort_by(|one, other| other.rate.unwrap_or(0.0).total_cmp(&one.rate.unwrap_or(0.0)));
            }
            Sort::Key => rows.sort_by(|one, other| one.key.cmp(&other.key)),
        }
        rows
    }

    /// Where the selected lock is among those that are shown. One that has gone leaves the selection to the first.
    pub fn selected(&self) -> usize {
        let selected = self.selected.as_ref();
        selected.and_then(|key| self.shown().iter().position(|row| row.key == *key)).unwrap_or(0)
    }

    /// As many rows as there is room for, with the selected one among them. The range is kept, since what is on the
    /// screen is looked at.
    pub fn scroll(&mut self, height: usize) {
        self.window = columns::window(self.window.start, self.selected(), height, self.shown().len());
    }

    pub fn aim(&self) -> Aim {
        let visible = self.shown().into_iter().skip(self.window.start).take(self.window.len());
        Aim {
            visible: visible.map(|row| row.key.clone()).collect(),
            detail: self.detail.as_ref().map(|detail| detail.key.clone()),
        }
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Move(steps) => self.go_by(steps),
            Action::Sort => self.sort = self.sort.next(),
            Action::Filter => self.typing = true,
            Action::Type(character) => self.filter.push(character),
            Action::Erase => _ = self.filter.pop(),
            Action::Keep => self.typing = false,
            Action::Clear => {
                self.filter.clear();
                self.typing = false;
            }
            Action::Inspect => {
                let key = self.shown().get(self.selected()).map(|row| row.key.clone());
                self.detail = key.map(|key| Detail { key, lock: None, first_line: 0 });
            }
            Action::Back => self.detail = None,
            // Not for us.
            Action::Quit => {}
        }
    }

    fn go_by(&mut self, steps: isize) {
        if let Some(detail) = &mut self.detail {
            let steps = steps.clamp(-1_000, 1_000) as i16;
            detail.first_line = detail.first_line.saturating_add_signed(steps);
            return;
        }
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(steps).min(last);
        let key = shown.get(place).map(|row| row.key.clone());
        self.selected = key;
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Waiters => Self::Wait,
            Self::Wait => Self::Rate,
            Self::Rate => Self::Key,
            Self::Key => Self::Waiters,
        }
    }
}

/// Of the locks that were looked at, and, as they were, of those that were not this time.
fn holders(look: &Look, last: Option<&Last>) -> HashMap<Vec<u8>, String> {
    let of = |queue: &Queue| match look.locks.get(&queue.key) {
        Some(lock) => first_holder(lock),
        None => last.and_then(|last| last.holders.get(&queue.key).cloned()),
    };
    look.queues.iter().filter_map(|queue| Some((queue.key.clone(), of(queue)?))).collect()
}

/// A queue that was not there is new; one that has served fewer was empty in between.
fn served_since(queue: &Queue, last: Option<&Last>) -> Option<u64> {
    let before = last?.served.get(&queue.key).copied().unwrap_or(0);
    Some(queue.served.checked_sub(before).unwrap_or(queue.served))
}

fn counters(statistics: &Statistics) -> [u64; 3] {
    ["grants", "hand_offs", "timeouts"].map(|name| statistics.number(name).unwrap_or(0))
}

fn totals(statistics: &[Statistics], last: Option<&Last>, elapsed: Option<Duration>) -> Totals {
    let sum = |name| statistics.iter().filter_map(|it| it.number(name)).sum();
    let since = |which: usize| {
        let grown = statistics.iter().map(|it| {
            let before = last?.counters.get(&it.server)?[which];
            // A server that was started again counts from 0.
            counters(it)[which].checked_sub(before)
        });
        grown.sum::<Option<u64>>()
    };
    let [grants, hand_offs, timeouts] = [0, 1, 2].map(|which| rate(since(which), elapsed));
    Totals {
        waiters: sum("waiters"),
        locks: sum("locks_with_waiters"),
        tickets: sum("tickets"),
        sessions: sum("sessions"),
        sessions_unattended: sum("sessions_unattended"),
        grants,
        hand_offs,
        timeouts,
    }
}

fn rate(count: Option<u64>, elapsed: Option<Duration>) -> Option<f64> {
    let seconds = elapsed.map(|elapsed| elapsed.as_secs_f64()).filter(|seconds| *seconds > 0.0)?;
    count.map(|count| count as f64 / seconds)
}
