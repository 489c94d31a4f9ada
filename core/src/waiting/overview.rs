//! Waiters and sessions for people on call: how long each waiter waits, and how much each session keeps.
//!
//! [`Engine::sessions_to_be_shown`] walks through all sessions, since no order is kept for it: an operator asks once in a while, and
//! each call of a session would have to pay.

use super::claims::waiter_of;
use super::engine::Engine;
use super::queue::LockName;
use super::sessions::Session;
use super::waiter::{Names, Recipient, SessionId};
use crate::lock::{UnixMs, Wish};
use std::cmp::Reverse;
use std::rc::Rc;

/// About what a ticket and an event take of the server's memory, with names of some 40 bytes.
const TICKET_BYTES: usize = 220;
const EVENT_BYTES: usize = 300;

/// A waiter as people see it.
pub struct Queued<'a, C> {
    pub wish: Wish<Names>,
    pub recipient: SeenRecipient<'a, C>,
    /// When the waiter came.
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
    /// For how many locks it waits.
    pub locks: usize,
}

pub enum SeenRecipient<'a, C> {
    Client(&'a C),
    Session(SessionSummary),
}

/// A session as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its number: no other session has it, before or later.
    pub number: u64,
    pub name: Rc<[u8]>,
    /// The user that opened it.
    pub owner: Rc<[u8]>,
    /// The connection of its last call, if it is open.
    pub connection: Option<u64>,
    pub is_attended: bool,
    /// Tickets that wait.
    pub tickets: usize,
    /// Events that are not acknowledged.
    pub events: usize,
    /// When it ends if no call comes.
    pub ends: UnixMs,
    /// About what it takes of the server's memory.
    pub bytes: usize,
}

impl<C> Session<C> {
    fn summary(&self, now: UnixMs) -> SessionSummary {
        let (tickets, events) = (self.tickets.length(), self.outbox.len());
        let of_tickets = tickets.saturating_mul(TICKET_BYTES).saturating_add(events.saturating_mul(EVENT_BYTES));
        let own = size_of::<Self>().saturating_add(self.name.len()).saturating_add(self.owner.name.len());
        SessionSummary {
            number: self.number,
            name: Rc::clone(&self.name),
            owner: Rc::clone(&self.owner.name),
            connection: self.open_connection(),
            is_attended: self.is_attended(now),
            tickets,
            events,
            ends: self.ends(),
            bytes: own.saturating_add(of_tickets),
        }
    }
}

impl<C> Engine<C> {
    /// The waiters of a lock, from the first to the last.
    pub fn queue(&self, lock: LockName<'_>, now: UnixMs) -> impl Iterator<Item = Queued<'_, C>> {
        self.queues.waiters(lock).filter_map(move |(claim, wait)| {
            let waiter = waiter_of(&self.queues, claim);
            let recipient = match &self.queues.waiter(waiter)?.recipient {
                Recipient::Client(client) => SeenRecipient::Client(client),
                Recipient::Session(session) => SeenRecipient::Session(self.sessions.get(*session)?.summary(now)),
                Recipient::Of(_) => return None,
            };
            let (since, deadline) = (self.queues.since(claim).unwrap_or_default(), self.queues.deadline(waiter));
            Some(Queued { wish: wait.wish(), recipient, since, deadline, locks: self.claims.all(&waiter).len() })
        })
    }

    /// At most `limit` of the open sessions: those with the most tickets and events first, of equal ones the older.
    #[must_use]
    pub fn sessions_to_be_shown(&self, limit: usize, now: UnixMs) -> Vec<SessionSummary> {
        let size = |session: &Session<C>| session.tickets.length().saturating_add(session.outbox.len());
        let mut all: Vec<_> =
            self.sessions.open().map(|session| (Reverse(size(session)), session.number, session)).collect();
        let order = |entry: &(Reverse<usize>, u64, &Session<C>)| (entry.0, entry.1);
        if let Some(last) = limit.checked_sub(1).filter(|last| *last < all.len()) {
            all.select_nth_unstable_by_key(last, order);
            all.truncate(limit);
        }
        all.sort_unstable_by_key(order);
        all.into_iter().map(|(.., session)| session.summary(now)).collect()
    }

    /// The open session with this number.
    #[must_use]
    pub fn session_numbered(&self, number: u64) -> Option<SessionId> {
        self.sessions.open().find(|session| session.number == number).map(|session| session.id)
    }
}
