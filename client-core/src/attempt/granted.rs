//! A grant becomes its caller's guard: after confirmation by replicas, if that is required.

use super::super::confirmed::Unconfirmed;
use super::super::fault::Fault;
use super::super::hold::{Began, End, GuardId, guaranteed_until};
use super::super::request::{self, Leased};
use super::super::terms::Lasting;
use super::super::{Answer, Asker, Effect, Engine, HoldId, Lane};
use super::{Aim, Attempt, Grant, State};
use crate::error::Error;
use crate::loss::Loss;
use std::time::Instant;

impl Engine {
    /// `for_all`: the lease covers everything that this holder has.
    pub(super) fn held(&mut self, id: u64, lease: Leased, for_all: bool) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let replicas = attempt.terms.replicas;
        let (began, mut tokens) = (Began { lease, for_all, replicas }, std::mem::take(&mut attempt.tokens).into_iter());
        let (hold, more) = (attempt.hold, attempt.more.clone());
        let Some(mut grant) = self.guarded(id, hold, began, tokens.next()) else { return };
        grant.more = more.into_iter().filter_map(|hold| self.guarded(id, hold, began, tokens.next())).collect();
        if replicas.is_none() {
            return self.is_held(id, Ok(grant));
        }
        self.attempts.entry(id).and_modify(|it| it.state = State::Confirming { grant, renewed: Vec::new() });
        self.confirms(id);
    }

    fn guarded(&mut self, id: u64, hold_id: HoldId, began: Began, token: Option<u64>) -> Option<Grant> {
        let (guard, now) = (GuardId(self.next_id()), self.now);
        let (attempt, hold) = (self.attempts.get(&id)?, self.holds.get_mut(&hold_id)?);
        let (side, key, holder) = (attempt.terms.side, hold.key.clone(), hold.holder.clone());
        let began = Began { lease: hold.certain(began.lease), ..began };
        let length = attempt.lease(hold, false, now);
        let end = |until| match attempt.terms.lease {
            Lasting::Kept(_) => End::Kept,
            // The renewal may have asked for longer, for other guards of this holder.
            Lasting::Fixed(length) if began.for_all => End::Fixed(guaranteed_until(Leased { length, ..began.lease })),
            Lasting::Fixed(_) => End::Fixed(until),
        };
        let is_first = !hold.is_guaranteed(now);
        hold.attempt_granted(guard, (side, &attempt.doubt), began, end, now, &mut self.effects);
        let grant = Grant { hold: hold_id, guard, key, holder, side, until: now, length, token, more: Vec::new() };
        let is_kept = matches!(attempt.terms.lease, Lasting::Kept(_));
        if is_first {
            // A late reply to an earlier renewal says nothing about this lease.
            self.stop_keeping(hold_id);
        }
        if is_kept {
            self.keep(hold_id, length, began.lease);
        }
        Some(grant)
    }

    pub(super) fn confirms(&mut self, id: u64) {
        let (errand, now) = (self.next_id(), self.now);
        let Some(hold_id) = self.attempts.get(&id).map(|attempt| attempt.hold) else { return };
        if !self.passes_gate(hold_id, Asker::Attempt(id), errand) {
            return;
        }
        let (Some(attempt), Some(hold)) = (self.attempts.get_mut(&id), self.holds.get(&hold_id)) else { return };
        let (State::Confirming { grant, .. }, Some(replicas)) = (&attempt.state, attempt.terms.replicas) else {
            return;
        };
        // The lease may be longer than requested, for guards of the same owner that are gone now.
        (attempt.errand, attempt.asked) = (errand, hold.lease_for(grant.length, now));
        let renewal = |one: &Grant| (one.key.clone(), request::renew((&one.key, &one.holder), attempt.asked));
        let renewals = grant.all().map(renewal).collect();
        self.joins_round(Unconfirmed { hold: hold_id, asker: Asker::Attempt(id), errand, renewals, replicas });
    }

    pub(crate) fn grant_confirmed(&mut self, id: u64, confirmed: Result<(), Fault>) {
        let now = self.now;
        let Some(Attempt { state: State::Confirming { grant, renewed }, .. }) = self.attempts.get(&id) else { return };
        // The earliest renewal, if each of the locks was renewed.
        let lease = renewed.iter().min_by_key(|lease| lease.after).filter(|_| renewed.len() > grant.more.len());
        let (grant, lease) = (grant.clone(), lease.copied().ok_or_else(Fault::timed_out));
        match confirmed.and(lease) {
            Ok(lease) => {
                for one in grant.all() {
                    self.holds.get_mut(&one.hold).map(|hold| hold.renewed(hold.certain(lease), now, &mut self.effects));
                }
                self.is_held(id, Ok(grant));
            }
            Err(fault) => self.is_unconfirmed(id, fault.into_error(&grant.key)),
        }
    }

    pub(super) fn is_unconfirmed(&mut self, id: u64, why: Error) {
        if let Some(Attempt { state: State::Confirming { grant, .. }, .. }) = self.attempts.get(&id) {
            let grant = grant.clone();
            self.release_in_background(&grant);
            self.is_held(id, Err(why));
        }
    }

    /// The caller gets the grant or the error, if it still waits.
    fn is_held(&mut self, id: u64, outcome: Result<Grant, Error>) {
        let now = self.now;
        let Some(attempt) = self.forget_attempt(id) else { return };
        let outcome = outcome.and_then(|mut grant| {
            let lost = self
                .look_at(&mut grant, now)
                .and_then(|()| grant.more.iter_mut().try_for_each(|one| self.look_at(one, now)));
            lost.inspect_err(|_| self.goes_without_guard(attempt.aim, &grant)).map(|()| grant)
        });
        match outcome {
            Ok(grant) if !attempt.is_awaited => self.release_in_background(&grant),
            outcome if attempt.is_awaited => self.effects.push(Effect::Notify(id, Answer::Acquired(outcome.map(Some)))),
            _ => {}
        }
    }

    /// Updates until when the grant is guaranteed.
    fn look_at(&self, grant: &mut Grant, now: Instant) -> Result<(), Error> {
        let standing = self.holds.get(&grant.hold).map_or(Err(Loss::Ended), |hold| hold.standing(grant.guard, now));
        grant.until = standing.map_err(|loss| Error::lost(&grant.key, loss))?;
        Ok(())
    }

    fn goes_without_guard(&mut self, aim: Aim, grant: &Grant) {
        if aim == Aim::Adoption { self.detach(grant) } else { self.release_in_background(grant) }
    }

    pub(super) fn release_in_background(&mut self, grant: &Grant) {
        grant.all().for_each(|one| self.release(one, Lane::Own, None, None));
    }
}
