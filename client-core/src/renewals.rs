//! Keeps leases alive: each is renewed when a third of it is over.
//!
//! What is due is sent in one piece to each server, so that one that is slow or dead delays no other's. A renewal that
//! fails is tried again for as long as the lease can still be vouched for. One that is answered late counts all the same, from
//! when it was sent. Nothing here decides about loss: a guard whose
//! deadline passes is lost whether or not anything is renewed.
//!
//! A server whose connection breaks may come back without its locks, and give them to others. So what is there is
//! renewed at once, whenever it would have been due: the answer says whether it is held.

use super::confirmed::Unconfirmed;
use super::fault::Fault;
use super::hold::{Hold, Keep, Renewal};
use super::pause::Pause;
use super::request::{self, Leased};
use super::terms::Replicas;
use super::{Asker, Body, Effect, Engine, HoldId, Lane, Log, NodeId, Timer};
use crate::loss::Loss;
use std::time::{Duration, Instant};

/// A lease is renewed when this part of it is over.
pub(super) const INTERVALS_PER_LEASE: u32 = 3;

/// So soon is made whole what was granted on a short lease. Much that is done under a lock is over by then, and costs no
/// renewal.
const WHOLE_AFTER: Duration = Duration::from_millis(50);

/// A lease that is due within this part of itself is renewed together with one that is due now: leases that began at
/// any time come together in few requests.
const EARLY_PARTS: u32 = 6;

/// A renewal may take this part of the lease. Two thirds are left when it begins, so there is time for more.
const ATTEMPTS_PER_LEASE: u32 = 6;

/// After a failure the next try comes when this part of what is left is over, but neither in a hurry nor at leisure;
/// the first ones come sooner, as a connection that broke is most often made anew at once.
const RETRY_PARTS: u32 = 8;
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What came of a renewal.
pub(super) enum Renewed {
    Yes(Leased),
    /// The server says that nothing is held.
    Gone,
    /// The server says that something else is there.
    Overwritten(Fault),
    /// There was no answer, or an error.
    Failed(Fault),
}

impl Engine {
    /// One more guard whose lease is to be kept alive.
    pub(super) fn keep(&mut self, id: HoldId, lease: Duration, running: Leased) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        if let Some(keep) = &mut hold.keep {
            keep.lease = keep.lease.max(lease);
            return;
        }
        let Leased { after, length } = running;
        let regular = after + length / INTERVALS_PER_LEASE;
        let first = if length < lease { regular.min(self.now + WHOLE_AFTER) } else { regular };
        hold.keep = Some(Keep { lease, running: length, due: None, asked: Vec::new(), failing: None, again: false });
        self.is_due(id, first);
    }

    /// The guards that were kept have gone.
    pub(super) fn keep_no_more(&mut self, id: HoldId) {
        if let Some(Keep { due: Some(due), .. }) = self.holds.get_mut(&id).and_then(|hold| hold.keep.take()) {
            self.due.remove(&(due, id));
        }
    }

    fn is_due(&mut self, id: HoldId, at: Instant) {
        let Some(keep) = self.holds.get_mut(&id).and_then(|hold| hold.keep.as_mut()) else { return };
        let before = keep.due.replace(at);
        before.map(|before| self.due.remove(&(before, id)));
        self.due.insert((at, id));
    }

    /// It is to be renewed by then, if it is kept.
    pub(super) fn renews_by(&mut self, id: HoldId, at: Instant) {
        let Some(keep) = self.holds.get_mut(&id).and_then(|hold| hold.keep.as_mut()) else { return };
        match keep.due {
            Some(due) if due > at => self.is_due(id, at),
            Some(_) => {}
            None => keep.again = true,
        }
    }

    /// Sends what is due, and what will be soon.
    pub(super) fn renew_what_is_due(&mut self) {
        if self.due.first().is_none_or(|(at, _)| *at > self.now) {
            return;
        }
        let (now, holds) = (self.now, &self.holds);
        let lease =
            |id: &HoldId| holds.get(id).and_then(|hold| hold.keep.as_ref()).map_or(Duration::ZERO, |it| it.lease);
        let due: Vec<_> = self.due.iter().filter(|(at, id)| *at <= now + lease(id) / EARLY_PARTS).copied().collect();
        for (at, id) in due {
            self.due.remove(&(at, id));
            self.renew(id);
        }
    }

    fn renew(&mut self, id: HoldId) {
        let errand = self.next_id();
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let replicas = hold.replicas();
        let Some(keep) = &mut hold.keep else { return };
        let part = keep.running / ATTEMPTS_PER_LEASE;
        let limit = part.min(self.settings.answer);
        // To be answered has its time, and to be confirmed has as much: together a third of the lease.
        let replicas = replicas.map(|it| Replicas { timeout: it.timeout.min(part), ..it });
        let by = self.now + limit + replicas.map_or(Duration::ZERO, |it| it.timeout);
        keep.due = None;
        keep.asked.push(Renewal { errand, lease: keep.lease, is_overdue: false, replicas, renewed: None });
        self.timers.insert((by, Timer::Renewal(id, errand)));
        self.renewal_has_turn(id);
    }

    /// The last one goes, if it passes the gate.
    pub(super) fn renewal_has_turn(&mut self, id: HoldId) {
        let asked = |hold: &Hold| hold.keep.as_ref().and_then(|keep| Some((keep.asked.last()?.errand, keep.lease)));
        let Some((errand, lease)) = self.holds.get(&id).and_then(asked) else { return };
        let asker = Asker::Renewal(id);
        if !self.passes_gate(id, asker, errand) {
            return;
        }
        let Some(hold) = self.holds.get_mut(&id) else { return };
        // Of an owner who has a fixed lease as well, that may be longer.
        let lease = hold.lease_for(lease, self.now);
        let (key, bytes) = (hold.key.clone(), request::renew(hold.names(), lease));
        let Some(asked) = hold.keep.as_mut().and_then(|keep| keep.asked.last_mut()) else { return };
        asked.lease = lease;
        match asked.replicas {
            Some(replicas) => {
                self.joins_round(Unconfirmed { hold: id, asker, errand, renewals: vec![(key, bytes)], replicas });
            }
            None => self.ask(errand, asker, id, Body::Bytes(bytes), Lane::Own),
        }
    }

    /// Whether the answer to this renewal is still wanted.
    pub(super) fn is_renewing(&self, id: HoldId, errand: u64) -> bool {
        let keep = self.holds.get(&id).and_then(|hold| hold.keep.as_ref());
        keep.is_some_and(|keep| keep.asked.iter().any(|it| it.errand == errand))
    }

    fn renewal(&mut self, id: HoldId, errand: u64) -> Option<&mut Renewal> {
        self.holds.get_mut(&id)?.keep.as_mut()?.asked.iter_mut().find(|it| it.errand == errand)
    }

    fn forget_renewal(&mut self, id: HoldId, errand: u64) {
        if let Some(keep) = self.holds.get_mut(&id).and_then(|hold| hold.keep.as_mut()) {
            keep.asked.retain(|it| it.errand != errand);
        }
    }

    /// No answer has come in time. The next try goes over a new connection, and this answer may come still.
    pub(super) fn renewal_is_late(&mut self, id: HoldId, errand: u64) {
        if self.renewal(id, errand).is_some_and(|it| !std::mem::replace(&mut it.is_overdue, true)) {
            let lease = self.renewal(id, errand).map_or(Duration::ZERO, |it| it.lease);
            if self.gives_up_at_gate(id) || self.give_up(errand) {
                self.forget_renewal(id, errand);
            } else if let Some(hold) = self.holds.get_mut(&id) {
                hold.is_overdue(errand, lease);
            }
            self.opens_gate(id, errand);
            self.report(id, Renewed::Failed(Fault::timed_out()));
        }
    }

    pub(super) fn renewal_answered(
        &mut self,
        id: HoldId,
        errand: u64,
        sent_at: Instant,
        answer: Result<super::resp::Reply, Fault>,
    ) {
        if answer.as_ref().is_err_and(Fault::is_overdue) {
            return self.renewal_is_late(id, errand);
        }
        let Some(asked) = self.renewal(id, errand) else { return };
        let (lease, is_overdue) = (Leased { after: sent_at, length: asked.lease }, asked.is_overdue);
        let renewed = match answer.and_then(|answer| request::yes_or_no(&answer)) {
            Ok(true) if asked.replicas.is_some() => return asked.renewed = Some(lease),
            Ok(true) => Renewed::Yes(lease),
            Ok(false) => Renewed::Gone,
            Err(fault) if fault.is_overwritten() => Renewed::Overwritten(fault),
            Err(fault) => Renewed::Failed(fault),
        };
        self.renewal_is_over(id, errand, renewed, is_overdue);
    }

    pub(super) fn renewal_confirmed(&mut self, id: HoldId, errand: u64, confirmed: Result<(), Fault>) {
        let Some(asked) = self.renewal(id, errand) else { return };
        let (renewed, is_overdue) = (confirmed.and(asked.renewed.ok_or_else(Fault::timed_out)), asked.is_overdue);
        self.renewal_is_over(id, errand, renewed.map_or_else(Renewed::Failed, Renewed::Yes), is_overdue);
    }

    fn renewal_is_over(&mut self, id: HoldId, errand: u64, renewed: Renewed, was_overdue: bool) {
        if let (Renewed::Yes(_), Some(keep)) = (&renewed, self.holds.get_mut(&id).and_then(|hold| hold.keep.as_mut())) {
            // Earlier ones cannot renew more, and no caller waits for later ones.
            keep.asked.retain(|it| it.errand > errand);
            keep.asked.iter_mut().for_each(|it| it.is_overdue = true);
        }
        self.forget_renewal(id, errand);
        if !was_overdue || !matches!(renewed, Renewed::Failed(_)) {
            self.report(id, renewed);
        }
    }

    /// What it means for the guards, and when to renew again.
    pub(super) fn report(&mut self, id: HoldId, renewed: Renewed) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let (lock, effects) = (hold.key.clone(), &mut self.effects);
        let lost = match renewed {
            Renewed::Yes(lease) if hold.renewed(hold.certain(lease), now, effects) => {
                let lease = hold.certain(lease);
                effects.push(Effect::Log(Log::Renewed { lock, holder: hold.holder.clone() }));
                let next = hold.keep.as_mut().map(|keep| {
                    (keep.failing, keep.running) = (None, lease.length);
                    let regular = lease.after + keep.running.min(keep.lease) / INTERVALS_PER_LEASE;
                    if std::mem::take(&mut keep.again) { now } else { regular }
                });
                return self.is_due_if(id, next);
            }
            Renewed::Yes(_) => Loss::Ended,
            Renewed::Gone => Loss::NotHeld,
            Renewed::Overwritten(fault) => Loss::Overwritten(fault.into_error(&lock)),
            Renewed::Failed(fault) => {
                let (left, why) = (hold.remaining(now), Loss::NotRenewed(fault.into_error(&lock)));
                hold.not_renewed(&why, effects);
                if !left.is_zero() {
                    effects.push(Effect::Log(Log::NotRenewed { lock, why }));
                    let next = hold.keep.as_mut().map(|keep| {
                        keep.again = false;
                        let soon = keep.failing.get_or_insert_with(Pause::short).next();
                        now + (left / RETRY_PARTS).clamp(RETRY_MIN, RETRY_MAX).min(soon)
                    });
                    return self.is_due_if(id, next);
                }
                why
            }
        };
        if matches!(lost, Loss::NotHeld | Loss::Overwritten(_)) {
            hold.void(Some(lost.clone()), now, effects);
        }
        effects.push(Effect::Log(Log::Lost { lock, holder: hold.holder.clone(), why: lost }));
        self.is_due_if(id, None);
    }

    fn is_due_if(&mut self, id: HoldId, next: Option<Instant>) {
        match next {
            Some(next) => self.is_due(id, next),
            None => self.keep_no_more(id),
        }
    }

    /// Connections to this node have broken, or another one has taken its place: what is there is due now. What fails
    /// already is tried again in its own time.
    pub(super) fn hasten_renewals(&mut self, node: NodeId) {
        let (now, mut hastened) = (self.now, Vec::new());
        for (id, hold) in &mut self.holds {
            let is_there = self.route.node(&hold.key).is_none_or(|at| at == node);
            match &mut hold.keep {
                Some(keep) if is_there && keep.failing.is_none() => match keep.due {
                    None => keep.again = true,
                    Some(at) if at > now => hastened.push((at, *id)),
                    Some(_) => {}
                },
                _ => {}
            }
        }
        for (at, id) in hastened {
            self.due.remove(&(at, id));
            self.is_due(id, now);
        }
    }
}
