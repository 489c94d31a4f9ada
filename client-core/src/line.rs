//! Connections, and the requests on them. A *line* is one connection to a server. **An answer comes where it is awaited, and
//! nothing stands behind what a server keeps waiting.** So each request has a lane, whose line is opened when it is wanted:
//!
//! - **Own**: renewals, and all that goes on in the background.
//! - **Caller**: what a task waits for, read in the runtime where that task is, so that no other thread has to be woken. A
//!   task alone takes 20 µs of processor time for a cycle in place of 27; a thousand of them gain 6 %.
//! - **Poll**: the events of a session, for which a server keeps its client waiting.
//! - **Spare**: WAIT, behind which a server answers nothing else meanwhile. It is kept for the next one: to open it for each
//!   takes 143 µs for a confirmed cycle in place of 49.
//!
//! The only request under way is sent at once, and others with what else is sent in a moment: all at once takes a thousand
//! tasks 16 µs for a cycle in place of 9, and all in a moment takes one task 45 µs in place of 27.
//!
//! **An answer that is late may still come.** A line on which one is overdue is used for nothing new, and kept for a
//! while: to a release it matters what the server says, however late that is.

use super::fault::{Fault, What};
use super::request;
use super::resp::{self, Reply};
use super::route::{Node, Route};
use super::{Answer, Asker, Body, Effect, Engine, Errand, HoldId, Lane, LineId, NodeId, Timer};
use crate::error::Cause;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// How many renewals are under way to one server: more would keep it from its other clients for too long.
pub(super) const RENEWALS_MAX: usize = 1_000;

/// How often one request is sent elsewhere before it is a fault. Slots move one node on at a time.
const REDIRECTS_MAX: u8 = 5;

/// For how long an answer that is overdue may still come.
pub(super) const LATE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Line {
    pub node: NodeId,
    pub lane: Lane,
    is_open: bool,
    /// Until it is open, or has answered enough renewals.
    queued: VecDeque<Errand>,
    pending: VecDeque<Pending>,
    renewals: usize,
    incoming: resp::Reader,
    /// When it is looked at next for answers that are overdue.
    looked_at: Option<Instant>,
    /// Since when nothing new is sent on it.
    retired: Option<Instant>,
}

struct Pending {
    errand: Errand,
    /// Read before the request was sent: whatever the server has done, it did later.
    sent_at: Instant,
    limit: Instant,
    /// Its asker was told that it is overdue.
    is_late: bool,
    /// The answer to ASKING comes before its own.
    behind_another: bool,
}

impl Line {
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
    /// Asks about what is held, at the server that has it. It has passed the gate.
    pub(super) fn ask(&mut self, id: u64, asker: Asker, hold: HoldId, body: Body, lane: Lane) {
        let Some(held) = self.holds.get(&hold) else { return };
        let (key, gate) = (held.key.clone(), held.named.then_some(hold));
        self.send(Errand { key, gate, ..Errand::new(id, asker, body, lane, self.settings.answer) });
    }

    /// Asks a server, whatever it has.
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
        let Some(id) = self.line_to(node, errand.lane) else { return self.fails(errand, Fault::broken()) };
        let Some(line) = self.lines.get_mut(&id) else { return };
        let waits = matches!(errand.asker, Asker::Renewal(_)) && line.renewals >= RENEWALS_MAX;
        if waits || !line.is_open { line.queued.push_back(errand) } else { self.put(id, errand) }
    }

    /// The one that is in use, or another one that is being opened.
    pub(super) fn line_to(&mut self, node: NodeId, lane: Lane) -> Option<LineId> {
        if let Some(in_use) = self.nodes.get(&node)?.line(lane) {
            return Some(in_use);
        }
        let id = self.next_id();
        let known = self.nodes.get_mut(&node)?;
        known.uses(lane, id);
        self.effects.push(Effect::Connect { line: id, lane, address: known.address.clone() });
        let (is_open, queued, pending, renewals, incoming, looked_at, retired) = Default::default();
        self.lines.insert(id, Line { node, lane, is_open, queued, pending, renewals, incoming, looked_at, retired });
        Some(id)
    }

    fn line_in(&self, node: NodeId, lane: Lane) -> Option<&Line> {
        self.lines.get(&self.nodes.get(&node)?.line(lane)?)
    }

    /// Whether a caller's own line is there and open.
    pub(super) fn is_open_for(&self, node: NodeId, lane: Lane) -> bool {
        self.line_in(node, lane).is_some_and(|line| line.is_open)
    }

    /// Whether nothing is under way on a line, if there is one.
    pub(super) fn is_quiet(&self, node: NodeId, lane: Lane) -> bool {
        self.line_in(node, lane).is_none_or(|line| line.queued.is_empty() && line.pending.is_empty())
    }

    /// Writes a request, unless nobody wants its answer any more.
    fn put(&mut self, id: LineId, errand: Errand) {
        if !self.wants(&errand) {
            return self.has_passed(&errand);
        }
        let bytes = match &errand.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Nothing => return self.answered(errand, None, self.now, Ok(Reply::Nil)),
            Body::Wait => match (&errand.asker, self.lines.get(&id).map(|line| line.node)) {
                (Asker::Attempt(attempt), Some(node)) => self.wait_request(node, *attempt).unwrap_or_default(),
                _ => return,
            },
            Body::Answer => match errand.asker {
                Asker::Giving(giving) => self.answer_request(giving, errand.id).unwrap_or_default(),
                _ => return,
            },
        };
        if bytes.is_empty() {
            return self.fails(errand, Fault::broken());
        }
        let Some(line) = self.lines.get_mut(&id) else { return };
        let at_once = line.pending.is_empty();
        let bytes = if errand.asking { [request::encoded(&[b"ASKING"]), bytes].concat() } else { bytes };
        line.renewals += usize::from(matches!(errand.asker, Asker::Renewal(_)));
        let limit = self.now + errand.limit;
        if line.looked_at.is_none_or(|at| limit < at) {
            line.looked_at = Some(limit);
            self.timers.insert((limit, Timer::Answers(id)));
        }
        let behind_another = errand.asking;
        line.pending.push_back(Pending { errand, sent_at: self.now, limit, is_late: false, behind_another });
        self.effects.push(Effect::Send { line: id, bytes, at_once });
    }

    pub(super) fn line_opened(&mut self, id: LineId) {
        let Some(line) = self.lines.get_mut(&id) else { return self.effects.push(Effect::Close(id)) };
        line.is_open = true;
        self.was_served = true;
        let (node, lane) = (line.node, line.lane);
        if lane == Lane::Poll {
            self.session_connected(node);
        }
        self.send_queued(id);
    }

    fn send_queued(&mut self, id: LineId) {
        while let Some(line) = self.lines.get_mut(&id).filter(|line| line.is_open && line.renewals < RENEWALS_MAX) {
            let Some(errand) = line.queued.pop_front() else { return };
            self.put(id, errand);
        }
    }

    /// What has come.
    pub(super) fn received(&mut self, id: LineId, bytes: &[u8]) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let mut incoming = std::mem::take(&mut line.incoming);
        incoming.add(bytes);
        loop {
            match incoming.next_reply() {
                Ok(Some(reply)) => self.reply(id, reply),
                Ok(None) => break,
                Err(resp::Garbled) => {
                    self.effects.push(Effect::Close(id));
                    return self.line_ends(id, &Fault::silent(io::ErrorKind::InvalidData.into()));
                }
            }
        }
        // It may have ended meanwhile.
        if let Some(line) = self.lines.get_mut(&id) {
            line.incoming = incoming;
        }
    }

    fn reply(&mut self, id: LineId, reply: Reply) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let Some(first) = line.pending.front_mut() else { return };
        if std::mem::take(&mut first.behind_another) {
            return;
        }
        let Some(Pending { errand, sent_at, is_late, .. }) = line.pending.pop_front() else { return };
        let node = line.node;
        let is_done = line.pending.is_empty();
        if matches!(errand.asker, Asker::Renewal(_)) {
            line.renewals -= 1;
            if line.renewals == 0 {
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
        if is_done && self.lines.get(&id).is_some_and(|line| line.retired.is_some() && line.pending.is_empty()) {
            self.close(id);
        }
    }

    /// An answer, or why there is none: to whoever has asked, unless another node is to be asked.
    pub(super) fn answered(
        &mut self,
        mut errand: Errand,
        node: Option<NodeId>,
        sent_at: Instant,
        mut answer: Result<Reply, Fault>,
    ) {
        if let (Err(fault), Some(place)) = (&mut answer, node.and_then(|node| self.place_of(node))) {
            fault.at.get_or_insert(place);
            // A cluster's node that was taken for a server of its own.
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
            Asker::Giving(giving) => self.giving_answered(giving, id, answer),
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

    /// It has come to the server, or never will.
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

    /// An answer whose asker was told that it is overdue, or the word that it will not come.
    fn answered_late(&mut self, errand: Errand, sent_at: Instant, answer: Result<Reply, Fault>) {
        errand.gate.into_iter().for_each(|hold| self.has_come(hold, errand.id));
        match errand.asker {
            Asker::Attempt(attempt) => self.attempt_answered_late(attempt, answer),
            Asker::Giving(giving) => self.giving_answered_late(giving, errand.id, answer),
            Asker::Renewal(hold) => self.renewal_answered(hold, errand.id, sent_at, answer),
            _ => {}
        }
    }

    /// It could not be sent.
    pub(super) fn fails(&mut self, errand: Errand, fault: Fault) {
        self.answered(errand, None, self.now, Err(fault));
    }

    /// The connection has broken, or none came about.
    pub(super) fn line_broke(&mut self, id: LineId, why: &Fault) {
        let Some(line) = self.lines.get(&id) else { return };
        let (node, lane, was_open) = (line.node, line.lane, line.is_open);
        let why = if self.was_served && why.is_of_set_up() { &why.clone().into_outage() } else { why };
        self.line_ends(id, why);
        // Not the server's doing: the runtime has ended in which it was read.
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

    /// What breaks one connection may have broken the others, and nobody may have seen it yet. Those on which nothing is
    /// under way are made anew when they are wanted.
    fn close_what_is_quiet(&mut self, node: NodeId) {
        let quiet =
            |line: &Line| line.node == node && line.is_open && line.lane != Lane::Poll && line.pending.is_empty();
        let quiet: Vec<_> = self.lines.iter().filter(|(_, line)| quiet(line)).map(|(id, _)| *id).collect();
        quiet.into_iter().for_each(|id| self.close(id));
    }

    pub(super) fn line_ends(&mut self, id: LineId, why: &Fault) {
        let Some(line) = self.lines.remove(&id) else { return };
        if let Some(node) = self.nodes.get_mut(&line.node) {
            node.uses_no_more(id);
        }
        for Pending { errand, sent_at, is_late, .. } in line.pending {
            match is_late {
                true => self.answered_late(errand, sent_at, Err(why.when(true))),
                false => self.answered(errand, Some(line.node), sent_at, Err(why.when(true))),
            }
        }
        for errand in line.queued {
            // What the server said when it refused the connection counts as its word.
            let fault = if line.is_open { why.when(false) } else { why.clone() };
            self.answered(errand, Some(line.node), self.now, Err(fault));
        }
    }

    fn close(&mut self, id: LineId) {
        self.effects.push(Effect::Close(id));
        self.line_ends(id, &Fault::broken());
    }

    /// Closes the line of a lane, on which nothing is under way.
    pub(super) fn close_lane(&mut self, node: NodeId, lane: Lane) {
        if let Some(line) = self.nodes.get(&node).and_then(|node| node.line(lane)) {
            self.close(line);
        }
    }

    /// Answers that are overdue.
    pub(super) fn look_for_answers(&mut self, id: LineId) {
        let now = self.now;
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.looked_at = None;
        let mut overdue = Vec::new();
        for pending in line.pending.iter_mut().filter(|it| !it.is_late && it.limit <= now) {
            pending.is_late = true;
            overdue.push((pending.errand.told(), pending.sent_at));
        }
        if !overdue.is_empty() {
            self.retire(id);
        }
        let Some(line) = self.lines.get_mut(&id) else { return };
        let node = line.node;
        let next = line.pending.iter().filter(|it| !it.is_late).map(|it| it.limit).min();
        let next = next.or_else(|| line.retired.map(|since| since + LATE_MAX));
        if let Some(next) = next.filter(|next| *next > now) {
            line.looked_at = Some(next);
            self.timers.insert((next, Timer::Answers(id)));
        } else if line.retired.is_some_and(|since| now >= since + LATE_MAX) {
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

    /// Nothing new goes over any connection to this server that is in use.
    pub(super) fn retire_lines_to(&mut self, node: NodeId) {
        for line in self.nodes.get(&node).map(Node::lines).unwrap_or_default() {
            self.retire(line);
            if self.lines.get(&line).is_some_and(|line| line.is_open && line.pending.is_empty()) {
                self.close(line);
            }
        }
    }

    /// Nothing new goes over this line. What waits to be sent on it goes over another one.
    fn retire(&mut self, id: LineId) {
        let now = self.now;
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.retired.get_or_insert(now);
        let (queued, node) = (std::mem::take(&mut line.queued), line.node);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.uses_no_more(id);
        }
        for errand in queued {
            self.send(errand);
        }
    }

    /// Somebody does not wait for this any longer: takes it back, if it was not sent. If it was, no more is sent there.
    pub(super) fn give_up(&mut self, errand: u64) -> bool {
        let is_unsent = self.take_back(errand);
        if !is_unsent {
            self.retires_line_of(errand);
        }
        is_unsent
    }

    pub(super) fn retires_line_of(&mut self, errand: u64) {
        let sent_on = self.lines.iter().find(|(_, line)| line.pending.iter().any(|it| it.errand.id == errand));
        if let Some(line) = sent_on.map(|(id, _)| *id) {
            self.retire(line);
        }
    }

    /// Whether it was not sent, and will not be.
    pub(super) fn take_back(&mut self, errand: u64) -> bool {
        let mut unsent = None;
        let mut keeps = |it: &Errand| {
            unsent = unsent.or((it.id == errand).then_some(it.gate));
            it.id != errand
        };
        self.parked.retain(&mut keeps);
        self.nodes.values_mut().filter_map(|node| node.session.as_mut()).for_each(|it| it.parked.retain(&mut keeps));
        self.lines.values_mut().for_each(|line| line.queued.retain(&mut keeps));
        if let Some(Some(gate)) = unsent {
            self.opens_gate(gate, errand);
        }
        unsent.is_some()
    }
}
