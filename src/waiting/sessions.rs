//! The sessions: each is a process that waits by tickets, and is told of them on one connection.
//!
//! A session is *attended* while somebody is there to be told: its connection is open, and a call waits on it or was
//! answered a moment ago. A session that gives no sign of life for its TTL ends.
//!
//! Here is what a session is, and when it is attended. What follows for its tickets is in `attendance.rs`.

use super::Map;
use super::agenda::Reentry;
use super::alarms::{Alarm, Alarms};
use super::outbox::Outbox;
use super::queue::Group;
use super::store::{Place, Store};
use crate::lock::UnixMs;
use std::rc::Rc;

/// A session, until it has ended and nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    place: Place,
    /// The low half of a number that grows: it tells sessions apart that have the same place one after the other.
    number: u32,
}

/// With more events than this not acknowledged, nobody seems to read them.
pub const EVENTS_UNREAD_MAX: usize = 1_000;

pub const TTL_DEFAULT_MS: i64 = 10_000;

/// How long a call waits at most while too many events are not acknowledged: the acknowledgement may be behind it.
const UNREAD_WAIT_MS: i64 = 10;

/// Calls that a connection has sent behind one that waits are run as soon as that is answered: so they are told from
/// one that was sent after another connection has taken over.
const SENT_BEFORE_MS: i64 = 100;

#[allow(clippy::struct_excessive_bools, reason = "four facts that have nothing to do with each other")]
pub(super) struct Session<R> {
    id: SessionId,
    pub name: Rc<[u8]>,
    /// The user who opened it.
    owner: Rc<[u8]>,
    ttl_ms: i64,
    /// The last sign of life.
    seen: UnixMs,
    /// When the last call was answered.
    answered: UnixMs,
    /// The connection of the last call; None for a call that came from none, such as a script's.
    pub connection: Option<u64>,
    is_connected: bool,
    /// The connection that was taken over from, and until when calls from it are such as were sent before.
    left_behind: Option<(u64, UnixMs)>,
    /// The call that waits, and until when.
    poll: Option<(R, UnixMs)>,
    pub outbox: Outbox,
    pub tickets: Group,
    /// The number of its tickets that wait to write.
    pub writers: usize,
    /// Its tickets under the names of holders that have got the lock meanwhile.
    pub owed: Vec<Reentry>,
    /// Whether it is on the agenda, to be served what it was passed over for.
    pub is_returning: bool,
    /// Whether its tickets are passed over, as far as is noted.
    pub is_left: bool,
    has_ended: bool,
    alarm: Alarm,
}

impl<R> Session<R> {
    /// Whether somebody is there to be told.
    pub fn is_attended(&self, now: UnixMs) -> bool {
        let is_there = || self.poll.is_some() || now < self.answered.saturating_add(self.ttl_ms / 10);
        !self.has_ended && self.is_connected && self.outbox.kept() <= EVENTS_UNREAD_MAX && is_there()
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn ends(&self) -> UnixMs {
        self.seen.saturating_add(self.ttl_ms)
    }

    /// An end that is noticed late comes from a server that stood still, or whose clock was set: the process may have
    /// given signs of life that nobody has read yet. It has a third of the TTL more.
    fn grant_time_if_server_stood_still(&mut self, now: UnixMs) {
        let late = now.saturating_sub(self.ends());
        if late > self.ttl_ms / 10 {
            self.grant_time(now);
        }
    }

    fn grant_time(&mut self, now: UnixMs) {
        self.seen = now.saturating_sub(self.ttl_ms).saturating_add(self.ttl_ms / 3);
    }

    /// When it changes by itself: its call is to be answered, it is no longer attended, or it ends.
    fn changes_at(&self) -> UnixMs {
        let ends = self.ends();
        let next = match &self.poll {
            Some((_, until)) => *until,
            None if self.is_left => ends,
            None => self.answered.saturating_add(self.ttl_ms / 10),
        };
        next.min(ends)
    }
}

pub(super) struct Sessions<R> {
    store: Store<Session<R>>,
    by_name: Map<Rc<[u8]>, SessionId>,
    /// The sessions whose last call came from a connection.
    by_connection: Map<u64, Vec<SessionId>>,
    alarms: Alarms,
    next_number: u32,
    /// The number of events that are not acknowledged, over all sessions.
    pub events: usize,
    /// The same, with the gaps that are kept between them.
    pub kept: usize,
    /// The number of tickets that wait, over all sessions.
    pub waiting: usize,
}

impl<R> Default for Sessions<R> {
    fn default() -> Self {
        let (store, by_name, by_connection, alarms) = Default::default();
        Self { store, by_name, by_connection, alarms, next_number: 0, events: 0, kept: 0, waiting: 0 }
    }
}

/// What a session's alarm was for.
pub(super) enum Change<R> {
    /// The call has waited for long enough.
    Answer(R),
    /// Nobody is there any more.
    Left,
    Ended,
}

/// Why a session is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// It is not open, or another user's.
    Unknown,
    /// There are as many as there may be.
    TooMany,
    /// An event is acknowledged that was never told.
    NeverTold,
    /// Another connection has taken over, and this call was sent before.
    TakenOver,
}

impl<R> Sessions<R> {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none, not even some that are about to go.
    pub fn is_empty(&self) -> bool {
        self.store.len() == 0
    }

    pub fn get(&self, id: SessionId) -> Option<&Session<R>> {
        self.store.get(id.place).filter(|session| session.id == id)
    }

    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session<R>> {
        self.store.get_mut(id.place).filter(|session| session.id == id)
    }

    /// Changes a session's events, and counts them anew.
    pub fn of_outbox<T>(&mut self, id: SessionId, change: impl FnOnce(&mut Outbox) -> Option<T>) -> Option<T> {
        let outbox = &mut self.get_mut(id)?.outbox;
        let (events, kept) = (outbox.events(), outbox.kept());
        let result = change(outbox);
        let (events_now, kept_now) = (outbox.events(), outbox.kept());
        self.events = self.events.saturating_sub(events).saturating_add(events_now);
        self.kept = self.kept.saturating_sub(kept).saturating_add(kept_now);
        result
    }

    /// The open session of this name.
    ///
    /// # Errors
    /// If there is none, or it is another user's.
    pub fn find(&self, name: &[u8], owner: &[u8]) -> Result<SessionId, NoSession> {
        let id = self.by_name.get(name).ok_or(NoSession::Unknown)?;
        self.get(*id).filter(|session| *session.owner == *owner).map(|session| session.id).ok_or(NoSession::Unknown)
    }

    /// The same; opens the session if there is none.
    pub fn find_or_open(&mut self, name: &[u8], owner: &[u8], limit: usize) -> Result<SessionId, NoSession> {
        if self.by_name.contains_key(name) {
            return self.find(name, owner);
        }
        if self.by_name.len() >= limit {
            return Err(NoSession::TooMany);
        }
        self.next_number = self.next_number.wrapping_add(1);
        let id = SessionId { place: 0, number: self.next_number };
        let (outbox, alarm) = Default::default();
        let name: Rc<[u8]> = name.into();
        let session = Session {
            id,
            name: Rc::clone(&name),
            owner: owner.into(),
            ttl_ms: TTL_DEFAULT_MS,
            seen: 0,
            answered: 0,
            connection: None,
            is_connected: true,
            left_behind: None,
            poll: None,
            outbox,
            tickets: Group::default(),
            writers: 0,
            owed: Vec::new(),
            is_returning: false,
            is_left: false,
            has_ended: false,
            alarm,
        };
        let place = self.store.insert(session).map_err(|_| NoSession::TooMany)?;
        let id = SessionId { place, ..id };
        if let Some(session) = self.store.get_mut(place) {
            session.id = id;
            session.tickets = Group::new(place);
        }
        self.by_name.insert(name, id);
        Ok(id)
    }

    /// A call of the session's: a sign of life. A call from another connection takes over: returns the call that waits
    /// on the former one. None for the connection of a call that came from none.
    pub fn called(&mut self, id: SessionId, connection: Option<u64>, ttl_ms: Option<i64>, now: UnixMs) -> Option<R> {
        let session = self.get_mut(id)?;
        session.seen = now;
        session.answered = now;
        session.ttl_ms = ttl_ms.unwrap_or(session.ttl_ms);
        let mut former = None;
        if connection.is_some() && (session.connection != connection || !session.is_connected) {
            let left = std::mem::replace(&mut session.connection, connection);
            session.is_connected = true;
            session.outbox.tell_again();
            former = session.poll.take().map(|(poll, _)| poll);
            session.left_behind = left.map(|left| (left, now.saturating_add(SENT_BEFORE_MS)));
            self.forget_connection(left, id);
            if let Some(connection) = connection {
                self.by_connection.entry(connection).or_default().push(id);
            }
        }
        self.set_alarm(id);
        former
    }

    /// Whether a call was sent before another connection took over. It is no sign of life.
    pub fn was_left_behind(&self, id: SessionId, connection: Option<u64>, now: UnixMs) -> bool {
        let Some(session) = self.get(id).filter(|session| session.is_connected) else { return false };
        let is_it = |(left, until): (u64, UnixMs)| Some(left) == connection && now < until;
        session.left_behind.is_some_and(is_it)
    }

    /// Notes that somebody attends a session again, and has it noticed when nobody does any more.
    pub fn is_back(&mut self, id: SessionId) {
        if let Some(session) = self.get_mut(id) {
            session.is_left = false;
        }
        self.set_alarm(id);
    }

    fn forget_connection(&mut self, connection: Option<u64>, id: SessionId) {
        let Some(connection) = connection else { return };
        if let Some(sessions) = self.by_connection.get_mut(&connection) {
            sessions.retain(|session| *session != id);
            if sessions.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// Has a call wait, for no longer than a third of the TTL: a peer that is gone without a word is noticed in time.
    pub fn wait(&mut self, id: SessionId, poll: R, limit_ms: i64, now: UnixMs) {
        let Some(session) = self.get_mut(id) else { return };
        let most = if session.outbox.kept() > EVENTS_UNREAD_MAX { UNREAD_WAIT_MS } else { session.ttl_ms / 3 };
        let ms = if limit_ms > 0 { limit_ms.min(most) } else { most };
        session.poll = Some((poll, now.saturating_add(ms)));
        self.set_alarm(id);
    }

    /// Takes the call that waits: it is answered now.
    pub fn take_poll(&mut self, id: SessionId, now: UnixMs) -> Option<R> {
        let session = self.get_mut(id)?;
        let (poll, _) = session.poll.take()?;
        session.answered = now;
        self.set_alarm(id);
        Some(poll)
    }

    /// An earlier alarm that goes off first finds out when the next change is: to set it anew with each call is dear.
    fn set_alarm(&mut self, id: SessionId) {
        let Some(session) = self.get(id) else { return };
        let time = session.changes_at();
        if !session.has_ended && session.alarm.time().is_none_or(|set| time < set) {
            self.alarms.set(&mut self.store, id.place, time, |session| &mut session.alarm);
        }
    }

    pub fn next_alarm(&self) -> UnixMs {
        self.alarms.next()
    }

    /// The next session whose alarm goes off, and what for, if its time has come for something.
    pub fn take_due(&mut self, now: UnixMs) -> Option<(SessionId, Option<Change<R>>)> {
        let place = self.alarms.take_due(&mut self.store, now, |session| &mut session.alarm)?;
        let session = self.store.get_mut(place)?;
        let id = session.id;
        session.grant_time_if_server_stood_still(now);
        let change = if now >= session.ends() {
            Some(Change::Ended)
        } else if session.poll.as_ref().is_some_and(|(_, until)| *until <= now) {
            session.answered = now;
            session.poll.take().map(|(poll, _)| Change::Answer(poll))
        } else if !session.is_left && !session.is_attended(now) {
            session.is_left = true;
            Some(Change::Left)
        } else {
            None
        };
        if !matches!(change, Some(Change::Ended)) {
            self.set_alarm(id);
        }
        Some((id, change))
    }

    /// Has a session whose time is up go on, since clients' commands are kept back; unless its connection is closed.
    /// Returns whether it goes on.
    pub fn outlives_pause(&mut self, id: SessionId, now: UnixMs) -> bool {
        let Some(session) = self.get_mut(id).filter(|session| session.is_connected) else { return false };
        session.grant_time(now);
        self.set_alarm(id);
        true
    }

    /// The sessions whose last call came from this connection, which is closed.
    pub fn disconnected(&mut self, connection: u64) -> Vec<SessionId> {
        let sessions = self.by_connection.remove(&connection).unwrap_or_default();
        for id in &sessions {
            if let Some(session) = self.get_mut(*id) {
                session.is_connected = false;
            }
        }
        sessions
    }

    /// Closes a session. What is left of it stays until [`Self::drop_ended`]. Returns the call that waits.
    pub fn end(&mut self, id: SessionId) -> Option<R> {
        let session = self.get_mut(id).filter(|session| !session.has_ended)?;
        session.has_ended = true;
        let (name, connection) = (Rc::clone(&session.name), session.connection.take());
        let poll = session.poll.take().map(|(poll, _)| poll);
        self.alarms.cancel(&mut self.store, id.place, |session| &mut session.alarm);
        self.by_name.remove(&name);
        self.forget_connection(connection, id);
        poll
    }

    pub fn drop_ended(&mut self, id: SessionId) {
        if self.get(id).is_some_and(|session| session.has_ended) {
            self.store.remove(id.place);
        }
    }

    /// The number of open sessions that are not attended.
    pub fn unattended(&self, now: UnixMs) -> usize {
        self.by_name.values().filter(|id| self.get(**id).is_some_and(|session| !session.is_attended(now))).count()
    }
}
