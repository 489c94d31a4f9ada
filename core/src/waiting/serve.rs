//! Which waiter is next on a lock, and its grant.
//!
//! Each lock has one line, in order of arrival. At each check, from the front, a waiter that can have all its locks gets them.
//! A waiter that lacks another lock may be overtaken by requests for plain locks, four times in all; then the lock is kept
//! for it. Readers share up to the next writer, and permits up to the next limit that is reached. An unattended waiter steps
//! aside and returns by age. One check covers at most 16 waiters that lack another lock, and nothing overtakes more.
//!
//! Every way in which a lock can become free ends in [`Engine::settle`]. It decides from the locks as they are each time, so a
//! check too many does no harm, and no earlier decision has to be remembered. Whatever lets a waiter go on always happens to one
//! of its locks, and then that lock's queue is checked. The check of a waiter begins with the lock that it lacked last time.
//!
//! Nothing here takes longer than one turn of the server ([`Host::turn_is_over`]). The rest goes on the agenda, and
//! [`Engine::catch_up`] continues with it in the next turn. No client overtakes a waiter meanwhile: the waiter is still in the
//! queue, and a newcomer joins behind it.

use super::agenda::Untold;
use super::claims::waiter_of;
use super::engine::Engine;
use super::host::{Act, Host, OwnText, Paused, Permission, Purpose, Text, Trigger};
use super::outbox::Beside;
use super::queue::{LockId, LockName, Ticket};
use super::waiter::{Names, Recipient, Waiter};
use crate::lock::{
    self, Ahead, Busy, Changes, Effect, Grace, HandOver, Obstacle, Outcome, Plan, Record, Refusal, Side, UnixMs,
    Verdict, Wish,
};
use std::rc::Rc;

/// How often a waiter that lacks another lock may be overtaken.
pub const OVERTAKEN_MAX: u8 = 4;

/// How many waiters that lack another lock are checked.
pub const CHECKED_MAX: usize = 16;

/// The ms after which to ask again for a lock that is kept for a waiter, if the other lock that the waiter lacks has no expiry.
const KEPT_ENDLESSLY_MS: i64 = 1_000;

/// What became of an attempt to grant a waiter its locks.
pub(super) enum Tried {
    /// Granted at this time, with this effect on each lock.
    Granted(UnixMs, Vec<Effect>),
    /// The lock that is checked is not free now; with the ms left of it.
    Busy(i64),
    /// The checked lock is free, but the waiter cannot have another of its locks now.
    Lacks,
    /// The locks would be granted, but not now: see [`Permission::Later`].
    Later(i64),
    /// It is dismissed with this outcome.
    Told(Outcome),
    /// It gets this answer, and not the lock.
    Answered(Rc<[u8]>),
}

/// The check of one waiter in the line of a lock.
struct Look<'a> {
    /// Its claim in this line.
    claim: Ticket,
    waiter: Ticket,
    /// The waiters before it, which lack another lock and may be overtaken.
    before: &'a [Ticket],
    lock: LockName<'a>,
    trigger: Trigger,
}

/// How far serving a lock has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The first waiter cannot have the lock now, or the lock is kept for a waiter.
    SomeoneWaits,
    /// The lock has no waiters; or it is free, and these are all its waiters: each lacks another lock and may be overtaken.
    MayBeOvertaken(Vec<Ticket>),
    /// The agenda has the rest.
    TurnIsOver,
}

impl<C> Engine<C> {
    /// Serves the waiters of a lock.
    pub(super) fn settle<H: Host<Client = C>>(&mut self, host: &H, lock: LockName<'_>, trigger: Trigger) -> Settled {
        match self.queues.find(lock) {
            Some(id) => self.settle_queue(host, id, lock, trigger),
            None => Settled::MayBeOvertaken(Vec::new()),
        }
    }

    /// Serves the waiters of a lock to which something has happened.
    pub(super) fn settle_known<H: Host<Client = C>>(&mut self, host: &H, id: LockId) -> Option<Settled> {
        let (database, key) = self.queues.name(id)?;
        Some(self.settle_queue(host, id, LockName { database, key: &key }, Trigger::Event))
    }

    fn settle_queue<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        trigger: Trigger,
    ) -> Settled {
        loop {
            if let Some(settled) = self.serve_next(host, id, lock, trigger) {
                return settled;
            }
            // Not if the last waiter has left: nothing would be on the agenda then, and a newcomer would wait in vain.
            if host.turn_is_over() && self.changed(id) {
                return Settled::TurnIsOver;
            }
        }
    }

    /// Serves the first waiter in the line that can have all its locks, or finds out why none can. None if there may be more.
    fn serve_next<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        trigger: Trigger,
    ) -> Option<Settled> {
        let (now, mut before, mut after) = (host.now(), Vec::new(), None);
        loop {
            let next = self.next_in_line(host, id, after, now);
            // Before the check: a change that the check itself causes, such as the end of an expired key, lists the lock again.
            self.seen(id);
            let (claim, waiter) = match next {
                Ok(Some(next)) => next,
                Ok(None) => return Some(Settled::MayBeOvertaken(before)),
                Err(TurnIsOver) => {
                    self.changed(id);
                    return Some(Settled::TurnIsOver);
                }
            };
            // A lock of another kind would keep the waiters before this one out for good.
            let is_plain = || self.queues.waiter(waiter).is_some_and(|wait| wait.side == Side::Plain);
            if !before.is_empty() && (before.len() > CHECKED_MAX || !is_plain()) {
                self.queues.set_lease_end(id, None);
                return Some(Settled::SomeoneWaits);
            }
            let end = match self.try_waiter(host, &Look { claim, waiter, before: &before, lock, trigger }) {
                Tried::Granted(..) | Tried::Told(_) | Tried::Answered(_) => return None,
                Tried::Later(ms) => {
                    if ms > 0 {
                        self.rest(host, ms);
                    }
                    self.changed(id);
                    return Some(Settled::SomeoneWaits);
                }
                Tried::Lacks if self.may_be_overtaken(waiter) => {
                    before.push(waiter);
                    after = Some(claim);
                    continue;
                }
                // This lock is checked again when something happens to a lock that this waiter lacks.
                Tried::Lacks => None,
                Tried::Busy(left_ms) => lease_end(host.now(), left_ms),
            };
            self.queues.set_lease_end(id, end);
            return Some(Settled::SomeoneWaits);
        }
    }

    /// Counts these waiters as overtaken: each once, even if on several locks.
    pub(super) fn are_overtaken(&mut self, mut waiters: Vec<Ticket>) {
        waiters.sort_unstable();
        waiters.dedup();
        for waiter in waiters {
            if let Some(several) = self.claims.of_several_mut(waiter) {
                several.overtaken = several.overtaken.saturating_add(1);
            }
        }
    }

    fn may_be_overtaken(&self, waiter: Ticket) -> bool {
        self.claims.of_several(waiter).is_some_and(|several| several.overtaken < OVERTAKEN_MAX)
    }

    /// The waiters that a claim to a free lock overtakes; None if it must wait for one of those before it.
    fn overtakes<H: Host<Client = C>>(&mut self, host: &H, claim: Ticket) -> Option<Vec<Ticket>> {
        let (lock, now) = (self.queues.lock_of(claim)?, host.now());
        let (mut before, mut after) = (Vec::new(), None);
        loop {
            let next = self.next_in_line(host, lock, after, now).ok()?.filter(|(other, _)| *other < claim);
            let Some((other, waiter)) = next else { return Some(before) };
            if !self.may_be_overtaken(waiter) || self.is_dismissed(waiter) || before.len() >= CHECKED_MAX {
                return None;
            }
            before.push(waiter);
            after = Some(other);
        }
    }

    /// Grants a waiter its locks, if it can have each.
    fn try_waiter<H: Host<Client = C>>(&mut self, host: &H, look: &Look<'_>) -> Tried {
        let &Look { waiter, lock, .. } = look;
        let Some(wish) = self.queues.waiter(waiter).map(Waiter::wish) else { return Tried::Busy(0) };
        let (mut keys, mut overtaken) = (Vec::new(), look.before.to_vec());
        let tried = self.obstacle(host, look, &wish, &mut overtaken).unwrap_or_else(|| {
            keys = self.keys_of(waiter);
            grant_all(host, look, &keys, &wish, self.grace(host))
        });
        // Reads what the check has caused, such as the end of an expired key, while this waiter still waits for the lock.
        self.read_notes(host);
        match &tried {
            Tried::Told(outcome) => self.let_go(host, waiter, *outcome),
            Tried::Answered(value) => self.give_answer(host, waiter, Rc::clone(value)),
            _ => {}
        }
        let Tried::Granted(at, grants) = &tried else { return tried };
        self.are_overtaken(overtaken);
        if !self.grant(host, waiter, grants, *at) {
            // Its client left during the very write that granted its locks.
            let key = keys.first().cloned().unwrap_or_else(|| lock.key.into());
            let (database, others) = (lock.database, keys.into_iter().skip(1).collect());
            let (holder, side) = (wish.holder, wish.side);
            self.agenda.to_release.push_back(Untold { database, key, others, holder, side });
        }
        tried
    }

    /// Why a waiter cannot have all its locks now; None if it can. `overtaken` has the waiters that it would overtake in this
    /// line, and gets those in its others. Most checks find a lock busy, so the server is asked about keys only after this.
    fn obstacle<H: Host<Client = C>>(
        &mut self,
        host: &H,
        look: &Look<'_>,
        wish: &Wish<Names>,
        overtaken: &mut Vec<Ticket>,
    ) -> Option<Tried> {
        let &Look { claim, waiter, lock, .. } = look;
        if self.is_dismissed(waiter) {
            return Some(Tried::Told(Outcome::NowReplica));
        }
        if let Some(answer) = self.answer_for(host, waiter) {
            return Some(Tried::Answered(answer));
        }
        let (grace, count) = (self.grace(host), self.claims.all(&waiter).len());
        if count > 1 && (self.agenda.is_confined || !host.allows(Act::TouchAnyKey)) {
            return Some(Tried::Later(0));
        }
        // The waiters before this one lack another lock: when they were checked, this lock was free, and the server fit.
        let is_free = if look.before.is_empty() {
            match begins_lock(host, look, wish, grace) {
                Ok(begins) => begins,
                Err(obstacle) => return Some(obstacle),
            }
        } else {
            true
        };
        if !is_free {
            // The waiters in front wait for this very holder, so it does not overtake them.
            overtaken.clear();
        }
        // Begins with the lock that it lacked last time. It could have the locks before that one then, and mostly still can: if
        // locks are released in their order, every release would check each of them again.
        let lacked = self.claims.of_several(waiter).map_or(0, |several| several.lacks);
        for number in (lacked..count).chain(0..lacked) {
            let other = self.claims.all(&waiter).get(number).copied();
            let Some(other) = other.filter(|other| *other != claim) else { continue };
            match self.may_have(host, other, lock.database, wish, grace) {
                Ok(Some(waiters)) => overtaken.extend(waiters),
                Ok(None) => {
                    if let Some(several) = self.claims.of_several_mut(waiter) {
                        several.lacks = number;
                    }
                    return Some(if is_free { Tried::Lacks } else { Tried::Busy(host.left_ms(lock)) });
                }
                Err(refusal) => return Some(Tried::Told(Outcome::Refused(refusal))),
            }
        }
        None
    }

    /// The waiters that one claim of a waiter overtakes if it is granted now; None if it cannot be granted.
    fn may_have<H: Host<Client = C>>(
        &mut self,
        host: &H,
        claim: Ticket,
        database: i32,
        wish: &Wish<Names>,
        grace: Grace,
    ) -> Result<Option<Vec<Ticket>>, Refusal> {
        let Some((_, key)) = self.queues.lock_of(claim).and_then(|lock| self.queues.name(lock)) else {
            return Ok(None);
        };
        match look(host, LockName { database, key: &key }, wish, grace)? {
            Verdict::Granted(effect) if effect.changes.begins() => Ok(self.overtakes(host, claim)),
            // The holder already has the lock, so the waiters before this claim wait for that holder.
            Verdict::Granted(_) => Ok(Some(Vec::new())),
            Verdict::Busy(_) => Ok(None),
        }
    }

    /// The next waiter in the line of a lock, or the first, with its claim there: one that is attended or to be dismissed.
    /// Unattended waiters step aside, and those of sessions that are back return to their places.
    ///
    /// # Errors
    /// If the turn is over before it is found.
    pub(super) fn next_in_line<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        after: Option<Ticket>,
        now: UnixMs,
    ) -> Result<Option<(Ticket, Ticket)>, TurnIsOver> {
        self.put_returning_back(id, now);
        while let Some(claim) = self.queues.next(id, after) {
            let waiter = waiter_of(&self.queues, claim);
            if self.is_dismissed(waiter) || self.is_attended(waiter, now) {
                return Ok(Some((claim, waiter)));
            }
            self.step_aside(waiter);
            if host.turn_is_over() {
                return Err(TurnIsOver);
            }
        }
        Ok(None)
    }

    /// Applies a release of the open lock `record`. If a command frees a lock with waiters, the first of them gets it in
    /// the same step. Without a command the server has checked nothing: the lock is freed even where no waiter may be
    /// granted it.
    ///
    /// # Errors
    /// If the server may not write now; nothing is changed then.
    pub(super) fn release_open<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        record: H::Lock<'a>,
        plan: &Plan<'_, Text<'a, H>>,
        trigger: Trigger,
        now: UnixMs,
    ) -> Result<(), Paused> {
        if self.length() == 0 {
            return host.commit(record, plan, Vec::new());
        }
        let lock = LockName { database: host.database(), key: key.as_ref() };
        let Some(id) = self.queues.find(lock) else { return host.commit(record, plan, Vec::new()) };
        let granted_before = self.counters.waited.count();
        let may_hand_over = plan.changes.frees()
            && trigger == Trigger::Command
            && !matches!(host.permission(None, Purpose::Grant), Permission::Later(_));
        let settled = match self.next_in_line(host, id, None, now) {
            Ok(Some((_, waiter))) if may_hand_over && self.is_next_alone(id, waiter, &record) => {
                self.hand_over(host, key, record, plan, waiter, now)
            }
            _ => host.commit(record, plan, Vec::new()).map(|()| None),
        };
        if settled?.is_none() {
            self.settle_queue(host, id, lock, trigger);
        }
        let granted = self.counters.waited.count().wrapping_sub(granted_before);
        self.counters.hand_offs = self.counters.hand_offs.wrapping_add(granted);
        Ok(())
    }

    /// Whether a waiter needs no other lock, and is not about to be dismissed or answered.
    fn is_next_alone(&self, lock: LockId, waiter: Ticket, record: &impl Record) -> bool {
        self.claims.of_several(waiter).is_none()
            && !self.is_dismissed(waiter)
            && !self.has_answer_for(lock, waiter, record)
    }

    /// Applies a release and grants the lock to the first waiter, in one step if possible. Returns how far serving has come,
    /// if that is known.
    fn hand_over<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        record: H::Lock<'a>,
        plan: &Plan<'_, Text<'a, H>>,
        waiter: Ticket,
        at: UnixMs,
    ) -> Result<Option<Settled>, Paused> {
        let grace = self.grace(host);
        let wish = self.queues.waiter(waiter).map(Waiter::wish);
        let handed = wish.as_ref().and_then(|wish| lock::hand_over(&record, *plan.changes, wish, grace, at));
        let (Some(wish), Some(HandOver { released, granted })) = (wish, handed) else {
            return host.commit(record, plan, Vec::new()).map(|()| None);
        };
        let to = host.own(&wish.holder);
        let next = Some((to.lend(), &granted.changes));
        let both = Plan { changes: &released, next, ..*plan };
        if host.commit(record, &both, Vec::new()).is_err() {
            // Nothing was changed, so only the release is applied.
            return host.commit(host.open(key, plan.holder), plan, Vec::new()).map(|()| None);
        }
        self.grant(host, waiter, std::slice::from_ref(&granted), at);
        Ok((!granted.leaves_room).then_some(Settled::SomeoneWaits))
    }

    /// Takes out a waiter that has got its locks, and notifies it. A blocked client's grant is kept until its reply is sent. Returns
    /// whether the waiter was still there.
    fn grant<H: Host<Client = C>>(&mut self, host: &H, waiter: Ticket, grants: &[Effect], at: UnixMs) -> bool {
        // For a waiter for one lock, nothing is allocated.
        let others = self.claims.beside(waiter).into_iter();
        let others: Vec<_> = others.filter_map(|claim| self.take(claim, true)).collect();
        let Some(left) = self.take(waiter, true) else { return false };
        for (left, grant) in std::iter::once(&left).chain(&others).zip(grants) {
            if let Some(end) = grant.changes.lease_end() {
                self.recheck_by(left.lock, end.saturating_add(1));
            }
        }
        self.counters.waited.add(at.saturating_sub(left.since));
        self.serving = Some((self.serving.map_or(at, |(first, _)| first), at));
        let keys: Vec<_> = others.into_iter().map(|left| left.key).collect();
        if matches!(left.waiter.recipient, Recipient::Client(_)) {
            let Wish { holder, side, .. } = left.waiter.wish();
            let (database, key, others) = (left.database, Rc::clone(&left.key), keys.clone().into());
            self.untold.insert(waiter, Untold { database, key, others, holder, side });
        }
        let tokens = grants.iter().filter(|_| left.waiter.is_of_several()).filter_map(|grant| grant.token).collect();
        let outcome = Outcome::Granted { token: grants.first().and_then(|grant| grant.token) };
        self.tell(host, left, outcome, Beside { keys, tokens, answer: None }, at);
        true
    }

    /// The ms after which to ask again for a lock that is free and not granted: the time left of the lock that the first
    /// waiter for several locks lacks. 0 if no such waiter waits for it.
    pub(super) fn kept_for_ms<H: Host<Client = C>>(&self, host: &H, lock: LockName<'_>) -> i64 {
        let waiters = self.queues.waiters(lock).take(CHECKED_MAX).map(|(claim, _)| waiter_of(&self.queues, claim));
        let first = waiters.into_iter().find_map(|waiter| Some((waiter, self.claims.of_several(waiter)?.lacks)));
        let Some((waiter, lacks)) = first else { return 0 };
        let lacks = self.claims.all(&waiter).get(lacks).copied();
        let name = lacks.and_then(|claim| self.queues.lock_of(claim)).and_then(|lock| self.queues.name(lock));
        match name.map_or(0, |(database, key)| host.left_ms(LockName { database, key: &key })) {
            left_ms @ 0.. => left_ms.max(1),
            _ => KEPT_ENDLESSLY_MS,
        }
    }

    /// Takes a waiter out and gives it this outcome.
    pub(super) fn let_go<H: Host<Client = C>>(&mut self, host: &H, waiter: Ticket, outcome: Outcome) {
        let keys = if self.claims.is_empty() { Vec::new() } else { self.keys_of(waiter).into_iter().skip(1).collect() };
        let Some(left) = self.leave(waiter) else { return };
        self.tell(host, left, outcome, Beside { keys, ..Beside::default() }, host.now());
    }
}

/// The verdict of a lock for a waiter, as if no other waiter were before it.
fn look<H: Host>(host: &H, lock: LockName<'_>, wish: &Wish<Names>, grace: Grace) -> Result<Verdict, Refusal> {
    let _selected = host.select(lock.database);
    let (key, holder) = (host.own(lock.key), host.own(&wish.holder));
    let record = host.open(key.lend(), holder.lend());
    lock::acquire(&record, wish, Ahead::Nobody, grace, host.now())
}

/// Whether the grant of the checked lock would begin it, as if no waiter were before this one.
///
/// # Errors
/// With the reason why it cannot be granted now.
fn begins_lock<H: Host>(
    host: &H,
    &Look { lock, trigger, .. }: &Look<'_>,
    wish: &Wish<Names>,
    grace: Grace,
) -> Result<bool, Tried> {
    let permission = host.permission(None, Purpose::Grant);
    if let Permission::Later(ms) = permission {
        return Err(Tried::Later(ms));
    }
    match look(host, lock, wish, grace) {
        Ok(Verdict::Granted(effect)) => Ok(effect.changes.begins()),
        Ok(Verdict::Busy(Busy { left_ms, obstacle, .. })) => {
            // It would be granted after the grace, unless its slot has moved meanwhile.
            let may_move = trigger == Trigger::Event && permission == Permission::OfKey;
            let has_moved = obstacle != Obstacle::Others && may_move && is_elsewhere(host, lock);
            Err(if has_moved { Tried::Told(Outcome::SlotMoved) } else { Tried::Busy(left_ms) })
        }
        Err(refusal) => Err(Tried::Told(Outcome::Refused(refusal))),
    }
}

/// Whether a lock is another server's now.
fn is_elsewhere<H: Host>(host: &H, lock: LockName<'_>) -> bool {
    let _selected = host.select(lock.database);
    host.permission(Some(host.own(lock.key).lend()), Purpose::Grant) == Permission::Elsewhere
}

/// Grants a waiter its locks, each of which it may have. The server has checked the command for the checked lock only.
fn grant_all<H: Host>(
    host: &H,
    &Look { lock, trigger, .. }: &Look<'_>,
    keys: &[Rc<[u8]>],
    wish: &Wish<Names>,
    grace: Grace,
) -> Tried {
    let _selected = host.select(lock.database);
    let holder = host.own(&wish.holder);
    let keys: Vec<_> = keys.iter().map(|key| host.own(key)).collect();
    let keys: Vec<_> = keys.iter().map(OwnText::lend).collect();
    for key in keys.iter().filter(|key| trigger == Trigger::Event || key.as_ref() != lock.key) {
        match host.permission(Some(*key), Purpose::Grant) {
            Permission::Granted | Permission::OfKey => {}
            Permission::Later(ms) => return Tried::Later(ms),
            Permission::Elsewhere => return Tried::Told(Outcome::SlotMoved),
        }
    }
    acquire_open(host, &keys, &wish.with_holder(holder.lend()), grace)
}

/// Acquires all of these locks of the selected database, or none: decided and written while all of them are open.
pub(super) fn acquire_open<'a, H: Host>(
    host: &'a H,
    keys: &[Text<'a, H>],
    wish: &Wish<Text<'a, H>>,
    grace: Grace,
) -> Tried {
    let at = host.now();
    let mut locks: Vec<_> = keys.iter().map(|key| host.open(*key, wish.holder)).collect();
    let mut effects = Vec::with_capacity(locks.len());
    for record in &locks {
        match lock::acquire(record, wish, Ahead::Nobody, grace, at) {
            Ok(Verdict::Granted(effect)) => effects.push(effect),
            Ok(Verdict::Busy(Busy { left_ms, .. })) => return Tried::Busy(left_ms),
            Err(refusal) => return Tried::Told(Outcome::Refused(refusal)),
        }
    }
    let others: Vec<(_, Changes)> = locks.drain(1..).zip(effects.iter().skip(1).map(|effect| effect.changes)).collect();
    let (Some(first), Some(record)) = (effects.first(), locks.pop()) else { return Tried::Busy(0) };
    match host.commit(record, &Plan::of(wish.holder, &first.changes), others) {
        Ok(()) => Tried::Granted(at, effects),
        Err(Paused { for_ms }) => Tried::Later(for_ms),
    }
}

/// The turn ended before the end of the line; the agenda has the rest.
pub(super) struct TurnIsOver;

/// When to check a lock with this much left again. Not before the next ms, whatever the lock says: the server judges a
/// key's end by a clock that stops while the server does one thing, and ours runs on. So an expired lock may still be there,
/// and would be checked again and again in the same turn.
pub(super) fn lease_end(now: UnixMs, left_ms: i64) -> Option<UnixMs> {
    (left_ms >= 0).then(|| now.saturating_add(left_ms).saturating_add(1))
}
