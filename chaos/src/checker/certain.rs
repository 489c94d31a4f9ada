//! When somebody held a lock for certain.
//!
//! Each positive answer is evidence of its own: what was granted or renewed by a call was held from the answer on, for
//! as long as the lease lasts that began when the call was made, at the earliest. Whatever could have ended it earlier
//! cuts it off: a release of the holder's own, a lease that ends sooner, a trouble. So each piece errs to the shorter
//! side, and two pieces that contradict each other prove that something was wrong.

use super::ROUGHNESS;
use super::by_lock::LockHistory;
use super::spans::Spans;
use super::troubles::is_covered;
use crate::history::{Answer, Moment, Operation, Reach, Request, Side};
use std::time::Duration;

pub struct Certain<'a> {
    pub side: Side,
    pub from: Moment,
    pub until: Moment,
    /// Until when nobody else may have it, whether a server still knows of it or not.
    pub until_for_others: Moment,
    /// Until when it would have been certain, had no server forgotten anything.
    pub until_but_for_failovers: Moment,
    /// Until when it would have been certain, had there been no trouble at all.
    pub until_but_for_troubles: Moment,
    /// The lease did not begin before this.
    pub basis: Moment,
    /// What says so.
    pub step: &'a Operation,
}

impl Certain<'_> {
    fn end_at(&mut self, end: Moment) {
        let Self { until, until_for_others, until_but_for_failovers, until_but_for_troubles, .. } = self;
        for until in [until, until_for_others, until_but_for_failovers, until_but_for_troubles] {
            *until = end.min(*until);
        }
    }
}

/// What there is to know of a lock beside the steps of a holder, to say what is certain of that one.
pub struct Surroundings<'a> {
    lock: &'a LockHistory<'a>,
    /// Leases that a script of Redisson's gave to all readers of the lock, its own or not.
    scripts: Spans<u64>,
}

impl<'a> Surroundings<'a> {
    pub fn of(lock: &'a LockHistory<'a>) -> Self {
        Self { lock, scripts: renewals_by_script(lock) }
    }

    /// What is certain of all holders of the lock.
    pub fn certain(&self) -> Vec<Certain<'a>> {
        self.lock.holders.iter().flat_map(|steps| self.of_holder(steps.clone())).collect()
    }

    /// What would be certain of one holder, had it not done one of its steps.
    pub fn certain_but_for<'s>(&self, steps: &[&'s Operation], ignored: &Operation) -> Vec<Certain<'s>> {
        self.of_holder(steps.iter().copied().filter(|step| !std::ptr::eq(*step, ignored)).collect())
    }

    fn of_holder<'s>(&self, steps: Vec<&'s Operation>) -> Vec<Certain<'s>> {
        let holder = Holder::of(steps);
        let mut pieces: Vec<Certain> = Vec::new();
        let mut nested = holder.is_orderly().then(Nested::default);
        for &step in &holder.steps {
            let known = pieces.len();
            pieces.extend(pieces_of_guard(step));
            pieces.extend(piece_of_grant(step));
            let renewed = holder.pieces_of_renewal(step, &pieces);
            pieces.extend(renewed);
            for piece in &mut pieces[known..] {
                holder.cut(piece, nested.is_some());
                cut_by_scripts(piece, &self.scripts);
                cut_by_troubles(piece, self.lock);
            }
            if let Some(nested) = &mut nested {
                nested.follow(step, &mut pieces, known);
            }
        }
        pieces.retain(|piece| piece.from < piece.until_but_for_troubles);
        pieces
    }
}

/// Whether a side was held all the time between two moments, by what `end` takes for the end of each piece.
pub fn covers<'p, 'a: 'p>(
    pieces: impl IntoIterator<Item = &'p Certain<'a>>,
    side: Side,
    (from, until): (Moment, Moment),
    end: impl Fn(&Certain) -> Moment,
) -> bool {
    let mut spans: Vec<_> =
        pieces.into_iter().filter(|it| it.side == side).map(|it| (it.from, end(it))).filter(|it| it.1 > from).collect();
    spans.sort_unstable();
    let mut reached = from;
    for (began, ended) in spans {
        if began > reached {
            return false;
        }
        reached = reached.max(ended);
        if reached > until {
            return true;
        }
    }
    false
}

/// Each with its lease.
fn renewals_by_script(lock: &LockHistory) -> Spans<u64> {
    let of_readers =
        |steps: &&Vec<&Operation>| steps.iter().any(|step| step.is_by_script() && step.asks_for() != Some(Side::Plain));
    let steps = lock.holders.iter().filter(of_readers).flatten();
    let renewals = steps.filter(|step| step.is_renewal() && !step.failed());
    Spans::from(renewals.filter_map(|it| Some((it.call.at, it.done(), it.call.request.lease_ms()?))))
}

/// The steps of one holder, and what is to be known of them all.
struct Holder<'a> {
    steps: Vec<&'a Operation>,
    sides: Vec<Side>,
    is_script: bool,
    longest_ms: u64,
}

impl<'a> Holder<'a> {
    fn of(steps: Vec<&'a Operation>) -> Self {
        let asked = |side: &Side| steps.iter().any(|step| step.asks_for() == Some(*side) && !step.failed());
        Self {
            sides: Side::ALL.into_iter().filter(asked).collect(),
            is_script: steps.iter().any(|step| step.is_by_script()),
            longest_ms: steps.iter().filter_map(|step| step.call.request.lease_ms()).max().unwrap_or(0),
            steps,
        }
    }

    /// Whether its steps were done in the order in which it asked for them, so that its holds can be counted.
    fn is_orderly(&self) -> bool {
        let follow = |pair: &[&Operation]| pair[0].done() <= pair[1].call.at;
        self.steps.windows(2).all(follow) && !self.steps.iter().any(|step| step.is_guard())
    }

    /// Of the sides that a renewal was good for. A holder of one side had that; else it is what it had for certain.
    /// Redisson's script says yes to a reader whose time was over, and nothing comes of it.
    fn pieces_of_renewal(&self, step: &'a Operation, pieces: &[Certain]) -> Vec<Certain<'a>> {
        let Request::Renew { lease_ms } = step.call.request else { return Vec::new() };
        let (called, told) = (step.call.at, step.done());
        let proves_itself = |side: Side| self.sides.len() == 1 && !(self.is_script && side == Side::Read);
        let is_renewed = |side: &Side| {
            step.known_answer() == Some(&Answer::Renewed(true))
                && (proves_itself(*side) || covers(pieces, *side, (called, told), |it| it.until))
        };
        let span = (called, told, lease_end(called, lease_ms));
        self.sides.iter().copied().filter(is_renewed).map(|side| piece(step, side, span)).collect()
    }

    /// By whatever the holder itself did, or may have done, after the lease had begun.
    fn cut(&self, piece: &mut Certain, reads_are_counted: bool) {
        let is_counted = reads_are_counted && piece.side == Side::Read;
        for step in &self.steps {
            if step.done() <= piece.basis {
                continue;
            }
            let concerns = |side: Side| side == piece.side || (self.is_script && self.sides.len() > 1);
            if may_be_the_last_of(step).is_some_and(concerns) && !is_counted {
                piece.end_at(step.call.at);
            }
            let restarts =
                !step.did_nothing() && step.asks_for().is_none_or(|side| matches!(side, Side::Plain | Side::Permit));
            let lease_ms = step.call.request.lease_ms().filter(|lease_ms| restarts && *lease_ms < self.longest_ms);
            if let Some(lease_ms) = lease_ms {
                piece.end_at(lease_end(step.call.at.max(piece.basis), lease_ms));
            }
        }
    }
}

/// Of exclusive holds a release tells whether another one is left.
fn may_be_the_last_of(step: &Operation) -> Option<Side> {
    let (side, all) = match step.call.request {
        Request::Release { side, all } => (side, all),
        Request::Answer { .. } => (Side::Plain, true),
        _ => return None,
    };
    let leaves_another = step.known_answer() == Some(&Answer::Released(Some(0))) && !all && side.is_exclusive();
    (!step.failed() && !leaves_another).then_some(side)
}

/// Read holds have a lease each, and the latest goes first: what is certain by the others stays so.
#[derive(Default)]
struct Nested(Vec<Vec<usize>>);

impl Nested {
    fn follow(&mut self, step: &Operation, pieces: &mut [Certain], known: usize) {
        let new = (known..pieces.len()).filter(|place| pieces[*place].side == Side::Read).collect::<Vec<_>>();
        match (&step.call.request, step.known_answer()) {
            (Request::Acquire { .. }, _) if !new.is_empty() => self.0.push(new),
            (Request::Renew { .. }, _) if !new.is_empty() => {
                let time = (step.call.at, step.done());
                match self.lowest_held(pieces, time) {
                    Some(hold) => hold.extend(new),
                    None => self.0.push(new),
                }
            }
            (Request::Release { side: Side::Read, all }, answer) if !step.failed() => {
                let is_all = *all || !matches!(answer, Some(Answer::Released(Some(0))));
                let kept = if is_all { 0 } else { self.0.len().saturating_sub(1) };
                for place in self.0.drain(kept..).flatten() {
                    pieces[place].end_at(step.call.at);
                }
            }
            _ => {}
        }
    }

    /// What was renewed stays renewed for as long as any of the holds stays that were there. Those below may have ended
    /// before, all together, and then are not counted any more.
    fn lowest_held(&mut self, pieces: &[Certain], time: (Moment, Moment)) -> Option<&mut Vec<usize>> {
        let is_held = |hold: &Vec<usize>| {
            let spans = hold.iter().map(|place| &pieces[*place]);
            covers(spans, Side::Read, time, |it| it.until)
        };
        let lowest = self.0.iter().position(is_held).or(self.0.len().checked_sub(1))?;
        self.0.get_mut(lowest)
    }
}

fn piece_of_grant(step: &Operation) -> Option<Certain<'_>> {
    let Request::Acquire { side, lease_ms, .. } = step.call.request else { return None };
    let basis = step.call.at;
    step.granted().map(|(told, _)| piece(step, side, (basis, told, lease_end(basis, lease_ms))))
}

fn pieces_of_guard(step: &Operation) -> Vec<Certain<'_>> {
    let Request::Guard { side, lease_ms, .. } = step.call.request else { return Vec::new() };
    let mut end = step.ended.unwrap_or(Moment(u64::MAX));
    let mut pieces = Vec::new();
    // What is said last counts: it may take back a part of what was said before.
    for &(at, until) in step.vouched.iter().rev() {
        end = end.min(until);
        let basis = at.min(until - Duration::from_millis(lease_ms));
        pieces.push(piece(step, side, (basis, at, end)));
    }
    pieces
}

fn piece(step: &Operation, side: Side, (basis, from, until): (Moment, Moment, Moment)) -> Certain<'_> {
    let (until_for_others, until_but_for_failovers, until_but_for_troubles) = (until, until, until);
    Certain { side, from, until, until_for_others, until_but_for_failovers, until_but_for_troubles, basis, step }
}

fn lease_end(began: Moment, lease_ms: u64) -> Moment {
    began + Duration::from_millis(lease_ms) - ROUGHNESS
}

fn cut_by_scripts(piece: &mut Certain, scripts: &Spans<u64>) {
    if piece.side != Side::Read || scripts.is_empty() {
        return;
    }
    for (at, _, lease_ms) in scripts.touching(piece.basis, piece.until_but_for_troubles) {
        piece.end_at(lease_end((*at).max(piece.basis), *lease_ms));
    }
}

fn cut_by_troubles(piece: &mut Certain, lock: &LockHistory) {
    let mut end = piece.until_but_for_troubles;
    for trouble in lock.troubles.removals(lock.name, piece.basis, end) {
        end = end.min(trouble.began);
    }
    let steps: Vec<_> = lock.troubles.clock_steps.touching(piece.basis, end).collect();
    // The last first: that errs to the shorter side.
    for (began, _, trouble) in steps.into_iter().rev() {
        if let Reach::ClockStep { by_ms, .. } = trouble.reach {
            let sooner = Duration::from_millis(by_ms.max(0).unsigned_abs());
            end = end.min((end - sooner).max(*began));
        }
    }
    piece.until_but_for_failovers = end;
    piece.until_for_others = end;
    for (began, _, failover) in lock.troubles.failovers.touching(piece.basis, end) {
        end = end.min(*began);
        if !is_covered(failover) {
            piece.until_for_others = piece.until_for_others.min(*began);
        }
    }
    piece.until = end;
}
