//! A history by lock: only `order` and `sets` check promises that span several locks.

use super::troubles::Troubles;
use super::verdict::{Promise, Verdict, Violation};
use crate::history::{Moment, Operation, Record, Sample, WaitsBy};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

pub struct LockHistory<'a> {
    pub name: &'a str,
    /// In order of their calls.
    pub steps: Vec<&'a Operation>,
    /// The same by holder.
    pub holders: Vec<Vec<&'a Operation>>,
    /// In the order in which they were requested.
    pub samples: Vec<&'a Sample>,
    pub troubles: &'a Troubles<'a>,
}

/// A holder or waiter of the lock in one sample.
pub struct Seen<'a> {
    pub sample: &'a Sample,
    pub holder: &'a str,
    /// None: it holds the lock.
    pub waits: Option<&'a WaitsBy>,
}

/// What is wrong with a holder or waiter, and the step that shows it.
type Wrong<'a> = Option<(String, &'a Operation)>;

impl<'a> LockHistory<'a> {
    /// What `of` finds for each holder, without the holders for which it finds nothing.
    pub fn each<T>(&self, of: impl Fn(&[&'a Operation]) -> Option<T>) -> HashMap<&'a str, T> {
        self.holders.iter().filter_map(|steps| Some((steps[0].holder(), of(steps)?))).collect()
    }

    /// Reports the first violation by each holder or waiter.
    pub fn report_once(&self, promise: Promise, verdict: &mut Verdict, wrong: impl Fn(&Seen<'a>) -> Wrong<'a>) {
        let mut reported = HashSet::new();
        for seen in self.samples.iter().flat_map(|sample| present(sample)) {
            if reported.contains(seen.holder) {
                continue;
            }
            if let Some((what, step)) = wrong(&seen) {
                reported.insert(seen.holder);
                let does = if seen.waits.is_some() { "waits" } else { "holds the lock" };
                let what = format!("{} {does} at server {}, {what}", seen.holder, seen.sample.server);
                verdict.violations.push(self.violation(promise.clone(), seen.sample.asked, what, &[step]));
            }
        }
    }

    pub fn violation(&self, promise: Promise, at: Moment, what: String, evidence: &[&Operation]) -> Violation {
        let evidence = evidence.iter().map(|step| (step.call.client.clone(), step.call.number)).collect();
        Violation { promise, lock: self.name.to_owned(), at, what, evidence }
    }

    /// Whether a fault may have removed or changed the lock between two moments.
    pub fn is_removed(&self, after: Moment, before: Moment) -> bool {
        self.troubles.removals(self.name, after, before).next().is_some()
    }

    /// The part of a time in which no trouble could keep a waiter from being served.
    pub fn quiet(&self, from: Moment, until: Moment) -> Duration {
        self.troubles.quiet(self.name, from, until)
    }

    /// Each sample, paired with the previous one of the same server.
    pub fn looks(&self) -> impl Iterator<Item = (&'a Sample, &'a Sample)> {
        let mut before: HashMap<&str, &Sample> = HashMap::new();
        self.samples.iter().filter_map(move |sample| Some((before.insert(&sample.server, sample)?, *sample)))
    }

    /// The last step of a holder, if it is known.
    pub fn last_of(&self, holder: &str) -> Option<&'a Operation> {
        self.steps.iter().rev().find(|step| step.call.holder == holder).copied()
    }
}

fn present(sample: &Sample) -> impl Iterator<Item = Seen<'_>> {
    let holders = sample.holders.iter().filter(|holding| holding.is_live());
    let holders = holders.map(|it| Seen { sample, holder: &it.holder, waits: None });
    holders.chain(sample.waiters.iter().map(|it| Seen { sample, holder: &it.holder, waits: Some(&it.by) }))
}

/// The history of each lock, sorted by name, so that a verdict is the same each time.
pub fn by_lock<'a>(
    records: &'a [Record],
    operations: &'a [Operation],
    troubles: &'a Troubles<'a>,
) -> Vec<LockHistory<'a>> {
    let mut locks: BTreeMap<&str, (Vec<&Operation>, Vec<&Sample>)> = BTreeMap::new();
    for operation in operations {
        locks.entry(&operation.call.lock).or_default().0.push(operation);
    }
    for record in records {
        if let Record::Seen(sample) = record {
            locks.entry(&sample.lock).or_default().1.push(sample);
        }
    }
    let lock = |(name, (mut steps, mut samples)): (&'a str, (Vec<&'a Operation>, Vec<&'a Sample>))| {
        steps.sort_by_key(|step| step.call.at);
        samples.sort_by_key(|sample| sample.asked);
        LockHistory { name, holders: by_holder(&steps), steps, samples, troubles }
    };
    locks.into_iter().map(lock).collect()
}

fn by_holder<'a>(steps: &[&'a Operation]) -> Vec<Vec<&'a Operation>> {
    let mut holders: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for step in steps {
        holders.entry(step.holder()).or_default().push(step);
    }
    holders.into_values().collect()
}
