//! What the server does for waiters outside of commands: in each of its turns, what is due and what is on the agenda, for as
//! long as the turn lasts ([`Host::turn_is_over`]).

use super::agenda::{Cancelling, Untold};
use super::engine::Engine;
use super::host::{Answer, Host, OwnText, Permission, Purpose, Trigger, User};
use super::queue::{Due, LockName, Ticket};
use super::serve::Settled;
use super::sessions::Change;
use crate::lock::{self, Grace, Outcome, Plan, Release, Released, UnixMs};
use std::rc::Rc;

impl<C> Engine<C> {
    /// Does what is due and what is on the agenda, for as long as the turn lasts. It takes one item of each kind after the
    /// other, so that no kind keeps all others waiting.
    pub fn catch_up<H: Host<Client = C>>(&mut self, host: &H) {
        // One time for the whole turn: what falls due while it lasts is for the next.
        let now = host.now();
        self.read_notes(host);
        self.grace(host);
        self.sessions.next_turn();
        self.patrol(now);
        loop {
            let mut is_done = !self.fire_next_alarm(host, now);
            is_done &= !self.change_next_session(host, now);
            is_done &= !self.dismiss_next(host);
            is_done &= !self.answer_next(host);
            is_done &= !self.cancel_next(host);
            is_done &= !self.sweep_on();
            is_done &= !self.disconnect_next();
            is_done &= !self.tidy_next(host);
            // By the current time: a rest that began in this very turn began after `now`.
            if !self.is_resting(host.now()) {
                is_done &= !self.release_next(host);
                is_done &= !self.put_next_back(now);
                is_done &= !self.drop_next_broken(host, Trigger::Event);
                is_done &= !self.look_at_next(host);
            }
            if is_done || host.turn_is_over() {
                return;
            }
        }
    }

    /// Serves the waiters of the locks that the current command has changed, for as long as the turn lasts, and touches no
    /// other lock: the server calls this right behind the command, and may be in the middle of something with other keys.
    pub fn follow_command<H: Host<Client = C>>(&mut self, host: &H) {
        self.agenda.is_confined = true;
        while let Some(lock) = self.take_changed_by_command() {
            self.settle_known(host, lock);
            if host.turn_is_over() {
                break;
            }
        }
        self.agenda.is_confined = false;
        self.forget_command();
    }

    /// Does what the next alarm is for. Returns whether there was one.
    fn fire_next_alarm<H: Host<Client = C>>(&mut self, host: &H, now: UnixMs) -> bool {
        match self.queues.take_due(now) {
            Some(Due::Deadline(ticket)) => self.time_is_up(host, ticket),
            Some(Due::LeaseEnd(lock)) => _ = self.changed(lock),
            None => return false,
        }
        true
    }

    /// Does what has become due for the next session. Returns whether there was one.
    fn change_next_session<H: Host<Client = C>>(&mut self, host: &H, now: UnixMs) -> bool {
        let Some((session, change)) = self.sessions.take_due(now) else { return false };
        let user = self.sessions.get(session).map_or(User::IsThere, |session| host.user(&session.owner.name));
        let mut ends = user == User::IsGone;
        match change {
            Some(Change::Answer(call)) => host.answer(call, Answer::Events),
            Some(Change::Abandoned) if !ends => self.abandon(session),
            // A process that is kept back cannot give a sign of life.
            Some(Change::Ended) if !ends => {
                ends = !(user == User::IsKeptBack && self.sessions.outlives_pause(session, now));
            }
            Some(Change::Abandoned | Change::Ended) | None => {}
        }
        if ends {
            self.end_session(host, session);
        }
        true
    }

    /// Does one item of the work that is left for sessions. Returns whether there was one.
    fn tidy_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(id) = self.agenda.sessions.pop_front() else { return false };
        if self.tidy(id) {
            self.agenda.sessions.push_back(id);
        } else if let Some(session) = self.sessions.get_mut(id) {
            session.is_listed = false;
        }
        host.watch(self);
        true
    }

    /// Goes on with the next command that takes tickets back. Returns whether there was one.
    fn cancel_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(mut next) = self.cancelling.pop_front() else { return false };
        if self.cancel_on(host, &mut next) {
            // The others come in turn.
            self.cancelling.push_back(next);
        } else if let Some(client) = next.client {
            host.answer(client, Answer::Cancelled(next.done));
        }
        true
    }

    /// Takes the next of the tickets back. Returns whether there was one.
    pub(super) fn cancel_on<H: Host<Client = C>>(&mut self, host: &H, cancelling: &mut Cancelling<C>) -> bool {
        let Some(name) = cancelling.names.take_next() else { return false };
        let cancelled = self.take_back(cancelling.session, &name, host.now());
        host.watch(self);
        cancelling.done.push(cancelled);
        true
    }

    /// Answers a waiter whose time is up with the time left of its locks. Waiters behind it may have waited only for this one.
    fn time_is_up<H: Host<Client = C>>(&mut self, host: &H, waiter: Ticket) {
        // The locks may have become free at this very moment, and are then this waiter's.
        let mut is_settled = true;
        for lock in self.claims.locks(&self.queues, waiter) {
            is_settled &= !matches!(self.settle_known(host, lock), Some(Settled::TurnIsOver));
        }
        let Some((database, _)) = self.queues.lock_of(waiter).and_then(|lock| self.queues.name(lock)) else { return };
        if !is_settled {
            // Other waiters are being granted the lock, and this one may be among them.
            let now = host.now();
            return self.queues.set_deadline(waiter, now);
        }
        if let Some(answer) = self.answer_for(host, waiter) {
            return self.give_answer(host, waiter, answer);
        }
        self.counters.timeouts = self.counters.timeouts.wrapping_add(1);
        let keys = self.keys_of(waiter);
        let names = || keys.iter().map(|key| LockName { database, key });
        let left_ms = names().map(|name| host.left_ms(name)).reduce(lock::longer_left).unwrap_or(0);
        let left_ms = match self.grace(host).left_of(left_ms) {
            0 => names().next().map_or(0, |name| self.kept_for_ms(host, name)),
            left_ms => left_ms,
        };
        self.let_go(host, waiter, Outcome::Busy { left_ms });
    }

    /// Dismisses the next waiter of a server that grants nothing any more. Returns whether there was one.
    fn dismiss_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(ticket) = self.next_dismissed() else { return false };
        self.let_go(host, ticket, Outcome::NowReplica);
        true
    }

    /// Releases the next grant whose client was gone before its reply was sent. Returns whether there was one.
    fn release_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(mut untold) = self.agenda.to_release.pop_front() else { return false };
        let others = std::mem::take(&mut untold.others);
        let mut left = std::iter::once(Rc::clone(&untold.key)).chain(others);
        while let Some(key) = left.next() {
            if let Permission::Later(ms) = self.release_untold(host, &untold, &key) {
                (untold.key, untold.others) = (key, left.collect());
                self.agenda.to_release.push_front(untold);
                self.rest(host, ms);
                break;
            }
        }
        true
    }

    /// Releases one hold of a grant whose reply was not sent, as its holder would; the next waiter gets the lock.
    fn release_untold<H: Host<Client = C>>(&mut self, host: &H, untold: &Untold, key: &[u8]) -> Permission {
        let _selected = host.select(untold.database);
        let (key, holder) = (host.own(key), host.own(&untold.holder));
        let (key, holder) = (key.lend(), holder.lend());
        // Asks for a release, not for a grant to the next waiter: a full server is unlocked all the same.
        let permission = host.permission(Some(key), Purpose::Release);
        if !matches!(permission, Permission::Granted | Permission::OfKey) {
            // Elsewhere: the hold went with its key.
            return permission;
        }
        let record = host.open(key, holder);
        let want = Release { side: Some(untold.side), lease: None, all: false };
        let now = host.now();
        let decision = lock::release(&record, want, Grace::default(), now);
        if let Some(decision) = decision.ok().filter(|decision| decision.answer != Released::NotHeld) {
            // Refused only while writes are paused, which was checked above.
            _ = self.release_open(host, key, record, &Plan::of(holder, &decision.changes), Trigger::Event, now);
        }
        permission
    }

    /// Checks the next lock to which something has happened. Returns whether there was one.
    fn look_at_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(lock) = self.take_changed() else { return false };
        self.settle_known(host, lock);
        true
    }

    pub(super) fn rest<H: Host<Client = C>>(&mut self, host: &H, ms: i64) {
        let now = host.now();
        self.rest_until(now, now.saturating_add(ms));
    }
}
