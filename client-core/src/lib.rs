//! The engine of rlock-client: connections and the requests on them, attempts to acquire, waits, holds, renewals and
//! releases, as one state machine without sockets, threads or a clock. [`Engine::step`] takes what happens and the time,
//! and returns every effect as data: connect, send, close, look up, notify this caller, report this loss, log this line.
//! So a test can lead it through any history: answers that get lost or come late, locks that are broken, a program that
//! stalls, two masters.
//!
//! Whatever waits for something is in a table by its number, and knows the number of the request that it waits for. An
//! answer to any other request is late, and is only checked for what it says of the past. The tables are B-trees, not hash
//! maps: the keys are consecutive, and hashing cost a quarter of a cycle.

#![forbid(unsafe_code)]

pub mod address;
mod advice;
mod attempt;
mod confirmed;
mod crowd;
mod doubt;
pub mod error;
pub mod fault;
mod gate;
mod giving_back;
pub mod handed;
mod hold;
mod kept;
mod kind;
mod line;
mod loss;
mod pause;
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
pub use giving_back::Answering;
pub use handed::Handed;
pub use hold::GuardId;
pub use kept::Kept;
pub use kind::Kind;
pub use loss::Loss;
pub use resp::Reply;
pub use route::{Learnt, NO_OWNER, Route, elsewhere};
pub use terms::{Lasting, Replicas, Settings, Side, Terms, Until};

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
use std::vec::Drain;

/// A lock's name, or a holder.
type Name = Arc<[u8]>;

/// A caller that waits for an answer: a number that no other caller of this engine has.
pub type CallerId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(u64);

/// A server that is or was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u64);

/// A connection.
pub type LineId = u64;

/// What a connection is for: see `line.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    Own,
    /// By the number of the runtime that reads it.
    Caller(u64),
    Poll,
    /// By a number, as each is used by one round at a time.
    Spare(u64),
}

/// What happens.
pub enum Event<'a> {
    /// A caller wants a lock.
    Acquire {
        caller: CallerId,
        wish: Wish,
        lane: Lane,
    },
    /// That caller does not wait any longer.
    Abandon(CallerId),
    /// A guard goes. Without a caller no answer is wanted.
    Release {
        grant: Grant,
        lane: Lane,
        caller: Option<CallerId>,
    },
    /// The lease of what a guard has is to last for so long from now on, so that it can be handed on: the answer is as to a
    /// release, and the guard stays.
    Extend {
        grant: Grant,
        length: Duration,
        caller: CallerId,
    },
    /// A guard goes, and what it has stays at the server.
    Detach(Grant),
    /// A guard goes, and an answer is stored in the step that releases the lock.
    Answer {
        grant: Grant,
        answering: Answering,
        lane: Lane,
        caller: CallerId,
    },
    /// A command as it is: to the server that has the key, or to this one. An empty one only wants a connection.
    Ask {
        key: Name,
        node: Option<NodeId>,
        bytes: Vec<u8>,
        caller: CallerId,
    },
    /// The caller wants to know when nothing is being released in the background any more.
    Settle(CallerId),
    Connected(LineId),
    /// It has broken, or did not come about.
    Broken(LineId, Fault),
    Received(LineId, &'a [u8]),
    /// The caller wants to know when it is known where locks are.
    Learn(CallerId),
    /// The answer to a look-up.
    Learnt(Result<Learnt, Fault>),
    /// Nothing but time.
    Passed,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Effect {
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
    /// The answer to a caller. It has gone meanwhile only if it was reported by [`Event::Abandon`], or wants no answer.
    Notify(CallerId, Answer),
    /// What became of a guard.
    Guard(GuardId, Standing),
    Log(Log),
}

/// What callers wait for.
#[derive(Debug)]
pub enum Answer {
    Acquired(Outcome),
    /// There is an answer already.
    Answered(Vec<u8>),
    /// Or extended.
    Released(Result<(), Error>),
    /// To a command; nil where nothing but the answer itself was wanted.
    Replied(Result<Reply, Fault>),
}

/// What a guard is to know of its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It is guaranteed until then.
    Until(Instant),
    /// A renewal has failed: it will be lost for this reason, unless a later one succeeds.
    Troubled(Loss),
    Lost(Loss),
}

/// What is worth a line in a log.
#[derive(Clone, Debug)]
pub enum Log {
    NoAnswer { lock: Name, fault: Fault },
    NotReleased { lock: Name, fault: Fault },
    Renewed { lock: Name, holder: Name },
    NotRenewed { lock: Name, why: Loss },
    Lost { lock: Name, holder: Name, why: Loss },
}

/// One request, and what asks it.
struct Errand {
    id: u64,
    asker: Asker,
    key: Name,
    body: Body,
    lane: Lane,
    /// The owner whose gate it has passed.
    gate: Option<HoldId>,
    /// Not where its key is, but there.
    to: Option<NodeId>,
    /// The node has the key, but not its slot yet.
    asking: bool,
    hops: u8,
    /// For the answer, once it is sent.
    limit: Duration,
}

enum Body {
    Bytes(Vec<u8>),
    /// Made when it is sent: it has the session's name in it, and the time that is left.
    Wait,
    /// Made when it is sent: an answer is stored only while the lease of its lock is guaranteed.
    Answer,
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Attempt(u64),
    Giving(u64),
    Renewal(HoldId),
    /// Of a session there, by its serial number.
    Poll(NodeId, u64),
    Session(NodeId, u64),
    /// WAIT, behind the renewals of a round.
    Round(u64),
    Caller(CallerId),
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

pub struct Engine {
    settings: Settings,
    /// What the names of its sessions begin with: only this program knows it.
    secret: String,
    now: Instant,
    last_id: u64,
    route: Route,
    nodes: BTreeMap<NodeId, Node>,
    lines: BTreeMap<LineId, Line>,
    /// A server has let this client in: what its address names was what it should be.
    was_served: bool,
    /// Until it is known where things are, which is being looked up.
    parked: Vec<Errand>,
    looks: bool,
    learning: Vec<CallerId>,
    holds: BTreeMap<HoldId, Hold>,
    /// Of owners that callers chose, since several guards may share one.
    named: HashMap<(Name, Name), HoldId>,
    attempts: BTreeMap<u64, Attempt>,
    /// How many attempts have no caller any more.
    leaving: usize,
    crowds: BTreeMap<Name, Crowd>,
    givings: BTreeMap<u64, Giving>,
    /// Which lease is renewed when.
    due: BTreeSet<(Instant, HoldId)>,
    /// What is to be renewed in the next round, and the rounds that are under way.
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

    /// `secret`: a text that no other client has and that cannot be guessed.
    pub fn new(route: Route, settings: Settings, secret: String, now: Instant) -> Self {
        let (nodes, lines, holds, named, attempts, crowds, givings, due) = Default::default();
        let (parked, learning, unconfirmed, rounds, timers, settling, effects) = Default::default();
        Self {
            settings,
            secret,
            now,
            last_id: 0,
            route,
            nodes,
            lines,
            was_served: false,
            parked,
            looks: false,
            learning,
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
            effects,
        }
    }

    /// What is to be done about it.
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
            Event::Connected(line) => self.line_opened(line),
            Event::Broken(line, why) => self.line_broke(line, &why),
            Event::Received(line, bytes) => self.received(line, bytes),
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

    /// When something is to be done though nothing happens.
    pub fn next(&self) -> Option<Instant> {
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
    pub fn has_unfinished(&self) -> bool {
        !self.givings.is_empty() || self.leaving > 0
    }

    /// The caller's own line to the server of the key.
    pub fn line_of(&self, key: &[u8], lane: Lane) -> Option<LineId> {
        self.nodes.get(&self.route.node(key)?)?.line(lane)
    }

    /// How many answers are to come on this line.
    pub fn awaited(&self, line: LineId) -> usize {
        self.lines.get(&line).map_or(0, Line::awaited)
    }

    /// Whether nothing of what nobody waits for is left to be cleared up.
    fn is_settled(&self) -> bool {
        self.leaving == 0 && self.givings.values().all(Giving::is_settled)
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
            self.keep_no_more(id);
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

    /// For its asker, to be told now that it is overdue.
    fn told(&self) -> Self {
        Self { key: self.key.clone(), body: Body::Nothing, ..*self }
    }
}
