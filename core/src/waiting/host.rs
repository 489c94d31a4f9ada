//! The port of waiting: to the server, or to a world that a test moves. A host reads and writes keys, answers clients and
//! gives the time; it decides nothing.

use super::agenda::Cancelled;
use super::engine::Engine;
use super::queue::{LockName, Ticket};
use super::sessions::Most;
use super::waiter::SessionId;
use crate::lock::{Changes, Outcome, Plan, Record, Refusal, Side, Snapshot, UnixMs};
use std::rc::Rc;

pub trait Host {
    /// A blocked client: it gets the outcome of its wait, or its session's events.
    type Client;

    /// A string of our own, as the host has it.
    type OwnText: OwnText;

    /// The open key of a lock, as one holder sees it.
    type Lock<'a>: Record
    where
        Self: 'a;

    /// While it lives, another database is selected.
    type Selected<'a>
    where
        Self: 'a;

    /// The next note of what others have done while the engine was at work, such as in a callback within a write.
    fn next_note(&self) -> Option<Note>;

    fn now(&self) -> UnixMs;

    /// A monotonic clock, in ms from any moment on.
    fn steady_ms(&self) -> i64;

    /// How long a grace lasts: see [`crate::lock::Grace::length_ms`].
    fn grace_ms(&self) -> i64;

    /// Whether other clients have waited for long enough while this went on.
    fn turn_is_over(&self) -> bool;

    /// The user of this name. A session ends with its user.
    fn user(&self, name: &[u8]) -> User;

    fn own(&self, bytes: &[u8]) -> Self::OwnText;

    /// The database that is selected.
    fn database(&self) -> i32;

    fn select(&self, database: i32) -> Self::Selected<'_>;

    fn open<'a>(&'a self, key: Text<'a, Self>, holder: Text<'a, Self>) -> Self::Lock<'a>;

    /// Closes the lock, which is unchanged since the decision, and writes the plan; in the same step also the changes of
    /// `others`, other locks for the same holder.
    ///
    /// # Errors
    /// If a key would be created while the server may not write; nothing is changed then.
    fn commit<'a, 'b>(
        &'a self,
        lock: Self::Lock<'a>,
        plan: &Plan<'_, Text<'a, Self>, Text<'b, Self>>,
        others: Vec<(Self::Lock<'a>, Changes)>,
    ) -> Result<(), Paused>
    where
        Self: 'b;

    /// The lock as a whole; None if there is none.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] where the key is no lock.
    fn snapshot(&self, key: Text<'_, Self>, most: usize) -> Result<Option<Snapshot>, Refusal>;

    /// Whether locks may be changed for this purpose. With a key: this lock, which must not be open. Without: any lock, as far
    /// as is known without asking about a key.
    fn permission(&self, key: Option<Text<'_, Self>>, purpose: Purpose) -> Permission;

    /// The ms left on a lock, for the answer to a refused client.
    fn left_ms(&self, lock: LockName<'_>) -> i64;

    /// How much there may be of this; None if the server has no memory for more.
    fn limit(&self, of: Kept) -> Option<Most>;

    /// Whether the command that is under way, if there is one, may do this.
    fn allows(&self, what: Act) -> bool;

    /// Blocks the client of this command, if that can be done.
    fn block(&self) -> Option<Self::Client>;

    /// A waiter has begun to wait. With a side: the host must report changes of locks of this side from now on. With a client:
    /// the waiter is this client, which was blocked just now.
    fn waits(&self, side: Option<Side>, client: Option<(&Self::Client, WaitsFor)>);

    /// Answers a blocked client, and unblocks it.
    fn answer(&self, client: Self::Client, answer: Answer);

    /// Shows the engine to a test after each thing that it does; the server does not look.
    fn watch(&self, _engine: &Engine<Self::Client>) {}
}

pub trait OwnText {
    /// The string as the host has it, lent by its owner.
    type Lent<'a>: Copy + AsRef<[u8]>
    where
        Self: 'a;

    fn lend(&self) -> Self::Lent<'_>;
}

impl OwnText for Vec<u8> {
    type Lent<'a> = &'a [u8];

    fn lend(&self) -> &[u8] {
        self
    }
}

pub type Text<'a, H> = <<H as Host>::OwnText as OwnText>::Lent<'a>;

/// What has happened outside the engine. The reporter is in the middle of something, so it is only noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something has happened to one key.
    Key { database: i32, key: Box<[u8]>, cause: Cause },
    /// Something has happened to all keys, or to all keys of a database.
    Keys,
    /// Two databases have each other's number now. Waiters stay with the number, and holds with their keys.
    Swapped(i32, i32),
    /// This server has become a master, or a replica. From now on another server decides what becomes of earlier grants.
    RoleChanged { is_replica: bool },
    /// A connection is closed.
    Disconnected(u64),
    /// A blocked client waits no longer.
    Gone(Ticket),
    /// A blocked client has got the answer with its grant.
    Delivered(Ticket),
}

/// What becomes of a grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraceNews {
    Begins { left_ms: i64 },
    IsOver,
}

/// What a blocked client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    Lock(Ticket),
    /// The events of its session.
    Events(SessionId),
    /// That all of its tickets are taken back.
    Cancel,
    /// Nothing more: the client is answered, and gets its reply in the same turn.
    Answer,
}

/// What has changed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server by itself.
    Server,
    /// The same: the key's time was up.
    LeaseEnd,
    /// A client's command.
    Command,
}

/// The answer to a blocked client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The outcome of its wait. A grant comes with its fencing token if the client asked for one.
    Outcome { outcome: Outcome, fenced: bool },
    /// It is granted several locks, with their fencing tokens if it asked for them.
    GrantedAll { tokens: Vec<i64> },
    /// The answer of another holder's work.
    Value(Rc<[u8]>),
    /// What became of each ticket that it took back.
    Cancelled(Vec<Cancelled>),
    /// All events of its session that there are when the answer is written.
    Events,
    /// Its session has been ended by another client.
    NoSession,
}

/// What is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Claims of blocked clients: a request has one for each lock.
    Blocked,
    /// Claims of tickets that wait, or that have an event which is not acknowledged.
    Tickets,
    Sessions,
    /// Bytes of one stored answer.
    AnswerBytes,
}

/// What not every command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Keep its client waiting.
    Block,
    /// Be followed by changes to any key.
    TouchAnyKey,
}

/// The user that a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    IsThere,
    /// Their commands may be kept back by the server.
    IsKeptBack,
    IsGone,
}

/// The server may not write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// When to try again.
    pub for_ms: i64,
}

/// What has caused a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A client's command on the same lock, which the server has found fit to run.
    Command,
    /// An event or an alarm, which the server has not checked.
    Event,
}

/// The purpose for which locks are to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A grant or a renewal by a client's command, which the server has found fit to run. Only a stall forbids it: after a
    /// stall, the server may have been taken for dead.
    Command,
    /// A grant to a waiter.
    Grant,
    /// A release, which takes no memory.
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// For every lock, for the rest of this turn.
    Granted,
    /// It depends on the key.
    OfKey,
    /// Not now, for any lock: ask again after this many ms.
    Later(i64),
    /// Not on this server: the waiter must go elsewhere.
    Elsewhere,
}
