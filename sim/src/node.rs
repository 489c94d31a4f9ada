//! A server that knows locks and the few commands around them: words go in, replies come out.
//!
//! It has no socket and no clock. Its owner sets the time, passes each client's commands, collects the replies, and
//! wakes the node when [`Node::wakes_at`] says so. After each command, [`Node::follow_up`] does everything that follows
//! at once: keys end, waiters are granted their locks, and their clients get their replies.

mod commands;

use crate::host::{Answered, Client, HasUser, Memory};
use crate::plain::Plain;
use crate::record::Clocks;
use crate::resp::Replies;
use rlock_core::lock::UnixMs;
use rlock_core::waiting::{Answer, Cause, Engine, Host, Note, WaitsFor};
use std::collections::BTreeMap;

pub struct Node {
    pub engine: Engine<Client>,
    pub host: Memory,
    pub clients: BTreeMap<u64, Connection>,
    /// Whether a fencing token is at least the time in µs, as in the module by default.
    pub tokens_go_by_clock: bool,
    /// Clients that got a reply to a command which waited.
    answered: Vec<u64>,
}

/// A client's connection, as far as locks need it.
pub struct Connection {
    pub address: String,
    /// None until the client has logged in.
    pub user: Option<Vec<u8>>,
    pub database: i32,
    pub replies: Replies,
    /// When the waiting command was called, by the steady clock.
    waits_since: Option<i64>,
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Replied,
    /// The reply comes later, from the engine.
    Waits,
}

impl Connection {
    pub fn is_waiting(&self) -> bool {
        self.waits_since.is_some()
    }
}

impl Default for Node {
    fn default() -> Self {
        let (engine, host, clients, answered) = Default::default();
        Self { engine, host, clients, tokens_go_by_clock: true, answered }
    }
}

impl Node {
    /// Whether a user exists decides how long its sessions live.
    pub fn with_users(has_user: HasUser) -> Self {
        let node = Self::default();
        node.host.has_user.replace(Some(has_user));
        node
    }

    pub fn open(&mut self, id: u64, address: String, user: Option<Vec<u8>>) {
        let connection = Connection { address, user, database: 0, replies: Replies::default(), waits_since: None };
        self.clients.insert(id, connection);
    }

    /// Closes a connection, and ends its wait.
    pub fn close(&mut self, id: u64) {
        if self.clients.remove(&id).is_none() {
            return;
        }
        let waits_for = self.host.waits.borrow_mut().remove(&id);
        if let Some(waits_for) = waits_for {
            drop(self.engine.stop_waiting(waits_for, self.now(), |client| client.id == id));
        }
        self.engine.note(Note::Disconnected(id));
    }

    pub fn now(&self) -> UnixMs {
        self.host.keyspace.borrow().now()
    }

    /// `steady_ms`: a clock that is never set.
    pub fn set_clocks(&mut self, unix_us: i64, steady_ms: i64) {
        self.host.keyspace.borrow_mut().set_now(unix_us / 1_000);
        self.host.steady_ms.set(steady_ms);
        let tokens_us = self.tokens_go_by_clock.then_some(unix_us);
        self.host.clocks.set(Clocks { tokens_us, any_are_many: false });
        self.host.begin_turn();
        self.host.end_keys();
    }

    /// When the engine next has something to do without a command.
    pub fn wakes_at(&self) -> Option<UnixMs> {
        self.engine.wakes_next_at(&self.host)
    }

    /// From here on, this client's command is the one under way.
    pub fn begin(&mut self, id: u64) {
        let database = self.clients.get(&id).map_or(0, |connection| connection.database);
        self.host.use_database(database);
        self.host.caller.set(id);
    }

    /// Runs a command of rlock, and appends the reply to `replies`. None: another command, which is not run.
    pub fn run(&mut self, id: u64, words: &[Vec<u8>], replies: &mut Replies) -> Option<Done> {
        let done = commands::run(self, id, words, replies)?;
        if done == Done::Waits {
            let steady_ms = self.host.steady_ms.get();
            self.clients.get_mut(&id).into_iter().for_each(|client| client.waits_since = Some(steady_ms));
        }
        Some(done)
    }

    /// Does what is due, and replies to the clients that it concerns.
    pub fn follow_up(&mut self) {
        self.engine.read_notes(&self.host);
        self.answer_all();
        if self.wakes_at().is_some_and(|at| at <= self.now()) {
            self.engine.catch_up(&self.host);
            self.answer_all();
        }
    }

    /// Clients that have been replied to since the last call, by [`Node::follow_up`] or [`Node::unblock`].
    pub fn take_answered(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.answered)
    }

    fn answer_all(&mut self) {
        while let Some(answered) = self.host.take_answered() {
            self.answer(answered);
        }
    }

    fn answer(&mut self, Answered { client: id, waited_for, answer }: Answered) {
        // The wait of a closed connection has ended already.
        let Some((waited_since, mut replies)) = self.stops_waiting(id) else { return };
        if let (Some(WaitsFor::Lock(ticket)), Some(answer)) = (waited_for, &answer) {
            if commands::is_grant(answer) {
                self.engine.note(Note::Delivered(ticket));
            }
        }
        match (answer, waited_for) {
            (Some(Answer::Events), Some(WaitsFor::Events(session))) => {
                commands::reply_events(self, id, session, waited_since, &mut replies);
            }
            (answer, _) => commands::reply(answer, &mut replies),
        }
        self.append(id, &replies);
    }

    fn stops_waiting(&mut self, id: u64) -> Option<(Option<i64>, Replies)> {
        let connection = self.clients.get_mut(&id)?;
        self.answered.push(id);
        Some((connection.waits_since.take(), connection.replies.in_the_same_version()))
    }

    fn append(&mut self, id: u64, replies: &Replies) {
        if let Some(connection) = self.clients.get_mut(&id) {
            connection.replies.bytes.extend_from_slice(&replies.bytes);
        }
    }

    /// Ends a wait by CLIENT UNBLOCK. Returns whether the client waited.
    pub fn unblock(&mut self, id: u64, with_error: bool) -> bool {
        let waits_for = self.host.waits.borrow_mut().remove(&id);
        let Some(waits_for) = waits_for else { return false };
        let Some((waited_since, mut replies)) = self.stops_waiting(id) else { return false };
        if with_error {
            replies.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else {
            commands::reply_unblocked(self, id, waits_for, waited_since, &mut replies);
        }
        if let Some(client) = self.engine.stop_waiting(waits_for, self.now(), |client| client.id == id) {
            client.forget();
        }
        self.append(id, &replies);
        true
    }

    /// Runs a plain command on a key, and notifies the engine: its waiters may now get the lock.
    pub fn change(&mut self, key: &[u8], command: Plain<'_>) -> bool {
        let database = self.host.database();
        let has_changed = self.host.keyspace.borrow_mut().run(database, command);
        if has_changed {
            self.engine.note(Note::Key { database, key: key.into(), cause: Cause::Command });
        }
        has_changed
    }

    /// Deletes all keys of a database, or of all.
    pub fn flush(&mut self, database: Option<i32>) {
        self.host.keyspace.borrow_mut().flush(database);
        self.engine.note(Note::Keys);
    }
}
