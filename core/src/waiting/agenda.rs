//! The work that is due for waiters: at once, as soon as this server may write again, or in its turn.
//!
//! Nothing here is a decision. It is a list of locks to look at, each at most once however often something happens to
//! it, of holds to revoke, and of waiters to dismiss. `upkeep.rs` fills and empties it.

use super::databases::Database;
use super::queue::{LockId, Ticket};
use super::waiter::{Names, SessionId};
use crate::lock::{Held, Record, Side, UnixMs, Wish};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// What is kept of each lock with waiters.
#[allow(clippy::struct_excessive_bools, reason = "four notes that have nothing to do with each other")]
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Whether the lock must be looked at.
    pub is_changed: bool,
    /// Whether the lock is in the list of changed locks.
    pub is_listed: bool,
    /// Whether the lock is in the list of those that the current command has changed.
    pub is_by_command: bool,
    /// Whether a release has freed the lock, and lets waiters in one after the other.
    pub released: bool,
    /// How the last waiter was granted the lock alone, with its holder.
    pub granted: Option<Rc<AsGranted>>,
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Locks to look at, among them some that no longer need a look.
    pub changed: VecDeque<LockId>,
    /// The locks among them that the current command has changed.
    pub by_command: VecDeque<LockId>,
    /// Waiters whose holder has got the lock, so that they may be granted it too.
    pub reentries: VecDeque<Reentry>,
    /// Holds granted to waiters that were gone before they could be told.
    pub to_revoke: VecDeque<Hold>,
    /// Sessions that are attended again, and were passed over meanwhile.
    pub returning: VecDeque<SessionId>,
    /// Waiters for several locks that were put aside while nobody was there to be told.
    pub sets_back: VecDeque<Ticket>,
    /// Connections that are closed, with those of their sessions for which that is not noted yet.
    pub disconnected: VecDeque<(u64, BTreeSet<SessionId>)>,
    /// Sessions that nobody attends any more, of which some tickets were not yet looked at.
    pub abandoned: VecDeque<SessionId>,
    /// Sessions with acknowledged events that are not freed yet.
    pub acknowledged: VecDeque<SessionId>,
    /// Sessions that have ended, of which something is left.
    pub ended: VecDeque<SessionId>,
    /// Locks that were broken, of whose former holders some read holds are still to be deleted.
    pub broken: VecDeque<Broken>,
    pub sweep: Option<Sweep>,
    /// Every waiter that came before this one is to be dismissed.
    pub dismissed: Option<Ticket>,
    pub patrol_at: Option<UnixMs>,
    /// From the first time until the second nothing is written: as far as is known, this server may not.
    pub rest: Option<(UnixMs, UnixMs)>,
}

/// A hold that was granted to a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The number of its database: when it was granted, or when it is revoked.
    pub database: i32,
    pub(super) home: Database,
    pub key: Rc<[u8]>,
    pub wish: Wish<Names>,
    pub(super) as_granted: Rc<AsGranted>,
    /// The number of changes of this server's role before the grant. After another one it is another server's business.
    pub(super) era: u64,
}

/// How a lock was granted. Names are used again, so a hold is revoked only while its holder has the lock just like that:
/// a renewal, a release and a re-entry each change it, and what then is the holder's own ends with its lease.
///
/// The grants of a lock to one holder share this while nothing else has changed it in between: the last one says how the
/// holder has the lock, and each of them that is revoked takes one hold off.
#[derive(Debug, PartialEq, Eq)]
pub struct AsGranted {
    holder: Names,
    held: Cell<Held>,
}

impl AsGranted {
    pub fn new(holder: &Names, held: Held) -> Rc<Self> {
        Rc::new(Self { holder: holder.clone(), held: Cell::new(held) })
    }

    pub fn get(&self) -> Held {
        self.held.get()
    }

    /// The holder has one hold more, and had the lock `before` just as it was granted. Returns whether that is so.
    pub fn goes_on(&self, holder: &[u8], before: Held, held: Held) -> bool {
        let goes_on = self.holder.holder() == holder && self.held.get() == before;
        if goes_on {
            self.held.set(held);
        }
        goes_on
    }

    /// Whether the holder has the lock just as it was granted. What a holder has but once is the same after each grant.
    pub fn is_still(&self, side: Side, record: &impl Record) -> bool {
        let granted = self.get();
        let has = side.held(record);
        if side.is_held_once() { has.is_some_and(|has| has.end == granted.end) } else { has == Some(granted) }
    }

    /// Whether a hold goes with the next grant that is revoked: what a holder has but once goes with the last.
    pub fn goes_with_next(&self, side: Side) -> bool {
        !side.is_held_once() || self.get().holds <= 1
    }

    /// One hold was revoked. That leaves the lease as it is.
    pub fn one_is_revoked(&self) {
        let Held { holds, end } = self.held.get();
        self.held.set(Held { holds: holds.saturating_sub(1), end });
    }
}

/// What is left of a command that takes tickets back.
#[derive(Debug)]
pub(super) struct Cancelling<C> {
    /// None once the client is gone. The rest is taken back all the same.
    pub client: Option<C>,
    pub session: SessionId,
    pub names: TicketNames,
    pub found: usize,
    /// The holds of those that were found, which are revoked when all are taken back: the last of a holder's read holds
    /// first, as only that one is told apart from the others.
    pub holds: BTreeMap<(i64, usize, usize), Hold>,
}

impl<C> Cancelling<C> {
    pub fn of(session: SessionId, names: TicketNames) -> Self {
        Self { client: None, session, names, found: 0, holds: BTreeMap::new() }
    }

    pub fn is_done(&self) -> bool {
        self.names.is_empty() && self.holds.is_empty()
    }

    /// Whether all that is left needs a server that may write.
    pub fn only_revokes(&self) -> bool {
        self.names.is_empty()
    }
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

/// What is left of a lock that was broken.
#[derive(Debug)]
pub(super) struct Broken {
    pub home: Database,
    pub key: Rc<[u8]>,
    /// The former holders, and how many of the read holds of each are still to be deleted.
    pub holds: Vec<(Vec<u8>, i64)>,
}

/// The waiters of a lock that share the name of a holder that was granted it.
#[derive(Clone, Debug)]
pub(super) struct Reentry {
    pub lock: LockId,
    pub holder: Names,
    /// The waiters up to this one have had their turn.
    pub after: Option<Ticket>,
}

/// The waiters of a lock under the name of a holder that was granted it, while nobody was there to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deferral {
    pub lock: LockId,
    pub holder: Names,
}

impl Ord for Deferral {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.lock, self.holder.holder()).cmp(&(other.lock, other.holder.holder()))
    }
}

impl PartialOrd for Deferral {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Something has happened to whole databases: `left` locks have not yet been asked whether it concerns them.
#[derive(Debug)]
pub(super) struct Sweep {
    /// None means all databases.
    pub databases: Option<Vec<i32>>,
    pub left: usize,
}

impl Agenda {
    pub fn is_empty(&self) -> bool {
        let lists = self.changed.is_empty() && self.reentries.is_empty() && self.to_revoke.is_empty();
        let present = self.returning.is_empty() && self.sets_back.is_empty() && self.disconnected.is_empty();
        let sessions = present && self.abandoned.is_empty() && self.acknowledged.is_empty() && self.ended.is_empty();
        lists && sessions && self.broken.is_empty() && self.sweep.is_none()
    }
}
