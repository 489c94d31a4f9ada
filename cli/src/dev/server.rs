//! The server's state: the node with its locks, and the connected clients. Only one thread uses it.

use super::users::Users;
use super::{clients, keys};
use rlock_sim::Node;
use rlock_sim::resp::Replies;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

pub struct Shared {
    pub state: RefCell<State>,
    /// The time of the engine's next step may have changed.
    pub is_changed: Notify,
}

pub struct State {
    pub node: Node,
    pub connections: BTreeMap<u64, Connection>,
    pub users: Users,
    pub calls: BTreeMap<String, u64>,
    pub port: u16,
    pub began: Instant,
    last_id: u64,
}

pub struct Connection {
    pub local: String,
    pub name: Vec<u8>,
    pub library: [Vec<u8>; 2],
    pub since: Instant,
    pub last_command: String,
    pub channels: BTreeSet<Vec<u8>>,
    pub patterns: BTreeSet<Vec<u8>>,
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

/// The outcome of a command.
pub enum Done {
    Replied,
    Closes,
    AfterMs(u64),
}

impl Shared {
    /// Changes the state, and executes the consequences.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        state.set_clocks();
        let result = change(&mut state);
        state.follow_up();
        self.is_changed.notify_one();
        result
    }

    /// Wakes the engine when it is due.
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
    pub fn new(users: Users) -> Self {
        let node = Node::with_users(users.are_there());
        let (connections, calls) = Default::default();
        Self { node, connections, users, calls, port: 0, began: Instant::now(), last_id: 0 }
    }

    pub fn open(&mut self, address: String, local: String) -> (u64, Rc<Notify>) {
        self.last_id += 1;
        let news = Rc::new(Notify::new());
        self.node.open(self.last_id, address, self.users.user_without_login());
        let connection = Connection {
            local,
            name: Vec::new(),
            library: Default::default(),
            since: Instant::now(),
            last_command: String::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            closes: false,
            news: Rc::clone(&news),
        };
        self.connections.insert(self.last_id, connection);
        (self.last_id, news)
    }

    /// Removes the connection and what it waits for.
    pub fn close(&mut self, id: u64) {
        self.connections.remove(&id);
        self.node.close(id);
    }

    /// What to send to a client, and whether to disconnect it afterwards. `None` if the client is gone.
    pub fn take_replies(&mut self, id: u64) -> Option<(Vec<u8>, bool)> {
        let closes = self.connections.get(&id)?.closes;
        Some((std::mem::take(&mut self.node.clients.get_mut(&id)?.replies.bytes), closes))
    }

    pub fn is_blocked(&self, id: u64) -> bool {
        let closes = self.connections.get(&id).is_none_or(|connection| connection.closes);
        closes || self.node.clients.get(&id).is_none_or(rlock_sim::Connection::is_waiting)
    }

    pub fn reply(&mut self, id: u64, bytes: &[u8]) {
        if let Some(connection) = self.node.clients.get_mut(&id) {
            connection.replies.bytes.extend_from_slice(bytes);
        }
    }

    /// Runs one command of a client.
    pub fn run(&mut self, id: u64, words: &[Vec<u8>]) -> Next {
        let (Some(connection), Some(client)) = (self.connections.get_mut(&id), self.node.clients.get(&id)) else {
            return Next::Closes;
        };
        let [name, ..] = words else { return Next::GoesOn };
        let name = String::from_utf8_lossy(name).to_uppercase();
        connection.last_command = name.to_lowercase();
        *self.calls.entry(name.to_lowercase()).or_default() += 1;
        let mut replies = client.replies.in_the_same_version();
        let may = self.users.check(client.user.as_deref(), &name);
        self.node.begin(id);
        let done = match may {
            Ok(()) => self.carry_out(id, &name, words, &mut replies),
            Err(line) => {
                replies.error(line.as_bytes());
                Done::Replied
            }
        };
        let Some(client) = self.node.clients.get_mut(&id) else { return Next::Closes };
        client.replies.is_3 = replies.is_3;
        if let Done::AfterMs(ms) = done {
            return Next::AfterMs(ms, replies.bytes);
        }
        client.replies.bytes.append(&mut replies.bytes);
        if matches!(done, Done::Closes) { Next::Closes } else { Next::GoesOn }
    }

    fn carry_out(&mut self, id: u64, name: &str, words: &[Vec<u8>], replies: &mut Replies) -> Done {
        let done = clients::run(self, id, name, words, replies);
        if let Some(done) = done.or_else(|| keys::run(&mut self.node, name, words, replies)) {
            return done;
        }
        if self.node.run(id, words, replies).is_none() {
            let name: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
            let line = format!(
                "ERR rlock dev does not know {name}: it is a server for tests of locks, and keeps nothing else"
            );
            replies.error(line.as_bytes());
        }
        Done::Replied
    }

    fn set_clocks(&mut self) {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let us = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        let steady = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.node.set_clocks(us, steady);
    }

    /// The time to the engine's next step.
    fn wakes_in(&self) -> Option<Duration> {
        let at = self.node.wakes_at()?;
        Some(Duration::from_millis(u64::try_from(at.saturating_sub(self.node.now())).unwrap_or(0)))
    }

    /// Does what is due, and sends every reply and message that follows from it.
    fn follow_up(&mut self) {
        self.node.follow_up();
        for id in self.node.take_answered() {
            self.connections.get(&id).into_iter().for_each(|connection| connection.news.notify_one());
        }
        let published = std::mem::take(&mut *self.node.host.published.borrow_mut());
        for (channel, message) in published {
            self.publish(&channel, &message);
        }
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

    /// Sends a message to all subscribers, and returns their number.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let mut receivers = 0;
        for (id, connection) in &self.connections {
            let Some(client) = self.node.clients.get_mut(id) else { continue };
            if connection.channels.contains(channel) {
                client.replies.push(3).bulk("message").bulk(channel).bulk(message);
                receivers += 1;
            }
            for pattern in connection.patterns.iter().filter(|pattern| keys::matches(pattern, channel)) {
                client.replies.push(4).bulk("pmessage").bulk(pattern).bulk(channel).bulk(message);
                receivers += 1;
            }
            if !client.replies.bytes.is_empty() {
                connection.news.notify_one();
            }
        }
        receivers
    }
}
