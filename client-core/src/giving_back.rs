//! Giving back: what a guard had, and what may have been granted to a request whose caller has gone.
//!
//! It goes on in the background, whether or not a caller waits for the result, until the server has answered. Where a
//! request may still be on its way to the server, an answer that nothing is held is not the end: the request may come
//! after it, so it is asked again, at growing distances, for as long as a lease lasts. A server that does not answer is
//! asked for as long as a lease lasts too, and longer if it has been silent all the time: it may stand still with our
//! request in its hands.
//!
//! **Only an answer that something was given back is success.** It says that the lock was held until then, and there is
//! no other word of that. That nothing is held is a loss, unless it may have come about since: by a request of ours
//! that was sent and not answered, or by the end of the lease. Neither is success, as the server may have forgotten the
//! lock before.
//!
//! - The answer to a request that was given up is waited for on, since it is the one that tells: a server that stands
//!   still for a while answers when it goes on. When it cannot come any more, as its connection broke, the lock is *in
//!   doubt*.
//! - A lease that ended before the only answer came is a server that did not answer in time, and no loss.

use super::attempt::{Attempt, Grant};
use super::doubt::Doubt;
use super::fault::{Fault, What};
use super::hold::Vouched;
use super::pause::Pause;
use super::request::{self, Extent};
use super::resp::Reply;
use super::terms::Side;
use super::{Answer, Asker, Body, CallerId, Effect, Engine, HoldId, Lane, Log, Timer};
use crate::error::{Cause, Error, ErrorKind};
use crate::loss::Loss;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how many leases a server is asked that does not answer.
const LEASES_MAX: u32 = 10;

/// Whether it was held until it was given back, as soon as that is known, or that it cannot be known.
pub(super) type Released = Result<(), Error>;

/// What is stored by a release.
#[derive(Clone, Debug)]
pub struct Answering {
    pub value: Arc<[u8]>,
    pub keep: Duration,
}

pub(super) struct Giving {
    hold: HoldId,
    side: Side,
    extent: Extent,
    lease: Duration,
    lane: Lane,
    /// Until when it was guaranteed when its release began, or why it was lost before.
    vouched: Vouched,
    caller: Option<CallerId>,
    /// What is stored with it, and from which request on it is not.
    answering: Option<Answering>,
    bare_from: Option<u64>,
    /// Whether it is known what has become of it.
    is_told: bool,
    errand: u64,
    /// Whether another release than the last one did it.
    doubt: Doubt,
    /// What came between this client and the server: the server that answers now may have forgotten its locks.
    interrupted: Option<Cause>,
    began: Instant,
    until: Instant,
    growing: Pause,
    short: Pause,
    /// While late answers are waited for, as the server says that nothing is held, or nobody may be asked.
    listens: Option<Absence>,
    wakes_at: Option<Instant>,
}

/// What is told unless a late answer says that it was held: the server has said so at that time. Then it is asked again, or not.
struct Absence {
    at: Instant,
    loss: Loss,
    again: bool,
}

impl Giving {
    fn is_vouched_at(&self, time: Instant) -> bool {
        self.vouched.as_ref().is_ok_and(|until| time < *until)
    }

    /// The release behind an answer that the server has refused goes on, although that was told.
    pub(super) fn is_settled(&self) -> bool {
        self.is_told && self.bare_from.is_none()
    }

    /// From this request on it is a release like any other.
    fn is_bare_from(&mut self, errand: u64) {
        if self.answering.take().is_some() {
            self.bare_from = Some(errand);
        }
    }

    /// What it is that this request has released something.
    fn success(&self, errand: u64, key: &[u8]) -> Released {
        match self.bare_from {
            Some(bare) if errand >= bare => Err(Error::because(ErrorKind::Unavailable, key, too_late().into())),
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Gives back what a guard has.
    pub(super) fn release(
        &mut self,
        grant: &Grant,
        lane: Lane,
        caller: Option<CallerId>,
        answering: Option<Answering>,
    ) {
        let now = self.now;
        let gone =
            self.holds.get_mut(&grant.hold).map(|hold| (hold.guard_goes(grant.side, grant.guard, now), hold.is_kept()));
        let ((vouched, extent), is_kept) = gone.unwrap_or(((Err(Loss::Ended), None), false));
        if !is_kept {
            self.keep_no_more(grant.hold);
        }
        match (extent, caller) {
            (Some(extent), caller) => {
                self.give(grant.hold, grant.side, extent, grant.length, vouched, lane, caller, answering);
            }
            // There was nothing to be released: it was lost before.
            (None, Some(caller)) => {
                let lost = Error::lost(&grant.key, vouched.err().unwrap_or(Loss::Ended));
                self.effects.push(Effect::Notify(caller, Answer::Released(Err(lost))));
            }
            (None, None) => {}
        }
        self.drop_if_unused(grant.hold);
    }

    #[expect(clippy::too_many_arguments, reason = "each is one thing, and nobody keeps them together")]
    pub(super) fn give(
        &mut self,
        hold: HoldId,
        side: Side,
        extent: Extent,
        lease: Duration,
        vouched: Vouched,
        lane: Lane,
        caller: Option<CallerId>,
        answering: Option<Answering>,
    ) {
        let (id, now) = (self.next_id(), self.now);
        let Some(held) = self.holds.get_mut(&hold) else { return };
        held.users += 1;
        let (growing, short) = (Pause::growing(), Pause::short());
        let (errand, doubt, interrupted, listens, wakes_at) = Default::default();
        let (is_told, began, until, bare_from) = (false, now, now + lease, None);
        let giving = Giving {
            hold,
            side,
            extent,
            lease,
            lane,
            vouched,
            caller,
            answering,
            bare_from,
            is_told,
            errand,
            doubt,
            interrupted,
            began,
            until,
            growing,
            short,
            listens,
            wakes_at,
        };
        self.givings.insert(id, giving);
        self.gives(id);
    }

    pub(super) fn gives(&mut self, id: u64) {
        let (errand, now) = (self.next_id(), self.now);
        let Some(giving) = self.givings.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&giving.hold) else { return };
        if giving.extent == Extent::All {
            if now >= giving.until {
                hold.all_given_back(giving.side);
                // Its lease must have ended by now.
                let error = Error::new(ErrorKind::Unavailable, &hold.key);
                self.tells(id, Err(error));
                return self.giving_is_over(id);
            }
            let is_asking = |it: &Attempt| it.is_asking && it.terms.side == giving.side;
            let others_ask = hold.attempts.iter().filter_map(|id| self.attempts.get(id)).any(is_asking);
            if others_ask || hold.has_guards(giving.side) {
                // The last guard of this owner to go will give back all.
                giving.doubt.deepens(giving.interrupted.as_ref().unwrap_or(&Fault::timed_out().cause));
                return self.listens(id, Absence { at: now, loss: Loss::NotHeld, again: false });
            }
        } else if hold.named && !hold.is_idle(giving.side) && !giving.is_vouched_at(now) {
            return self.one_failed(id, Fault::unreachable(too_late()));
        }
        let hold = giving.hold;
        if !self.passes_gate(hold, Asker::Giving(id), errand) {
            return;
        }
        let (Some(giving), Some(held)) = (self.givings.get_mut(&id), self.holds.get(&hold)) else { return };
        giving.errand = errand;
        let body = match giving.answering {
            Some(_) => Body::Answer,
            None => Body::Bytes(request::release(giving.side, held.names(), giving.extent)),
        };
        let lane = giving.lane;
        self.ask(errand, Asker::Giving(id), hold, body, lane);
    }

    /// Stores the answer, or is a release alone if the lease may have ended.
    pub(super) fn answer_request(&mut self, id: u64, errand: u64) -> Option<Vec<u8>> {
        let now = self.now;
        let giving = self.givings.get_mut(&id)?;
        let names = self.holds.get(&giving.hold)?.names();
        if !giving.is_vouched_at(now) {
            giving.is_bare_from(errand);
        }
        Some(match &giving.answering {
            Some(answering) => request::answer(names, answering),
            None => request::release(giving.side, names, giving.extent),
        })
    }

    pub(super) fn giving_answered(&mut self, id: u64, errand: u64, answer: Result<Reply, Fault>) {
        let Some(giving) = self.givings.get_mut(&id) else { return };
        if giving.errand != errand {
            return self.giving_answered_late(id, errand, answer);
        }
        (giving.errand, giving.lane) = (0, Lane::Own);
        let (hold, side, extent) = (giving.hold, giving.side, giving.extent);
        if let Err(fault) = &answer {
            giving.doubt.misses(fault);
            if fault.doubts_the_server() && !fault.is_overdue() {
                giving.interrupted = Some(fault.cause.clone());
            }
        }
        match (answer.and_then(|answer| request::released(&answer)), extent) {
            (Ok(true), _) => {
                self.succeeds(id, errand);
                if extent == Extent::All {
                    self.holds.entry(hold).and_modify(|hold| hold.all_given_back(side));
                }
                self.giving_is_over(id);
            }
            (Ok(false), _) => self.is_absent(id, Loss::NotHeld),
            (Err(fault), Extent::One) => self.one_failed(id, fault),
            (Err(fault), Extent::All) => self.all_failed(id, fault),
        }
    }

    /// The server must receive this once only. Where it may have, sending it again could take what another guard has.
    fn one_failed(&mut self, id: u64, fault: Fault) {
        let (now, patience) = (self.now, self.settings.patience);
        let Some(giving) = self.givings.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&giving.hold) else { return };
        let is_unknown = fault.what == What::Silent;
        let next = now + giving.short.next();
        // Behind the end of its lease it could take what another one was granted since.
        let lasts = !hold.named || giving.is_vouched_at(next);
        if !is_unknown && lasts && fault.may_pass() && now < giving.began + patience {
            return self.gives_again(id, next);
        }
        if fault.may_pass() && hold.mark_doubtful(giving.side) {
            (giving.extent, giving.began, giving.until) = (Extent::All, now, now + giving.lease);
            return self.gives(id);
        }
        self.tells_fault(id, fault);
    }

    fn all_failed(&mut self, id: u64, fault: Fault) {
        let (now, patience, next) = (self.now, self.settings.patience, self.next_id());
        let Some(giving) = self.givings.get_mut(&id) else { return };
        if !fault.may_pass() && giving.answering.is_some() && !fault.is_overwritten() {
            giving.is_bare_from(next);
            let key = self.holds.get(&giving.hold).map(|hold| hold.key.clone()).unwrap_or_default();
            self.tells(id, Err(fault.into_error(&key)));
            return self.gives(id);
        }
        if !fault.may_pass() {
            return self.tells_fault(id, fault);
        }
        giving.until = (giving.began + giving.lease * LEASES_MAX).min(now + giving.lease);
        let next = (now + giving.short.next()).min(giving.until);
        let is_long = now >= giving.began + patience;
        if let Some(lock) = self.holds.get(&giving.hold).map(|it| it.key.clone()) {
            self.effects.push(Effect::Log(Log::NotReleased { lock: lock.clone(), fault: fault.clone() }));
            if is_long {
                self.tells(id, Err(fault.into_error(&lock)));
            }
        }
        self.gives_again(id, next);
    }

    fn tells_fault(&mut self, id: u64, fault: Fault) {
        let Some(hold) = self.givings.get(&id).and_then(|giving| self.holds.get(&giving.hold)) else { return };
        // With something else in its place, it is not held.
        if fault.is_overwritten() {
            let loss = Loss::Overwritten(fault.into_error(&hold.key));
            return self.is_absent(id, loss);
        }
        let error = fault.into_error(&hold.key);
        self.tells(id, Err(error));
        self.giving_is_over(id);
    }

    /// The server says that it is not held.
    fn is_absent(&mut self, id: u64, loss: Loss) {
        let next = self.next_id();
        let Some(giving) = self.givings.get_mut(&id) else { return };
        giving.is_bare_from(next);
        let Some(hold) = self.holds.get(&giving.hold) else { return };
        let again = loss == Loss::NotHeld && giving.extent == Extent::All && hold.is_doubtful(giving.side);
        self.listens(id, Absence { at: self.now, loss, again });
    }

    /// For answers that are late, if any may come. A server that answers now has sent them by now, or never will.
    fn listens(&mut self, id: u64, absence: Absence) {
        let until = self.now + self.settings.answer;
        let Some(giving) = self.givings.get_mut(&id) else { return };
        giving.listens = Some(absence);
        if giving.is_told || !giving.doubt.may_clear() {
            self.heard_enough(id);
        } else {
            giving.wakes_at = Some(until);
            self.timers.insert((until, Timer::Giving(id)));
        }
    }

    pub(super) fn giving_answered_late(&mut self, id: u64, errand: u64, answer: Result<Reply, Fault>) {
        let Some(giving) = self.givings.get_mut(&id) else { return };
        giving.doubt.hears(&answer);
        let may_clear = giving.doubt.may_clear();
        // If not, that request has given nothing back.
        let was_held = answer.and_then(|answer| request::released(&answer)).unwrap_or(false);
        if was_held {
            self.succeeds(id, errand);
        }
        if was_held || !may_clear {
            self.heard_enough(id);
        }
    }

    fn heard_enough(&mut self, id: u64) {
        let Some(giving) = self.givings.get_mut(&id) else { return };
        let Some(Absence { at, loss, again }) = giving.listens.take() else { return };
        giving.doubt.stays();
        let Some(hold) = self.holds.get(&giving.hold) else { return };
        let has_ended = !giving.is_vouched_at(at);
        let error = match (giving.doubt.cause(), &giving.interrupted) {
            (Some(cause), _) => Error::in_doubt(&hold.key, cause.clone()),
            (None, Some(cause)) if has_ended => Error::in_doubt(&hold.key, cause.clone()),
            (None, None) if has_ended => Error::because(ErrorKind::Unavailable, &hold.key, too_late().into()),
            (None, _) => Error::lost(&hold.key, loss),
        };
        self.tells(id, Err(error));
        match self.givings.get_mut(&id).filter(|_| again) {
            Some(giving) => {
                let at = (self.now + giving.growing.next()).min(giving.until);
                self.gives_again(id, at);
            }
            None => self.giving_is_over(id),
        }
    }

    fn gives_again(&mut self, id: u64, at: Instant) {
        if let Some(giving) = self.givings.get_mut(&id) {
            giving.wakes_at = Some(at);
            self.timers.insert((at, Timer::Giving(id)));
        }
    }

    pub(super) fn giving_wakes(&mut self, id: u64) {
        let now = self.now;
        let Some(giving) = self.givings.get_mut(&id).filter(|it| it.wakes_at.is_some_and(|at| at <= now)) else {
            return;
        };
        giving.wakes_at = None;
        match giving.listens {
            Some(_) => self.heard_enough(id),
            None => self.gives(id),
        }
    }

    fn succeeds(&mut self, id: u64, errand: u64) {
        let Some((giving, hold)) = self.givings.get(&id).and_then(|it| Some((it, self.holds.get(&it.hold)?))) else {
            return;
        };
        let success = giving.success(errand, &hold.key);
        self.tells(id, success);
    }

    /// Only the first result is told. A lock that was lost before its release stays lost, whatever the server says of
    /// it.
    fn tells(&mut self, id: u64, result: Released) {
        let Some(giving) = self.givings.get_mut(&id) else { return };
        giving.is_told = true;
        if let Some(caller) = giving.caller.take() {
            let result = match (&giving.vouched, self.holds.get(&giving.hold)) {
                (Err(loss), Some(hold)) => result.map_err(|_| Error::lost(&hold.key, loss.clone())),
                _ => result,
            };
            self.effects.push(Effect::Notify(caller, Answer::Released(result)));
        }
    }

    fn giving_is_over(&mut self, id: u64) {
        if let Some(giving) = self.givings.remove(&id) {
            self.leaves_hold(giving.hold);
        }
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "not before the lease had ended")
}
