//! Keeps leases alive: each is renewed when a third of it is over.
//!
//! Renewals that are due are sent in one piece to each server, so a slow or dead server delays only its own. A failed
//! renewal is retried while the lease is still guaranteed. A late reply counts too, from when its request was sent.
//! This module does not decide about loss: after its deadline a guard is lost, whether or not a renewal is under way.
//!
//! After a connection breaks, its server may come back without its locks, and grant them to others. So its leases are
//! renewed at once, even if they are not due: the reply says whether each is held.

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

/// A grant with a short lease gets its full lease after this time. Much work under a lock ends sooner, and costs no
/// renewal.
const WHOLE_AFTER: Duration = Duration::from_millis(50);

/// A lease that is due within this part of its length is renewed together with one that is due now. So leases that
/// began at different times come together in a few writes.
const EARLY_PARTS: u32 = 6;

/// The part of the lease that a renewal may take. Two thirds are left when it begins, so there is time for more tries.
const ATTEMPTS_PER_LEASE: u32 = 6;

/// After a failure the next try comes when this part of the remaining time is over, within limits. The first tries come
/// sooner, since a broken connection is mostly restored at once.
const RETRY_PARTS: u32 = 8;
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The result of a renewal.
pub(super) enum Renewed {
    Yes(Leased),
    /// The server says that nothing is held.
    Gone,
    /// The server says that something else is stored there.
    Overwritten(Fault),
    /// No reply, or an error.
    Failed(Fault),
}

impl Engine {
    /// Adds a guard with a lease to renew.
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

    /// The guards with renewals are gone.
    pub(super) fn stop_keeping(&mut self, id: HoldId) {
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

    /// Renews it by this time at the latest, if it is renewed at all.
    pub(super) fn renews_by(&mut self, id: HoldId, at: Instant) {
        let Some(keep) = self.holds.get_mut(&id).and_then(|hold| hold.keep.as_mut()) else { return };
        match keep.due {
            Some(due) if due > at => self.is_due(id, at),
            Some(_) => {}
            None => keep.again = true,
        }
    }

    /// Sends the renewals that are due now or soon.
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
        // The reply may take this part, and the confirmation as much again: together a third of the lease.
        let replicas = replicas.map(|it| Replicas { timeout: it.timeout.min(part), ..it });
        let by = self.now + limit + replicas.map_or(Duration::ZERO, |it| it.timeout);
        keep.due = None;
        keep.asked.push(Renewal { errand, lease: keep.lease, is_overdue: false, replicas, renewed: None });
        self.timers.insert((by, Timer::Renewal(id, errand)));
        self.renewal_has_turn(id);
    }

    /// Sends the newest renewal if it passes the gate.
    pub(super) fn renewal_has_turn(&mut self, id: HoldId) {
        let asked = |hold: &Hold| hold.keep.as_ref().and_then(|keep| Some((keep.asked.last()?.errand, keep.lease)));
        let Some((errand, lease)) = self.holds.get(&id).and_then(asked) else { return };
        let asker = Asker::Renewal(id);
        if !self.passes_gate(id, asker, errand) {
            return;
        }
        let Some(hold) = self.holds.get_mut(&id) else { return };
        // If the owner has a fixed lease as well, that may be longer.
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

    /// No reply in time. The next try takes a new connection; this reply may still come.
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
            // Earlier renewals cannot renew more, and nothing waits for later ones.
            keep.asked.retain(|it| it.errand > errand);
            keep.asked.iter_mut().for_each(|it| it.is_overdue = true);
        }
        self.forget_renewal(id, errand);
        if !was_overdue || !matches!(renewed, Renewed::Failed(_)) {
            self.report(id, renewed);
        }
    }

    /// Applies the result to the guards, and schedules the next renewal.
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
            hold.invalidate(Some(lost.clone()), now, effects);
        }
        effects.push(Effect::Log(Log::Lost { lock, holder: hold.holder.clone(), why: lost }));
        self.is_due_if(id, None);
    }

    fn is_due_if(&mut self, id: HoldId, next: Option<Instant>) {
        match next {
            Some(next) => self.is_due(id, next),
            None => self.stop_keeping(id),
        }
    }

    /// Connections to this node broke, or it replaced another node: its leases are due now. Failing renewals keep their
    /// own schedule.
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
