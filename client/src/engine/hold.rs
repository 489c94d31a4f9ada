//! What this client knows of one holder's holds on one lock: its guards, whether the server may have more, and until when
//! the lease can be vouched for.
//!
//! **Counting.** Each guard stands for one request that was granted, so the server never counts fewer holds than there
//! are guards. It may count more, if a request was granted and its answer was lost. Then the last guard to go gives
//! back all of them (`ALL`); no guard does so before, as that would take the lock from the others.

use super::lease::{Lease, vouched_until};
use super::pause::Pause;
use super::request::{Extent, Leased};
use super::terms::{Replicas, Side};
use crate::loss::Loss;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct Hold {
    pub key: Arc<[u8]>,
    pub holder: Arc<[u8]>,
    /// The caller chose the holder, so others may hold something under it that is not ours to give back.
    pub named: bool,
    guards: Vec<Guarded>,
    sides: [Count; Side::ALL.len()],
    /// The attempts of an owner, in the order in which they came: only the first one asks.
    pub gate: VecDeque<u64>,
    until: Instant,
    /// The longest lease that was asked for since somebody is there.
    longest: Duration,
    /// Requests that are under way and could take away what is acquired in the meantime, or shorten its lease: releases of
    /// all, and renewals that are to be confirmed, which go over a connection of their own.
    pub in_the_way: u32,
    /// Whoever gives it back, or is about to ask for it.
    pub users: u32,
    pub keep: Option<Keep>,
}

struct Guarded {
    lease: Arc<Lease>,
    side: Side,
    end: End,
    replicas: Option<Replicas>,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Not, while it is renewed.
    Kept,
    /// By itself.
    Fixed(Instant),
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// Requests that are under way.
    attempts: usize,
    /// The server may count more holds than there are guards.
    doubtful: bool,
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

/// A request that renews a lease.
pub(super) struct Renewal {
    pub errand: u64,
    pub lease: Duration,
    /// Another one was sent meanwhile; whichever is answered first counts.
    pub is_overdue: bool,
    /// It is one of a round; and what it has renewed, which is to be confirmed.
    pub in_round: bool,
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
    pub(super) fn new(key: Arc<[u8]>, holder: Arc<[u8]>, named: bool, now: Instant) -> Self {
        let (guards, sides, gate, longest, in_the_way, users, keep) = Default::default();
        Self { key, holder, named, guards, sides, gate, until: now, longest, in_the_way, users, keep }
    }

    pub(super) fn names(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.holder)
    }

    pub(super) fn is_unused(&self) -> bool {
        self.users == 0 && self.guards.is_empty()
    }

    /// The lease to ask for: never less than what is left of what others have under this holder, which it would
    /// shorten; nor than what they have asked for, which their renewal may begin.
    pub(super) fn lease_for(&self, lease: Duration, now: Instant) -> Duration {
        match self.is_shared() {
            true => lease.max(self.remaining(now)).max(self.longest),
            false => lease,
        }
    }

    /// Whether there are guards already.
    pub(super) fn is_shared(&self) -> bool {
        !self.guards.is_empty()
    }

    /// Whether there are guards that are not lost.
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
    pub(super) fn attempt_failed(&mut self, side: Side, doubtful: bool) -> bool {
        self.sides[side as usize].attempts -= 1;
        self.sides[side as usize].doubtful |= doubtful;
        self.is_doubtful(side) && self.is_idle(side)
    }

    /// It was granted, to a guard of this lease.
    pub(super) fn attempt_granted(
        &mut self,
        side: Side,
        doubtful: bool,
        began: Began,
        end: impl FnOnce(Instant) -> End,
        now: Instant,
    ) -> Arc<Lease> {
        let until = vouched_until(began.lease);
        self.sides[side as usize].attempts -= 1;
        self.sides[side as usize].doubtful |= doubtful;
        let others = self.is_vouched_for(now);
        if !others {
            self.void(None, now);
        }
        self.until = match others {
            // Nobody has confirmed this one to those who want that.
            true if began.for_all && self.replicas().is_none() => self.until.max(until),
            true => self.until.min(until),
            false => until,
        };
        let lease = Arc::new(Lease::new(self.until));
        self.guards.push(Guarded { lease: lease.clone(), side, end: end(until), replicas: began.replicas });
        self.tell_until();
        lease
    }

    /// The lease was restarted. Returns whether that came in time.
    pub(super) fn renewed(&mut self, lease: Leased, now: Instant) -> bool {
        let in_time = self.until > now;
        if in_time {
            self.until = self.until.max(vouched_until(lease));
            self.tell_until();
        } else {
            self.void(None, now);
        }
        in_time
    }

    pub(super) fn not_renewed(&self, loss: &Loss) {
        self.guards.iter().for_each(|guard| guard.lease.is_troubled(loss.clone()));
    }

    fn tell_until(&self) {
        for guard in &self.guards {
            guard.lease.set_until(match guard.end {
                End::Kept => self.until,
                End::Fixed(end) => end.min(self.until),
            });
        }
    }

    /// Nothing can be vouched for any more: the guards that there are do not count, though the server may still count
    /// their holds.
    pub(super) fn void(&mut self, loss: Option<Loss>, now: Instant) {
        for guard in self.guards.drain(..) {
            self.sides[guard.side as usize].doubtful = true;
            guard.lease.is_lost(loss.clone(), now);
        }
        self.until = self.until.min(now);
    }

    /// A guard goes. Returns what has to be given back, if anything. One whose lease has ended may have nothing at the server
    /// any more, and must not take what was granted to others since.
    pub(super) fn guard_goes(&mut self, side: Side, lease: &Arc<Lease>, is_vouched: bool) -> Option<Extent> {
        let place = self.guards.iter().position(|guard| Arc::ptr_eq(&guard.lease, lease));
        let counts = place.map(|place| self.guards.swap_remove(place)).is_some();
        match (self.is_idle(side), counts) {
            (true, _) if self.is_doubtful(side) || !self.named => Some(Extent::All),
            (is_idle, true) if is_idle || is_vouched => Some(Extent::One),
            (_, true) => {
                self.sides[side as usize].doubtful = true;
                None
            }
            (_, false) => None,
        }
    }

    /// Those who confirm each renewal: all of this holder's have one lease.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.guards.iter().filter_map(|guard| guard.replicas).max_by_key(|replicas| replicas.wanted)
    }

    pub(super) fn is_kept(&self) -> bool {
        self.guards.iter().any(|guard| matches!(guard.end, End::Kept))
    }

    /// A hold may have been given back or not. Returns whether it is time to give back all.
    pub(super) fn mark_doubtful(&mut self, side: Side) -> bool {
        self.sides[side as usize].doubtful = true;
        self.is_idle(side)
    }

    /// All was given back.
    pub(super) fn all_given_back(&mut self, side: Side) {
        if self.is_idle(side) {
            self.sides[side as usize].doubtful = false;
        }
    }

    /// Whether requests for this side may still be on their way to the server.
    pub(super) fn is_doubtful(&self, side: Side) -> bool {
        self.sides[side as usize].doubtful
    }

    /// Whether there is neither a guard of this side nor an attempt to acquire it.
    pub(super) fn is_idle(&self, side: Side) -> bool {
        self.sides[side as usize].attempts == 0 && !self.guards.iter().any(|guard| guard.side == side)
    }
}
