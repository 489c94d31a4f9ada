//! Waiting in the server: clients that are blocked until a lock is theirs.
//!
//! [`rlock_core::waiting`] decides which waiter is served when; here is the host that it acts on: the server's keys and
//! clients, its one timer, and the events that report what others do. This file is what commands use.

mod blocked_client;
mod callbacks;
mod fitness;
mod host;
pub(super) mod listening;
mod sessions;
pub(super) mod state;
mod timer;
mod turn;
mod views;

use super::edge::{ErrorLine, settings};
use super::ffi::context::Context;
use super::ffi::string::{OwnedStr, Str};
use super::keys::LockRecord;
use blocked_client::BlockedClient;
use host::{Release, Server};
use rlock_core::lock::{self, Acquired, Ahead, Breaking, Changes, Outcome, Side, UnixMs, Wish};
use rlock_core::waiting::serve::{self, Trigger};
use rlock_core::waiting::{LockName, Names, Recipient, Use, Waiter};
use state::Blocked;

pub(super) use callbacks::subscribe;
pub use sessions::{EventsCall, cancel, end, events};
pub use views::{QueueView, SessionView, WaiterView, beginning, queue, queues, sessions as list_sessions};

/// How a client waits for a lock that is not granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<A> {
    /// 0 means for ever.
    pub limit_ms: i64,
    /// The session and the ticket; without them the client is blocked.
    pub ticket: Option<(A, A)>,
}

/// What became of an acquire.
pub enum Acquiring {
    Done(Outcome),
    /// The client is blocked, and gets its answer later.
    Blocked,
    /// The ticket waits, and the session is told later.
    Waiting,
}

/// Acquires a lock for the client of this command, which may wait for it.
///
/// # Errors
/// The error reply.
pub fn acquire(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<Str<'_>>>,
) -> Result<Acquiring, ErrorLine> {
    let ticket = match waiting.and_then(|waiting| waiting.ticket) {
        Some((session, ticket)) => Some((sessions::find(context, session)?, ticket)),
        None => None,
    };
    if let Some((session, ticket)) = ticket {
        let lock = lock_name(context, key);
        let wish = wish.with_holder(wish.holder.bytes());
        let used = state::with(|table| table.use_of(session, ticket.bytes(), lock, &wish));
        match used {
            Use::Free => {}
            Use::Same => return Ok(Acquiring::Waiting),
            Use::Other => return Err(TICKET_IN_USE),
        }
    }
    let (record, ahead) = open(context, key, wish);
    let now = context.now();
    let decision = lock::acquire(&record, wish, ahead, now)?;
    match (decision.answer, waiting) {
        (Acquired::Granted { token }, _) => {
            record.apply(&decision.changes)?;
            serve_behind(context, key, wish.holder);
            state::count_grant();
            Ok(Acquiring::Done(Outcome::Granted { token }))
        }
        (Acquired::Busy, Some(Waiting { limit_ms, .. })) if ticket.is_some() || context.may_block() => {
            lock::check_wait(wish.side, &record)?;
            // Whoever is ahead has had it looked at; but with sessions, perhaps nobody attends those who are.
            let must_know = ahead == Ahead::Nobody || state::has_sessions();
            let left_ms = must_know.then(|| lock::left_ms(wish.side, &record, now)).transpose()?;
            drop(record);
            let deadline = (limit_ms > 0).then(|| now.checked_add(limit_ms)).flatten();
            if let Some((session, ticket)) = ticket {
                let names = Names::of_ticket(wish.holder.bytes(), ticket.bytes());
                let waiter = Waiter { recipient: Recipient::Session(session), wish: wish.with_holder(names) };
                return queue_up(context, key, waiter, now, deadline, left_ms);
            }
            if block(context, key, wish, now, deadline, left_ms)? {
                return Ok(Acquiring::Blocked);
            }
            busy(&LockRecord::open(context, key, wish.holder), wish.side, now)
        }
        (Acquired::Busy, _) => busy(&record, wish.side, now),
    }
}

/// For a client that does not wait, or that cannot be blocked.
fn busy(record: &LockRecord<'_>, side: Side, now: UnixMs) -> Result<Acquiring, ErrorLine> {
    let left_ms = lock::left_ms(side, record, now)?;
    state::count_refusal();
    Ok(Acquiring::Done(Outcome::Busy { left_ms }))
}

/// Opens a lock, and returns whether another client waits for it. A lock whose key is gone is the waiters' first, even
/// if the server has not yet reported that.
fn open<'a>(context: &'a Context, key: Str<'a>, wish: &Wish<Str<'a>>) -> (LockRecord<'a>, Ahead) {
    let record = LockRecord::open(context, key, wish.holder);
    if state::is_empty() || !state::with(|table| table.is_waited_for(lock_name(context, key))) {
        return (record, Ahead::Nobody);
    }
    if record.is_there() {
        // Only a reader may join others in the lock, past waiters whom nobody attends.
        let may_pass = wish.side == Side::Read && state::has_sessions();
        let ahead = || serve::ahead(&Server::new(context), lock_name(context, key));
        return (record, if may_pass { ahead() } else { Ahead::Someone });
    }
    drop(record);
    let ahead = serve(context, key);
    (LockRecord::open(context, key, wish.holder), ahead)
}

/// Blocks the client of this command until the lock is granted or the time is up. Returns whether it could be blocked.
fn block(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    now: UnixMs,
    deadline: Option<UnixMs>,
    left_ms: Option<i64>,
) -> Result<bool, ErrorLine> {
    let most = settings::max_waiters();
    // Checked before the client is blocked, since it cannot be unblocked without an answer.
    if state::with(|table| table.blocked_clients() >= most) {
        return Err(QUEUE_FULL);
    }
    callbacks::listen_to_keys(context, wish.side);
    let Some(client) = BlockedClient::block(context, &callbacks::OF_CLIENT) else { return Ok(false) };
    let client_key = client.key();
    let names = Names::from(wish.holder.bytes());
    let waiter = Waiter { recipient: Recipient::Client(client), wish: wish.with_holder(names) };
    let lock = lock_name(context, key);
    let ticket =
        serve::wait(&Server::new(context), lock, waiter, now, most, deadline, left_ms).map_err(|_| QUEUE_FULL)?;
    state::with_all(|state| state.blocked.insert(client_key, Blocked::ForLock(ticket)));
    callbacks::arm_timer(context);
    Ok(true)
}

/// Has a session's ticket wait until the lock is granted or the time is up.
fn queue_up(
    context: &Context,
    key: Str<'_>,
    waiter: Waiter<BlockedClient>,
    now: UnixMs,
    deadline: Option<UnixMs>,
    left_ms: Option<i64>,
) -> Result<Acquiring, ErrorLine> {
    callbacks::listen_to_keys(context, waiter.wish.side);
    let (lock, most) = (lock_name(context, key), settings::max_tickets());
    serve::wait(&Server::new(context), lock, waiter, now, most, deadline, left_ms).map_err(|_| TICKETS_FULL)?;
    callbacks::arm_timer(context);
    Ok(Acquiring::Waiting)
}

/// Serves the waiters of this lock, after a holder was granted it at once.
fn serve_behind(context: &Context, key: Str<'_>, holder: Str<'_>) {
    if state::is_empty() {
        return;
    }
    serve::settle_behind(&Server::new(context), lock_name(context, key), holder.bytes(), Trigger::Command);
    callbacks::arm_timer(context);
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
    let lock = lock_name(context, release.key);
    let result = serve::release(&Server::new(context), lock, release, Trigger::Command);
    callbacks::arm_timer(context);
    result
}

fn lock_name<'a>(context: &Context, key: Str<'a>) -> LockName<'a> {
    LockName { database: context.database(), key: key.bytes() }
}

const TICKET_IN_USE: ErrorLine = ErrorLine(
    c"ERR ticket is in use for another wait: for another lock, holder or side, or by FENCED, until its event is acknowledged",
);

const TICKETS_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many tickets are in use as rlock.max-tickets allows");

const QUEUE_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many clients wait for locks as rlock.max-waiters allows");
