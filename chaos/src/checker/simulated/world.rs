//! Clients, a network that takes its time and loses answers, an observer, and trouble.

use super::client::{Client, Kind, Next};
use super::lock::{Asking, Flaw, Lock, Time, Waiter};
use crate::history::{Answer, Call, Moment, Reach, Record, Request, Sample, Side, Trouble};
use crate::random::Random;
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
enum Event {
    Wake(usize),
    Arrive(usize),
    Reply(usize, Answer),
    TimeUp(usize),
    Disconnect(usize),
    /// The lease may be over, or somebody wakes up.
    Look(usize),
    Observe(usize),
    Trouble,
}

struct Asked {
    client: usize,
    /// None: nobody writes it down.
    number: Option<u64>,
    lock: usize,
    holder: String,
    sent: Time,
    waited: bool,
    request: Request,
    is_lost: bool,
    /// What came of it is not waited for any more.
    is_over: bool,
}

struct World {
    settings: Settings,
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    pending: HashMap<u64, Event>,
    count: u64,
    clients: Vec<Client>,
    locks: Vec<Lock>,
    asked: Vec<Asked>,
    records: Vec<Record>,
}

fn moment(time: Time) -> Moment {
    Moment(0) + Duration::from_micros(time + 1_000_000)
}

impl World {
    fn new(settings: Settings) -> Self {
        let lock = |number| if number % 3 == 1 { format!("rw:{number}") } else { format!("plain:{number}") };
        let kind = |number| match number % 7 {
            2 if settings.scripts => Kind::Scripts,
            4 if settings.guards => Kind::Guards,
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
        }
    }

    fn run(&mut self) {
        for client in 0..self.clients.len() {
            self.soon(20_000, Event::Wake(client));
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

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count)));
        self.pending.insert(self.count, event);
    }

    /// Within so long, by chance.
    fn soon(&mut self, within: Time, event: Event) {
        let time = self.now + 1 + self.random.below(within);
        self.at(time, event);
    }

    fn latency(&mut self) -> Time {
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

    fn go_on(&mut self, client: usize, next: Next) {
        match next {
            Next::Rest(time) => {
                self.clients[client].holds = 0;
                self.at(self.now + time + 1, Event::Wake(client));
            }
            Next::Hold(time) => self.at(self.now + time + 1, Event::Wake(client)),
            Next::Send(request) => self.send(client, request, true),
        }
    }

    fn call(&mut self, client: usize, request: Request) -> u64 {
        let it = &mut self.clients[client];
        it.number += 1;
        let (client, number, holder) = (it.name.clone(), it.number, it.holder.clone());
        let lock = self.locks[it.lock].name.clone();
        self.records.push(Record::Called(Call { at: moment(self.now), client, number, lock, holder, request }));
        it.number
    }

    fn send(&mut self, client: usize, request: Request, is_written: bool) {
        let number = is_written.then(|| self.call(client, request.clone()));
        let is_lost = is_written && self.random.is(3);
        let (lock, holder) = (self.clients[client].lock, self.clients[client].holder.clone());
        let sent = self.now;
        let (waited, is_over) = (false, false);
        self.asked.push(Asked { client, number, lock, holder, sent, waited, request, is_lost, is_over });
        let asked = self.asked.len() - 1;
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
            Request::Renew { lease_ms } => Some(self.locks[lock].renew(&holder, lease_ms * 1_000, now)),
            Request::Release { side, all } => Some(self.locks[lock].release(&holder, side, all, now)),
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
        self.locks[lock].queue.push_back(Waiter { asking, since: self.now, client_id });
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
    fn serve(&mut self, lock: usize) {
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

    fn answer(&mut self, number: usize, answer: Answer) {
        if self.asked[number].is_lost {
            return;
        }
        let latency = self.latency();
        self.at(self.now + latency, Event::Reply(number, answer));
    }

    fn reply(&mut self, number: usize, answer: &Answer) {
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

    fn guard_begins(&mut self, client: usize) {
        let it = &self.clients[client];
        let (side, lease_ms) = (it.side, it.lease_ms);
        let request = Request::Guard { side, lease_ms, fenced: true, replicas: 0, majority: false };
        self.clients[client].guard = self.call(client, request);
        let wait_ms = Some(600);
        let request = Request::Acquire { side, lease_ms, wait_ms, fenced: true, by_script: false, replicas: 0 };
        self.send(client, request, false);
    }

    fn guard_is_told(&mut self, number: usize, answer: &Answer) {
        let asked = &self.asked[number];
        let (client, sent, waited) = (asked.client, asked.sent, asked.waited);
        let it = &self.clients[client];
        let until = sent + it.lease_ms * 1_000 - 500;
        let (name, guard, lease_ms) = (it.name.clone(), it.guard, it.lease_ms);
        let said = |answer| Record::Answered { at: moment(self.now), client: name.clone(), number: guard, answer };
        match answer {
            Answer::Granted { token } => {
                let token = *token;
                self.records.push(said(Answer::Granted { token }));
                self.clients[client].holds = 1;
                self.clients[client].guarded_until = until;
                self.clients[client].done_at = self.now + self.random.between((0, 400_000));
                self.clients[client].is_stalled = self.random.is(20);
                if waited {
                    return self.send(client, Request::Renew { lease_ms }, false);
                }
                self.vouch(client, until);
            }
            Answer::Renewed(true) if self.now < self.clients[client].guarded_until || until > self.now => {
                self.vouch(client, until);
            }
            Answer::Refused { left_ms } => {
                let left_ms = *left_ms;
                self.records.push(said(Answer::Refused { left_ms }));
                self.go_on(client, Next::Rest(2_000));
            }
            Answer::Renewed(_) => self.guard_ends(client),
            _ => {
                self.records.push(said(Answer::Unknown("gone".to_owned())));
                self.go_on(client, Next::Rest(2_000));
            }
        }
    }

    fn vouch(&mut self, client: usize, until: Time) {
        let it = &mut self.clients[client];
        it.guarded_until = until;
        let (name, number, pause) = (it.name.clone(), it.guard, it.lease_ms * 1_000 / 3);
        let (at, until) = (moment(self.now), moment(until));
        self.records.push(Record::Vouched { at, client: name, number, until });
        self.at(self.now + pause, Event::Wake(client));
    }

    fn guard_goes_on(&mut self, client: usize) {
        let it = &self.clients[client];
        let lease_ms = it.lease_ms;
        if self.now >= it.done_at || self.now >= it.guarded_until {
            return self.guard_ends(client);
        }
        if it.is_stalled {
            return self.at(it.guarded_until, Event::Wake(client));
        }
        self.send(client, Request::Renew { lease_ms }, false);
    }

    fn guard_ends(&mut self, client: usize) {
        let it = &self.clients[client];
        let (name, number, side) = (it.name.clone(), it.guard, it.side);
        self.records.push(Record::Ended { at: moment(self.now), client: name, number });
        self.send(client, Request::Release { side, all: false }, true);
    }

    fn observe(&mut self, lock: usize) {
        let (before, after) = (self.random.between((20, 300)), self.random.between((20, 300)));
        let now = self.now;
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

    fn trouble(&mut self) {
        let lock = usize::try_from(self.random.below(self.locks.len() as u64)).expect("a few");
        if self.settings.meddling {
            if self.random.is(50) {
                self.kill(lock);
            } else {
                self.remove(lock);
            }
        }
        if self.settings.clock_steps && self.random.is(20) {
            self.step_clock();
        }
        if self.settings.failovers && self.random.is(20) {
            self.fail_over();
        }
        self.soon(self.settings.trouble_every_ms * 1_000, Event::Trouble);
    }

    fn troubled(&mut self, what: &str, reach: Reach) {
        let (before, after) = (self.random.between((10, 2_000)), self.random.between((10, 2_000)));
        let (began, ended) = (moment(self.now.saturating_sub(before)), moment(self.now + after));
        self.records.push(Record::Troubled(Trouble { began, ended, what: what.to_owned(), reach }));
    }

    fn kill(&mut self, lock: usize) {
        let Some(waiter) = self.locks[lock].queue.back() else { return };
        let (number, client_id) = (waiter.asking.number, waiter.client_id);
        if self.asked[number].is_lost || self.asked[number].is_over {
            return;
        }
        if self.settings.flaw != Some(Flaw::GrantToKilled) {
            self.locks[lock].leave(number);
        }
        self.troubled("CLIENT KILL", Reach::Wait { client_id });
        self.answer(number, Answer::Unknown("killed".to_owned()));
        self.asked[number].is_over = true;
        self.serve(lock);
    }

    fn remove(&mut self, lock: usize) {
        self.locks[lock].clear();
        let (locks, takes_counters) = match self.random.below(3) {
            0 => (vec![self.locks[lock].name.clone()], false),
            1 => {
                self.locks[lock].forget_tokens(u64::MAX);
                (vec![self.locks[lock].name.clone()], true)
            }
            _ => {
                self.locks.iter_mut().for_each(Lock::clear);
                (Vec::new(), false)
            }
        };
        self.troubled("DEL", Reach::Locks { locks, takes_counters });
        (0..self.locks.len()).for_each(|lock| self.serve(lock));
    }

    fn step_clock(&mut self) {
        let by: i64 = self.random.one_of(&[50, 100, -60]);
        let by_us = by.unsigned_abs() * 1_000;
        for lock in &mut self.locks {
            let sooner = if by > 0 { lock.ends.saturating_sub(by_us) } else { lock.ends + by_us };
            lock.ends = sooner;
            for waiter in &mut lock.queue {
                waiter.since = if by > 0 { waiter.since.saturating_sub(by_us) } else { waiter.since + by_us };
            }
            lock.move_reads(by * 1_000);
        }
        self.troubled("clock", Reach::ClockStep { server: "a".to_owned(), by_ms: by });
        (0..self.locks.len()).for_each(|lock| self.serve(lock));
    }

    fn fail_over(&mut self) {
        for lock in 0..self.locks.len() {
            if self.random.is(50) {
                self.locks[lock].clear();
                self.locks[lock].forget_tokens(2);
            }
            let waiting: Vec<usize> = self.locks[lock].queue.drain(..).map(|waiter| waiter.asking.number).collect();
            for number in waiting {
                if !self.asked[number].is_over {
                    self.answer(number, Answer::Unknown("UNBLOCKED".to_owned()));
                    self.asked[number].is_over = true;
                }
            }
        }
        self.troubled("failover", Reach::Failover { server: "a".to_owned() });
    }
}
