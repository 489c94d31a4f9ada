//! What this client knows about one holder's holds on one lock: its guards, whether the server may count more, and
//! until when the lease is guaranteed.
//!
//! **Counting.** Each guard stands for one granted request, so the server never counts fewer holds than there are
//! guards. It may count more, if a request was granted and its reply was lost. Then the last guard releases all of them
//! (`ALL`); no earlier guard does, because that would take the lock from the others.
//!
//! **The deadline.** A lease lasts at least until *the clock before the request was sent* plus its length, because the
//! server starts it later than that. The deadline is a margin earlier, for clocks that run at different speeds. When it
//! has passed, or the server says that nothing is held, the guard is lost for good: a later successful renewal does not
//! undo what happened in between.

use super::connection::LATE_MAX;
use super::doubt::Doubt;
use super::gate::Gate;
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
pub(super) type Guaranteed = Result<Instant, Loss>;

pub(super) struct Hold {
    pub key: Name,
    pub holder: Name,
    /// The caller chose the holder, so other programs may hold something under it that this client must not release.
    pub named: bool,
    /// Including lost ones, until they are dropped.
    guards: Vec<Guarded>,
    sides: [Count; Side::ALL.len()],
    /// The owner's attempts, in the order of arrival: only the first one asks.
    pub attempts: VecDeque<u64>,
    pub gate: Gate,
    until: Instant,
    /// Requests for a lease that may reach the server after requests that were sent later.
    overdue: Vec<Overdue>,
    /// The longest lease that was requested since there are guards or attempts.
    longest: Duration,
    /// The number of guards, releases and attempts that use it.
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
    /// Why it is lost, or will be unless a renewal succeeds.
    trouble: Option<Loss>,
}

impl Guarded {
    fn standing(&self, now: Instant) -> Guaranteed {
        match !self.is_lost && self.until > now {
            true => Ok(self.until),
            false => Err(self.trouble.clone().unwrap_or(Loss::Ended)),
        }
    }
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// It does not end while it is renewed.
    Kept,
    /// At a fixed time.
    Fixed(Instant),
}

#[derive(Default)]
struct Count {
    /// The number of requests under way.
    attempts: usize,
    /// The server may count more holds than there are guards.
    doubt: Doubt,
}

/// A lease that the client renews.
pub(super) struct Keep {
    pub lease: Duration,
    /// The length of the current lease.
    pub running: Duration,
    /// None while a renewal is under way that is not overdue.
    pub due: Option<Instant>,
    /// The requests under way, in the order of sending.
    pub asked: Vec<Renewal>,
    /// The pause between tries, while renewals fail.
    pub failing: Option<Pause>,
    /// Renew again after the renewal under way: its reply may be from before the connection broke.
    pub again: bool,
}

/// A request without a reply in time.
struct Overdue {
    errand: u64,
    lease: Duration,
    /// When its reply came. The request does not shorten leases that were requested later.
    answered: Option<Instant>,
}

/// A request that renews a lease.
pub(super) struct Renewal {
    pub errand: u64,
    pub lease: Duration,
    /// Another one was sent in the meantime; the first reply counts.
    pub is_overdue: bool,
    /// The confirmation that it needs in a round; and the renewed lease, if its reply has come.
    pub replicas: Option<Replicas>,
    pub renewed: Option<Leased>,
}

/// A lease that began, and whether it covers everything that this holder has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub lease: Leased,
    pub for_all: bool,
    /// The confirmation that its renewals need.
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

    /// The lease to ask for. It is at least the longest lease that this holder has, or has asked for: a shorter one
    /// would cut it.
    pub(super) fn lease_for(&self, lease: Duration, now: Instant) -> Duration {
        match self.is_shared() {
            true => lease.max(self.remaining(now)).max(self.longest),
            false => lease,
        }
    }

    /// Whether the holder has, or asks for, more than one hold. All its holds have one lease.
    pub(super) fn has_several(&self) -> bool {
        self.guards.iter().filter(|guard| !guard.is_lost).count() > 1 || self.sides.iter().any(|it| it.attempts > 0)
    }

    /// Renewals ask for at least this lease from now on. Returns the longest one before.
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

    /// The request about to be sent may cut the lease to this length at any time until its reply.
    pub(super) fn may_be_cut(&mut self, errand: u64, lease: Leased, effects: &mut Vec<Effect>) {
        self.is_overdue(errand, lease.length);
        let until = guaranteed_until(lease);
        if until < self.until {
            self.until = until;
            self.prolong(effects);
        }
    }

    /// Whether there are guards that are not lost.
    pub(super) fn is_shared(&self) -> bool {
        self.guards.iter().any(|guard| !guard.is_lost)
    }

    /// Whether there are guards with a lease that has not ended.
    pub(super) fn is_guaranteed(&self, now: Instant) -> bool {
        self.is_shared() && self.until > now
    }

    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// A request for one more hold is about to be sent.
    pub(super) fn attempt_begins(&mut self, side: Side, lease: Duration) {
        let is_first = !self.is_shared() && self.sides.iter().all(|count| count.attempts == 0);
        self.longest = if is_first { lease } else { self.longest.max(lease) };
        self.sides[side as usize].attempts += 1;
    }

    /// The request was not granted, as far as this client knows. Returns whether the server may have granted it after
    /// all, and no guard or attempt is left that would release it.
    pub(super) fn attempt_failed(&mut self, side: Side, doubt: &Doubt) -> bool {
        self.attempt_ends(side, doubt);
        self.is_doubtful(side) && self.is_idle(side)
    }

    fn attempt_ends(&mut self, side: Side, doubt: &Doubt) {
        let count = &mut self.sides[side as usize];
        count.attempts -= 1;
        count.doubt.adds(doubt);
    }

    /// The request was granted, to this guard.
    pub(super) fn attempt_granted(
        &mut self,
        id: GuardId,
        (side, doubt): (Side, &Doubt),
        began: Began,
        end: impl FnOnce(Instant) -> End,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let until = guaranteed_until(began.lease);
        self.attempt_ends(side, doubt);
        let others = self.is_guaranteed(now);
        if !others {
            self.invalidate(None, now, effects);
        }
        self.until = match others {
            // Not if guards need confirmation: no replica has confirmed this lease.
            true if began.for_all && self.replicas().is_none() => self.until.max(until),
            true => self.until.min(until),
            false => until,
        };
        let (end, until, replicas, is_lost, trouble) = (end(until), self.until, began.replicas, false, None);
        self.guards.push(Guarded { id, side, end, replicas, until, is_lost, trouble });
        self.prolong(effects);
    }

    /// The guaranteed part of a lease. A request that was sent before the lease began, and arrives later, cuts the
    /// lease to its own length.
    pub(super) fn certain(&self, lease: Leased) -> Leased {
        let may_cut = |it: &&Overdue| it.answered.is_none_or(|answered| answered >= lease.after);
        let shortest = self.overdue.iter().filter(may_cut).map(|it| it.lease).min();
        Leased { length: shortest.map_or(lease.length, |shortest| shortest.min(lease.length)), ..lease }
    }

    pub(super) fn is_overdue(&mut self, errand: u64, lease: Duration) {
        self.overdue.push(Overdue { errand, lease, answered: None });
    }

    /// A request has reached the server, or never will.
    pub(super) fn has_come(&mut self, errand: u64, now: Instant) {
        // A request from so long ago will not arrive any more.
        self.overdue.retain(|it| it.answered.is_none_or(|answered| answered + LATE_MAX > now));
        self.overdue.iter_mut().filter(|it| it.errand == errand).for_each(|it| it.answered = Some(now));
    }

    /// The lease was restarted. Returns whether that came in time.
    pub(super) fn renewed(&mut self, lease: Leased, now: Instant, effects: &mut Vec<Effect>) -> bool {
        let in_time = self.until > now;
        if in_time {
            self.until = self.until.max(guaranteed_until(lease));
            self.prolong(effects);
        } else {
            self.invalidate(None, now, effects);
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

    /// Nothing is guaranteed any more: the existing guards do not count, although the server may still count their
    /// holds.
    ///
    /// If the lease has ended, the server's reply that nothing is held is no separate reason: this program stalled, and
    /// may have reported another reason already.
    pub(super) fn invalidate(&mut self, loss: Option<Loss>, now: Instant, effects: &mut Vec<Effect>) {
        for guard in self.guards.iter_mut().filter(|guard| !guard.is_lost) {
            self.sides[guard.side as usize].doubt.make_permanent(&UNCOUNTED);
            let loss = loss.clone().filter(|loss| guard.until > now || *loss != Loss::NotHeld);
            guard.trouble = loss.or_else(|| guard.trouble.take());
            guard.is_lost = true;
            let why = guard.trouble.clone().unwrap_or(Loss::Ended);
            effects.push(Effect::Guard(guard.id, Standing::Lost(why)));
        }
        self.until = self.until.min(now);
    }

    /// Drops a guard. Returns until when it was guaranteed, or why it had been lost; and what to release, if anything.
    /// After its lease a guard may have nothing on the server any more, and must not release later holds.
    pub(super) fn guard_goes(&mut self, side: Side, id: GuardId, now: Instant) -> (Guaranteed, Option<Extent>) {
        let place = self.guards.iter().position(|guard| guard.id == id);
        let guard = place.map(|place| self.guards.swap_remove(place));
        let (counts, guaranteed) = match guard {
            Some(guard) => (!guard.is_lost, guard.standing(now)),
            None => (false, Err(Loss::Ended)),
        };
        let extent = match (self.is_idle(side), counts) {
            (true, _) if self.is_doubtful(side) || !self.named => Some(Extent::All),
            (is_idle, true) if is_idle || guaranteed.is_ok() => Some(Extent::One),
            (_, true) => {
                self.mark_doubtful(side);
                None
            }
            (_, false) => None,
        };
        (guaranteed, extent)
    }

    pub(super) fn standing(&self, id: GuardId, now: Instant) -> Guaranteed {
        self.guards.iter().find(|guard| guard.id == id).map_or(Err(Loss::Ended), |guard| guard.standing(now))
    }

    /// The confirmation that each renewal needs: all guards of this holder have one lease.
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

    /// It is unknown whether a hold was released. Returns whether it is time to release all.
    pub(super) fn mark_doubtful(&mut self, side: Side) -> bool {
        self.sides[side as usize].doubt.make_permanent(&UNCOUNTED);
        self.is_idle(side)
    }

    /// Everything was released.
    pub(super) fn all_released(&mut self, side: Side) {
        if self.is_idle(side) {
            self.sides[side as usize].doubt = Doubt::default();
        }
    }

    /// Whether requests for this side may still be on their way to the server.
    pub(super) fn is_doubtful(&self, side: Side) -> bool {
        self.sides[side as usize].doubt.exists()
    }

    /// Whether this side has neither a guard nor an attempt.
    pub(super) fn is_idle(&self, side: Side) -> bool {
        self.sides[side as usize].attempts == 0 && !self.has_guards(side)
    }

    pub(super) fn has_guards(&self, side: Side) -> bool {
        self.guards.iter().any(|guard| !guard.is_lost && guard.side == side)
    }
}

/// One hundredth of the lease, for clocks that run at different speeds, and two milliseconds, for servers and timers
/// that count in milliseconds.
fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

pub(super) fn guaranteed_until(lease: Leased) -> Instant {
    let Leased { after, length } = lease;
    // If a lease is too long to be added, the server has refused it.
    after.checked_add(length.saturating_sub(margin(length))).unwrap_or(after)
}
