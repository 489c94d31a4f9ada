//! Clients, a network that takes its time and loses answers, and an observer.

use super::client::{Client, Kind, Next};
use super::lock::{Asking, Flaw, Lock, Time, Waiter};
use super::sessions::{Polling, Session};
use crate::history::{Answer, Call, Moment, Record, Request, Sample, Side, Told};
use rlock_testing::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub seed: u64,
    pub clients: usize,
    pub locks: usize,
    pub length_ms: u64,
    pub flaw: Option<Flaw>,
    /// Some clients know of no queue.
    pub scripts: bool,
    /// Some clients are guards, of which not every step is written down.
    pub guards: bool,
    /// Some clients wait by tickets.
    pub sessions: bool,
    /// So often each lock is looked at, at least.
    pub observed_every_ms: u64,
    /// So often there is one of the troubles below, at most.
    pub trouble_every_ms: u64,
    /// Locks are removed and waits are ended by somebody.
    pub meddling: bool,
    /// The server's clock is moved.
    pub clock_steps: bool,
    /// The server forgets.
    pub failovers: bool,
}

impl Settings {
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            clients: 14,
            locks: 3,
            length_ms: 2_500,
            flaw: None,
            scripts: true,
            guards: true,
            sessions: false,
            observed_every_ms: 12,
            trouble_every_ms: 150,
            meddling: false,
            clock_steps: false,
            failovers: false,
        }
    }
}

/// In order of the moments.
pub fn history(settings: Settings) -> Vec<Record> {
    let mut world = World::new(settings);
    world.run();
    let mut records = world.records;
    records.sort_by_key(Record::at);
    records
}

#[derive(Clone)]
pub(super) enum Event {
    Wake(usize),
    Arrive(usize),
    Reply(usize, Answer),
    TimeUp(usize),
    Disconnect(usize),
    /// The lease may be over, or somebody wakes up.
    Look(usize),
    Observe(usize),
    Trouble,
    Queued(usize),
    Poll(usize),
    PollArrives(Polling),
    PollIsLate(usize, u64),
    PollAnswered(usize, u64, Told),
    SessionMayEnd(usize),
    LookAtAll,
}

pub(super) struct Asked {
    pub(super) client: usize,
    /// None: nobody writes it down.
    pub(super) number: Option<u64>,
    pub(super) lock: usize,
    pub(super) holder: String,
    pub(super) sent: Time,
    pub(super) waited: bool,
    pub(super) request: Request,
    pub(super) is_lost: bool,
    /// What came of it is not waited for any more.
    pub(super) is_over: bool,
    /// Its client knows that it waits by ticket.
    pub(super) is_queued: bool,
    /// The session that it asks for a ticket of.
    pub(super) session: Option<usize>,
}

pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) now: Time,
    pub(super) events: BinaryHeap<Reverse<(Time, u64)>>,
    pub(super) pending: HashMap<u64, Event>,
    pub(super) count: u64,
    pub(super) clients: Vec<Client>,
    pub(super) locks: Vec<Lock>,
    pub(super) asked: Vec<Asked>,
    pub(super) records: Vec<Record>,
    pub(super) sessions: Vec<Session>,
}

pub(super) fn moment(time: Time) -> Moment {
    Moment(0) + Duration::from_micros(time + 1_000_000)
}

impl World {
    fn new(settings: Settings) -> Self {
        let lock = |number| if number % 3 == 1 { format!("rw:{number}") } else { format!("plain:{number}") };
        let kind = |number| match number % 7 {
            2 if settings.scripts => Kind::Scripts,
            4 if settings.guards => Kind::Guards,
            1 | 3 | 5 if settings.sessions => Kind::Sessions,
            _ => Kind::Commands,
        };
        let client = |number| Client::new(format!("client-{number}"), kind(number));
        Self {
            settings,
            random: Random::from(settings.seed),
            now: 0,
            events: BinaryHeap::new(),
            pending: HashMap::new(),
            count: 0,
            clients: (0..settings.clients).map(client).collect(),
            locks: (0..settings.locks).map(|number| Lock::new(lock(number), settings.flaw)).collect(),
            asked: Vec::new(),
            records: Vec::new(),
            sessions: Vec::new(),
        }
    }

    fn run(&mut self) {
        for client in 0..self.clients.len() {
            self.soon(20_000, Event::Wake(client));
            if self.clients[client].kind == Kind::Sessions {
                self.poll(client);
            }
        }
        for lock in 0..self.locks.len() {
            self.soon(5_000, Event::Observe(lock));
        }
        if self.settings.meddling || self.settings.clock_steps || self.settings.failovers {
            self.soon(200_000, Event::Trouble);
        }
        while let Some(Reverse((time, number))) = self.events.pop() {
            self.now = time;
            let event = self.pending.remove(&number).expect("each has its number");
            if time > self.settings.length_ms * 1_000 + 500_000 {
                return;
            }
            self.happen(event);
        }
    }

    pub(super) fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count)));
        self.pending.insert(self.count, event);
    }

    /// Within so long, by chance.
    pub(super) fn soon(&mut self, within: Time, event: Event) {
        let time = self.now + 1 + self.random.below(within);
        self.at(time, event);
    }

    pub(super) fn latency(&mut self) -> Time {
        if self.random.is(3) { self.random.between((1_000, 30_000)) } else { self.random.between((30, 400)) }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(client) => self.wake(client),
            Event::Arrive(asked) => self.arrive(asked),
            Event::Reply(asked, answer) => self.reply(asked, &answer),
            Event::TimeUp(asked) => self.time_up(asked),
            Event::Disconnect(asked) => {
                let lock = self.asked[asked].lock;
                self.locks[lock].leave(asked);
                self.serve(lock);
            }
            Event::Look(lock) => self.serve(lock),
            Event::Observe(lock) => self.observe(lock),
            Event::Trouble => self.trouble(),
            Event::Queued(number) => self.queued(number),
            Event::Poll(client) => self.poll(client),
            Event::PollArrives(poll) => self.poll_arrives(poll),
            Event::PollIsLate(session, number) => self.poll_is_late(session, number),
            Event::PollAnswered(session, number, told) => self.poll_answered(session, number, told),
            Event::SessionMayEnd(session) => self.session_may_end(session),
            Event::LookAtAll => self.serve_all(),
        }
    }

    fn wake(&mut self, client: usize) {
        if self.clients[client].holds > 0 {
            if self.clients[client].kind == Kind::Guards {
                return self.guard_goes_on(client);
            }
            let next = self.clients[client].clone().act(&mut self.random);
            return self.go_on(client, next);
        }
        if self.now > self.settings.length_ms * 1_000 {
            return;
        }
        let lock = self.a_lock_for(client);
        let is_rw = self.locks[lock].name.starts_with("rw");
        let side = match (is_rw, self.random.is(60)) {
            (false, _) => Side::Plain,
            (true, true) => Side::Read,
            (true, false) => Side::Write,
        };
        self.clients[client].begin(lock, side, &mut self.random);
        if self.clients[client].kind == Kind::Guards {
            return self.guard_begins(client);
        }
        let request = self.clients[client].first_attempt(&mut self.random);
        self.send(client, request, true);
    }

    /// Guards keep off the first lock, so that it can be held against the model.
    fn a_lock_for(&mut self, client: usize) -> usize {
        let first = usize::from(self.clients[client].kind == Kind::Guards && self.locks.len() > 1);
        let count = (self.locks.len() - first) as u64;
        first + usize::try_from(self.random.below(count)).expect("a few")
    }

    pub(super) fn go_on(&mut self, client: usize, next: Next) {
        match next {
            Next::Rest(time) => {
                self.clients[client].holds = 0;
                self.at(self.now + time + 1, Event::Wake(client));
            }
            Next::Hold(time) => self.at(self.now + time + 1, Event::Wake(client)),
            Next::Send(request) => self.send(client, request, true),
        }
    }

    pub(super) fn call(&mut self, client: usize, request: Request) -> u64 {
        let it = &mut self.clients[client];
        it.number += 1;
        let (client, number, holder) = (it.name.clone(), it.number, it.holder.clone());
        let lock = self.locks[it.lock].name.clone();
        self.records.push(Record::Called(Call { at: moment(self.now), client, number, lock, holder, request }));
        it.number
    }

    pub(super) fn send(&mut self, client: usize, request: Request, is_written: bool) {
        let request = self.by_ticket(client, request);
        let number = is_written.then(|| self.call(client, request.clone()));
        let is_by_ticket = matches!(request, Request::Acquire { session: Some(_), .. });
        let is_lost = is_written && self.random.is(3) && !is_by_ticket;
        let (lock, holder) = (self.clients[client].lock, self.clients[client].holder.clone());
        let sent = self.now;
        let (waited, is_over, is_queued) = (false, false, false);
        let session = is_by_ticket.then(|| self.session_at_hand(client)).flatten();
        let asked = Asked { client, number, lock, holder, sent, waited, request, is_lost, is_over, is_queued, session };
        self.asked.push(asked);
        let asked = self.asked.len() - 1;
        if is_by_ticket {
            self.clients[client].pending = Some(asked);
        }
        let latency = self.latency();
        if !is_lost {
            return self.at(self.now + latency, Event::Arrive(asked));
        }
        if self.random.is(70) {
            let late = if self.random.is(30) { self.random.below(300_000) } else { 0 };
            self.at(self.now + latency + late, Event::Arrive(asked));
            self.at(self.now + latency + late + 40_000, Event::Disconnect(asked));
        }
        self.soon(50_000, Event::Reply(asked, Answer::Unknown("connection reset".to_owned())));
    }

    fn arrive(&mut self, number: usize) {
        let asked = &self.asked[number];
        let (lock, holder, now) = (asked.lock, asked.holder.clone(), self.now);
        let answer = match asked.request.clone() {
            Request::Acquire { side, lease_ms, wait_ms, fenced, by_script, .. } => {
                let asking = Asking { number, holder, side, lease: lease_ms * 1_000, fenced, by_script };
                self.acquire(lock, asking, wait_ms)
            }
            Request::Renew { lease_ms } => {
                self.is_known(lock, &holder);
                Some(self.locks[lock].renew(&holder, lease_ms * 1_000, now))
            }
            Request::Release { side, all } => {
                self.is_known(lock, &holder);
                Some(self.locks[lock].release(&holder, side, all, now))
            }
            Request::Cancel { .. } => Some(self.take_back(lock, &holder)),
            Request::Guard { .. } => None,
        };
        if let Some(answer) = answer {
            self.answer(number, answer);
        }
        if self.settings.flaw == Some(Flaw::Overtaking) {
            self.at(self.now + 3_000, Event::Look(lock));
        } else {
            self.serve(lock);
        }
    }

    fn acquire(&mut self, lock: usize, asking: Asking, wait_ms: Option<u64>) -> Option<Answer> {
        if self.is_denied(asking.number) {
            return Some(Answer::Failed("NOSESSION".to_owned()));
        }
        let granted = self.locks[lock].ask(&asking, self.now, &mut self.random);
        if granted.is_some() {
            return granted;
        }
        let left_ms = self.locks[lock].left_ms(self.now);
        let Some(wait) = wait_ms else { return Some(Answer::Refused { left_ms }) };
        if wait > 0 {
            self.at(self.now + wait * 1_000, Event::TimeUp(asking.number));
        }
        self.asked[asking.number].waited = true;
        let client_id = i64::try_from(self.asked[asking.number].client).expect("a few") + 100;
        let attended = self.is_attended(asking.number);
        let number = asking.number;
        self.locks[lock].queue.push_back(Waiter { asking, since: self.now, client_id, attended });
        if attended.is_some() {
            let latency = self.latency();
            self.at(self.now + latency, Event::Queued(number));
        }
        None
    }

    fn time_up(&mut self, number: usize) {
        let lock = self.asked[number].lock;
        if self.locks[lock].queue.iter().all(|waiter| waiter.asking.number != number) || self.asked[number].is_over {
            return;
        }
        let left_ms = self.locks[lock].left_ms(self.now);
        if self.settings.flaw != Some(Flaw::GrantToRefused) {
            self.locks[lock].leave(number);
        }
        self.answer(number, Answer::Refused { left_ms });
        self.asked[number].is_over = true;
        self.serve(lock);
    }

    /// The queue moves on. It does so a little late when a lease ends.
    pub(super) fn serve(&mut self, lock: usize) {
        self.look_after(lock);
        for (number, answer) in self.locks[lock].serve(self.now, &mut self.random) {
            if !self.asked[number].is_over {
                self.answer(number, answer);
            }
        }
        let it = &self.locks[lock];
        if it.queue.is_empty() {
            return;
        }
        let late = self.random.below(1_000);
        if self.locks[lock].is_asleep_until > self.now {
            self.at(self.locks[lock].is_asleep_until, Event::Look(lock));
        } else if self.locks[lock].is_held() {
            self.at(self.locks[lock].ends.max(self.now) + late, Event::Look(lock));
        }
    }

    pub(super) fn answer(&mut self, number: usize, answer: Answer) {
        if self.asked[number].is_lost {
            return;
        }
        if self.asked[number].waited && self.session_in(number).is_some() {
            return self.happened(number, answer);
        }
        let latency = self.latency();
        self.at(self.now + latency, Event::Reply(number, answer));
    }

    /// Who attends to its session now.
    fn look_after(&mut self, lock: usize) {
        for place in 0..self.locks[lock].queue.len() {
            let attended = self.is_attended(self.locks[lock].queue[place].asking.number);
            self.locks[lock].queue[place].attended = attended;
        }
    }

    /// As a client asks that waits by tickets, if it has a session.
    fn by_ticket(&self, client: usize, request: Request) -> Request {
        match request {
            Request::Acquire { side, lease_ms, wait_ms: Some(wait), fenced, by_script, replicas, .. } => {
                let session = self.session_name(client);
                Request::Acquire { side, lease_ms, wait_ms: Some(wait), fenced, by_script, replicas, session }
            }
            other => other,
        }
    }

    pub(super) fn reply(&mut self, number: usize, answer: &Answer) {
        let asked = &self.asked[number];
        let (client, request) = (asked.client, asked.request.clone());
        let Some(call) = asked.number else { return self.guard_is_told(number, answer) };
        let name = self.clients[client].name.clone();
        self.records.push(Record::Answered {
            at: moment(self.now),
            client: name,
            number: call,
            answer: answer.clone(),
        });
        let next = self.clients[client].after(&request, answer, &mut self.random);
        let is_guard = self.clients[client].kind == Kind::Guards;
        self.go_on(client, if is_guard { Next::Rest(5_000) } else { next });
    }

    fn observe(&mut self, lock: usize) {
        let (before, after) = (self.random.between((20, 300)), self.random.between((20, 300)));
        let now = self.now;
        self.look_after(lock);
        let it = &mut self.locks[lock];
        if it.is_asleep_until <= now {
            it.expire(now);
        }
        let sample = Sample {
            asked: moment(now.saturating_sub(before)),
            answered: moment(now + after),
            server: "a".to_owned(),
            lock: it.name.clone(),
            ttl_ms: if it.is_held() { it.left_ms(now) } else { -2 },
            holders: it.holders(now),
            waiters: it.waiters(now),
        };
        self.records.push(Record::Seen(sample));
        self.soon(self.settings.observed_every_ms * 1_000, Event::Observe(lock));
    }
}
