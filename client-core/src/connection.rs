//! Connections and the requests on them. **A reply arrives in the runtime that waits for it, and no request queues
//! behind one that the server lets wait.** So each request has a lane. The connection of a lane is opened when it is
//! needed:
//!
//! - **Own**: renewals, and all background work.
//! - **Caller**: what a task waits for. The task's own runtime reads it, so no other thread has to wake up. A single
//!   task takes 20 µs of processor time for a cycle instead of 27; a thousand of them gain 6 %.
//! - **Poll**: the events of a session. The server blocks this connection.
//! - **Spare**: WAIT, which blocks all later requests of its connection. It is kept for the next WAIT: opening one each
//!   time makes a confirmed cycle take 143 µs instead of 49.
//!
//! If no other request is under way, a request is sent at once, otherwise together with what else is sent in a moment.
//! Sending all at once costs a thousand tasks 16 µs for a cycle instead of 9; delaying all costs one task 45 µs instead
//! of 27.
//!
//! **A late reply may still come.** A connection with an overdue reply gets no new requests, and is kept for a while: a
//! release needs the server's reply, however late.

use super::fault::{Fault, What};
use super::request;
use super::resp::{self, Reply};
use super::route::{Node, Route};
use super::{Answer, Asker, Body, ConnectionId, Effect, Engine, Errand, HoldId, Lane, NodeId, Timer};
use crate::error::Cause;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// The maximum number of renewals under way to one server: more would delay the server's other clients for too long.
pub(super) const RENEWALS_MAX: usize = 1_000;

/// How often a request is redirected before it fails. Slots move one node at a time.
const REDIRECTS_MAX: u8 = 5;

/// How long an overdue reply may still come.
pub(super) const LATE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    pub node: NodeId,
    pub lane: Lane,
    is_open: bool,
    /// Requests that wait until the connection is open, or until renewals have got their replies.
    queued: VecDeque<Errand>,
    pending: VecDeque<Pending>,
    renewals: usize,
    incoming: resp::Reader,
    /// The next check for overdue replies.
    looked_at: Option<Instant>,
    /// Since when it gets no new requests.
    retired: Option<Instant>,
}

struct Pending {
    errand: Errand,
    /// Read before the request was sent: whatever the server did, it did later.
    sent_at: Instant,
    limit: Instant,
    /// Its asker knows that it is overdue.
    is_late: bool,
    /// The reply to ASKING comes before its own.
    behind_another: bool,
}

impl Connection {
    pub(super) fn awaited(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is under way on it.
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.pending.is_empty() && self.incoming.unread().is_empty()
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.is_some()
    }
}

impl Engine {
    /// Sends a request about a hold to the server that has it. The request has passed the gate.
    pub(super) fn ask(&mut self, id: u64, asker: Asker, hold: HoldId, body: Body, lane: Lane) {
        let Some(held) = self.holds.get(&hold) else { return };
        let (key, gate) = (held.key.clone(), held.named.then_some(hold));
        self.send(Errand { key, gate, ..Errand::new(id, asker, body, lane, self.settings.answer) });
    }

    /// Sends a request to this server, whatever locks it has.
    pub(super) fn ask_node(&mut self, id: u64, node: NodeId, asker: Asker, bytes: Vec<u8>, lane: Lane) {
        let errand = Errand::new(id, asker, Body::Bytes(bytes), lane, self.settings.answer);
        self.send(Errand { to: Some(node), ..errand });
    }

    pub(super) fn send(&mut self, errand: Errand) {
        let Some(node) = errand.to.or_else(|| self.route.node(&errand.key)) else {
            self.parked.push(errand);
            return self.look_up();
        };
        let Some(errand) = self.joins_session(node, errand) else { return };
        let Some(id) = self.connection_to(node, errand.lane) else { return self.fails(errand, Fault::broken()) };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let waits = matches!(errand.asker, Asker::Renewal(_)) && connection.renewals >= RENEWALS_MAX;
        if waits || !connection.is_open { connection.queued.push_back(errand) } else { self.put(id, errand) }
    }

    /// The connection in use, or a new one that is being opened.
    pub(super) fn connection_to(&mut self, node: NodeId, lane: Lane) -> Option<ConnectionId> {
        if let Some(in_use) = self.nodes.get(&node)?.connection(lane) {
            return Some(in_use);
        }
        let id = self.next_id();
        let known = self.nodes.get_mut(&node)?;
        known.uses(lane, id);
        self.effects.push(Effect::Connect { connection: id, lane, address: known.address.clone() });
        let (is_open, queued, pending, renewals, incoming, looked_at, retired) = Default::default();
        self.connections
            .insert(id, Connection { node, lane, is_open, queued, pending, renewals, incoming, looked_at, retired });
        Some(id)
    }

    fn connection_in(&self, node: NodeId, lane: Lane) -> Option<&Connection> {
        self.connections.get(&self.nodes.get(&node)?.connection(lane)?)
    }

    /// Whether this lane's connection is open.
    pub(super) fn is_open_for(&self, node: NodeId, lane: Lane) -> bool {
        self.connection_in(node, lane).is_some_and(|connection| connection.is_open)
    }

    /// Whether nothing is under way on a lane's connection, if there is one.
    pub(super) fn is_quiet(&self, node: NodeId, lane: Lane) -> bool {
        self.connection_in(node, lane)
            .is_none_or(|connection| connection.queued.is_empty() && connection.pending.is_empty())
    }

    /// Writes a request, unless its asker does not want the reply any more.
    fn put(&mut self, id: ConnectionId, errand: Errand) {
        if !self.wants(&errand) {
            return self.has_passed(&errand);
        }
        let bytes = match &errand.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Nothing => return self.answered(errand, None, self.now, Ok(Reply::Nil)),
            Body::Wait => match (&errand.asker, self.connections.get(&id).map(|connection| connection.node)) {
                (Asker::Attempt(attempt), Some(node)) => self.wait_request(node, *attempt).unwrap_or_default(),
                _ => return,
            },
            Body::Answer => match errand.asker {
                Asker::Release(release) => self.answer_request(release, errand.id).unwrap_or_default(),
                _ => return,
            },
        };
        if bytes.is_empty() {
            return self.fails(errand, Fault::broken());
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at_once = connection.pending.is_empty();
        let bytes = if errand.asking { [request::encoded(&[b"ASKING"]), bytes].concat() } else { bytes };
        connection.renewals += usize::from(matches!(errand.asker, Asker::Renewal(_)));
        let limit = self.now + errand.limit;
        if connection.looked_at.is_none_or(|at| limit < at) {
            connection.looked_at = Some(limit);
            self.timers.insert((limit, Timer::Answers(id)));
        }
        let behind_another = errand.asking;
        connection.pending.push_back(Pending { errand, sent_at: self.now, limit, is_late: false, behind_another });
        self.effects.push(Effect::Send { connection: id, bytes, at_once });
    }

    pub(super) fn connection_opened(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return self.effects.push(Effect::Close(id)) };
        connection.is_open = true;
        self.was_served = true;
        let (node, lane) = (connection.node, connection.lane);
        if lane == Lane::Poll {
            self.session_connected(node);
        }
        self.send_queued(id);
    }

    fn send_queued(&mut self, id: ConnectionId) {
        while let Some(connection) =
            self.connections.get_mut(&id).filter(|connection| connection.is_open && connection.renewals < RENEWALS_MAX)
        {
            let Some(errand) = connection.queued.pop_front() else { return };
            self.put(id, errand);
        }
    }

    /// Bytes arrived.
    pub(super) fn received(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut incoming = std::mem::take(&mut connection.incoming);
        incoming.add(bytes);
        loop {
            match incoming.next_reply() {
                Ok(Some(reply)) => self.reply(id, reply),
                Ok(None) => break,
                Err(resp::Garbled) => {
                    self.effects.push(Effect::Close(id));
                    return self.connection_ends(id, &Fault::silent(io::ErrorKind::InvalidData.into()));
                }
            }
        }
        // The connection may have ended in the meantime.
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.incoming = incoming;
        }
    }

    fn reply(&mut self, id: ConnectionId, reply: Reply) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(first) = connection.pending.front_mut() else { return };
        if std::mem::take(&mut first.behind_another) {
            return;
        }
        let Some(Pending { errand, sent_at, is_late, .. }) = connection.pending.pop_front() else { return };
        let node = connection.node;
        let is_done = connection.pending.is_empty();
        if matches!(errand.asker, Asker::Renewal(_)) {
            connection.renewals -= 1;
            if connection.renewals == 0 {
                self.send_queued(id);
            }
        }
        let answer = match reply {
            Reply::Error(line) => Err(Fault::of_answer(line)),
            reply => Ok(reply),
        };
        if is_late {
            self.answered_late(errand, sent_at, answer)
        } else {
            self.answered(errand, Some(node), sent_at, answer)
        }
        if is_done
            && self
                .connections
                .get(&id)
                .is_some_and(|connection| connection.retired.is_some() && connection.pending.is_empty())
        {
            self.close(id);
        }
    }

    /// Passes a reply or a fault to the asker, unless another node has to be asked.
    pub(super) fn answered(
        &mut self,
        mut errand: Errand,
        node: Option<NodeId>,
        sent_at: Instant,
        mut answer: Result<Reply, Fault>,
    ) {
        if let (Err(fault), Some(place)) = (&mut answer, node.and_then(|node| self.place_of(node))) {
            fault.at.get_or_insert(place);
            // A node of a cluster, used as a single server.
            if fault.what == What::Moved && matches!(self.route, Route::Single(_)) {
                fault.what = What::Refused;
            }
        }
        if let (Err(fault), Some(node)) = (&answer, node) {
            if fault.doubts_the_server() {
                self.doubt(node, fault);
            }
            if matches!(errand.body, Body::Wait) && fault.is_no_session() {
                self.session_ends(node, fault);
            }
            let goes_on = matches!(fault.what, What::Moved | What::Ask) && errand.hops < REDIRECTS_MAX;
            if let Some(next) = self.redirected(fault, node, &errand.key).filter(|_| goes_on) {
                errand.asking = fault.what == What::Ask;
                errand.to = errand.asking.then_some(next);
                errand.hops += 1;
                return self.send(errand);
            }
        }
        let id = errand.id;
        match errand.asker {
            Asker::Attempt(attempt) => self.attempt_answered(attempt, id, sent_at, answer),
            Asker::Release(release) => self.release_answered(release, id, answer),
            Asker::Renewal(hold) => self.renewal_answered(hold, id, sent_at, answer),
            Asker::Poll(node, session) => self.polled(node, session, sent_at, answer),
            Asker::Caller(caller) => self.effects.push(Effect::Notify(caller, Answer::Replied(answer))),
            Asker::Session(node, session) => self.session_is_known(node, session, answer),
            Asker::Round(round) => self.round_answered(round, &answer),
        }
        self.has_passed(&errand);
    }

    fn has_passed(&mut self, errand: &Errand) {
        if let Some(hold) = errand.gate {
            self.has_come(hold, errand.id);
            self.opens_gate(hold, errand.id);
        }
    }

    /// The request has reached the server, or never will.
    fn has_come(&mut self, hold: HoldId, errand: u64) {
        let now = self.now;
        self.holds.get_mut(&hold).into_iter().for_each(|hold| hold.has_come(errand, now));
    }

    /// The lease that a request asks for, if it asks for one.
    fn lease_asked_by(&self, asker: Asker) -> Option<Duration> {
        match asker {
            Asker::Attempt(attempt) => Some(self.attempts.get(&attempt)?.asked),
            Asker::Renewal(hold) => Some(self.holds.get(&hold)?.keep.as_ref()?.lease),
            _ => None,
        }
    }

    /// A reply that comes after its asker was notified that it is overdue, or the news that it will not come.
    fn answered_late(&mut self, errand: Errand, sent_at: Instant, answer: Result<Reply, Fault>) {
        errand.gate.into_iter().for_each(|hold| self.has_come(hold, errand.id));
        match errand.asker {
            Asker::Attempt(attempt) => self.attempt_answered_late(attempt, answer),
            Asker::Release(release) => self.release_answered_late(release, errand.id, answer),
            Asker::Renewal(hold) => self.renewal_answered(hold, errand.id, sent_at, answer),
            _ => {}
        }
    }

    /// The request could not be sent.
    pub(super) fn fails(&mut self, errand: Errand, fault: Fault) {
        self.answered(errand, None, self.now, Err(fault));
    }

    /// The connection broke, or could not be made.
    pub(super) fn connection_broke(&mut self, id: ConnectionId, why: &Fault) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (node, lane, was_open) = (connection.node, connection.lane, connection.is_open);
        let why = if self.was_served && why.is_of_set_up() { &why.clone().into_outage() } else { why };
        self.connection_ends(id, why);
        // Not the server's fault: the runtime that read the connection has ended.
        if matches!(&why.cause, Cause::System(error) if error.kind() == io::ErrorKind::ConnectionAborted) {
            return;
        }
        if why.doubts_the_server() {
            self.doubt(node, why);
        }
        if was_open {
            self.hasten_renewals(node);
            self.close_what_is_quiet(node);
        }
        if lane == Lane::Poll {
            self.session_broke(node, why);
        }
    }

    /// The cause of one break may have broken the node's other connections unnoticed. Closes those with nothing under
    /// way: they are reopened when they are needed.
    fn close_what_is_quiet(&mut self, node: NodeId) {
        let quiet = |connection: &Connection| {
            connection.node == node
                && connection.is_open
                && connection.lane != Lane::Poll
                && connection.pending.is_empty()
        };
        let quiet: Vec<_> =
            self.connections.iter().filter(|(_, connection)| quiet(connection)).map(|(id, _)| *id).collect();
        quiet.into_iter().for_each(|id| self.close(id));
    }

    pub(super) fn connection_ends(&mut self, id: ConnectionId, why: &Fault) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(node) = self.nodes.get_mut(&connection.node) {
            node.drop_connection(id);
        }
        for Pending { errand, sent_at, is_late, .. } in connection.pending {
            match is_late {
                true => self.answered_late(errand, sent_at, Err(why.when(true))),
                false => self.answered(errand, Some(connection.node), sent_at, Err(why.when(true))),
            }
        }
        for errand in connection.queued {
            // If the server refused the connection, its error line counts as its reply.
            let fault = if connection.is_open { why.when(false) } else { why.clone() };
            self.answered(errand, Some(connection.node), self.now, Err(fault));
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.effects.push(Effect::Close(id));
        self.connection_ends(id, &Fault::broken());
    }

    /// Closes the connection of a lane that has nothing under way.
    pub(super) fn close_lane(&mut self, node: NodeId, lane: Lane) {
        if let Some(connection) = self.nodes.get(&node).and_then(|node| node.connection(lane)) {
            self.close(connection);
        }
    }

    /// Checks for overdue replies.
    pub(super) fn look_for_answers(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.looked_at = None;
        let mut overdue = Vec::new();
        for pending in connection.pending.iter_mut().filter(|it| !it.is_late && it.limit <= now) {
            pending.is_late = true;
            overdue.push((pending.errand.without_body(), pending.sent_at));
        }
        if !overdue.is_empty() {
            self.retire(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let node = connection.node;
        let next = connection.pending.iter().filter(|it| !it.is_late).map(|it| it.limit).min();
        let next = next.or_else(|| connection.retired.map(|since| since + LATE_MAX));
        if let Some(next) = next.filter(|next| *next > now) {
            connection.looked_at = Some(next);
            self.timers.insert((next, Timer::Answers(id)));
        } else if connection.retired.is_some_and(|since| now >= since + LATE_MAX) {
            self.close(id);
        }
        for (errand, sent_at) in overdue {
            let (gate, id, lease) = (errand.gate, errand.id, self.lease_asked_by(errand.asker));
            self.answered(errand, Some(node), sent_at, Err(Fault::timed_out()));
            if let (Some(hold), Some(lease)) = (gate.and_then(|hold| self.holds.get_mut(&hold)), lease) {
                hold.is_overdue(id, lease);
            }
        }
    }

    /// Sends no new requests on the current connections to this server.
    pub(super) fn retire_connections_to(&mut self, node: NodeId) {
        for connection in self.nodes.get(&node).map(Node::connections).unwrap_or_default() {
            self.retire(connection);
            if self
                .connections
                .get(&connection)
                .is_some_and(|connection| connection.is_open && connection.pending.is_empty())
            {
                self.close(connection);
            }
        }
    }

    /// Sends no new requests on this connection. Its unsent requests take another one.
    fn retire(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.retired.get_or_insert(now);
        let (queued, node) = (std::mem::take(&mut connection.queued), connection.node);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.drop_connection(id);
        }
        for errand in queued {
            self.send(errand);
        }
    }

    /// The asker does not wait any longer. Takes the request back if it was not sent; otherwise the connection gets no
    /// new requests.
    pub(super) fn give_up(&mut self, errand: u64) -> bool {
        let is_unsent = self.take_back(errand);
        if !is_unsent {
            self.retires_connection_of(errand);
        }
        is_unsent
    }

    pub(super) fn retires_connection_of(&mut self, errand: u64) {
        let sent_on =
            self.connections.iter().find(|(_, connection)| connection.pending.iter().any(|it| it.errand.id == errand));
        if let Some(connection) = sent_on.map(|(id, _)| *id) {
            self.retire(connection);
        }
    }

    /// Removes the request if it is unsent. Returns whether it was.
    pub(super) fn take_back(&mut self, errand: u64) -> bool {
        let mut unsent = None;
        let mut keeps = |it: &Errand| {
            unsent = unsent.or((it.id == errand).then_some(it.gate));
            it.id != errand
        };
        self.parked.retain(&mut keeps);
        self.nodes.values_mut().filter_map(|node| node.session.as_mut()).for_each(|it| it.parked.retain(&mut keeps));
        self.connections.values_mut().for_each(|connection| connection.queued.retain(&mut keeps));
        if let Some(Some(gate)) = unsent {
            self.opens_gate(gate, errand);
        }
        unsent.is_some()
    }
}
