//! A session's events: the outcomes of its tickets, until the session acknowledges them.
//!
//! Each event is sent once on a connection. An event that was sent but not acknowledged is sent again on the next connection,
//! since the former one may have lost it.

use super::waiter::{AskedBy, Names};
use crate::lock::{Outcome, Side};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::rc::Rc;

/// If more events than this are not acknowledged, the process does not seem to read them.
pub const EVENTS_UNREAD_MAX: usize = 1_000;

/// What became of a ticket.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its number, which the outbox gives: within a session, each event has a higher number than the one before.
    pub seq: u64,
    pub names: Names,
    pub outcome: Outcome,
    pub(super) database: i32,
    pub(super) key: Rc<[u8]>,
    pub(super) side: Side,
    pub(super) fenced: bool,
    pub(super) asked_by: AskedBy,
    /// For a ticket for several locks: the outcome for its locks other than the first one.
    pub(super) beside: Option<Box<Beside>>,
}

/// The rest of a waiter's outcome, other than that for its first lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beside {
    pub keys: Vec<Rc<[u8]>>,
    /// The tokens of all locks, if tokens were asked for.
    pub tokens: Vec<i64>,
    /// The answer, for a client that waited by ONCE.
    pub answer: Option<Rc<[u8]>>,
}

impl Event {
    /// The room that it takes in a reply, or a little more. The lease of each lock is looked up for the reply, so a grant of
    /// several locks counts for more than its bytes.
    fn bytes(&self) -> usize {
        let rest = match self.outcome {
            Outcome::Granted { .. } | Outcome::Busy { .. } | Outcome::Answered => 64,
            Outcome::Refused(_) | Outcome::SlotMoved | Outcome::NowReplica | Outcome::Replaced => 256,
        };
        let locks = self.locks_beside().saturating_mul(LOCK_BYTES);
        self.names.ticket().len().saturating_add(rest).saturating_add(locks)
    }

    /// The fencing tokens of a ticket for several locks, in their order.
    #[must_use]
    pub fn tokens(&self) -> Option<&[i64]> {
        self.beside.as_ref().map(|beside| &*beside.tokens).filter(|tokens| !tokens.is_empty())
    }

    fn locks_beside(&self) -> usize {
        self.beside.as_ref().map_or(0, |beside| beside.keys.len())
    }

    /// The keys of all its locks, in the order in which they were asked for.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Rc<[u8]>> {
        std::iter::once(&self.key).chain(self.beside.iter().flat_map(|beside| &beside.keys))
    }
}

#[derive(Default)]
pub(super) struct Outbox {
    /// The events by their numbers, including acknowledged ones that are not freed yet. A tree, because a list or a table of a
    /// million events would move all of them at once when it grows.
    events: BTreeMap<u64, Box<Event>>,
    /// The hash of each ticket's name, and the number of its event.
    by_ticket: BTreeSet<(u32, u64)>,
    hasher: RandomState,
    /// The number of locks of all these events, without each event's first one.
    beside: usize,
    /// Every event up to this one is acknowledged.
    acknowledged: u64,
    /// The last event so far.
    last: u64,
    /// The last event that was sent on the present connection.
    told: u64,
    /// The last event that was sent on any connection.
    told_before: u64,
}

/// Omits the index by ticket: it follows from the events.
impl fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, acknowledged, last, told, told_before, .. } = self;
        let mut outbox = formatter.debug_struct("Outbox");
        outbox.field("events", events).field("acknowledged", acknowledged).field("last", last).field("told", told);
        outbox.field("told_before", told_before).finish_non_exhaustive()
    }
}

/// The bytes that each further lock counts in a reply: for its token, and for the lookup of its lease.
const LOCK_BYTES: usize = 40;

impl Outbox {
    /// The number of events that are not acknowledged, or not freed yet.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The same, with one for each lock of an event.
    pub fn claims(&self) -> usize {
        self.len().saturating_add(self.beside)
    }

    /// Whether more events than [`EVENTS_UNREAD_MAX`] are not acknowledged.
    pub fn is_unread(&self) -> bool {
        // Mostly there are few, and none has to be counted.
        self.len() > EVENTS_UNREAD_MAX && self.behind(self.acknowledged).nth(EVENTS_UNREAD_MAX).is_some()
    }

    /// The events with a number above this one.
    fn behind(&self, seq: u64) -> impl Iterator<Item = &Event> {
        self.events.range((Bound::Excluded(seq), Bound::Unbounded)).map(|(_, event)| &**event)
    }

    /// Gives the event its number.
    pub fn push(&mut self, mut event: Event) {
        self.last = self.last.saturating_add(1);
        event.seq = self.last;
        self.by_ticket.insert((self.hash(event.names.ticket()), event.seq));
        self.beside = self.beside.saturating_add(event.locks_beside());
        self.events.insert(event.seq, Box::new(event));
    }

    /// The last event that need not be sent on the present connection.
    fn known(&self) -> u64 {
        self.told.max(self.acknowledged)
    }

    /// Whether some events have not been sent on the present connection.
    pub fn has_news(&self) -> bool {
        self.events.last_key_value().is_some_and(|(last, _)| *last > self.known())
    }

    /// A new connection gets all events again.
    pub fn tell_again(&mut self) {
        self.told = 0;
    }

    /// The next events to send, oldest first, at least one and at most so many bytes. They count as sent.
    pub fn take_news(&mut self, bytes: usize) -> Vec<Event> {
        let mut taken = 0_usize;
        let fits = |event: &&Event| {
            let is_first = taken == 0;
            taken = taken.saturating_add(event.bytes());
            is_first || taken <= bytes
        };
        let news: Vec<_> = self.behind(self.known()).take_while(fits).cloned().collect();
        if let Some(last) = news.last() {
            self.told = last.seq;
            self.told_before = self.told_before.max(last.seq);
        }
        news
    }

    /// The last event that was sent on any connection: the highest that may be acknowledged.
    pub fn told_before(&self) -> u64 {
        self.told_before
    }

    /// Every event up to this one is done with. [`Self::free_next`] frees their memory.
    pub fn acknowledge(&mut self, seq: u64) {
        self.acknowledged = self.acknowledged.max(seq);
    }

    /// Frees one of the acknowledged events. Returns whether there was one.
    pub fn free_next(&mut self) -> bool {
        let first = self.events.first_key_value().map(|(seq, _)| *seq).filter(|seq| *seq <= self.acknowledged);
        first.and_then(|seq| self.take(seq)).is_some()
    }

    pub fn take_of_ticket(&mut self, ticket: &[u8]) -> Option<Event> {
        let seq = self.of_ticket(ticket)?.seq;
        self.take(seq)
    }

    fn take(&mut self, seq: u64) -> Option<Event> {
        let event = self.events.remove(&seq)?;
        self.beside = self.beside.saturating_sub(event.locks_beside());
        self.by_ticket.remove(&(self.hash(event.names.ticket()), seq));
        Some(*event)
    }

    /// The event of this ticket, if it is not acknowledged. Two names may have the same hash.
    pub fn of_ticket(&self, ticket: &[u8]) -> Option<&Event> {
        if self.events.is_empty() {
            return None;
        }
        let hash = self.hash(ticket);
        let mut found = self.by_ticket.range((hash, self.acknowledged.saturating_add(1))..=(hash, u64::MAX));
        found.find_map(|(_, seq)| self.events.get(seq).map(|event| &**event).filter(|it| it.names.ticket() == ticket))
    }

    fn hash(&self, ticket: &[u8]) -> u32 {
        u32::try_from(self.hasher.hash_one(ticket) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(outbox: &mut Outbox, ticket: &str) {
        let names = Names::of_ticket(b"ann", ticket.as_bytes());
        let (key, outcome) = (b"k"[..].into(), Outcome::NowReplica);
        let (side, fenced) = (Side::Plain, false);
        outbox.push(Event {
            seq: 0,
            names,
            outcome,
            database: 0,
            key,
            side,
            fenced,
            asked_by: AskedBy::Acquire,
            beside: None,
        });
    }

    fn news(outbox: &mut Outbox) -> Vec<u64> {
        outbox.take_news(2 * 257).into_iter().map(|event| event.seq).collect()
    }

    #[test]
    fn events_are_told_once_on_a_connection_until_they_are_acknowledged() {
        let mut outbox = Outbox::default();
        assert_eq!((news(&mut outbox), outbox.has_news()), (vec![], false));
        for ticket in ["a", "b", "c"] {
            happened(&mut outbox, ticket);
        }
        assert_eq!((news(&mut outbox), outbox.told_before()), (vec![1, 2], 2));
        assert_eq!((news(&mut outbox), news(&mut outbox)), (vec![3], vec![]));
        outbox.acknowledge(1);
        outbox.tell_again();
        assert_eq!((news(&mut outbox), news(&mut outbox), outbox.told_before()), (vec![2, 3], vec![], 3));
        assert!(outbox.free_next() && !outbox.free_next());
        happened(&mut outbox, "d");
        assert_eq!(news(&mut outbox), [4]);
    }

    #[test]
    fn a_ticket_that_is_taken_back_has_no_event() {
        let mut outbox = Outbox::default();
        for ticket in ["a", "b", "c", "d"] {
            happened(&mut outbox, ticket);
        }
        assert_eq!(outbox.take_of_ticket(b"b").map(|event| event.seq), Some(2));
        assert!(outbox.take_of_ticket(b"b").is_none() && outbox.of_ticket(b"b").is_none());
        assert_eq!((news(&mut outbox), outbox.len()), (vec![1, 3], 3));
        assert_eq!(outbox.take_of_ticket(b"d").map(|event| event.seq), Some(4));
        assert!(!outbox.has_news());
        happened(&mut outbox, "e");
        assert_eq!((news(&mut outbox), outbox.len()), (vec![5], 3));
    }

    #[test]
    fn acknowledged_events_are_gone_at_once_and_freed_one_by_one() {
        const EVENTS: usize = 10 * EVENTS_UNREAD_MAX;
        let mut outbox = Outbox::default();
        (1..=EVENTS).for_each(|number| happened(&mut outbox, &number.to_string()));
        outbox.take_news(usize::MAX);
        let few = EVENTS - EVENTS_UNREAD_MAX;
        outbox.acknowledge(u64::try_from(few - 1).unwrap());
        assert!(outbox.is_unread());
        outbox.acknowledge(u64::try_from(few).unwrap());
        assert!(!outbox.is_unread() && outbox.of_ticket(b"1").is_none() && outbox.take_of_ticket(b"2").is_none());
        outbox.tell_again();
        assert_eq!(outbox.take_news(1).first().map(|event| event.seq), u64::try_from(few + 1).ok());
        // A name that is used again is found while the first event of this name is not freed.
        happened(&mut outbox, "1");
        assert!(outbox.of_ticket(b"1").is_some());
        let freed = std::iter::from_fn(|| outbox.free_next().then_some(())).count();
        assert_eq!((freed, outbox.len(), outbox.by_ticket.len()), (few, EVENTS - few + 1, EVENTS - few + 1));
    }
}
