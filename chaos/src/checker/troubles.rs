//! The troubles of a history, by what they put an end to.

use super::spans::Spans;
use crate::history::{Moment, Reach, Record, Trouble};
use std::collections::HashMap;
use std::time::Duration;

/// A server needs a moment to find its way again: to notice, to look at its locks, to serve.
const RECOVERY: Duration = Duration::from_millis(300);

pub struct Troubles<'a> {
    pub all: Vec<&'a Trouble>,
    named: HashMap<&'a str, Spans<&'a Trouble>>,
    every_lock: Spans<&'a Trouble>,
    pub failovers: Spans<&'a Trouble>,
    /// A server forgets who waits and which sessions are open, whether it keeps its keys or not.
    pub new_starts: Spans<&'a Trouble>,
    pub clock_steps: Spans<&'a Trouble>,
    pub clients: Spans<&'a Trouble>,
    /// What is told may not arrive: what makes trouble to clients, and what takes answers only.
    pub answers: Spans<&'a Trouble>,
    /// Waits that somebody ended.
    pub of_waits: Vec<&'a Trouble>,
    /// When a server certainly could not write: which one, and why.
    pub forbidden: Spans<(&'a str, &'a str)>,
    /// When the last client did something. Their processes end soon after, and do nothing in the background any more.
    pub clients_end: Moment,
    /// What keeps a server from serving, or changes all its locks; with what it takes to recover.
    unrest: Vec<(Moment, Moment)>,
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
        let mut named: HashMap<&str, Vec<_>> = HashMap::new();
        for trouble in &all {
            if let Reach::Locks { locks, .. } = &trouble.reach {
                for lock in locks {
                    named.entry(lock).or_default().push((trouble.began, trouble.ended, *trouble));
                }
            }
        }
        Self {
            named: named.into_iter().map(|(lock, spans)| (lock, Spans::from(spans))).collect(),
            every_lock: those(&all, |reach| matches!(reach, Reach::Locks { locks, .. } if locks.is_empty())),
            failovers: those(&all, |reach| matches!(reach, Reach::Failover { .. })),
            new_starts: those(&all, |reach| matches!(reach, Reach::Failover { .. } | Reach::Restart { .. })),
            clock_steps: those(&all, |reach| matches!(reach, Reach::ClockStep { .. })),
            clients: those(&all, |reach| matches!(reach, Reach::Clients)),
            answers: those(&all, |reach| matches!(reach, Reach::Clients | Reach::Answers)),
            of_waits: all.iter().copied().filter(|it| matches!(it.reach, Reach::Wait { .. })).collect(),
            forbidden: forbidden(records),
            clients_end: records.iter().filter(|it| it.of_call().is_some()).map(Record::at).max().unwrap_or(Moment(0)),
            unrest: unrest(&all, records),
            all,
        }
    }

    /// What removed or changed this lock between two moments, maybe.
    pub fn removals(&self, lock: &str, after: Moment, before: Moment) -> impl Iterator<Item = &'a Trouble> {
        let named = self.named.get(lock).into_iter().flat_map(move |spans| spans.touching(after, before));
        named.chain(self.every_lock.touching(after, before)).map(|(_, _, trouble)| *trouble)
    }

    /// Whether a server may have forgotten its sessions, or counted their time otherwise.
    pub fn may_end_sessions(&self, after: Moment, before: Moment) -> bool {
        self.new_starts.touches(after, before) || self.clock_steps.touches(after, before)
    }

    /// How much of a time there was no trouble that could keep a waiter of this lock from being served.
    pub fn quiet(&self, lock: &str, from: Moment, until: Moment) -> Duration {
        let mut excuses: Vec<(Moment, Moment)> = self.named.get(lock).map_or_else(Vec::new, |spans| {
            let near = spans.touching(from - RECOVERY, until + RECOVERY);
            near.map(|(began, ended, _)| (*began - RECOVERY, *ended + RECOVERY)).collect()
        });
        let first = self.unrest.partition_point(|(_, ended)| *ended <= from);
        excuses.extend(self.unrest[first..].iter().take_while(|(began, _)| *began < until));
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

fn those<'a>(all: &[&'a Trouble], wanted: impl Fn(&Reach) -> bool) -> Spans<&'a Trouble> {
    let wanted = all.iter().filter(|trouble| wanted(&trouble.reach));
    Spans::from(wanted.map(|trouble| (trouble.began, trouble.ended, *trouble)).collect())
}

fn forbidden(records: &[Record]) -> Spans<(&str, &str)> {
    let windows = records.iter().filter_map(|record| match record {
        Record::Forbade { from, until, server, what } if from < until => Some((*from, *until, (&**server, &**what))),
        _ => None,
    });
    Spans::from(windows.collect())
}

/// What an observer writes of a server that gave no answer for a while.
const SILENCE: &str = "silence of server ";

/// When servers were silent, whatever kept them: a disk, others who had the processor. What they do in their own time is
/// measured by the storms.
fn silences(records: &[Record]) -> impl Iterator<Item = (Moment, Moment)> {
    records.iter().filter_map(|record| match record {
        Record::Measured { at, what, value } if what.starts_with(SILENCE) => {
            Some((*at, *at + Duration::from_secs_f64(value.max(0.0) / 1_000.0)))
        }
        _ => None,
    })
}

/// Joined, so that they are in order by their beginnings and by their ends.
fn unrest(all: &[&Trouble], records: &[Record]) -> Vec<(Moment, Moment)> {
    let is_general = |trouble: &&&Trouble| match &trouble.reach {
        Reach::Locks { locks, .. } => locks.is_empty(),
        Reach::Failover { .. } | Reach::ClockStep { .. } | Reach::NoWrites { .. } => true,
        Reach::Nobody | Reach::Clients | Reach::Answers | Reach::Wait { .. } | Reach::Restart { .. } => false,
    };
    let troubles = all.iter().filter(is_general).map(|trouble| (trouble.began, trouble.ended));
    let spans = troubles.chain(silences(records));
    let mut spans: Vec<_> = spans.map(|(began, ended)| (began - RECOVERY, ended + RECOVERY)).collect();
    spans.sort_unstable();
    let mut joined: Vec<(Moment, Moment)> = Vec::new();
    for (began, ended) in spans {
        match joined.last_mut() {
            Some(last) if began <= last.1 => last.1 = last.1.max(ended),
            _ => joined.push((began, ended)),
        }
    }
    joined
}
