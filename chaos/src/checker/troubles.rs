//! The troubles of a history, by their effect.

use super::spans::Spans;
use crate::history::{Moment, Reach, Record, Trouble, measured};
use std::time::Duration;

/// How long a server needs to recover: to notice, to check its locks, to serve.
const RECOVERY: Duration = Duration::from_millis(300);

pub struct Troubles<'a> {
    of_locks: Spans<&'a Trouble>,
    of_answers: Spans<&'a Trouble>,
    pub failovers: Spans<&'a Trouble>,
    /// A new start loses waiters and sessions, whether or not the server keeps its keys.
    pub new_starts: Spans<&'a Trouble>,
    pub clock_steps: Spans<&'a Trouble>,
    pub clocks_apart: Spans<&'a Trouble>,
    pub clients: Spans<&'a Trouble>,
    /// Troubles of clients, and those that only drop replies: a reply may not arrive.
    pub answers: Spans<&'a Trouble>,
    /// Waits that a fault ended.
    pub of_waits: Vec<&'a Trouble>,
    /// When a server certainly could not write: which one, and why.
    pub forbidden: Spans<(&'a str, &'a str)>,
    /// When the last client did something. Their processes end soon after, and do nothing in the background any more.
    pub clients_end: Moment,
    /// What keeps a server from serving any lock.
    unrest: Spans<()>,
}

impl<'a> Troubles<'a> {
    pub fn of(records: &'a [Record]) -> Self {
        let all: Vec<&Trouble> = records
            .iter()
            .filter_map(|record| match record {
                Record::Troubled(trouble) => Some(trouble),
                _ => None,
            })
            .collect();
        Self {
            of_locks: those(&all, |reach| matches!(reach, Reach::Locks { .. })),
            of_answers: those(&all, |reach| {
                matches!(reach, Reach::Locks { takes_answers: true, .. } | Reach::StoredAnswer { .. })
            }),
            failovers: those(&all, |reach| matches!(reach, Reach::Failover { .. })),
            new_starts: those(&all, |reach| matches!(reach, Reach::Failover { .. } | Reach::Restart { .. })),
            clocks_apart: those(&all, |reach| matches!(reach, Reach::ClocksApart { .. })),
            clock_steps: those(&all, |reach| matches!(reach, Reach::ClockStep { .. })),
            clients: those(&all, |reach| matches!(reach, Reach::Clients)),
            answers: those(&all, |reach| matches!(reach, Reach::Clients | Reach::Answers)),
            of_waits: all.iter().copied().filter(|it| matches!(it.reach, Reach::Wait { .. })).collect(),
            forbidden: forbidden(records),
            clients_end: records.iter().filter(|it| it.of_call().is_some()).map(Record::at).max().unwrap_or(Moment(0)),
            unrest: unrest(&all, records),
        }
    }

    /// Troubles that may have removed or changed this lock between two moments.
    pub fn removals(&self, lock: &str, after: Moment, before: Moment) -> impl Iterator<Item = &'a Trouble> {
        let troubles = self.of_locks.touching(after, before).map(|(.., trouble)| *trouble);
        troubles.filter(move |trouble| is_of_lock(trouble, lock))
    }

    /// Whether a trouble other than a failover may have removed or replaced this lock's stored answer, or moved its end.
    pub fn takes_answer(&self, lock: &str, after: Moment, before: Moment) -> bool {
        let clocks = [&self.clock_steps, &self.clocks_apart];
        self.of_answers.touching(after, before).any(|(.., trouble)| is_of_lock(trouble, lock))
            || clocks.iter().any(|spans| spans.touches(after, before))
    }

    /// The part of a time in which no trouble could keep a waiter of this lock from being served.
    pub fn quiet(&self, lock: &str, from: Moment, until: Moment) -> Duration {
        let (after, before) = (from - RECOVERY, until + RECOVERY);
        let of_it = self.removals(lock, after, before).map(|trouble| (trouble.began, trouble.ended));
        let of_all = self.unrest.touching(after, before).map(|(began, ended, ())| (*began, *ended));
        let mut excuses: Vec<_> =
            of_it.chain(of_all).map(|(began, ended)| (began - RECOVERY, ended + RECOVERY)).collect();
        excuses.sort_unstable();
        let mut quiet = Duration::ZERO;
        let mut reached = from;
        for (began, ended) in excuses {
            quiet += began.min(until).since(reached);
            reached = reached.max(ended);
        }
        quiet + until.since(reached)
    }
}

fn is_of_lock(trouble: &Trouble, lock: &str) -> bool {
    match &trouble.reach {
        Reach::Locks { locks, .. } => locks.is_empty() || locks.iter().any(|it| it == lock),
        Reach::StoredAnswer { lock: it } => it == lock,
        _ => false,
    }
}

/// Whether no client can be granted, after this failover, a lock that another may still hold.
pub fn is_covered(failover: &Trouble) -> bool {
    matches!(failover.reach, Reach::Failover { is_covered: true, .. })
}

fn those<'a>(all: &[&'a Trouble], wanted: impl Fn(&Reach) -> bool) -> Spans<&'a Trouble> {
    let wanted = all.iter().filter(|trouble| wanted(&trouble.reach));
    Spans::from(wanted.map(|trouble| (trouble.began, trouble.ended, *trouble)))
}

fn forbidden(records: &[Record]) -> Spans<(&str, &str)> {
    Spans::from(records.iter().filter_map(|record| match record {
        Record::Forbade { from, until, server, what } if from < until => Some((*from, *until, (&**server, &**what))),
        _ => None,
    }))
}

/// What an observer writes of a server that gave no answer for a while.
const SILENCE: &str = "silence of server ";

/// What keeps servers from serving. Silences count, for any reason: a disk, other processes on the machine. The storms, not
/// this checker, measure how long servers take by themselves.
fn unrest(all: &[&Trouble], records: &[Record]) -> Spans<()> {
    let is_unrest =
        |reach: &Reach| matches!(reach, Reach::Failover { .. } | Reach::ClockStep { .. } | Reach::NoWrites { .. });
    let troubles = all.iter().filter(|trouble| is_unrest(&trouble.reach));
    let troubles = troubles.map(|trouble| (trouble.began, trouble.ended, ()));
    let end = |began: Moment, ms: f64| began + Duration::from_secs_f64(ms.max(0.0) / 1_000.0);
    let silences = measured(records, SILENCE).map(|(began, _, ms)| (began, end(began, ms), ()));
    Spans::from(troubles.chain(silences))
}
