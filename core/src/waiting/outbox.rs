//! A session's events: what became of its tickets, until the session says that it knows.
//!
//! Each event is told once on a connection. What was told but not acknowledged is told once more on the next
//! connection, since the answer may have been lost with the former one.

use super::waiter::Names;
use crate::lock::{Outcome, Side};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::hash::BuildHasher;
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
    /// Of a ticket for several locks, what is told of those beside the first one.
    pub(super) beside: Option<Box<Beside>>,
}

/// What is kept of a wait for several locks, but for the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    pub keys: Vec<Rc<[u8]>>,
    /// Of all locks, if any were asked for.
    pub tokens: Vec<i64>,
}

impl Event {
    /// The room that it takes in a reply, or a little more. The lease of each lock is looked up for the reply, so a grant of
    /// several locks counts more than it takes.
    fn bytes(&self) -> usize {
        let rest = match self.outcome {
            Outcome::Granted { .. } | Outcome::Busy { .. } => 64,
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
    /// In the order of their numbers. No piece is empty, except one that is alone.
    pieces: VecDeque<Piece>,
    /// The number of events and of gaps in the pieces.
    kept: usize,
    length: usize,
    /// Acknowledged events whose memory is still to be freed.
    spent: VecDeque<Piece>,
    /// The number of events and of gaps among those.
    spent_length: usize,
    /// The locks of all these events other than each event's first one.
    beside: usize,
    /// The hash of each ticket's name, and the number of its event. A tree, as a hash table that grows would move a million
    /// entries at once.
    by_ticket: BTreeSet<(u32, u64)>,
    hasher: RandomState,
    /// The last event that there was.
    last: u64,
    /// The last event that was told on the present connection.
    told: u64,
    /// The last event that was ever told.
    told_before: u64,
}

/// The size of a piece: no event is moved when a million of them are acknowledged, or one more has to be kept.
const PIECE: usize = 256;

/// Consecutive events, and the gaps between them.
#[derive(Debug, Default)]
struct Piece {
    kept: VecDeque<Kept>,
    /// The number of events. A piece without any is dropped.
    events: usize,
    /// The number of the last one, here as well: to read it from thousands of pieces would take some ms.
    last: u64,
}

/// An event, or the gap where a ticket was cancelled: there is none at the ends.
#[derive(Debug)]
struct Kept {
    seq: u64,
    event: Option<Event>,
}

impl Piece {
    fn last_seq(&self) -> Option<u64> {
        (!self.kept.is_empty()).then_some(self.last)
    }
}

/// What is found by ticket is what is kept.
impl fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pieces, spent, last, told, told_before, .. } = self;
        let kept: Vec<_> = pieces.iter().flat_map(|piece| &piece.kept).collect();
        let mut outbox = formatter.debug_struct("Outbox");
        outbox.field("kept", &kept).field("spent", spent).field("last", last).field("told", told);
        outbox.field("told_before", told_before);
        outbox.finish_non_exhaustive()
    }
}

/// What one lock of several counts in a reply: its token, and the look at its lease.
const LOCK_BYTES: usize = 40;

impl Outbox {
    /// The number of events that are not acknowledged.
    pub fn events(&self) -> usize {
        self.length
    }

    /// The same, with the gaps between them: they take memory as well.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The same, with what is acknowledged and not freed yet.
    pub fn in_memory(&self) -> usize {
        self.kept.saturating_add(self.spent_length)
    }

    /// The same, with one for each lock of an event.
    pub fn claims(&self) -> usize {
        self.in_memory().saturating_add(self.beside)
    }

    /// Gives the event its number.
    pub fn push(&mut self, mut event: Event) {
        self.last = self.last.saturating_add(1);
        event.seq = self.last;
        self.by_ticket.insert((self.hash(event.names.ticket()), event.seq));
        self.beside = self.beside.saturating_add(event.locks_beside());
        if self.pieces.back().is_none_or(|piece| piece.kept.len() >= PIECE) {
            self.pieces.push_back(Piece::default());
        }
        if let Some(piece) = self.pieces.back_mut() {
            piece.last = event.seq;
            piece.kept.push_back(Kept { seq: event.seq, event: Some(event) });
            piece.events = piece.events.saturating_add(1);
        }
        self.kept = self.kept.saturating_add(1);
        self.length = self.length.saturating_add(1);
    }

    /// Whether the session has not been told of all events on its present connection.
    pub fn has_news(&self) -> bool {
        // There is no gap at the end.
        self.pieces.back().and_then(Piece::last_seq).is_some_and(|last| last > self.told)
    }

    /// A new connection is told of everything once more.
    pub fn tell_again(&mut self) {
        self.told = 0;
    }

    /// The next events to tell, oldest first, at least one and no more than take so many bytes. They count as told.
    pub fn take_news(&mut self, bytes: usize) -> Vec<Event> {
        let told = self.told;
        let first = self.pieces.partition_point(|piece| piece.last_seq().is_some_and(|last| last <= told));
        let untold = self.pieces.range(first..).flat_map(|piece| {
            let from = piece.kept.partition_point(|kept| kept.seq <= told);
            piece.kept.range(from..).filter_map(|kept| kept.event.as_ref())
        });
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
        let first = self.pieces.front_mut()?.kept.front_mut().filter(|first| first.seq <= seq)?;
        let event = first.event.take()?;
        self.forget(0, &event);
        Some(event)
    }

    /// Drops all events up to this number, without freeing them. Returns whether there are any.
    pub fn spend_up_to(&mut self, seq: u64) -> bool {
        let spent_before = self.spent.len();
        while self.pieces.front().and_then(Piece::last_seq).is_some_and(|last| last <= seq) {
            self.pieces.pop_front().into_iter().for_each(|piece| self.spend(piece));
        }
        if let Some(piece) = self.pieces.front_mut() {
            let from = piece.kept.partition_point(|kept| kept.seq <= seq);
            if from > 0 {
                let kept = piece.kept.split_off(from);
                let events = kept.iter().filter(|kept| kept.event.is_some()).count();
                let last = piece.last;
                let spent = std::mem::replace(piece, Piece { kept, events, last });
                let of_both = spent.events.saturating_sub(events);
                self.spend(Piece { events: of_both, ..spent });
                self.drop_gaps_at_ends();
            }
        }
        self.spent.len() > spent_before
    }

    fn spend(&mut self, piece: Piece) {
        self.kept = self.kept.saturating_sub(piece.kept.len());
        self.spent_length = self.spent_length.saturating_add(piece.kept.len());
        self.length = self.length.saturating_sub(piece.events);
        self.spent.push_back(piece);
    }

    /// Frees one of the events that were dropped. Returns whether there was one.
    pub fn free_next(&mut self) -> bool {
        let Some(piece) = self.spent.front_mut() else { return false };
        let next = piece.kept.pop_front();
        self.spent_length = self.spent_length.saturating_sub(usize::from(next.is_some()));
        if piece.kept.is_empty() {
            self.spent.pop_front();
        }
        if let Some(event) = next.and_then(|next| next.event) {
            self.beside = self.beside.saturating_sub(event.locks_beside());
            self.by_ticket.remove(&(self.hash(event.names.ticket()), event.seq));
        }
        true
    }

    pub fn take_of_ticket(&mut self, ticket: &[u8]) -> Option<Event> {
        let (piece, place) = self.place_of(ticket)?;
        let event = self.pieces.get_mut(piece)?.kept.get_mut(place)?.event.take()?;
        self.forget(piece, &event);
        Some(event)
    }

    /// Takes out what is left of an event that was in this piece, and the gaps that are now at an end.
    fn forget(&mut self, number: usize, event: &Event) {
        self.length = self.length.saturating_sub(1);
        self.beside = self.beside.saturating_sub(event.locks_beside());
        self.by_ticket.remove(&(self.hash(event.names.ticket()), event.seq));
        let is_alone = self.pieces.len() == 1;
        let Some(piece) = self.pieces.get_mut(number) else { return };
        piece.events = piece.events.saturating_sub(1);
        if piece.events == 0 {
            self.kept = self.kept.saturating_sub(piece.kept.len());
            // The last one keeps its room for the next events.
            piece.kept.clear();
            if !is_alone {
                self.pieces.remove(number);
            }
        }
        self.drop_gaps_at_ends();
    }

    fn drop_gaps_at_ends(&mut self) {
        let is_gap = |kept: Option<&Kept>| kept.is_some_and(|kept| kept.event.is_none());
        while is_gap(self.pieces.front().and_then(|piece| piece.kept.front())) {
            self.pieces.front_mut().and_then(|piece| piece.kept.pop_front());
            self.kept = self.kept.saturating_sub(1);
        }
        while is_gap(self.pieces.back().and_then(|piece| piece.kept.back())) {
            self.pieces.back_mut().and_then(|piece| piece.kept.pop_back());
            self.kept = self.kept.saturating_sub(1);
        }
        if let Some(piece) = self.pieces.back_mut() {
            piece.last = piece.kept.back().map_or(0, |last| last.seq);
        }
    }

    pub fn of_ticket(&self, ticket: &[u8]) -> Option<&Event> {
        if self.length == 0 {
            return None;
        }
        let (piece, place) = self.place_of(ticket)?;
        self.pieces.get(piece)?.kept.get(place)?.event.as_ref()
    }

    fn hash(&self, ticket: &[u8]) -> u32 {
        u32::try_from(self.hasher.hash_one(ticket) >> 32).unwrap_or(0)
    }

    /// The place of a ticket's event, unless it is spent. Two names may have the same hash.
    fn place_of(&self, ticket: &[u8]) -> Option<(usize, usize)> {
        let hash = self.hash(ticket);
        self.by_ticket.range((hash, 0)..=(hash, u64::MAX)).find_map(|(_, seq)| {
            let (piece, place) = self.position(*seq)?;
            let event = self.pieces.get(piece)?.kept.get(place)?.event.as_ref()?;
            (event.names.ticket() == ticket).then_some((piece, place))
        })
    }

    /// The piece of an event, and its place there.
    fn position(&self, seq: u64) -> Option<(usize, usize)> {
        let number = self.pieces.partition_point(|piece| piece.last_seq().is_some_and(|last| last < seq));
        let place = self.pieces.get(number)?.kept.binary_search_by_key(&seq, |kept| kept.seq).ok()?;
        Some((number, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(outbox: &mut Outbox, ticket: &str) {
        let names = Names::of_ticket(b"ann", ticket.as_bytes());
        let (key, outcome) = (b"k"[..].into(), Outcome::NowReplica);
        let (side, fenced) = (Side::Plain, false);
        outbox.push(Event { seq: 0, names, outcome, database: 0, key, side, fenced, beside: None });
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
        assert!(outbox.spend_up_to(u64::MAX) && outbox.events() == 0 && outbox.kept() == 0 && !outbox.has_news());
        happened(&mut outbox, "f");
        assert_eq!(news(&mut outbox), [6]);
    }

    #[test]
    fn many_events_are_dropped_at_once_and_freed_one_by_one() {
        const EVENTS: usize = 10 * PIECE;
        let mut outbox = Outbox::default();
        (1..=EVENTS).for_each(|number| happened(&mut outbox, &number.to_string()));
        outbox.take_news(usize::MAX);
        // All of one piece, so that there is none of it any more; and one in the middle of another.
        for number in (PIECE + 1..=2 * PIECE).chain([3 * PIECE + 5]) {
            assert!(outbox.take_of_ticket(number.to_string().as_bytes()).is_some());
        }
        assert_eq!((outbox.events(), outbox.kept()), (EVENTS - PIECE - 1, EVENTS - PIECE));
        let last = 4 * PIECE + 7;
        assert!(outbox.spend_up_to(u64::try_from(last).unwrap()) && !outbox.spend_up_to(u64::try_from(last).unwrap()));
        let left = EVENTS - last;
        assert_eq!((outbox.events(), outbox.kept(), outbox.in_memory()), (left, left, EVENTS - PIECE));
        outbox.tell_again();
        assert_eq!(outbox.take_news(1).first().map(|event| event.seq), u64::try_from(last + 1).ok());
        assert!(outbox.of_ticket(b"1").is_none() && outbox.take_of_ticket(b"2").is_none());
        // A name that is used again is found while the first event of this name is freed.
        happened(&mut outbox, "1");
        let freed = std::iter::from_fn(|| outbox.free_next().then_some(())).count();
        assert_eq!((freed, outbox.in_memory()), (last - PIECE, left + 1));
        assert!(outbox.take_of_ticket(b"1").is_some() && outbox.of_ticket(b"3").is_none());
        assert_eq!(outbox.by_ticket.len(), left);
        outbox.spend_up_to(u64::MAX);
        while outbox.free_next() {}
        assert_eq!((outbox.kept(), outbox.by_ticket.len()), (0, 0));
    }
}
