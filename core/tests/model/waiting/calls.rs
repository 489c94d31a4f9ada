//! What sessions ask: calls for events over connections that break, waits by ticket, and what they take back.

use super::play::{Asking, Play};
use super::sessions::Told;
use super::world::{Happening, LOCKS, Look, Named, Waiting, Who, text};
use super::{Ack, EventsAsked, SESSIONS};
use rlock_core::lock::{Outcome, UnixMs};
use rlock_core::waiting::Host;
use rlock_core::waiting::commands::Polled;
use rlock_core::waiting::{Call, Cancelled, Event, NoSession, Note, SessionId, TicketNames, Use, WaitsFor};
use std::collections::VecDeque;

const OWNER: &[u8] = b"eve";
const STRANGER: &[u8] = b"mallory";

/// A process's connection. While a call waits on it, what comes behind the call waits too.
pub struct Connection {
    pub number: u64,
    pub call: Option<u64>,
    /// Whether the call is about to be answered.
    pub is_woken: bool,
    pipeline: VecDeque<EventsAsked>,
}

impl Connection {
    pub fn new(number: u64) -> Self {
        Self { number, call: None, is_woken: false, pipeline: VecDeque::new() }
    }

    /// What is under way on it.
    pub fn state(&self) -> String {
        format!("{} {} {:?}", self.call.is_some(), self.is_woken, self.pipeline)
    }
}

/// What CANCEL has done since the server last had nothing to do.
#[derive(Default)]
pub struct TakenBack {
    /// The clients that are blocked until their CANCEL is done.
    pub commands: Vec<u64>,
    /// What became of the tickets that were found.
    found: Vec<Cancelled>,
    /// The same by the answers, which include the tickets that were not found.
    said: Vec<Cancelled>,
    /// Whether one of the clients gets no answer.
    is_given_up: bool,
}

impl Play {
    /// The engine's id of the open session of this name.
    pub fn find(&self, name: &str) -> Option<SessionId> {
        let found = self.engine.session(name.as_bytes(), OWNER);
        assert_eq!(found.is_ok(), self.sessions.get(name).is_some(), "whether {name} is open");
        found.ok()
    }

    /// What a ticket's name is used for, as the process must see it.
    pub fn expected_use(&self, of: &str, ticket: &str, asking: &Asking) -> Use {
        let session = self.sessions.get(of).unwrap();
        let is_it = |waiting: &Waiting| waiting.session == Some(session.number) && is_ticket(waiting, ticket);
        if !session.has_event(ticket) && !self.waiting().iter().any(is_it) {
            return Use::Free;
        }
        let asked = &self.asked[&session.number].iter().find(|(name, _)| name == ticket).unwrap().1;
        let wish = |asking: &Asking| (asking.lock, asking.holder, asking.side, asking.is_fenced());
        if wish(asked) == wish(asking) { Use::Same } else { Use::Other }
    }

    /// The leases of two sessions of one name differ, so that their tickets differ in the queue.
    pub fn ask_by_new_ticket(&mut self, of: &str, mut asking: Asking) {
        let Some(session) = self.sessions.get(of) else {
            return self.ask(&asking, Some((of, &format!("{of}-0"))));
        };
        let asked = self.asked.get(&session.number).map_or(0, Vec::len);
        asking.lease = asking.lease * 4 + (session.number % 4) as i64;
        self.ask(&asking, Some((of, &format!("{of}-{asked}"))));
    }

    /// The same request again, or the same ticket for another lock, or with another lease and perhaps a token.
    pub fn ask_again(&mut self, of: &str, ticket: usize, other: bool) {
        let Some(asked) = self.sessions.get(of).and_then(|session| self.asked.get(&session.number)) else { return };
        let (ticket, mut asking) = asked[ticket % asked.len()].clone();
        if other && asking.lease % 2 == 0 {
            asking.lock = (asking.lock + 1) % LOCKS.len();
        } else if other {
            asking.lease += 4;
        }
        self.ask(&asking, Some((of, &ticket)));
    }

    pub fn events(&mut self, asked: EventsAsked) {
        let at = asked.connection;
        if self.connections[at].call.is_some() {
            return self.connections[at].pipeline.push_back(asked);
        }
        let (name, connection, now) = (SESSIONS[asked.session], self.connections[at].number, self.now());
        let told_ever = self.sessions.get(name).map_or(0, |session| session.told_ever);
        let acknowledged = match asked.ack {
            Ack::None => None,
            Ack::All => Some(told_ever),
            Ack::AllBut(few) => Some(told_ever.saturating_sub(few)),
            Ack::TooMany => Some(told_ever + 1),
        };
        let call = Call { connection: Some(connection), acknowledged, ttl_ms: asked.ttl };
        let before = self.sessions.get(name).map(|session| session.number);
        let expected = self.sessions.call(name, connection, acknowledged, asked.ttl, now);
        let polled = self.engine.poll(&self.world, name.as_bytes(), OWNER, call, asked.wait);
        self.world.watch(&self.engine);
        let (polled, former) = match (polled, expected) {
            (Ok(Polled::TakenOver), Err(NoSession::TakenOver)) => return,
            (Ok(polled), Ok(former)) => (polled, former),
            (polled, expected) => {
                return assert_eq!(polled.map(|_| ()), expected.map(|_| ()), "whether {name} is to be had");
            }
        };
        let number = self.sessions.get(name).unwrap().number;
        assert!(before.is_none_or(|before| before == number));
        let is_woken = |happening: &Happening| matches!(happening, Happening::Woken(call) if Some(*call) == former);
        let wakes = self.world.watcher.happenings.borrow().iter().any(is_woken);
        assert_eq!(wakes, former.is_some(), "the call that is taken over from is answered");
        self.superseded.extend(former);
        let session = self.sessions.get_mut(name).unwrap();
        let limit = asked.wait.filter(|_| !session.has_news());
        match (polled, limit) {
            (Polled::Waits(id), Some(limit)) => {
                let call = self.world.watcher.last_id();
                session.wait(call, limit, now);
                self.connections[at].call = Some(call);
                self.calls.insert(call, (name.to_owned(), number, id));
            }
            (Polled::Answered(id), None) => {
                let expected = session.tell(connection);
                let told = self.engine.take_news(&self.world, id, usize::MAX);
                self.check_told(number, connection, &told, expected);
            }
            (polled, limit) => panic!("a call for {limit:?} ms is {polled:?}"),
        }
    }

    /// Checks that a session gets the events that it must get, each time the same.
    fn check_told(&mut self, number: u64, connection: u64, told: &[(Event, Option<i64>)], expected: Vec<Told>) {
        let names = |told: &[(u64, String)]| format!("{told:?}");
        let expected_names: Vec<_> = expected.iter().map(|(seq, ticket, _)| (*seq, ticket.clone())).collect();
        let told_names: Vec<_> = told.iter().map(|(event, _)| (event.seq, text(event.names.ticket()))).collect();
        assert_eq!(names(&told_names), names(&expected_names), "what session {number} is told");
        for ((event, left_ms), (seq, ticket, outcomes)) in told.iter().zip(expected) {
            assert!(outcomes.contains(&event.outcome), "{ticket} is told {:?}, not one of {outcomes:?}", event.outcome);
            if let Some(session) = self.sessions.number_mut(Some(number)) {
                session.said(seq, event.outcome);
            }
            assert_eq!(left_ms.is_some(), matches!(event.outcome, Outcome::Granted { .. }));
            self.left_ms.extend(left_ms);
            if let Some(left_ms) = *left_ms {
                let left = |end: UnixMs| (end - self.world.now()).max(0);
                let asked = &self.asked[&number].iter().find(|(name, _)| *name == ticket).unwrap().1;
                let held = self.world.held(asked.lock, asked.holder, asked.side).filter(|_| !self.is_replica);
                assert_eq!(left_ms, held.map_or(0, |held| left(held.end)), "what is left of {asked:?}");
            }
            self.told.push((connection, seq, ticket, event.outcome));
        }
    }

    /// The server writes the answer to a call, or finds that its client is gone.
    pub fn answer_call(&mut self, call: u64) {
        let Some(at) = self.connections.iter().position(|connection| connection.call == Some(call)) else { return };
        if std::mem::take(&mut self.next_answer_is_lost) {
            return self.disconnect(at);
        }
        self.write_news(at, call);
    }

    fn write_news(&mut self, at: usize, call: u64) {
        let (_, number, id) = self.calls[&call];
        let connection = self.connections[at].number;
        let is_its_own = self.engine.connection_of(id) == Some(connection);
        let told = if is_its_own { self.engine.take_news(&self.world, id, usize::MAX) } else { Vec::new() };
        if !is_its_own {
            self.engine.cut_off_is_answered(id, connection);
            if let Some(session) = self.sessions.number_mut(Some(number)) {
                session.cut_off_is_answered(connection);
            }
        }
        let expected = self.sessions.number_mut(Some(number)).map_or_else(Vec::new, |session| session.tell(connection));
        self.check_told(number, connection, &told, expected);
        self.connections[at].call = None;
        self.connections[at].is_woken = false;
        if let Some(next) = self.connections[at].pipeline.pop_front() {
            self.events(next);
        }
    }

    /// A connection breaks. The process makes a new one in its place.
    pub fn disconnect(&mut self, at: usize) {
        let connection = std::mem::replace(&mut self.connections[at], Connection::new(self.next_connection));
        self.next_connection += 1;
        self.sessions.disconnected(connection.number);
        let now = self.now();
        self.engine.note(Note::Disconnected(connection.number));
        if let Some(call) = connection.call {
            let (_, _, id) = self.calls[&call];
            let taken = self.engine.stop_waiting(WaitsFor::Events(id), now, |client| client.id == call);
            let waits = Some(call).filter(|_| !connection.is_woken);
            assert_eq!(taken.map(|client| client.id), waits, "the call that waits is taken back");
        }
    }

    /// CLIENT UNBLOCK: the call is answered with what there is.
    pub fn unblock(&mut self, at: usize) {
        let Connection { call: Some(call), is_woken: false, .. } = self.connections[at] else { return };
        let ((_, number, id), now) = (self.calls[&call].clone(), self.now());
        let taken = self.engine.stop_waiting(WaitsFor::Events(id), now, |client| client.id == call);
        assert_eq!(taken.map(|client| client.id), Some(call), "the call that waits is taken back");
        self.sessions.number_mut(Some(number)).unwrap().answered(now);
        self.write_news(at, call);
    }

    pub fn cancel(&mut self, of: &str, tickets: &[usize]) {
        let Some(id) = self.find(of) else { return };
        let session = self.sessions.get(of).unwrap().number;
        let Some(asked) = self.asked.get(&session) else { return };
        let names: Vec<_> = tickets.iter().map(|ticket| asked[ticket % asked.len()].0.clone()).collect();
        for ticket in &names {
            let named = Named { id, session, ticket: ticket.clone() };
            let mut all = self.world.watcher.named.borrow_mut();
            if !all.contains(&named) {
                all.push(named);
            }
        }
        self.world.watch(&self.engine);
        let mut tickets = TicketNames::default();
        names.iter().for_each(|name| tickets.push(name.as_bytes()));
        match self.engine.cancel(&self.world, id, tickets) {
            Ok(Some(cancelled)) => self.taken_back.said.extend(cancelled),
            Ok(None) => self.taken_back.commands.push(self.world.watcher.last_id()),
            Err(rejected) => panic!("{rejected:?}"),
        }
    }

    /// The client of a CANCEL that is under way is gone, or is unblocked.
    pub fn give_up_cancel(&mut self, cancel: usize) {
        if self.taken_back.commands.is_empty() {
            return;
        }
        let cancel = self.taken_back.commands.remove(cancel % self.taken_back.commands.len());
        let taken = self.engine.stop_waiting(WaitsFor::Cancel, self.now(), |client| client.id == cancel);
        assert_eq!(taken.map(|client| client.id), Some(cancel), "a CANCEL that has no answer is taken back");
        self.taken_back.is_given_up = true;
    }

    pub fn is_taken_back(&mut self, named: &Named, has_waited: bool) {
        let Some(session) = self.sessions.number_mut(Some(named.session)) else { return };
        let cancelled = match session.cancelled(&named.ticket) {
            Some(true) => Cancelled::Granted,
            Some(false) => Cancelled::Withdrawn,
            None if has_waited => Cancelled::Withdrawn,
            None => return,
        };
        self.taken_back.found.push(cancelled);
    }

    pub fn cancel_is_answered(&mut self, cancel: u64, cancelled: &[Cancelled]) {
        let of_it = self.taken_back.commands.iter().position(|command| *command == cancel);
        self.taken_back.commands.remove(of_it.expect("a CANCEL is answered once"));
        self.taken_back.said.extend(cancelled);
    }

    /// To be called when everything is done that can be done.
    pub fn check_taken_back(&mut self) {
        let TakenBack { commands, found, said, is_given_up } = std::mem::take(&mut self.taken_back);
        assert!(commands.is_empty(), "a CANCEL has no answer");
        let of = |all: &[Cancelled], one| all.iter().filter(|cancelled| **cancelled == one).count();
        for one in [Cancelled::Withdrawn, Cancelled::Granted] {
            assert!(is_given_up || of(&found, one) == of(&said, one), "{found:?}, and these are told: {said:?}");
        }
        self.world.watcher.named.take();
    }

    /// CANCEL without tickets.
    pub fn end_session(&mut self, of: &str) {
        let Some(id) = self.find(of) else { return };
        let session = self.sessions.get(of).unwrap();
        let waiting = self.waiting().iter().filter(|waiting| waiting.session == Some(session.number)).count();
        self.ended(of);
        assert_eq!(self.engine.close_session(&self.world, id), waiting, "the number of tickets that waited");
    }

    /// A session is no more.
    pub fn ended(&mut self, of: &str) {
        let session = self.sessions.end(of).unwrap();
        self.superseded.extend(session.call.map(|call| call.id));
    }

    /// Another user knows the session's name.
    pub fn stranger(&mut self, of: &str) {
        if self.find(of).is_none() {
            return;
        }
        let call = Call { connection: Some(999_999), acknowledged: None, ttl_ms: Some(600_000) };
        assert_eq!(self.engine.session(of.as_bytes(), STRANGER), Err(NoSession::Unknown));
        let polled = self.engine.poll(&self.world, of.as_bytes(), STRANGER, call, None);
        assert_eq!(polled, Err(NoSession::Unknown));
    }
}

fn is_ticket(waiting: &Waiting, name: &str) -> bool {
    matches!(&waiting.who, Who::Ticket { ticket, .. } if ticket == name)
}
