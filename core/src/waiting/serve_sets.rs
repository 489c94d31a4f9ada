//! When those who wait for several locks get them: `sets` says who they are.
//!
//! A set holds nothing while it waits, so no two can wait for each other for ever: all members come at once, so whichever
//! set came first is before the other in each queue. It gets its locks in the moment in which it is first on each and
//! each is free.
//!
//! While it is first on a lock that is free, and cannot have the others, it would be a pity to leave that lock idle. So
//! others may pass it there, but no more than [`PASSED_MAX`] in all, and from then on each lock on which it is first is
//! kept for it: else a set would starve while single waiters come and go.
//!
//! What makes a set's turn come is always something that happens to one of its locks, and then that lock's queue is
//! looked at. So a look asks only those that are in front, and asks each first for the lock that it lacked the last time.

use super::agenda::Untold;
use super::engine::{Engine, First, Grant, Next};
use super::host::{Host, Permission, Trigger};
use super::outbox::{Beside, Delivery, Event};
use super::queue::{Joins, LockId, LockName, QueueFull, Ticket};
use super::serve::{Settled, lease_end};
use super::sets::who_is_told;
use super::waiter::{Names, Recipient, Waiter};
use crate::lock::{self, Ahead, Busy, Grace, Obstacle, Outcome, Plan, Refusal, Release, Side, UnixMs, Verdict};
use std::collections::BTreeSet;
use std::rc::Rc;

/// So many may get a lock before a set that is first on it.
pub const PASSED_MAX: u8 = 4;

/// So many sets are asked at each look at a lock. With more of them in front of it, nobody passes.
pub const ASKED_MAX: usize = 16;

/// In so many ms to ask again for a lock that is kept for a set which lacks a lock without an expiry.
const KEPT_ENDLESSLY_MS: i64 = 1_000;

/// What became of the attempt to grant a set all of its locks.
pub(super) enum Tried {
    Granted,
    /// It cannot have one of them now.
    Lacks,
    /// It would be granted, but not now: see [`Permission::Later`].
    Later(i64),
    /// It is to be let go with this outcome.
    Told(Outcome),
}

/// Whether a set may have one of its locks.
enum Allowed {
    /// Past so many other sets.
    Yes(Vec<Ticket>),
    No,
    Told(Outcome),
}

impl<C> Engine<C> {
    /// Puts a set into the queues of its locks, in each as it is said there. A session must be open.
    ///
    /// # Errors
    /// If there is no room for another waiter. It is dropped.
    pub(super) fn join_all(
        &mut self,
        locks: &[(LockName<'_>, Joins)],
        wait: Waiter<C>,
        now: UnixMs,
        deadline: Option<UnixMs>,
    ) -> Result<Vec<(Ticket, LockId)>, QueueFull> {
        let Some(((first, joins), others)) = locks.split_first() else { return Err(QueueFull) };
        let wish = wait.wish();
        let (told, lock) = self.enter(*first, wait, now, true, *joins)?;
        let mut joined = vec![(told, lock)];
        for (lock, joins) in others {
            let member = Waiter::new(Recipient::Of(told), wish.clone());
            let Ok(member) = self.enter(*lock, member, now, true, *joins) else {
                for (ticket, _) in joined.into_iter().rev() {
                    self.take(ticket, false);
                }
                return Err(QueueFull);
            };
            self.sets.beside = self.sets.beside.saturating_add(1);
            joined.push(member);
        }
        let members = joined.iter().map(|(ticket, _)| *ticket).collect();
        self.sets.begin(told, members);
        if let Some(deadline) = deadline {
            self.queues.set_deadline(told, deadline);
        }
        self.counters.waits = self.counters.waits.wrapping_add(1);
        Ok(joined)
    }

    /// The keys of a set; none of a waiter for one lock.
    #[must_use]
    pub fn keys_of_set(&self, told: Ticket) -> Vec<Rc<[u8]>> {
        let locks = self.sets.locks(&self.queues, told).into_iter();
        locks.filter_map(|lock| Some(self.queues.name(lock)?.1)).collect()
    }

    /// Serves the waiters of a lock among which are sets.
    pub(super) fn settle_with_sets<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        trigger: Trigger,
    ) -> Settled {
        loop {
            self.seen(id);
            if let Some(settled) = self.serve_next(host, id, lock, trigger) {
                return settled;
            }
            if host.turn_is_over() && self.changed(id) {
                return Settled::TurnIsOver;
            }
        }
    }

    /// Serves one waiter of a lock, or finds out why none can be. None: there may be more.
    fn serve_next<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: LockId,
        lock: LockName<'_>,
        trigger: Trigger,
    ) -> Option<Settled> {
        let now = host.now();
        let single = match self.seek_first(id, now) {
            None => None,
            Some(First::Dismissed(ticket)) => {
                self.let_go(host, ticket, Outcome::NowReplica);
                return None;
            }
            Some(First::Unattended(ticket)) => {
                self.pass_over(ticket);
                return None;
            }
            Some(First::Attended(next)) => Some(next),
        };
        let is_before = |member: &Ticket| single.as_ref().is_none_or(|single| *member < single.ticket);
        let before: Vec<_> = self.queues.members(id).take_while(is_before).take(ASKED_MAX.saturating_add(1)).collect();
        let Some(first) = before.first() else {
            let Some(single) = single else { return Some(Settled::NobodyWaits) };
            return match self.tried(host, id, lock, &single, trigger) {
                Ok(settled) => settled,
                Err(telling) => {
                    self.let_go(host, single.ticket, telling);
                    None
                }
            };
        };
        if self.put_aside_if_unattended(host, *first, now) {
            return None;
        }
        // Most looks find a lock busy, for whomever.
        let is_free = match self.look_for(host, *first) {
            Ok(Verdict::Granted(effect)) => effect.changes.begins(),
            Ok(Verdict::Busy(Busy { left_ms, .. })) => {
                let end = lease_end(host.now(), left_ms);
                self.read_notes(host);
                self.set_recheck_at(id, end);
                return Some(Settled::SomeoneWaits);
            }
            Err(refusal) => {
                self.let_go(host, *first, Outcome::Refused(refusal));
                return None;
            }
        };
        self.read_notes(host);
        let asked = if is_free { ASKED_MAX } else { 1 };
        for member in before.iter().take(asked) {
            if self.put_aside_if_unattended(host, *member, now) {
                return None;
            }
            match self.try_set(host, *member, Some(id), trigger) {
                Tried::Granted => return None,
                Tried::Told(outcome) => {
                    self.let_go(host, *member, outcome);
                    return None;
                }
                Tried::Later(ms) => {
                    self.rest_and_look(host, id, ms);
                    return Some(Settled::SomeoneWaits);
                }
                Tried::Lacks if self.is_passed_enough(*member) => return Some(self.kept(host, id, lock, is_free)),
                Tried::Lacks => {}
            }
        }
        if !is_free || before.len() > ASKED_MAX {
            return Some(self.kept(host, id, lock, is_free));
        }
        let Some(single) = single else {
            return Some(if self.queues.has_members(id) { Settled::MayBePassed } else { Settled::NobodyWaits });
        };
        // Another kind of lock would keep the sets out for good.
        if single.wish.side != Side::Plain {
            return Some(self.kept(host, id, lock, is_free));
        }
        match self.tried(host, id, lock, &single, trigger) {
            Ok(None) => {
                for member in before {
                    self.is_passed(member);
                }
                None
            }
            Ok(settled) => settled,
            Err(telling) => {
                self.let_go(host, single.ticket, telling);
                None
            }
        }
    }

    /// Nobody gets this lock now: it is looked at again when its lease ends, or when something happens to a lock that its
    /// first set lacks. A lease of which nothing is left has not ended yet, if the lock is not free.
    fn kept<H: Host<Client = C>>(&mut self, host: &H, id: LockId, lock: LockName<'_>, is_free: bool) -> Settled {
        let end = lease_end(host.now(), host.left_ms(lock)).filter(|_| !is_free);
        self.set_recheck_at(id, end);
        Settled::SomeoneWaits
    }

    fn rest_and_look<H: Host<Client = C>>(&mut self, host: &H, id: LockId, ms: i64) {
        if ms > 0 {
            self.rest(host, ms);
        }
        self.changed(id);
    }

    /// What its lock says to a member, as if nobody were before it.
    fn look_for<H: Host<Client = C>>(&mut self, host: &H, member: Ticket) -> Result<Verdict, Refusal> {
        let grace = self.grace(host);
        let gone = Ok(Verdict::Busy(Busy { left_ms: 0, waits_for_itself: false, obstacle: Obstacle::Others }));
        let Some(wait) = self.queues.waiter(member) else { return gone };
        let Some((database, key)) = self.queues.lock_of(member).and_then(|lock| self.queues.name(lock)) else {
            return gone;
        };
        look(host, LockName { database, key: &key }, wait, grace)
    }

    /// A set that nobody attends is put aside as a whole. Returns whether that was so.
    fn put_aside_if_unattended<H: Host<Client = C>>(&mut self, host: &H, member: Ticket, now: UnixMs) -> bool {
        if self.is_dismissed(member) {
            self.let_go(host, member, Outcome::NowReplica);
            return true;
        }
        let told = who_is_told(&self.queues, member);
        let Some(wait) = self.queues.waiter(told).filter(|wait| !self.is_attended(wait, now)) else { return false };
        let Some(session) = wait.session().and_then(|session| self.sessions.get_mut(session)) else { return false };
        if self.queues.is_aside(told) {
            return true;
        }
        session.sets_aside.push(told);
        for member in self.sets.members(told).to_vec() {
            self.queues.set_aside(member, true);
            // Those behind it may be let in.
            self.queues.lock_of(member).map(|lock| self.changed(lock));
        }
        true
    }

    /// Puts one set back that was put aside. Returns whether there was one.
    pub(super) fn put_next_set_back(&mut self) -> bool {
        let Some(told) = self.agenda.sets_back.pop_front() else { return false };
        for member in self.sets.members(told).to_vec() {
            self.queues.set_aside(member, false);
            self.queues.lock_of(member).map(|lock| self.changed(lock));
        }
        true
    }

    fn is_passed_enough(&self, member: Ticket) -> bool {
        self.sets.get(who_is_told(&self.queues, member)).is_some_and(|set| set.passed >= PASSED_MAX)
    }

    fn is_passed(&mut self, member: Ticket) {
        let told = who_is_told(&self.queues, member);
        if let Some(set) = self.sets.get_mut(told) {
            set.passed = set.passed.saturating_add(1);
        }
    }

    /// Somebody has got these locks past all sets that wait for one of them.
    pub(super) fn all_are_passed(&mut self, locks: &[LockName<'_>]) {
        let ids = locks.iter().filter_map(|lock| self.queues.find(*lock));
        let members = ids.flat_map(|id| self.queues.members(id)).map(|member| who_is_told(&self.queues, member));
        let passed: BTreeSet<_> = members.collect();
        for set in passed {
            self.is_passed(set);
        }
    }

    /// In how many ms to ask again for a lock that is free and not granted: when the lease can end of the lock that its
    /// first set lacks. 0 if no set waits for it.
    pub(super) fn kept_for_ms<H: Host<Client = C>>(&self, host: &H, lock: LockName<'_>) -> i64 {
        let first = self.queues.find(lock).and_then(|id| self.queues.members(id).next());
        let Some(set) = first.and_then(|member| self.sets.get(who_is_told(&self.queues, member))) else { return 0 };
        let lacks = set.members.get(set.lacks).and_then(|member| self.queues.lock_of(*member));
        let name = lacks.and_then(|lock| self.queues.name(lock));
        match name.map_or(0, |(database, key)| host.left_ms(LockName { database, key: &key })) {
            left_ms @ 0.. => left_ms.max(1),
            _ => KEPT_ENDLESSLY_MS,
        }
    }

    pub(super) fn has_sets(&self, lock: LockName<'_>) -> bool {
        self.queues.find(lock).is_some_and(|id| self.queues.has_members(id))
    }

    /// Grants a set all of its locks, if it may have each.
    pub(super) fn try_set<H: Host<Client = C>>(
        &mut self,
        host: &H,
        member: Ticket,
        own: Option<LockId>,
        trigger: Trigger,
    ) -> Tried {
        if self.sets.is_confined || !host.may_touch_any_key() {
            return Tried::Later(0);
        }
        if let Permission::Later(ms) = host.may_grant() {
            return Tried::Later(ms);
        }
        let told = who_is_told(&self.queues, member);
        let (members, lacks) = match self.sets.get(told) {
            Some(set) => (set.members.clone(), set.lacks),
            None => return Tried::Lacks,
        };
        let mut passed = BTreeSet::new();
        // Those before the one that it lacked it was asked for then, and mostly may still have: locks that are released in
        // their order would each be looked at again with every release.
        for number in (lacks..members.len()).chain(0..lacks) {
            let Some(member) = members.get(number) else { continue };
            match self.may_have(host, *member) {
                Allowed::Yes(sets) => passed.extend(sets),
                Allowed::No => {
                    if let Some(set) = self.sets.get_mut(told) {
                        set.lacks = number;
                    }
                    return Tried::Lacks;
                }
                Allowed::Told(outcome) => return Tried::Told(outcome),
            }
        }
        match self.grant_all(host, told, &members, own, trigger) {
            Tried::Granted => {
                for set in passed {
                    self.is_passed(set);
                }
                Tried::Granted
            }
            tried => tried,
        }
    }

    /// Whether a set may have one of its locks now, and which other sets it would pass on it.
    fn may_have<H: Host<Client = C>>(&mut self, host: &H, member: Ticket) -> Allowed {
        match self.look_for(host, member) {
            Ok(Verdict::Granted(effect)) if effect.changes.begins() => {}
            Ok(Verdict::Granted(_)) => return Allowed::Yes(Vec::new()),
            Ok(Verdict::Busy(_)) => return Allowed::No,
            Err(refusal) => return Allowed::Told(Outcome::Refused(refusal)),
        }
        let Some(lock) = self.queues.lock_of(member) else { return Allowed::No };
        let now = host.now();
        loop {
            match self.seek_first(lock, now) {
                Some(First::Unattended(single)) if single < member => self.pass_over(single),
                Some(First::Attended(Next { ticket, .. }) | First::Dismissed(ticket)) if ticket < member => {
                    return Allowed::No;
                }
                _ => break,
            }
            if host.turn_is_over() {
                self.changed(lock);
                return Allowed::No;
            }
        }
        let before: Vec<_> = self.queues.members(lock).take_while(|other| *other < member).take(ASKED_MAX).collect();
        if before.len() == ASKED_MAX {
            return Allowed::No;
        }
        let mut passed = Vec::new();
        for other in before {
            let is_attended = self.queues.waiter(other).is_some_and(|wait| self.is_attended(wait, now));
            if is_attended && self.is_passed_enough(other) {
                return Allowed::No;
            }
            passed.extend(is_attended.then(|| who_is_told(&self.queues, other)));
        }
        Allowed::Yes(passed)
    }

    /// Grants a set its locks, each of which it may have.
    fn grant_all<H: Host<Client = C>>(
        &mut self,
        host: &H,
        told: Ticket,
        members: &[Ticket],
        own: Option<LockId>,
        trigger: Trigger,
    ) -> Tried {
        let Some(wait) = self.queues.waiter(told) else { return Tried::Lacks };
        let wish = wait.wish();
        let names: Vec<_> = members
            .iter()
            .filter_map(|member| self.queues.lock_of(*member))
            .map(|lock| (lock, self.queues.name(lock)))
            .collect();
        let names: Vec<_> = names.into_iter().filter_map(|(lock, name)| name.map(|(_, key)| (lock, key))).collect();
        let Some((database, _)) = names.first().and_then(|(lock, _)| self.queues.name(*lock)) else {
            return Tried::Lacks;
        };
        let _selected = host.select(database);
        for (lock, key) in &names {
            // The server has checked the command on its own lock only.
            let trigger = if own == Some(*lock) { trigger } else { Trigger::Event };
            let key = host.own(key);
            if host.is_known_to_be_fit(trigger) {
                continue;
            }
            match host.permission(host.lend(&key), trigger) {
                Permission::Granted => {}
                Permission::Later(ms) => return Tried::Later(ms),
                Permission::Elsewhere => return Tried::Told(Outcome::SlotMoved),
            }
        }
        let keys: Vec<_> = names.iter().map(|(_, key)| Rc::clone(key)).collect();
        let grace = self.grace(host);
        let grants = match acquire_all(host, &keys, &wish.with_holder(wish.holder.holder()), grace) {
            Ok(grants) => grants,
            Err(tried) => return tried,
        };
        // What the writes have caused, while the set still waits.
        self.read_notes(host);
        let Some(delivery) = self.granted_all(told, members, &grants) else {
            // Its client went within the very writes that have granted it its locks.
            self.agenda.to_release.extend(untold(database, &keys, wish.holder, wish.side));
            return Tried::Granted;
        };
        let token = grants.first().and_then(|grant| grant.token);
        host.watch(self);
        super::serve::deliver(host, delivery, Outcome::Granted { token });
        for ((lock, _), grant) in names.iter().zip(&grants) {
            if let Some(end) = grant.end {
                self.recheck_by(*lock, end.saturating_add(1));
            }
        }
        Tried::Granted
    }

    /// Takes out a set that is granted its locks. What a blocked client was granted is kept until it is told.
    fn granted_all(&mut self, told: Ticket, members: &[Ticket], grants: &[Grant]) -> Option<Delivery<C>> {
        let first = grants.first()?;
        let locks: Vec<_> = members.iter().filter_map(|member| self.queues.lock_of(*member)).collect();
        let hands_off = locks.iter().any(|lock| self.queues.kept(*lock).is_some_and(|notes| notes.released));
        let names = locks.iter().filter_map(|lock| self.queues.name(*lock));
        let keys: Vec<_> = names.map(|(_, key)| key).collect();
        self.counters.hand_offs = self.counters.hand_offs.wrapping_add(u64::from(hands_off));
        for member in members.iter().skip(1) {
            self.take(*member, true);
        }
        let left = self.take(told, true)?;
        self.counters.waited.add(first.at.saturating_sub(left.since));
        self.serving = Some((self.serving.map_or(first.at, |(begun, _)| begun), first.at));
        let tokens = grants.iter().filter_map(|grant| grant.token).collect();
        let (database, wish) = (left.database, left.waiter.wish());
        Some(match left.waiter.recipient {
            Recipient::Client(client) => {
                let untold = untold(database, &keys, wish.holder, wish.side);
                self.untold.extend(untold.map(|untold| (told, untold)));
                Delivery::AnswerAll { client, tokens }
            }
            Recipient::Session(session) => {
                let (key, others) = keys.split_first()?;
                let beside = Some(Box::new(Beside { keys: others.to_vec(), tokens }));
                let (key, outcome) = (Rc::clone(key), Outcome::Granted { token: first.token });
                let (names, side, fenced) = (wish.holder, wish.side, wish.fenced);
                let event = Event { seq: 0, names, outcome, database, key, side, fenced, beside };
                self.happened(session, event, first.at)
            }
            Recipient::Of(_) => Delivery::Later,
        })
    }
}

fn untold(database: i32, keys: &[Rc<[u8]>], holder: Names, side: Side) -> Option<Untold> {
    let (key, others) = keys.split_first()?;
    Some(Untold { database, key: Rc::clone(key), others: others.into(), holder, side })
}

fn look<H: Host, C>(host: &H, lock: LockName<'_>, wait: &Waiter<C>, grace: Grace) -> Result<Verdict, Refusal> {
    let _selected = host.select(lock.database);
    let (key, holder) = (host.own(lock.key), host.own(wait.holder()));
    let record = host.open(host.lend(&key), host.lend(&holder));
    lock::acquire(&record, &wait.wish(), Ahead::Nobody, grace, host.now())
}

/// Acquires all of these locks, of the selected database, or none of them.
///
/// # Errors
/// With none of them held.
pub(super) fn acquire_all<H: Host, K: AsRef<[u8]>>(
    host: &H,
    keys: &[K],
    wish: &lock::Wish<&[u8]>,
    grace: Grace,
) -> Result<Vec<Grant>, Tried> {
    let holder = host.own(wish.holder);
    let keys: Vec<_> = keys.iter().map(|key| host.own(key.as_ref())).collect();
    let mut grants: Vec<Grant> = Vec::with_capacity(keys.len());
    for key in &keys {
        let holder = host.lend(&holder);
        let record = host.open(host.lend(key), holder);
        let at = host.now();
        // What another module does within our writes may have changed a lock since it was looked at.
        let tried = match lock::acquire(&record, wish, Ahead::Nobody, grace, at) {
            Ok(Verdict::Granted(effect)) => match host.commit(record, &Plan::of(holder, &effect.changes)) {
                Ok(()) => {
                    grants.push(Grant::of(&effect, at));
                    continue;
                }
                Err(paused) => Tried::Later(paused.for_ms),
            },
            Ok(Verdict::Busy(_)) => Tried::Lacks,
            Err(refusal) => Tried::Told(Outcome::Refused(refusal)),
        };
        for key in keys.iter().take(grants.len()) {
            give_back(host, host.lend(key), holder);
        }
        return Err(tried);
    }
    Ok(grants)
}

/// Gives one hold back that was acquired just now, and of which nobody knows.
fn give_back<'a, H: Host>(host: &'a H, key: H::Text<'a>, holder: H::Text<'a>) {
    let record = host.open(key, holder);
    let want = Release { side: None, lease: None, all: false };
    if let Ok(decision) = lock::release(&record, want, Grace::default(), host.now()) {
        // Refused only while writes are paused; the hold then ends with its lease.
        _ = host.commit(record, &Plan::of(holder, &decision.changes));
    }
}
