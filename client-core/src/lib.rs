//! The engine of rlock-client: connections and the requests on them, attempts to acquire, waits, holds, renewals and
//! releases, as one state machine without sockets, threads or a clock. [`Engine::step`] takes an event and the time,
//! and returns every effect as data: connect, send, close, look up, notify this caller, report this loss, log this
//! line. So a test can drive it through any history: lost or late replies, broken locks, a program that stalls, two
//! masters.
//!
//! Each thing that waits is in a table by its number, and knows the number of the request that it waits for. A reply to
//! any other request is late, and only counts for what it says about the past. The tables are B-trees, not hash maps:
//! the keys are consecutive, and hashing cost a quarter of a cycle.

#![forbid(unsafe_code)]

pub mod address;
mod advice;
mod attempt;
mod confirmed;
mod connection;
mod doubt;
pub mod error;
pub mod fault;
mod gate;
pub mod handed;
mod hold;
mod kept;
mod kind;
mod local_queue;
mod loss;
mod pause;
mod release;
mod renewals;
pub mod request;
pub mod resp;
mod route;
mod session;
mod terms;

pub use address::{Access, Address, Place};
pub use attempt::{Aim, Grant, Outcome, Wish};
pub use error::{Error, ErrorKind};
pub use fault::Fault;
pub use handed::Handed;
pub use hold::GuardId;
pub use kept::Kept;
pub use kind::Kind;
pub use loss::Loss;
pub use release::Answering;
pub use resp::Reply;
pub use route::{Learnt, NO_OWNER, Route, elsewhere};
pub use terms::{Lasting, Replicas, Settings, Side, Terms, Until};

use attempt::Attempt;
use confirmed::{Round, Unconfirmed};
use connection::Connection;
use hold::Hold;
use local_queue::LocalQueue;
use release::Release;
use route::Node;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::Drain;

/// A lock's name, or a holder.
type Name = Arc<[u8]>;

/// A caller that waits for an answer: a number that no other caller of this engine has.
pub type CallerId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(u64);

/// A server to which requests were sent, or may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u64);

/// A connection.
pub type ConnectionId = u64;

/// What a connection is for: see `connection.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    Own,
    /// A runtime's connection, by the number of that runtime.
    Caller(u64),
    Poll,
    /// By number. One round at a time uses each of them.
    Spare(u64),
}

/// An event: the input of [`Engine::step`].
pub enum Event<'a> {
    /// A caller wants a lock.
    Acquire {
        caller: CallerId,
        wish: Wish,
        lane: Lane,
    },
    /// The caller does not wait any longer.
    Abandon(CallerId),
    /// A guard is dropped. Without a caller, no reply is wanted.
    Release {
        grant: Grant,
        lane: Lane,
        caller: Option<CallerId>,
    },
    /// Restarts the guard's lease with this length, so that the hold can be handed on. The guard stays; the reply is as
    /// for a release.
    Extend {
        grant: Grant,
        length: Duration,
        caller: CallerId,
    },
    /// Drops a guard, and leaves its hold on the server.
    Detach(Grant),
    /// Drops a guard, and stores an answer in the step that releases the lock.
    Answer {
        grant: Grant,
        answering: Answering,
        lane: Lane,
        caller: CallerId,
    },
    /// A raw command for the server of the key, or for this node. An empty one only opens a connection.
    Ask {
        key: Name,
        node: Option<NodeId>,
        bytes: Vec<u8>,
        caller: CallerId,
    },
    /// Notifies the caller when no release is left in the background.
    Settle(CallerId),
    Connected(ConnectionId),
    /// The connection broke, or could not be made.
    Broken(ConnectionId, Fault),
    Received(ConnectionId, &'a [u8]),
    /// Notifies the caller when the owners of locks are known.
    Learn(CallerId),
    /// The result of a look-up.
    Learnt(Result<Learnt, Fault>),
    /// Only time has passed.
    Passed,
}

/// What the caller of the engine does, in this order.
#[derive(Debug)]
pub enum Effect {
    Connect {
        connection: ConnectionId,
        lane: Lane,
        address: Arc<Address>,
    },
    /// `at_once`: now; otherwise together with what else is sent within a moment.
    Send {
        connection: ConnectionId,
        bytes: Vec<u8>,
        at_once: bool,
    },
    Close(ConnectionId),
    /// The result comes back as [`Event::Learnt`].
    LookUp,
    /// The reply to a caller. The caller may be gone only after [`Event::Abandon`], or if it wanted no reply.
    Notify(CallerId, Answer),
    /// What happened to a guard.
    Guard(GuardId, Standing),
    Log(Log),
}

/// Results for callers.
#[derive(Debug)]
pub enum Answer {
    Acquired(Outcome),
    /// An answer is stored already.
    Answered(Vec<u8>),
    /// Released, or extended.
    Released(Result<(), Error>),
    /// The reply to a command; nil if the caller only waited for the event.
    Replied(Result<Reply, Fault>),
}

/// What a guard knows about its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// The guard is guaranteed until this time.
    Until(Instant),
    /// A renewal failed. The guard is lost for this reason unless a later renewal succeeds.
    Troubled(Loss),
    Lost(Loss),
}

/// Events for the program's log.
#[derive(Clone, Debug)]
pub enum Log {
    NoAnswer { lock: Name, fault: Fault },
    NotReleased { lock: Name, fault: Fault },
    Renewed { lock: Name, holder: Name },
    NotRenewed { lock: Name, why: Loss },
    Lost { lock: Name, holder: Name, why: Loss },
}

/// One request, and the part of the engine that sent it.
struct Errand {
    id: u64,
    asker: Asker,
    key: Name,
    body: Body,
    lane: Lane,
    /// The owner of the gate that it passed.
    gate: Option<HoldId>,
    /// The node to send it to, instead of the key's owner.
    to: Option<NodeId>,
    /// The node has the key, but does not own its slot yet (ASKING).
    asking: bool,
    hops: u8,
    /// For the reply, from when the request is sent.
    limit: Duration,
}

enum Body {
    Bytes(Vec<u8>),
    /// Encoded when it is sent: it contains the session's name and the time that remains.
    Wait,
    /// Encoded when it is sent: an answer is stored only while the lease of its lock is guaranteed.
    Answer,
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Attempt(u64),
    Release(u64),
    Renewal(HoldId),
    /// A poll of the session with this node, by the session's serial number.
    Poll(NodeId, u64),
    Session(NodeId, u64),
    /// A round's WAIT, after its renewals.
    Round(u64),
    Caller(CallerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Answers(ConnectionId),
    /// The attempt's time is over.
    End(u64),
    Attempt(u64),
    Release(u64),
    Renewal(HoldId, u64),
    Session(NodeId, u64),
}

pub struct Engine {
    settings: Settings,
    /// Prefix of its sessions' names. It is a secret of this program.
    secret: String,
    now: Instant,
    last_id: u64,
    route: Route,
    nodes: BTreeMap<NodeId, Node>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// A server accepted this client once: the address named the right kind of server.
    was_served: bool,
    /// Requests that wait for a look-up.
    parked: Vec<Errand>,
    is_looking_up: bool,
    learning: Vec<CallerId>,
    holds: BTreeMap<HoldId, Hold>,
    /// The holds of owners that callers chose. Several guards may share one.
    named: HashMap<(Name, Name), HoldId>,
    attempts: BTreeMap<u64, Attempt>,
    /// The number of attempts that have no caller any more.
    leaving: usize,
    local_queues: BTreeMap<Name, LocalQueue>,
    releases: BTreeMap<u64, Release>,
    /// When each lease is renewed next.
    due: BTreeSet<(Instant, HoldId)>,
    /// Renewals for the next round, and the rounds under way.
    unconfirmed: Vec<Unconfirmed>,
    rounds: BTreeMap<u64, Round>,
    timers: BTreeSet<(Instant, Timer)>,
    settling: Vec<CallerId>,
    effects: Vec<Effect>,
}

impl Engine {
    /// For one server.
    pub fn at(server: Address, settings: Settings, secret: String, now: Instant) -> Self {
        let mut engine = Self::new(Route::Single(NodeId(0)), settings, secret, now);
        let node = engine.node_at(server);
        engine.route = Route::Single(node);
        engine
    }

    /// `secret`: a text that is unique to this client and cannot be guessed.
    pub fn new(route: Route, settings: Settings, secret: String, now: Instant) -> Self {
        let (nodes, connections, holds, named, attempts, local_queues, releases, due) = Default::default();
        let (parked, learning, unconfirmed, rounds, timers, settling, effects) = Default::default();
        Self {
            settings,
            secret,
            now,
            last_id: 0,
            route,
            nodes,
            connections,
            was_served: false,
            parked,
            is_looking_up: false,
            learning,
            holds,
            named,
            attempts,
            leaving: 0,
            local_queues,
            releases,
            due,
            unconfirmed,
            rounds,
            timers,
            settling,
            effects,
        }
    }

    /// Takes one event, and returns its effects.
    pub fn step(&mut self, event: Event<'_>, now: Instant) -> Drain<'_, Effect> {
        self.now = now;
        match event {
            Event::Acquire { caller, wish, lane } => {
                let lane = self.lane_of(&wish.key, lane);
                self.acquire(caller, wish, lane);
            }
            Event::Abandon(caller) => self.abandon(caller),
            Event::Release { grant, lane, caller } => {
                let lane = self.lane_of(&grant.key, lane);
                self.release(&grant, lane, caller, None);
            }
            Event::Answer { grant, answering, lane, caller } => {
                let lane = self.lane_of(&grant.key, lane);
                self.release(&grant, lane, Some(caller), Some(answering));
            }
            Event::Extend { grant, length, caller } => self.extend(caller, &grant, length),
            Event::Detach(grant) => self.detach(&grant),
            Event::Ask { key, node, bytes, caller } => {
                let body = if bytes.is_empty() { Body::Nothing } else { Body::Bytes(bytes) };
                let errand = Errand::new(self.next_id(), Asker::Caller(caller), body, Lane::Own, self.settings.answer);
                self.send(Errand { key, to: node, ..errand });
            }
            Event::Settle(caller) => self.settling.push(caller),
            Event::Connected(connection) => self.connection_opened(connection),
            Event::Broken(connection, why) => self.connection_broke(connection, &why),
            Event::Received(connection, bytes) => self.received(connection, bytes),
            Event::Learn(caller) => self.learns(caller),
            Event::Learnt(answer) => self.learnt(answer),
            Event::Passed => {}
        }
        self.pass();
        self.begin_rounds();
        if !self.settling.is_empty() && self.is_settled() {
            let done = |caller| Effect::Notify(caller, Answer::Replied(Ok(Reply::Nil)));
            self.effects.extend(self.settling.drain(..).map(done));
        }
        self.effects.drain(..)
    }

    /// When to call [`Engine::step`] even if no event happens.
    pub fn next(&self) -> Option<Instant> {
        let (timer, due) = (self.timers.first().map(|it| it.0), self.due.first().map(|it| it.0));
        timer.into_iter().chain(due).min()
    }

    fn pass(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Answers(connection) => self.look_for_answers(connection),
                Timer::End(attempt) => self.attempt_is_late(attempt),
                Timer::Attempt(attempt) => self.attempt_wakes(attempt),
                Timer::Release(release) => self.release_wakes(release),
                Timer::Renewal(hold, errand) => self.renewal_is_late(hold, errand),
                Timer::Session(node, serial) => self.session_is_due(node, serial),
            }
        }
        self.renew_what_is_due();
    }

    /// The caller's own lane if its connection is open. Until it is, the shared one.
    fn lane_of(&mut self, key: &[u8], lane: Lane) -> Lane {
        match (lane, self.route.node(key)) {
            (Lane::Caller(_), Some(node)) if !self.is_open_for(node, lane) => {
                self.connection_to(node, lane);
                Lane::Own
            }
            (Lane::Caller(_), None) => Lane::Own,
            (lane, _) => lane,
        }
    }

    /// Whether background work is left that no caller waits for.
    pub fn has_unfinished(&self) -> bool {
        !self.releases.is_empty() || self.leaving > 0
    }

    /// The caller's own connection to the server of the key.
    pub fn connection_of(&self, key: &[u8], lane: Lane) -> Option<ConnectionId> {
        self.nodes.get(&self.route.node(key)?)?.connection(lane)
    }

    /// The number of replies still expected on this connection.
    pub fn awaited(&self, connection: ConnectionId) -> usize {
        self.connections.get(&connection).map_or(0, Connection::awaited)
    }

    /// Whether all background releases are finished.
    fn is_settled(&self) -> bool {
        self.leaving == 0 && self.releases.values().all(Release::is_settled)
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

    fn hold_of(&mut self, key: Name, holder: Name, named: bool) -> HoldId {
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
            self.stop_keeping(id);
            if let Some(Hold { key, holder, named: true, .. }) = self.holds.remove(&id) {
                self.named.remove(&(key, holder));
            }
        }
    }
}

impl Errand {
    fn new(id: u64, asker: Asker, body: Body, lane: Lane, limit: Duration) -> Self {
        let (key, gate, to, asking, hops) = Default::default();
        Self { id, asker, key, body, lane, gate, to, asking, hops, limit }
    }

    /// A copy for its asker, which is notified that the reply is overdue.
    fn without_body(&self) -> Self {
        Self { key: self.key.clone(), body: Body::Nothing, ..*self }
    }
}
