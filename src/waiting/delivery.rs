//! How a session is told what became of its tickets; and which of its grants somebody has confirmed.
//!
//! A grant is confirmed once its event is acknowledged, or its hold renewed or released by its holder: then somebody
//! knows of it, and only its lease ends it. All others are revoked when their session ends.

use super::agenda::Hold;
use super::outbox::{Event, Outbox, Unconfirmed};
use super::queue::{LockName, Ticket};
use super::sessions::{EVENTS_UNREAD_MAX, NoSession, SessionId};
use super::table::Table;
use super::waiter::{Names, Wait};
use crate::lock::{Outcome, Side, UnixMs};
use std::rc::Rc;

/// What is to be done so that a waiter is told of its outcome.
pub enum Delivery<R> {
    /// The blocked client is answered.
    Answer { client: R, fenced: bool },
    /// The session's call is answered with all events.
    Wake(R),
    /// The session is told with its next call.
    Later,
}

/// What became of a ticket.
pub(super) struct Happened {
    pub names: Names,
    pub side: Side,
    pub database: i32,
    pub key: Rc<[u8]>,
    pub outcome: Outcome,
    pub unconfirmed: Option<Unconfirmed>,
}

/// What a ticket of this name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Free,
    /// It waits, or its event is not acknowledged, for this very wish.
    Same,
    Other,
}

/// What was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    Nothing,
    Ticket,
    /// A ticket with a grant that nobody has confirmed.
    Granted(Hold),
}

impl<R> Table<R> {
    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are sessions, or something is left of one: if only a hold that waits to be revoked.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        !self.sessions.is_empty() || !self.agenda.to_revoke.is_empty()
    }

    /// The number of open sessions that nobody attends.
    #[must_use]
    pub fn unattended_sessions(&self, now: UnixMs) -> usize {
        self.sessions.unattended(now)
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

    /// The events that the session has not been told of on its present connection, oldest first. They count as told.
    pub fn take_news(&mut self, id: SessionId, limit: usize) -> Vec<Event> {
        self.sessions.get_mut(id).map_or_else(Vec::new, |session| session.outbox.take_news(limit))
    }

    #[must_use]
    pub fn has_news(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.outbox.has_news())
    }

    /// What a ticket is used for, and whether it is for this wish.
    #[must_use]
    pub fn use_of(&self, id: SessionId, ticket: &[u8], lock: LockName<'_>, holder: &[u8], side: Side) -> Use {
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            let same_lock = self.queues.lock_of(waiting) == self.queues.find(lock);
            let is_same = |wait: &Wait<R>| same_lock && wait.holder() == holder && wait.side == side;
            return if self.queues.waiter(waiting).is_some_and(is_same) { Use::Same } else { Use::Other };
        }
        match self.sessions.get(id).and_then(|session| session.outbox.of_ticket(ticket)) {
            None => Use::Free,
            Some(event) => {
                let same_lock = event.database == lock.database && *event.key == *lock.key;
                if same_lock && event.names.holder() == holder && event.side == side { Use::Same } else { Use::Other }
            }
        }
    }

    fn waiting_ticket(&self, id: SessionId, name: &[u8]) -> Option<Ticket> {
        self.tickets.find(self.tickets.hash((id, name)), None).find_map(|place| {
            let ticket = self.queues.ticket_at(place)?;
            let wait = self.queues.waiter(ticket)?;
            (wait.session() == Some(id) && wait.ticket() == name).then_some(ticket)
        })
    }

    /// Notes a grant, until the session's process confirms it.
    pub(super) fn granted_to_session(
        &mut self,
        id: SessionId,
        hold: Hold,
        token: Option<i64>,
        now: UnixMs,
    ) -> Delivery<R> {
        let Hold { database, key, wish, end, era, .. } = hold;
        // What a holder is granted once more ends when the last of it does. A read hold has a lease of its own.
        if wish.side != Side::Read {
            self.for_unconfirmed(LockName { database, key: &key }, &wish.holder, |_, event| {
                if let Some(grant) = event.unconfirmed.as_mut().filter(|_| event.side != Side::Read) {
                    grant.end = end;
                }
            });
        }
        let unconfirmed = Some(Unconfirmed { lease: wish.lease, end, era });
        let (names, side, outcome) = (wish.holder, wish.side, Outcome::Granted { token });
        self.happened(id, Happened { names, side, database, key, outcome, unconfirmed }, now)
    }

    /// Has the session told what became of one of its tickets.
    pub(super) fn happened(&mut self, id: SessionId, happened: Happened, now: UnixMs) -> Delivery<R> {
        let Happened { names, side, database, key, outcome, unconfirmed } = happened;
        let Some(seq) = self.sessions.get(id).map(|session| session.outbox.next_seq()) else { return Delivery::Later };
        if unconfirmed.is_some() {
            self.unconfirmed.insert(LockName { database, key: &key }, names.holder(), (id, seq));
        }
        let event = Event { seq, names, outcome, database, key, side, unconfirmed };
        let kept = self.sessions.of_outbox(id, |outbox| {
            outbox.push(event);
            Some(outbox.kept())
        });
        if kept == Some(EVENTS_UNREAD_MAX.saturating_add(1)) {
            self.is_left(id);
        }
        self.sessions.take_poll(id, now).map_or(Delivery::Later, Delivery::Wake)
    }

    /// An event is no longer in its outbox: it need not be confirmed.
    pub(super) fn forget_event(&mut self, id: SessionId, event: &Event) {
        if event.unconfirmed.is_some() {
            let lock = LockName { database: event.database, key: &event.key };
            self.unconfirmed.remove(lock, event.names.holder(), (id, event.seq));
        }
    }

    /// Notes that a holder has renewed or released what it holds: so it knows of its grants.
    pub fn confirmed(&mut self, lock: LockName<'_>, holder: &[u8]) {
        // What is left to it may be another of its holds, even if it looks as it was granted.
        self.agenda.to_revoke.retain(|hold| {
            let is_theirs = hold.database == lock.database && *hold.key == *lock.key;
            !is_theirs || hold.wish.holder.holder() != holder
        });
        if self.unconfirmed.is_empty() {
            return;
        }
        let mut confirmed = Vec::new();
        self.for_unconfirmed(lock, holder, |id, event| {
            event.unconfirmed = None;
            confirmed.push((id, event.seq));
        });
        for event in confirmed {
            self.unconfirmed.remove(lock, holder, event);
        }
    }

    /// Notes that a lock begins anew with this holder: what it had of it before went with the lock, and is not to be
    /// taken for what it has now.
    pub fn begins(&mut self, lock: LockName<'_>, holder: &[u8]) {
        self.confirmed(lock, holder);
    }

    fn for_unconfirmed(&mut self, lock: LockName<'_>, holder: &[u8], mut change: impl FnMut(SessionId, &mut Event)) {
        for (id, seq) in self.unconfirmed.find(lock, holder) {
            let event = self.sessions.get_mut(id).and_then(|session| session.outbox.get_mut(seq));
            let is_theirs = |event: &&mut Event| {
                event.database == lock.database && *event.key == *lock.key && event.names.holder() == holder
            };
            if let Some(event) = event.filter(is_theirs) {
                change(id, event);
            }
        }
    }

    /// Takes a ticket back.
    pub(super) fn cancel(&mut self, id: SessionId, ticket: &[u8]) -> Cancelled {
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            self.leave(waiting);
            self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
            return Cancelled::Ticket;
        }
        let Some(event) = self.sessions.of_outbox(id, |outbox| outbox.take_of_ticket(ticket)) else {
            return Cancelled::Nothing;
        };
        self.forget_event(id, &event);
        match event.hold().filter(|hold| hold.era == self.era) {
            // Names are used again: nobody may lose a hold that is another than the granted one.
            Some(hold) => Cancelled::Granted(Hold { may_be_touched: true, ..hold }),
            None => Cancelled::Ticket,
        }
    }

    /// Ends a session. Returns the number of its tickets, and the call that waits; what is left of it goes by and by.
    pub fn end_session(&mut self, id: SessionId) -> (usize, Option<R>) {
        let Some(session) = self.sessions.get(id) else { return (0, None) };
        let tickets = session.tickets.length().saturating_add(session.outbox.events());
        let poll = self.sessions.end(id);
        self.agenda.ended.push_back(id);
        (tickets, poll)
    }

    /// Drops one thing that is left of a session that has ended. Returns whether there was one.
    pub(super) fn drop_next_of_ended(&mut self) -> bool {
        let Some(id) = self.agenda.ended.front().copied() else { return false };
        if let Some(event) = self.sessions.of_outbox(id, Outbox::take_last) {
            // The last first, as read holds are counted: the last of them has the highest number.
            self.forget_event(id, &event);
            if let Some(hold) = event.hold().filter(|hold| hold.era == self.era) {
                self.revoke(Hold { may_be_touched: true, ..hold });
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
