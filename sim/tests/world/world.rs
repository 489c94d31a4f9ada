//! Programs, servers and the network between them, all moved by a test: a message arrives when the test says so, or
//! never; connections break, clocks go on, locks are deleted, servers fail, and others replace them. After each move
//! `promises.rs` checks what must hold at any time.

mod callers;
mod failovers;
mod network;

use crate::clock::Clock;
use crate::once::Answers;
use crate::program::{Program, Wanted};
use crate::protection::Protection;
use crate::server::{Health, Request, Server, words};
use crate::traces::Trace;
use rlock_client_core::{Access, Address, ConnectionId, Effect, Engine, Event, Fault, Learnt, Place, Route};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

/// How many times something may be due at one moment.
const AT_ONCE_MAX: u32 = 1_000;

/// What a caller can want, by its place here.
const WANTED: [&[&str]; 6] = [&["a"], &["b"], &["p"], &["a", "b"], &["rw"], &["rw"]];
pub const PERMITS: usize = 2;
/// Both plain locks at once.
pub const BOTH: usize = 3;
pub const READ: usize = 4;
pub const WRITE: usize = 5;
pub const LOCKS: [&str; 4] = ["a", "b", "p", "rw"];

/// How many permits there are.
pub const LIMIT: u32 = 2;

pub const HOSTS: [&str; 3] = ["one", "two", "three"];

pub fn names(what: usize) -> &'static [&'static str] {
    WANTED[what]
}

/// One connection of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wire {
    pub program: usize,
    pub connection: ConnectionId,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.program, self.connection)
    }
}

/// What can happen next.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    Acquire {
        program: usize,
        wanted: Wanted,
    },
    Abandon {
        program: usize,
        attempt: u64,
    },
    Release {
        program: usize,
        guard: u64,
        is_awaited: bool,
    },
    /// The work under a lead ends, with an answer.
    Answer {
        program: usize,
        guard: u64,
        keep: Duration,
    },
    /// The program ends. What it has sent comes to the servers late, or is lost.
    Dies {
        program: usize,
        arrives: bool,
    },
    Settle(usize),
    /// The next request on it comes to the server.
    Arrives(Wire),
    /// The next answer on it comes to the program.
    Answers(Wire),
    /// The same, in two pieces: the first has this percentage of the bytes.
    AnswersInPieces(Wire, u64),
    Opens(Wire),
    IsRefused(Wire),
    /// The program sees it at once. What is on its way is lost, or comes to the server later.
    Breaks {
        wire: Wire,
        arrives: bool,
    },
    /// Nothing goes through any more, and neither side knows.
    IsCut(Wire),
    /// The program sees that it was cut.
    IsNoticed(Wire),
    /// What was on its way when the program closed the connection comes to the server, or does not.
    Late {
        wire: Wire,
        arrives: bool,
    },
    /// Time passes until something happens by itself.
    Passes,
    Waits(Duration),
    /// The program does nothing for this time.
    Stalls {
        program: usize,
        time: Duration,
    },
    Deletes(usize),
    /// Another client deletes the answer under this lock.
    Forgets(usize),
    /// An operator ends all sessions of the server.
    EndsSessions(usize),
    /// It replies with an error to everything, or works again.
    Refuses {
        server: usize,
        line: Option<&'static str>,
    },
    IsKilled(usize),
    Restarts {
        server: usize,
        keeps: bool,
    },
    IsSuspended(usize),
    Resumes(usize),
    /// From all other servers.
    IsCutOff(usize),
    Joins(usize),
    /// The replica gets nothing more.
    ReplicaStalls(usize),
    ReplicaGoesOn(usize),
    IsPromoted(usize),
    /// A former master becomes a replica of the present one.
    Follows(usize),
    /// The operator makes the one name lead to the present master.
    NameMoves,
    Learns(usize),
    LearnsNothing(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Opening { by: Duration },
    Open,
    Cut,
}

pub struct Link {
    pub server: usize,
    pub state: State,
    pub up: VecDeque<Request>,
    pub down: VecDeque<Vec<u8>>,
    /// The requests without an answer yet, the oldest first.
    pub asked: VecDeque<Request>,
}

struct Late {
    server: usize,
    up: VecDeque<Request>,
}

/// How programs find the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Topology {
    /// One name, which leads to the present master once the operator has changed it.
    #[default]
    Single,
    Sentinels,
    Cluster,
}

/// How a history begins.
#[derive(Clone, Debug)]
pub struct Setup {
    pub title: String,
    pub topology: Topology,
    pub protection: Protection,
    /// One clock for each program; the same for the servers.
    pub programs: Vec<Clock>,
    pub servers: Vec<Clock>,
    /// What a program sent before it gave up or closed a connection may still come to the server.
    pub late_arrives: bool,
    /// For how many seconds most callers are one program's.
    pub turn_s: u64,
    /// How much a server's engine does in one turn.
    pub turn: u32,
}

/// A turn in which everything can be done.
pub const LONG_TURN: u32 = 1_000;

impl Setup {
    pub fn simple(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            topology: Topology::Single,
            protection: Protection::NONE,
            programs: vec![Clock::default()],
            servers: vec![Clock::default(); 2],
            late_arrives: true,
            turn_s: 8,
            turn: LONG_TURN,
        }
    }
}

/// A line in the report of a history that has failed.
pub enum Entry {
    Taken(Duration, Move),
    Asked(usize, Request),
    Answered(usize, Vec<u8>),
}

pub struct World {
    pub at: Duration,
    pub programs: Vec<Program>,
    pub servers: Vec<Server>,
    pub topology: Topology,
    pub protection: Protection,
    links: BTreeMap<Wire, Link>,
    late: BTreeMap<Wire, Late>,
    stalled: BTreeMap<usize, Duration>,
    pub late_arrives: bool,
    pub turn_s: u64,
    /// The server that other servers take for the master, and that further replicas follow.
    pub master: usize,
    /// Where the one name leads.
    pub named: usize,
    /// Since when no server has heard of the master.
    pub silent_since: Option<Duration>,
    pub stalled_replicas: BTreeSet<usize>,
    /// Nothing has gone wrong, and everything was in time.
    pub is_calm: bool,
    /// A server may have forgotten holds, since another took its place or it started again.
    pub has_failed_over: bool,
    /// A session in which no ticket waits may have been opened again: its callers ask again after a minute.
    pub has_ended_sessions: bool,
    attempts: u64,
    pub longest_lease: Duration,
    /// The highest fencing token of each lock.
    pub tokens: BTreeMap<&'static str, i64>,
    pub tokens_of_guards: BTreeSet<(String, u64)>,
    pub answers: Answers,
    pub steps: u64,
    /// The acts on one lock, if they are to be recorded.
    pub trace: Option<Trace>,
    pub account: Vec<Entry>,
    pub title: String,
    /// Whether a failure prints the history.
    pub prints_account: bool,
}

fn address(server: usize) -> Address {
    let host = HOSTS[server].to_owned();
    Address::new(Place::Tcp { host, port: 6_379 }, Access::default())
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let engine = |settings, secret, base| match setup.topology {
            Topology::Single => Engine::at(address(0), settings, secret, base),
            Topology::Sentinels => Engine::new(Route::sentinels(), settings, secret, base),
            Topology::Cluster => Engine::new(Route::cluster(), settings, secret, base),
        };
        let programs = (0..).zip(&setup.programs).map(|(number, clock)| Program::new(number, *clock, engine)).collect();
        let protection = Protection { is_cluster: setup.topology == Topology::Cluster, ..setup.protection };
        let mut servers: Vec<_> =
            setup.servers.iter().map(|clock| Server::new(*clock, setup.turn, &protection)).collect();
        servers.iter_mut().skip(1).for_each(|server| server.is_demoted(0, Duration::ZERO, &protection));
        let (links, late, stalled, stalled_replicas, tokens, tokens_of_guards) = Default::default();
        let account = Default::default();
        let mut world = Self {
            at: Duration::ZERO,
            programs,
            servers,
            topology: setup.topology,
            protection,
            links,
            late,
            stalled,
            late_arrives: setup.late_arrives,
            turn_s: setup.turn_s,
            master: 0,
            named: 0,
            silent_since: None,
            stalled_replicas,
            is_calm: true,
            has_failed_over: false,
            has_ended_sessions: false,
            attempts: 0,
            longest_lease: Duration::ZERO,
            tokens,
            tokens_of_guards,
            answers: Answers::default(),
            steps: 0,
            trace: None,
            account,
            title: setup.title.clone(),
            prints_account: true,
        };
        world.replicates();
        world
    }

    /// What the network can do.
    pub fn possible(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (wire, link) in &self.links {
            let is_up = self.servers[link.server].health == Health::Up;
            let is_stalled = self.is_stalled(wire.program);
            match link.state {
                State::Opening { .. } if is_up && !is_stalled => moves.push(Move::Opens(*wire)),
                State::Open if is_up && !link.up.is_empty() => moves.push(Move::Arrives(*wire)),
                _ => {}
            }
            if link.state == State::Open && !link.down.is_empty() && !is_stalled {
                moves.push(Move::Answers(*wire));
            }
        }
        let looks = self.programs.iter().filter(|it| it.looks_by.is_some() && !self.is_stalled(it.number));
        moves.extend(looks.map(|it| Move::Learns(it.number)));
        moves
    }

    pub fn is_stalled(&self, program: usize) -> bool {
        self.programs[program].is_dead || self.stalled.get(&program).is_some_and(|until| *until > self.at)
    }

    fn wires(&self, is_it: impl Fn(&Link) -> bool) -> Vec<Wire> {
        self.links.iter().filter(|(_, link)| is_it(link)).map(|(wire, _)| *wire).collect()
    }

    pub fn all_wires(&self) -> Vec<Wire> {
        self.wires(|_| true)
    }

    pub fn open(&self) -> Vec<Wire> {
        self.wires(|link| link.state == State::Open)
    }

    pub fn open_to(&self, server: usize) -> Vec<Wire> {
        self.wires(|link| link.state == State::Open && link.server == server)
    }

    pub fn cut(&self) -> Vec<Wire> {
        self.wires(|link| link.state == State::Cut)
    }

    pub fn opening(&self) -> Vec<Wire> {
        self.wires(|link| matches!(link.state, State::Opening { .. }))
    }

    pub fn late(&self) -> Vec<Wire> {
        self.late.keys().copied().collect()
    }

    /// The moves up to now.
    pub fn taken(&self) -> impl Iterator<Item = &Move> {
        self.account.iter().filter_map(|entry| if let Entry::Taken(_, taken) = entry { Some(taken) } else { None })
    }

    /// Whether the guard or attempt of a caller's move exists.
    pub fn can(&self, next: &Move) -> bool {
        match next {
            Move::Release { program, guard, .. } | Move::Answer { program, guard, .. } => {
                self.programs[*program].guards.contains_key(guard)
            }
            Move::Abandon { program, attempt } => self.programs[*program].attempts.contains_key(attempt),
            _ => true,
        }
    }

    /// Takes a move. It changes nothing if what it is about does not exist.
    pub fn take(&mut self, taken: Move) {
        self.account.push(Entry::Taken(self.at, taken.clone()));
        let is_fault = !matches!(
            taken,
            Move::Acquire { .. }
                | Move::Abandon { .. }
                | Move::Release { .. }
                | Move::Answer { .. }
                | Move::Settle(_)
                | Move::Arrives(_)
                | Move::Answers(_)
                | Move::AnswersInPieces(..)
                | Move::Opens(_)
                | Move::IsNoticed(_)
                | Move::Late { .. }
                | Move::Passes
                | Move::Waits(_)
                | Move::Refuses { line: None, .. }
                | Move::ReplicaGoesOn(_)
                | Move::Joins(_)
                | Move::Follows(_)
                | Move::NameMoves
                | Move::Learns(_)
        );
        self.is_calm &= !is_fault;
        match taken {
            Move::Acquire { program, wanted } => self.acquire(program, wanted),
            Move::Abandon { program, attempt } => self.abandon(program, attempt),
            Move::Release { program, guard, is_awaited } => self.release(program, guard, is_awaited),
            Move::Answer { program, guard, keep } => self.answer(program, guard, keep),
            Move::Dies { program, arrives } => self.dies(program, arrives),
            Move::Settle(program) => self.settle(program),
            Move::Passes => {
                if let Some(to) = self.next() {
                    self.passes(to);
                }
            }
            Move::Waits(time) => self.passes(self.at + time),
            Move::Stalls { program, time } => _ = self.stalled.insert(program, self.at + time),
            Move::Arrives(_)
            | Move::Answers(_)
            | Move::AnswersInPieces(..)
            | Move::Opens(_)
            | Move::IsRefused(_)
            | Move::Breaks { .. }
            | Move::IsCut(_)
            | Move::IsNoticed(_)
            | Move::Late { .. } => self.network(taken),
            Move::Learns(program) => self.learns(program),
            Move::LearnsNothing(program) => {
                if self.programs[program].looks_by.take().is_some() {
                    self.step(program, Event::Learnt(Err(Fault::nowhere("no sentinel answers"))));
                }
            }
            of_servers => self.servers_move(of_servers),
        }
    }

    fn learns(&mut self, program: usize) {
        if self.programs[program].looks_by.take().is_none() {
            return;
        }
        let master = self.master;
        self.programs[program].believed_master = master;
        let learnt = match self.topology {
            Topology::Cluster => Learnt::Slots(vec![(0, 16_383, address(master))]),
            _ => Learnt::Master(address(master)),
        };
        self.step(program, Event::Learnt(Ok(learnt)));
    }

    pub fn next(&self) -> Option<Duration> {
        let programs = self.programs.iter().filter(|it| !self.is_stalled(it.number)).filter_map(Program::next);
        let servers = self.servers.iter().filter_map(Server::next);
        let stalled = self.stalled.values().copied().filter(|until| *until > self.at);
        programs.chain(servers).chain(stalled).min().map(|next| self.whole_ms(next.max(self.at)))
    }

    fn passes(&mut self, to: Duration) {
        let to = self.whole_ms(to);
        let in_time = Duration::from_millis(5);
        let is_late = self.next().is_some_and(|next| to > next + in_time);
        self.is_calm &= !is_late && (to <= self.at + in_time || self.possible().is_empty());
        let mut at_once = 0;
        while let Some(next) = self.next().filter(|next| *next <= to) {
            at_once = if next == self.at { at_once + 1 } else { 0 };
            assert!(at_once < AT_ONCE_MAX, "something is due again and again: {}", self.due());
            self.at = next;
            self.serves_time();
        }
        self.at = self.at.max(to);
        self.serves_time();
    }

    fn due(&self) -> String {
        let programs: Vec<_> = self.programs.iter().map(Program::next).collect();
        let servers: Vec<_> = self.servers.iter().map(Server::next).collect();
        format!("programs {programs:?}, servers {servers:?}")
    }

    /// Runs everything that is due.
    fn serves_time(&mut self) {
        self.stalled.retain(|_, until| *until > self.at);
        for server in 0..self.servers.len() {
            self.servers[server].advances(self.at, &self.protection);
            self.has_changed(server);
        }
        self.collects();
        for program in 0..self.programs.len() {
            if !self.is_stalled(program) {
                self.step(program, Event::Passed);
                self.gives_up(program);
            }
        }
    }

    /// Ends connection attempts and look-ups that have taken too long.
    fn gives_up(&mut self, program: usize) {
        let at = self.at;
        let overdue = |link: &Link| matches!(link.state, State::Opening { by } if by <= at);
        for wire in self.wires(overdue).into_iter().filter(|wire| wire.program == program) {
            self.is_calm = false;
            self.links.remove(&wire);
            let fault = Fault::unreachable(io::ErrorKind::TimedOut.into());
            self.step(program, Event::Broken(wire.connection, fault));
        }
        if self.programs[program].looks_by.is_some_and(|by| by <= at) {
            self.is_calm = false;
            self.programs[program].looks_by = None;
            self.step(program, Event::Learnt(Err(Fault::nowhere("no sentinel answers"))));
        }
    }

    fn step(&mut self, program: usize, event: Event<'_>) {
        let from = self.programs[program].believed_master;
        self.step_from(program, event, from);
    }

    /// `from`: the server of this reply, if it is one.
    fn step_from(&mut self, program: usize, event: Event<'_>, from: usize) {
        self.steps += 1;
        let now = self.programs[program].now(self.at);
        let effects: Vec<_> = self.programs[program].engine.step(event, now).collect();
        for effect in effects {
            match effect {
                Effect::Connect { connection, address, .. } => self.connects(Wire { program, connection }, &address),
                Effect::Send { connection, bytes, .. } => self.sends(Wire { program, connection }, bytes),
                Effect::Close(connection) => self.closes(Wire { program, connection }, self.late_arrives),
                Effect::LookUp => {
                    let settings = self.programs[program].settings;
                    self.programs[program].looks_by = Some(self.at + settings.answer);
                }
                Effect::Notify(caller, answer) => self.programs[program].notified(caller, answer),
                Effect::Guard(guard, standing) => self.programs[program].stands(guard, standing),
                Effect::Log(_) => {}
            }
        }
        let next = self.programs[program].engine.next();
        assert!(next.is_none_or(|next| next > now), "what is due was done");
        for heard in self.programs[program].hears(from) {
            self.hears(program, heard);
        }
        self.trace_beliefs(program);
        self.check_from(program, from);
    }

    /// The visible state.
    pub fn seen(&self) -> String {
        let links = self.links.iter().map(|(wire, link)| {
            let up: Vec<_> = link.up.iter().map(words).collect();
            (*wire, link.state, up, link.down.clone())
        });
        let links: Vec<_> = links.collect();
        let programs: Vec<_> = self.programs.iter().map(|program| program.seen(self.at)).collect();
        let servers: Vec<_> = self.servers.iter().map(Server::seen).collect();
        format!("{:?} {links:?} {programs:?} {servers:?} {}", self.at, self.master)
    }
}

/// A history that has failed is printed.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() && self.prints_account {
            eprintln!("{}, after {} moves and {:?}:", self.title, self.taken().count(), self.at);
            for entry in &self.account {
                match entry {
                    Entry::Taken(at, taken) => eprintln!("    {at:?} {taken:?}"),
                    Entry::Asked(server, request) => {
                        eprintln!("        {} is asked {}", HOSTS[*server], words(request))
                    }
                    Entry::Answered(program, answer) => {
                        let answer = String::from_utf8_lossy(answer).replace("\r\n", " ");
                        eprintln!("        program {program} hears {answer}");
                    }
                }
            }
        }
    }
}
