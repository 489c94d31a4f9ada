//! A session with one server: all waits of this program on that server, by tickets, on one connection that is polled.
//!
//! Two polls are always under way: one waits in the server while the client reads the reply to the other. If the
//! connection breaks, the server keeps the places for a while, so the client reconnects at once. If that fails, it
//! notifies the waiting attempts, since their locks may have moved to another server. They ask again with the same
//! tickets, which queues nothing twice; if the connection comes back in time they keep their places.
//!
//! **The next poll acknowledges an event.** From then on only the lease of a grant counts. The server reports how long
//! the lease lasts from the start of the poll that it answers, so each poll records when it was sent: the lease lasts
//! at least that long after this time. The client also acknowledges grants of tickets that it has given up and
//! forgotten: their leases are short.

use super::fault::{Fault, What};
use super::request::{self, Wait};
use super::resp::Reply;
use super::{Asker, Body, Engine, Errand, Lane, NodeId, Timer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the server keeps the places of a silent session. If this machine disappears, its waiters block others for
/// that long; if the connection dies, the client notices within that time.
const TTL: Duration = Duration::from_secs(3);

/// A poll waits in the server for a third of the TTL. The client gives up a reply that takes longer than this.
const POLL_MAX: Duration = Duration::from_millis(1_500);

const POLLS: usize = 2;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(320);

pub(super) struct Session {
    /// A secret of this program.
    name: Arc<str>,
    /// Distinguishes late replies of an earlier session from replies of its successor.
    serial: u64,
    state: State,
    last_ticket: u64,
    /// The attempt of each ticket.
    waiting: BTreeMap<u64, u64>,
    /// Requests that wait until the session is open.
    pub parked: Vec<Errand>,
    /// The last event received.
    last_event: u64,
    /// When it was open for the last time.
    open_at: Option<Instant>,
    pause: Duration,
    /// When the connection is given up if no reply comes, and whether a timer is set for that.
    answer_by: Instant,
    is_timed: bool,
    /// Since when no attempt waits by it.
    idle_since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// It reconnects after a pause, and its waiting attempts have been notified.
    Broken,
}

/// One wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub node: NodeId,
    session: u64,
    /// The server may know the session for longer than this program does.
    session_name: Arc<str>,
    number: u64,
}

impl Ticket {
    /// The request that cancels it.
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

    /// Returns the request if it can be sent now. A request that waits by a session is parked until the session is
    /// open; parked requests keep their order.
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
            last_event: 0,
            open_at: None,
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
            self.connection_to(node, Lane::Poll);
        }
        None
    }

    /// The request to wait: by the attempt's ticket, or by a new one if that ticket belongs to another session.
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
            self.drop_ticket(&old);
        }
        Some(bytes)
    }

    /// No attempt waits for this ticket any more.
    pub(super) fn drop_ticket(&mut self, ticket: &Ticket) {
        let now = self.now;
        if let Some(session) = self.session_of(ticket.node, ticket.session) {
            session.waiting.remove(&ticket.number);
            if session.waiting.is_empty() {
                session.idle_since = now;
            }
        }
    }

    /// Cancelling failed: draws the conclusion for the session. Returns whether the session continues.
    pub(super) fn cancel_failed(&mut self, ticket: &Ticket, fault: &Fault) -> bool {
        // On a replica no ticket waits, so there is nothing to cancel.
        if fault.is_no_session() || !fault.may_pass() || fault.what == What::NotHere {
            self.session_is_known(ticket.node, ticket.session, Err(fault.clone()));
        }
        self.session_of(ticket.node, ticket.session).is_some()
    }

    /// Whether the ticket's session still exists.
    pub(super) fn is_of_a_session(&mut self, ticket: &Ticket) -> bool {
        self.session_of(ticket.node, ticket.session).is_some()
    }

    pub(super) fn is_session_open(&mut self, node: NodeId) -> bool {
        self.session(node).is_some_and(|session| session.state == State::Open)
    }

    pub(super) fn session_connected(&mut self, node: NodeId) {
        let Some(session) = self.session(node) else { return self.close_lane(node, Lane::Poll) };
        let was_open = session.open_at.is_some();
        if was_open {
            self.asks_whether_it_is_known(node);
        }
        // The first poll replies at once, which shows that the session is open.
        for number in 0..POLLS {
            self.poll(node, number > 0);
        }
        self.awaits_poll(node);
    }

    /// If the server has ended the session, a poll that acknowledges nothing would open an empty one of the same name.
    /// So if that is possible, the client first asks the server.
    fn asks_whether_it_is_known(&mut self, node: NodeId) {
        let id = self.next_id();
        let Some(session) = self.session(node).filter(|session| session.last_event == 0) else { return };
        let (serial, bytes) = (session.serial, request::cancel(&session.name, 0));
        self.ask_node(id, node, Asker::Session(node, serial), bytes, Lane::Poll);
    }

    /// A reply, on any connection, that shows whether the server still knows the session.
    pub(super) fn session_is_known(&mut self, node: NodeId, serial: u64, answer: Result<Reply, Fault>) {
        // After an error the session ends here too: another poll could open a new session of this name.
        if let (Some(_), Err(fault)) = (self.session_of(node, serial), answer) {
            self.session_ends(node, &fault);
        }
    }

    fn poll(&mut self, node: NodeId, waits: bool) {
        let id = self.next_id();
        let Some(session) = self.session(node) else { return };
        let body = Body::Bytes(request::events(&session.name, session.last_event, waits, TTL));
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

    /// Reconnects, or gives up a connection on which nothing comes.
    pub(super) fn session_is_due(&mut self, node: NodeId, serial: u64) {
        let now = self.now;
        let Some(session) = self.session_of(node, serial) else { return };
        let (by, state) = (session.answer_by, session.state);
        session.is_timed = by > now;
        if by > now {
            self.timers.insert((by, Timer::Session(node, serial)));
        } else if state == State::Broken {
            self.connection_to(node, Lane::Poll);
        } else {
            self.connection_fails(node, &Fault::timed_out());
        }
    }

    fn connection_fails(&mut self, node: NodeId, why: &Fault) {
        // The connection ends first, so that the session is not notified of its end.
        if let Some(connection) = self.nodes.get(&node).and_then(|node| node.connection(Lane::Poll)) {
            self.effects.push(super::Effect::Close(connection));
            self.connection_ends(connection, &Fault::broken());
        }
        self.session_broke(node, why);
    }

    pub(super) fn polled(&mut self, node: NodeId, serial: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let (now, idle) = (self.now, self.settings.idle);
        if self.session_of(node, serial).is_none() {
            return;
        }
        let events = match answer.and_then(|answer| request::read_events(answer, sent_at)) {
            Ok(events) => events,
            // The connection reports its own end.
            Err(fault) if fault.what == What::Silent && fault.is_prompt() => return,
            Err(fault) if fault.is_unknown_command() => {
                let fault = Fault { what: What::TooOld, ..fault };
                return self.session_ends(node, &fault);
            }
            Err(fault) if fault.is_no_session() || !fault.may_pass() => return self.session_ends(node, &fault),
            Err(fault) => return self.connection_fails(node, &fault),
        };
        let Some(session) = self.session(node) else { return };
        (session.state, session.open_at, session.pause) = (State::Open, Some(now), PAUSE_MIN);
        let parked = std::mem::take(&mut session.parked);
        let is_unused = session.waiting.is_empty() && parked.is_empty() && session.idle_since + idle <= now;
        // The next poll repeats an acknowledgement that may have been lost with the former connection.
        let last_event = session.last_event;
        session.last_event = events.last().map_or(last_event, |event| event.seq.max(last_event));
        for event in events.into_iter().filter(|event| event.seq > last_event) {
            let Some(session) = self.session_of(node, serial) else { return };
            let Some(attempt) = session.waiting.remove(&event.ticket) else { continue };
            if session.waiting.is_empty() {
                session.idle_since = now;
            }
            self.ticket_event(attempt, node, event.outcome);
        }
        for errand in parked {
            self.send(errand);
        }
        if is_unused {
            // The server ends the session a while after its connection.
            return self.session_ends(node, &Fault::broken());
        }
        if sent_at + TTL <= now {
            // This process stalled.
            self.asks_whether_it_is_known(node);
        }
        self.poll(node, true);
        self.awaits_poll(node);
    }

    /// The connection broke, or could not be opened.
    pub(super) fn session_broke(&mut self, node: NodeId, why: &Fault) {
        let (now, opening) = (self.now, self.settings.connect + POLL_MAX);
        let Some(session) = self.session(node) else { return };
        if session.state == State::Open {
            // If a new connection comes at once, the waiting attempts need not know.
            (session.state, session.open_at) = (State::Opening, Some(now));
            session.answer_by = now + opening;
            self.connection_to(node, Lane::Poll);
            return;
        }
        if !why.may_pass() || session.open_at.is_none_or(|open_at| open_at + TTL <= now) {
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

    /// The server does not know the session, or no attempt needs it.
    pub(super) fn session_ends(&mut self, node: NodeId, why: &Fault) {
        let Some(session) = self.nodes.get_mut(&node).and_then(|node| node.session.take()) else { return };
        self.close_lane(node, Lane::Poll);
        self.notify_all(session, why);
    }

    pub(super) fn notify_all(&mut self, session: Session, why: &Fault) {
        for attempt in session.waiting.into_values() {
            self.ticket_is_in_doubt(attempt, why);
        }
        for errand in session.parked {
            self.fails(errand, why.clone());
        }
    }
}
