//! The work that is due for waiters: at once, as soon as this server may write again, or in its turn.
//!
//! The agenda decides nothing. It lists locks to check, each at most once however often something happens to it, holds to
//! release, and waiters to dismiss. `upkeep.rs` fills and empties it.

use super::queue::{LockId, Ticket};
use super::waiter::{Names, SessionId};
use crate::lock::{Side, UnixMs};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// What is kept of each lock with waiters.
#[derive(Debug, Default)]
pub struct Notes {
    /// Whether the lock must be checked.
    pub is_changed: bool,
    /// Whether the lock is in the list of changed locks.
    pub is_listed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Locks to check. Some of them no longer need a check.
    pub changed: VecDeque<LockId>,
    /// The locks among them that the current command has changed, some of which no longer need a check.
    pub by_command: VecDeque<LockId>,
    /// Grants to blocked clients that were gone before their reply was sent.
    pub to_release: VecDeque<Untold>,
    /// Sessions that are attended again, and were passed over meanwhile.
    pub returning: VecDeque<SessionId>,
    /// Closed connections, each with those of its sessions for which the close is not noted yet.
    pub disconnected: VecDeque<(u64, BTreeSet<SessionId>)>,
    /// Sessions with work left, each once: they have acknowledged events, are unattended with tickets that were not checked
    /// since, or have ended.
    pub sessions: VecDeque<SessionId>,
    /// Broken locks with read holds of former holders that are still to be deleted.
    pub broken: VecDeque<Broken>,
    /// The number of locks still to be checked, after something has happened to all keys or for a patrol.
    pub to_sweep: usize,
    /// Every waiter that came before this one is to be dismissed.
    pub dismissed: Option<Ticket>,
    pub patrol_at: Option<UnixMs>,
    /// Nothing is written from the first time until the second: as far as is known, this server may not write then.
    pub rest: Option<(UnixMs, UnixMs)>,
    /// Whether only the lock that is being checked may be touched.
    pub is_confined: bool,
}

/// A grant to a blocked client whose reply is not sent yet.
#[derive(Clone, Debug)]
pub(super) struct Untold {
    pub database: i32,
    pub key: Rc<[u8]>,
    /// The other keys of a wait for several locks.
    pub others: Box<[Rc<[u8]>]>,
    pub holder: Names,
    pub side: Side,
}

/// The rest of a command that takes tickets back.
#[derive(Debug)]
pub(super) struct Cancelling<C> {
    /// None once the client is gone. The rest is taken back all the same.
    pub client: Option<C>,
    pub session: SessionId,
    pub names: TicketNames,
    /// The results of the tickets that were named before.
    pub done: Vec<Cancelled>,
}

/// What became of a ticket that is taken back, as the reply has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// There is none of this name.
    Unknown = 0,
    /// It waits no more, and was not granted its lock.
    Withdrawn = 1,
    /// It was granted its lock, which its holder has to release like any other.
    Granted = 2,
}

/// Names of tickets, each behind its length: an allocation for each of 300,000 would take longer than a turn.
#[derive(Debug, Default)]
pub struct TicketNames {
    bytes: Vec<u8>,
    read: usize,
    length: usize,
}

impl TicketNames {
    /// No ticket has more than 64 bytes.
    pub fn push(&mut self, name: &[u8]) {
        let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        self.bytes.push(length);
        self.bytes.extend_from_slice(name.get(..usize::from(length)).unwrap_or_default());
        self.length = self.length.saturating_add(1);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn take_next(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.bytes.get(self.read..)?.split_first()?;
        let name = rest.get(..usize::from(*length))?.to_vec();
        self.read = self.read.saturating_add(name.len()).saturating_add(1);
        self.length = self.length.saturating_sub(1);
        Some(name)
    }
}

/// The rest of a lock that was broken.
#[derive(Debug)]
pub(super) struct Broken {
    pub database: i32,
    pub key: Rc<[u8]>,
    /// The former holders, and how many of the read holds of each are still to be deleted.
    pub holds: Vec<(Vec<u8>, i64)>,
}

impl Agenda {
    pub fn is_empty(&self) -> bool {
        let lists = self.changed.is_empty() && self.to_release.is_empty();
        let present = self.returning.is_empty() && self.disconnected.is_empty();
        lists && present && self.sessions.is_empty() && self.broken.is_empty() && self.to_sweep == 0
    }
}
