//! When somebody held a lock for certain.
//!
//! Each positive answer is evidence of its own: what was granted or renewed by a call was held from the answer on, for
//! as long as the lease lasts that began when the call was made, at the earliest. Whatever could have ended it earlier
//! cuts it off: a release of the holder's own, a lease that ends sooner, a trouble. So each piece errs to the shorter
//! side, and two pieces that contradict each other prove that something was wrong.

use super::by_lock::{LockHistory, Step};
use super::spans::Spans;
use super::troubles::Troubles;
use crate::history::{Answer, Moment, Reach, Request, Side};
use std::time::Duration;

/// Servers count in whole ms, and by a clock that stands still while they do one thing.
const ROUGHNESS: Duration = Duration::from_millis(2);

pub struct Certain<'a> {
    pub who: &'a str,
    pub side: Side,
    pub from: Moment,
    pub until: Moment,
    /// Until when it would have been certain, had no server forgotten anything.
    pub until_but_for_failovers: Moment,
    /// Until when it would have been certain, had there been no trouble at all.
    pub until_but_for_troubles: Moment,
    /// The lease did not begin before this.
    pub basis: Moment,
    /// What says so: a place in the lock's steps.
    pub step: usize,
}

impl Certain<'_> {
    fn end_at(&mut self, end: Moment) {
        for until in [&mut self.until, &mut self.until_but_for_failovers, &mut self.until_but_for_troubles] {
            *until = end.min(*until);
        }
    }

    fn is_anything(&self) -> bool {
        self.from < self.until_but_for_troubles
    }
}

/// What there is to know of a lock beside the steps of a holder, to say what is certain of that one.
pub struct Surroundings<'l, 'a> {
    lock: &'l LockHistory<'a>,
    troubles: &'l Troubles<'a>,
    /// Leases that a script of Redisson's gave to all readers of the lock, its own or not.
    scripts: Spans<u64>,
}

impl<'l, 'a> Surroundings<'l, 'a> {
    pub fn of(lock: &'l LockHistory<'a>, troubles: &'l Troubles<'a>) -> Self {
        Self { lock, troubles, scripts: renewals_by_script(lock) }
    }

    /// What is certain of all holders of the lock.
    pub fn certain(&self) -> Vec<Certain<'a>> {
        self.lock.holders.iter().flat_map(|steps| self.of_holder(steps, None)).collect()
    }

    /// What would be certain of one holder, had it not done one of its steps.
    pub fn certain_but_for(&self, holder: &[usize], ignored: usize) -> Vec<Certain<'a>> {
        self.of_holder(holder, Some(ignored))
    }

    fn of_holder(&self, places: &[usize], ignored: Option<usize>) -> Vec<Certain<'a>> {
        let holder = Holder::of(self.lock, places, ignored);
        let mut pieces: Vec<Certain> = Vec::new();
        let mut nested = holder.is_orderly().then(Nested::default);
        for &(place, step) in &holder.steps {
            let known = pieces.len();
            pieces.extend(pieces_of_guard(place, step));
            pieces.extend(piece_of_grant(place, step));
            let renewed = holder.pieces_of_renewal(place, step, &pieces);
            pieces.extend(renewed);
            for piece in &mut pieces[known..] {
                holder.cut(piece, nested.is_some());
                holder.cut_by_cancels(piece, step);
                cut_by_scripts(piece, &self.scripts);
                cut_by_troubles(piece, self.lock.name, self.troubles);
            }
            if let Some(nested) = &mut nested {
                nested.follow(step, &mut pieces, known);
            }
        }
        pieces.retain(Certain::is_anything);
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
    let mut renewals = Vec::new();
    for steps in &lock.holders {
        let steps: Vec<&Step> = steps.iter().map(|place| &lock.steps[*place]).collect();
        if !steps.iter().any(|step| step.is_by_script() && step.asks_for() != Some(Side::Plain)) {
            continue;
        }
        for step in steps {
            if let (Request::Renew { lease_ms }, false) = (&step.call().request, step.failed()) {
                renewals.push((step.call().at, step.done(), *lease_ms));
            }
        }
    }
    Spans::from(renewals)
}

/// The steps of one holder, and those among them that may end what others of them began.
struct Holder<'l, 'a> {
    steps: Vec<(usize, &'l Step<'a>)>,
    sides: Vec<Side>,
    is_script: bool,
    /// Those that may give back the last hold.
    farewells: Vec<&'l Step<'a>>,
    /// Those that may give back what a ticket was granted, unless it was renewed.
    cancels: Vec<&'l Step<'a>>,
    /// Those that may begin a lease that is shorter than another one.
    shorteners: Vec<(&'l Step<'a>, u64)>,
}

impl<'l, 'a> Holder<'l, 'a> {
    fn of(lock: &'l LockHistory<'a>, places: &[usize], ignored: Option<usize>) -> Self {
        let all = places.iter().filter(|place| Some(**place) != ignored);
        let steps: Vec<(usize, &Step)> = all.map(|place| (*place, &lock.steps[*place])).collect();
        let asked = |side| steps.iter().any(|(_, step)| step.asks_for() == Some(side) && !step.failed());
        let longest = steps.iter().filter_map(|(_, step)| lease(step)).max().unwrap_or(0);
        let each = || steps.iter().map(|(_, step)| *step);
        Self {
            sides: [Side::Plain, Side::Read, Side::Write].into_iter().filter(|side| asked(*side)).collect(),
            is_script: each().any(Step::is_by_script),
            farewells: each().filter(|step| may_be_the_last(step)).collect(),
            cancels: each().filter(|step| matches!(step.call().request, Request::Cancel { .. })).collect(),
            shorteners: each()
                .filter(|step| !step.did_nothing())
                .filter_map(|step| Some((step, lease(step)?)))
                .filter(|(_, lease)| *lease < longest)
                .collect(),
            steps,
        }
    }

    /// Whether its steps were done in the order in which it asked for them, so that its holds can be counted.
    fn is_orderly(&self) -> bool {
        let follow = |pair: &[(usize, &Step)]| pair[0].1.done() <= pair[1].1.call().at;
        self.steps.windows(2).all(follow) && !self.steps.iter().any(|(_, step)| step.is_guard())
    }

    fn pieces_of_renewal(&self, place: usize, step: &Step<'a>, pieces: &[Certain]) -> Vec<Certain<'a>> {
        match (&step.call().request, step.answer()) {
            (Request::Renew { lease_ms }, Some(Answer::Renewed(true))) => {
                self.renewed_sides(step, pieces).map(|side| piece(place, step, side, *lease_ms)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The sides that a renewal was good for. A holder of one side had that; else it is what it had for certain.
    /// Redisson's script says yes to a reader whose time was over, and nothing comes of it.
    fn renewed_sides(&self, renewal: &Step, pieces: &[Certain]) -> impl Iterator<Item = Side> {
        let time = (renewal.call().at, renewal.done());
        let proves_itself = |side: Side| self.sides.len() == 1 && !(self.is_script && side == Side::Read);
        let covered = move |side| covers(pieces, side, time, |it| it.until);
        self.sides.iter().copied().filter(move |side| proves_itself(*side) || covered(*side))
    }

    /// By whatever the holder itself did, or may have done, after the lease had begun.
    fn cut(&self, piece: &mut Certain, reads_are_counted: bool) {
        for step in &self.farewells {
            let Request::Release { side, .. } = step.call().request else { continue };
            let concerns = side == piece.side || (self.is_script && self.sides.len() > 1);
            let is_counted = reads_are_counted && piece.side == Side::Read;
            if concerns && !is_counted && step.done() > piece.basis {
                piece.end_at(step.call().at);
            }
        }
        for (step, lease_ms) in &self.shorteners {
            let restarts = match step.asks_for() {
                None => true,
                Some(side) => side == Side::Plain,
            };
            if restarts && step.done() > piece.basis {
                piece.end_at(lease_end(step.call().at.max(piece.basis), *lease_ms));
            }
        }
    }
}

impl Holder<'_, '_> {
    /// What a ticket was granted and nobody has renewed.
    fn cut_by_cancels(&self, piece: &mut Certain, grant: &Step) {
        let is_ticket = grant.operation.queued.is_some();
        for cancel in self.cancels.iter().filter(|_| is_ticket) {
            if cancel.done() > piece.basis {
                piece.end_at(cancel.call().at);
            }
        }
    }
}

fn lease(step: &Step) -> Option<u64> {
    match step.call().request {
        Request::Acquire { lease_ms, .. } | Request::Renew { lease_ms } => Some(lease_ms),
        Request::Guard { .. } | Request::Release { .. } | Request::Cancel { .. } => None,
    }
}

/// Of exclusive holds a release tells whether another one is left.
fn may_be_the_last(step: &Step) -> bool {
    match (&step.call().request, step.answer()) {
        _ if step.failed() => false,
        (Request::Release { side, all }, Some(Answer::Released(Some(0)))) => *all || !side.is_exclusive(),
        (Request::Release { .. }, _) => true,
        _ => false,
    }
}

/// Read holds have a lease each, and the latest goes first: what is certain by the others stays so.
#[derive(Default)]
struct Nested {
    holds: Vec<Vec<usize>>,
}

impl Nested {
    fn follow(&mut self, step: &Step, pieces: &mut [Certain], known: usize) {
        let new = (known..pieces.len()).filter(|place| pieces[*place].side == Side::Read).collect::<Vec<_>>();
        match (&step.call().request, step.answer()) {
            (Request::Acquire { .. }, _) if !new.is_empty() => self.holds.push(new),
            (Request::Renew { .. }, _) if !new.is_empty() => {
                let time = (step.call().at, step.done());
                match self.lowest_held(pieces, time) {
                    Some(hold) => hold.extend(new),
                    None => self.holds.push(new),
                }
            }
            (Request::Release { side: Side::Read, all }, answer) if !step.failed() => {
                let is_all = *all || !matches!(answer, Some(Answer::Released(Some(0))));
                let kept = if is_all { 0 } else { self.holds.len().saturating_sub(1) };
                for place in self.holds.drain(kept..).flatten() {
                    pieces[place].end_at(step.call().at);
                }
            }
            _ => {}
        }
    }
}

impl Nested {
    /// What was renewed stays renewed for as long as any of the holds stays that were there. Those below may have ended
    /// before, all together, and then are not counted any more.
    fn lowest_held(&mut self, pieces: &[Certain], time: (Moment, Moment)) -> Option<&mut Vec<usize>> {
        let is_held = |hold: &Vec<usize>| {
            let spans = hold.iter().map(|place| &pieces[*place]);
            covers(spans, Side::Read, time, |it| it.until)
        };
        let lowest = self.holds.iter().position(is_held).or(self.holds.len().checked_sub(1))?;
        self.holds.get_mut(lowest)
    }
}

fn piece_of_grant<'a>(place: usize, step: &Step<'a>) -> Option<Certain<'a>> {
    let Request::Acquire { side, lease_ms, .. } = step.call().request else { return None };
    let (told, _) = step.operation.granted()?;
    let mut piece = piece(place, step, side, lease_ms);
    if step.operation.queued.is_some() {
        // What was told belongs to whoever has read it, whatever becomes of the session.
        piece = spanning(place, step, side, (step.asked, told, lease_end(step.asked, lease_ms)));
    }
    Some(piece)
}

fn pieces_of_guard<'a>(place: usize, step: &Step<'a>) -> Vec<Certain<'a>> {
    let Request::Guard { side, lease_ms, .. } = step.call().request else { return Vec::new() };
    let mut end = step.ended.unwrap_or(Moment(u64::MAX));
    let mut pieces = Vec::new();
    // What is said last counts: it may take back a part of what was said before.
    for &(at, until) in step.vouched.iter().rev() {
        end = end.min(until);
        let basis = at.min(until - Duration::from_millis(lease_ms));
        pieces.push(spanning(place, step, side, (basis, at, end)));
    }
    pieces
}

fn piece<'a>(place: usize, step: &Step<'a>, side: Side, lease_ms: u64) -> Certain<'a> {
    let basis = step.call().at;
    spanning(place, step, side, (basis, step.done(), lease_end(basis, lease_ms)))
}

fn spanning<'a>(
    place: usize,
    step: &Step<'a>,
    side: Side,
    (basis, from, until): (Moment, Moment, Moment),
) -> Certain<'a> {
    Certain {
        who: step.who(),
        side,
        from,
        until,
        until_but_for_failovers: until,
        until_but_for_troubles: until,
        basis,
        step: place,
    }
}

fn lease_end(began: Moment, lease_ms: u64) -> Moment {
    began + Duration::from_millis(lease_ms) - ROUGHNESS
}

fn cut_by_scripts(piece: &mut Certain, scripts: &Spans<u64>) {
    if piece.side != Side::Read || scripts.is_empty() {
        return;
    }
    let time = (piece.basis, piece.until_but_for_troubles);
    for (at, _, lease_ms) in scripts.touching(time.0, time.1) {
        piece.end_at(lease_end((*at).max(piece.basis), *lease_ms));
    }
}

fn cut_by_troubles(piece: &mut Certain, lock: &str, troubles: &Troubles) {
    let mut end = piece.until_but_for_troubles;
    for trouble in troubles.removals(lock, piece.basis, end) {
        end = end.min(trouble.began);
    }
    for (began, _, trouble) in troubles.clock_steps.touching(piece.basis, end) {
        if let Reach::ClockStep { by_ms, .. } = trouble.reach {
            let sooner = Duration::from_millis(by_ms.max(0).unsigned_abs());
            end = end.min((end - sooner).max(*began));
        }
    }
    piece.until_but_for_failovers = end;
    for (began, ..) in troubles.failovers.touching(piece.basis, end) {
        end = end.min(*began);
    }
    piece.until = end;
}
