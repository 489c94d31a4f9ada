//! A server with the module, as naive as it can be: what the contract of the commands says of plain locks, permits,
//! several locks at once, waits by tickets, sessions and their events; and a replica, which has everything at once, or stands
//! still. It is asked with the bytes that the engine sends, and has a clock that a test moves. Who waits and can be granted
//! what he wants is passed over by nobody else for long: that is not what is tried here.

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
}

/// Who holds what: of a lock it is one, and of permits many.
pub type Locks = BTreeMap<Name, Vec<Lock>>;

#[derive(Clone, Debug)]
pub struct Ticket {
    session: Name,
    number: u64,
    /// Of all that it wants at once.
    keys: Vec<Name>,
    holder: Name,
    lease: Duration,
    /// Of how many permits it wants one.
    permits: Option<usize>,
    fenced: bool,
    until: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Told {
    seq: u64,
    ticket: u64,
    outcome: Outcome,
    /// On which connection it was sent the last time.
    sent: Option<Connection>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Granted(Grant),
    TimedOut,
    /// Another request of its holder took its place.
    Replaced,
}

#[derive(Clone, Debug)]
struct Grant {
    holder: Name,
    fenced: bool,
    /// Each with its token.
    keys: Vec<(Name, u64)>,
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
    pub locks: Locks,
    /// Who waits, for whatever.
    pub queue: Vec<Ticket>,
    /// What its replica has that stands still.
    stale: Option<Locks>,
    /// Who waits for its word, and until when.
    waits: Vec<(Connection, Duration)>,
    sessions: BTreeMap<Name, Session>,
    /// Answers instead of what is asked for, as a server does that is loading or full.
    pub refuses: Option<&'static str>,
    pub deeds: Deeds,
    tokens: u64,
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
        self.locks.get(key).is_some_and(|locks| locks.iter().any(|lock| lock.holder == holder))
    }

    fn held(&mut self, key: &str, holder: &str) -> Option<&mut Lock> {
        self.locks.get_mut(key)?.iter_mut().find(|lock| lock.holder == holder)
    }

    fn frees(&mut self, key: &str, is_over: impl Fn(&Lock) -> bool) {
        if let Some(locks) = self.locks.get_mut(key) {
            locks.retain(|lock| !is_over(lock));
        }
        self.locks.retain(|_, locks| !locks.is_empty());
    }

    /// Whether its replica, as the next master, would know it.
    pub fn is_known_to_replica(&self, key: &str, holder: &str) -> bool {
        let known = self.stale.as_ref().unwrap_or(&self.locks).get(key);
        known.is_some_and(|locks| locks.iter().any(|lock| lock.holder == holder && lock.ends > self.now))
    }

    pub fn locks_of_replica(&self) -> Locks {
        self.stale.as_ref().unwrap_or(&self.locks).clone()
    }

    pub fn replica_stands_still(&mut self) {
        self.stale.get_or_insert_with(|| self.locks.clone());
    }

    pub fn replica_goes_on(&mut self) {
        self.stale = None;
        for (connection, _) in std::mem::take(&mut self.waits) {
            self.says(connection, ":1\r\n");
        }
    }

    /// What it has, but for the names of sessions.
    pub fn seen(&self) -> String {
        let left = |at: Duration| at.saturating_sub(self.now);
        let all = self.locks.iter().flat_map(|(key, locks)| locks.iter().map(move |lock| (key, lock)));
        let locks: Vec<_> = all.map(|(key, lock)| (key, &lock.holder, lock.count, left(lock.ends))).collect();
        let queue: Vec<_> = self.queue.iter().map(|it| (&it.keys, &it.holder, it.until.map(left))).collect();
        let sessions: Vec<_> = self
            .sessions
            .values()
            .map(|it| (left(it.alive_at + it.ttl), it.connection, &it.calls, &it.events))
            .collect();
        format!("{locks:?} {queue:?} {sessions:?}")
    }

    /// When something happens by itself.
    pub fn next(&self) -> Option<Duration> {
        let locks = self.locks.values().flatten().map(|lock| lock.ends);
        let tickets = self.queue.iter().filter_map(|ticket| ticket.until);
        let sessions = self.sessions.values().map(|session| match session.calls.front() {
            Some((began, _)) => *began + session.ttl / 3,
            None => session.alive_at + session.ttl,
        });
        let waits = self.waits.iter().map(|(_, until)| *until);
        locks.chain(tickets).chain(sessions).chain(waits).min()
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
        let has_ended = |lock: &Lock| lock.ends <= now;
        let ended: Vec<_> =
            self.locks.iter().filter(|(_, locks)| locks.iter().any(has_ended)).map(|it| it.0.clone()).collect();
        for key in ended {
            self.frees(&key, has_ended);
            self.serve(&key);
        }
        let (over, waits) = std::mem::take(&mut self.waits).into_iter().partition(|(_, until)| *until <= now);
        self.waits = waits;
        for (connection, _) in over {
            self.says(connection, ":0\r\n");
        }
        let is_over = |ticket: &Ticket| ticket.until.is_some_and(|until| until <= now);
        let late: Vec<_> = self.queue.iter().filter(|it| is_over(it)).cloned().collect();
        self.queue.retain(|it| !is_over(it));
        for ticket in late {
            self.tells(&ticket.session, ticket.number, Outcome::TimedOut);
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
        let locks = self.locks.remove(key).unwrap_or_default();
        self.deeds.forced.extend(locks.into_iter().map(|lock| (key.to_owned(), lock.holder)));
        self.serve(key);
    }

    /// It starts again, and knows nothing.
    pub fn restarts(&mut self) {
        let locks = std::mem::take(&mut self.locks);
        let all = locks.into_iter().flat_map(|(key, locks)| locks.into_iter().map(move |it| (key.clone(), it.holder)));
        self.deeds.forced.extend(all);
        self.queue.clear();
        self.sessions.clear();
        self.waits.clear();
        self.stale = None;
        self.answers.clear();
    }

    /// What a replica knows of it that has everything.
    pub fn takes_over(&mut self, locks: Locks) {
        self.restarts();
        self.locks = locks;
    }

    pub fn hangs_up(&mut self, connection: Connection) {
        self.waits.retain(|(waits, _)| *waits != connection);
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
        assert!(self.waits.iter().all(|it| it.0 != connection), "it stands behind a WAIT: {command:?}");
        let option = |name: &str| {
            let place = command.iter().position(|word| *word == name)?;
            command.get(place + 1).map(|word| word.parse::<u64>().expect("a number"))
        };
        let (keys, more): (Vec<_>, _) = match command[..] {
            ["RLOCK.MACQUIRE", count, ref more @ ..] => {
                let (keys, more) = more.split_at(count.parse().expect("a number"));
                (keys.iter().map(|key| (*key).to_owned()).collect(), more)
            }
            [_, key, ref more @ ..] => (vec![key.to_owned()], more),
            _ => (Vec::new(), &[][..]),
        };
        match command[..] {
            ["RLOCK.ACQUIRE" | "RLOCK.PACQUIRE" | "RLOCK.MACQUIRE", ..] => {
                let &[holder, lease, ..] = more else { panic!("it lacks a holder or a lease: {command:?}") };
                let lease = MS * lease.parse().expect("a lease");
                let session = command.iter().position(|word| *word == "SESSION");
                let until = option("WAIT").filter(|ms| *ms > 0).map(|ms| self.now + Duration::from_millis(ms));
                let ticket = Ticket {
                    session: session.map_or_else(String::new, |place| command[place + 1].to_owned()),
                    number: session.map_or(0, |place| command[place + 2].parse().expect("a ticket")),
                    keys,
                    holder: holder.to_owned(),
                    lease,
                    permits: option("LIMIT").map(|limit| usize::try_from(limit).expect("few")),
                    fenced: command.contains(&"FENCED"),
                    until,
                };
                self.acquire(connection, ticket);
            }
            ["RLOCK.RELEASE", key, holder, ref more @ ..] => {
                let (key, holder) = (key.to_owned(), holder.to_owned());
                let answer = match self.held(&key, &holder) {
                    None => "$-1\r\n",
                    Some(lock) => {
                        lock.count -= 1;
                        let is_last = lock.count == 0 || more.contains(&"ALL");
                        if is_last {
                            self.frees(&key, |lock| lock.holder == holder);
                        }
                        *self.deeds.given_back.entry((key.clone(), holder)).or_default() += 1;
                        if is_last { ":1\r\n" } else { ":0\r\n" }
                    }
                };
                self.says(connection, answer);
                self.serve(&key);
            }
            ["RLOCK.RENEW", key, holder, lease] => {
                let ends = self.now + MS * lease.parse().expect("a lease");
                let lock = self.held(key, holder);
                let answer = if lock.is_some() { ":1\r\n" } else { ":0\r\n" };
                if let Some(lock) = lock {
                    lock.ends = ends;
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
                let cancelled: String =
                    tickets.iter().map(|ticket| format!(":{}\r\n", self.cancels(session, *ticket))).collect();
                self.says(connection, format!("*{}\r\n{cancelled}", tickets.len()));
            }
            ["WAIT", wanted, ms] => {
                assert_eq!(wanted, "1", "there is one replica");
                match self.stale {
                    None => self.says(connection, ":1\r\n"),
                    Some(_) => self.waits.push((connection, self.now + MS * ms.parse().expect("a time"))),
                }
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
        let is_queued = self.queue.iter().any(|it| it.is(&ticket.session, ticket.number));
        if waits && (is_told || is_queued) {
            return self.says(connection, "+WAITING\r\n");
        }
        if self.is_free_for(&ticket) {
            let tokens = self.grants(&ticket).tokens();
            let answer = if ticket.fenced { format!("*2\r\n$-1\r\n{tokens}") } else { tokens };
            self.says(connection, answer);
        } else if waits {
            let former = self.queue.iter_mut().find(|it| it.holder == ticket.holder && it.keys == ticket.keys);
            match former {
                Some(former) => {
                    let former = std::mem::replace(former, ticket);
                    self.tells(&former.session, former.number, Outcome::Replaced);
                }
                None => {
                    self.deeds.queued.push((ticket.keys.join("+"), ticket.holder.clone()));
                    self.queue.push(ticket);
                }
            }
            self.says(connection, "+WAITING\r\n");
        } else {
            self.says(connection, if ticket.fenced { "*2\r\n:1\r\n$-1\r\n" } else { ":1\r\n" });
        }
    }

    fn is_free_for(&self, ticket: &Ticket) -> bool {
        ticket.keys.iter().all(|key| {
            let holders = self.locks.get(key).map_or(0, Vec::len);
            holders < ticket.permits.unwrap_or(1) || self.is_held_by(key, &ticket.holder)
        })
    }

    fn grants(&mut self, ticket: &Ticket) -> Grant {
        let (ends, holder, mut keys) = (self.now + ticket.lease, &ticket.holder, Vec::new());
        for key in &ticket.keys {
            self.tokens += 1;
            keys.push((key.clone(), token_of(key, self.tokens)));
            match self.held(key, holder) {
                Some(lock) => {
                    lock.count += u64::from(ticket.permits.is_none());
                    lock.ends = ends;
                }
                None => {
                    let lock = Lock { holder: holder.clone(), count: 1, ends };
                    self.locks.entry(key.clone()).or_default().push(lock);
                }
            }
        }
        Grant { holder: holder.clone(), fenced: ticket.fenced, keys }
    }

    /// Whoever is first and there gets it, if it is free; and who has it already need not wait.
    fn serve(&mut self, key: &str) {
        loop {
            let can = |it: &&Ticket| {
                let is_there = self.sessions.get(&it.session).is_some_and(|session| session.is_attended(self.now));
                it.keys.iter().any(|it| it == key) && is_there && self.is_free_for(it)
            };
            let Some(ticket) = self.queue.iter().find(can).cloned() else { return };
            self.leaves(&ticket.session, ticket.number);
            let grant = self.grants(&ticket);
            self.tells(&ticket.session, ticket.number, Outcome::Granted(grant));
        }
    }

    fn leaves(&mut self, session: &str, number: u64) -> bool {
        let before = self.queue.len();
        self.queue.retain(|it| !it.is(session, number));
        self.queue.len() < before
    }

    fn tells(&mut self, name: &str, ticket: u64, outcome: Outcome) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.last += 1;
        session.events.push(Told { seq: session.last, ticket, outcome, sent: None });
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
        for Told { seq, ticket, outcome, .. } in events {
            let ticket = ticket.to_string();
            let head = format!(":{seq}\r\n${}\r\n{ticket}\r\n", ticket.len());
            answer += &match outcome {
                Outcome::Granted(grant) => {
                    let ends_in = |key: &Name| {
                        let lock = self.held(key, &grant.holder).map(|lock| lock.ends);
                        lock.map_or(0, |ends| (ends - began).as_millis())
                    };
                    let ends_in = grant.keys.iter().map(|it| &it.0).map(ends_in).min().unwrap_or(0);
                    format!("*5\r\n{head}$7\r\ngranted\r\n{}:{ends_in}\r\n", grant.tokens())
                }
                Outcome::TimedOut => format!("*4\r\n{head}$7\r\ntimeout\r\n:1\r\n"),
                Outcome::Replaced => {
                    let line = "UNBLOCKED another request of this holder took its place";
                    format!("*4\r\n{head}$5\r\nerror\r\n${}\r\n{line}\r\n", line.len())
                }
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
        let mut keys: Vec<_> =
            self.queue.iter().filter(|it| it.session == name).flat_map(|it| it.keys.clone()).collect();
        keys.sort();
        keys.iter().for_each(|key| self.serve(key));
    }

    /// 0: there is none. 1: it waits no more. 2: it was granted, and whoever holds the lock releases it.
    fn cancels(&mut self, name: &str, ticket: u64) -> u8 {
        if self.leaves(name, ticket) {
            return 1;
        }
        let Some(session) = self.sessions.get_mut(name) else { return 0 };
        let Some(place) = session.events.iter().position(|it| it.ticket == ticket) else { return 0 };
        if matches!(session.events.remove(place).outcome, Outcome::Granted(_)) { 2 } else { 1 }
    }

    fn ends(&mut self, name: &str) {
        self.sessions.remove(name);
        self.queue.retain(|it| it.session != name);
    }

    fn says(&mut self, to: Connection, answer: impl Into<String>) {
        self.answers.push((to, answer.into().into_bytes()));
    }
}

impl Grant {
    /// As they are told.
    fn tokens(&self) -> String {
        match &self.keys[..] {
            _ if !self.fenced => "$-1\r\n".to_owned(),
            [(_, token)] => format!(":{token}\r\n"),
            several => {
                let tokens: String = several.iter().map(|(_, token)| format!(":{token}\r\n")).collect();
                format!("*{}\r\n{tokens}", several.len())
            }
        }
    }
}

/// The fencing token of a key. Which key's it is can be seen.
pub fn token_of(key: &str, number: u64) -> u64 {
    number * 1_000 + u64::from(key.as_bytes()[0])
}

impl Ticket {
    fn is(&self, session: &str, number: u64) -> bool {
        self.session == session && self.number == number
    }
}

/// The commands in what was sent, which are sent whole.
pub fn commands(bytes: &[u8]) -> Vec<Vec<String>> {
    let (mut reader, mut commands) = (resp::Reader::default(), Vec::new());
    reader.add(bytes);
    while !reader.unread().is_empty() {
        let command = reader.next_reply().expect("a command").expect("a whole one");
        let Reply::List(words) = command else { panic!("a command is a list") };
        commands.push(words.iter().map(|word| word.text().expect("a word").to_owned()).collect());
    }
    commands
}
