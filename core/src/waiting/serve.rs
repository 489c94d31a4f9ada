//! Serving waiters.
//!
//! Every way in which a lock can become free ends in [`Engine::settle`], which grants it to its waiters, the first one first,
//! for as long as the lock allows. It decides anew from the lock each time: so a look too many does no harm, and no
//! earlier decision has to be remembered. Readers are let in together up to the next writer, which then has its turn:
//! neither side can starve the other.
//!
//! Nothing here goes on for longer than one turn of the server ([`Host::turn_is_over`]). The rest goes on the agenda,
//! and [`Engine::catch_up`] continues with it in the next turn. No client gets in between meanwhile: one that still waits is in
//! the queue, and a newcomer joins behind it.
//!
//! Keys, recipients and clock are behind the trait [`Host`]: there is one over the server and one that a test moves.

use super::agenda::{Cancelling, Untold};
use super::engine::{Engine, First, Grant, Next};
use super::host::{Host, Paused, Permission, Trigger};
use super::outbox::Delivery;
use super::queue::{Due, LockId, LockName, Ticket};
use super::sessions::Change;
use super::waiter::SessionId;
use crate::lock::{
    self, Ahead, Busy, Grace, HandOver, Obstacle, Outcome, Plan, Refusal, Release, Released, UnixMs, Verdict,
};
use std::rc::Rc;

/// What became of a waiter's acquire.
enum Tried {
    Granted(Grant),
    Busy {
        left_ms: i64,
    },
    Refused(Refusal),
    /// The lock would be granted, but not now: see [`Permission::Later`].
    Later(i64),
    /// The lock would be granted, but not here.
    Elsewhere,
}

/// How far serving a lock has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    NobodyWaits,
    /// The first waiter cannot have the lock now.
    SomeoneWaits,
    /// The lock is free, and waited for only by such as want others, too, and may be passed.
    MayBePassed,
    /// The agenda has the rest.
    TurnIsOver,
}

impl<C> Engine<C> {
    /// Serves the waiters of a lock, and returns whether any are left whom nobody may pass.
    pub(super) fn settle<H: Host<Client = C>>(&mut self, host: &H, lock: LockName<'_>, trigger: Trigger) -> Ahead {
        let Some(id) = self.queues.find(lock) else { return Ahead::Nobody };
        match self.settle_queue(host, id, lock, trigger) {
            Settled::NobodyWaits | Settled::MayBePassed => Ahead::Nobody,
            Settled::SomeoneWaits | Settled::TurnIsOver => Ahead::Someone,
        }
    }

    /// Serves the waiters of a lock to which something has happened.
    fn settle_known<H: Host<Client = C>>(&mut self, host: &H, id: LockId) {
        let Some((database, key)) = self.queues.name(id) else { return };
        self.settle_queue(host, id, LockName { database, key: &key }, Trigger::Event);
    }

    fn settle_queue<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        trigger: Trigger,
    ) -> Settled {
        let now = host.now();
        if self.queues.has_members(id) {
            return self.settle_with_sets(host, id, lock, trigger);
        }
        loop {
            // Before each look, so that what the look itself causes, such as the end of an expired key, is no news.
            self.seen(id);
            match self.seek_first(id, now) {
                None => return Settled::NobodyWaits,
                Some(First::Dismissed(ticket)) => self.let_go(host, ticket, Outcome::NowReplica),
                Some(First::Unattended(ticket)) => self.pass_over(ticket),
                Some(First::Attended(next)) => match self.tried(host, id, lock, &next, trigger) {
                    Ok(Some(settled)) => return settled,
                    Ok(None) => {}
                    Err(telling) => self.let_go(host, next.ticket, telling),
                },
            }
            // Not if the last waiter has left: nothing would be on the agenda then, and a newcomer would wait for nobody.
            if host.turn_is_over() && self.changed(id) {
                return Settled::TurnIsOver;
            }
        }
    }

    /// Whether somebody who can be told waits for this lock, as far as one turn of the server shows.
    pub(super) fn seek_ahead<H: Host<Client = C>>(&mut self, host: &H, lock: LockName<'_>) -> Ahead {
        let Some(id) = self.queues.find(lock) else { return Ahead::Nobody };
        match self.seek_first_to_tell(host, id) {
            Ok(None) if !self.queues.has_members(id) => Ahead::Nobody,
            Ok(_) | Err(TurnIsOver) => Ahead::Someone,
        }
    }

    /// The first waiter of a lock, past those that cannot be told.
    fn seek_first_to_tell<H: Host<Client = C>>(&mut self, host: &H, id: LockId) -> Result<Option<First>, TurnIsOver> {
        let now = host.now();
        while let Some(first) = self.seek_first(id, now) {
            let First::Unattended(ticket) = first else { return Ok(Some(first)) };
            // Those behind it may be let in now.
            self.pass_over(ticket);
            self.changed(id);
            if host.turn_is_over() {
                return Err(TurnIsOver);
            }
        }
        Ok(None)
    }

    /// What becomes of the first waiter. None: it was granted. An error is the answer for a client that cannot be granted.
    pub(super) fn tried<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        next: &Next,
        trigger: Trigger,
    ) -> Result<Option<Settled>, Outcome> {
        let tried = acquire_for(host, lock, next, self.grace(host), trigger);
        // What the look has caused, such as the end of an expired key, while this waiter waits for the lock.
        self.read_notes(host);
        match tried {
            Tried::Granted(grant) => {
                self.granted(host, id, lock, next, grant);
                return Ok(None);
            }
            Tried::Busy { left_ms } => {
                let end = lease_end(host.now(), left_ms);
                self.set_recheck_at(id, end);
            }
            Tried::Later(ms) => {
                self.rest(host, ms);
                self.changed(id);
            }
            Tried::Elsewhere => return Err(Outcome::SlotMoved),
            Tried::Refused(refusal) => return Err(Outcome::Refused(refusal)),
        }
        Ok(Some(Settled::SomeoneWaits))
    }

    /// Makes a release true, of the open lock `record`. If a command frees a lock with waiters, the first of them gets it in
    /// the same step. What no command has caused, the server has not checked: it frees the lock even where nobody may be
    /// granted it.
    ///
    /// # Errors
    /// If the server may not write now; nothing is changed then.
    pub(super) fn release_open<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: H::Text<'a>,
        record: H::Lock<'a>,
        plan: &Plan<'_, H::Text<'a>>,
        trigger: Trigger,
    ) -> Result<(), Paused> {
        if self.length() == 0 {
            return host.commit(record, plan);
        }
        let lock = LockName { database: host.database(), key: key.as_ref() };
        let Some(id) = self.queues.find(lock) else { return host.commit(record, plan) };
        self.set_released(id, true);
        let next = match self.seek_first_to_tell(host, id) {
            Ok(Some(First::Attended(next)))
                if self.queues.is_before_members(next.ticket, id)
                    && plan.changes.frees()
                    && trigger == Trigger::Command =>
            {
                Some(next)
            }
            _ => None,
        };
        let settled = match next.filter(|_| host.may_grant() == Permission::Granted) {
            Some(next) => self.hand_over(host, id, key, record, plan, &next),
            None => host.commit(record, plan).map(|()| None),
        };
        let settled = settled.map(|settled| settled.unwrap_or_else(|| self.settle_queue(host, id, lock, trigger)));
        if !matches!(settled, Ok(Settled::TurnIsOver)) {
            self.set_released(id, false);
        }
        settled.map(|_| ())
    }

    /// Makes a release true and grants the lock to the first waiter, in one step if that can be. Returns how far serving has
    /// come, if that is known.
    fn hand_over<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        id: LockId,
        key: H::Text<'a>,
        record: H::Lock<'a>,
        plan: &Plan<'_, H::Text<'a>>,
        next: &Next,
    ) -> Result<Option<Settled>, Paused> {
        let at = host.now();
        let grace = self.grace(host);
        let Some(HandOver { released, granted }) = lock::hand_over(&record, *plan.changes, &next.wish, grace, at)
        else {
            return host.commit(record, plan).map(|()| None);
        };
        let to = host.own(&next.wish.holder);
        let both = Plan {
            holder: H::shorter(plan.holder),
            changes: &released,
            next: Some((host.lend(&to), &granted.changes)),
        };
        if host.commit(record, &both).is_err() {
            // Nothing was changed.
            return host.commit(host.open(key, plan.holder), plan).map(|()| None);
        }
        let lock = LockName { database: host.database(), key: key.as_ref() };
        self.granted(host, id, lock, next, Grant::of(&granted, at));
        Ok((!granted.leaves_room).then_some(Settled::SomeoneWaits))
    }

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
            is_done &= !self.cancel_next(host);
            is_done &= !self.sweep_on();
            is_done &= !self.disconnect_next();
            is_done &= !self.look_behind_next();
            is_done &= !self.free_next_acknowledged();
            is_done &= !self.drop_next(host);
            // By the time of now, which a rest of this very turn began at.
            if !self.is_resting(host.now()) {
                is_done &= !self.release_next(host);
                is_done &= !self.put_next_back(now);
                is_done &= !self.put_next_set_back();
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
        self.sets.is_confined = true;
        while let Some(lock) = self.take_changed_by_command() {
            self.settle_known(host, lock);
            if host.turn_is_over() {
                break;
            }
        }
        self.sets.is_confined = false;
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
        let owner = self.sessions.get(session).map(|session| Rc::clone(&session.owner.name));
        if owner.is_some_and(|owner| !host.has_user(&owner)) {
            if let Some(Change::Answer(call)) = change {
                host.wake(call);
            }
            self.end_session(host, session);
            return true;
        }
        match change {
            Some(Change::Answer(call)) => host.wake(call),
            Some(Change::Abandoned) => self.abandon(session),
            Some(Change::Ended) => {
                // Whoever is there still cannot give a sign of life.
                let is_kept_back = host.clients_are_paused();
                if !(is_kept_back && self.sessions.outlives_pause(session, now)) {
                    self.end_session(host, session);
                }
            }
            None => {}
        }
        true
    }

    /// Drops one thing that is left of a session that has ended. Returns whether there was one.
    pub(super) fn drop_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let dropped = self.drop_next_of_ended();
        host.watch(self);
        dropped
    }

    /// Ends a session that its process has not ended. Its tickets leave in the next turns of the server.
    pub fn end_session<H: Host<Client = C>>(&mut self, host: &H, session: SessionId) {
        let (_, call) = self.close(session);
        host.watch(self);
        if let Some(call) = call {
            host.session_is_over(call);
        }
    }

    /// Goes on with the next command that takes tickets back. Returns whether there was one.
    fn cancel_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(mut next) = self.cancelling.pop_front() else { return false };
        if self.cancel_on(host, &mut next) {
            // The others come in turn.
            self.cancelling.push_back(next);
        } else if let Some(client) = next.client {
            host.answer_cancel(client, next.done);
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

    /// Answers a waiter whose time is up with the time left of the lock. The waiters behind it may have waited for it only.
    fn time_is_up<H: Host<Client = C>>(&mut self, host: &H, ticket: Ticket) {
        let Some(id) = self.queues.lock_of(ticket) else { return };
        let Some((database, key)) = self.queues.name(id) else { return };
        let lock = LockName { database, key: &key };
        // The lock may have become free at this very moment, and is then this waiter's.
        let mut is_settled = self.settle_queue(host, id, lock, Trigger::Event) != Settled::TurnIsOver;
        for (other, key) in self.sets.other_locks(&self.queues, ticket) {
            let lock = LockName { database, key: &key };
            is_settled &= self.settle_queue(host, other, lock, Trigger::Event) != Settled::TurnIsOver;
        }
        if self.queues.lock_of(ticket).is_none() {
            return;
        }
        if !is_settled {
            // Other waiters are being let in, and this one may be among them.
            let now = host.now();
            return self.queues.set_deadline(ticket, now);
        }
        self.counters.timeouts = self.counters.timeouts.wrapping_add(1);
        let others = self
            .sets
            .other_locks(&self.queues, ticket)
            .into_iter()
            .map(|(_, key)| host.left_ms(LockName { database, key: &key }));
        let left_ms = others.fold(host.left_ms(lock), lock::longer_left);
        let left_ms = self.grace(host).left_of(left_ms);
        let left_ms = if left_ms == 0 { self.kept_for_ms(host, lock) } else { left_ms };
        self.let_go(host, ticket, Outcome::Busy { left_ms });
    }

    /// Dismisses the next waiter of a server that grants nothing any more. Returns whether there was one.
    fn dismiss_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(ticket) = self.next_dismissed() else { return false };
        self.let_go(host, ticket, Outcome::NowReplica);
        true
    }

    /// Releases the next grant whose client was gone before it could be told. Returns whether there was one.
    fn release_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(mut untold) = self.agenda.to_release.pop_front() else { return false };
        let others = std::mem::take(&mut untold.others);
        for (number, key) in std::iter::once(&untold.key).chain(&others).enumerate() {
            if let Permission::Later(ms) = self.release_untold(host, &untold, key) {
                let left: Vec<_> = others.iter().skip(number).cloned().collect();
                let key = Rc::clone(key);
                self.agenda.to_release.push_front(Untold { key, others: left.into(), ..untold });
                self.rest(host, ms);
                break;
            }
        }
        true
    }

    /// Releases one hold of what a client was granted and not told, as its holder would; the next waiter gets the lock.
    fn release_untold<H: Host<Client = C>>(&mut self, host: &H, untold: &Untold, key: &[u8]) -> Permission {
        let _selected = host.select(untold.database);
        let (key, holder) = (host.own(key), host.own(&untold.holder));
        let (key, holder) = (host.lend(&key), host.lend(&holder));
        let permission = match host.may_write() {
            Permission::Granted => host.permission(key, Trigger::Event),
            unfit => unfit,
        };
        if permission != Permission::Granted {
            // Elsewhere: the hold went with its key.
            return permission;
        }
        let record = host.open(key, holder);
        let want = Release { side: Some(untold.side), lease: None, all: false };
        let decision = lock::release(&record, want, Grace::default(), host.now());
        if let Some(decision) = decision.ok().filter(|decision| decision.answer != Released::NotHeld) {
            // Refused only while writes are paused, which was asked.
            _ = self.release_open(host, key, record, &Plan::of(holder, &decision.changes), Trigger::Event);
        }
        permission
    }

    /// Looks at the next lock to which something has happened. Returns whether there was one.
    fn look_at_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(lock) = self.take_changed() else { return false };
        self.settle_known(host, lock);
        true
    }

    /// A waiter has got its lock.
    fn granted<H: Host<Client = C>>(&mut self, host: &H, id: LockId, lock: LockName<'_>, next: &Next, grant: Grant) {
        let Some(delivery) = self.grant(next.ticket, grant) else {
            // Its client went within the very write that has granted it the lock.
            let (holder, side) = (next.wish.holder.clone(), next.wish.side);
            let (database, key, others) = (lock.database, lock.key.into(), Box::default());
            return self.agenda.to_release.push_back(Untold { database, key, others, holder, side });
        };
        if let Some(end) = grant.end {
            self.recheck_by(id, end.saturating_add(1));
        }
        host.watch(self);
        deliver(host, delivery, Outcome::Granted { token: grant.token });
    }

    pub(super) fn let_go<H: Host<Client = C>>(&mut self, host: &H, ticket: Ticket, outcome: Outcome) {
        let now = host.now();
        if let Some(delivery) = self.leave_with(ticket, outcome, now) {
            host.watch(self);
            deliver(host, delivery, outcome);
        }
    }

    pub(super) fn rest<H: Host<Client = C>>(&mut self, host: &H, ms: i64) {
        let now = host.now();
        self.rest_until(now, now.saturating_add(ms));
    }
}

/// Acquires the lock for a waiter. Most looks find a lock busy, so the server is asked only where it would be granted.
fn acquire_for<H: Host>(host: &H, lock: LockName<'_>, next: &Next, grace: Grace, trigger: Trigger) -> Tried {
    // This costs nothing, and no key is touched if the answer is no.
    if let Permission::Later(ms) = host.may_grant() {
        return Tried::Later(ms);
    }
    let _selected = host.select(lock.database);
    let (key, holder) = (host.own(lock.key), host.own(&next.wish.holder));
    let (key, holder) = (host.lend(&key), host.lend(&holder));
    let mut may_grant = host.is_known_to_be_fit(trigger);
    loop {
        let record = host.open(key, holder);
        let at = host.now();
        match lock::acquire(&record, &next.wish, Ahead::Nobody, grace, at) {
            Ok(Verdict::Granted(effect)) if may_grant => {
                return match host.commit(record, &Plan::of(holder, &effect.changes)) {
                    Ok(()) => Tried::Granted(Grant::of(&effect, at)),
                    Err(Paused { for_ms }) => Tried::Later(for_ms),
                };
            }
            // Closed before the server checks a command on this very key, and looked at anew after that.
            Ok(Verdict::Granted(_)) => drop(record),
            Ok(Verdict::Busy(Busy { left_ms, obstacle, .. })) => {
                drop(record);
                // It would be granted after the grace, unless its slot has moved meanwhile.
                let waits_for_grace = obstacle != Obstacle::Others;
                if waits_for_grace && !may_grant && host.permission(key, trigger) == Permission::Elsewhere {
                    return Tried::Elsewhere;
                }
                return Tried::Busy { left_ms };
            }
            Err(refusal) => return Tried::Refused(refusal),
        }
        match host.permission(key, trigger) {
            Permission::Granted => may_grant = true,
            Permission::Later(ms) => return Tried::Later(ms),
            Permission::Elsewhere => return Tried::Elsewhere,
        }
    }
}

pub(super) fn deliver<H: Host>(host: &H, delivery: Delivery<H::Client>, outcome: Outcome) {
    match delivery {
        Delivery::Answer { client, fenced } => host.answer(client, outcome, fenced),
        Delivery::AnswerAll { client, tokens } => host.answer_all(client, tokens),
        Delivery::Wake(call) => host.wake(call),
        Delivery::Later => {}
    }
}

/// There may be more; the agenda has it.
struct TurnIsOver;

/// When to look again at a lock with so much left. Not before the next ms, whatever the lock says: the server judges a
/// key's end by a clock that stops while it does one thing, and ours runs on. So an expired lock may still be there,
/// and would be looked at again and again in the same turn.
pub(super) fn lease_end(now: UnixMs, left_ms: i64) -> Option<UnixMs> {
    (left_ms >= 0).then(|| now.saturating_add(left_ms).saturating_add(1))
}
