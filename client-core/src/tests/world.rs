//! A program with one client, the network, and its servers, all of which a test moves: what was sent arrives when the test
//! says so, or never; connections break, the clock goes on, locks are taken away, another server becomes the master.
//! After each move is checked what must be true at any time.

use super::super::*;
use super::server::{Connection, Name, Server, commands, token_of};
use std::collections::{BTreeMap, VecDeque};
use std::{io, iter};

/// What can happen next. Lines and the like are told by their numbers, so that a history can be led once more.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    Acquire(Wanted),
    Abandon(u64),
    Release {
        guard: u64,
        is_told: bool,
    },
    Settle,
    /// The next request on it comes to the server.
    Arrives(LineId),
    /// The next answer on it comes to the client.
    Answers(LineId),
    /// It comes in two pieces, cut there in a hundred.
    AnswersInPieces(LineId, u64),
    Opens(LineId),
    IsRefused(LineId),
    /// The client sees it at once. What is on its way is lost, or comes to the server later on.
    Breaks {
        line: LineId,
        arrives: bool,
    },
    /// Nothing goes through any more, and nobody knows.
    IsCut(LineId),
    /// The client sees that it was cut.
    IsNoticed(LineId),
    /// What was on its way on a line that the client has closed comes to the server, or does not.
    Late {
        connection: Connection,
        arrives: bool,
    },
    /// To the next time at which something happens by itself.
    Passes,
    Waits(Duration),
    Deletes(usize),
    Restarts,
    /// It answers with an error, or as ever again.
    Refuses(Option<&'static str>),
    /// To a replica that has what was replicated, or nothing.
    FailsOver {
        has_all: bool,
    },
    ReplicaStandsStill,
    ReplicaGoesOn,
    Learns,
    LearnsNothing,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub key: usize,
    pub owner: Option<u64>,
    pub lease: Duration,
    pub is_kept: bool,
    /// `None`: until it is granted. Zero: without waiting.
    pub within: Option<Duration>,
    pub fenced: bool,
    pub callers_lane: bool,
    /// By a replica.
    pub confirmed: bool,
}

impl Wanted {
    pub fn of(key: usize) -> Self {
        let lease = Duration::from_secs(6);
        Self {
            key,
            owner: None,
            lease,
            is_kept: true,
            within: None,
            fenced: false,
            callers_lane: false,
            confirmed: false,
        }
    }
}

struct Wire {
    server: usize,
    state: State,
    up: VecDeque<Vec<String>>,
    down: VecDeque<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Opening { by: Duration },
    Open,
    Cut,
}

struct Late {
    server: usize,
    up: VecDeque<Vec<String>>,
}

pub struct Caller {
    keys: Vec<Name>,
    fenced: bool,
    holder: Name,
    named: bool,
    is_kept: bool,
    until_granted: bool,
    confirmed: bool,
    by: Option<Instant>,
}

pub struct Guard {
    grant: Grant,
    pub key: Name,
    pub holder: Name,
    named: bool,
    is_kept: bool,
    confirmed: bool,
    /// Until when it was vouched for, when that was looked at the last time.
    until: Option<Instant>,
    /// By which server's word.
    backed: usize,
    pub is_lost: bool,
}

/// What the engine has said of a guard.
struct Lease {
    until: Instant,
    lost: Option<Loss>,
}

struct Releasing {
    caller: CallerId,
    key: Name,
    holder: Name,
    named: bool,
    is_kept: bool,
    given_before: u64,
    could_be_vouched_for: bool,
}

/// What is told of a history that has failed.
pub enum Told {
    Taken(Duration, Move),
    Asked(Vec<String>),
    Answered(Vec<u8>),
}

pub struct World {
    base: Instant,
    pub at: Duration,
    pub engine: Engine,
    pub settings: Settings,
    pub servers: [Server; 2],
    wires: BTreeMap<LineId, Wire>,
    late: BTreeMap<Connection, Late>,
    pub attempts: BTreeMap<u64, Caller>,
    pub guards: BTreeMap<u64, Guard>,
    releases: Vec<Releasing>,
    settles: Vec<CallerId>,
    answers: BTreeMap<CallerId, Answer>,
    leases: BTreeMap<GuardId, Lease>,
    /// By when the look-up is answered that is under way.
    looks_by: Option<Duration>,
    /// What is overdue may still come to the server.
    pub late_arrives: bool,
    pub master: usize,
    /// Whom the engine was told.
    believed: usize,
    /// Nothing has gone wrong, and everything was in time.
    pub is_calm: bool,
    last: u64,
    callers: u64,
    longest_lease: Duration,
    /// What the callers were told: who was granted what, in this order, and what releases came to.
    pub granted: Vec<(Name, Name)>,
    pub refused: Vec<Option<Error>>,
    pub released: Vec<Result<(), Error>>,
    pub story: Vec<Told>,
    pub title: String,
}

/// Of two locks, and of permits.
pub const KEYS: [&str; 3] = ["a", "b", "p"];
pub const PERMITS: usize = 2;
/// Both locks at once.
pub const BOTH: usize = 3;

/// So many there are.
const LIMIT: u32 = 2;

/// What is wanted: all of these.
pub fn names(key: usize) -> &'static [&'static str] {
    if key == BOTH { &KEYS[..PERMITS] } else { &KEYS[key..=key] }
}

/// Under which number a guard of several locks is had, for each of them its own.
const NEXT_OF_SEVERAL: u64 = 1_000_000;

fn address(server: usize) -> Address {
    let host = ["one", "two"][server].to_owned();
    Address::new(Place::Tcp { host, port: 6_379 }, Access::default())
}

fn text(name: &[u8]) -> Name {
    String::from_utf8_lossy(name).into_owned()
}

/// Callers that are no attempts have their numbers from here on.
const CALLERS: CallerId = 1_000_000_000;

impl World {
    pub fn new(title: impl Into<String>, has_sentinels: bool) -> Self {
        let base = Instant::now() + Duration::from_secs(1_000);
        let settings = Settings { idle: Duration::from_secs(2), ..Settings::default() };
        let engine = match has_sentinels {
            true => Engine::new(Route::sentinels(), settings, "session".to_owned(), base),
            false => Engine::at(address(0), settings, "session".to_owned(), base),
        };
        let (servers, wires, late, attempts, guards, releases) = Default::default();
        let (settles, answers, leases, granted, refused, released, story) = Default::default();
        Self {
            base,
            at: Duration::ZERO,
            engine,
            settings,
            servers,
            wires,
            late,
            attempts,
            guards,
            releases,
            settles,
            answers,
            leases,
            looks_by: None,
            late_arrives: true,
            master: 0,
            believed: 0,
            is_calm: true,
            last: 0,
            callers: 0,
            longest_lease: Duration::ZERO,
            granted,
            refused,
            released,
            story,
            title: title.into(),
        }
    }

    pub fn now(&self) -> Instant {
        self.base + self.at
    }

    /// What the network can do.
    pub fn possible(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (line, wire) in &self.wires {
            match wire.state {
                State::Opening { .. } => moves.push(Move::Opens(*line)),
                State::Open if !wire.up.is_empty() => moves.push(Move::Arrives(*line)),
                _ => {}
            }
            if wire.state == State::Open && !wire.down.is_empty() {
                moves.push(Move::Answers(*line));
            }
        }
        moves.extend(self.looks_by.map(|_| Move::Learns));
        moves
    }

    pub fn lines(&self) -> Vec<LineId> {
        self.wires.keys().copied().collect()
    }

    pub fn open(&self) -> Vec<LineId> {
        self.wires.iter().filter(|(_, wire)| wire.state == State::Open).map(|it| *it.0).collect()
    }

    /// The moves up to now.
    pub fn taken(&self) -> impl Iterator<Item = &Move> {
        self.story.iter().filter_map(|told| if let Told::Taken(_, taken) = told { Some(taken) } else { None })
    }

    /// Whether there is what a program's move is about.
    pub fn can(&self, next: &Move) -> bool {
        match next {
            Move::Release { guard, .. } => self.guards.contains_key(guard),
            Move::Abandon(id) => self.attempts.contains_key(id),
            _ => true,
        }
    }

    /// All that can be seen.
    pub fn seen(&self) -> String {
        let wires: Vec<_> = self
            .wires
            .iter()
            .map(|(line, wire)| {
                let up: Vec<_> = wire.up.iter().map(|request| request.join(" ")).collect();
                (*line, wire.state, up, wire.down.clone())
            })
            .collect();
        let now = self.now();
        let guards: Vec<_> = self.guards.iter().map(|(id, it)| (*id, self.left(&it.grant))).collect();
        let attempts: Vec<_> = self.attempts.keys().collect();
        let engine = &self.engine;
        let sizes = (engine.givings.len(), engine.holds.len(), engine.attempts.len(), engine.leaving);
        let due: Vec<_> = engine.timers.iter().map(|(at, _)| at.saturating_duration_since(now)).collect();
        let told = (self.granted.len(), self.refused.len(), self.released.len(), self.releases.len());
        let due = (due, self.next().map(|next| next.saturating_sub(self.at)));
        format!("{wires:?} {guards:?} {attempts:?} {sizes:?} {due:?} {told:?} {}", self.servers[0].seen())
    }

    pub fn cut(&self) -> Vec<LineId> {
        self.wires.iter().filter(|(_, wire)| wire.state == State::Cut).map(|it| *it.0).collect()
    }

    pub fn opening(&self) -> Vec<LineId> {
        self.wires.iter().filter(|(_, wire)| matches!(wire.state, State::Opening { .. })).map(|it| *it.0).collect()
    }

    pub fn late(&self) -> Vec<Connection> {
        self.late.keys().copied().collect()
    }

    pub fn take(&mut self, taken: Move) {
        self.story.push(Told::Taken(self.at, taken.clone()));
        match taken {
            Move::Acquire(wanted) => self.acquire(wanted),
            Move::Abandon(id) => self.abandon(id),
            Move::Release { guard, is_told } => self.release(guard, is_told),
            Move::Settle => {
                let caller = self.caller();
                self.settles.push(caller);
                self.step(Event::Settle(caller));
            }
            Move::Arrives(line) => self.arrives(line),
            Move::Answers(line) => self.answers(line, None),
            Move::AnswersInPieces(line, hundredth) => self.answers(line, Some(hundredth)),
            Move::Opens(line) => self.opens(line),
            Move::IsRefused(line) => {
                self.is_calm = false;
                self.wires.remove(&line);
                let fault = Fault::unreachable(io::ErrorKind::ConnectionRefused.into());
                self.step(Event::Broken(line, fault));
            }
            Move::Breaks { line, arrives } => {
                self.is_calm = false;
                self.closes(line, arrives);
                self.step(Event::Broken(line, Fault::silent(io::ErrorKind::ConnectionReset.into())));
            }
            Move::IsCut(line) => {
                self.is_calm = false;
                if let Some(wire) = self.wires.get_mut(&line) {
                    wire.state = State::Cut;
                    wire.up.clear();
                    wire.down.clear();
                }
            }
            Move::IsNoticed(line) => {
                self.closes(line, false);
                self.step(Event::Broken(line, Fault::silent(io::ErrorKind::ConnectionReset.into())));
            }
            Move::Late { connection, arrives } => self.comes_late(connection, arrives),
            Move::Passes => {
                if let Some(to) = self.next() {
                    self.passes(to);
                }
            }
            Move::Waits(time) => self.passes(self.at + time),
            Move::Deletes(key) => {
                self.is_calm = false;
                self.servers[self.master].delete(KEYS[key]);
                self.collect();
            }
            Move::Restarts => {
                self.is_calm = false;
                self.servers[self.master].restarts();
                self.forgets_connections(self.master);
            }
            Move::Refuses(line) => {
                self.is_calm &= line.is_none();
                self.servers[self.master].refuses = line;
            }
            Move::FailsOver { has_all } => {
                self.is_calm = false;
                let locks = if has_all { self.servers[self.master].locks_of_replica() } else { BTreeMap::new() };
                self.master = 1 - self.master;
                self.servers[self.master].takes_over(locks);
                self.forgets_connections(self.master);
            }
            Move::ReplicaStandsStill => {
                self.is_calm = false;
                self.servers[self.master].replica_stands_still();
            }
            Move::ReplicaGoesOn => {
                self.servers[self.master].replica_goes_on();
                self.collect();
            }
            Move::Learns => {
                self.looks_by = None;
                self.believed = self.master;
                self.step(Event::Learnt(Ok(Learnt::Master(address(self.master)))));
            }
            Move::LearnsNothing => {
                (self.is_calm, self.looks_by) = (false, None);
                self.step(Event::Learnt(Err(Fault::nowhere("no sentinel answers"))));
            }
        }
    }

    fn acquire(&mut self, wanted: Wanted) {
        self.last += 1;
        let (id, now) = (self.last, self.now());
        let mut keys = names(wanted.key).iter().map(|name| Arc::from(name.as_bytes()));
        let key: Arc<[u8]> = keys.next().expect("one at least");
        let holder = wanted.owner.map_or_else(|| format!("holder-{id}"), |owner| format!("owner-{owner}"));
        let until = match wanted.within {
            None => Until::Granted,
            Some(Duration::ZERO) => Until::Now,
            Some(within) => Until::Time(now + within),
        };
        let lease = if wanted.is_kept { Lasting::Kept(wanted.lease) } else { Lasting::Fixed(wanted.lease) };
        self.longest_lease = self.longest_lease.max(wanted.lease);
        let replicas = wanted.confirmed.then_some(Replicas { wanted: 1, timeout: Duration::from_millis(300) });
        let permits = (wanted.key == PERMITS).then_some(LIMIT);
        let terms = Terms { side: Side::Plain, permits, max: None, lease, fenced: wanted.fenced, replicas };
        let caller = Caller {
            keys: names(wanted.key).iter().map(|name| (*name).to_owned()).collect(),
            fenced: wanted.fenced,
            holder: holder.clone(),
            named: wanted.owner.is_some(),
            is_kept: wanted.is_kept,
            until_granted: wanted.within.is_none(),
            confirmed: wanted.confirmed,
            by: until.end(now, self.settings.answer),
        };
        self.attempts.insert(id, caller);
        let (holder, named) = (Arc::from(holder.into_bytes()), wanted.owner.is_some());
        let wish = Wish { key, more: keys.collect(), holder, named, terms, until };
        let lane = if wanted.callers_lane { Lane::Caller(0) } else { Lane::Own };
        self.step(Event::Acquire { caller: id, wish, lane });
    }

    /// As its future does it when it is dropped.
    fn abandon(&mut self, id: u64) {
        if self.attempts.remove(&id).is_some() {
            self.step(Event::Abandon(id));
        }
    }

    fn release(&mut self, guard: u64, is_told: bool) {
        let Some(Guard { grant, key, holder, named, is_kept, .. }) = self.guards.remove(&guard) else { return };
        let could_be_vouched_for = !self.left(&grant).is_zero();
        let caller = self.caller();
        self.leases.remove(&grant.guard);
        let given_before = self.given_back(&key, &holder);
        if is_told {
            self.releases.push(Releasing { caller, key, holder, named, is_kept, given_before, could_be_vouched_for });
        }
        self.step(Event::Release { grant, lane: Lane::Own, caller: is_told.then_some(caller) });
    }

    fn given_back(&self, key: &str, holder: &str) -> u64 {
        let name = (key.to_owned(), holder.to_owned());
        self.servers.iter().filter_map(|server| server.deeds.given_back.get(&name)).sum()
    }

    fn arrives(&mut self, line: LineId) {
        let is_retired = self.engine.lines.get(&line).is_some_and(Line::is_retired);
        let Some(wire) = self.wires.get_mut(&line).filter(|wire| wire.state == State::Open) else { return };
        if is_retired && !self.late_arrives {
            wire.up.clear();
        }
        let server = wire.server;
        // Whether a session is known is asked in one write with the call behind it, and nothing comes in between.
        let asks_first = |request: &Vec<String>| request[0] == "RLOCK.CANCEL" && request[2] == "0";
        while let Some(request) = wire.up.pop_front() {
            self.servers[server].ask(line, &request);
            let goes_on = asks_first(&request);
            self.story.push(Told::Asked(request));
            if !goes_on {
                break;
            }
        }
        self.collect();
    }

    fn comes_late(&mut self, connection: Connection, arrives: bool) {
        let Some(late) = self.late.get_mut(&connection) else { return };
        let server = late.server;
        // A first call for events that is so late could open a session anew that has ended, in which nobody waits. Those who
        // believe that they do ask again, after a minute: that takes too long for a history.
        late.up.retain(|request| request[0] != "RLOCK.EVENTS" || request.iter().any(|word| word == "ACK"));
        let request = late.up.pop_front().filter(|_| arrives);
        match request {
            Some(request) => {
                self.servers[server].ask(connection, &request);
                self.story.push(Told::Asked(request));
            }
            None => {
                self.late.remove(&connection);
                self.servers[server].hangs_up(connection);
            }
        }
        self.collect();
    }

    /// Puts what servers say on its way.
    fn collect(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            for (connection, answer) in server.take_answers() {
                if let Some(wire) = self.wires.get_mut(&connection).filter(|it| it.state == State::Open) {
                    assert_eq!(wire.server, number, "each connection is to one server");
                    wire.down.push_back(answer);
                }
            }
        }
        self.check();
    }

    fn answers(&mut self, line: LineId, hundredth: Option<u64>) {
        let Some(wire) = self.wires.get_mut(&line).filter(|wire| wire.state == State::Open) else { return };
        let Some(answer) = wire.down.pop_front() else { return };
        let lost = if answer == b":0\r\n" { self.renewed_by_next_answer(line) } else { None };
        self.story.push(Told::Answered(answer.clone()));
        let cut = hundredth.map_or(0, |hundredth| answer.len() * usize::try_from(hundredth).expect("few") / 100);
        if cut > 0 {
            self.step(Event::Received(line, &answer[..cut]));
        }
        self.step(Event::Received(line, &answer[cut..]));
        if let Some((key, holder)) = lost {
            for guard in self.guards.values().filter(|it| it.key == key && it.holder == holder) {
                let left = self.left(&guard.grant);
                assert!(left.is_zero() || guard.named, "{holder} is not held, and is vouched for");
            }
        }
    }

    /// Whose renewal it is that is answered next on this line, if anybody waits for that.
    fn renewed_by_next_answer(&self, line: LineId) -> Option<(Name, Name)> {
        let (errand, hold) = self.engine.renewal_pending_on(line)?;
        let names = |hold: &Hold| (text(&hold.key), text(&hold.holder));
        self.engine.is_renewing(hold, errand).then(|| self.engine.holds.get(&hold).map(names))?
    }

    fn opens(&mut self, line: LineId) {
        let Some(wire) = self.wires.get_mut(&line) else { return };
        wire.state = State::Open;
        self.step(Event::Connected(line));
    }

    fn closes(&mut self, line: LineId, arrives: bool) {
        let Some(wire) = self.wires.remove(&line) else { return };
        match arrives && !wire.up.is_empty() {
            true => _ = self.late.insert(line, Late { server: wire.server, up: wire.up }),
            false => self.servers[wire.server].hangs_up(line),
        }
    }

    /// Nothing that was sent to what it was before reaches what it is now.
    fn forgets_connections(&mut self, server: usize) {
        self.late.retain(|_, late| late.server != server);
        for wire in self.wires.values_mut().filter(|wire| wire.state == State::Open && wire.server == server) {
            wire.state = State::Cut;
            wire.up.clear();
            wire.down.clear();
        }
    }

    pub fn next(&self) -> Option<Duration> {
        let engine = self.engine.next().map(|at| at.saturating_duration_since(self.base).max(self.at));
        let servers = self.servers.iter().filter_map(Server::next);
        engine.into_iter().chain(servers).min()
    }

    fn passes(&mut self, to: Duration) {
        let in_time = Duration::from_millis(5);
        let is_late = self.next().is_some_and(|next| to > next + in_time);
        self.is_calm &= !is_late && (to <= self.at + in_time || self.possible().is_empty());
        self.at = self.at.max(to);
        for server in &mut self.servers {
            server.advance(self.at);
        }
        for (number, server) in self.servers.iter_mut().enumerate() {
            for (connection, answer) in server.take_answers() {
                if let Some(wire) = self.wires.get_mut(&connection).filter(|it| it.state == State::Open) {
                    assert_eq!(wire.server, number, "each connection is to one server");
                    wire.down.push_back(answer);
                }
            }
        }
        self.step(Event::Passed);
        // What dials and looks up gives up at some time.
        let at = self.at;
        let overdue = |wire: &Wire| matches!(wire.state, State::Opening { by } if by <= at);
        let overdue: Vec<_> = self.wires.iter().filter(|(_, wire)| overdue(wire)).map(|it| *it.0).collect();
        for line in overdue {
            self.is_calm = false;
            self.wires.remove(&line);
            self.step(Event::Broken(line, Fault::unreachable(io::ErrorKind::TimedOut.into())));
        }
        if self.looks_by.is_some_and(|by| by <= at) {
            (self.is_calm, self.looks_by) = (false, None);
            self.step(Event::Learnt(Err(Fault::nowhere("no sentinel answers"))));
        }
    }

    fn step(&mut self, event: Event<'_>) {
        let now = self.now();
        for effect in self.engine.step(event, now).collect::<Vec<_>>() {
            match effect {
                Effect::Connect { line, address, .. } => {
                    let server = usize::from(address.place != self::address(0).place);
                    let state = State::Opening { by: self.at + self.settings.connect };
                    let (up, down) = Default::default();
                    assert!(self.wires.insert(line, Wire { server, state, up, down }).is_none());
                }
                Effect::Send { line, bytes, .. } => {
                    if let Some(wire) = self.wires.get_mut(&line) {
                        assert!(!matches!(wire.state, State::Opening { .. }), "only what is open can be written to");
                        if wire.state == State::Open {
                            wire.up.extend(commands(&bytes));
                        }
                    }
                }
                Effect::Close(line) => self.closes(line, self.late_arrives),
                Effect::LookUp => self.looks_by = Some(self.at + self.settings.answer),
                Effect::Notify(caller, answer) => {
                    if let Answer::Acquired(Ok(Some(grant))) = &answer {
                        let began = |it: &Grant| (it.guard, Lease { until: it.until, lost: None });
                        self.leases.extend(grant.all().map(began));
                    }
                    assert!(self.answers.insert(caller, answer).is_none(), "{caller} is answered twice");
                }
                Effect::Guard(guard, standing) => {
                    let Some(lease) = self.leases.get_mut(&guard) else { continue };
                    match standing {
                        Standing::Until(until) => lease.until = until,
                        Standing::Troubled(_) => {}
                        Standing::Lost(loss) => lease.lost = Some(loss),
                    }
                }
                Effect::Log(_) => {}
            }
        }
        assert!(self.engine.next().is_none_or(|next| next > now), "what is due was done");
        self.hears();
        self.check();
    }

    /// What callers are told.
    fn hears(&mut self) {
        for (id, answer) in std::mem::take(&mut self.answers) {
            let outcome = match answer {
                Answer::Acquired(outcome) => outcome,
                Answer::Released(result) => {
                    if let Some(place) = self.releases.iter().position(|it| it.caller == id) {
                        let releasing = self.releases.remove(place);
                        self.hears_of_release(&releasing, result);
                    }
                    continue;
                }
                Answer::Replied(_) => {
                    self.settles.retain(|caller| *caller != id);
                    continue;
                }
            };
            let Some(Caller { keys, fenced, holder, named, is_kept, confirmed, until_granted, by, .. }) =
                self.attempts.remove(&id)
            else {
                panic!("{id} is answered, and has gone");
            };
            match outcome {
                Ok(Some(mut grant)) => {
                    self.granted.push((keys.join("+"), holder.clone()));
                    let more = std::mem::take(&mut grant.more);
                    assert_eq!(more.len() + 1, keys.len(), "all are granted");
                    for (number, (key, grant)) in (0..).zip(keys.into_iter().zip(iter::once(grant).chain(more))) {
                        assert!(!self.left(&grant).is_zero(), "who is granted a lock has it");
                        let is_of_its_key = grant.token.is_some_and(|it| it % 1_000 == token_of(&key, 0));
                        assert!(is_of_its_key == fenced, "{key} has {:?}", grant.token);
                        let (until, backed, is_lost, holder) = (None, self.believed, false, holder.clone());
                        self.guards.insert(
                            id + number * NEXT_OF_SEVERAL,
                            Guard { grant, key, holder, named, is_kept, confirmed, until, backed, is_lost },
                        );
                    }
                }
                Ok(None) => {
                    assert!(!until_granted, "it was to wait for as long as it takes");
                    self.refused.push(None);
                }
                Err(error) => {
                    let is_over = by.is_some_and(|by| by <= self.now());
                    assert!(!self.is_calm || is_over, "nothing went wrong: {error}");
                    self.refused.push(Some(error));
                }
            }
        }
    }

    /// For how long a guard is vouched for, by what it was told.
    fn left(&self, grant: &Grant) -> Duration {
        let lease = self.leases.get(&grant.guard).filter(|lease| lease.lost.is_none());
        lease.map_or(Duration::ZERO, |lease| lease.until.saturating_duration_since(self.now()))
    }

    fn caller(&mut self) -> CallerId {
        self.callers += 1;
        CALLERS + self.callers
    }

    fn hears_of_release(&mut self, releasing: &Releasing, result: Result<(), Error>) {
        let Releasing { key, holder, given_before, could_be_vouched_for, named, .. } = releasing;
        let was_given_back = self.given_back(key, holder) > *given_before;
        match &result {
            Ok(()) => assert!(was_given_back, "{holder} was told that it was held, and no server has said so"),
            Err(error) if error.is_lost() && !error.is_in_doubt() && *could_be_vouched_for && !named => {
                assert!(!was_given_back, "{holder} gave it back, and is told that it was lost");
            }
            Err(error) => assert!(!self.is_calm || !releasing.is_kept, "nothing went wrong: {error}"),
        }
        self.released.push(result);
    }

    /// What must be true at any time.
    fn check(&mut self) {
        let (now, believed) = (self.now(), self.believed);
        let lefts: Vec<_> = self.guards.values().map(|it| self.left(&it.grant)).collect();
        for ((id, guard), left) in self.guards.iter_mut().zip(lefts) {
            let Guard { key, holder, .. } = guard;
            if left.is_zero() {
                let by_word = guard.until.is_some_and(|until| until > now);
                let is_told = self.leases.get(&guard.grant.guard).is_some_and(|it| it.lost.is_some());
                assert!(!by_word || is_told, "{holder} is lost and was not told so");
                assert!(!self.is_calm || !guard.is_kept, "{holder} is lost though nothing went wrong");
                guard.is_lost = true;
                continue;
            }
            assert!(!guard.is_lost, "{holder} was lost, and is vouched for once more");
            if guard.until.is_none_or(|until| until < now + left) {
                guard.backed = believed;
            }
            guard.until = Some(now + left);
            let server = &self.servers[guard.backed];
            let is_forced = server.deeds.forced.iter().any(|forced| forced.0 == *key && forced.1 == *holder);
            assert!(
                is_forced || server.is_held_by(key, holder),
                "guard {id}: {holder} is vouched for {left:?} more, and the server says {:?}",
                server.locks.get(key)
            );
            assert!(
                is_forced || !guard.confirmed || server.is_known_to_replica(key, holder),
                "guard {id}: {holder} is vouched for {left:?} more, and the replica has {:?}",
                server.locks_of_replica().get(key)
            );
        }
        for (id, caller) in &self.attempts {
            // To be confirmed has a time of its own.
            let by = caller.by.filter(|_| !caller.confirmed);
            assert!(by.is_none_or(|by| now < by), "attempt {id} was to be told by {:?}", caller.by);
        }
    }

    pub fn is_settled(&self) -> bool {
        self.settles.is_empty()
    }

    /// No more faults: everything arrives, at once, while the clock stands.
    pub fn is_quiet(&mut self) {
        loop {
            for line in self.cut() {
                self.take(Move::IsNoticed(line));
            }
            for connection in self.late() {
                self.take(Move::Late { connection, arrives: true });
            }
            let Some(next) = self.possible().first().cloned() else {
                if self.cut().is_empty() && self.late.is_empty() {
                    return;
                }
                continue;
            };
            self.take(next);
        }
    }

    /// Faults cease, and everybody who has a lock gives it back: then each who waits gets his, and in the end nothing is
    /// left.
    pub fn comes_to_rest(&mut self) {
        for server in &mut self.servers {
            server.refuses = None;
            server.replica_goes_on();
        }
        self.collect();
        self.take(Move::Settle);
        let patience = self.settings.patience + self.settings.connect + self.settings.answer;
        let end = self.at + self.longest_lease * 2 + patience * 3;
        loop {
            self.is_quiet();
            for guard in self.guards.keys().copied().collect::<Vec<_>>() {
                self.take(Move::Release { guard, is_told: true });
            }
            self.is_quiet();
            if !self.guards.is_empty() {
                continue;
            }
            if self.attempts.is_empty() && self.releases.is_empty() {
                break;
            }
            assert!(self.at < end, "those who wait are told: {:?}", self.attempts.keys());
            self.take(Move::Passes);
        }
        if self.is_calm {
            assert!(self.servers[0].locks.is_empty(), "held by nobody: {:?}", self.servers[0].locks);
            assert!(self.servers[0].queue.is_empty(), "nobody waits: {:?}", self.servers[0].queue);
        }
        // A lease, the time for which a session lasts, and that for an answer.
        let gone_by = self.at + self.longest_lease + Duration::from_secs(3) + self.settings.answer;
        let over_by = self.at + self.longest_lease * 11 + Duration::from_secs(90);
        while let Some(next) = self.next() {
            if next > gone_by && self.at <= gone_by {
                for server in &self.servers {
                    assert!(server.locks.is_empty(), "held by nobody: {:?}", server.locks);
                    assert!(server.queue.is_empty(), "nobody waits: {:?}", server.queue);
                }
            }
            assert!(self.at < over_by, "it does not come to rest: {next:?}");
            self.take(Move::Passes);
            self.is_quiet();
        }
        for server in &self.servers {
            assert_eq!((server.locks.len(), server.queue.len(), server.sessions()), (0, 0, 0));
        }
        assert!(self.settles.is_empty(), "each who asked was told that nothing is left");
        let engine = &self.engine;
        let tables = (engine.attempts.len(), engine.givings.len(), engine.holds.len(), engine.named.len());
        assert_eq!(tables, (0, 0, 0, 0), "attempts, releases, holds, names");
        assert_eq!((engine.leaving, engine.crowds.len(), engine.parked.len()), (0, 0, 0));
        assert_eq!((engine.unconfirmed.len(), engine.rounds.len()), (0, 0), "all is confirmed, or is not");
        assert!(engine.timers.is_empty() && engine.due.is_empty() && engine.settling.is_empty());
        assert!(engine.lines.values().all(|line| line.is_idle()), "nothing is under way");
        assert!(engine.nodes.values().all(|node| node.session.is_none()), "no session lasts");
        assert!(!engine.has_unfinished());
    }
}

/// A history that has failed is told.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}, after {:?}:", self.title, self.at);
            for told in &self.story {
                match told {
                    Told::Taken(at, taken) => eprintln!("    {at:?} {taken:?}"),
                    Told::Asked(request) => eprintln!("        asks {}", request.join(" ")),
                    Told::Answered(answer) => {
                        eprintln!("        hears {}", text(answer).replace("\r\n", " "));
                    }
                }
            }
        }
    }
}
