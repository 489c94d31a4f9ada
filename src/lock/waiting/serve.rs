//! Serving those who wait.
//!
//! Every way in which a lock can become free ends in [`settle`], which grants it to the first who waits for as long as
//! the lock allows, decided anew from the lock each time: so looking once too often does no harm, and nothing that was
//! decided earlier has to be remembered. Readers are let in together up to the next writer, which then has its turn:
//! neither side can starve the other.
//!
//! Nothing here goes on for longer than one turn of the server ([`World::turn_is_over`]). What is left is on the agenda, and
//! [`catch_up`] goes on with it in the next turn. Nobody gets in between meanwhile: whoever still waits is in the queue, and
//! whoever comes stands behind it.
//!
//! The world is behind the trait [`World`]; there is one over the server and one that a test moves.

use super::agenda::Reentry;
use super::alarms::Alarm;
use super::queue::{LockId, LockName, QueueFull, Ticket};
use super::room::{Client, Granted, Hold, Next, Room, Waiter};
use crate::lock::{Acquire, Ahead, Kind, Refusal, UnixMs};

pub trait World {
    type Client: Client;

    /// Lends the room. The closure must not touch the world.
    fn with_room<R>(&self, use_room: impl FnOnce(&mut Room<Self::Client>) -> R) -> R;

    fn now(&self) -> UnixMs;

    /// Whether others have waited for long enough while this went on.
    fn turn_is_over(&self) -> bool;

    /// Whether this is the place and the time to grant.
    fn permission(&self, lock: LockName<'_>, ground: Ground) -> Permission;

    /// Has a waiter acquire the lock as it is. Most looks find a lock busy, so permission is asked for only where the lock
    /// would be granted.
    fn acquire(&self, lock: LockName<'_>, next: &Next, ahead: Ahead, ground: Ground) -> Tried;

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
    /// Not now, for any lock: to be asked again after this many ms.
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
    /// It would be granted, but not now: see [`Permission::Later`].
    Later(i64),
    /// It would be granted, but not here.
    Elsewhere,
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

/// How far serving a lock has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    NobodyWaits,
    /// The first who waits cannot have it now.
    SomeoneWaits,
    /// It is on the agenda to go on with it.
    TurnIsOver,
}

/// Serves who waits for a lock, and tells whether anyone still does.
pub fn settle<W: World>(world: &W, lock: LockName<'_>, ground: Ground) -> Ahead {
    let Some(id) = world.with_room(|room| room.queues.find(lock)) else { return Ahead::Nobody };
    match settle_queue(world, id, lock, ground) {
        Settled::NobodyWaits => Ahead::Nobody,
        Settled::SomeoneWaits | Settled::TurnIsOver => Ahead::Someone,
    }
}

fn settle_queue<W: World>(world: &W, id: LockId, lock: LockName<'_>, ground: Ground) -> Settled {
    // Before each look, so that what it brings about itself, such as the end of a key whose time is over, is no news.
    let first = |room: &mut Room<W::Client>| {
        room.seen(id);
        room.first(id).map(|next| (room.is_dismissed(next.ticket), next))
    };
    while let Some((is_dismissed, next)) = world.with_room(first) {
        let tried = if is_dismissed { Err(Answer::NowReplica) } else { tried(world, id, lock, &next, ground) };
        match tried {
            Ok(Some(settled)) => return settled,
            Ok(None) => {}
            Err(telling) => answer(world, next.ticket, telling),
        }
        // Whoever was last has left nobody to go on with; and nobody would come to look, for one who came behind it.
        if world.turn_is_over() && world.with_room(|room| room.changed(id)) {
            return Settled::TurnIsOver;
        }
    }
    Settled::NobodyWaits
}

/// What becomes of the first who waits. None: it was granted. An error is what to tell a client that cannot be.
fn tried<W: World>(
    world: &W,
    id: LockId,
    lock: LockName<'_>,
    next: &Next,
    ground: Ground,
) -> Result<Option<Settled>, Answer> {
    match world.acquire(lock, next, Ahead::Nobody, ground) {
        Tried::Granted(grant) => {
            granted_first(world, id, lock, next, grant, ground);
            return Ok(None);
        }
        Tried::Busy { left_ms } => {
            let end = lease_end(world.now(), left_ms);
            world.with_room(|room| room.is_busy_until(id, end));
        }
        Tried::Later(ms) => {
            rest(world, ms);
            world.with_room(|room| room.changed(id));
        }
        Tried::Elsewhere => return Err(Answer::SlotMoved),
        Tried::Refused(refusal) => return Err(Answer::Refused(refusal)),
    }
    Ok(Some(Settled::SomeoneWaits))
}

/// When to look at a lock of which so much is left. Not before the next ms, whatever the lock says: a key's end is judged by
/// a clock of the server's that stands still while it does one thing, and ours runs on; so a lock whose time is over may
/// still be there, and would be looked at again and again in the same turn.
fn lease_end(now: UnixMs, left_ms: i64) -> Option<UnixMs> {
    (left_ms >= 0).then(|| now.saturating_add(left_ms).saturating_add(1))
}

/// Keeps a client until the lock is granted or its time is up. `left_ms` is what it was refused with, if it was told.
///
/// # Errors
/// If `limit` wait already, over all locks.
pub fn keep<W: World>(
    world: &W,
    lock: LockName<'_>,
    waiter: Waiter<W::Client>,
    now: UnixMs,
    limit: usize,
    deadline: Option<UnixMs>,
    left_ms: Option<i64>,
) -> Result<(), QueueFull> {
    world.with_room(|room| {
        let lock = room.join(lock, waiter, now, limit, deadline)?;
        if let Some(end) = left_ms.and_then(|left_ms| lease_end(now, left_ms)) {
            room.is_busy_until_at_most(lock, end);
        }
        Ok(())
    })
}

/// Makes a release true. Where it frees a lock that others wait for, the first of them gets it in the same step.
///
/// # Errors
/// Where this is not the time to write; nothing is changed then.
pub fn release<W: World, R: Releasing>(world: &W, lock: LockName<'_>, releasing: R) -> Result<(), R::Error> {
    let Some(id) = world.with_room(|room| room.queues.find(lock)) else { return releasing.apply() };
    world.with_room(|room| room.is_being_released(id, true));
    let released = release_to(world, id, lock, releasing);
    if !matches!(released, Ok(Settled::TurnIsOver)) {
        world.with_room(|room| room.is_being_released(id, false));
    }
    released.map(|_| ())
}

fn release_to<W: World, R: Releasing>(
    world: &W,
    id: LockId,
    lock: LockName<'_>,
    releasing: R,
) -> Result<Settled, R::Error> {
    let first = |room: &mut Room<W::Client>| room.first(id).filter(|next| !room.is_dismissed(next.ticket));
    let next = if releasing.frees() { world.with_room(first) } else { None };
    match next.filter(|_| world.permission(lock, Ground::Command) == Permission::Granted) {
        Some(next) => match releasing.hand_over(&next) {
            Ok(grant) => {
                granted_first(world, id, lock, &next, grant, Ground::Command);
                // Behind a reader there may be more of them; nobody goes in beside anyone else.
                if next.kind != Kind::Read {
                    return Ok(Settled::SomeoneWaits);
                }
            }
            Err(releasing) => releasing.apply()?,
        },
        None => releasing.apply()?,
    }
    Ok(settle_queue(world, id, lock, Ground::Command))
}

/// Does what is due and what is on the agenda, for as long as the turn lasts. One of each kind after the other, so that
/// none keeps all others waiting.
pub fn catch_up<W: World>(world: &W) {
    // One time for the whole turn: what comes up while it lasts is for the next.
    let now = world.now();
    world.with_room(|room| room.patrol(now));
    loop {
        let mut is_done = !sound_next(world, now);
        is_done &= !dismiss_next(world);
        is_done &= !world.with_room(Room::sweep_on);
        if !world.with_room(|room| room.is_resting(now)) {
            is_done &= !give_back_next(world);
            is_done &= !reenter_next(world);
            is_done &= !look_at_next(world);
        }
        if is_done || world.turn_is_over() {
            return;
        }
    }
}

/// Serves who waits for the locks that the command under way has changed, for as long as the turn lasts, and touches no
/// other lock: the server calls for it right behind the command, and may be in the middle of something with other keys.
pub fn follow_command<W: World>(world: &W) {
    while let Some((id, name)) = world.with_room(|room| {
        let id = room.take_changed_by_command()?;
        room.queues.name(id).map(|name| (id, name))
    }) {
        settle_queue(world, id, LockName { database: name.0, key: &name.1 }, Ground::Event);
        if world.turn_is_over() {
            break;
        }
    }
    world.with_room(Room::forget_command);
}

/// Does what the next alarm is for. Tells whether there was one.
fn sound_next<W: World>(world: &W, now: UnixMs) -> bool {
    match world.with_room(|room| room.alarms.take_due(now)) {
        Some(Alarm::Deadline(ticket)) => time_is_up(world, ticket),
        Some(Alarm::LeaseEnd(lock)) => world.with_room(|room| room.lease_has_ended(lock)),
        None => return false,
    }
    true
}

/// A waiter's time is up: it is told what is left of the lock. Those behind it may have been waiting for it only.
fn time_is_up<W: World>(world: &W, ticket: Ticket) {
    let Some((id, name)) = world.with_room(|room| {
        let id = room.queues.lock_of(ticket)?;
        room.queues.name(id).map(|name| (id, name))
    }) else {
        return;
    };
    let lock = LockName { database: name.0, key: &name.1 };
    // The lock may have become free at this very moment, and then it is this waiter's.
    let settled = settle_queue(world, id, lock, Ground::Event);
    if world.with_room(|room| room.queues.lock_of(ticket)).is_none() {
        return;
    }
    if settled == Settled::TurnIsOver {
        // Others are being let in, and it may be among them.
        let now = world.now();
        return world.with_room(|room| room.set_deadline(ticket, now));
    }
    world.with_room(|room| room.counters.timeouts = room.counters.timeouts.wrapping_add(1));
    answer(world, ticket, Answer::TimeIsUp { left_ms: world.left_ms(lock) });
}

/// Lets the next one go of those who wait on a server that grants nothing any more. Tells whether there was one.
fn dismiss_next<W: World>(world: &W) -> bool {
    let Some(ticket) = world.with_room(Room::next_dismissed) else { return false };
    answer(world, ticket, Answer::NowReplica);
    true
}

/// Takes back the next hold that was granted to a client who is gone. Tells whether there was one.
///
/// Holders come back under the same name. So a hold that has ended meanwhile is not looked for, nor one that may be another
/// by now: it ends with its lease.
fn give_back_next<W: World>(world: &W) -> bool {
    let Some(hold) = world.with_room(|room| room.agenda.undelivered.pop_front()) else { return false };
    let lock = LockName { database: hold.database, key: &hold.key };
    if world.now() <= hold.end && (!hold.put_off || world.is_untouched(&hold)) {
        match world.permission(lock, Ground::GiveBack) {
            Permission::Granted => world.give_back(&hold),
            Permission::Later(ms) => {
                world.with_room(|room| room.agenda.undelivered.push_front(hold));
                rest(world, ms);
                return true;
            }
            // It went with its key.
            Permission::Elsewhere => {}
        }
    }
    world.with_room(|room| room.key_changed(lock));
    true
}

/// Has the next one go in whose holder is in already. Tells whether there was one.
fn reenter_next<W: World>(world: &W) -> bool {
    let Some(reentry) = world.with_room(|room| room.agenda.reentries.pop_front()) else { return false };
    if let Some((database, key)) = world.with_room(|room| room.queues.name(reentry.lock)) {
        reenter(world, LockName { database, key: &key }, reentry, Ground::Event);
    }
    true
}

/// Looks at the next lock that something has happened to. Tells whether there was one.
fn look_at_next<W: World>(world: &W) -> bool {
    let Some((id, (database, key))) = world.with_room(|room| {
        let id = room.take_changed()?;
        room.queues.name(id).map(|name| (id, name))
    }) else {
        return false;
    };
    settle_queue(world, id, LockName { database, key: &key }, Ground::Event);
    true
}

/// The first who waits has got the lock. A holder that is inside goes on at once, so whoever else waits under its name
/// must not be left behind.
fn granted_first<W: World>(world: &W, id: LockId, lock: LockName<'_>, first: &Next, grant: Grant, ground: Ground) {
    if granted(world, id, first.ticket, grant) {
        let reentry = Reentry { lock: id, holder: first.holder.clone(), after: None };
        reenter(world, lock, reentry, ground);
    }
}

/// Has everyone go in who waits under the name of one who is in.
fn reenter<W: World>(world: &W, lock: LockName<'_>, mut reentry: Reentry, ground: Ground) {
    let namesake =
        |room: &mut Room<W::Client>, reentry: &Reentry| room.namesake(reentry.lock, &reentry.holder, reentry.after);
    while let Some(next) = world.with_room(|room| namesake(room, &reentry)) {
        // The holder may have left meanwhile, and then the turn is another's.
        match world.acquire(lock, &next, Ahead::Someone, ground) {
            Tried::Granted(grant) => drop(granted(world, reentry.lock, next.ticket, grant)),
            // A reader that also waits to write keeps its place.
            Tried::Busy { .. } => {}
            Tried::Later(ms) => {
                world.with_room(|room| room.agenda.reentries.push_back(reentry));
                return rest(world, ms);
            }
            Tried::Elsewhere => answer(world, next.ticket, Answer::SlotMoved),
            Tried::Refused(refusal) => answer(world, next.ticket, Answer::Refused(refusal)),
        }
        reentry.after = Some(next.ticket);
        if world.turn_is_over() {
            return world.with_room(|room| room.agenda.reentries.push_back(reentry));
        }
    }
}

/// Tells whether others wait for the lock under the same name.
fn granted<W: World>(world: &W, id: LockId, ticket: Ticket, grant: Grant) -> bool {
    let granted = world.with_room(|room| {
        let granted = room.grant(ticket, grant.at, grant.end)?;
        if let Some(end) = grant.end {
            room.is_busy_until_at_most(id, end.saturating_add(1));
        }
        Some(granted)
    });
    let Some(Granted { waiter: Waiter { client, want, .. }, has_namesakes }) = granted else { return false };
    world.answer(client, want, Answer::Granted { token: grant.token });
    has_namesakes
}

fn answer<W: World>(world: &W, ticket: Ticket, answer: Answer) {
    if let Some(Waiter { client, want, .. }) = world.with_room(|room| room.leave(ticket)) {
        world.answer(client, want, answer);
    }
}

fn rest<W: World>(world: &W, ms: i64) {
    let now = world.now();
    world.with_room(|room| room.rest_until(now, now.saturating_add(ms)));
}
