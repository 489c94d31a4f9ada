//! What the server knows: the engine on its keyspace in memory, and the clients that are connected. One thread has all of it.
//!
//! After each command, and whenever the engine wants to be woken, all that follows is done at once: keys end, waiters are
//! granted their locks, and their clients get their replies.

use super::resp::Replies;
use super::settings::Settings;
use super::users::Users;
use super::{clients, keys, locks};
use rlock_core::waiting::{Answer, Engine, Note, WaitsFor};
use rlock_sim::{Answered, Client, Clocks, Memory};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

pub struct Shared {
    pub state: RefCell<State>,
    /// The time at which the engine is to be woken may have changed.
    pub is_changed: Notify,
}

pub struct State {
    pub engine: Engine<Client>,
    pub host: Memory,
    pub connections: BTreeMap<u64, Connection>,
    pub settings: Settings,
    pub users: Users,
    pub calls: BTreeMap<String, u64>,
    pub port: u16,
    pub began: Instant,
    last_id: u64,
}

pub struct Connection {
    pub address: String,
    pub local: String,
    pub name: Vec<u8>,
    pub library: [Vec<u8>; 2],
    /// None as long as it has to log in.
    pub user: Option<Vec<u8>>,
    pub database: i32,
    pub since: Instant,
    pub last_command: String,
    pub channels: BTreeSet<Vec<u8>>,
    pub patterns: BTreeSet<Vec<u8>>,
    replies: Replies,
    /// Since when it waits.
    blocked: Option<Instant>,
    closes: bool,
    news: Rc<Notify>,
}

/// What follows a command on the same connection.
pub enum Next {
    GoesOn,
    Closes,
    /// This reply, after so many ms.
    AfterMs(u64, Vec<u8>),
}

/// What a command comes to.
pub enum Done {
    Replied,
    /// The reply comes later, from the engine.
    Waits,
    Closes,
    AfterMs(u64),
}

impl Shared {
    /// Changes the state, and does all that follows.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        state.set_clocks();
        let result = change(&mut state);
        state.follow_up();
        self.is_changed.notify_one();
        result
    }

    /// Wakes the engine whenever it wants to be.
    pub async fn wake_in_time(&self) {
        loop {
            let wakes_in = self.state.borrow().wakes_in();
            tokio::select! {
                () = sleep_for(wakes_in) => self.change(|_| ()),
                () = self.is_changed.notified() => {}
            }
        }
    }
}

async fn sleep_for(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

impl State {
    pub fn new(settings: Settings, users: Users, port: u16) -> Self {
        let (engine, connections, calls) = Default::default();
        let host = Memory::default();
        host.has_user.replace(Some(users.are_there()));
        Self { engine, host, connections, settings, users, calls, port, began: Instant::now(), last_id: 0 }
    }

    pub fn open(&mut self, address: String, local: String) -> (u64, Rc<Notify>) {
        self.last_id += 1;
        let news = Rc::new(Notify::new());
        let connection = Connection {
            address,
            local,
            name: Vec::new(),
            library: Default::default(),
            user: self.users.user_without_login(),
            database: 0,
            since: Instant::now(),
            last_command: String::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            replies: Replies::default(),
            blocked: None,
            closes: false,
            news: Rc::clone(&news),
        };
        self.connections.insert(self.last_id, connection);
        (self.last_id, news)
    }

    /// The connection is gone, and with it what it waits for.
    pub fn close(&mut self, id: u64) {
        if self.connections.remove(&id).is_none() {
            return;
        }
        let waits_for = self.host.waits.borrow_mut().remove(&id);
        if let Some(waits_for) = waits_for {
            drop(self.engine.stop_waiting(waits_for, self.now(), |client| client.id == id));
        }
        self.engine.note(Note::Disconnected(id));
    }

    /// What is to be sent to a client, and whether it is to be cut off then. None for one that is gone.
    pub fn take_replies(&mut self, id: u64) -> Option<(Vec<u8>, bool)> {
        let connection = self.connections.get_mut(&id)?;
        Some((std::mem::take(&mut connection.replies.bytes), connection.closes))
    }

    pub fn is_blocked(&self, id: u64) -> bool {
        self.connections.get(&id).is_none_or(|connection| connection.blocked.is_some() || connection.closes)
    }

    pub fn reply(&mut self, id: u64, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.replies.bytes.extend_from_slice(bytes);
        }
    }

    /// Runs one command of a client.
    pub fn run(&mut self, id: u64, words: &[Vec<u8>]) -> Next {
        let Some(connection) = self.connections.get_mut(&id) else { return Next::Closes };
        let [name, ..] = words else { return Next::GoesOn };
        let name = String::from_utf8_lossy(name).to_uppercase();
        connection.last_command = name.to_lowercase();
        *self.calls.entry(name.to_lowercase()).or_default() += 1;
        self.host.use_database(connection.database);
        self.host.caller.set(id);
        let mut replies = connection.replies.in_the_same_version();
        let done = if let Err(line) = self.users.check(connection.user.as_deref(), &name) {
            replies.error(line.as_bytes());
            Some(Done::Replied)
        } else {
            clients::run(self, id, &name, words, &mut replies)
                .or_else(|| keys::run(self, &name, words, &mut replies))
                .or_else(|| locks::run(self, id, words, &mut replies))
        };
        let done = done.unwrap_or_else(|| {
            let name: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
            let line = format!(
                "ERR rlock dev does not know {name}: it is a server for tests of locks, and keeps nothing else"
            );
            replies.error(line.as_bytes());
            Done::Replied
        });
        let Some(connection) = self.connections.get_mut(&id) else { return Next::Closes };
        connection.replies.is_3 = replies.is_3;
        match done {
            Done::AfterMs(ms) => return Next::AfterMs(ms, replies.bytes),
            Done::Waits => connection.blocked = Some(Instant::now()),
            Done::Replied | Done::Closes => {}
        }
        connection.replies.bytes.append(&mut replies.bytes);
        if matches!(done, Done::Closes) { Next::Closes } else { Next::GoesOn }
    }

    pub fn now(&self) -> i64 {
        self.host.keyspace.borrow().now()
    }

    pub fn set_clocks(&mut self) {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let us = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        let steady = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.host.keyspace.borrow_mut().set_now(us / 1_000);
        self.host.steady_ms.set(steady);
        let tokens_us = self.settings.tokens_go_by_clock.then_some(us);
        self.host.clocks.set(Clocks { tokens_us, any_are_many: false });
        self.host.begin_turn();
        self.host.end_keys();
    }

    /// When the engine is to be woken.
    fn wakes_in(&self) -> Option<Duration> {
        let at = self.engine.wakes_next_at(&self.host)?;
        Some(Duration::from_millis(u64::try_from(at.saturating_sub(self.now())).unwrap_or(0)))
    }

    /// Does what is due, and sends every reply that follows from it.
    fn follow_up(&mut self) {
        self.engine.read_notes(&self.host);
        self.tell_all();
        if self.wakes_in().is_some_and(|time| time.is_zero()) {
            self.engine.catch_up(&self.host);
            self.tell_all();
        }
    }

    fn tell_all(&mut self) {
        while let Some(answered) = self.host.take_answered() {
            self.tell(answered);
        }
        loop {
            let Some((channel, message)) = self.host.published.borrow_mut().pop_front() else { return };
            self.publish(&channel, &message);
        }
    }

    /// Gives a client that was blocked its reply.
    fn tell(&mut self, Answered { client: id, waited_for, answer }: Answered) {
        // A closed connection has left its wait already.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let waited_since = connection.blocked.take();
        let mut replies = connection.replies.in_the_same_version();
        connection.news.notify_one();
        if let (Some(WaitsFor::Lock(ticket)), Some(answer)) = (waited_for, &answer) {
            if locks::is_grant(answer) {
                self.engine.note(Note::Delivered(ticket));
            }
        }
        match (answer, waited_for) {
            (Some(Answer::Events), Some(WaitsFor::Events(session))) => {
                locks::tell_events(self, id, session, waited_since, &mut replies);
            }
            (answer, _) => locks::tell(answer, &mut replies),
        }
        self.reply(id, &replies.bytes);
    }

    /// Ends a wait by CLIENT UNBLOCK. Returns whether the client waited.
    pub fn unblock(&mut self, id: u64, with_error: bool) -> bool {
        let waits_for = self.host.waits.borrow_mut().remove(&id);
        let (Some(waits_for), Some(connection)) = (waits_for, self.connections.get_mut(&id)) else { return false };
        let waited_since = connection.blocked.take();
        let mut replies = connection.replies.in_the_same_version();
        connection.news.notify_one();
        if with_error {
            replies.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else {
            locks::tell_unblocked(self, id, waits_for, waited_since, &mut replies);
        }
        let now = self.now();
        if let Some(client) = self.engine.stop_waiting(waits_for, now, |client| client.id == id) {
            client.forget();
        }
        self.reply(id, &replies.bytes);
        true
    }

    /// Closes a client's connection from the server's side. `by`: the client that asks for it, which is answered first.
    pub fn cut_off(&mut self, id: u64, by: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closes = true;
            connection.news.notify_one();
        }
        if id != by {
            self.close(id);
        }
    }

    /// Sends a message to all that listen, and returns how many these are.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let mut told = 0;
        for connection in self.connections.values_mut() {
            if connection.channels.contains(channel) {
                connection.replies.push(3).bulk("message").bulk(channel).bulk(message);
                told += 1;
            }
            let patterns: Vec<_> =
                connection.patterns.iter().filter(|pattern| keys::matches(pattern, channel)).cloned().collect();
            for pattern in patterns {
                connection.replies.push(4).bulk("pmessage").bulk(pattern).bulk(channel).bulk(message);
                told += 1;
            }
            if !connection.replies.bytes.is_empty() {
                connection.news.notify_one();
            }
        }
        told
    }
}

impl Connection {
    pub fn resp(&self) -> u8 {
        if self.replies.is_3 { 3 } else { 2 }
    }

    pub fn is_waiting(&self) -> bool {
        self.blocked.is_some()
    }
}
