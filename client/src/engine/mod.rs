//! The client without its sockets and clocks: connections and what is asked on them, attempts to acquire, waits, holds,
//! renewals, and what is being given back, as one state machine. It is stepped with what happens and when, and says what
//! is to be done; it asks no clock, blocks on nothing, and knows no thread. So it can be led through any history: answers
//! that get lost or come late, locks that are broken, a program that stands still, two masters.
//!
//! Whatever waits for something is in a table by its number, and knows the number of the request that it waits for. An
//! answer to any other request is late, and is only looked at for what it says of the past. The tables are ordered: those
//! of numbers that were given one after the other are found in without being hashed, which cost a quarter of a cycle.

mod attempt;
mod confirmed;
mod crowd;
pub(crate) mod fault;
mod giving_back;
mod hold;
mod lease;
mod line;
mod pause;
mod renewals;
pub(crate) mod request;
pub(crate) mod resp;
mod route;
mod session;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

pub(crate) use attempt::{Grant, Outcome, Wish};
pub(crate) use fault::Fault;
pub(crate) use lease::Lost;
pub(crate) use resp::Reply;
pub(crate) use route::{Learnt, NO_OWNER, Route, elsewhere};
pub(crate) use terms::{Lasting, Replicas, Settings, Side, Terms, Until};

use crate::address::Address;
use crate::error::Error;
use attempt::Attempt;
use confirmed::{Round, Unconfirmed};
use crowd::Crowd;
use giving_back::Giving;
use hold::Hold;
use line::Line;
use route::Node;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::sync::oneshot;

/// A lock's name and its holder's.
type Names = (Arc<[u8]>, Arc<[u8]>);

/// By which a caller is told.
pub(crate) type Tell<T> = oneshot::Sender<T>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HoldId(u64);

/// A server that is or was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u64);

/// A connection.
pub(crate) type LineId = u64;

/// What a connection is for: see `line.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Own,
    Caller(runtime::Id),
    Poll,
    /// By a number, as each is somebody's alone for a while.
    Spare(u64),
}

/// What happens.
pub(crate) enum Event {
    /// Somebody wants a lock, under a number of his own.
    Acquire {
        id: u64,
        wish: Wish,
        lane: Lane,
        tell: Tell<Outcome>,
    },
    /// He does not wait for it any longer.
    Abandon(u64),
    /// A guard goes.
    Release {
        grant: Grant,
        lane: Lane,
        tell: Option<Tell<Result<(), Error>>>,
    },
    /// A command as it is: to the server that has the key, or to this one. An empty one only wants a connection.
    Ask {
        key: Arc<[u8]>,
        node: Option<NodeId>,
        bytes: Vec<u8>,
        tell: Tell<Result<Reply, Fault>>,
    },
    /// Somebody wants to know when nothing is being given back any more.
    Settle(Tell<()>),
    Connected(LineId),
    /// It has broken, or did not come about.
    Broken(LineId, Fault),
    Received(LineId, Vec<u8>),
    /// Somebody wants to know when it is known where locks are.
    Learn(Tell<Result<(), Fault>>),
    /// The answer to a look-up.
    Learnt(Result<Learnt, Fault>),
    /// Nothing but time.
    Passed,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub(crate) enum Action {
    Connect {
        line: LineId,
        lane: Lane,
        address: Arc<Address>,
    },
    /// At once, or together with what else is sent in a moment.
    Send {
        line: LineId,
        bytes: Vec<u8>,
        at_once: bool,
    },
    Close(LineId),
    /// To be answered with what is learnt.
    LookUp,
}

/// One request, and who wants to know.
pub(super) struct Errand {
    id: u64,
    asker: Asker,
    key: Arc<[u8]>,
    body: Body,
    lane: Lane,
    /// Not where its key is, but there.
    to: Option<NodeId>,
    /// The node has the key, but not its slot yet.
    asking: bool,
    hops: u8,
    /// For the answer, once it is sent.
    limit: Duration,
}

pub(super) enum Body {
    Bytes(Vec<u8>),
    /// Made when it is sent: it has the session's name in it, and the time that is left.
    Wait,
    Nothing,
}

#[derive(Clone, Copy)]
pub(super) enum Asker {
    Attempt(u64),
    Giving(u64),
    Renewal(HoldId),
    /// Of a session there, by its serial number.
    Poll(NodeId, u64),
    Session(NodeId, u64),
    /// WAIT, behind the renewals of a round.
    Round(u64),
    /// The caller of a command.
    Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answers(LineId),
    /// The time of an attempt is over.
    End(u64),
    Attempt(u64),
    Giving(u64),
    Renewal(HoldId, u64),
    Session(NodeId, u64),
}

pub(crate) struct Engine {
    settings: Settings,
    now: Instant,
    last_id: u64,
    route: Route,
    nodes: BTreeMap<NodeId, Node>,
    lines: BTreeMap<LineId, Line>,
    /// A server has let this client in: what its address names was what it should be.
    was_served: bool,
    /// Until it is known where things are, for which somebody looks.
    parked: Vec<Errand>,
    looks: bool,
    learning: Vec<Tell<Result<(), Fault>>>,
    /// Of commands, by the number of the errand.
    callers: BTreeMap<u64, Tell<Result<Reply, Fault>>>,
    holds: BTreeMap<HoldId, Hold>,
    /// Of owners that callers chose, since several guards may share one.
    named: HashMap<Names, HoldId>,
    attempts: BTreeMap<u64, Attempt>,
    /// Those whose callers have gone.
    leaving: usize,
    crowds: BTreeMap<Arc<[u8]>, Crowd>,
    givings: BTreeMap<u64, Giving>,
    /// Which lease is renewed when.
    due: BTreeSet<(Instant, HoldId)>,
    /// What is to be renewed in the next round, and the rounds that are under way.
    unconfirmed: Vec<Unconfirmed>,
    rounds: BTreeMap<u64, Round>,
    timers: BTreeSet<(Instant, Timer)>,
    settling: Vec<Tell<()>>,
    actions: Vec<Action>,
}

impl Engine {
    /// For one server.
    pub(crate) fn at(server: Address, settings: Settings, now: Instant) -> Self {
        let mut engine = Self::new(Route::Single(NodeId(0)), settings, now);
        let node = engine.node_at(server);
        engine.route = Route::Single(node);
        engine
    }

    pub(crate) fn new(route: Route, settings: Settings, now: Instant) -> Self {
        let (nodes, lines, parked, learning, callers, holds, named, attempts, crowds, givings) = Default::default();
        let (due, unconfirmed, rounds, timers, settling, actions) = Default::default();
        Self {
            settings,
            now,
            last_id: 0,
            route,
            nodes,
            lines,
            was_served: false,
            parked,
            looks: false,
            learning,
            callers,
            holds,
            named,
            attempts,
            leaving: 0,
            crowds,
            givings,
            due,
            unconfirmed,
            rounds,
            timers,
            settling,
            actions,
        }
    }

    /// What is to be done about it.
    pub(crate) fn step(&mut self, event: Event, now: Instant) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Acquire { id, wish, lane, tell } => {
                let lane = self.lane_of(&wish.key, lane);
                self.acquire(id, wish, lane, tell);
            }
            Event::Abandon(id) => self.abandon(id),
            Event::Release { grant, lane, tell } => {
                let lane = self.lane_of(&grant.key, lane);
                self.release(&grant, lane, tell);
            }
            Event::Ask { key, node, bytes, tell } => {
                let (id, limit) = (self.next_id(), self.settings.answer);
                let body = if bytes.is_empty() { Body::Nothing } else { Body::Bytes(bytes) };
                let (asker, lane) = (Asker::Caller, Lane::Own);
                self.callers.insert(id, tell);
                self.send(Errand { id, asker, key, body, lane, to: node, asking: false, hops: 0, limit });
            }
            Event::Settle(tell) => self.settling.push(tell),
            Event::Connected(line) => self.line_opened(line),
            Event::Broken(line, why) => self.line_broke(line, &why),
            Event::Received(line, bytes) => self.received(line, &bytes),
            Event::Learn(tell) => self.learns(tell),
            Event::Learnt(answer) => self.learnt(answer),
            Event::Passed => {}
        }
        self.pass();
        self.begin_rounds();
        if !self.settling.is_empty() && self.is_settled() {
            self.settling.drain(..).for_each(|tell| _ = tell.send(()));
        }
        std::mem::take(&mut self.actions)
    }

    /// When something is to be done though nothing happens.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (timer, due) = (self.timers.first().map(|it| it.0), self.due.first().map(|it| it.0));
        timer.into_iter().chain(due).min()
    }

    fn pass(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Answers(line) => self.look_for_answers(line),
                Timer::End(attempt) => self.attempt_is_late(attempt),
                Timer::Attempt(attempt) => self.attempt_wakes(attempt),
                Timer::Giving(giving) => self.giving_wakes(giving),
                Timer::Renewal(hold, errand) => self.renewal_is_late(hold, errand),
                Timer::Session(node, serial) => self.session_is_due(node, serial),
            }
        }
        self.renew_what_is_due();
    }

    /// The caller's own, if that is open; or else everybody's, while it is being opened.
    fn lane_of(&mut self, key: &[u8], lane: Lane) -> Lane {
        match (lane, self.route.node(key)) {
            (Lane::Caller(_), Some(node)) if !self.is_open_for(node, lane) => {
                self.line_to(node, lane);
                Lane::Own
            }
            (Lane::Caller(_), None) => Lane::Own,
            (lane, _) => lane,
        }
    }

    /// Whether something goes on that is to come to its end though nobody waits for it.
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.givings.is_empty() || self.leaving > 0
    }

    /// The caller's own line to the server of the key.
    pub(crate) fn line_of(&self, key: &[u8], lane: Lane) -> Option<LineId> {
        self.nodes.get(&self.route.node(key)?)?.line(lane)
    }

    /// Whether an answer is to come on this line.
    pub(crate) fn awaits(&self, line: LineId) -> bool {
        self.lines.get(&line).is_some_and(Line::awaits)
    }

    /// Whether nothing of what nobody waits for is left to be cleared up.
    fn is_settled(&self) -> bool {
        self.leaving == 0 && self.givings.values().all(|giving| giving.is_told)
    }

    fn wants(&self, errand: &Errand) -> bool {
        match errand.asker {
            Asker::Attempt(attempt) => self.attempt_wants(attempt, errand.id),
            Asker::Renewal(hold) => self.is_renewing(hold, errand.id),
            _ => true,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn hold_of(&mut self, key: Arc<[u8]>, holder: Arc<[u8]>, named: bool) -> HoldId {
        let id = HoldId(self.next_id());
        let id = if named { *self.named.entry((key.clone(), holder.clone())).or_insert(id) } else { id };
        let now = self.now;
        self.holds.entry(id).or_insert_with(|| Hold::new(key, holder, named, now));
        id
    }

    fn leaves_hold(&mut self, id: HoldId) {
        if let Some(hold) = self.holds.get_mut(&id) {
            hold.users -= 1;
            self.drop_if_unused(id);
        }
    }

    fn drop_if_unused(&mut self, id: HoldId) {
        if self.holds.get(&id).is_some_and(Hold::is_unused) {
            self.keep_no_more(id);
            if let Some(Hold { key, holder, named: true, .. }) = self.holds.remove(&id) {
                self.named.remove(&(key, holder));
            }
        }
    }
}

impl Errand {
    /// For its asker, to be told now that it is overdue.
    fn told(&self) -> Self {
        let Self { id, asker, lane, to, asking, hops, limit, .. } = *self;
        Self { id, asker, key: self.key.clone(), body: Body::Nothing, lane, to, asking, hops, limit }
    }
}
