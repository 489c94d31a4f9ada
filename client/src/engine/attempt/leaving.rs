//! An attempt whose caller has gone, or whose time is over: nothing of it is to stay behind. What was asked may be granted
//! all the same, so its answer is waited for, or its ticket taken back; and what is in doubt is given back.

use super::super::hold::Hold;
use super::super::pause::Pause;
use super::super::request::Extent;
use super::super::{Asker, Engine, Lane, Timer};
use super::{Attempt, Outcome, State};
use crate::loss::Loss;

impl Engine {
    /// Its caller waits no longer.
    pub(in crate::engine) fn abandon(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.leaving += usize::from(attempt.tell.take().is_some());
        if let State::Confirming { grant, .. } = &attempt.state {
            let grant = grant.clone();
            self.gives_back(&grant);
            self.forget_attempt(id);
        } else {
            self.leaves(id);
        }
    }

    pub(super) fn ends(&mut self, id: u64, outcome: Outcome) {
        if let Some(tell) = self.attempts.get_mut(&id).and_then(|attempt| attempt.tell.take()) {
            // Its caller may have gone.
            let _ = tell.send(outcome);
            self.leaving += 1;
        }
        self.leaves(id);
    }

    /// Nothing is to stay behind.
    pub(super) fn leaves(&mut self, id: u64) {
        self.leave_crowd(id);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let is_granted = matches!(attempt.state, State::Renewing | State::Pausing { granted: true });
        if matches!(attempt.state, State::Leaving | State::Withdrawing(_)) {
            return;
        }
        let errand = std::mem::take(&mut attempt.errand);
        let is_sent = errand != 0 && !self.take_back(errand);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if is_granted {
            self.left(id, true);
        } else if attempt.ticket.is_some() {
            attempt.open += u32::from(is_sent);
            attempt.state = State::Withdrawing(Pause::short());
            self.cancels(id);
        } else if is_sent {
            (attempt.state, attempt.errand) = (State::Leaving, errand);
        } else {
            let doubtful = attempt.is_doubtful();
            self.left(id, doubtful);
        }
    }

    /// By the lane of its request, which it must not overtake.
    pub(super) fn cancels(&mut self, id: u64) {
        let (errand, limit) = (self.next_id(), self.settings.answer);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(ticket) = attempt.ticket.clone() else { return };
        attempt.errand = errand;
        let lane = attempt.lane;
        let lane = if self.is_open_for(ticket.node, lane) { lane } else { Lane::Own };
        self.ask_node_as(errand, ticket.node, Asker::Attempt(id), ticket.cancel(), lane, limit);
    }

    /// The server has nothing queued of it any more.
    pub(super) fn withdrawn(&mut self, id: u64, was_found: bool) {
        if let Some(ticket) = self.attempts.get_mut(&id).and_then(|attempt| attempt.ticket.take()) {
            self.waits_no_more(&ticket);
        }
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (side, began) = (attempt.terms.side, attempt.began);
        // If it was found, its request has arrived, whose answer nobody has waited for.
        let is_uncertain = attempt.lost || attempt.open > 0 && !was_found;
        self.is_gone(id, |hold| {
            // The same owner has acquired the lock too, perhaps after this wait was granted it: then the server could not tell
            // whose hold is whose, and has left both.
            let is_mixed_up = hold.has_others(began);
            let is_to_be_given_back = hold.attempt_failed(side, is_uncertain || !was_found && hold.is_shared());
            let is_to_be_given_back = is_to_be_given_back || (!was_found || is_mixed_up) && hold.is_idle(side);
            is_to_be_given_back || is_mixed_up && hold.mark_doubtful(side)
        });
    }

    pub(super) fn left(&mut self, id: u64, doubtful: bool) {
        let Some(side) = self.attempts.get(&id).map(|attempt| attempt.terms.side) else { return };
        self.is_gone(id, |hold| hold.attempt_failed(side, doubtful));
    }

    /// It has failed at each of its locks, which says whether something is to be given back.
    fn is_gone(&mut self, id: u64, fails: impl Fn(&mut Hold) -> bool) {
        let now = self.now;
        let Some(holds) = self.attempts.get(&id).map(Attempt::holds) else { return };
        for hold_id in holds {
            let (Some(attempt), Some(hold)) = (self.attempts.get(&id), self.holds.get_mut(&hold_id)) else { return };
            let (is_to_be_given_back, side) = (fails(hold), attempt.terms.side);
            let lease = attempt.lease(hold, false, now);
            if is_to_be_given_back {
                self.give(hold_id, side, Extent::All, lease, Err(Loss::Ended), Lane::Own, None);
            }
        }
        self.forget_attempt(id);
    }

    pub(super) fn forget_attempt(&mut self, id: u64) -> Option<Attempt> {
        self.leave_crowd(id);
        let attempt = self.attempts.remove(&id)?;
        self.leaving -= usize::from(attempt.tell.is_none());
        for (at, timer) in [(attempt.end, Timer::End(id)), (attempt.wakes_at, Timer::Attempt(id))] {
            at.map(|at| self.timers.remove(&(at, timer)));
        }
        attempt.holds().for_each(|hold| self.leaves_hold(hold));
        Some(attempt)
    }

    pub(super) fn leave_crowd(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let (Some(waits), Some(hold)) = (attempt.crowd.take(), self.holds.get(&attempt.hold)) else { return };
        if self.crowds.get_mut(&hold.key).is_some_and(|crowd| crowd.leave(waits)) {
            self.crowds.remove(&hold.key);
        }
    }
}
