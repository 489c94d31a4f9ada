//! What this client knows of one holder's holds on one lock: its guards, whether the server may have more, and until when
//! the lease can be vouched for.
//!
//! **Counting.** Each guard stands for one request that was granted, so the server never counts fewer holds than there
//! are guards. It may count more, if a request was granted and its answer was lost. Then the last guard to go gives
//! back all of them (`ALL`); no guard does so before, as that would take the lock from the others.
//!
//! **The deadline.** A lease lasts at least until *the clock before the request was sent* plus its length, for the server
//! has started it later than that. The deadline is a margin before that, for two clocks that run at different speeds. When
//! it has passed, or the server says that nothing is held, the guard is lost, for good: a renewal that comes through later
//! does not undo what happened in between.

use super::doubt::Doubt;
use super::gate::Gate;
use super::line::LATE_MAX;
use super::pause::Pause;
use super::request::{Extent, Leased};
use super::terms::{Replicas, Side};
use super::{Effect, Name, Standing};
use crate::error::Cause;
use crate::loss::Loss;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Why the server may count more holds than this client does.
static UNCOUNTED: Cause = Cause::Client(Cow::Borrowed("may have been released or not"));

/// Until when a guard is guaranteed, or why it is lost.
pub(super) type Vouched = Result<Instant, Loss>;

pub(super) struct Hold {
    pub key: Name,
    pub holder: Name,
    /// The caller chose the holder, so others may hold something under it that is not ours to give back.
    pub named: bool,
    /// Also those that are lost, until they go.
    guards: Vec<Guarded>,
    sides: [Count; Side::ALL.len()],
    /// The attempts of an owner, in the order in which they came: only the first one asks.
    pub attempts: VecDeque<u64>,
    pub gate: Gate,
    until: Instant,
    /// Requests for a lease that may have come to the server after others that were sent later.
    overdue: Vec<Overdue>,
    /// The longest lease that was asked for since somebody is there.
    longest: Duration,
    /// Whoever gives it back, or is about to ask for it.
    pub users: u32,
    pub keep: Option<Keep>,
}

/// One grant, which its caller has or is about to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuardId(pub(super) u64);

struct Guarded {
    id: GuardId,
    side: Side,
    end: End,
    replicas: Option<Replicas>,
    /// Until when it is guaranteed, while it is not lost.
    until: Instant,
    is_lost: bool,
    /// Why it is lost, or would be if no renewal succeeds.
    trouble: Option<Loss>,
}

impl Guarded {
    fn standing(&self, now: Instant) -> Vouched {
        match !self.is_lost && self.until > now {
            true => Ok(self.until),
            false => Err(self.trouble.clone().unwrap_or(Loss::Ended)),
        }
    }
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Not, while it is renewed.
    Kept,
    /// By itself.
    Fixed(Instant),
}

#[derive(Default)]
struct Count {
    /// Requests that are under way.
    attempts: usize,
    /// The server may count more holds than there are guards.
    doubt: Doubt,
}

/// A lease that is kept alive.
pub(super) struct Keep {
    pub lease: Duration,
    /// How long the lease is that runs.
    pub running: Duration,
    /// Not while a renewal is under way that is not overdue.
    pub due: Option<Instant>,
    /// The requests that are under way, in the order in which they were sent.
    pub asked: Vec<Renewal>,
    /// The time between tries, since renewals fail.
    pub failing: Option<Pause>,
    /// The connection broke while a renewal was under way, which may have been answered before that.
    pub again: bool,
}

/// A request without an answer in time.
struct Overdue {
    errand: u64,
    lease: Duration,
    /// When its answer came: it has cut no lease that was asked for after that.
    answered: Option<Instant>,
}

/// A request that renews a lease.
pub(super) struct Renewal {
    pub errand: u64,
    pub lease: Duration,
    /// Another one was sent meanwhile; whichever is answered first counts.
    pub is_overdue: bool,
    /// What confirms it in a round; and what it has renewed, which is to be confirmed.
    pub replicas: Option<Replicas>,
    pub renewed: Option<Leased>,
}

/// A lease that began, and whether for everything that this holder has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub lease: Leased,
    pub for_all: bool,
    /// What confirms its renewals.
    pub replicas: Option<Replicas>,
}

impl Hold {
    pub(super) fn new(key: Name, holder: Name, named: bool, now: Instant) -> Self {
        let (guards, sides, attempts, gate, overdue, longest, users, keep) = Default::default();
        Self { key, holder, named, guards, sides, attempts, gate, until: now, overdue, longest, users, keep }
    }

    pub(super) fn names(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.holder)
    }

    pub(super) fn is_unused(&self) -> bool {
        self.users == 0 && self.guards.is_empty() && self.gate.is_open()
    }

    /// The lease to ask for: never less than what is left of what others have under this holder, which it would
    /// shorten; nor than what they have asked for, which their renewal may begin.
    pub(super) fn lease_for(&self, lease: Duration, now: Instant) -> Duration {
        match self.is_shared() {
            true => lease.max(self.remaining(now)).max(self.longest),
            false => lease,
        }
    }

    /// Whether there is more under this holder than one guard has: all of it has one lease.
    pub(super) fn has_several(&self) -> bool {
        self.guards.iter().filter(|guard| !guard.is_lost).count() > 1 || self.sides.iter().any(|it| it.attempts > 0)
    }

    /// No renewal cuts such a lease. Returns what the longest one was before.
    pub(super) fn asks_for_at_least(&mut self, lease: Duration) -> Duration {
        let longest = self.longest;
        self.longest = longest.max(lease);
        longest
    }

    pub(super) fn asks_for_less(&mut self, longest: Duration) {
        if self.sides.iter().all(|count| count.attempts == 0) {
            self.longest = longest;
        }
    }

    /// A request is about to be sent that may cut the lease to this one, at any time until it is answered.
    pub(super) fn may_be_cut(&mut self, errand: u64, lease: Leased, effects: &mut Vec<Effect>) {
        self.is_overdue(errand, lease.length);
        let until = vouched_until(lease);
        if until < self.until {
            self.until = until;
            self.prolong(effects);
        }
    }

    /// Whether there are guards that count already.
    pub(super) fn is_shared(&self) -> bool {
        self.guards.iter().any(|guard| !guard.is_lost)
    }

    /// Whether there are guards whose lease has not ended.
    pub(super) fn is_vouched_for(&self, now: Instant) -> bool {
        self.is_shared() && self.until > now
    }

    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// A request for one more hold is about to be made.
    pub(super) fn attempt_begins(&mut self, side: Side, lease: Duration) {
        let is_first = !self.is_shared() && self.sides.iter().all(|count| count.attempts == 0);
        self.longest = if is_first { lease } else { self.longest.max(lease) };
        self.sides[side as usize].attempts += 1;
    }

    /// It was not granted, as far as this client knows. Returns whether the server may have granted it all the same,
    /// and no guard is left that would give that back.
    pub(super) fn attempt_failed(&mut self, side: Side, doubt: &Doubt) -> bool {
        self.attempt_ends(side, doubt);
        self.is_doubtful(side) && self.is_idle(side)
    }

    fn attempt_ends(&mut self, side: Side, doubt: &Doubt) {
        let count = &mut self.sides[side as usize];
        count.attempts -= 1;
        count.doubt.adds(doubt);
    }

    /// It was granted, to this guard.
    pub(super) fn attempt_granted(
        &mut self,
        id: GuardId,
        (side, doubt): (Side, &Doubt),
        began: Began,
        end: impl FnOnce(Instant) -> End,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let until = vouched_until(began.lease);
        self.attempt_ends(side, doubt);
        let others = self.is_vouched_for(now);
        if !others {
            self.void(None, now, effects);
        }
        self.until = match others {
            // Nobody has confirmed this one to those who want that.
            true if began.for_all && self.replicas().is_none() => self.until.max(until),
            true => self.until.min(until),
            false => until,
        };
        let (end, until, replicas, is_lost, trouble) = (end(until), self.until, began.replicas, false, None);
        self.guards.push(Guarded { id, side, end, replicas, until, is_lost, trouble });
        self.prolong(effects);
    }

    /// What is certain of a lease. A request that comes to the server after it, though it was sent before, cuts it to what that
    /// request asks for.
    pub(super) fn certain(&self, lease: Leased) -> Leased {
        let may_cut = |it: &&Overdue| it.answered.is_none_or(|answered| answered >= lease.after);
        let shortest = self.overdue.iter().filter(may_cut).map(|it| it.lease).min();
        Leased { length: shortest.map_or(lease.length, |shortest| shortest.min(lease.length)), ..lease }
    }

    pub(super) fn is_overdue(&mut self, errand: u64, lease: Duration) {
        self.overdue.push(Overdue { errand, lease, answered: None });
    }

    /// A request has come to the server, or never will.
    pub(super) fn has_come(&mut self, errand: u64, now: Instant) {
        // What was asked for so long ago is not waited for.
        self.overdue.retain(|it| it.answered.is_none_or(|answered| answered + LATE_MAX > now));
        self.overdue.iter_mut().filter(|it| it.errand == errand).for_each(|it| it.answered = Some(now));
    }

    /// The lease was restarted. Returns whether that came in time.
    pub(super) fn renewed(&mut self, lease: Leased, now: Instant, effects: &mut Vec<Effect>) -> bool {
        let in_time = self.until > now;
        if in_time {
            self.until = self.until.max(vouched_until(lease));
            self.prolong(effects);
        } else {
            self.void(None, now, effects);
        }
        in_time
    }

    pub(super) fn not_renewed(&mut self, loss: &Loss, effects: &mut Vec<Effect>) {
        for guard in self.guards.iter_mut().filter(|guard| !guard.is_lost) {
            guard.trouble = Some(loss.clone());
            effects.push(Effect::Guard(guard.id, Standing::Troubled(loss.clone())));
        }
    }

    fn prolong(&mut self, effects: &mut Vec<Effect>) {
        for guard in self.guards.iter_mut().filter(|guard| !guard.is_lost) {
            guard.until = match guard.end {
                End::Kept => self.until,
                End::Fixed(end) => end.min(self.until),
            };
            guard.trouble = None;
            effects.push(Effect::Guard(guard.id, Standing::Until(guard.until)));
        }
    }

    /// Nothing can be vouched for any more: the guards that there are do not count, though the server may still count
    /// their holds.
    ///
    /// That the server knows nothing of a lease that has ended is no reason of its own: this program stalled, and may have
    /// reported another reason already.
    pub(super) fn void(&mut self, loss: Option<Loss>, now: Instant, effects: &mut Vec<Effect>) {
        for guard in self.guards.iter_mut().filter(|guard| !guard.is_lost) {
            self.sides[guard.side as usize].doubt.deepens(&UNCOUNTED);
            let loss = loss.clone().filter(|loss| guard.until > now || *loss != Loss::NotHeld);
            guard.trouble = loss.or_else(|| guard.trouble.take());
            guard.is_lost = true;
            let why = guard.trouble.clone().unwrap_or(Loss::Ended);
            effects.push(Effect::Guard(guard.id, Standing::Lost(why)));
        }
        self.until = self.until.min(now);
    }

    /// A guard goes. Returns until when it was guaranteed, or why it was lost before; and what has to be released, if
    /// anything. A guard whose lease has ended may have nothing at the server any more, and must not take what others were
    /// granted since.
    pub(super) fn guard_goes(&mut self, side: Side, id: GuardId, now: Instant) -> (Vouched, Option<Extent>) {
        let place = self.guards.iter().position(|guard| guard.id == id);
        let guard = place.map(|place| self.guards.swap_remove(place));
        let (counts, vouched) = match guard {
            Some(guard) => (!guard.is_lost, guard.standing(now)),
            None => (false, Err(Loss::Ended)),
        };
        let extent = match (self.is_idle(side), counts) {
            (true, _) if self.is_doubtful(side) || !self.named => Some(Extent::All),
            (is_idle, true) if is_idle || vouched.is_ok() => Some(Extent::One),
            (_, true) => {
                self.mark_doubtful(side);
                None
            }
            (_, false) => None,
        };
        (vouched, extent)
    }

    pub(super) fn standing(&self, id: GuardId, now: Instant) -> Vouched {
        self.guards.iter().find(|guard| guard.id == id).map_or(Err(Loss::Ended), |guard| guard.standing(now))
    }

    /// Those who confirm each renewal: all of this holder's have one lease.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.guards
            .iter()
            .filter(|guard| !guard.is_lost)
            .filter_map(|guard| guard.replicas)
            .max_by_key(|replicas| replicas.wanted)
    }

    pub(super) fn is_kept(&self) -> bool {
        self.guards.iter().any(|guard| !guard.is_lost && matches!(guard.end, End::Kept))
    }

    /// A hold may have been given back or not. Returns whether it is time to give back all.
    pub(super) fn mark_doubtful(&mut self, side: Side) -> bool {
        self.sides[side as usize].doubt.deepens(&UNCOUNTED);
        self.is_idle(side)
    }

    /// All was given back.
    pub(super) fn all_given_back(&mut self, side: Side) {
        if self.is_idle(side) {
            self.sides[side as usize].doubt = Doubt::default();
        }
    }

    /// Whether requests for this side may still be on their way to the server.
    pub(super) fn is_doubtful(&self, side: Side) -> bool {
        self.sides[side as usize].doubt.exists()
    }

    /// Whether there is neither a guard of this side nor an attempt to acquire it.
    pub(super) fn is_idle(&self, side: Side) -> bool {
        self.sides[side as usize].attempts == 0 && !self.has_guards(side)
    }

    pub(super) fn has_guards(&self, side: Side) -> bool {
        self.guards.iter().any(|guard| !guard.is_lost && guard.side == side)
    }
}

/// One hundredth of the lease, for clocks that do not run at the same speed, and two milliseconds, for servers and
/// timers that count in milliseconds.
fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

pub(super) fn vouched_until(lease: Leased) -> Instant {
    let Leased { after, length } = lease;
    // A lease so long that it cannot be added is one that the server has refused.
    after.checked_add(length.saturating_sub(margin(length))).unwrap_or(after)
}
