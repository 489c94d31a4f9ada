//! A session's events: what became of its tickets, until the session says that it knows.
//!
//! Each event is told once on a connection. What was told but not acknowledged is told once more on the next
//! connection, since the answer may have been lost with the former one.

use super::Map;
use super::agenda::{AsGranted, Hold};
use super::databases::Database;
use super::waiter::Names;
use crate::lock::{Lease, Outcome, Side, Wish};
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// What became of a ticket.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its number: of the events of a session each has a higher one than the one before. The outbox gives it.
    pub seq: u64,
    pub names: Names,
    pub outcome: Outcome,
    pub(super) database: i32,
    pub(super) key: Rc<[u8]>,
    pub(super) side: Side,
    pub(super) fenced: bool,
    pub(super) granted: Option<Granted>,
    /// Of a ticket for several locks, what is told of those beside the first one.
    pub(super) beside: Option<Box<Beside>>,
}

/// A key, and how it is held, if it was granted.
pub(super) type OtherLock = (Rc<[u8]>, Option<Rc<AsGranted>>);

/// What is kept of a wait for several locks, but for the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    pub locks: Vec<OtherLock>,
    /// Of all locks, if any were asked for.
    pub tokens: Vec<i64>,
}

/// What is kept of a grant beside its token.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub lease: Lease,
    pub home: Database,
    pub held: Rc<AsGranted>,
    /// See [`Hold::era`].
    pub era: u64,
}

impl Event {
    /// What it takes in a reply, or a little more.
    fn bytes(&self) -> usize {
        let rest = match self.outcome {
            Outcome::Granted { .. } | Outcome::Busy { .. } => 64,
            Outcome::Refused(_) | Outcome::SlotMoved | Outcome::NowReplica => 256,
        };
        let tokens = self.tokens().map_or(0, |tokens| tokens.len().saturating_mul(TOKEN_BYTES));
        self.names.ticket().len().saturating_add(rest).saturating_add(tokens)
    }

    /// The fencing tokens of a ticket for several locks, in their order.
    #[must_use]
    pub fn tokens(&self) -> Option<&[i64]> {
        self.beside.as_ref().map(|beside| &*beside.tokens).filter(|tokens| !tokens.is_empty())
    }

    /// The locks that were granted beside the first one.
    pub(super) fn held_beside(&self) -> impl Iterator<Item = (&[u8], &AsGranted)> {
        let locks = self.beside.iter().flat_map(|beside| &beside.locks);
        locks.filter_map(|(key, held)| Some((&**key, held.as_deref()?)))
    }

    /// The holds that were granted.
    pub(super) fn holds(self) -> impl Iterator<Item = Hold> {
        let Self { names, database, key, side, granted, beside, .. } = self;
        granted.into_iter().flat_map(move |Granted { lease, home, held, era }| {
            let wish = Wish { holder: names.clone(), side, lease, fenced: false };
            let others = beside.clone().map(|beside| beside.locks).unwrap_or_default();
            let first = (Rc::clone(&key), Some(held));
            std::iter::once(first).chain(others).filter_map(move |(key, held)| {
                Some(Hold { database, home, key, wish: wish.clone(), as_granted: held?, era })
            })
        })
    }
}

/// What is to be done so that a waiter is told of its outcome.
pub enum Delivery<C> {
    /// The blocked client is answered.
    Answer { client: C, fenced: bool },
    /// The same, with the fencing tokens of its locks, if it has asked for them.
    AnswerAll { client: C, tokens: Vec<i64> },
    /// The session's call is answered with all events.
    Wake(C),
    /// The session is told with its next call.
    Later,
}

#[derive(Default)]
pub(super) struct Outbox {
    /// In the order of their numbers.
    kept: VecDeque<Kept>,
    length: usize,
    by_ticket: Map<ByTicket, u64>,
    /// The last event that there was.
    last: u64,
    /// The last event that was told on the present connection.
    told: u64,
    /// The last event that was ever told.
    told_before: u64,
}

/// An event, or the gap where a ticket was cancelled: there is none at the ends.
#[derive(Debug)]
struct Kept {
    seq: u64,
    event: Option<Event>,
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

/// What is found by ticket is what is kept.
impl fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept, last, told, told_before, .. } = self;
        let mut outbox = formatter.debug_struct("Outbox");
        outbox.field("kept", kept).field("last", last).field("told", told).field("told_before", told_before);
        outbox.finish_non_exhaustive()
    }
}

/// What a token takes in a reply.
const TOKEN_BYTES: usize = 24;

/// With fewer events, the room for them is kept.
const FEW: usize = 2_048;

impl Outbox {
    /// The number of events that are not acknowledged.
    pub fn events(&self) -> usize {
        self.length
    }

    /// The same, with the gaps between them: they take room as well.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Gives the event its number.
    pub fn push(&mut self, mut event: Event) {
        self.last = self.last.saturating_add(1);
        event.seq = self.last;
        self.by_ticket.insert(ByTicket(event.names.clone()), event.seq);
        self.kept.push_back(Kept { seq: event.seq, event: Some(event) });
        self.length = self.length.saturating_add(1);
    }

    /// Whether the session has not been told of all events on its present connection.
    pub fn has_news(&self) -> bool {
        // There is no gap at the end.
        self.kept.back().is_some_and(|last| last.seq > self.told)
    }

    /// A new connection is told of everything once more.
    pub fn tell_again(&mut self) {
        self.told = 0;
    }

    /// The next events to tell, oldest first, at least one and no more than take so many bytes. They count as told.
    pub fn take_news(&mut self, bytes: usize) -> Vec<Event> {
        let told = self.kept.partition_point(|kept| kept.seq <= self.told);
        let untold = self.kept.range(told..).filter_map(|kept| kept.event.as_ref());
        let mut taken = 0_usize;
        let fits = |event: &&Event| {
            let is_first = taken == 0;
            taken = taken.saturating_add(event.bytes());
            is_first || taken <= bytes
        };
        let news: Vec<_> = untold.take_while(fits).cloned().collect();
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
        while self.kept.front().is_some_and(|first| first.seq <= seq) {
            if let Some(event) = self.kept.pop_front().and_then(|first| first.event) {
                self.forget(&event);
                return Some(event);
            }
        }
        None
    }

    /// Takes the last event, and says whether it was ever told.
    pub fn take_last(&mut self) -> Option<(Event, bool)> {
        let event = self.kept.pop_back()?.event?;
        self.forget(&event);
        let was_told = event.seq <= self.told_before;
        Some((event, was_told))
    }

    pub fn take_of_ticket(&mut self, ticket: &[u8]) -> Option<Event> {
        let seq = *self.by_ticket.get(ticket)?;
        let position = self.position(seq)?;
        let event = self.kept.get_mut(position)?.event.take()?;
        self.forget(&event);
        Some(event)
    }

    /// Takes out what is left of an event, and the gaps that are now at an end.
    fn forget(&mut self, event: &Event) {
        self.length = self.length.saturating_sub(1);
        self.by_ticket.remove(event.names.ticket());
        while self.kept.back().is_some_and(|last| last.event.is_none()) {
            self.kept.pop_back();
        }
        while self.kept.front().is_some_and(|first| first.event.is_none()) {
            self.kept.pop_front();
        }
        if self.length == 0 && self.by_ticket.capacity() > FEW {
            self.by_ticket = Map::default();
            self.kept.shrink_to(FEW);
        }
    }

    pub fn of_ticket(&self, ticket: &[u8]) -> Option<&Event> {
        if self.length == 0 {
            return None;
        }
        let position = self.position(*self.by_ticket.get(ticket)?)?;
        self.kept.get(position)?.event.as_ref()
    }

    fn position(&self, seq: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&seq, |kept| kept.seq).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(outbox: &mut Outbox, ticket: &str) {
        let names = Names::of_ticket(b"ann", ticket.as_bytes());
        let (key, outcome) = (b"k"[..].into(), Outcome::NowReplica);
        let (side, fenced) = (Side::Plain, false);
        outbox.push(Event { seq: 0, names, outcome, database: 0, key, side, fenced, granted: None, beside: None });
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
        assert_eq!(outbox.take_up_to(1).map(|event| event.seq), Some(1));
        assert!(outbox.take_up_to(1).is_none());
        outbox.tell_again();
        assert_eq!((news(&mut outbox), news(&mut outbox), outbox.told_before()), (vec![2, 3], vec![], 3));
        happened(&mut outbox, "d");
        assert_eq!(news(&mut outbox), [4]);
    }

    #[test]
    fn a_ticket_that_is_taken_back_leaves_a_gap() {
        let mut outbox = Outbox::default();
        for ticket in ["a", "b", "c", "d"] {
            happened(&mut outbox, ticket);
        }
        assert_eq!(outbox.take_of_ticket(b"b").map(|event| event.seq), Some(2));
        assert!(outbox.take_of_ticket(b"b").is_none() && outbox.of_ticket(b"b").is_none());
        assert_eq!((news(&mut outbox), outbox.events(), outbox.kept()), (vec![1, 3], 3, 4));
        assert_eq!(outbox.of_ticket(b"c").map(|event| event.seq), Some(3));
        assert_eq!(outbox.take_of_ticket(b"d").map(|event| event.seq), Some(4));
        assert_eq!((outbox.kept(), outbox.last), (3, 4), "no gap at the end");
        happened(&mut outbox, "e");
        assert_eq!((news(&mut outbox), outbox.kept()), (vec![5], 4));
        assert_eq!(outbox.take_of_ticket(b"a").map(|event| event.seq), Some(1));
        assert_eq!(outbox.kept(), 2, "none at the front");
        assert_eq!(outbox.take_up_to(4).map(|event| event.seq), Some(3));
        assert!(outbox.take_up_to(4).is_none());
        assert_eq!(outbox.take_last().map(|(event, was_told)| (event.seq, was_told)), Some((5, true)));
        assert!(outbox.take_last().is_none() && outbox.events() == 0 && outbox.kept() == 0 && !outbox.has_news());
        happened(&mut outbox, "f");
        assert_eq!(news(&mut outbox), [6]);
    }
}
