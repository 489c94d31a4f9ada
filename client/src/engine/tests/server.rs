//! A server with the module, as naive as it can be: what the contract of the commands says of plain locks, waits by
//! tickets, sessions and their events. It is asked with the bytes that the engine sends, and has a clock that a test moves.

use super::super::resp::{self, Reply};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub type Connection = u64;

/// A lock's name, or its holder's.
pub type Name = String;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub holder: Name,
    pub count: u64,
    pub ends: Duration,
    /// Another one after each change, so that a grant can be told from what became of it.
    stamp: u64,
}

#[derive(Clone, Debug)]
pub struct Ticket {
    session: Name,
    number: u64,
    key: Name,
    pub holder: Name,
    lease: Duration,
    fenced: bool,
    until: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Told {
    seq: u64,
    ticket: u64,
    /// `None`: its time was over.
    grant: Option<Grant>,
    /// On which connection it was sent the last time.
    sent: Option<Connection>,
}

#[derive(Clone, Debug)]
struct Grant {
    key: Name,
    holder: Name,
    token: Option<u64>,
    stamp: u64,
}

#[derive(Debug)]
struct Session {
    ttl: Duration,
    alive_at: Duration,
    answered_at: Duration,
    connection: Option<Connection>,
    /// When each began, and whether it waits.
    calls: VecDeque<(Duration, bool)>,
    events: Vec<Told>,
    last: u64,
}

/// What a test may want to know of the past.
#[derive(Debug, Default)]
pub struct Deeds {
    /// How often a release gave something back.
    pub given_back: BTreeMap<(Name, Name), u64>,
    /// Whose hold was taken away by force or forgotten.
    pub forced: Vec<(Name, Name)>,
    /// Who came into a queue, in this order.
    pub queued: Vec<(Name, Name)>,
}

#[derive(Debug, Default)]
pub struct Server {
    pub now: Duration,
    pub locks: BTreeMap<Name, Lock>,
    pub queues: BTreeMap<Name, Vec<Ticket>>,
    sessions: BTreeMap<Name, Session>,
    /// Answers instead of what is asked for, as a server does that is loading or full.
    pub refuses: Option<&'static str>,
    pub deeds: Deeds,
    stamps: u64,
    answers: Vec<(Connection, Vec<u8>)>,
}

impl Session {
    fn is_attended(&self, now: Duration) -> bool {
        self.connection.is_some() && (!self.calls.is_empty() || self.answered_at + self.ttl / 10 > now)
    }
}

impl Server {
    /// Answers to whom, in this order.
    pub fn take_answers(&mut self) -> Vec<(Connection, Vec<u8>)> {
        std::mem::take(&mut self.answers)
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_held_by(&self, key: &str, holder: &str) -> bool {
        self.locks.get(key).is_some_and(|lock| lock.holder == holder)
    }

    /// What it has, but for the names of sessions.
    pub fn seen(&self) -> String {
        let left = |at: Duration| at.saturating_sub(self.now);
        let locks: Vec<_> =
            self.locks.iter().map(|(key, lock)| (key, &lock.holder, lock.count, left(lock.ends))).collect();
        let queues: Vec<_> =
            self.queues.values().flatten().map(|it| (&it.key, &it.holder, it.until.map(left))).collect();
        let sessions: Vec<_> = self
            .sessions
            .values()
            .map(|it| (left(it.alive_at + it.ttl), it.connection, &it.calls, &it.events))
            .collect();
        format!("{locks:?} {queues:?} {sessions:?}")
    }

    /// When something happens by itself.
    pub fn next(&self) -> Option<Duration> {
        let locks = self.locks.values().map(|lock| lock.ends);
        let tickets = self.queues.values().flatten().filter_map(|ticket| ticket.until);
        let sessions = self.sessions.values().map(|session| match session.calls.front() {
            Some((began, _)) => *began + session.ttl / 3,
            None => session.alive_at + session.ttl,
        });
        locks.chain(tickets).chain(sessions).min()
    }

    pub fn advance(&mut self, to: Duration) {
        while let Some(at) = self.next().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            self.is_due();
        }
        self.now = self.now.max(to);
    }

    fn is_due(&mut self) {
        let now = self.now;
        let ended: Vec<_> =
            self.locks.iter().filter(|(_, lock)| lock.ends <= now).map(|(key, _)| key.clone()).collect();
        for key in ended {
            self.locks.remove(&key);
            self.serve(&key);
        }
        let is_over = |ticket: &Ticket| ticket.until.is_some_and(|until| until <= now);
        let late: Vec<_> = self.queues.values().flatten().filter(|it| is_over(it)).cloned().collect();
        self.queues.values_mut().for_each(|queue| queue.retain(|it| !is_over(it)));
        self.queues.retain(|_, queue| !queue.is_empty());
        for ticket in late {
            self.tells(&ticket.session, ticket.number, None);
        }
        let names: Vec<_> = self.sessions.keys().cloned().collect();
        for name in names {
            let Some(session) = self.sessions.get_mut(&name) else { continue };
            match session.calls.front() {
                Some((began, _)) if *began + session.ttl / 3 <= now => self.answers_call(&name, Vec::new()),
                None if session.alive_at + session.ttl <= now => self.ends(&name),
                _ => {}
            }
        }
    }

    /// Somebody takes the lock away.
    pub fn delete(&mut self, key: &str) {
        if let Some(lock) = self.locks.remove(key) {
            self.deeds.forced.push((key.to_owned(), lock.holder));
        }
        self.serve(key);
    }

    /// It starts again, and knows nothing.
    pub fn restarts(&mut self) {
        let locks = std::mem::take(&mut self.locks);
        self.deeds.forced.extend(locks.into_iter().map(|(key, lock)| (key, lock.holder)));
        self.queues.clear();
        self.sessions.clear();
        self.answers.clear();
    }

    /// What a replica knows of it that has everything.
    pub fn takes_over(&mut self, locks: BTreeMap<Name, Lock>) {
        self.restarts();
        self.locks = locks;
    }

    pub fn hangs_up(&mut self, connection: Connection) {
        for session in self.sessions.values_mut().filter(|it| it.connection == Some(connection)) {
            session.connection = None;
            session.calls.clear();
        }
    }

    pub fn ask(&mut self, connection: Connection, request: &[String]) {
        let command: Vec<&str> = request.iter().map(String::as_str).collect();
        if let Some(line) = self.refuses {
            return self.says(connection, format!("-{line}\r\n"));
        }
        let option = |name: &str| {
            let place = command.iter().position(|word| *word == name)?;
            command.get(place + 1).map(|word| word.parse::<u64>().expect("a number"))
        };
        match command[..] {
            ["RLOCK.ACQUIRE", key, holder, lease, ..] => {
                let lease = MS * lease.parse().expect("a lease");
                let session = command.iter().position(|word| *word == "SESSION");
                let until = option("WAIT").filter(|ms| *ms > 0).map(|ms| self.now + Duration::from_millis(ms));
                let ticket = Ticket {
                    session: session.map_or_else(String::new, |place| command[place + 1].to_owned()),
                    number: session.map_or(0, |place| command[place + 2].parse().expect("a ticket")),
                    key: key.to_owned(),
                    holder: holder.to_owned(),
                    lease,
                    fenced: command.contains(&"FENCED"),
                    until,
                };
                self.acquire(connection, ticket);
            }
            ["RLOCK.RELEASE", key, holder, ref more @ ..] => {
                let (key, holder) = (key.to_owned(), holder.to_owned());
                let answer = match self.locks.get_mut(&key).filter(|lock| lock.holder == holder) {
                    None => "$-1\r\n",
                    Some(lock) => {
                        *self.deeds.given_back.entry((key.clone(), holder)).or_default() += 1;
                        lock.count -= 1;
                        self.stamps += 1;
                        lock.stamp = self.stamps;
                        if lock.count == 0 || more.contains(&"ALL") {
                            self.locks.remove(&key);
                            ":1\r\n"
                        } else {
                            ":0\r\n"
                        }
                    }
                };
                self.says(connection, answer);
                self.serve(&key);
            }
            ["RLOCK.RENEW", key, holder, lease] => {
                let ends = self.now + MS * lease.parse().expect("a lease");
                self.stamps += 1;
                let lock = self.locks.get_mut(key).filter(|lock| lock.holder == holder);
                let answer = if lock.is_some() { ":1\r\n" } else { ":0\r\n" };
                if let Some(lock) = lock {
                    (lock.ends, lock.stamp) = (ends, self.stamps);
                }
                self.says(connection, answer);
            }
            ["RLOCK.EVENTS", session, ..] => {
                let (ack, waits) = (option("ACK"), command.contains(&"WAIT"));
                let ttl = MS * u32::try_from(option("TTL").expect("always said")).expect("short");
                self.events(connection, session, ack, waits, ttl);
            }
            ["RLOCK.CANCEL", session, ref tickets @ ..] => {
                let tickets: Vec<u64> = tickets.iter().map(|ticket| ticket.parse().expect("a ticket")).collect();
                if !self.sessions.contains_key(session) {
                    return self.says(connection, "-NOSESSION no such session\r\n");
                }
                assert!(!tickets.is_empty(), "the engine ends no session by force");
                let found = tickets.into_iter().filter(|ticket| self.cancels(session, *ticket)).count();
                self.says(connection, format!(":{found}\r\n"));
            }
            _ => panic!("not a command that the engine has: {command:?}"),
        }
    }

    fn acquire(&mut self, connection: Connection, ticket: Ticket) {
        let known = self.sessions.get(&ticket.session);
        let waits = !ticket.session.is_empty();
        if waits && known.is_none() {
            return self.says(connection, "-NOSESSION no such session\r\n");
        }
        let is_told = known.is_some_and(|session| session.events.iter().any(|it| it.ticket == ticket.number));
        let is_queued = self.queues.values().flatten().any(|it| it.is(&ticket.session, ticket.number));
        if waits && (is_told || is_queued) {
            return self.says(connection, "+WAITING\r\n");
        }
        let left = self.locks.get(&ticket.key).map(|lock| lock.ends - self.now);
        match self.locks.get(&ticket.key) {
            Some(lock) if lock.holder != ticket.holder && waits => {
                self.deeds.queued.push((ticket.key.clone(), ticket.holder.clone()));
                self.queues.entry(ticket.key.clone()).or_default().push(ticket);
                self.says(connection, "+WAITING\r\n");
            }
            Some(lock) if lock.holder != ticket.holder => {
                let left = left.unwrap_or_default().as_millis();
                let answer = if ticket.fenced { format!("*2\r\n:{left}\r\n$-1\r\n") } else { format!(":{left}\r\n") };
                self.says(connection, answer);
            }
            _ => {
                let token = self.grants(&ticket).token;
                let answer = token.map_or_else(|| "$-1\r\n".into(), |token| format!("*2\r\n$-1\r\n:{token}\r\n"));
                self.says(connection, answer);
            }
        }
    }

    fn grants(&mut self, ticket: &Ticket) -> Grant {
        self.stamps += 1;
        let (stamp, ends, holder) = (self.stamps, self.now + ticket.lease, ticket.holder.clone());
        let count = self.locks.get(&ticket.key).map_or(0, |lock| lock.count) + 1;
        self.locks.insert(ticket.key.clone(), Lock { holder: holder.clone(), count, ends, stamp });
        Grant { key: ticket.key.clone(), holder, token: ticket.fenced.then_some(stamp), stamp }
    }

    /// Whoever is first and there gets it, if it is free; and who has it already need not wait.
    fn serve(&mut self, key: &str) {
        loop {
            let Some(queue) = self.queues.get(key) else { return };
            let can = |it: &&Ticket| {
                let has = self.locks.get(key).is_none_or(|lock| lock.holder == it.holder);
                has && self.sessions.get(&it.session).is_some_and(|session| session.is_attended(self.now))
            };
            let Some(ticket) = queue.iter().find(can).cloned() else { return };
            self.leaves(&ticket.session, ticket.number);
            let grant = self.grants(&ticket);
            self.tells(&ticket.session, ticket.number, Some(grant));
        }
    }

    fn leaves(&mut self, session: &str, number: u64) -> bool {
        let before: usize = self.queues.values().map(Vec::len).sum();
        self.queues.values_mut().for_each(|queue| queue.retain(|it| !it.is(session, number)));
        self.queues.retain(|_, queue| !queue.is_empty());
        self.queues.values().map(Vec::len).sum::<usize>() < before
    }

    fn tells(&mut self, name: &str, ticket: u64, grant: Option<Grant>) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.last += 1;
        session.events.push(Told { seq: session.last, ticket, grant, sent: None });
        self.flush(name);
    }

    /// Sends what was not sent on this connection.
    fn flush(&mut self, name: &str) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        let here = session.connection;
        if session.calls.is_empty() || session.events.iter().all(|it| it.sent == here) {
            return;
        }
        let mut events = Vec::new();
        for event in session.events.iter_mut().filter(|it| it.sent != here) {
            event.sent = here;
            events.push(event.clone());
        }
        self.answers_call(name, events);
    }

    fn answers_call(&mut self, name: &str, events: Vec<Told>) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        let (Some((began, _)), Some(to)) = (session.calls.pop_front(), session.connection) else { return };
        session.answered_at = self.now;
        let mut answer = format!("*{}\r\n", events.len());
        for Told { seq, ticket, grant, .. } in events {
            let ticket = ticket.to_string();
            let head = format!(":{seq}\r\n${}\r\n{ticket}\r\n", ticket.len());
            answer += &match grant {
                Some(grant) => {
                    let lock = self.locks.get(&grant.key).filter(|lock| lock.holder == grant.holder);
                    let ends_in = lock.map_or(0, |lock| (lock.ends - began).as_millis());
                    let token = grant.token.map_or_else(|| "$-1\r\n".into(), |token| format!(":{token}\r\n"));
                    format!("*5\r\n{head}$7\r\ngranted\r\n{token}:{ends_in}\r\n")
                }
                None => format!("*4\r\n{head}$7\r\ntimeout\r\n:1\r\n"),
            };
        }
        self.says(to, answer);
    }

    fn events(&mut self, from: Connection, name: &str, ack: Option<u64>, waits: bool, ttl: Duration) {
        let now = self.now;
        if ack.is_some() && !self.sessions.contains_key(name) {
            return self.says(from, "-NOSESSION no such session\r\n");
        }
        let new = || Session {
            ttl,
            alive_at: now,
            answered_at: now,
            connection: Some(from),
            calls: VecDeque::new(),
            events: Vec::new(),
            last: 0,
        };
        self.sessions.entry(name.to_owned()).or_insert_with(new);
        // What waited on a former connection is answered.
        while self.sessions.get(name).is_some_and(|it| it.connection != Some(from) && !it.calls.is_empty()) {
            self.answers_call(name, Vec::new());
        }
        let Some(session) = self.sessions.get_mut(name) else { return };
        (session.connection, session.alive_at, session.ttl) = (Some(from), now, ttl);
        session.events.retain(|event| ack.is_none_or(|ack| event.seq > ack));
        session.calls.push_back((now, waits));
        self.flush(name);
        // One that does not wait is answered now, and those before it.
        while self.sessions.get(name).is_some_and(|session| session.calls.iter().any(|(_, waits)| !waits)) {
            self.answers_call(name, Vec::new());
        }
        let keys: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, it)| it.iter().any(|it| it.session == name))
            .map(|it| it.0.clone())
            .collect();
        keys.iter().for_each(|key| self.serve(key));
    }

    fn cancels(&mut self, name: &str, ticket: u64) -> bool {
        if self.leaves(name, ticket) {
            return true;
        }
        let Some(session) = self.sessions.get_mut(name) else { return false };
        let Some(place) = session.events.iter().position(|it| it.ticket == ticket) else { return false };
        let event = session.events.remove(place);
        event.grant.into_iter().for_each(|grant| self.takes_back(&grant));
        true
    }

    /// If it is still as it was granted.
    fn takes_back(&mut self, grant: &Grant) {
        let Some(lock) = self.locks.get_mut(&grant.key) else { return };
        if lock.holder == grant.holder && lock.stamp == grant.stamp {
            lock.count -= 1;
            if lock.count == 0 {
                self.locks.remove(&grant.key);
                self.serve(&grant.key);
            }
        }
    }

    fn ends(&mut self, name: &str) {
        let Some(session) = self.sessions.remove(name) else { return };
        self.queues.values_mut().for_each(|queue| queue.retain(|it| it.session != name));
        self.queues.retain(|_, queue| !queue.is_empty());
        for event in session.events.into_iter().filter(|it| it.sent.is_none()) {
            event.grant.into_iter().for_each(|grant| self.takes_back(&grant));
        }
    }

    fn says(&mut self, to: Connection, answer: impl Into<String>) {
        self.answers.push((to, answer.into().into_bytes()));
    }
}

impl Ticket {
    fn is(&self, session: &str, number: u64) -> bool {
        self.session == session && self.number == number
    }
}

/// The commands in what was sent, which are sent whole.
pub fn commands(mut bytes: &[u8]) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let (command, rest) = resp::read(bytes).expect("a command").expect("a whole one");
        let Reply::List(words) = command else { panic!("a command is a list") };
        commands.push(words.iter().map(|word| word.text().expect("a word").to_owned()).collect());
        bytes = rest;
    }
    commands
}
