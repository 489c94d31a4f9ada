//! When a holder certainly held a lock.
//!
//! Each positive answer is evidence by itself: after a grant or a renewal the lock was held from the answer on, at least
//! until the end of a lease that began at the call. Whatever could have ended the hold earlier shortens this span: a
//! release by the holder, a shorter lease, a trouble. So each span errs on the short side, and two spans that contradict
//! each other prove a defect.

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
    /// Until when no other holder may have the lock, whether or not a server still knows of this hold.
    pub until_for_others: Moment,
    /// Until when the hold would be certain if no server had forgotten anything.
    pub until_without_failovers: Moment,
    /// Until when the hold would be certain if there had been no trouble at all.
    pub until_without_troubles: Moment,
    /// The lease did not begin before this.
    pub basis: Moment,
    /// The step that proves it.
    pub step: &'a Operation,
}

impl Certain<'_> {
    fn end_at(&mut self, end: Moment) {
        let Self { until, until_for_others, until_without_failovers, until_without_troubles, .. } = self;
        for until in [until, until_for_others, until_without_failovers, until_without_troubles] {
            *until = end.min(*until);
        }
    }
}

/// What affects all holders of a lock.
pub struct Surroundings<'a> {
    lock: &'a LockHistory<'a>,
    /// Leases that one of Redisson's scripts set for all readers of the lock.
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

    /// What would be certain of one holder without one of its steps.
    pub fn certain_without<'s>(&self, steps: &[&'s Operation], ignored: &Operation) -> Vec<Certain<'s>> {
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
        pieces.retain(|piece| piece.from < piece.until_without_troubles);
        pieces
    }
}

/// Whether a side was held all the time between two moments. `end` is the end of each span.
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

/// Each script that renews, with its lease.
fn renewals_by_script(lock: &LockHistory) -> Spans<u64> {
    let of_readers =
        |steps: &&Vec<&Operation>| steps.iter().any(|step| step.is_by_script() && step.asks_for() != Some(Side::Plain));
    let steps = lock.holders.iter().filter(of_readers).flatten();
    let renewals = steps.filter(|step| step.is_renewal() && !step.failed());
    Spans::from(renewals.filter_map(|it| Some((it.call.at, it.done(), it.call.request.lease_ms()?))))
}

/// The steps of one holder, and what they have in common.
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

    /// Whether each step ended before the next one was called, so that the holds can be counted.
    fn is_orderly(&self) -> bool {
        let follow = |pair: &[&Operation]| pair[0].done() <= pair[1].call.at;
        self.steps.windows(2).all(follow) && !self.steps.iter().any(|step| step.is_guard())
    }

    /// The sides that a renewal extended: the side for which the holder asked, otherwise each side that it certainly
    /// held. Redisson's script answers 1 to a reader after its lease, and extends nothing.
    fn pieces_of_renewal(&self, step: &'a Operation, pieces: &[Certain]) -> Vec<Certain<'a>> {
        let Request::Renew { lease_ms } = step.call.request else { return Vec::new() };
        let (called, answered) = (step.call.at, step.done());
        let proves_itself = |side: Side| self.sides.len() == 1 && !(self.is_script && side == Side::Read);
        let is_renewed = |side: &Side| {
            step.known_answer() == Some(&Answer::Renewed(true))
                && (proves_itself(*side) || covers(pieces, *side, (called, answered), |it| it.until))
        };
        let span = (called, answered, lease_end(called, lease_ms));
        self.sides.iter().copied().filter(is_renewed).map(|side| piece(step, side, span)).collect()
    }

    /// Ends a span where the holder itself ended the hold, or may have ended it, after the lease began.
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

/// The side of a release that may have ended the last hold. The reply to an exclusive one says whether another hold remains.
fn may_be_the_last_of(step: &Operation) -> Option<Side> {
    let (side, all) = match step.call.request {
        Request::Release { side, all } => (side, all),
        Request::Answer { .. } => (Side::Plain, true),
        _ => return None,
    };
    let leaves_another = step.known_answer() == Some(&Answer::Released(Some(0))) && !all && side.is_exclusive();
    (!step.failed() && !leaves_another).then_some(side)
}

/// Each read hold has its own lease, and the latest is released first: the others keep theirs.
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

    /// A renewal lasts as long as any hold that was there, so it belongs to the lowest one that was certainly held. The
    /// holds below may all have ended before, and then count no more.
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
    step.granted().map(|(answered, _)| piece(step, side, (basis, answered, lease_end(basis, lease_ms))))
}

fn pieces_of_guard(step: &Operation) -> Vec<Certain<'_>> {
    let Request::Guard { side, lease_ms, .. } = step.call.request else { return Vec::new() };
    let mut end = step.ended.unwrap_or(Moment(u64::MAX));
    let mut pieces = Vec::new();
    // The last report counts: it may shorten an earlier one.
    for &(at, until) in step.vouched.iter().rev() {
        end = end.min(until);
        let basis = at.min(until - Duration::from_millis(lease_ms));
        pieces.push(piece(step, side, (basis, at, end)));
    }
    pieces
}

fn piece(step: &Operation, side: Side, (basis, from, until): (Moment, Moment, Moment)) -> Certain<'_> {
    let (until_for_others, until_without_failovers, until_without_troubles) = (until, until, until);
    Certain { side, from, until, until_for_others, until_without_failovers, until_without_troubles, basis, step }
}

fn lease_end(began: Moment, lease_ms: u64) -> Moment {
    began + Duration::from_millis(lease_ms) - ROUGHNESS
}

fn cut_by_scripts(piece: &mut Certain, scripts: &Spans<u64>) {
    if piece.side != Side::Read || scripts.is_empty() {
        return;
    }
    for (at, _, lease_ms) in scripts.touching(piece.basis, piece.until_without_troubles) {
        piece.end_at(lease_end((*at).max(piece.basis), *lease_ms));
    }
}

fn cut_by_troubles(piece: &mut Certain, lock: &LockHistory) {
    let mut end = piece.until_without_troubles;
    for trouble in lock.troubles.removals(lock.name, piece.basis, end) {
        end = end.min(trouble.began);
    }
    let steps: Vec<_> = lock.troubles.clock_steps.touching(piece.basis, end).collect();
    // The last clock step first: this order errs on the short side.
    for (began, _, trouble) in steps.into_iter().rev() {
        if let Reach::ClockStep { by_ms, .. } = trouble.reach {
            let sooner = Duration::from_millis(by_ms.max(0).unsigned_abs());
            end = end.min((end - sooner).max(*began));
        }
    }
    piece.until_without_failovers = end;
    piece.until_for_others = end;
    for (began, _, failover) in lock.troubles.failovers.touching(piece.basis, end) {
        end = end.min(*began);
        if !is_covered(failover) {
            piece.until_for_others = piece.until_for_others.min(*began);
        }
    }
    piece.until = end;
}
