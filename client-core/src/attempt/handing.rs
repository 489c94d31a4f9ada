//! Handing a hold on. Before a guard is detached, its lease is restarted with the length for which the lock has to
//! stay; the process that adopts it restarts the lease again. Neither asks for a hold: if no reply comes, nothing is
//! released, and nothing changes.
//!
//! **An extension may shorten the lease**, if its length is shorter than what remains. From the moment it is sent, the
//! guard is guaranteed only for the new length, whether or not a reply comes.

use super::super::doubt::Doubt;
use super::super::fault::Fault;
use super::super::renewals::{INTERVALS_PER_LEASE, Renewed};
use super::super::request::{self, Leased};
use super::super::resp::Reply;
use super::super::terms::{Lasting, Terms, Until};
use super::super::{Answer, Asker, Body, CallerId, Effect, Engine, Errand, Lane, Timer};
use super::{Aim, Attempt, Grant, Outcome};
use crate::error::Error;
use crate::loss::Loss;
use std::time::{Duration, Instant};

const SEVERAL: &str = "its owner holds it several times: release the others first";

impl Engine {
    /// Restarts a guard's lease. The caller gets the result as for a release.
    pub(crate) fn extend(&mut self, id: CallerId, grant: &Grant, length: Duration) {
        let now = self.now;
        let standing = self.holds.get(&grant.hold).map_or(Err(Loss::Ended), |hold| hold.standing(grant.guard, now));
        let hold = match (standing, self.holds.get_mut(&grant.hold)) {
            (Ok(_), Some(hold)) if !hold.has_several() => Ok(hold),
            (Ok(_), Some(_)) => Err(Error::configuration(&grant.key, SEVERAL)),
            (standing, _) => Err(Error::lost(&grant.key, standing.err().unwrap_or(Loss::Ended))),
        };
        let hold = match hold {
            Ok(hold) => hold,
            Err(error) => return self.effects.push(Effect::Notify(id, Answer::Released(Err(error)))),
        };
        hold.users += 1;
        let aim = Aim::Extension { guard: grant.guard, longest: hold.asks_for_at_least(length) };
        let (side, lease) = (grant.side, Lasting::Kept(length));
        let terms = Terms { side, permits: None, max: None, lease, fenced: false, replicas: None };
        let until = Until::within(self.settings.patience, now);
        let end = until.end(now, self.settings.answer);
        end.map(|end| self.timers.insert((end, Timer::End(id))));
        let attempt = Attempt { end, ..Attempt::new(aim, grant.hold, Vec::new(), terms, until, Lane::Own, now) };
        self.attempts.insert(id, attempt);
        self.renews(id);
    }

    /// It passed its owner's gate.
    pub(super) fn extends(&mut self, id: u64, errand: u64) {
        let (now, limit) = (self.now, self.settings.answer);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&attempt.hold) else { return };
        attempt.asked = attempt.terms.lease.length();
        hold.may_be_cut(errand, Leased { after: now, length: attempt.asked }, &mut self.effects);
        let (key, body) = (hold.key.clone(), Body::Bytes(request::renew(hold.names(), attempt.asked)));
        let (hold, gate, by) = (attempt.hold, Some(attempt.hold), now + attempt.asked / INTERVALS_PER_LEASE);
        self.renews_by(hold, by);
        self.send(Errand { key, gate, ..Errand::new(errand, Asker::Attempt(id), body, Lane::Own, limit) });
    }

    /// The reply to the renewal of an existing hold.
    pub(super) fn held_is_renewed(&mut self, id: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(key) = self.holds.get(&attempt.hold).map(|hold| hold.key.clone()) else { return };
        let (hold, lease) = (attempt.hold, Leased { after: sent_at, length: attempt.asked });
        let is_extension = attempt.aim != Aim::Adoption;
        let (renewed, loss) = match answer.and_then(|answer| request::yes_or_no(&answer)) {
            Ok(true) if is_extension => {
                // If replicas have to confirm renewals, this one does not count: none has confirmed it.
                if self.holds.get(&hold).is_some_and(|hold| hold.replicas().is_none()) {
                    self.report(hold, Renewed::Yes(lease));
                }
                self.report_to_caller(id, Ok(None));
                return self.finish_renewal(id, true);
            }
            Ok(true) => return self.held(id, lease, true),
            Ok(false) => (Renewed::Gone, Loss::NotHeld),
            Err(fault) if fault.is_overwritten() => {
                (Renewed::Overwritten(fault.clone()), Loss::Overwritten(fault.into_error(&key)))
            }
            Err(fault) => return self.troubled(id, fault, true),
        };
        if is_extension {
            self.report(hold, renewed);
        }
        self.ends(id, Err(Error::lost(&key, loss)));
    }

    /// The result for the caller. If the guard of an extension is lost, the result is that loss in any case.
    pub(super) fn answer_of(&self, attempt: &Attempt, outcome: Outcome) -> Answer {
        let (Aim::Extension { guard, .. }, Some(hold)) = (attempt.aim, self.holds.get(&attempt.hold)) else {
            return Answer::Acquired(outcome);
        };
        let lost = hold.standing(guard, self.now).err().map(|loss| Err(Error::lost(&hold.key, loss)));
        Answer::Released(lost.unwrap_or(outcome.map(drop)))
    }

    /// Its caller is gone, or has its result. Its request leaves nothing behind on the server.
    pub(super) fn finish_renewal(&mut self, id: u64, is_done: bool) {
        let Some(Attempt { aim, hold, errand, terms, .. }) = self.attempts.get(&id) else { return };
        let (aim, hold_id, errand, terms, now) = (*aim, *hold, *errand, *terms, self.now);
        let was_sent = errand != 0 && !self.take_back(errand);
        if let Some(hold) = self.holds.get_mut(&hold_id) {
            match aim {
                Aim::Extension { longest, .. } => {
                    hold.asks_for_less(longest);
                    if !was_sent {
                        hold.has_come(errand, now);
                    }
                    if !is_done {
                        self.renews_by(hold_id, now);
                    }
                }
                _ => _ = hold.attempt_failed(terms.side, &Doubt::default()),
            }
        }
        self.forget_attempt(id);
    }

    /// Drops a guard, and leaves its hold on the server.
    pub(crate) fn detach(&mut self, grant: &Grant) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&grant.hold) else { return };
        _ = hold.guard_goes(grant.side, grant.guard, now);
        if !hold.is_kept() {
            self.stop_keeping(grant.hold);
        }
        self.drop_if_unused(grant.hold);
    }
}
