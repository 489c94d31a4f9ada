//! The sessions: each is a process that waits by tickets, and gets their outcomes on one connection.
//!
//! A session is *attended* while it can be notified: its connection is open, and a call waits on it or was answered a moment
//! ago. A session that gives no sign of life for its TTL ends.
//!
//! Here is what a session is, and when it is attended. What follows for its tickets is in `tickets.rs`.

use super::Map;
use super::outbox::Outbox;
use super::queue::Group;
use super::store::{Alarm, Alarms, Store};
use super::waiter::SessionId;
use crate::lock::UnixMs;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

pub const TTL_DEFAULT_MS: i64 = 10_000;

/// The maximum wait of a call while too many events are not acknowledged: the acknowledgement may be queued behind the call.
const UNREAD_WAIT_MS: i64 = 10;

/// How often the module checks whether a session's user still exists: no event reports that a user was deleted.
const LOOK_MS: i64 = 5_000;

/// A time that has long passed.
const AT_ONCE: UnixMs = UnixMs::MIN;

#[allow(clippy::struct_excessive_bools, reason = "four facts that have nothing to do with each other")]
#[derive(Debug)]
pub(super) struct Session<C> {
    pub id: SessionId,
    /// Its place in the order of opening: no other session has it, before or later.
    pub number: u64,
    pub name: Rc<[u8]>,
    /// The user that opened it.
    pub owner: Rc<User>,
    ttl_ms: i64,
    /// The last sign of life.
    seen: UnixMs,
    /// When the last call was answered.
    answered: UnixMs,
    /// When it was last checked whether its user still exists.
    looked: UnixMs,
    /// The connection of the last call; None for a call that came from none, such as a script's.
    pub connection: Option<u64>,
    is_connected: bool,
    /// The last few connections that lost the session to another one while a call waited on them.
    cut_off: Vec<CutOff>,
    /// The call that waits, and until when.
    poll: Option<(C, UnixMs)>,
    pub outbox: Outbox,
    pub tickets: Group,
    /// Whether it is on the agenda, because tickets of it that were passed over return to their places.
    pub is_returning: bool,
    /// Whether it is noted as unattended, so that its tickets are passed over.
    is_abandoned: bool,
    /// The number of its tickets that are still to be checked since it became unattended.
    pub unseen: usize,
    /// Whether it is on the agenda, with work left.
    pub is_listed: bool,
    has_ended: bool,
    alarm: Alarm,
}

/// A user with sessions.
#[derive(Debug)]
pub(super) struct User {
    pub name: Rc<[u8]>,
    /// The number of its open sessions.
    sessions: Cell<usize>,
    /// The claims of all its sessions, including ended ones that still have some.
    pub claims: Cell<usize>,
}

impl User {
    /// Counts a session's claims again after a change.
    fn recount(&self, had: usize, has: usize) {
        self.claims.set(self.claims.get().saturating_sub(had).saturating_add(has));
    }
}

/// A connection that lost the session to another one while a call waited on it.
#[derive(Clone, Copy, Debug)]
struct CutOff {
    connection: u64,
    /// The server's turn in which that call was answered; None until then. What the connection had sent behind that call is run
    /// in the same turn.
    answered: Option<u64>,
}

/// The maximum number of cut-off connections that a session remembers. More of one session have no business with it.
const CUT_OFF_MAX: usize = 8;

impl<C> Session<C> {
    /// Whether it can be notified.
    pub fn is_attended(&self, now: UnixMs) -> bool {
        // A time after now is from before the clock was set back.
        let is_recent = || now.saturating_sub(self.answered).saturating_abs() < self.ttl_ms / 10;
        let is_there = || self.poll.is_some() || is_recent();
        !self.has_ended && self.is_connected && !self.outbox.is_unread() && is_there()
    }

    /// The call that waits.
    pub fn poll(&self) -> Option<&C> {
        self.poll.as_ref().map(|(poll, _)| poll)
    }

    /// The connection of its last call, if it is open.
    pub fn open_connection(&self) -> Option<u64> {
        self.connection.filter(|_| self.is_connected)
    }

    pub fn ends(&self) -> UnixMs {
        self.seen.saturating_add(self.ttl_ms)
    }

    /// If an end is noticed late, the server stalled or its clock was set: the process may have given signs of life that the
    /// server has not read yet. The session gets a third of the TTL more.
    fn grant_time_if_server_stood_still(&mut self, now: UnixMs) {
        let late = now.saturating_sub(self.ends());
        if late > self.ttl_ms / 10 {
            self.grant_time(now);
        }
    }

    fn grant_time(&mut self, now: UnixMs) {
        self.seen = now.saturating_sub(self.ttl_ms).saturating_add(self.ttl_ms / 3);
    }

    /// When the session next changes by itself: its call must be answered, it is no longer attended, or it ends. Or when its
    /// user must be checked.
    fn changes_at(&self) -> UnixMs {
        let ends = self.ends();
        let next = match &self.poll {
            Some((_, until)) => *until,
            None if self.is_abandoned => ends,
            None => self.answered.saturating_add(self.ttl_ms / 10),
        };
        next.min(ends).min(self.looked.saturating_add(LOOK_MS))
    }
}

pub struct Sessions<C> {
    store: Store<Session<C>>,
    by_name: Map<Rc<[u8]>, SessionId>,
    /// The users with sessions, including sessions that have ended and are not dropped yet.
    users: Map<Rc<[u8]>, Rc<User>>,
    /// The sessions by the connection of their last call.
    by_connection: Map<u64, BTreeSet<SessionId>>,
    alarms: Alarms,
    next_number: u64,
    /// The number of the server's turn, which counts only turns that matter; and whether the next turn does.
    turn: u64,
    pub awaits_turn: bool,
    /// The number of events that are not acknowledged, or not freed yet, over all sessions.
    pub events: usize,
    /// The same, but an event counts once for each of its locks.
    pub event_claims: usize,
    /// The number of tickets that wait, over all sessions.
    pub waiting: usize,
    /// The same, but a ticket counts once for each of its locks.
    pub waiting_claims: usize,
    /// The number of open sessions that are noted as unattended.
    abandoned: usize,
}

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Self {
            store: Store::default(),
            by_name: Map::default(),
            users: Map::default(),
            by_connection: Map::default(),
            alarms: Alarms::default(),
            next_number: 0,
            turn: 0,
            awaits_turn: false,
            events: 0,
            event_claims: 0,
            waiting: 0,
            waiting_claims: 0,
            abandoned: 0,
        }
    }
}

/// Omits the indexes by name, user and connection: they follow from the sessions.
impl<C: fmt::Debug> fmt::Debug for Sessions<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sessions = formatter.debug_struct("Sessions");
        sessions.field("store", &self.store).field("alarms", &self.alarms).field("turn", &self.turn);
        sessions.field("awaits_turn", &self.awaits_turn).finish_non_exhaustive()
    }
}

/// What a session's alarm was for.
pub(super) enum Change<C> {
    /// The call has waited for long enough.
    Answer(C),
    /// It is unattended now.
    Abandoned,
    Ended,
}

/// The maximum number of something.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub all: usize,
    /// The maximum for one user. 0 means all except the last tenth: one user can never use up what the others need.
    pub of_user: usize,
}

impl Most {
    pub(super) fn of_user(self) -> usize {
        if self.of_user == 0 { self.all.saturating_sub(self.all / 10) } else { self.of_user }
    }
}

/// Why a call gets no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// It is not open, or another user's.
    Unknown,
    /// The maximum number of sessions is open.
    TooMany,
    /// The maximum number of sessions of this user is open.
    TooManyOfUser,
    /// The server has no memory left for one more.
    NoMemory,
    /// An event is acknowledged that was never sent.
    NeverTold,
    /// Another connection has taken over, and this call was sent before.
    TakenOver,
    /// Another connection has taken over, and a call waits on it.
    AnotherWaits,
}

impl<C> Sessions<C> {
    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none, not even some that are about to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.len() == 0
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session<C>> {
        self.store.get(id.place).filter(|session| session.id == id)
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session<C>> {
        self.store.get_mut(id.place).filter(|session| session.id == id)
    }

    pub(super) fn is_open(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(|session| !session.has_ended)
    }

    /// Changes a session's events, and counts them again.
    pub(super) fn of_outbox<T>(&mut self, id: SessionId, change: impl FnOnce(&mut Outbox) -> T) -> Option<T> {
        let session = self.get_mut(id)?;
        let outbox = &mut session.outbox;
        let (events, claims) = (outbox.len(), outbox.claims());
        let result = change(outbox);
        let (events_now, claims_now) = (outbox.len(), outbox.claims());
        session.owner.recount(claims, claims_now);
        self.events = self.events.saturating_sub(events).saturating_add(events_now);
        self.event_claims = self.event_claims.saturating_sub(claims).saturating_add(claims_now);
        Some(result)
    }

    /// A waiter of this session joins the queue of one lock, or leaves it.
    pub(super) fn count_claim(&mut self, id: SessionId, had: usize, has: usize) {
        let Some(session) = self.get(id) else { return };
        session.owner.recount(had, has);
        self.waiting_claims = self.waiting_claims.saturating_sub(had).saturating_add(has);
    }

    /// The open session of this name.
    ///
    /// # Errors
    /// If there is none, or it is another user's.
    pub(super) fn find(&self, name: &[u8], owner: &[u8]) -> Result<SessionId, NoSession> {
        let id = self.by_name.get(name).ok_or(NoSession::Unknown)?;
        self.get(*id)
            .filter(|session| *session.owner.name == *owner)
            .map(|session| session.id)
            .ok_or(NoSession::Unknown)
    }

    /// The same, but opens the session if there is none. Only then it asks for `limit`.
    pub(super) fn find_or_open(
        &mut self,
        name: &[u8],
        owner: &[u8],
        limit: impl FnOnce() -> Option<Most>,
    ) -> Result<SessionId, NoSession> {
        if self.by_name.contains_key(name) {
            return self.find(name, owner);
        }
        self.check_room(owner, limit().ok_or(NoSession::NoMemory)?)?;
        self.next_number = self.next_number.wrapping_add(1);
        let number = self.next_number;
        let [low @ .., _, _, _, _] = number.to_le_bytes();
        let id = SessionId { place: 0, number: u32::from_le_bytes(low) };
        let (outbox, alarm) = Default::default();
        let name: Rc<[u8]> = name.into();
        let owner = self.user(owner);
        let session = Session {
            id,
            number,
            name: Rc::clone(&name),
            owner: Rc::clone(&owner),
            ttl_ms: TTL_DEFAULT_MS,
            seen: 0,
            answered: 0,
            looked: 0,
            connection: None,
            is_connected: true,
            cut_off: Vec::new(),
            poll: None,
            outbox,
            tickets: Group::default(),
            is_returning: false,
            is_abandoned: false,
            unseen: 0,
            is_listed: false,
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
        owner.sessions.set(owner.sessions.get().saturating_add(1));
        Ok(id)
    }

    fn user(&mut self, name: &[u8]) -> Rc<User> {
        if let Some(user) = self.users.get(name) {
            return Rc::clone(user);
        }
        let (sessions, claims) = Default::default();
        let user = Rc::new(User { name: name.into(), sessions, claims });
        self.users.insert(Rc::clone(&user.name), Rc::clone(&user));
        user
    }

    /// Whether this user may open one more.
    fn check_room(&self, owner: &[u8], most: Most) -> Result<(), NoSession> {
        let of_user = self.users.get(owner).map_or(0, |user| user.sessions.get());
        match () {
            () if self.len() >= most.all => Err(NoSession::TooMany),
            () if of_user >= most.of_user() => Err(NoSession::TooManyOfUser),
            () => Ok(()),
        }
    }

    /// Notes a call of the session: a sign of life. A call from another connection takes over: returns the call that waits on
    /// the former one. `connection` is None for a call that came from no connection.
    pub(super) fn called(
        &mut self,
        id: SessionId,
        connection: Option<u64>,
        ttl_ms: Option<i64>,
        now: UnixMs,
    ) -> Option<C> {
        let session = self.get_mut(id)?;
        session.seen = now;
        session.answered = now;
        session.looked = now;
        session.ttl_ms = ttl_ms.unwrap_or(session.ttl_ms);
        let mut former = None;
        if connection.is_some() && (session.connection != connection || !session.is_connected) {
            let left = std::mem::replace(&mut session.connection, connection);
            session.is_connected = true;
            session.outbox.tell_again();
            former = session.poll.take().map(|(poll, _)| poll);
            session.cut_off.retain(|cut_off| Some(cut_off.connection) != connection);
            if let Some(left) = left.filter(|_| former.is_some()) {
                session.cut_off.truncate(CUT_OFF_MAX.saturating_sub(1));
                session.cut_off.insert(0, CutOff { connection: left, answered: None });
            }
            self.forget_connection(left, id);
            if let Some(connection) = connection {
                self.by_connection.entry(connection).or_default().insert(id);
            }
        }
        self.set_alarm(id);
        former
    }

    /// Rejects a call from a connection that lost the session to another one while a call waited there: it is no sign of life.
    ///
    /// What was sent behind that waiting call is run as soon as that call is answered, and is answered empty, too. A later call
    /// takes over in its turn, except from a newer connection on which a call waits: the two would cut each other off forever.
    /// A process that reconnects has the newer connection.
    ///
    /// # Errors
    /// If the call was sent before the other connection took over, or if a call waits on a newer connection.
    pub(super) fn check_late(&self, id: SessionId, connection: Option<u64>) -> Result<(), NoSession> {
        let Some(session) = self.get(id).filter(|session| session.is_connected) else { return Ok(()) };
        let cut_off = session.cut_off.iter().find(|cut_off| Some(cut_off.connection) == connection);
        let was_sent_before = |cut_off: &CutOff| cut_off.answered.is_none_or(|turn| turn == self.turn);
        if cut_off.is_some_and(was_sent_before) {
            return Err(NoSession::TakenOver);
        }
        if cut_off.is_some() && session.poll.is_some() && connection < session.connection {
            return Err(NoSession::AnotherWaits);
        }
        Ok(())
    }

    /// Notes that the call which waited on a cut-off connection is answered.
    pub(super) fn cut_off_is_answered(&mut self, id: SessionId, connection: u64) {
        let turn = self.turn;
        let Some(session) = self.get_mut(id) else { return };
        if let Some(cut_off) = session.cut_off.iter_mut().find(|cut_off| cut_off.connection == connection) {
            cut_off.answered = Some(turn);
            self.awaits_turn = true;
        }
    }

    /// The server comes to its agenda: what was answered before was answered in another turn.
    pub(super) fn next_turn(&mut self) {
        if std::mem::take(&mut self.awaits_turn) {
            self.turn = self.turn.wrapping_add(1);
        }
    }

    /// Notes that a session is unattended, or attended again; and sets the alarm that notices its next change.
    pub(super) fn set_abandoned(&mut self, id: SessionId, is_abandoned: bool) {
        let Some(session) = self.get_mut(id) else { return };
        let was_abandoned = std::mem::replace(&mut session.is_abandoned, is_abandoned);
        let others = self.abandoned.saturating_sub(usize::from(was_abandoned));
        self.abandoned = others.saturating_add(usize::from(is_abandoned));
        self.set_alarm(id);
    }

    fn forget_connection(&mut self, connection: Option<u64>, id: SessionId) {
        let Some(connection) = connection else { return };
        if let Some(sessions) = self.by_connection.get_mut(&connection) {
            sessions.remove(&id);
            if sessions.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// Makes a call wait, for at most a third of the TTL, so that a peer that is gone without a word is noticed in time.
    pub(super) fn wait(&mut self, id: SessionId, poll: C, limit_ms: i64, now: UnixMs) {
        let Some(session) = self.get_mut(id) else { return };
        let most = if session.outbox.is_unread() { UNREAD_WAIT_MS } else { session.ttl_ms / 3 };
        let ms = if limit_ms > 0 { limit_ms.min(most) } else { most };
        session.poll = Some((poll, now.saturating_add(ms)));
        self.set_alarm(id);
    }

    /// Takes the call that waits: it is answered now.
    pub(super) fn take_poll(&mut self, id: SessionId, now: UnixMs) -> Option<C> {
        let session = self.get_mut(id)?;
        let (poll, _) = session.poll.take()?;
        session.answered = now;
        self.set_alarm(id);
        Some(poll)
    }

    /// Keeps an earlier alarm, which finds out the next change when it goes off: to set the alarm with each call is expensive.
    fn set_alarm(&mut self, id: SessionId) {
        let Some(session) = self.get(id) else { return };
        let time = session.changes_at();
        if !session.has_ended && session.alarm.time().is_none_or(|set| time < set) {
            self.alarms.set(&mut self.store, id.place, time, |session| &mut session.alarm);
        }
    }

    pub(super) fn next_alarm(&self) -> UnixMs {
        self.alarms.next()
    }

    /// The next session whose alarm goes off, and the change that is due for it, if any.
    pub(super) fn take_due(&mut self, now: UnixMs) -> Option<(SessionId, Option<Change<C>>)> {
        let place = self.alarms.take_due(&mut self.store, now, |session| &mut session.alarm)?;
        let session = self.store.get_mut(place)?;
        let id = session.id;
        session.looked = now;
        session.grant_time_if_server_stood_still(now);
        let change = if now >= session.ends() {
            Some(Change::Ended)
        } else if session.poll.as_ref().is_some_and(|(_, until)| *until <= now) {
            session.answered = now;
            session.poll.take().map(|(poll, _)| Change::Answer(poll))
        } else if !session.is_abandoned && !session.is_attended(now) {
            Some(Change::Abandoned)
        } else {
            None
        };
        if matches!(change, Some(Change::Answer(_)) | None) {
            self.set_alarm(id);
        }
        Some((id, change))
    }

    /// Extends a session whose time is up while clients' commands are kept back, unless its connection is closed. Returns
    /// whether the session goes on.
    pub(super) fn outlives_pause(&mut self, id: SessionId, now: UnixMs) -> bool {
        let Some(session) = self.get_mut(id).filter(|session| session.is_connected) else { return false };
        session.grant_time(now);
        self.set_alarm(id);
        true
    }

    /// Takes the sessions whose last call came from this connection, which is closed.
    pub(super) fn take_of_connection(&mut self, connection: u64) -> BTreeSet<SessionId> {
        self.by_connection.remove(&connection).unwrap_or_default()
    }

    /// Notes that the connection of a session's last call is closed, unless there was another call. The session is checked at
    /// once: perhaps the connection was closed because its user was deleted. Returns whether the note was made.
    pub(super) fn disconnect(&mut self, id: SessionId, connection: u64) -> bool {
        let Some(session) = self.get_mut(id).filter(|session| session.connection == Some(connection)) else {
            return false;
        };
        session.is_connected = false;
        self.alarms.set(&mut self.store, id.place, AT_ONCE, |session| &mut session.alarm);
        true
    }

    /// Closes a session. The rest of it stays until [`Self::drop_ended`]. Returns the call that waits.
    pub(super) fn end(&mut self, id: SessionId) -> Option<C> {
        self.set_abandoned(id, false);
        let session = self.get_mut(id).filter(|session| !session.has_ended)?;
        session.has_ended = true;
        let (name, owner, connection) =
            (Rc::clone(&session.name), Rc::clone(&session.owner), session.connection.take());
        let poll = session.poll.take().map(|(poll, _)| poll);
        self.alarms.cancel(&mut self.store, id.place, |session| &mut session.alarm);
        self.by_name.remove(&name);
        owner.sessions.set(owner.sessions.get().saturating_sub(1));
        self.forget_connection(connection, id);
        poll
    }

    pub(super) fn drop_ended(&mut self, id: SessionId) {
        let Some(session) = self.get(id).filter(|session| session.has_ended) else { return };
        let owner = Rc::clone(&session.owner);
        self.store.remove(id.place);
        // Only this reference and the one in the map are left.
        if Rc::strong_count(&owner) == 2 {
            self.users.remove(&owner.name);
        }
    }

    /// All open sessions, in no order.
    pub(super) fn open(&self) -> impl Iterator<Item = &Session<C>> {
        self.by_name.values().filter_map(|id| self.get(*id))
    }

    /// The number of open sessions that are noted as unattended.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.abandoned
    }

    /// A count of the sessions that is wrong, if any. `all` are all sessions; `claims` are those of their waiting tickets.
    pub(super) fn fault(&self, all: &[&Session<C>], claims: &BTreeMap<SessionId, usize>) -> Option<&'static str> {
        let is_right = |user: &User| {
            let own = || all.iter().filter(|session| session.owner.name == user.name);
            let of =
                |session: &Session<C>| session.outbox.claims().saturating_add(*claims.get(&session.id).unwrap_or(&0));
            own().filter(|session| !session.has_ended).count() == user.sessions.get()
                && own().map(|session| of(session)).sum::<usize>() == user.claims.get()
        };
        let is_its = |(connection, ids): (&u64, &BTreeSet<SessionId>)| {
            ids.iter().all(|id| self.get(*id).is_some_and(|session| session.connection == Some(*connection)))
        };
        let sum = |of: fn(&Session<C>) -> usize| all.iter().map(|session| of(session)).sum::<usize>();
        let checks = [
            (self.by_connection.iter().all(is_its), "a connection has a session that has left it"),
            (all.len() == self.store.len(), "a session is neither open nor about to go"),
            (sum(|session| session.tickets.length()) == self.waiting, "the tickets that wait are miscounted"),
            (sum(|session| session.outbox.len()) == self.events, "the events are miscounted"),
            (claims.values().sum::<usize>() == self.waiting_claims, "the claims of tickets are miscounted"),
            (self.users.values().all(|user| is_right(user)), "what a user has is miscounted"),
            (sum(|session| session.outbox.claims()) == self.event_claims, "the claims of events are miscounted"),
            (sum(|session| usize::from(session.is_abandoned)) == self.abandoned, "the unattended are miscounted"),
        ];
        checks.into_iter().find_map(|(holds, fault)| (!holds).then_some(fault))
    }
}
