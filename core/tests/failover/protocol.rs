//! The protocol: what two servers and two clients may do next, in a state.
//!
//! Time goes in ticks, and everything may happen at any time, or never: a request arrives late or is lost, a change is
//! replicated late or is lost with its server. So no delay needs a number, and what is held up is held up for ever too.
//!
//! A grant or a renewal, once it is heard, is believed until the lease ends by the server: as a session is told by
//! `ends-in`. What a client counts from its own request ends no later, so a model of it would find less.
//!
//! Beside the two there are more replicas, which never become the master and follow whoever is it: so a new master, too,
//! hears of one.

use self::Action as Do;
use std::fmt;

/// So many tokens fit into a tick: to grant takes time.
const TOKENS_A_TICK: i8 = 2;
/// A token so old is below what any clock says now, and as good as none.
const LONG_AGO: i8 = -3 * TOKENS_A_TICK;

pub const CLIENTS: [&str; 2] = ["ann", "bob"];
pub const SERVERS: [&str; 2] = ["A", "B"];

/// All times in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub lease: u8,
    pub grace: u8,
    /// A master writes while a replica was heard of so long ago, and one more, as servers count whole seconds.
    pub lag: u8,
    /// The master must be silent for so long before a replica takes its place.
    pub failover: u8,
    /// Grants take tokens, and the clock of B is so far behind.
    pub fenced: Option<i8>,
    /// Clients believe only what a replica has confirmed; servers lose nothing when they restart.
    pub confirmed: bool,
    pub defect: Option<Defect>,
}

/// What is done otherwise than the rules say. Two are no defects but remedies: those that hold all back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    GraceFromTheFailure,
    OnlyTheFirstPromotionBeginsOne,
    NoGraceAfterARestart,
    ReentryInTheGrace,
    HandOverInTheGrace,
    LeaseEndServesInTheGrace,
    EachTryBeginsTheGrace,
    NoMinReplicas,
    AnotherReplicaStays,
    FailoverUndone,
    StandstillUnnoticed,
    StandstillBeginsAGrace,
    StandstillHoldsAllBack,
    NewMasterHoldsAllBack,
    CountedFromTheAnswer,
    RenewalNotConfirmed,
    TokensByCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub clients: [Client; 2],
    pub servers: [Server; 2],
    /// Who was the last to become the master.
    pub current: usize,
    /// For how long nobody else has heard of it; not counted beyond what a failover takes.
    silent: u8,
    is_failed_over: bool,
    /// The largest token given so far; tokens are told by how far they are from the present.
    token: i8,
    pub is_token_old: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// For how long yet it is certain to hold the lock.
    pub believes: u8,
    request: Request,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    #[default]
    None,
    /// Sent to this server, where it may wait.
    Lock(usize),
    Renewal(usize),
    /// The answer is on its way.
    Granted {
        left: u8,
        is_confirmed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    pub is_master: bool,
    health: Health,
    /// No other server is heard; clients still may be.
    is_cut_off: bool,
    pub lock: Option<Lock>,
    grace: u8,
    /// How long ago it heard of a replica.
    unheard: u8,
    /// For how long it writes nothing, whatever it is asked.
    held_back: u8,
    counter: i8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Health {
    Up,
    Frozen,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lock {
    pub holder: usize,
    pub left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Ask(usize, usize),
    Renew(usize, usize),
    Answer(usize),
    Hear(usize),
    GiveUp(usize),
    Release(usize),
    Break(usize),
    Replicate,
    Acknowledge(usize),
    Kill(usize),
    Restart { server: usize, keeps: bool },
    Freeze(usize),
    Thaw(usize),
    CutOff(usize),
    Join(usize),
    Promote,
    Follow,
    Undo,
}

pub fn actions() -> Vec<Action> {
    let mut all = vec![Do::Tick, Do::Replicate, Do::Promote, Do::Follow, Do::Undo];
    for one in 0..2 {
        all.extend([Do::Ask(one, 0), Do::Ask(one, 1), Do::Renew(one, 0), Do::Renew(one, 1)]);
        all.extend([Do::Answer(one), Do::Hear(one), Do::GiveUp(one), Do::Release(one)]);
        all.extend([Do::Break(one), Do::Acknowledge(one), Do::Kill(one), Do::Freeze(one), Do::Thaw(one)]);
        all.extend([true, false].map(|keeps| Do::Restart { server: one, keeps }));
        all.extend([Do::CutOff(one), Do::Join(one)]);
    }
    all
}

impl Rules {
    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// A is the master, B follows, and nobody holds the lock.
    pub fn first_state(&self) -> State {
        let server = |is_master| Server {
            is_master,
            health: Health::Up,
            is_cut_off: false,
            lock: None,
            grace: 0,
            unheard: 0,
            held_back: 0,
            counter: LONG_AGO,
        };
        State {
            clients: [Client::default(); 2],
            servers: [server(true), server(false)],
            current: 0,
            silent: 0,
            is_failed_over: false,
            token: LONG_AGO,
            is_token_old: false,
        }
    }

    /// The state after an action; none if it cannot happen.
    pub fn after(&self, mut state: State, action: Action) -> Option<State> {
        let can_happen = match action {
            Do::Tick => self.tick(&mut state),
            Do::Ask(client, server) => state.clients[client].send(Request::Lock(server), false),
            // Tokens are given with the grant, so whether that is heard makes no difference to them.
            Do::Renew(..) | Do::Hear(_) if self.fenced.is_some() => false,
            Do::Renew(client, server) => state.clients[client].send(Request::Renewal(server), true),
            Do::Answer(client) => self.answer(&mut state, client),
            Do::Hear(client) => self.hear(&mut state.clients[client]),
            Do::GiveUp(client) => std::mem::take(&mut state.clients[client].request) != Request::None,
            Do::Release(client) => std::mem::take(&mut state.clients[client]).believes > 0,
            Do::Break(place) => self.break_lock(&mut state, place),
            Do::Replicate => state.replicate(),
            Do::Acknowledge(place) => self.acknowledge(&mut state, place),
            // Who stands still is as one who is cut off and answers late, unless that makes a difference to its replicas.
            Do::Freeze(_) if !self.sees_no_standstill() => false,
            Do::Kill(_) if self.sees_no_standstill() => false,
            Do::Kill(place) => state.servers[place].fail(Health::Down),
            Do::Freeze(place) => state.servers[place].fail(Health::Frozen),
            Do::Restart { server, keeps } => self.restart(&mut state.servers[server], keeps),
            Do::Thaw(place) => self.thaw(&mut state.servers[place]),
            Do::CutOff(place) => state.servers[place].cut_off(),
            Do::Join(place) => std::mem::take(&mut state.servers[place].is_cut_off),
            Do::Promote => self.promote(&mut state),
            Do::Follow => state.follow(),
            Do::Undo => self.has(Defect::FailoverUndone) && state.undo(),
        };
        if matches!(action, Do::Thaw(_) | Do::Join(_) | Do::Restart { .. }) && state.servers[state.current].is_heard() {
            state.silent = 0;
        }
        can_happen.then_some(state)
    }

    fn tick(&self, state: &mut State) -> bool {
        let is_heard = state.servers[state.current].is_heard();
        state.silent = if is_heard { 0 } else { (state.silent + 1).min(self.failover) };
        state.token = self.earlier(state.token);
        for client in &mut state.clients {
            client.believes = client.believes.saturating_sub(1);
            if let Request::Granted { left, .. } = &mut client.request {
                *left = left.saturating_sub(1);
            }
        }
        for place in 0..2 {
            let server = &mut state.servers[place];
            server.grace = server.grace.saturating_sub(1);
            server.held_back = server.held_back.saturating_sub(1);
            server.counter = self.earlier(server.counter);
            if server.is_master && !(self.sees_no_standstill() && server.health == Health::Frozen) {
                server.unheard = (server.unheard + 1).min(self.lag + 2);
            }
            let before = server.lock;
            server.lock = before.filter(|lock| lock.left > 1).map(|lock| Lock { left: lock.left - 1, ..lock });
            if before.is_some() && server.lock.is_none() && self.has(Defect::LeaseEndServesInTheGrace) {
                self.serve(state, place);
            }
        }
        true
    }

    /// A token as it is told after a tick.
    fn earlier(&self, token: i8) -> i8 {
        if self.has(Defect::TokensByCount) { token } else { (token - TOKENS_A_TICK).max(LONG_AGO) }
    }

    /// What the server looks at itself, for each command that writes, whoever asks.
    fn may_write(&self, server: &Server) -> bool {
        let has_replicas = server.unheard <= self.lag + 1 || self.has(Defect::NoMinReplicas);
        server.is_master && server.health == Health::Up && has_replicas && server.held_back == 0
    }

    fn answer(&self, state: &mut State, client: usize) -> bool {
        match state.clients[client].request {
            Request::Lock(place) if self.may_write(&state.servers[place]) => {
                let server = &mut state.servers[place];
                let is_own = server.lock.is_some_and(|lock| lock.holder == client);
                let is_held_back = server.grace > 0 && !(is_own && self.has(Defect::ReentryInTheGrace));
                let lets_in = (is_own || server.lock.is_none()) && !is_held_back;
                if lets_in {
                    self.grant(state, client, place);
                } else if is_held_back && self.has(Defect::EachTryBeginsTheGrace) {
                    server.grace = self.grace;
                }
                true
            }
            Request::Renewal(place) if self.may_write(&state.servers[place]) => {
                let lock = state.servers[place].lock.as_mut().filter(|lock| lock.holder == client);
                let is_confirmed = !self.confirmed || self.has(Defect::RenewalNotConfirmed);
                state.clients[client].request = lock.map_or(Request::None, |lock| {
                    lock.left = self.lease;
                    Request::Granted { left: self.lease, is_confirmed }
                });
                true
            }
            _ => false,
        }
    }

    fn grant(&self, state: &mut State, client: usize, place: usize) {
        let server = &mut state.servers[place];
        if let Some(behind) = self.fenced {
            let clock = if place == 1 { -behind * TOKENS_A_TICK } else { 0 };
            let counted = server.counter + 1;
            let token = if self.has(Defect::TokensByCount) { counted } else { counted.max(clock) };
            if token >= TOKENS_A_TICK {
                return;
            }
            state.is_token_old |= token <= state.token;
            (server.counter, state.token) = (token, token);
        }
        server.lock = Some(Lock { holder: client, left: self.lease });
        state.clients[client].request = Request::Granted { left: self.lease, is_confirmed: !self.confirmed };
    }

    /// Lets in whoever waits, and asks nothing.
    fn serve(&self, state: &mut State, place: usize) {
        let waiter = state.clients.iter().position(|client| client.request == Request::Lock(place));
        if let Some(waiter) = waiter.filter(|_| self.may_write(&state.servers[place])) {
            self.grant(state, waiter, place);
        }
    }

    fn hear(&self, client: &mut Client) -> bool {
        let Request::Granted { left, is_confirmed: true } = client.request else { return false };
        let left = if self.has(Defect::CountedFromTheAnswer) { self.lease } else { left };
        *client = Client { believes: client.believes.max(left), request: Request::None };
        true
    }

    /// By somebody on call, or by a release that was sent twice: of a holder that is certain of nothing.
    fn break_lock(&self, state: &mut State, place: usize) -> bool {
        let Some(Lock { holder, .. }) = state.servers[place].lock else { return false };
        let holder = state.clients[holder];
        let is_at_work = holder.believes > 0 || !matches!(holder.request, Request::None | Request::Lock(_));
        if is_at_work || !self.may_write(&state.servers[place]) {
            return false;
        }
        state.servers[place].lock = None;
        if self.has(Defect::HandOverInTheGrace) {
            self.serve(state, place);
        }
        true
    }

    fn acknowledge(&self, state: &mut State, place: usize) -> bool {
        let server = &mut state.servers[place];
        let is_followed = place == state.current && server.is_heard()
            || self.has(Defect::AnotherReplicaStays) && server.health == Health::Up;
        server.is_master && is_followed && std::mem::take(&mut server.unheard) > 0
    }

    fn restart(&self, server: &mut Server, keeps: bool) -> bool {
        let can_happen = server.health == Health::Down && (keeps || !self.confirmed);
        if !keeps {
            (server.lock, server.counter) = (None, LONG_AGO);
        }
        let grace = if self.has(Defect::NoGraceAfterARestart) { 0 } else { self.grace };
        (server.health, server.grace, server.unheard) = (Health::Up, grace, self.lag + 2);
        can_happen
    }

    /// As servers are: they look at their replicas once a second, and not when they go on after a standstill, so at first
    /// the old count holds.
    fn sees_no_standstill(&self) -> bool {
        let seen_otherwise = [Defect::StandstillBeginsAGrace, Defect::StandstillHoldsAllBack];
        self.has(Defect::StandstillUnnoticed) || seen_otherwise.into_iter().any(|other| self.has(other))
    }

    fn thaw(&self, server: &mut Server) -> bool {
        if self.sees_no_standstill() {
            // What its replica sent before it went away is read only now.
            server.unheard = 0;
        }
        if self.has(Defect::StandstillBeginsAGrace) {
            server.grace = self.grace;
        }
        if self.has(Defect::StandstillHoldsAllBack) {
            server.held_back = self.lag + 2;
        }
        std::mem::replace(&mut server.health, Health::Up) == Health::Frozen
    }

    fn promote(&self, state: &mut State) -> bool {
        let next = 1 - state.current;
        let server = &mut state.servers[next];
        let can_happen = !server.is_master && server.is_heard() && state.silent >= self.failover;
        server.grace = match self.defect {
            Some(Defect::GraceFromTheFailure) => self.grace.saturating_sub(state.silent),
            Some(Defect::OnlyTheFirstPromotionBeginsOne) if state.is_failed_over => 0,
            _ => self.grace,
        };
        (server.is_master, server.unheard) = (true, self.lag + 2);
        server.held_back = if self.has(Defect::NewMasterHoldsAllBack) { self.lag + 1 } else { 0 };
        (state.current, state.silent) = (next, 0);
        state.is_failed_over = self.has(Defect::OnlyTheFirstPromotionBeginsOne);
        can_happen
    }
}

impl State {
    /// The two clients are alike, so which of them does what is the same.
    pub fn canonical(self) -> State {
        let mut swapped = self;
        swapped.clients.swap(0, 1);
        for lock in swapped.servers.iter_mut().filter_map(|server| server.lock.as_mut()) {
            lock.holder = 1 - lock.holder;
        }
        self.min(swapped)
    }

    fn are_linked(&self) -> bool {
        self.servers.iter().all(Server::is_heard)
    }

    /// The replica has all that the master has, and says so.
    fn replicate(&mut self) -> bool {
        let Server { lock, counter, .. } = self.servers[self.current];
        let replica = &mut self.servers[1 - self.current];
        (replica.lock, replica.counter) = (lock, counter);
        for (place, client) in self.clients.iter_mut().enumerate() {
            if let Request::Granted { left, is_confirmed } = &mut client.request {
                *is_confirmed |= lock.is_some_and(|lock| lock.holder == place && lock.left >= *left);
            }
        }
        self.are_linked() && !self.servers[1 - self.current].is_master
    }

    /// The old master becomes a replica, and takes over what the new one has.
    fn follow(&mut self) -> bool {
        let old = &mut self.servers[1 - self.current];
        let can_happen = std::mem::take(&mut old.is_master);
        (old.grace, old.unheard, old.held_back) = (0, 0, 0);
        can_happen && self.replicate()
    }

    /// The new master becomes a replica of the old one, which never was one itself.
    fn undo(&mut self) -> bool {
        self.current = 1 - self.current;
        self.servers[self.current].is_master && self.follow()
    }
}

impl Client {
    fn send(&mut self, request: Request, believes: bool) -> bool {
        let is_free = self.request == Request::None && (self.believes > 0) == believes;
        self.request = request;
        is_free
    }
}

impl Server {
    /// By the others; so it may be followed, and be made the master.
    fn is_heard(&self) -> bool {
        self.health == Health::Up && !self.is_cut_off
    }

    fn fail(&mut self, health: Health) -> bool {
        self.is_master && std::mem::replace(&mut self.health, health) == Health::Up
    }

    fn cut_off(&mut self) -> bool {
        self.is_master && !std::mem::replace(&mut self.is_cut_off, true)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, server) = (|place: usize| CLIENTS[place], |place: usize| SERVERS[place]);
        match *self {
            Do::Tick => write!(f, "a tick passes"),
            Do::Ask(one, place) => write!(f, "{} asks {} for the lock", client(one), server(place)),
            Do::Renew(one, place) => write!(f, "{} asks {} for a renewal", client(one), server(place)),
            Do::Answer(one) => write!(f, "{}'s request is answered", client(one)),
            Do::Hear(one) => write!(f, "{} hears that it has the lock", client(one)),
            Do::GiveUp(one) => write!(f, "{} waits for no answer any more", client(one)),
            Do::Release(one) => write!(f, "{} is done with the lock", client(one)),
            Do::Break(place) => write!(f, "the lock is released at {}", server(place)),
            Do::Replicate => write!(f, "the replica receives all"),
            Do::Acknowledge(place) => write!(f, "{} hears of a replica", server(place)),
            Do::Kill(place) => write!(f, "{} is killed", server(place)),
            Do::Restart { server: place, keeps: true } => write!(f, "{} starts, with its data", server(place)),
            Do::Restart { server: place, keeps: false } => write!(f, "{} starts, without its data", server(place)),
            Do::Freeze(place) => write!(f, "{} stands still", server(place)),
            Do::Thaw(place) => write!(f, "{} goes on", server(place)),
            Do::CutOff(place) => write!(f, "{} is cut off from all servers", server(place)),
            Do::Join(place) => write!(f, "{} is cut off no more", server(place)),
            Do::Promote => write!(f, "the replica becomes the master"),
            Do::Follow => write!(f, "the old master becomes a replica"),
            Do::Undo => write!(f, "the new master becomes a replica of the old one"),
        }
    }
}
