//! Waiting in the server: clients that are kept until a lock is theirs.
//!
//! Who is served when is decided in [`crate::lock::serve`]; here is the world that it acts on: the server's keys and
//! clients, its one timer, and the events by which it tells of what others do.

mod breaking;
mod clock;
mod events;
mod ground;
mod info;
mod kept_client;
mod line;
mod room;
mod turn;
mod world;

use super::context::{Context, Reply};
use super::entry::ErrorLine;
use super::lock_record::LockRecord;
use super::panics::guarded;
use super::settings;
use super::string::Str;
use crate::lock::serve::{self, Ground};
use crate::lock::{Acquire, Ahead, Effects, Kind, LockName, UnixMs, Waiter};
use kept_client::KeptClient;
use world::{Release, Server};

pub use breaking::break_up;
pub(super) use events::subscribe;
pub(super) use info::register as register_info;
pub use line::{InLine, Line, WaitedFor, line, queues};
pub use room::{count_grant, count_refusal};

/// What a request to wait says.
pub struct Wait<'a> {
    pub key: Str<'a>,
    pub holder: Str<'a>,
    pub kind: Kind,
    pub want: Acquire,
    /// How long at most; 0 is for ever.
    pub limit_ms: i64,
    /// What is left of the lock's lease, for who is the first to wait; -1 without an end.
    pub left_ms: Option<i64>,
}

/// Opens a lock, and tells whether anyone waits for it who came first. One that has gone and that the server has not
/// told of yet is theirs first.
pub fn open<'a>(context: &'a Context, key: Str<'a>, holder: Str<'a>) -> (LockRecord<'a>, Ahead) {
    let record = LockRecord::open(context, key, holder);
    if room::is_empty() || !room::with(|room| room.is_waited_for(lock_name(context, key))) {
        return (record, Ahead::Nobody);
    }
    if record.is_there() {
        return (record, Ahead::Someone);
    }
    drop(record);
    let ahead = serve(context, key);
    (LockRecord::open(context, key, holder), ahead)
}

/// Serves who waits for this lock, after a command has changed its lease, and tells whether anyone still does.
pub fn serve(context: &Context, key: Str<'_>) -> Ahead {
    if room::is_empty() {
        return Ahead::Nobody;
    }
    let ahead = serve::settle(&Server::new(context), lock_name(context, key), Ground::Command);
    clock::arm(context);
    ahead
}

/// Keeps the client of this command until the lock is granted or the time is up. None if it is one that cannot be kept.
///
/// # Errors
/// If too many wait already.
pub fn keep(context: &Context, wait: &Wait<'_>, now: UnixMs) -> Result<Option<Reply>, ErrorLine> {
    let limit = settings::max_waiters();
    // Asked for before the client is kept, which cannot be undone without an answer.
    if room::with(|room| room.length() >= limit) {
        return Err(QUEUE_FULL);
    }
    events::listen_to_keys(context, wait.kind);
    let deadline = (wait.limit_ms > 0).then(|| now.checked_add(wait.limit_ms)).flatten();
    let Some(client) = KeptClient::keep(context) else { return Ok(None) };
    let waiter = Waiter { client, holder: wait.holder.bytes().into(), kind: wait.kind, want: wait.want };
    let lock = lock_name(context, wait.key);
    serve::keep(&Server::new(context), lock, waiter, now, limit, deadline, wait.left_ms).map_err(|_| QUEUE_FULL)?;
    clock::arm(context);
    Ok(Some(Reply::Later))
}

/// Makes a release true. Where it frees a lock that others wait for, the first of them gets it in the same step.
///
/// # Errors
/// The error reply, with nothing changed, where this is not the time to write.
pub fn release<'a>(
    context: &'a Context,
    record: LockRecord<'a>,
    released: &'a Effects,
    key: Str<'a>,
) -> Result<(), ErrorLine> {
    if room::is_empty() {
        return record.apply(released);
    }
    let result = serve::release(&Server::new(context), lock_name(context, key), Release { context, record, released });
    clock::arm(context);
    result
}

fn lock_name<'a>(context: &Context, key: Str<'a>) -> LockName<'a> {
    LockName { database: context.database(), key: key.bytes() }
}

const QUEUE_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many clients wait for locks as rlock.max-waiters allows");
