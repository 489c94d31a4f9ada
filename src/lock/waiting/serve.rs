//! Serving those who wait.
//!
//! Every way in which a lock can become free ends in [`settle`], which grants it to the first who waits for as long as
//! the lock allows, decided anew from the lock each time: so looking once too often does no harm, and nothing that was
//! decided earlier has to be remembered. Readers are let in together up to the next writer, which then has its turn:
//! neither side can starve the other.
//!
//! The world is behind the trait [`World`]; there is one over the server and one that a test moves.

use crate::lock::{
    Acquire, Ahead, Alarm, Client, Granted, Hold, Kind, LockName, Next, QueueFull, Refusal, Room, Ticket, UnixMs,
    Waiter,
};
use std::ops::RangeInclusive;

/// A lock that is waited for is looked at so often at least, whatever its lease says: not all that can happen to a key is
/// told, on every server. With more than a hundred such locks it is after a ms for each of them, which are a thousand looks
/// in a second; beyond a thousand locks, each is looked at once in a second.
const LOOK_AGAIN_MS: RangeInclusive<i64> = 100..=1_000;

/// Such looks are at multiples of this, many locks together, since it is waking up that costs the most.
const TOGETHER_MS: i64 = 10;

pub trait World {
    type Client: Client;

    /// Lends the room. The closure must not touch the world.
    fn with_room<R>(&self, use_room: impl FnOnce(&mut Room<Self::Client>) -> R) -> R;

    fn now(&self) -> UnixMs;

    /// Whether this is the place and the time to grant.
    fn permission(&self, lock: LockName<'_>, ground: Ground) -> Permission;

    /// Has a waiter acquire the lock as it is, in front of everyone else.
    fn acquire(&self, lock: LockName<'_>, next: &Next) -> Tried;

    /// Gives back a hold that was granted to a client who is gone, and whoever waits gets the lock.
    fn give_back(&self, hold: &Hold);

    /// Whether a hold's lease ends as it was granted.
    fn is_untouched(&self, hold: &Hold) -> bool;

    /// The ms left on a lock, as a refused client is told.
    fn left_ms(&self, lock: LockName<'_>) -> i64;

    /// Answers a client and lets it go.
    fn answer(&self, client: Self::Client, want: Acquire, answer: Answer);
}

/// A release that was decided and is not yet true.
pub trait Releasing: Sized {
    type Error;

    /// Whether it would leave nothing of the lock.
    fn frees(&self) -> bool;

    /// # Errors
    /// Where this is not the time to write; nothing is changed then.
    fn apply(self) -> Result<(), Self::Error>;

    /// Gives the lock to the next one in the same step.
    ///
    /// # Errors
    /// The release itself, with nothing changed, where that cannot be.
    fn hand_over(self, next: &Next) -> Result<Grant, Self>;
}

/// On what ground a grant is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// A client's command on the same lock, which the server has found fit to run.
    Command,
    /// An event or an alarm, which nobody has checked.
    Event,
    /// A hold is given back. What must be fit for a grant need not be for this.
    GiveBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Granted,
    /// Not now: to be asked again after this many ms.
    Later(i64),
    /// Not on this server: whoever waits is to go elsewhere.
    Elsewhere,
}

/// What became of a waiter's acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    Granted(Grant),
    Busy {
        left_ms: i64,
    },
    Refused(Refusal),
    /// Not the time to write: to be tried again after this many ms.
    Later(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// When it was made.
    pub at: UnixMs,
    pub token: Option<i64>,
    /// When the lock's lease ends now, if that has changed.
    pub end: Option<UnixMs>,
}

/// What a kept client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted { token: Option<i64> },
    TimeIsUp { left_ms: i64 },
    Refused(Refusal),
    SlotMoved,
    NowReplica,
}

/// Serves who waits for a lock, and tells whether anyone still does.
pub fn settle<W: World>(world: &W, lock: LockName<'_>, ground: Ground) -> Ahead {
    while let Some(next) = world.with_room(|room| room.first(lock)) {
        match world.permission(lock, ground) {
            Permission::Granted => {}
            Permission::Later(ms) => return still_waiting(world, lock, ms),
            Permission::Elsewhere => {
                answer(world, next.ticket, Answer::SlotMoved);
                continue;
            }
        }
        match world.acquire(lock, &next) {
            Tried::Granted(grant) => {
                granted_first(world, lock, &next, grant);
            }
            Tried::Busy { left_ms } => {
                let now = world.now();
                world.with_room(|room| look_again(room, lock, now, Some(left_ms)));
                return Ahead::Someone;
            }
            Tried::Later(ms) => return still_waiting(world, lock, ms),
            Tried::Refused(refusal) => answer(world, next.ticket, Answer::Refused(refusal)),
        }
    }
    Ahead::Nobody
}

/// Keeps a client until the lock is granted or its time is up. `left_ms` is what it was refused with, if it was told.
///
/// # Errors
/// If `most` wait already, over all locks.
pub fn keep<W: World>(
    world: &W,
    lock: LockName<'_>,
    waiter: Waiter<W::Client>,
    now: UnixMs,
    most: usize,
    deadline: Option<UnixMs>,
    left_ms: Option<i64>,
) -> Result<(), QueueFull> {
    world.with_room(|room| {
        room.join(lock, waiter, now, most, deadline)?;
        look_again(room, lock, now, left_ms);
        Ok(())
    })
}

/// Makes a release true. Where it frees a lock that others wait for, the first of them gets it in the same step.
///
/// # Errors
/// Where this is not the time to write; nothing is changed then.
pub fn release<W: World, R: Releasing>(world: &W, lock: LockName<'_>, releasing: R) -> Result<(), R::Error> {
    let frees = releasing.frees();
    let (granted_before, next) =
        world.with_room(|room| (room.counters.waited.count(), if frees { room.first(lock) } else { None }));
    let released = release_to(world, lock, releasing, next);
    world.with_room(|room| room.counters.count_hand_offs(granted_before));
    released
}

fn release_to<W: World, R: Releasing>(
    world: &W,
    lock: LockName<'_>,
    releasing: R,
    next: Option<Next>,
) -> Result<(), R::Error> {
    match next.filter(|_| world.permission(lock, Ground::Command) == Permission::Granted) {
        Some(next) => match releasing.hand_over(&next) {
            Ok(grant) => {
                granted_first(world, lock, &next, grant);
                // Behind a reader there may be more of them; nobody goes in beside anyone else.
                if next.kind != Kind::Read {
                    return Ok(());
                }
            }
            Err(releasing) => releasing.apply()?,
        },
        None => releasing.apply()?,
    }
    settle(world, lock, Ground::Command);
    Ok(())
}

/// Does what the alarms up to now are for, and looks at every lock that something has happened to.
pub fn catch_up<W: World>(world: &W) {
    for hold in world.with_room(Room::take_undelivered) {
        take_back(world, hold);
    }
    while let Some((database, key)) = world.with_room(|room| room.unsettled.pop()) {
        settle(world, LockName { database, key: &key }, Ground::Event);
    }
    let now = world.now();
    while let Some(alarm) = world.with_room(|room| room.alarms.take_due(now)) {
        match alarm {
            Alarm::Deadline(ticket) => time_is_up(world, ticket),
            Alarm::Lock { database, key } => {
                settle(world, LockName { database, key: &key }, Ground::Event);
            }
        }
    }
}

/// Lets everyone go: this server grants nothing any more.
pub fn dismiss_all<W: World>(world: &W) {
    let tickets: Vec<_> = world.with_room(|room| {
        let locks = room.queues.names();
        locks.flat_map(|lock| room.queues.waiters(lock)).map(|(ticket, _)| ticket).collect()
    });
    for ticket in tickets {
        answer(world, ticket, Answer::NowReplica);
    }
}

/// The first who waits has got the lock. A holder that is inside goes on at once, so whoever else waits under its name
/// must not be left behind.
fn granted_first<W: World>(world: &W, lock: LockName<'_>, first: &Next, grant: Grant) {
    if !granted(world, lock, first.ticket, grant) {
        return;
    }
    for next in world.with_room(|room| room.namesakes(lock, &first.holder)) {
        match world.acquire(lock, &next) {
            Tried::Granted(grant) => drop(granted(world, lock, next.ticket, grant)),
            // A reader that also waits to write keeps its place.
            Tried::Busy { .. } | Tried::Later(_) => {}
            Tried::Refused(refusal) => answer(world, next.ticket, Answer::Refused(refusal)),
        }
    }
}

/// Tells whether others may wait under the same name.
fn granted<W: World>(world: &W, lock: LockName<'_>, ticket: Ticket, grant: Grant) -> bool {
    let granted = world.with_room(|room| {
        let granted = room.grant(ticket, grant.at, grant.end)?;
        // One that ends later is looked at before anyway.
        let ends_soon = |end: &UnixMs| *end < grant.at.saturating_add(*LOOK_AGAIN_MS.end());
        if let Some(end) = grant.end.filter(|end| !granted.was_last && ends_soon(end)) {
            room.alarms.look_at(lock, end.saturating_add(1));
        }
        Some(granted)
    });
    let Some(Granted { waiter: Waiter { client, want, .. }, has_namesakes, .. }) = granted else { return false };
    world.answer(client, want, Answer::Granted { token: grant.token });
    has_namesakes
}

fn answer<W: World>(world: &W, ticket: Ticket, answer: Answer) {
    if let Some(Waiter { client, want, .. }) = world.with_room(|room| room.leave(ticket)) {
        world.answer(client, want, answer);
    }
}

/// A waiter's time is up: it is told what is left of the lock. Those behind it may have been waiting for it only.
fn time_is_up<W: World>(world: &W, ticket: Ticket) {
    let Some((database, key)) = world.with_room(|room| room.lock_of(ticket)) else { return };
    let lock = LockName { database, key: &key };
    // The lock may have become free at this very moment, and then it is this waiter's.
    settle(world, lock, Ground::Event);
    if world.with_room(|room| room.lock_of(ticket)).is_none() {
        return;
    }
    world.with_room(|room| room.counters.timeouts = room.counters.timeouts.wrapping_add(1));
    answer(world, ticket, Answer::TimeIsUp { left_ms: world.left_ms(lock) });
    settle(world, lock, Ground::Event);
}

/// Holders come back under the same name. So a hold that has ended meanwhile is not looked for, nor one that may be another
/// by now: it ends with its lease.
fn take_back<W: World>(world: &W, hold: Hold) {
    let lock = LockName { database: hold.database, key: &hold.key };
    let now = world.now();
    if now <= hold.end && (!hold.put_off || world.is_untouched(&hold)) {
        match world.permission(lock, Ground::GiveBack) {
            Permission::Granted => world.give_back(&hold),
            Permission::Later(ms) => return world.with_room(|room| room.put_off(hold, now.saturating_add(ms))),
            // It went with its key.
            Permission::Elsewhere => {}
        }
    }
    settle(world, lock, Ground::Event);
}

/// Has a lock looked at when its lease has ended, or soon enough.
fn look_again<C: Client>(room: &mut Room<C>, lock: LockName<'_>, now: UnixMs, left_ms: Option<i64>) {
    let locks = i64::try_from(room.queues.locks()).unwrap_or(i64::MAX);
    let soon = now.saturating_add(locks.clamp(*LOOK_AGAIN_MS.start(), *LOOK_AGAIN_MS.end()));
    let soon = soon.saturating_sub(soon.rem_euclid(TOGETHER_MS));
    let end = left_ms.filter(|left| *left >= 0).map(|left| now.saturating_add(left).saturating_add(1));
    room.alarms.look_at(lock, end.map_or(soon, |end| end.min(soon)));
}

fn still_waiting<W: World>(world: &W, lock: LockName<'_>, ms: i64) -> Ahead {
    let time = world.now().saturating_add(ms);
    world.with_room(|room| room.alarms.look_at(lock, time));
    Ahead::Someone
}
