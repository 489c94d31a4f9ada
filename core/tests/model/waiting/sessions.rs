//! A session as the contract describes it (docs/commands.md, *Sessions*), written as plainly as it can be: a list of events,
//! searched from the start for each question. It knows nothing of queues; only which events a process must get, and when
//! it is attended.
//!
//! Three things are in no contract, and are here as they were decided: a call of a session that seems to read nothing
//! waits for a few ms only; a call from before a take-over is answered empty; and a session has some time more if a
//! server finds its end late, since it stalled.

use rlock_core::lock::{Outcome, UnixMs};
use rlock_core::waiting::NoSession;
use std::collections::BTreeMap;

pub const MOST_SESSIONS: usize = 2;

/// How many connections that were cut off are remembered.
const CUT_OFF_MAX: usize = 8;

/// With more unacknowledged events than this, the process seems not to read them.
const UNREAD: usize = 1_000;

/// All sessions that are open, by name.
#[derive(Default)]
pub struct Sessions {
    open: BTreeMap<String, Session>,
    opened: u64,
}

pub struct Session {
    /// No other session has it, not even one of the same name.
    pub number: u64,
    ttl: i64,
    seen: UnixMs,
    answered: UnixMs,
    /// The last connection, if it is open.
    pub connection: Option<u64>,
    pub call: Option<WaitingCall>,
    events: Vec<Event>,
    seqs: u64,
    pub told_ever: u64,
    /// The last connection, open or not.
    last: Option<u64>,
    /// The last connections from which another one took over while a call waited, and whether the server had done with that
    /// call when it last came to its own work.
    cut_off: Vec<(u64, CutOff)>,
    /// Until then the session need not have ended, since the server stalled.
    reprieve: UnixMs,
    is_reprieved: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum CutOff {
    Unanswered,
    Answered,
    Past,
}

pub struct WaitingCall {
    pub id: u64,
    pub until: UnixMs,
    /// Whether there is something to tell.
    pub has_news: bool,
}

struct Event {
    seq: u64,
    ticket: String,
    /// The outcomes that it may have; exactly one after it was sent.
    outcomes: Vec<Outcome>,
    /// Whether it was sent on the present connection.
    is_told: bool,
}

/// What a process gets: number, ticket, and the outcomes that would be right.
pub type Told = (u64, String, Vec<Outcome>);

impl Session {
    pub fn is_attended(&self, now: UnixMs) -> bool {
        let a_moment_ago = now - self.answered < self.ttl / 10;
        self.connection.is_some() && (self.call.is_some() || a_moment_ago) && self.events.len() <= UNREAD
    }

    pub fn is_over(&self, now: UnixMs) -> bool {
        now >= self.seen + self.ttl
    }

    /// Whether it must have ended if the server has nothing else to do. A turn that was cut short may have come to it later
    /// than is known here, and given it some time more.
    pub fn is_long_over(&self, now: UnixMs) -> bool {
        now >= self.reprieve.max(self.seen + self.ttl) + self.ttl / 2
    }

    /// A server that finds the end of a session late has stalled: then the process has some time more to give a sign of life.
    pub fn server_goes_on(&mut self, now: UnixMs) {
        let end = if self.is_reprieved { self.reprieve } else { self.seen + self.ttl };
        if now - end > self.ttl / 10 {
            self.reprieve = now + self.ttl / 3;
        }
    }

    /// The server has done everything that it had to do.
    pub fn server_is_done(&mut self) {
        self.is_reprieved = self.reprieve > self.seen + self.ttl;
    }

    /// What becomes of a call from a connection that another one has taken over from.
    fn late(&self, connection: u64) -> Option<NoSession> {
        let present = self.connection?;
        match self.cut_off.iter().find(|(cut_off, _)| *cut_off == connection)?.1 {
            CutOff::Unanswered | CutOff::Answered => Some(NoSession::TakenOver),
            CutOff::Past => (self.call.is_some() && connection < present).then_some(NoSession::AnotherWaits),
        }
    }

    /// The call that was cut off on this connection is answered.
    pub fn cut_off_is_answered(&mut self, connection: u64) {
        for (_, what) in self.cut_off.iter_mut().filter(|(cut_off, _)| *cut_off == connection) {
            *what = CutOff::Answered;
        }
    }

    /// The server comes to its own work, after everything that was sent to it.
    pub fn turn(&mut self) {
        for (_, what) in self.cut_off.iter_mut().filter(|(_, what)| *what == CutOff::Answered) {
            *what = CutOff::Past;
        }
    }

    pub fn events(&self) -> usize {
        self.events.len()
    }

    pub fn has_event(&self, ticket: &str) -> bool {
        self.events.iter().any(|event| event.ticket == ticket)
    }

    pub fn has_news(&self) -> bool {
        self.events.iter().any(|event| !event.is_told)
    }

    pub fn acknowledged(&mut self, up_to: u64) {
        self.events.retain(|event| event.seq > up_to);
    }

    pub fn wait(&mut self, id: u64, limit: i64, now: UnixMs) {
        // An acknowledgement may come behind the call of a session that seems to read nothing.
        let most = if self.events.len() > UNREAD { 10 } else { self.ttl / 3 };
        let until = now + if limit > 0 { limit.min(most) } else { most };
        self.call = Some(WaitingCall { id, until, has_news: false });
    }

    /// The call that waits is answered.
    pub fn answered(&mut self, now: UnixMs) -> Option<WaitingCall> {
        let call = self.call.take()?;
        self.answered = now;
        Some(call)
    }

    pub fn happened(&mut self, ticket: &str, outcomes: Vec<Outcome>) {
        self.seqs += 1;
        self.events.push(Event { seq: self.seqs, ticket: ticket.to_owned(), outcomes, is_told: false });
        if let Some(call) = &mut self.call {
            call.has_news = true;
        }
    }

    /// What a connection gets now: nothing, if it is not the session's.
    pub fn tell(&mut self, connection: u64) -> Vec<Told> {
        if self.connection != Some(connection) {
            return Vec::new();
        }
        let news = self.events.iter_mut().filter(|event| !event.is_told);
        let told: Vec<_> = news
            .map(|event| {
                event.is_told = true;
                (event.seq, event.ticket.clone(), event.outcomes.clone())
            })
            .collect();
        self.told_ever = told.iter().map(|(seq, ..)| *seq).fold(self.told_ever, u64::max);
        told
    }

    /// An event keeps the outcome with which it was first sent.
    pub fn said(&mut self, seq: u64, outcome: Outcome) {
        if let Some(event) = self.events.iter_mut().find(|event| event.seq == seq) {
            event.outcomes = vec![outcome];
        }
    }

    /// Returns whether the event of this ticket was a grant.
    pub fn cancelled(&mut self, ticket: &str) -> Option<bool> {
        let place = self.events.iter().position(|event| event.ticket == ticket)?;
        let event = self.events.remove(place);
        Some(event.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Granted { .. })))
    }
}

impl Sessions {
    pub fn get(&self, name: &str) -> Option<&Session> {
        self.open.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Session> {
        self.open.get_mut(name)
    }

    pub fn number(&self, number: Option<u64>) -> Option<&Session> {
        self.open.values().find(|session| Some(session.number) == number)
    }

    pub fn number_mut(&mut self, number: Option<u64>) -> Option<&mut Session> {
        self.open.values_mut().find(|session| Some(session.number) == number)
    }

    pub fn all(&self) -> impl Iterator<Item = (&String, &Session)> {
        self.open.iter()
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.open.values_mut()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// A call for events. Returns the call on another connection that it takes over from.
    pub fn call(
        &mut self,
        name: &str,
        connection: u64,
        acknowledged: Option<u64>,
        ttl: Option<i64>,
        now: UnixMs,
    ) -> Result<Option<u64>, NoSession> {
        let acknowledged = acknowledged.unwrap_or(0);
        if let Some(late) = self.open.get(name).and_then(|session| session.late(connection)) {
            return Err(late);
        }
        match self.open.get(name) {
            None if acknowledged > 0 => return Err(NoSession::Unknown),
            None if self.open.len() == MOST_SESSIONS => return Err(NoSession::TooMany),
            Some(session) if acknowledged > session.told_ever => return Err(NoSession::NeverTold),
            _ => {}
        }
        self.opened += 1;
        let number = self.opened;
        let session = self.open.entry(name.to_owned()).or_insert_with(|| Session {
            number,
            ttl: 10_000,
            seen: now,
            answered: now,
            connection: None,
            call: None,
            events: Vec::new(),
            seqs: 0,
            told_ever: 0,
            last: None,
            cut_off: Vec::new(),
            reprieve: 0,
            is_reprieved: false,
        });
        session.acknowledged(acknowledged);
        session.seen = now;
        (session.reprieve, session.is_reprieved) = (0, false);
        session.answered = now;
        session.ttl = ttl.unwrap_or(session.ttl);
        let mut former = None;
        if session.connection != Some(connection) {
            session.connection = Some(connection);
            session.events.iter_mut().for_each(|event| event.is_told = false);
            former = session.call.take().map(|call| call.id);
            session.cut_off.retain(|(cut_off, _)| *cut_off != connection);
            if let (Some(last), Some(_)) = (session.last.replace(connection), former) {
                session.cut_off.insert(0, (last, CutOff::Unanswered));
                session.cut_off.truncate(CUT_OFF_MAX);
            }
        }
        Ok(former)
    }

    pub fn disconnected(&mut self, connection: u64) {
        for session in self.open.values_mut().filter(|session| session.connection == Some(connection)) {
            session.connection = None;
            session.call = None;
        }
    }

    pub fn end(&mut self, name: &str) -> Option<Session> {
        self.open.remove(name)
    }
}
