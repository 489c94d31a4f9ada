//! ONCE and ANSWER: one holder does the work, and every caller gets its answer.
//!
//! The answer ends all waits by ONCE that began before it, at any place in the queue: those in front as soon as their lock is
//! checked, the others in slices. Other waiters are served in their order.
//!
//! A waiter gets the very value of ANSWER, even if the stored one is gone. A waiter that joined later found no stored answer,
//! and waits for the next.

use super::commands::{Acquiring, Rejected, Wait, may_go_on, name_of};
use super::engine::Engine;
use super::host::{Host, Kept, OwnText, Text, Trigger};
use super::outbox::Beside;
use super::queue::{LockId, Ticket};
use super::waiter::AskedBy;
use crate::lock::{self, Lease, Outcome, Plan, Record, Wish};
use std::rc::Rc;

/// An answer that some waiters of a lock are still to get.
#[derive(Debug)]
pub(super) struct Answering {
    value: Rc<[u8]>,
    /// A ticket later than each one that is to get the answer.
    before: Ticket,
    /// The last waiter that the sweep has passed: it does not wait by ONCE.
    passed: Option<Ticket>,
}

impl<C> Engine<C> {
    /// Gives the client of this command the stored answer, or acquires the lock for it as [`Self::acquire`] does.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn once<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        wish: &Wish<Text<'a, H>>,
        waiting: Option<Wait<'_>>,
    ) -> Result<Acquiring, Rejected> {
        // The lock is closed again before it is opened to be granted.
        let answer = stored(&host.open(key, wish.holder))?;
        match answer {
            Some(value) => {
                self.counters.answers_given = self.counters.answers_given.wrapping_add(1);
                Ok(Acquiring::Answered(value))
            }
            None => self.acquire_by(AskedBy::Once, host, key, wish, waiting),
        }
    }

    /// Stores the answer of a holder's work, and ends all its holds in the same step. Returns whether it held the lock; if
    /// not, nothing has changed.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn answer<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        holder: Text<'a, H>,
        (value, keep): (Text<'a, H>, Lease),
    ) -> Result<bool, Rejected> {
        may_go_on(host)?;
        if host.limit(Kept::AnswerBytes).is_some_and(|most| value.as_ref().len() > most.all) {
            return Err(Rejected::AnswerTooLong);
        }
        let record = host.open(key, holder);
        let now = host.now();
        let decision = lock::answer(&record, keep, now)?;
        if !decision.answer {
            return Ok(false);
        }
        let id = self.queues.find(name_of(host, &key));
        if let Some(id) = id {
            let answering = Answering { value: value.as_ref().into(), before: self.queues.watermark(), passed: None };
            self.answering.insert(id, answering);
        }
        let plan = Plan { answer: Some(value), ..Plan::of(holder, &decision.changes) };
        if let Err(paused) = self.release_open(host, key, record, &plan, Trigger::Command, now) {
            id.map(|id| self.answering.remove(&id));
            return Err(paused.into());
        }
        self.counters.answers_stored = self.counters.answers_stored.wrapping_add(1);
        Ok(true)
    }

    /// Gives the next waiter its answer, or passes a waiter that does not wait for it. Returns whether there was one.
    pub(super) fn answer_next<H: Host<Client = C>>(&mut self, host: &H) -> bool {
        let Some(mut first) = self.answering.first_entry() else { return false };
        let (lock, answering) = (*first.key(), first.get_mut());
        let next = self.queues.next_of_all(lock, answering.passed).filter(|next| *next < answering.before);
        let Some(next) = next else {
            first.remove();
            return true;
        };
        if self.queues.waiter(next).is_some_and(|wait| wait.asked_by == AskedBy::Once) {
            let value = Rc::clone(&answering.value);
            self.give_answer(host, next, value);
        } else {
            answering.passed = Some(next);
        }
        true
    }

    /// The answer that a waiter is to get: the one that ended its wait, or the one that is stored now.
    pub(super) fn answer_for<H: Host<Client = C>>(&self, host: &H, waiter: Ticket) -> Option<Rc<[u8]>> {
        let wait = self.queues.waiter(waiter).filter(|wait| wait.asked_by == AskedBy::Once)?;
        let lock = self.queues.lock_of(waiter)?;
        self.answer_under_way(lock, waiter).or_else(|| {
            let (database, key) = self.queues.name(lock)?;
            let _selected = host.select(database);
            let (key, holder) = (host.own(&key), host.own(wait.holder()));
            stored(&host.open(key.lend(), holder.lend())).ok().flatten()
        })
    }

    /// Whether a waiter is to be given an answer, and not the lock. `record` is of its lock.
    pub(super) fn has_answer_for(&self, lock: LockId, waiter: Ticket, record: &impl Record) -> bool {
        let is_by_once = self.queues.waiter(waiter).is_some_and(|wait| wait.asked_by == AskedBy::Once);
        let is_stored = || record.with_answer(|answer| answer.is_some()) == Ok(true);
        is_by_once && (self.answer_under_way(lock, waiter).is_some() || is_stored())
    }

    fn answer_under_way(&self, lock: LockId, waiter: Ticket) -> Option<Rc<[u8]>> {
        let answering = self.answering.get(&lock).filter(|answering| waiter < answering.before)?;
        Some(Rc::clone(&answering.value))
    }

    /// Takes out a waiter that gets this answer.
    pub(super) fn give_answer<H: Host<Client = C>>(&mut self, host: &H, waiter: Ticket, value: Rc<[u8]>) {
        let Some(left) = self.leave(waiter) else { return };
        self.counters.answers_given = self.counters.answers_given.wrapping_add(1);
        let beside = Beside { answer: Some(value), ..Beside::default() };
        self.tell(host, left, Outcome::Answered, beside, host.now());
    }
}

/// The answer that is stored now.
fn stored(record: &impl Record) -> Result<Option<Rc<[u8]>>, lock::Refusal> {
    record.with_answer(|answer| answer.map(|(value, _)| value.into()))
}
