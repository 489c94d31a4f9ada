//! How a session is told what became of its tickets, and how its process takes them back by name; and which of its grants
//! are revoked.
//!
//! A grant that was in a reply belongs to whoever may have read it: only its lease ends it, whatever becomes of the
//! session, or its process takes the ticket back. What was in no reply is revoked when the session ends.
//!
//! A CANCEL may name more tickets than one turn of the server has time for. Then its client is blocked, the agenda has
//! the rest, and the client is answered when nothing of any of them is left: so a hold that cannot be given back yet has
//! its command wait. The tickets that were named but not come to are as they were, and may be granted meanwhile.

use super::agenda::{Cancelling, Hold};
use super::engine::Engine;
use super::outbox::{Delivery, Event, Outbox};
use super::queue::{LockName, Ticket};
use super::sessions::{EVENTS_UNREAD_MAX, NoSession};
use super::waiter::{SessionId, Waiter};
use crate::lock::{UnixMs, Wish};

/// What a ticket of this name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Free,
    /// It waits, or its event is not acknowledged, for this very wish.
    Same,
    Other,
}

impl<C> Engine<C> {
    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are sessions, or something is left of one.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The number of open sessions that nobody attends, as far as is noted.
    #[must_use]
    pub fn unattended_sessions(&self) -> usize {
        self.sessions.abandoned()
    }

    /// The number of tickets that wait.
    #[must_use]
    pub fn waiting_tickets(&self) -> usize {
        self.sessions.waiting
    }

    /// The number of events that are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.sessions.events
    }

    /// The open session of this name.
    ///
    /// # Errors
    /// If there is none, or it is another user's.
    pub fn session(&self, name: &[u8], owner: &[u8]) -> Result<SessionId, NoSession> {
        self.sessions.find(name, owner)
    }

    /// The events that the session has not been told of on its present connection, oldest first, as many as take so many
    /// bytes. They count as told.
    pub fn take_news(&mut self, id: SessionId, bytes: usize) -> Vec<Event> {
        self.sessions.get_mut(id).map_or_else(Vec::new, |session| session.outbox.take_news(bytes))
    }

    #[must_use]
    pub fn has_news(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.outbox.has_news())
    }

    /// What a ticket is used for, and whether it is for this wish.
    #[must_use]
    pub fn use_of(&self, id: SessionId, ticket: &[u8], lock: LockName<'_>, wish: &Wish<&[u8]>) -> Use {
        let is_wish = |holder: &[u8], side, fenced| (holder, side, fenced) == (wish.holder, wish.side, wish.fenced);
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            let same_lock = self.queues.lock_of(waiting) == self.queues.find(lock);
            let is_same = |wait: &Waiter<C>| same_lock && is_wish(wait.holder(), wait.side, wait.fenced);
            return if self.queues.waiter(waiting).is_some_and(is_same) { Use::Same } else { Use::Other };
        }
        match self.sessions.get(id).and_then(|session| session.outbox.of_ticket(ticket)) {
            None => Use::Free,
            Some(event) => {
                let same_lock = event.database == lock.database && *event.key == *lock.key;
                let is_same = same_lock && is_wish(event.names.holder(), event.side, event.fenced);
                if is_same { Use::Same } else { Use::Other }
            }
        }
    }

    pub(super) fn waiting_ticket(&self, id: SessionId, name: &[u8]) -> Option<Ticket> {
        self.tickets.find(self.tickets.hash((id, name)), None).find_map(|place| {
            let ticket = self.queues.ticket_at(place)?;
            let wait = self.queues.waiter(ticket)?;
            (wait.session() == Some(id) && wait.ticket() == name).then_some(ticket)
        })
    }

    /// Has the session told what became of one of its tickets.
    pub(super) fn happened(&mut self, id: SessionId, event: Event, now: UnixMs) -> Delivery<C> {
        let kept = self.sessions.of_outbox(id, |outbox| {
            outbox.push(event);
            Some(outbox.kept())
        });
        if kept == Some(EVENTS_UNREAD_MAX.saturating_add(1)) {
            self.abandon(id);
        }
        self.sessions.take_poll(id, now).map_or(Delivery::Later, Delivery::Wake)
    }

    /// Ends a session. Returns the number of its tickets, and the call that waits; what is left of it goes by and by.
    pub(super) fn close(&mut self, id: SessionId) -> (usize, Option<C>) {
        let Some(session) = self.sessions.get(id) else { return (0, None) };
        let tickets = session.tickets.length().saturating_add(session.outbox.events());
        let poll = self.sessions.end(id);
        self.agenda.ended.push_back(id);
        (tickets, poll)
    }

    /// Drops one thing that is left of a session that has ended. Returns whether there was one.
    pub(super) fn drop_next_of_ended(&mut self) -> bool {
        let Some(id) = self.agenda.ended.front().copied() else { return false };
        if let Some((event, was_told)) = self.sessions.of_outbox(id, Outbox::take_last) {
            // The last first, as read holds are counted: the last of them has the highest number.
            if let Some(hold) = event.hold().filter(|_| !was_told) {
                self.revoke_later(hold);
            }
        } else if let Some(ticket) =
            self.sessions.get_mut(id).and_then(|session| self.queues.next_of(&mut session.tickets))
        {
            self.leave(ticket);
            self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
        } else {
            self.agenda.ended.pop_front();
            self.sessions.drop_ended(id);
        }
        true
    }
}

/// What was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    Nothing,
    Ticket,
    /// A ticket with a grant that is not acknowledged.
    Granted(Hold),
}

impl<C> Engine<C> {
    /// Takes a ticket back. A session that has ended has none to be found.
    pub(super) fn take_back(&mut self, id: SessionId, ticket: &[u8]) -> Cancelled {
        if !self.sessions.is_open(id) {
            return Cancelled::Nothing;
        }
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            self.leave(waiting);
            self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
            return Cancelled::Ticket;
        }
        let Some(event) = self.sessions.of_outbox(id, |outbox| outbox.take_of_ticket(ticket)) else {
            return Cancelled::Nothing;
        };
        event.hold().map_or(Cancelled::Ticket, Cancelled::Granted)
    }

    /// Has these tickets taken back as well, and then the client told their number and that of those `found` before.
    pub(super) fn cancel_rest(&mut self, id: SessionId, names: Vec<Box<[u8]>>, found: usize, client: C) {
        let names = names.into_iter();
        self.cancelling.push_back(Cancelling { client: Some(client), session: id, names, found, hold: None });
    }

    /// Takes back a client whose tickets are being taken back, since it waits no longer.
    pub(super) fn stop_waiting_for_cancel(&mut self, is_it: impl Fn(&C) -> bool) -> Option<C> {
        let of_it = |cancelling: &&mut Cancelling<C>| cancelling.client.as_ref().is_some_and(&is_it);
        self.cancelling.iter_mut().find(of_it)?.client.take()
    }

    /// The next one to go on with.
    pub(super) fn take_cancelling(&mut self, now: UnixMs) -> Option<Cancelling<C>> {
        if self.cancelling.front()?.hold.is_some() && self.is_resting(now) {
            return None;
        }
        self.cancelling.pop_front()
    }

    /// Those that can go on come in turn.
    pub(super) fn put_back_cancelling(&mut self, cancelling: Cancelling<C>) {
        if cancelling.hold.is_some() {
            self.cancelling.push_front(cancelling);
        } else {
            self.cancelling.push_back(cancelling);
        }
    }
}
