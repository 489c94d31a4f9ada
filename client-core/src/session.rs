//! A session with one server: all waits of this program there, by tickets, on one line that is polled.
//!
//! Two polls are always under way, so that one waits in the server while the answer to the other is read. When the
//! connection breaks, the server keeps the places for a while. So it is made anew at once; only if that fails are those
//! who wait told, since their locks may be elsewhere by then. They ask again by the same tickets, which queues nothing
//! twice, and wait on if the connection comes back in time.
//!
//! **An event is acknowledged with the next poll.** From then on a grant is its lease's business. When that ends is told
//! from when the server began the very poll that it answers, so each poll keeps when it was sent: the lease lasts for as
//! long after that at least. A grant of a ticket that was given up and forgotten is acknowledged as well: its lease is short.

use super::fault::{Fault, What};
use super::request::{self, Wait};
use super::resp::Reply;
use super::{Asker, Body, Engine, Errand, Lane, NodeId, Timer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the server keeps the places of a session that says nothing. So long its waiters can hold others up when
/// this machine is gone without a word; so soon it is noticed here that the connection is.
const TTL: Duration = Duration::from_secs(3);

/// A poll waits in the server for a third of the TTL. An answer that takes longer than this is not waited for.
const POLL_MAX: Duration = Duration::from_millis(1_500);

const POLLS: usize = 2;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(320);

pub(super) struct Session {
    /// Only this program knows it.
    name: Arc<str>,
    /// So that what is left of an old one is not taken for its successor's.
    serial: u64,
    state: State,
    last_ticket: u64,
    /// Which attempt waits by which ticket.
    waiting: BTreeMap<u64, u64>,
    /// Requests that wait until it is open.
    pub parked: Vec<Errand>,
    /// The last event that has come.
    told: u64,
    /// When it was open the last time.
    heard: Option<Instant>,
    pause: Duration,
    /// When it is over with the line, if nothing comes; and whether somebody looks then.
    answer_by: Instant,
    is_timed: bool,
    /// Since when nobody waits.
    idle_since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// It is opened again after a pause, and whoever waits knows.
    Broken,
}

/// One wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub node: NodeId,
    session: u64,
    /// The server may know it for longer than this program.
    session_name: Arc<str>,
    number: u64,
}

impl Ticket {
    /// The request that takes it back.
    pub(super) fn cancel(&self) -> Vec<u8> {
        request::cancel(&self.session_name, self.number)
    }
}

impl Engine {
    fn session(&mut self, node: NodeId) -> Option<&mut Session> {
        self.nodes.get_mut(&node)?.session.as_mut()
    }

    fn session_of(&mut self, node: NodeId, serial: u64) -> Option<&mut Session> {
        self.session(node).filter(|session| session.serial == serial)
    }

    /// Lets pass what can be sent. A request that waits by a session comes later, when that is open: in the order in which
    /// they have come, so that they ask in that order.
    pub(super) fn joins_session(&mut self, node: NodeId, errand: Errand) -> Option<Errand> {
        if !matches!(errand.body, Body::Wait) {
            return Some(errand);
        }
        let (serial, now) = (self.next_id(), self.now);
        let Some(known) = self.nodes.get_mut(&node) else {
            self.fails(errand, Fault::broken());
            return None;
        };
        let session = known.session.get_or_insert_with(|| Session {
            name: format!("{}:{serial}", self.secret).into(),
            serial,
            state: State::Opening,
            last_ticket: 0,
            waiting: BTreeMap::new(),
            parked: Vec::new(),
            told: 0,
            heard: None,
            pause: PAUSE_MIN,
            answer_by: now,
            is_timed: false,
            idle_since: now,
        });
        if session.state == State::Open {
            return Some(errand);
        }
        session.parked.push(errand);
        if session.serial == serial {
            self.line_to(node, Lane::Poll);
        }
        None
    }

    /// By the ticket by which it waits already, or by another one if that was of another session.
    pub(super) fn wait_request(&mut self, node: NodeId, attempt: u64) -> Option<Vec<u8>> {
        let now = self.now;
        let asks = self.attempts.get_mut(&attempt)?;
        asks.asked = asks.lease(self.holds.get(&asks.hold)?, true, now);
        let left = asks.until.left(now);
        let old = asks.ticket.take();
        let session = self.nodes.get_mut(&node)?.session.as_mut()?;
        let ticket = old.clone().filter(|old| old.node == node && old.session == session.serial).unwrap_or_else(|| {
            session.last_ticket += 1;
            let session_name = session.name.clone();
            Ticket { node, session: session.serial, session_name, number: session.last_ticket }
        });
        session.waiting.insert(ticket.number, attempt);
        let bytes = asks.request(&self.holds, Some(Wait(&session.name, ticket.number, left)));
        let is_another = old.as_ref() != Some(&ticket);
        asks.ticket = Some(ticket);
        if let Some(old) = old.filter(|_| is_another) {
            self.waits_no_more(&old);
        }
        Some(bytes)
    }

    /// Nobody expects anything of this ticket.
    pub(super) fn waits_no_more(&mut self, ticket: &Ticket) {
        let now = self.now;
        if let Some(session) = self.session_of(ticket.node, ticket.session) {
            session.waiting.remove(&ticket.number);
            if session.waiting.is_empty() {
                session.idle_since = now;
            }
        }
    }

    /// It is taken back, but the answer is no: what that says of its session. Returns whether that goes on.
    pub(super) fn cancel_failed(&mut self, ticket: &Ticket, fault: &Fault) -> bool {
        // On a replica no ticket waits, and none can be taken back there.
        if fault.is_no_session() || !fault.may_pass() || fault.what == What::NotHere {
            self.session_is_known(ticket.node, ticket.session, Err(fault.clone()));
        }
        self.session_of(ticket.node, ticket.session).is_some()
    }

    /// Whether the session that it is of lasts.
    pub(super) fn is_of_a_session(&mut self, ticket: &Ticket) -> bool {
        self.session_of(ticket.node, ticket.session).is_some()
    }

    pub(super) fn is_session_open(&mut self, node: NodeId) -> bool {
        self.session(node).is_some_and(|session| session.state == State::Open)
    }

    pub(super) fn session_connected(&mut self, node: NodeId) {
        let Some(session) = self.session(node) else { return self.close_lane(node, Lane::Poll) };
        let was_open = session.heard.is_some();
        if was_open {
            self.asks_whether_it_is_known(node);
        }
        // The first one is to tell at once that it is open.
        for number in 0..POLLS {
            self.poll(node, number > 0);
        }
        self.awaits_poll(node);
    }

    /// A poll that acknowledges nothing would open another one of this name, in which nobody waits. So where it may have
    /// ended, the server is asked before the next one.
    fn asks_whether_it_is_known(&mut self, node: NodeId) {
        let id = self.next_id();
        let Some(session) = self.session(node).filter(|session| session.told == 0) else { return };
        let (serial, bytes) = (session.serial, request::cancel(&session.name, 0));
        self.ask_node(id, node, Asker::Session(node, serial), bytes, Lane::Poll);
    }

    /// Whether the server knows it still, over another line.
    pub(super) fn session_is_known(&mut self, node: NodeId, serial: u64, answer: Result<Reply, Fault>) {
        // Whatever the server says instead: another poll could open another session of this name.
        if let (Some(_), Err(fault)) = (self.session_of(node, serial), answer) {
            self.session_ends(node, &fault);
        }
    }

    fn poll(&mut self, node: NodeId, waits: bool) {
        let id = self.next_id();
        let Some(session) = self.session(node) else { return };
        let body = Body::Bytes(request::events(&session.name, session.told, waits, TTL));
        let errand = Errand::new(id, Asker::Poll(node, session.serial), body, Lane::Poll, TTL);
        self.send(Errand { to: Some(node), ..errand });
    }

    fn awaits_poll(&mut self, node: NodeId) {
        let by = self.now + POLL_MAX;
        let Some(session) = self.session(node) else { return };
        session.answer_by = by;
        let serial = session.serial;
        if !std::mem::replace(&mut session.is_timed, true) {
            self.timers.insert((by, Timer::Session(node, serial)));
        }
    }

    /// Its time has come: to open it again, or to give up a line on which nothing comes.
    pub(super) fn session_is_due(&mut self, node: NodeId, serial: u64) {
        let now = self.now;
        let Some(session) = self.session_of(node, serial) else { return };
        let (by, state) = (session.answer_by, session.state);
        session.is_timed = by > now;
        if by > now {
            self.timers.insert((by, Timer::Session(node, serial)));
        } else if state == State::Broken {
            self.line_to(node, Lane::Poll);
        } else {
            self.line_fails(node, &Fault::timed_out());
        }
    }

    fn line_fails(&mut self, node: NodeId, why: &Fault) {
        // First, so that it is not told of its own line's end.
        if let Some(line) = self.nodes.get(&node).and_then(|node| node.line(Lane::Poll)) {
            self.effects.push(super::Effect::Close(line));
            self.line_ends(line, &Fault::broken());
        }
        self.session_broke(node, why);
    }

    pub(super) fn polled(&mut self, node: NodeId, serial: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let (now, idle) = (self.now, self.settings.idle);
        if self.session_of(node, serial).is_none() {
            return;
        }
        let events = match answer.and_then(|answer| request::told(answer, sent_at)) {
            Ok(events) => events,
            // The line's end is told by itself.
            Err(fault) if fault.what == What::Silent && fault.is_prompt() => return,
            Err(fault) if fault.is_unknown_command() => {
                let fault = Fault { what: What::TooOld, ..fault };
                return self.session_ends(node, &fault);
            }
            Err(fault) if fault.is_no_session() || !fault.may_pass() => return self.session_ends(node, &fault),
            Err(fault) => return self.line_fails(node, &fault),
        };
        let Some(session) = self.session(node) else { return };
        (session.state, session.heard, session.pause) = (State::Open, Some(now), PAUSE_MIN);
        let parked = std::mem::take(&mut session.parked);
        let is_unused = session.waiting.is_empty() && parked.is_empty() && session.idle_since + idle <= now;
        // What was told on a former connection, whose acknowledgement was lost, is told once more.
        let told = session.told;
        session.told = events.last().map_or(told, |event| event.seq.max(told));
        for event in events.into_iter().filter(|event| event.seq > told) {
            let Some(session) = self.session_of(node, serial) else { return };
            let Some(attempt) = session.waiting.remove(&event.ticket) else { continue };
            if session.waiting.is_empty() {
                session.idle_since = now;
            }
            self.ticket_told(attempt, node, event.outcome);
        }
        for errand in parked {
            self.send(errand);
        }
        if is_unused {
            // The server ends it a while after its line.
            return self.session_ends(node, &Fault::broken());
        }
        if sent_at + TTL <= now {
            // This process stood still.
            self.asks_whether_it_is_known(node);
        }
        self.poll(node, true);
        self.awaits_poll(node);
    }

    /// Its line has broken, or could not be opened.
    pub(super) fn session_broke(&mut self, node: NodeId, why: &Fault) {
        let (now, opening) = (self.now, self.settings.connect + POLL_MAX);
        let Some(session) = self.session(node) else { return };
        if session.state == State::Open {
            // Those who wait need not know of it, if there is another line at once.
            (session.state, session.heard) = (State::Opening, Some(now));
            session.answer_by = now + opening;
            self.line_to(node, Lane::Poll);
            return;
        }
        if !why.may_pass() || session.heard.is_none_or(|heard| heard + TTL <= now) {
            return self.session_ends(node, why);
        }
        (session.state, session.answer_by, session.is_timed) = (State::Broken, now + session.pause, true);
        session.pause = (session.pause * 2).min(PAUSE_MAX);
        let (at, serial) = (session.answer_by, session.serial);
        let (waiting, parked): (Vec<_>, _) =
            (session.waiting.values().copied().collect(), std::mem::take(&mut session.parked));
        self.timers.insert((at, Timer::Session(node, serial)));
        for attempt in waiting {
            self.ticket_is_in_doubt(attempt, why);
        }
        for errand in parked {
            self.fails(errand, why.when(false));
        }
    }

    /// The server does not know it, or nobody needs it.
    pub(super) fn session_ends(&mut self, node: NodeId, why: &Fault) {
        let Some(session) = self.nodes.get_mut(&node).and_then(|node| node.session.take()) else { return };
        self.close_lane(node, Lane::Poll);
        self.all_are_told(session, why);
    }

    pub(super) fn all_are_told(&mut self, session: Session, why: &Fault) {
        for attempt in session.waiting.into_values() {
            self.ticket_is_in_doubt(attempt, why);
        }
        for errand in session.parked {
            self.fails(errand, why.clone());
        }
    }
}
