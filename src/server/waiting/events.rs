//! What the server tells of: keys that go or become something else, databases that are emptied or swapped, and this
//! server becoming a replica.
//!
//! Nothing is granted inside such a callback: what has happened is not replicated yet, and a grant would come before it
//! in the stream. Newer servers run a job right after the command, before anyone else's; on older ones the timer goes
//! off at once, and RLOCK commands that come first serve the queue themselves.

use super::world::Server;
use super::{clock, guarded, room};
use crate::lock::{Kind, LockName, Room, serve};
use crate::server::api::{api, flag};
use crate::server::context::{self, Context};
use crate::server::followers;
use crate::server::many_readers;
use crate::server::string::Str;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The events after which a key may be no lock any more, another one, or one that ends at another time.
const EVENTS: [&CStr; 13] = [
    c"expire",
    // Redisson's writer that steps down to its reads changes nothing else.
    c"hset",
    c"persist",
    c"del",
    c"expired",
    c"evicted",
    c"rename_from",
    c"rename_to",
    c"move_from",
    c"move_to",
    c"copy_to",
    c"restore",
    c"overwritten",
];

/// The events of which, where our commands cause them, those see to the lock themselves.
const OURS: [&CStr; 4] = [c"hincrby", c"expire", c"hset", c"hdel"];

static LISTENING_TO_KEYS: AtomicBool = AtomicBool::new(false);
static LISTENING_TO_HASHES: AtomicBool = AtomicBool::new(false);

/// From the first waiter on; and to changes of hashes, which only who waits for a read-write lock or has many readers in
/// mind has to know of, from the first of those on. A server calls whoever listens for each key that anybody touches, so who has no use for it does not
/// pay for it.
pub(in crate::server) fn listen_to_keys(context: &Context, kind: Kind) {
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
    if room::is_empty() && many_readers::is_empty() {
        return flag::OK;
    }
    // SAFETY: the server passes a name that ends with a NUL, for the time of this call.
    let event = unsafe { CStr::from_ptr(event) };
    if context::are_announced() && OURS.contains(&event) {
        return flag::OK;
    }
    let tells_of_an_end = EVENTS.contains(&event);
    if !tells_of_an_end && many_readers::is_empty() {
        return flag::OK;
    }
    guarded(flag::OK, || {
        let strings = [key];
        // SAFETY: the server passes a context and a key's name, both for the time of this call.
        let (context, key) = unsafe { (Context::new(context), Str::arguments(strings.as_ptr().cast_mut(), 1)) };
        let Some(key) = key.first() else { return flag::OK };
        if !context::are_announced() {
            many_readers::forget_changed(&context, *key);
        }
        if tells_of_an_end && !room::is_empty() {
            something_happened(&context, context.database(), Some(key.bytes()));
            if event == c"expired" {
                count_expiry(LockName { database: context.database(), key: key.bytes() });
            }
        }
        flag::OK
    })
}

fn count_expiry(lock: LockName<'_>) {
    room::with(|room| {
        let waited_for = u64::from(room.queues.has(lock));
        room.counters.lease_expiries = room.counters.lease_expiries.wrapping_add(waited_for);
    });
}

/// Notes what is to be looked at, the lock or the whole database, and has it done as soon as it can be.
fn something_happened(context: &Context, database: i32, key: Option<&[u8]>) {
    let news = room::with(|room| {
        let before = room.unsettled.len();
        match key.map(|key| LockName { database, key }) {
            Some(lock) => room.unsettled.extend(room.queues.has(lock).then(|| (lock.database, lock.key.into()))),
            // A negative database is all of them.
            None => room.unsettled.extend(
                room.queues
                    .names()
                    .filter(|lock| database < 0 || lock.database == database)
                    .map(|lock| (lock.database, lock.key.into())),
            ),
        }
        room.unsettled.len() > before
    });
    if news && !after_this_command(context) {
        clock::arm(context);
    }
}

/// Has the locks looked at by a job after the command under way. Not before Redis 7.2.
fn after_this_command(context: &Context) -> bool {
    // SAFETY: the context is alive; the job takes no data.
    unsafe {
        raw::RedisModule_AddPostNotificationJob
            .is_some_and(|add| add(context.as_ptr(), Some(job), ptr::null_mut(), None) == flag::OK)
    }
}

/// # Safety
/// To be called by the server, as a job.
unsafe extern "C" fn job(context: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guarded((), || {
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        clock::catch_up(&context);
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
    guarded((), many_readers::forget_all);
    guarded((), || room::with(Room::forget_grants));
    if now != raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA || room::is_empty() {
        return;
    }
    guarded((), || {
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        serve::dismiss_all(&Server(&context));
        clock::arm(&context);
    });
}

/// # Safety
/// To be called by the server, around FLUSHDB and FLUSHALL.
unsafe extern "C" fn flushed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    info: *mut c_void,
) {
    guarded((), many_readers::forget_all);
    if moment != raw::REDISMODULE_SUBEVENT_FLUSHDB_END || room::is_empty() {
        return;
    }
    guarded((), || {
        // SAFETY: the server passes its context and, for this event, this structure.
        let (context, info) = unsafe { (Context::new(context), info.cast::<raw::RedisModuleFlushInfo>().as_ref()) };
        something_happened(&context, info.map_or(-1, |info| info.dbnum), None);
    });
}

/// # Safety
/// To be called by the server, for SWAPDB.
unsafe extern "C" fn swapped(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _moment: u64,
    info: *mut c_void,
) {
    guarded((), many_readers::forget_all);
    if room::is_empty() {
        return;
    }
    guarded((), || {
        // SAFETY: the server passes its context and, for this event, this structure.
        let (context, info) = unsafe { (Context::new(context), info.cast::<raw::RedisModuleSwapDbInfo>().as_ref()) };
        for database in info.map_or([-1, -1], |info| [info.dbnum_first, info.dbnum_second]) {
            something_happened(&context, database, None);
        }
    });
}
