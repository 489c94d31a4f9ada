//! A session's events: what became of its tickets, until the session says that it knows.
//!
//! Each event is told once on a connection. What was told but not acknowledged is told once more on the next
//! connection, since the answer may have been lost with the former one.

use super::Map;
use super::agenda::Hold;
use super::waiter::Names;
use crate::lock::{Outcome, Side};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// What became of a ticket.
#[derive(Clone, Debug)]
pub struct Event {
    pub seq: u64,
    pub names: Names,
    pub outcome: Outcome,
    pub(super) database: i32,
    pub(super) key: Rc<[u8]>,
    pub(super) side: Side,
    /// The hold that was granted, until it is renewed or given back: then it is the lease's business alone.
    pub(super) hold: Option<Hold>,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: BTreeMap<u64, Event>,
    by_ticket: Map<ByTicket, u64>,
    last: u64,
    /// The last event that was told on the present connection.
    told: u64,
    /// The last event that was ever told.
    told_before: u64,
}

/// An event's names, found by the ticket's alone.
#[derive(Debug)]
struct ByTicket(Names);

impl Borrow<[u8]> for ByTicket {
    fn borrow(&self) -> &[u8] {
        self.0.ticket()
    }
}

impl Hash for ByTicket {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.ticket().hash(state);
    }
}

impl PartialEq for ByTicket {
    fn eq(&self, other: &Self) -> bool {
        self.0.ticket() == other.0.ticket()
    }
}

impl Eq for ByTicket {}

impl Outbox {
    /// The number of events that are not acknowledged.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether the session has not been told of all events on its present connection.
    pub fn has_news(&self) -> bool {
        self.told < self.last && self.events.range(self.told.saturating_add(1)..).next().is_some()
    }

    pub fn next_seq(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// `event` has the number that [`Self::next_seq`] gave last.
    pub fn push(&mut self, event: Event) {
        self.by_ticket.insert(ByTicket(event.names.clone()), event.seq);
        self.events.insert(event.seq, event);
    }

    /// A new connection is told of everything once more.
    pub fn tell_again(&mut self) {
        self.told = 0;
    }

    /// The next events to tell, oldest first. They count as told.
    pub fn take_news(&mut self, limit: usize) -> Vec<Event> {
        let news: Vec<_> =
            self.events.range(self.told.saturating_add(1)..).take(limit).map(|(_, event)| event.clone()).collect();
        if let Some(last) = news.last() {
            self.told = last.seq;
            self.told_before = self.told_before.max(last.seq);
        }
        news
    }

    /// The last event that was ever told: what may be acknowledged.
    pub fn told_before(&self) -> u64 {
        self.told_before
    }

    /// Takes the first event up to this number.
    pub fn take_up_to(&mut self, seq: u64) -> Option<Event> {
        let first = *self.events.first_key_value().filter(|(first, _)| **first <= seq)?.0;
        self.remove(first)
    }

    /// Takes the last event.
    pub fn take_last(&mut self) -> Option<Event> {
        let last = *self.events.last_key_value()?.0;
        self.remove(last)
    }

    fn remove(&mut self, seq: u64) -> Option<Event> {
        let event = self.events.remove(&seq)?;
        self.by_ticket.remove(event.names.ticket());
        if self.by_ticket.is_empty() && self.by_ticket.capacity() > FEW {
            self.by_ticket = Map::default();
        }
        Some(event)
    }

    pub fn of_ticket(&self, ticket: &[u8]) -> Option<&Event> {
        self.events.get(self.by_ticket.get(ticket)?)
    }

    pub fn take_of_ticket(&mut self, ticket: &[u8]) -> Option<Event> {
        self.remove(*self.by_ticket.get(ticket)?)
    }

    pub fn get_mut(&mut self, seq: u64) -> Option<&mut Event> {
        self.events.get_mut(&seq)
    }
}

/// With fewer events, the room for them is kept.
const FEW: usize = 2_048;
