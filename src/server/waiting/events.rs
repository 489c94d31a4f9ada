//! What the server tells of: keys that go or become something else, databases that are emptied or swapped, and this
//! server becoming a replica.
//!
//! **In each of these callbacks the server is in the middle of something**, so nothing is done in them but to note what has
//! happened. A grant would come before the event's cause in the replication stream; and a look at a key may delete it, as
//! its time may be over, which is fatal where the server walks through its keys: while it sweeps out expired keys it holds a
//! pointer to the next one, and tells of each in between. So what the server does by itself is left to the timer, which goes
//! off in the same turn of the event loop, outside of everything.
//!
//! What a command has done is followed by a job, on servers that have them (Redis 7.2, all Valkeys): it runs right behind
//! the command, before anyone else's, and its grants are replicated in one transaction with what the command did. It looks at
//! the locks that this command has changed and at no other, there is one at most, and it leaves everything to the timer if
//! the last that was heard of is a sweep of the server's: then it is not behind a command, whatever it was set for.

use super::world::Server;
use super::{clock, guarded, room};
use crate::lock::{Kind, LockName, Room, serve};
use crate::server::api::{api, flag};
use crate::server::context::{self, Context};
use crate::server::followers;
use crate::server::string::Str;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The events after which a key may be no lock any more, another one, or one that ends at another time, where somebody's
/// command has brought it about.
const BY_COMMANDS: [&CStr; 11] = [
    c"expire",
    // Redisson's writer that steps down to its reads changes nothing else.
    c"hset",
    c"persist",
    c"del",
    c"rename_from",
    c"rename_to",
    c"move_from",
    c"move_to",
    c"copy_to",
    c"restore",
    c"overwritten",
];

/// The same, where the server does it by itself. A command may come across a key whose time is over, too.
const BY_SERVER: [&CStr; 2] = [c"expired", c"evicted"];

/// The events of which, where our commands cause them, those see to the lock themselves.
const OURS: [&CStr; 4] = [c"hincrby", c"expire", c"hset", c"hdel"];

static LISTENING_TO_KEYS: AtomicBool = AtomicBool::new(false);
static LISTENING_TO_HASHES: AtomicBool = AtomicBool::new(false);

/// Whether the last event was one of [`BY_SERVER`].
static IS_SWEEPING: AtomicBool = AtomicBool::new(false);

/// Whether a job is set that has not run.
static JOB_IS_SET: AtomicBool = AtomicBool::new(false);

/// From the first waiter on; and to changes of hashes, which only who waits for a read-write lock has to know of, from the
/// first of those on. A server calls whoever listens for each key that anybody touches, so who has no use for it does not
/// pay for it.
pub(super) fn listen_to_keys(context: &Context, kind: Kind) {
    if !LISTENING_TO_KEYS.swap(true, Ordering::Relaxed) {
        let may_end_it = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
        listen(context, raw::REDISMODULE_NOTIFY_GENERIC | may_end_it);
    }
    if kind != Kind::Plain && !LISTENING_TO_HASHES.swap(true, Ordering::Relaxed) {
        listen(context, raw::REDISMODULE_NOTIFY_HASH);
    }
}

fn listen(context: &Context, classes: c_int) {
    // SAFETY: the context is alive, and the callback is one for keyspace events. The server never refuses.
    unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(context.as_ptr(), classes, Some(key_event))) };
}

pub(in crate::server) fn subscribe(context: &Context) -> Result<(), String> {
    // SAFETY: the callbacks are for these events.
    let results = unsafe {
        [
            context.on(raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, role_changed),
            context.on(raw::REDISMODULE_EVENT_FLUSHDB, flushed),
            context.on(raw::REDISMODULE_EVENT_SWAPDB, swapped),
        ]
    };
    if results.iter().all(|result| *result == flag::OK) {
        Ok(())
    } else {
        Err("the server does not let it listen to its events".to_owned())
    }
}

/// # Safety
/// To be called by the server, for a keyspace event.
unsafe extern "C" fn key_event(
    context: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    if room::is_empty() {
        return flag::OK;
    }
    // SAFETY: the server passes a name that ends with a NUL, for the time of this call.
    let event = unsafe { CStr::from_ptr(event) };
    let by_server = BY_SERVER.contains(&event);
    IS_SWEEPING.store(by_server, Ordering::Relaxed);
    if !by_server && !BY_COMMANDS.contains(&event) || context::are_announced() && OURS.contains(&event) {
        return flag::OK;
    }
    guarded(flag::OK, || {
        let strings = [key];
        // SAFETY: the server passes a context and a key's name, both for the time of this call.
        let (context, key) = unsafe { (Context::new(context), Str::arguments(strings.as_ptr().cast_mut(), 1)) };
        let Some(key) = key.first() else { return flag::OK };
        let lock = LockName { database: context.database(), key: key.bytes() };
        let is_waited_for = room::with(|room| {
            let is_waited_for = if by_server { room.key_changed(lock) } else { room.key_changed_by_command(lock) };
            if is_waited_for && event == c"expired" {
                room.counters.lease_expiries = room.counters.lease_expiries.wrapping_add(1);
            }
            is_waited_for
        });
        if is_waited_for {
            if !by_server {
                set_job(&context);
            }
            clock::arm_at_once(&context);
        }
        flag::OK
    })
}

/// Sets a job behind the command under way, unless one is set already. The timer is armed all the same: it is for what the
/// job leaves, and for servers without jobs.
fn set_job(context: &Context) {
    // SAFETY: a pointer that the server has set at load, or has not. The context is alive; the job takes no data.
    let set = || unsafe {
        raw::RedisModule_AddPostNotificationJob
            .is_some_and(|add| add(context.as_ptr(), Some(job), ptr::null_mut(), None) == flag::OK)
    };
    if JOB_IS_SET.load(Ordering::Relaxed) {
        return;
    }
    if set() {
        JOB_IS_SET.store(true, Ordering::Relaxed);
    } else {
        room::with(Room::forget_command);
    }
}

/// # Safety
/// To be called by the server, as a job.
unsafe extern "C" fn job(context: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    JOB_IS_SET.store(false, Ordering::Relaxed);
    guarded((), || {
        if IS_SWEEPING.load(Ordering::Relaxed) {
            return room::with(Room::forget_command);
        }
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        serve::follow_command(&Server::new(&context));
        clock::arm(&context);
    });
}

/// # Safety
/// To be called by the server, when it becomes a master or a replica.
unsafe extern "C" fn role_changed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    now: u64,
    _data: *mut c_void,
) {
    // A module has one listener for each event, so this one speaks for both who want to know.
    followers::begin_to_tell();
    guarded((), || room::with(Room::forget_grants));
    if now != raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA {
        return;
    }
    // Some servers are about to let the clients go themselves.
    note(context, Room::dismiss_all);
}

/// # Safety
/// To be called by the server, around FLUSHDB and FLUSHALL.
unsafe extern "C" fn flushed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    info: *mut c_void,
) {
    if moment != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: the server passes, for this event, this structure.
    let info = unsafe { info.cast::<raw::RedisModuleFlushInfo>().as_ref() };
    // A negative number is all of them.
    let database = info.map(|info| info.dbnum).filter(|database| *database >= 0);
    note(context, |room| room.database_changed(database));
}

/// # Safety
/// To be called by the server, for SWAPDB.
unsafe extern "C" fn swapped(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _moment: u64,
    info: *mut c_void,
) {
    // SAFETY: the server passes, for this event, this structure.
    let info = unsafe { info.cast::<raw::RedisModuleSwapDbInfo>().as_ref() };
    note(context, |room| match info {
        Some(info) => {
            room.database_changed(Some(info.dbnum_first));
            room.database_changed(Some(info.dbnum_second));
        }
        None => room.database_changed(None),
    });
}

/// Notes what has happened, and has it seen to as soon as the server is done with it.
fn note(context: *mut raw::RedisModuleCtx, what: impl FnOnce(&mut Room<super::KeptClient>)) {
    if room::is_empty() {
        return;
    }
    guarded((), || {
        // SAFETY: a context that the server has passed to the callback that calls this.
        let context = unsafe { Context::new(context) };
        room::with(what);
        clock::arm(&context);
    });
}
