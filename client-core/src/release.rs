//! Releases: of a guard's hold, and of what may have been granted to a request after its caller was gone.
//!
//! A release goes on in the background until the server has replied, whether or not a caller waits for the result. If a
//! request may still be on its way to the server, a reply that nothing is held is not final, because that request may
//! arrive later. So the client repeats the release, at growing intervals, for as long as a lease lasts. It also repeats
//! it for that long if the server does not reply, and for longer if the server has been silent all the time: it may be
//! stalled with the request in its buffers.
//!
//! **Only a reply that something was released is success.** It alone proves that the lock was held until then. A reply
//! that nothing is held is a loss, unless that can have another cause: an earlier request of this client without a
//! reply, or the end of the lease. Neither is success, because the server may have forgotten the lock before.
//!
//! - The client keeps waiting for the reply to a request that it has given up, because that reply decides: a stalled
//!   server replies when it continues. If the reply cannot come any more, because its connection broke, the lock is *in
//!   doubt*.
//! - If the lease ended before the only reply came, the server was too slow. That is no loss.

use super::attempt::{Attempt, Grant};
use super::doubt::Doubt;
use super::fault::{Fault, What};
use super::hold::Guaranteed;
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

/// For how many leases the client keeps asking a silent server.
const LEASES_MAX: u32 = 10;

/// `Ok`: the lock was held until its release. An error says why it was not, or why that is unknown.
pub(super) type Released = Result<(), Error>;

/// An answer to store in the step that releases the lock.
#[derive(Clone, Debug)]
pub struct Answering {
    pub value: Arc<[u8]>,
    pub keep: Duration,
}

pub(super) struct Release {
    hold: HoldId,
    side: Side,
    extent: Extent,
    lease: Duration,
    lane: Lane,
    /// The guard's deadline when the release began, or why the guard had been lost.
    guaranteed: Guaranteed,
    caller: Option<CallerId>,
    /// The answer to store in the same step, and the first request that only releases.
    answering: Option<Answering>,
    bare_from: Option<u64>,
    /// Whether the result was reported.
    is_reported: bool,
    errand: u64,
    /// Whether an earlier request may have released the lock.
    doubt: Doubt,
    /// The last interruption between client and server: after it the server may have forgotten its locks.
    interrupted: Option<Cause>,
    began: Instant,
    until: Instant,
    growing: Pause,
    short: Pause,
    /// Set while the client waits for late replies, because the server says that nothing is held or cannot be asked.
    absence: Option<Absence>,
    wakes_at: Option<Instant>,
}

/// The result, unless a late reply says that the lock was held. `at`: when it became the result. `again`: the client
/// then repeats the release.
struct Absence {
    at: Instant,
    loss: Loss,
    again: bool,
}

impl Release {
    fn is_guaranteed_at(&self, time: Instant) -> bool {
        self.guaranteed.as_ref().is_ok_and(|until| time < *until)
    }

    /// If the server refused the answer, the release continues after that was reported.
    pub(super) fn is_settled(&self) -> bool {
        self.is_reported && self.bare_from.is_none()
    }

    /// From this request on it is a release without an answer.
    fn is_bare_from(&mut self, errand: u64) {
        if self.answering.take().is_some() {
            self.bare_from = Some(errand);
        }
    }

    /// The result if this request released something.
    fn success(&self, errand: u64, key: &[u8]) -> Released {
        match self.bare_from {
            Some(bare) if errand >= bare => Err(Error::because(ErrorKind::Unavailable, key, too_late().into())),
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Releases a guard's hold.
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
        let ((guaranteed, extent), is_kept) = gone.unwrap_or(((Err(Loss::Ended), None), false));
        if !is_kept {
            self.stop_keeping(grant.hold);
        }
        match (extent, caller) {
            (Some(extent), caller) => {
                self.start_release(grant.hold, grant.side, extent, grant.length, guaranteed, lane, caller, answering);
            }
            // There was nothing to release: it had been lost.
            (None, Some(caller)) => {
                let lost = Error::lost(&grant.key, guaranteed.err().unwrap_or(Loss::Ended));
                self.effects.push(Effect::Notify(caller, Answer::Released(Err(lost))));
            }
            (None, None) => {}
        }
        self.drop_if_unused(grant.hold);
    }

    #[expect(clippy::too_many_arguments, reason = "each is one thing, and no caller has them together")]
    pub(super) fn start_release(
        &mut self,
        hold: HoldId,
        side: Side,
        extent: Extent,
        lease: Duration,
        guaranteed: Guaranteed,
        lane: Lane,
        caller: Option<CallerId>,
        answering: Option<Answering>,
    ) {
        let (id, now) = (self.next_id(), self.now);
        let Some(held) = self.holds.get_mut(&hold) else { return };
        held.users += 1;
        let (growing, short) = (Pause::growing(), Pause::short());
        let (errand, doubt, interrupted, absence, wakes_at) = Default::default();
        let (is_reported, began, until, bare_from) = (false, now, now + lease, None);
        let release = Release {
            hold,
            side,
            extent,
            lease,
            lane,
            guaranteed,
            caller,
            answering,
            bare_from,
            is_reported,
            errand,
            doubt,
            interrupted,
            began,
            until,
            growing,
            short,
            absence,
            wakes_at,
        };
        self.releases.insert(id, release);
        self.send_release(id);
    }

    pub(super) fn send_release(&mut self, id: u64) {
        let (errand, now) = (self.next_id(), self.now);
        let Some(release) = self.releases.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&release.hold) else { return };
        if release.extent == Extent::All {
            if now >= release.until {
                hold.all_released(release.side);
                // Its lease must have ended.
                let error = Error::new(ErrorKind::Unavailable, &hold.key);
                self.report_result(id, Err(error));
                return self.release_is_over(id);
            }
            let is_asking = |it: &Attempt| it.is_asking && it.terms.side == release.side;
            let others_ask = hold.attempts.iter().filter_map(|id| self.attempts.get(id)).any(is_asking);
            if others_ask || hold.has_guards(release.side) {
                // The owner's last guard will release everything.
                release.doubt.make_permanent(release.interrupted.as_ref().unwrap_or(&Fault::timed_out().cause));
                return self.await_late_replies(id, Absence { at: now, loss: Loss::NotHeld, again: false });
            }
        } else if hold.named && !hold.is_idle(release.side) && !release.is_guaranteed_at(now) {
            return self.one_failed(id, Fault::unreachable(too_late()));
        }
        let hold = release.hold;
        if !self.passes_gate(hold, Asker::Release(id), errand) {
            return;
        }
        let (Some(release), Some(held)) = (self.releases.get_mut(&id), self.holds.get(&hold)) else { return };
        release.errand = errand;
        let body = match release.answering {
            Some(_) => Body::Answer,
            None => Body::Bytes(request::release(release.side, held.names(), release.extent)),
        };
        let lane = release.lane;
        self.ask(errand, Asker::Release(id), hold, body, lane);
    }

    /// Stores the answer; or only releases, if the lease may have ended.
    pub(super) fn answer_request(&mut self, id: u64, errand: u64) -> Option<Vec<u8>> {
        let now = self.now;
        let release = self.releases.get_mut(&id)?;
        let names = self.holds.get(&release.hold)?.names();
        if !release.is_guaranteed_at(now) {
            release.is_bare_from(errand);
        }
        Some(match &release.answering {
            Some(answering) => request::answer(names, answering),
            None => request::release(release.side, names, release.extent),
        })
    }

    pub(super) fn release_answered(&mut self, id: u64, errand: u64, answer: Result<Reply, Fault>) {
        let Some(release) = self.releases.get_mut(&id) else { return };
        if release.errand != errand {
            return self.release_answered_late(id, errand, answer);
        }
        (release.errand, release.lane) = (0, Lane::Own);
        let (hold, side, extent) = (release.hold, release.side, release.extent);
        if let Err(fault) = &answer {
            release.doubt.add_unanswered(fault);
            if fault.doubts_the_server() && !fault.is_overdue() {
                release.interrupted = Some(fault.cause.clone());
            }
        }
        match (answer.and_then(|answer| request::released(&answer)), extent) {
            (Ok(true), _) => {
                self.succeeds(id, errand);
                if extent == Extent::All {
                    self.holds.entry(hold).and_modify(|hold| hold.all_released(side));
                }
                self.release_is_over(id);
            }
            (Ok(false), _) => self.is_absent(id, Loss::NotHeld),
            (Err(fault), Extent::One) => self.one_failed(id, fault),
            (Err(fault), Extent::All) => self.all_failed(id, fault),
        }
    }

    /// The server must get this request only once. If it may have arrived, a repetition could release another guard's hold.
    fn one_failed(&mut self, id: u64, fault: Fault) {
        let (now, patience) = (self.now, self.settings.patience);
        let Some(release) = self.releases.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&release.hold) else { return };
        let is_unknown = fault.what == What::Silent;
        let next = now + release.short.next();
        // After the end of its lease it could release a later hold of another guard.
        let lasts = !hold.named || release.is_guaranteed_at(next);
        if !is_unknown && lasts && fault.may_pass() && now < release.began + patience {
            return self.release_again(id, next);
        }
        if fault.may_pass() && hold.mark_doubtful(release.side) {
            (release.extent, release.began, release.until) = (Extent::All, now, now + release.lease);
            return self.send_release(id);
        }
        self.reply_is_fault(id, fault);
    }

    fn all_failed(&mut self, id: u64, fault: Fault) {
        let (now, patience, next) = (self.now, self.settings.patience, self.next_id());
        let Some(release) = self.releases.get_mut(&id) else { return };
        if !fault.may_pass() && release.answering.is_some() && !fault.is_overwritten() {
            release.is_bare_from(next);
            let key = self.holds.get(&release.hold).map(|hold| hold.key.clone()).unwrap_or_default();
            self.report_result(id, Err(fault.into_error(&key)));
            return self.send_release(id);
        }
        if !fault.may_pass() {
            return self.reply_is_fault(id, fault);
        }
        release.until = (release.began + release.lease * LEASES_MAX).min(now + release.lease);
        let next = (now + release.short.next()).min(release.until);
        let is_long = now >= release.began + patience;
        if let Some(lock) = self.holds.get(&release.hold).map(|it| it.key.clone()) {
            self.effects.push(Effect::Log(Log::NotReleased { lock: lock.clone(), fault: fault.clone() }));
            if is_long {
                self.report_result(id, Err(fault.into_error(&lock)));
            }
        }
        self.release_again(id, next);
    }

    fn reply_is_fault(&mut self, id: u64, fault: Fault) {
        let Some(hold) = self.releases.get(&id).and_then(|release| self.holds.get(&release.hold)) else { return };
        // Something else is stored in its place, so it is not held.
        if fault.is_overwritten() {
            let loss = Loss::Overwritten(fault.into_error(&hold.key));
            return self.is_absent(id, loss);
        }
        let error = fault.into_error(&hold.key);
        self.report_result(id, Err(error));
        self.release_is_over(id);
    }

    /// The server says that it is not held.
    fn is_absent(&mut self, id: u64, loss: Loss) {
        let next = self.next_id();
        let Some(release) = self.releases.get_mut(&id) else { return };
        release.is_bare_from(next);
        let Some(hold) = self.holds.get(&release.hold) else { return };
        let again = loss == Loss::NotHeld && release.extent == Extent::All && hold.is_doubtful(release.side);
        self.await_late_replies(id, Absence { at: self.now, loss, again });
    }

    /// Waits for late replies, if any may come. A server that replies now has sent them already, or never will.
    fn await_late_replies(&mut self, id: u64, absence: Absence) {
        let until = self.now + self.settings.answer;
        let Some(release) = self.releases.get_mut(&id) else { return };
        release.absence = Some(absence);
        if release.is_reported || !release.doubt.may_clear() {
            self.heard_enough(id);
        } else {
            release.wakes_at = Some(until);
            self.timers.insert((until, Timer::Release(id)));
        }
    }

    pub(super) fn release_answered_late(&mut self, id: u64, errand: u64, answer: Result<Reply, Fault>) {
        let Some(release) = self.releases.get_mut(&id) else { return };
        release.doubt.settle_one(&answer);
        let may_clear = release.doubt.may_clear();
        // False: that request released nothing.
        let was_held = answer.and_then(|answer| request::released(&answer)).unwrap_or(false);
        if was_held {
            self.succeeds(id, errand);
        }
        if was_held || !may_clear {
            self.heard_enough(id);
        }
    }

    fn heard_enough(&mut self, id: u64) {
        let Some(release) = self.releases.get_mut(&id) else { return };
        let Some(Absence { at, loss, again }) = release.absence.take() else { return };
        release.doubt.stop_waiting();
        let Some(hold) = self.holds.get(&release.hold) else { return };
        let has_ended = !release.is_guaranteed_at(at);
        let error = match (release.doubt.cause(), &release.interrupted) {
            (Some(cause), _) => Error::in_doubt(&hold.key, cause.clone()),
            (None, Some(cause)) if has_ended => Error::in_doubt(&hold.key, cause.clone()),
            (None, None) if has_ended => Error::because(ErrorKind::Unavailable, &hold.key, too_late().into()),
            (None, _) => Error::lost(&hold.key, loss),
        };
        self.report_result(id, Err(error));
        match self.releases.get_mut(&id).filter(|_| again) {
            Some(release) => {
                let at = (self.now + release.growing.next()).min(release.until);
                self.release_again(id, at);
            }
            None => self.release_is_over(id),
        }
    }

    fn release_again(&mut self, id: u64, at: Instant) {
        if let Some(release) = self.releases.get_mut(&id) {
            release.wakes_at = Some(at);
            self.timers.insert((at, Timer::Release(id)));
        }
    }

    pub(super) fn release_wakes(&mut self, id: u64) {
        let now = self.now;
        let Some(release) = self.releases.get_mut(&id).filter(|it| it.wakes_at.is_some_and(|at| at <= now)) else {
            return;
        };
        release.wakes_at = None;
        match release.absence {
            Some(_) => self.heard_enough(id),
            None => self.send_release(id),
        }
    }

    fn succeeds(&mut self, id: u64, errand: u64) {
        let Some((release, hold)) = self.releases.get(&id).and_then(|it| Some((it, self.holds.get(&it.hold)?))) else {
            return;
        };
        let success = release.success(errand, &hold.key);
        self.report_result(id, success);
    }

    /// Reports only the first result. A lock that was lost before its release stays lost, whatever the server says.
    fn report_result(&mut self, id: u64, result: Released) {
        let Some(release) = self.releases.get_mut(&id) else { return };
        release.is_reported = true;
        if let Some(caller) = release.caller.take() {
            let result = match (&release.guaranteed, self.holds.get(&release.hold)) {
                (Err(loss), Some(hold)) => result.map_err(|_| Error::lost(&hold.key, loss.clone())),
                _ => result,
            };
            self.effects.push(Effect::Notify(caller, Answer::Released(result)));
        }
    }

    fn release_is_over(&mut self, id: u64) {
        if let Some(release) = self.releases.remove(&id) {
            self.leaves_hold(release.hold);
        }
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "not before the lease had ended")
}
