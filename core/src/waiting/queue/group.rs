//! Waiters that belong together, such as the tickets of a session: they are passed over together, and keep their places.
//!
//! Those that are passed over stand beside their queues, in the order of coming, and so do those that are back.

use super::super::store::{List, Place};
use super::{LockId, Queues, Stands, Ticket};

/// The waiters that are passed over together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    pub(super) id: Place,
    pub(super) all: List,
    pub(super) length: usize,
    pub(super) passed_over: List,
}

impl Group {
    /// Each group has a number of its own.
    #[must_use]
    pub fn new(id: Place) -> Self {
        Self { id, ..Self::default() }
    }

    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether one of them is passed over now.
    #[must_use]
    pub fn has_passed_over(&self) -> bool {
        self.passed_over.first().is_some()
    }
}

impl<W, L: Default> Queues<W, L> {
    /// Counts a waiter among a group.
    pub fn enlist(&mut self, ticket: Ticket, group: &mut Group) {
        if self.waiting(ticket).is_some() {
            group.all.push(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_group);
            group.length = group.length.saturating_add(1);
        }
    }

    /// One of a group's waiters; the next time, another one.
    pub fn next_of(&mut self, group: &mut Group) -> Option<Ticket> {
        let place = group.all.first()?;
        group.all.remove(&mut self.waiters, place, |waiting| &mut waiting.in_group);
        group.all.push(&mut self.waiters, place, |waiting| &mut waiting.in_group);
        self.ticket_at(place)
    }

    /// Passes over the first of a queue, which keeps its place.
    pub fn pass_over(&mut self, ticket: Ticket, group: &mut Group) {
        let Some(waiting) = self.waiters.get_mut(ticket.place).filter(|waiting| waiting.number == ticket.number) else {
            return;
        };
        let lock = waiting.lock;
        match std::mem::replace(&mut waiting.stands, Stands::PassedOver) {
            Stands::InQueue => self.remove_from_queue(lock, ticket.place),
            Stands::Back => _ = self.back.remove(&(lock, ticket)),
            Stands::PassedOver => return,
        }
        self.passed_over.insert((lock, ticket));
        self.passed_over_by_group.insert((lock, group.id, ticket));
        group.passed_over.push(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_queue);
    }

    /// Puts one of the group that was passed over back into its place. Returns the lock that it waits for.
    pub fn put_back(&mut self, group: &mut Group) -> Option<LockId> {
        let place = group.passed_over.first()?;
        let ticket = self.ticket_at(place)?;
        self.put_ticket_back(ticket, group);
        self.lock_of(ticket)
    }

    /// Puts the first of the group that was passed over for this lock back into its place.
    pub fn put_first_back(&mut self, lock: LockId, group: &mut Group) {
        let (first, last) = (Ticket { number: 0, place: 0 }, Ticket { number: u64::MAX, place: Place::MAX });
        let range = (lock.place, group.id, first)..=(lock.place, group.id, last);
        if let Some((.., ticket)) = self.passed_over_by_group.range(range).next().copied() {
            self.put_ticket_back(ticket, group);
        }
    }

    fn put_ticket_back(&mut self, ticket: Ticket, group: &mut Group) {
        group.passed_over.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_queue);
        let Some(waiting) = self.waiters.get_mut(ticket.place) else { return };
        waiting.stands = Stands::Back;
        let lock = waiting.lock;
        self.passed_over.remove(&(lock, ticket));
        self.passed_over_by_group.remove(&(lock, group.id, ticket));
        self.back.insert((lock, ticket));
    }
}
