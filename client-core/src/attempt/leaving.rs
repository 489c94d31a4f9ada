//! If its caller is gone or its time is over, an attempt leaves nothing behind. The server may still grant its
//! request, so the client waits for the reply or cancels the ticket, and releases what was granted or is in doubt.

use super::super::pause::Pause;
use super::super::request::{Cancelled, Extent};
use super::super::{Asker, Effect, Engine, Lane, Timer};
use super::{Attempt, LATE, Outcome, State};
use crate::loss::Loss;

impl Engine {
    /// The caller stopped waiting.
    pub(crate) fn abandon(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.leaving += usize::from(std::mem::take(&mut attempt.is_awaited));
        if let State::Confirming { grant, .. } = &attempt.state {
            let grant = grant.clone();
            self.release_in_background(&grant);
            self.forget_attempt(id);
        } else {
            self.leaves(id);
        }
    }

    pub(super) fn ends(&mut self, id: u64, outcome: Outcome) {
        self.report_to_caller(id, outcome);
        self.leaves(id);
    }

    pub(super) fn report_to_caller(&mut self, id: u64, outcome: Outcome) {
        if let Some(attempt) = self.attempts.get(&id).filter(|attempt| attempt.is_awaited) {
            self.effects.push(Effect::Notify(id, self.answer_of(attempt, outcome)));
            self.attempts.entry(id).and_modify(|attempt| attempt.is_awaited = false);
            self.leaving += 1;
        }
    }

    /// Cleans up on the server.
    pub(super) fn leaves(&mut self, id: u64) {
        self.leave_local_queue(id);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if !attempt.aim.asks() {
            return self.finish_renewal(id, false);
        }
        let is_granted = matches!(attempt.state, State::Renewing | State::Pausing { granted: true });
        if matches!(attempt.state, State::Leaving | State::Withdrawing(_)) {
            return;
        }
        let errand = std::mem::take(&mut attempt.errand);
        let is_sent = errand != 0 && !self.take_back(errand);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if is_granted {
            attempt.doubt.make_permanent(&LATE);
            self.left(id, false);
        } else if attempt.ticket.is_some() {
            if is_sent {
                attempt.doubt.add_given_up();
            }
            attempt.state = State::Withdrawing(Pause::short());
            self.cancels(id);
        } else if is_sent {
            (attempt.state, attempt.errand) = (State::Leaving, errand);
        } else {
            self.left(id, false);
        }
    }

    /// Cancels the ticket on the lane of its request, so that CANCEL cannot overtake the request.
    pub(super) fn cancels(&mut self, id: u64) {
        let errand = self.next_id();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(ticket) = attempt.ticket.clone() else { return };
        attempt.errand = errand;
        let lane = attempt.lane;
        let lane = if self.is_open_for(ticket.node, lane) { lane } else { Lane::Own };
        self.ask_node(errand, ticket.node, Asker::Attempt(id), ticket.cancel(), lane);
    }

    /// The attempt is in no queue of the server any more.
    pub(super) fn withdrawn(&mut self, id: u64, cancelled: Cancelled) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        // An unknown ticket may have been granted the lock at once, or its request may still be on its way.
        attempt.doubt.clear();
        if cancelled == Cancelled::Unknown {
            attempt.doubt.make_permanent(&LATE);
        }
        if let Some(ticket) = attempt.ticket.take() {
            self.drop_ticket(&ticket);
        }
        self.left(id, cancelled == Cancelled::Granted);
    }

    /// It failed for each of its locks. `granted`: the server said that it has a hold on each.
    pub(super) fn left(&mut self, id: u64, granted: bool) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.is_asking = false;
        let holds = attempt.holds();
        for hold_id in holds {
            let (Some(attempt), Some(hold)) = (self.attempts.get(&id), self.holds.get_mut(&hold_id)) else { return };
            let (side, lease) = (attempt.terms.side, attempt.lease(hold, false, now));
            let extent = match hold.attempt_failed(side, &attempt.doubt) {
                false if !granted => continue,
                false if hold.named => Extent::One,
                _ => Extent::All,
            };
            self.start_release(hold_id, side, extent, lease, Err(Loss::Ended), Lane::Own, None, None);
        }
        self.forget_attempt(id);
    }

    pub(super) fn forget_attempt(&mut self, id: u64) -> Option<Attempt> {
        self.leave_local_queue(id);
        let attempt = self.attempts.remove(&id)?;
        self.leaving -= usize::from(!attempt.is_awaited);
        for (at, timer) in [(attempt.end, Timer::End(id)), (attempt.wakes_at, Timer::Attempt(id))] {
            at.map(|at| self.timers.remove(&(at, timer)));
        }
        let was_first = self.holds.get_mut(&attempt.hold).is_some_and(|hold| {
            let was_first = hold.attempts.front() == Some(&id);
            hold.attempts.retain(|it| *it != id);
            hold.gate.leaves(Asker::Attempt(id));
            was_first
        });
        attempt.holds().for_each(|hold| self.leaves_hold(hold));
        if was_first {
            self.first_asks(attempt.hold);
        }
        Some(attempt)
    }

    pub(super) fn leave_local_queue(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let (Some(waits), Some(hold)) = (attempt.local_queue.take(), self.holds.get(&attempt.hold)) else { return };
        if self.local_queues.get_mut(&hold.key).is_some_and(|local_queue| local_queue.leave(waits)) {
            self.local_queues.remove(&hold.key);
        }
    }
}
