//! Waiting in the server: clients that are blocked until a lock is theirs.
//!
//! [`crate::waiting`] decides which waiter is served when; here is the host that it acts on: the server's keys and
//! clients, its one timer, and the events that report what others do. This file is what commands use.

mod blocked_client;
mod callbacks;
mod fitness;
mod host;
pub(super) mod state;
mod timer;
mod turn;
mod views;

use super::edge::{ErrorLine, settings};
use super::ffi::context::Context;
use super::ffi::string::{OwnedStr, Str};
use super::keys::LockRecord;
use crate::lock::{self, Acquired, Ahead, Breaking, Changes, Outcome, Side, UnixMs, Wish};
use crate::waiting::serve::{self, Trigger};
use crate::waiting::{LockName, Waiter};
use blocked_client::BlockedClient;
use host::{Release, Server};

pub(super) use callbacks::subscribe;
pub use views::{QueueView, WaiterView, queue, queues};

/// Acquires a lock for the client of this command. A client that gives a time (0 means for ever) waits for the lock:
/// then there is no outcome yet, and the client gets its answer later.
///
/// # Errors
/// The error reply.
pub fn acquire(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    wait_ms: Option<i64>,
) -> Result<Option<Outcome>, ErrorLine> {
    let (record, ahead) = open(context, key, wish.holder);
    let now = context.now();
    let decision = lock::acquire(&record, wish, ahead, now)?;
    match (decision.answer, wait_ms) {
        (Acquired::Granted { token }, _) => {
            record.apply(&decision.changes)?;
            serve(context, key);
            state::count_grant();
            Ok(Some(Outcome::Granted { token }))
        }
        (Acquired::Busy, Some(limit_ms)) if context.may_block() => {
            lock::check_wait(wish.side, &record)?;
            let left_ms = (ahead == Ahead::Nobody).then(|| lock::left_ms(wish.side, &record, now)).transpose()?;
            drop(record);
            if block(context, key, wish, now, limit_ms, left_ms)? {
                return Ok(None);
            }
            busy(&LockRecord::open(context, key, wish.holder), wish.side, now)
        }
        (Acquired::Busy, _) => busy(&record, wish.side, now),
    }
}

/// For a client that does not wait, or that cannot be blocked.
fn busy(record: &LockRecord<'_>, side: Side, now: UnixMs) -> Result<Option<Outcome>, ErrorLine> {
    let left_ms = lock::left_ms(side, record, now)?;
    state::count_refusal();
    Ok(Some(Outcome::Busy { left_ms }))
}

/// Opens a lock, and returns whether another client waits for it. A lock whose key is gone is the waiters' first, even
/// if the server has not yet reported that.
fn open<'a>(context: &'a Context, key: Str<'a>, holder: Str<'a>) -> (LockRecord<'a>, Ahead) {
    let record = LockRecord::open(context, key, holder);
    if state::is_empty() || !state::with(|table| table.is_waited_for(lock_name(context, key))) {
        return (record, Ahead::Nobody);
    }
    if record.is_there() {
        return (record, Ahead::Someone);
    }
    drop(record);
    let ahead = serve(context, key);
    (LockRecord::open(context, key, holder), ahead)
}

/// Blocks the client of this command until the lock is granted or the time is up. Returns whether it could be blocked.
fn block(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    now: UnixMs,
    limit_ms: i64,
    left_ms: Option<i64>,
) -> Result<bool, ErrorLine> {
    let most = settings::max_waiters();
    // Checked before the client is blocked, since it cannot be unblocked without an answer.
    if state::with(|table| table.length() >= most) {
        return Err(QUEUE_FULL);
    }
    callbacks::listen_to_keys(context, wish.side);
    let Some(client) = BlockedClient::block(context, &callbacks::OF_CLIENT) else { return Ok(false) };
    let deadline = (limit_ms > 0).then(|| now.checked_add(limit_ms)).flatten();
    let client_key = client.key();
    let waiter = Waiter { recipient: client, wish: wish.with_holder(wish.holder.bytes().into()) };
    let lock = lock_name(context, key);
    let ticket =
        serve::wait(&Server::new(context), lock, waiter, now, most, deadline, left_ms).map_err(|_| QUEUE_FULL)?;
    state::with_all(|state| state.tickets.insert(client_key, ticket));
    callbacks::arm_timer(context);
    Ok(true)
}

/// Serves the waiters of this lock, after a command has changed its lease, and returns whether any are left.
pub fn serve(context: &Context, key: Str<'_>) -> Ahead {
    if state::is_empty() {
        return Ahead::Nobody;
    }
    let ahead = serve::settle(&Server::new(context), lock_name(context, key), Trigger::Command);
    callbacks::arm_timer(context);
    ahead
}

/// Makes a release true. If it frees a lock with waiters, the first of them gets it in the same step.
///
/// # Errors
/// The error reply, with nothing changed, if the server may not write now.
pub fn release<'a>(
    context: &'a Context,
    record: LockRecord<'a>,
    released: &'a Changes,
    key: Str<'a>,
) -> Result<(), ErrorLine> {
    if state::is_empty() {
        return record.apply(released);
    }
    release_to_waiters(Release { context, key, record, released, broken: &[] })
}

/// Breaks a lock as a snapshot of it has decided: a release of every hold that anyone has of it.
///
/// # Errors
/// The error reply, with nothing changed, if the server may not write now.
pub fn break_up<'a>(context: &'a Context, key: Str<'a>, breaking: &'a Breaking) -> Result<(), ErrorLine> {
    // An empty name, which no holder has: no hold of its own is changed.
    let nobody = OwnedStr::new(b"");
    let record = LockRecord::open(context, key, nobody.lend());
    let broken = &breaking.read_holds;
    release_to_waiters(Release { context, key, record, released: &breaking.lock, broken })?;
    state::with(|table| table.counters.breaks = table.counters.breaks.wrapping_add(1));
    Ok(())
}

fn release_to_waiters(release: Release<'_>) -> Result<(), ErrorLine> {
    let context = release.context;
    let result = serve::release(&Server::new(context), lock_name(context, release.key), release);
    callbacks::arm_timer(context);
    result
}

fn lock_name<'a>(context: &Context, key: Str<'a>) -> LockName<'a> {
    LockName { database: context.database(), key: key.bytes() }
}

const QUEUE_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many clients wait for locks as rlock.max-waiters allows");
