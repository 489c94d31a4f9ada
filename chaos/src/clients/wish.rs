//! A client's next wish, drawn from its habits, and what the client will do with the lock.

use crate::history::{By, Side};
use crate::plan::{Client, ClientKind, Habits, LockKind};
use rlock_testing::Random;
use std::time::Duration;

/// A wait without a limit ends after this time, in ms: from and to.
const UNLIMITED_MS: (u64, u64) = (500, 4_000);

/// The limits of different requests for permits.
const LIMITS: [u32; 4] = [2, 3, 3, 5];

/// Percentage of wishes for a lock of a family that want it alone. Other wishes want this percentage of the other locks
/// as well.
const WANTS_IT_ALONE: u8 = 40;
const WANTS_ANOTHER: u8 = 40;

/// Percentage of requests for a lock with answers that use ONCE; and of waits by ONCE, the percentage by ticket.
const ASKS_FOR_THE_ANSWER: u8 = 85;
const WAITS_BY_TICKET: u8 = 30;

#[derive(Clone, Debug)]
pub struct Wish {
    pub lock: String,
    /// Wanted together with it, all or none.
    pub beside: Vec<String>,
    pub side: Side,
    pub by: By,
    /// How long the answer of its holder is kept, from and to. None: the holder sends no ANSWER.
    pub keep_ms: Option<(u64, u64)>,
    pub by_ticket: bool,
    /// How many permits may be out at once; 0 for other sides.
    pub limit: u32,
    pub lease_ms: u64,
    /// As in the plan: none is an attempt without a wait, 0 a wait without a limit.
    pub wait_ms: Option<u64>,
    /// When it gives up the wait, if it does so before the wait's own limit.
    pub gives_up_after: Option<Duration>,
    pub fenced: bool,
}

impl Wish {
    pub fn of(client: &Client, random: &mut Random) -> Self {
        let Habits { lease_ms, waits_ms, fenced, reads, gives_up, .. } = &client.habits;
        let lock = match client.locks.split_first() {
            Some((first, others)) if others.is_empty() || random.is(50) => first.clone(),
            _ => random.one_of(&client.locks[1..]),
        };
        let (side, limit) = match lock.kind {
            LockKind::Plain | LockKind::Once { .. } => (Side::Plain, 0),
            LockKind::ReadWrite if random.is(*reads) => (Side::Read, 0),
            LockKind::ReadWrite => (Side::Write, 0),
            LockKind::Permits => (Side::Permit, random.one_of(&LIMITS)),
        };
        let keep_ms = if let LockKind::Once { keep_ms } = lock.kind { Some(keep_ms) } else { None };
        let by = match client.kind {
            ClientKind::Scripts => By::Script,
            _ if keep_ms.is_some() && random.is(ASKS_FOR_THE_ANSWER) => By::Once,
            _ => By::Acquire,
        };
        let mut beside = lock.others;
        if beside.is_empty() || random.is(WANTS_IT_ALONE) {
            beside.clear();
        }
        beside.retain(|_| random.is(WANTS_ANOTHER));
        let wait_ms = random.one_of(waits_ms);
        let gives_up_after = match wait_ms {
            Some(0) => Some(random.between(UNLIMITED_MS)),
            Some(limit) if random.is(*gives_up) => Some(random.below(limit)),
            _ => None,
        };
        Self {
            lock: lock.name,
            beside,
            side,
            by,
            keep_ms,
            by_ticket: by == By::Once && wait_ms.is_some() && random.is(WAITS_BY_TICKET),
            limit,
            lease_ms: *lease_ms,
            wait_ms,
            gives_up_after: gives_up_after.map(Duration::from_millis),
            fenced: random.is(*fenced),
        }
    }
}

/// What a client does with a lock that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Keep(Duration),
    /// Keeps it for this time by renewing it.
    Renew(Duration),
    /// Does nothing for longer than the lease.
    Stall(Duration),
    /// Ends after that time, without a release.
    Die(Duration),
}

impl Deed {
    pub fn of(habits: &Habits, random: &mut Random) -> Self {
        let lease = Duration::from_millis(habits.lease_ms);
        let hold = Duration::from_millis(random.between(habits.hold_ms));
        // All are drawn, whatever their outcome: a habit that a plan leaves out must not change the rest.
        let [dies, stalls, renews] = [habits.dies, habits.stalls, habits.renews].map(|habit| random.is(habit));
        let leases = random.between((1, 3));
        match (dies, stalls, renews) {
            (true, ..) => Self::Die(hold),
            (_, true, _) => Self::beyond(habits.lease_ms),
            (_, _, true) => Self::Renew(lease * u32::try_from(leases).expect("three at most")),
            _ => Self::Keep(hold),
        }
    }

    pub fn beyond(lease_ms: u64) -> Self {
        Self::Stall(Duration::from_millis(lease_ms) * 3 / 2)
    }
}
