//! Clients that wait by tickets, and what a server keeps of their sessions: polled again and again, passed over while they are
//! not, ended when they were not for too long.

use super::client::{Kind, LONG_LEASE_MS, Next};
use super::lock::{Flaw, Time};
use super::world::{Event, World, moment};
use crate::history::{Answer, Event as Happened, Poll, Record, Request, Told};

const TTL: Time = 1_000_000;

/// For how long after a sign of life somebody is taken to be there.
const ATTENDED: Time = TTL / 10;

/// How long a client waits for an answer to a poll, and for what becomes of a ticket.
const PATIENCE: Time = 60_000;
const GIVES_UP_AFTER: Time = 2 * TTL;

#[derive(Default)]
pub struct Session {
    name: String,
    client: usize,
    /// What the server knows.
    is_open: bool,
    seen: Time,
    connection: u64,
    told: u64,
    told_before: u64,
    last: u64,
    events: Vec<Kept>,
    /// What the client knows.
    polls: u64,
    connections: u64,
    acked: u64,
    is_answered: u64,
    is_left: bool,
}

/// An event that is not acknowledged.
struct Kept {
    seq: u64,
    /// Of the request.
    number: usize,
    answer: Answer,
    /// What was granted, and nobody has renewed.
    is_unknown: bool,
}

/// A poll that is under way.
#[derive(Clone)]
pub struct Polling {
    session: usize,
    number: u64,
    connection: u64,
    ack: u64,
    is_lost: bool,
}

impl World {
    pub(super) fn session_name(&self, client: usize) -> Option<String> {
        self.session_at_hand(client).map(|session| self.sessions[session].name.clone())
    }

    /// The last one that its client has opened, whether it has left it or not.
    pub(super) fn session_at_hand(&self, client: usize) -> Option<usize> {
        let is_by_ticket = self.clients[client].kind == Kind::Sessions;
        self.sessions.iter().rposition(|it| it.client == client && is_by_ticket)
    }

    fn session_of(&self, client: usize) -> Option<usize> {
        self.sessions.iter().rposition(|it| it.client == client && !it.is_left)
    }

    fn open_session(&mut self, client: usize) -> usize {
        let name = format!("session-{}", self.sessions.len());
        self.sessions.push(Session { name, client, connections: 1, ..Session::default() });
        self.sessions.len() - 1
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.settings.flaw == Some(flaw)
    }

    /// The client polls, or does something else to its session.
    pub(super) fn poll(&mut self, client: usize) {
        if self.now > self.settings.length_ms * 1_000 {
            return;
        }
        let session = self.session_of(client).unwrap_or_else(|| self.open_session(client));
        self.give_up(client);
        match self.random.below(100) {
            0..4 => return self.soon(4 * ATTENDED, Event::Poll(client)),
            4 => return self.at(self.now + TTL * 5 / 4, Event::Poll(client)),
            5 => self.sessions[session].connections += 1,
            6 if self.sessions[session].polls > 3 => return self.leave(client, session),
            _ => {}
        }
        self.say(session);
    }

    /// Its client has nothing to do with it any more.
    fn leave(&mut self, client: usize, session: usize) {
        self.sessions[session].is_left = true;
        self.lose_ticket(client, "left");
        self.soon(10_000, Event::Poll(client));
    }

    fn say(&mut self, session: usize) {
        let it = &mut self.sessions[session];
        it.polls += 1;
        let (number, connection, ack) = (it.polls, it.connections, it.acked);
        let (client, name) = (self.clients[it.client].name.clone(), it.name.clone());
        let at = moment(self.now);
        let ttl_ms = TTL / 1_000;
        self.records.push(Record::Polled(Poll {
            at,
            client,
            session: name,
            number,
            connection,
            ack,
            ttl_ms,
            ends: false,
        }));
        let is_lost = self.random.is(3);
        let latency = self.latency();
        self.at(self.now + latency, Event::PollArrives(Polling { session, number, connection, ack, is_lost }));
        self.at(self.now + PATIENCE, Event::PollIsLate(session, number));
    }

    /// A client that has heard nothing makes another connection.
    pub(super) fn poll_is_late(&mut self, session: usize, number: u64) {
        let it = &mut self.sessions[session];
        if it.is_answered < number && !it.is_left {
            it.connections += 1;
            let client = it.client;
            self.at(self.now + 1, Event::Poll(client));
        }
    }

    pub(super) fn poll_arrives(&mut self, poll: Polling) {
        let has_lost = self.has(Flaw::EventLost);
        let (now, it) = (self.now, &mut self.sessions[poll.session]);
        if !it.is_open && poll.ack > 0 {
            return self.poll_is_answered(&poll, Told::NoSession);
        }
        it.is_open = true;
        it.seen = now;
        if it.connection != poll.connection {
            it.connection = poll.connection;
            it.told = if has_lost { it.told_before } else { 0 };
        }
        it.events.retain(|event| event.seq > poll.ack);
        let news: Vec<Happened> = it
            .events
            .iter()
            .filter(|event| event.seq > it.told)
            .map(|event| {
                let (seq, ticket) = (event.seq, self.asked[event.number].holder.clone());
                Happened { seq, ticket, outcome: event.answer.clone() }
            })
            .collect();
        it.told = it.last;
        let told_before = std::mem::replace(&mut it.told_before, it.last);
        let news = news.into_iter().map(|event| match self.settings.flaw {
            Some(Flaw::TwoOutcomes) if event.seq <= told_before => {
                Happened { outcome: Answer::Refused { left_ms: 0 }, ..event }
            }
            _ => event,
        });
        let told = Told::Events(news.collect());
        self.poll_is_answered(&poll, told);
        let ttl = if self.has(Flaw::ShortLife) { TTL / 5 } else { TTL };
        self.at(now + ATTENDED, Event::LookAtAll);
        self.at(now + ttl, Event::SessionMayEnd(poll.session));
        self.serve_all();
    }

    fn poll_is_answered(&mut self, poll: &Polling, told: Told) {
        if !poll.is_lost {
            let latency = self.latency();
            self.at(self.now + latency, Event::PollAnswered(poll.session, poll.number, told));
        }
    }

    pub(super) fn poll_answered(&mut self, session: usize, number: u64, told: Told) {
        let it = &mut self.sessions[session];
        // A connection that is given up is not read any more.
        if it.is_answered >= number || it.polls > number || it.is_left {
            return;
        }
        it.is_answered = number;
        let (client, name) = (it.client, it.name.clone());
        self.records.push(Record::Heard { at: moment(self.now), session: name, number, told: told.clone() });
        match told {
            Told::Events(events) => {
                for event in events {
                    self.told(client, session, event);
                }
                let pause = self.random.between((20_000, 60_000));
                self.at(self.now + pause, Event::Poll(client));
            }
            _ => self.leave(client, session),
        }
    }

    fn told(&mut self, client: usize, session: usize, event: Happened) {
        // Some are never acknowledged, and some a little later.
        let seq = event.seq;
        let is_pending = |number: &usize| self.asked[*number].holder == event.ticket;
        let pending = self.clients[client].pending.filter(is_pending);
        let Some(number) = pending else { return };
        self.clients[client].pending = None;
        // What lasts longer than the session is left to it, or renewed while the session is.
        let is_long = self.clients[client].lease_ms == LONG_LEASE_MS;
        let (is_left_alone, is_left) = (self.random.is(if is_long { 40 } else { 5 }), self.random.is(60) && is_long);
        if is_left_alone && event.is_grant() {
            self.write_answer(number, event.outcome);
            self.sessions[session].is_left = true;
            return self.go_on(client, Next::Rest(5_000));
        }
        if is_left && event.is_grant() {
            self.sessions[session].is_left = true;
            return self.reply(number, &event.outcome);
        }
        if self.random.is(50) {
            self.sessions[session].acked = self.sessions[session].acked.max(seq);
        }
        self.reply(number, &event.outcome);
    }

    /// A ticket that has waited for so long is taken back.
    fn give_up(&mut self, client: usize) {
        let is_old = |number: &usize| self.now > self.asked[*number].sent + GIVES_UP_AFTER;
        let gives_up = self.random.is(1);
        let Some(number) = self.clients[client].pending.filter(|number| gives_up || is_old(number)) else { return };
        let Request::Acquire { session: Some(session), .. } = self.asked[number].request.clone() else { return };
        if self.asked[number].is_queued {
            self.clients[client].pending = None;
            self.write_answer(number, Answer::Unknown("given up".to_owned()));
            self.send(client, Request::Cancel { session }, true);
        }
    }

    fn lose_ticket(&mut self, client: usize, why: &str) {
        let Some(number) = self.clients[client].pending.filter(|number| self.asked[*number].is_queued) else { return };
        self.clients[client].pending = None;
        self.write_answer(number, Answer::Unknown(why.to_owned()));
        self.go_on(client, Next::Rest(2_000));
    }

    fn write_answer(&mut self, number: usize, answer: Answer) {
        let asked = &self.asked[number];
        let (client, call) = (self.clients[asked.client].name.clone(), asked.number.expect("tickets are written down"));
        self.records.push(Record::Answered { at: moment(self.now), client, number: call, answer });
    }

    /// The server says that it waits.
    pub(super) fn queued(&mut self, number: usize) {
        self.asked[number].is_queued = true;
        let asked = &self.asked[number];
        let (client, call) = (self.clients[asked.client].name.clone(), asked.number.expect("tickets are written down"));
        self.records.push(Record::Queued { at: moment(self.now), client, number: call });
    }

    /// What became of a ticket, in its session's own time.
    pub(super) fn happened(&mut self, number: usize, answer: Answer) {
        let Some(session) = self.session_in(number).filter(|session| self.sessions[*session].is_open) else { return };
        let it = &mut self.sessions[session];
        it.last += 1;
        let is_unknown = matches!(answer, Answer::Granted { .. });
        it.events.push(Kept { seq: it.last, number, answer, is_unknown });
    }

    pub(super) fn session_in(&self, number: usize) -> Option<usize> {
        self.asked[number].session
    }

    /// Whether its session is not open.
    pub(super) fn is_denied(&self, number: usize) -> bool {
        self.session_in(number).is_some_and(|session| !self.sessions[session].is_open)
    }

    /// Whether somebody is there to be told.
    pub(super) fn is_attended(&self, number: usize) -> Option<bool> {
        let it = &self.sessions[self.session_in(number)?];
        Some(it.is_open && self.now < it.seen + ATTENDED)
    }

    /// A holder that renews knows of what it was granted.
    pub(super) fn is_known(&mut self, lock: usize, holder: &str) {
        for event in self.sessions.iter_mut().flat_map(|it| &mut it.events) {
            let asked = &self.asked[event.number];
            event.is_unknown &= asked.lock != lock || asked.holder != holder;
        }
    }

    pub(super) fn session_may_end(&mut self, session: usize) {
        let ttl = if self.has(Flaw::ShortLife) { TTL / 5 } else { TTL };
        let it = &mut self.sessions[session];
        if !it.is_open || self.now < it.seen + ttl {
            return;
        }
        it.is_open = false;
        let (told, events) = (it.told_before, std::mem::take(&mut it.events));
        let revokes_all = self.has(Flaw::RevokedGrant);
        for event in events.into_iter().filter(|event| event.seq > told || revokes_all) {
            self.revoke(&event);
        }
        for lock in 0..self.locks.len() {
            let asked = &self.asked;
            self.locks[lock].queue.retain(|waiter| asked[waiter.asking.number].session != Some(session));
        }
        self.serve_all();
    }

    fn revoke(&mut self, event: &Kept) {
        let is_granted = matches!(event.answer, Answer::Granted { .. });
        let is_revoked = match self.settings.flaw {
            Some(Flaw::RevokedGrant) => is_granted,
            _ => event.is_unknown,
        };
        if is_revoked {
            let (asked, now) = (&self.asked[event.number], self.now);
            let Request::Acquire { side, .. } = asked.request else { return };
            self.locks[asked.lock].release(&asked.holder, side, true, now);
        }
    }

    /// Whether the ticket of this holder was found.
    pub(super) fn take_back(&mut self, lock: usize, holder: &str) -> Answer {
        let is_it = |number: &usize| self.asked[*number].holder == holder && self.session_in(*number).is_some();
        let Some(number) = (0..self.asked.len()).rfind(is_it) else { return Answer::Cancelled(Some(false)) };
        if self.locks[lock].queue.iter().any(|waiter| waiter.asking.number == number) {
            if !self.has(Flaw::LeftTicket) {
                self.locks[lock].leave(number);
            }
            return Answer::Cancelled(Some(true));
        }
        let session = self.session_in(number).expect("it has one");
        let events = &mut self.sessions[session].events;
        let place = events.iter().position(|event| event.number == number);
        let event = place.map(|place| events.remove(place));
        if let Some(event) = &event {
            self.revoke(event);
        }
        Answer::Cancelled(Some(event.is_some()))
    }

    /// A server that is started anew, or another one.
    pub(super) fn forget_sessions(&mut self) {
        for it in &mut self.sessions {
            it.is_open = false;
            it.events.clear();
        }
    }

    pub(super) fn serve_all(&mut self) {
        (0..self.locks.len()).for_each(|lock| self.serve(lock));
    }
}
