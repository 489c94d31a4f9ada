//! A history taken apart by its locks: nothing that is promised spans two of them.

use crate::history::{Answer, Call, Moment, Operation, Record, Request, Sample, Side};
use std::collections::{BTreeMap, HashMap};

/// An operation, with all that was said of it later.
pub struct Step<'a> {
    pub operation: &'a Operation,
    /// When `rlock-client` said until when it is held.
    pub vouched: Vec<(Moment, Moment)>,
    pub ended: Option<Moment>,
    /// When it was first asked for: of a ticket that waits already it changes nothing to ask again.
    pub asked: Moment,
}

#[derive(Default)]
pub struct LockHistory<'a> {
    pub name: &'a str,
    /// In order of their calls.
    pub steps: Vec<Step<'a>>,
    /// The steps of each holder, in order of their calls.
    pub holders: Vec<Vec<usize>>,
    /// In order of when they were asked for.
    pub samples: Vec<&'a Sample>,
}

impl<'a> Step<'a> {
    pub fn call(&self) -> &'a Call {
        &self.operation.call
    }

    /// Whose holds they are. A guard may not know the name that its client gave it; a client does one thing after the
    /// other, so its own name will do.
    pub fn who(&self) -> &'a str {
        let call = self.call();
        if call.holder.is_empty() { &call.client } else { &call.holder }
    }

    /// From when on it does nothing any more: never, where nobody knows what became of it.
    pub fn done(&self) -> Moment {
        self.operation.known().map_or(Moment(u64::MAX), |(at, _)| at)
    }

    pub fn answer(&self) -> Option<&'a Answer> {
        self.operation.known().map(|(_, answer)| answer)
    }

    /// What the server answered with an error, and so did not do. It may have done it if it was replicas that failed.
    pub fn failed(&self) -> bool {
        let needs_replicas = matches!(self.call().request, Request::Acquire { replicas: 1.., .. });
        matches!(self.answer(), Some(Answer::Failed(_))) && !needs_replicas
    }

    /// Whether it certainly had no effect.
    pub fn did_nothing(&self) -> bool {
        self.failed() || matches!(self.answer(), Some(Answer::Refused { .. } | Answer::Renewed(false)))
    }

    /// The side that it asks for, whether by a command or by a guard.
    pub fn asks_for(&self) -> Option<Side> {
        match self.call().request {
            Request::Acquire { side, .. } | Request::Guard { side, .. } => Some(side),
            Request::Renew { .. } | Request::Release { .. } | Request::Cancel { .. } => None,
        }
    }

    /// Where it asked for a ticket.
    pub fn session(&self) -> Option<&'a str> {
        match &self.call().request {
            Request::Acquire { session, .. } => session.as_deref(),
            _ => None,
        }
    }

    /// Whether the server has said that it knows of it. What was not answered may still be under way.
    pub fn has_arrived(&self) -> bool {
        self.has_arrived_by(Moment(u64::MAX))
    }

    pub fn has_arrived_by(&self, moment: Moment) -> bool {
        self.operation.queued.is_some_and(|at| at <= moment) || (self.done() <= moment && self.answer().is_some())
    }

    pub fn is_guard(&self) -> bool {
        matches!(self.call().request, Request::Guard { .. })
    }

    pub fn is_by_script(&self) -> bool {
        matches!(self.call().request, Request::Acquire { by_script: true, .. })
    }

    pub fn request_in_words(&self) -> String {
        self.call().request.in_words()
    }

    /// For a violation's evidence.
    pub fn named(&self) -> (String, u64) {
        (self.call().client.clone(), self.call().number)
    }
}

impl Request {
    pub fn in_words(&self) -> String {
        match self {
            Self::Acquire { side, lease_ms, wait_ms, fenced, by_script, replicas, session } => {
                let wait = wait_ms.map_or(String::new(), |wait| format!(" wait {wait}"));
                let more = [(*fenced, " fenced"), (*by_script, " by script"), (*replicas > 0, " replicated")];
                let more: String = more.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
                let session = session.as_ref().map_or(String::new(), |session| format!(" by session {session}"));
                format!("acquire {} for {lease_ms} ms{wait}{more}{session}", side.word())
            }
            Self::Guard { side, lease_ms, majority, .. } => {
                let of = if *majority { "majority guard" } else { "guard" };
                format!("{of} of {} for {lease_ms} ms", side.word())
            }
            Self::Cancel { session } => format!("take the ticket of session {session} back"),
            Self::Renew { lease_ms } => format!("renew for {lease_ms} ms"),
            Self::Release { side, all } => format!("release {}{}", side.word(), if *all { " all" } else { "" }),
        }
    }
}

impl Side {
    pub fn word(self) -> &'static str {
        match self {
            Self::Plain => "the lock",
            Self::Read => "the read side",
            Self::Write => "the write side",
        }
    }

    pub fn is_exclusive(self) -> bool {
        self != Self::Read
    }
}

/// In order of their names, so that a verdict is the same each time.
pub fn by_lock<'a>(records: &'a [Record], operations: &'a [Operation]) -> Vec<LockHistory<'a>> {
    let mut locks: BTreeMap<&str, LockHistory> = BTreeMap::new();
    let mut said = said_of_guards(records);
    for operation in operations {
        let (vouched, ended) =
            said.remove(&(operation.call.client.as_str(), operation.call.number)).unwrap_or_default();
        let lock = locks.entry(&operation.call.lock).or_default();
        let asked = operation.call.at;
        lock.steps.push(Step { operation, vouched, ended, asked });
    }
    for record in records {
        if let Record::Seen(sample) = record {
            locks.entry(&sample.lock).or_default().samples.push(sample);
        }
    }
    locks
        .into_iter()
        .map(|(name, mut lock)| {
            lock.name = name;
            lock.steps.sort_by_key(|step| step.call().at);
            lock.samples.sort_by_key(|sample| sample.asked);
            lock.holders = by_holder(&lock.steps);
            for steps in &lock.holders {
                ask_once(&mut lock.steps, steps);
            }
            lock
        })
        .collect()
}

/// Those that are asked for by the same ticket are asked for when the first of them is.
fn ask_once(steps: &mut [Step], places: &[usize]) {
    let mut first: HashMap<&str, Moment> = HashMap::new();
    for place in places {
        if let Some(session) = steps[*place].session() {
            let asked = *first.entry(session).or_insert(steps[*place].call().at);
            steps[*place].asked = asked;
        }
    }
}

type Said<'a> = HashMap<(&'a str, u64), (Vec<(Moment, Moment)>, Option<Moment>)>;

fn said_of_guards(records: &[Record]) -> Said<'_> {
    let mut said: Said = HashMap::new();
    for record in records {
        match record {
            Record::Vouched { at, client, number, until } => {
                said.entry((client, *number)).or_default().0.push((*at, *until));
            }
            Record::Ended { at, client, number } => {
                said.entry((client, *number)).or_default().1.get_or_insert(*at);
            }
            _ => {}
        }
    }
    said
}

fn by_holder(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut holders: Vec<Vec<usize>> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let place = *places.entry(step.who()).or_insert_with(|| {
            holders.push(Vec::new());
            holders.len() - 1
        });
        holders[place].push(number);
    }
    holders
}
