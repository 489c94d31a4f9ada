//! How a session gets the outcomes of its tickets, and how its process takes them back by name.
//!
//! A grant belongs to its holder from the moment it is made: neither the end of the session nor that of the ticket ends it.
//!
//! A CANCEL may name more tickets than one turn of the server has time for. Then its client is blocked, the agenda has the rest,
//! and the client gets its reply when all of them are taken back. Tickets that were not reached yet stay in the queue, and may
//! be granted meanwhile.

use super::agenda::Cancelled;
use super::engine::Engine;
use super::host::{Act, Answer, Host, OwnText};
use super::outbox::{Event, Outbox};
use super::queue::{LockName, Ticket};
use super::sessions::{Most, NoSession};
use super::waiter::{AskedBy, SessionId, Waiter};
use crate::lock::{Outcome, UnixMs, Wish};
use std::rc::Rc;

/// What a ticket of this name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Free,
    /// It waits, or its event is not acknowledged, for this very wish.
    Same,
    Other,
}

impl<C> Engine<C> {
    /// The open session of this name.
    ///
    /// # Errors
    /// If there is none, or it is another user's.
    pub fn session(&self, name: &[u8], owner: &[u8]) -> Result<SessionId, NoSession> {
        self.sessions.find(name, owner)
    }

    /// The events that were not sent on the present connection, oldest first, as many as fit into `bytes`; each grant with the
    /// ms left of its lease. They count as sent.
    ///
    /// For that long, the process believes that it holds the lock, without asking. So each lock is checked now: another client
    /// may have broken it, or shortened its lease, since it was granted.
    pub fn take_news<H: Host<Client = C>>(
        &mut self,
        host: &H,
        id: SessionId,
        bytes: usize,
    ) -> Vec<(Event, Option<i64>)> {
        let news = self.sessions.get_mut(id).map_or_else(Vec::new, |session| session.outbox.take_news(bytes));
        let with_time = |event: Event| {
            let is_granted = matches!(event.outcome, Outcome::Granted { .. });
            let left_ms = is_granted.then(|| self.left_ms(host, &event));
            (event, left_ms)
        };
        let told = news.into_iter().map(with_time).collect();
        self.read_notes(host);
        told
    }

    /// The ms left of a grant's lease; for several locks, of the first lease to end. Also 0 if not known, as on a replica.
    fn left_ms<H: Host<Client = C>>(&self, host: &H, event: &Event) -> i64 {
        if self.is_replica || !host.allows(Act::TouchAnyKey) {
            return 0;
        }
        let _selected = host.select(event.database);
        let holder = host.own(&event.names);
        let left_of = |key: &Rc<[u8]>| {
            let key = host.own(key);
            let end = event.side.lease_end(&host.open(key.lend(), holder.lend()));
            end.map_or(0, |end| end.saturating_sub(host.now()).max(0))
        };
        event.keys().map(left_of).min().unwrap_or(0)
    }

    #[must_use]
    pub fn has_news(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.outbox.has_news())
    }

    /// What a ticket is used for, and whether it is for this wish.
    #[must_use]
    pub fn use_of(
        &self,
        id: SessionId,
        ticket: &[u8],
        (locks, asked_by): (&[LockName<'_>], AskedBy),
        wish: &Wish<&[u8]>,
    ) -> Use {
        let is_wish = |holder: &[u8], side, fenced, by| {
            (holder, side, fenced, by) == (wish.holder, wish.side, wish.fenced, asked_by)
        };
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            let waited_for = self.claims.all(&waiting).iter().map(|claim| self.queues.lock_of(*claim));
            let same_lock = waited_for.eq(locks.iter().map(|lock| self.queues.find(*lock)));
            let is_same = |wait: &Waiter<C>| same_lock && is_wish(wait.holder(), wait.side, wait.fenced, wait.asked_by);
            return if self.queues.waiter(waiting).is_some_and(is_same) { Use::Same } else { Use::Other };
        }
        match self.sessions.get(id).and_then(|session| session.outbox.of_ticket(ticket)) {
            None => Use::Free,
            Some(event) => {
                let names = event.keys().map(|key| LockName { database: event.database, key });
                let same_lock = names.eq(locks.iter().copied());
                let is_same = same_lock && is_wish(event.names.holder(), event.side, event.fenced, event.asked_by);
                if is_same { Use::Same } else { Use::Other }
            }
        }
    }

    pub(super) fn waiting_ticket(&self, id: SessionId, name: &[u8]) -> Option<Ticket> {
        self.tickets.find((id, name)).find_map(|place| {
            let ticket = self.queues.ticket_at(place)?;
            let wait = self.queues.waiter(ticket)?;
            (wait.session() == Some(id) && wait.ticket() == name).then_some(ticket)
        })
    }

    /// Gives the session the outcome of one of its tickets, unless the session has ended. Returns the call that waits for it; without
    /// one, the session learns of it by its next call.
    pub(super) fn happened(&mut self, id: SessionId, event: Event, now: UnixMs) -> Option<C> {
        if !self.sessions.is_open(id) {
            return None;
        }
        let goes_unread = self.sessions.of_outbox(id, |outbox| {
            let was_unread = outbox.is_unread();
            outbox.push(event);
            !was_unread && outbox.is_unread()
        });
        if goes_unread == Some(true) {
            self.abandon(id);
        }
        self.sessions.take_poll(id, now)
    }

    /// Ends a session; the call that waits gets this answer. Returns the number of its tickets that wait. The rest of it is dropped
    /// in slices.
    fn close<H: Host<Client = C>>(&mut self, host: &H, id: SessionId, answer: Answer) -> usize {
        let tickets = self.sessions.get(id).map_or(0, |session| session.tickets.length());
        let poll = self.sessions.end(id);
        self.sessions.of_outbox(id, |outbox| outbox.acknowledge(u64::MAX));
        self.list(id);
        host.watch(self);
        if let Some(call) = poll {
            host.answer(call, answer);
        }
        tickets
    }

    /// Ends a session that its process has not ended. Its tickets leave in the next turns of the server.
    pub fn end_session<H: Host<Client = C>>(&mut self, host: &H, session: SessionId) {
        self.close(host, session, Answer::NoSession);
    }

    /// Closes a session for its process, and returns how many of its tickets waited. Most sessions are gone at once; the rest of a
    /// large one is dropped in the next turns of the server.
    pub fn close_session<H: Host<Client = C>>(&mut self, host: &H, session: SessionId) -> usize {
        let tickets = self.close(host, session, Answer::Events);
        while !host.turn_is_over() && self.tidy(session) {
            host.watch(self);
        }
        tickets
    }

    /// Puts the rest of a session on the agenda.
    fn list(&mut self, id: SessionId) {
        if self.sessions.get_mut(id).is_some_and(|session| !std::mem::replace(&mut session.is_listed, true)) {
            self.agenda.sessions.push_back(id);
        }
    }

    /// Does one item of the work that is left for a session. Returns whether there may be more.
    pub(super) fn tidy(&mut self, id: SessionId) -> bool {
        if self.sessions.of_outbox(id, Outbox::free_next) == Some(true) {
            return true;
        }
        let is_open = self.sessions.is_open(id);
        let Some(session) = self.sessions.get_mut(id).filter(|session| !is_open || session.unseen > 0) else {
            return false;
        };
        session.unseen = session.unseen.saturating_sub(1);
        let ticket = self.queues.next_of(&mut session.tickets);
        match ticket {
            Some(ticket) if is_open => self.look_behind(ticket),
            Some(ticket) => {
                self.leave(ticket);
                self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
            }
            None => self.sessions.drop_ended(id),
        }
        true
    }
}

impl<C> Engine<C> {
    /// Takes a ticket back. In a session that has ended, no ticket is found.
    pub(super) fn take_back(&mut self, id: SessionId, ticket: &[u8], now: UnixMs) -> Cancelled {
        if !self.sessions.is_open(id) {
            return Cancelled::Unknown;
        }
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            self.leave(waiting);
            self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
            return Cancelled::Withdrawn;
        }
        let taken = self.sessions.of_outbox(id, |outbox| {
            let was_unread = outbox.is_unread();
            let event = outbox.take_of_ticket(ticket)?;
            Some((event, was_unread && !outbox.is_unread()))
        });
        let Some((event, is_read_again)) = taken.flatten() else { return Cancelled::Unknown };
        if is_read_again {
            self.returns(id, now);
        }
        if matches!(event.outcome, Outcome::Granted { .. }) { Cancelled::Granted } else { Cancelled::Withdrawn }
    }
}

/// The number of acknowledged events that are freed by the call that acknowledges them: mostly all.
const FREED_AT_ONCE: usize = 256;

/// The number of sessions of a closed connection that are noted in the callback that reports the close.
const DISCONNECTED_AT_ONCE: usize = 1_000;

/// A call for events.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The client's number; None for a call that comes from no connection of its own.
    pub connection: Option<u64>,
    /// Every event up to this one is done with.
    pub acknowledged: Option<u64>,
    pub ttl_ms: Option<i64>,
}

impl<C> Engine<C> {
    /// A call for events: a sign of life, which opens the session if need be. Returns the call on a former connection
    /// that it takes over from.
    ///
    /// # Errors
    /// If the session cannot be had, or an event is acknowledged that was never sent. Nothing has changed then.
    pub(super) fn call(
        &mut self,
        name: &[u8],
        owner: &[u8],
        call: Call,
        limit: impl FnOnce() -> Option<Most>,
        now: UnixMs,
    ) -> Result<(SessionId, Option<C>), NoSession> {
        let found = self.sessions.find(name, owner);
        if let Ok(id) = found {
            self.sessions.check_late(id, call.connection)?;
        }
        let acknowledged = call.acknowledged.unwrap_or(0);
        let id = if acknowledged > 0 { found? } else { self.sessions.find_or_open(name, owner, limit)? };
        if acknowledged > self.sessions.get(id).map_or(0, |session| session.outbox.told_before()) {
            return Err(NoSession::NeverTold);
        }
        self.acknowledge(id, acknowledged);
        let former = self.sessions.called(id, call.connection, call.ttl_ms, now);
        self.returns(id, now);
        Ok((id, former))
    }

    /// Drops the events up to this number. If there are very many, the memory of most is freed in the next turns.
    fn acknowledge(&mut self, id: SessionId, seq: u64) {
        self.sessions.of_outbox(id, |outbox| outbox.acknowledge(seq));
        for _ in 0..FREED_AT_ONCE {
            if self.sessions.of_outbox(id, Outbox::free_next) != Some(true) {
                return;
            }
        }
        self.list(id);
    }

    /// The session is attended again: its tickets return to their places by and by, and are served.
    pub(super) fn returns(&mut self, id: SessionId, now: UnixMs) {
        if !self.sessions.get(id).is_some_and(|session| session.is_attended(now)) {
            return;
        }
        self.sessions.set_abandoned(id, false);
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.tickets.has_passed_over() && !std::mem::replace(&mut session.is_returning, true) {
            self.agenda.returning.push_back(id);
        }
    }

    /// Notes that a call is answered empty, since another connection has taken over from the connection on which it waits.
    pub fn cut_off_is_answered(&mut self, id: SessionId, connection: u64) {
        self.sessions.cut_off_is_answered(id, connection);
    }

    /// The connection on which the session gets its events.
    #[must_use]
    pub fn connection_of(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(id)?.connection
    }

    /// Notes that a connection is closed. The server is in the middle of something, so if there are very many sessions, most
    /// are noted by and by.
    pub(super) fn disconnected(&mut self, connection: u64) {
        let sessions = self.sessions.take_of_connection(connection);
        if sessions.is_empty() {
            return;
        }
        self.agenda.disconnected.push_back((connection, sessions));
        for _ in 0..DISCONNECTED_AT_ONCE {
            if !self.disconnect_next() {
                return;
            }
        }
    }

    /// Notes for one session that its connection is closed. Returns whether there was one.
    pub(super) fn disconnect_next(&mut self) -> bool {
        let Some((connection, sessions)) = self.agenda.disconnected.front_mut() else { return false };
        let (connection, next) = (*connection, sessions.pop_first());
        if sessions.is_empty() {
            self.agenda.disconnected.pop_front();
        }
        if let Some(id) = next.filter(|id| self.sessions.disconnect(*id, connection)) {
            self.abandon(id);
        }
        true
    }

    /// Notes that a session is unattended now. Waiters behind its tickets may be granted their locks.
    pub(super) fn abandon(&mut self, id: SessionId) {
        self.sessions.set_abandoned(id, true);
        if let Some(session) = self.sessions.get_mut(id).filter(|session| session.tickets.length() > 0) {
            // Tickets that were checked before may have been back in their places meanwhile.
            session.unseen = session.tickets.length();
            self.list(id);
        }
    }

    /// Puts one ticket of a session that is attended again back into its place. Returns whether there was such a
    /// session.
    pub(super) fn put_next_back(&mut self, now: UnixMs) -> bool {
        let Some(id) = self.agenda.returning.front().copied() else { return false };
        let session = self.sessions.get_mut(id).filter(|session| session.is_attended(now));
        let lock = session.and_then(|session| self.queues.put_back(&mut session.tickets));
        if let Some(lock) = lock {
            self.changed(lock);
            return true;
        }
        self.agenda.returning.pop_front();
        if let Some(session) = self.sessions.get_mut(id) {
            session.is_returning = false;
        }
        true
    }

    /// For a ticket of an unattended session: has its locks checked, since readers behind a writer that is passed over may
    /// share the lock with the readers that have it. Nothing else can wait for a lock that is free to it.
    fn look_behind(&mut self, ticket: Ticket) {
        let keeps_out = |wait: &Waiter<C>| wait.is_of_several() || wait.side.ends_sharing();
        if !self.queues.waiter(ticket).is_some_and(keeps_out) {
            return;
        }
        for lock in self.claims.locks(&self.queues, ticket) {
            if !self.claims.is_empty() || self.queues.first(lock) == Some(ticket) {
                self.changed(lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::waiter::Names;

    #[test]
    fn a_connection_with_very_many_sessions_is_left_in_slices() {
        const SESSIONS: usize = DISCONNECTED_AT_ONCE + 500;
        let mut table = Engine::<()>::default();
        let call = |table: &mut Engine<()>, number: usize, connection| {
            let limit = || Some(Most { all: SESSIONS, of_user: SESSIONS });
            let call = Call { connection: Some(connection), acknowledged: None, ttl_ms: None };
            table.call(&number.to_le_bytes(), b"eve", call, limit, 0).unwrap();
        };
        (0..SESSIONS).for_each(|number| call(&mut table, number, 1));
        table.disconnected(1);
        assert_eq!(table.sessions.abandoned(), DISCONNECTED_AT_ONCE);
        assert_eq!(table.wakes_at(0), Some(UnixMs::MIN), "the rest is for the next turn");
        // Its process is back before that.
        call(&mut table, SESSIONS - 1, 2);
        while table.disconnect_next() {}
        assert_eq!(table.sessions.abandoned(), SESSIONS - 1);
    }

    #[test]
    fn very_many_acknowledged_events_are_freed_in_slices() {
        const EVENTS: usize = 10 * FREED_AT_ONCE;
        let mut table = Engine::<()>::default();
        let call = |table: &mut Engine<()>, acknowledged| {
            let call = Call { connection: Some(1), acknowledged, ttl_ms: None };
            table.call(b"one", b"eve", call, || Some(Most { all: 1, of_user: 1 }), 0).unwrap().0
        };
        let id = call(&mut table, None);
        for number in 0..EVENTS {
            let names = Names::of_ticket(b"ann", number.to_string().as_bytes());
            let (key, side) = (b"k"[..].into(), crate::lock::Side::Plain);
            let outcome = crate::lock::Outcome::NowReplica;
            let asked_by = AskedBy::Acquire;
            let event = Event { seq: 0, names, outcome, database: 0, key, side, fenced: false, asked_by, beside: None };
            table.happened(id, event, 0);
        }
        table.sessions.of_outbox(id, |outbox| outbox.take_news(usize::MAX));
        let all_but_one = u64::try_from(EVENTS - 1).unwrap();
        call(&mut table, Some(all_but_one));
        assert_eq!(
            (table.sessions.events, table.claims_of_tickets()),
            (EVENTS - FREED_AT_ONCE, EVENTS - FREED_AT_ONCE)
        );
        assert_eq!(table.wakes_at(0), Some(UnixMs::MIN), "the rest is for the next turn");
        assert!(table.sessions.get(id).unwrap().is_attended(0), "what is acknowledged is read");
        (0..EVENTS - FREED_AT_ONCE - 1).for_each(|_| assert!(table.tidy(id)));
        assert_eq!((table.sessions.events, table.claims_of_tickets()), (1, 1));
        assert!(!table.tidy(id), "nothing is left to be done");
        assert_eq!(table.fault(), None);
    }
}
