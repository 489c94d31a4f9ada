//! The server's callbacks about waiting: keys that go or become something else, databases that are emptied or
//! swapped, this server becoming a replica, clients that are answered or gone, and the timer.
//!
//! **In each of these callbacks except the timer's, the server is in the middle of something**, so each only notes what has
//! happened. A grant would come before the event's cause in the replication stream; and reading an expired key may
//! delete it, which is fatal while the server walks through its keys: its sweep of expired keys holds a pointer to the
//! next key while it reports each one. So the timer follows up the server's own work: it goes off in the same turn of the
//! event loop, outside of everything.
//!
//! A job follows up what a command has done: it runs right after the command, before any other client's, and its grants are
//! replicated in one transaction with the command's changes. Redis from 7.2 on and Valkey have jobs, but none is set on Valkey
//! 8.1 and 9.0, where the events of a job would switch the command's client to their database. A job checks only the locks that
//! this command has changed, and there is at most one. If the last event is from a sweep of the server's, the job does not
//! follow a command, whatever it was set for, and leaves everything to the timer.

use super::blocked_client::{self, BlockedClient, Callbacks, ClientKey};
use super::fences;
use super::host::{self, Server};
use super::state::{self, Armed, Blocked, Hooks};
use super::telling;
use crate::server::edge::{reply, users};
use crate::server::ffi::api::{api, flag, guarded};
use crate::server::ffi::context::Context;
use crate::server::ffi::latency;
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::ffi::this_server;
use crate::server::keys::{followers, is_ours};
use redis_module::raw;
use rlock_core::lock::{Outcome, UnixMs, longer_left};
use rlock_core::waiting::{Cause, LockName, Note, WaitsFor};
use rlock_core::words::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// After these events of other clients' commands, a key may be no lock any more, another lock, or a lock that ends at
/// another time.
const BY_COMMANDS: [&CStr; 10] = [
    c"expire",
    // The only event when a writer of Redisson's steps down to its reads.
    c"hset",
    c"persist",
    c"del",
    c"rename_from",
    c"rename_to",
    c"move_from",
    c"move_to",
    c"copy_to",
    c"restore",
];

/// Events with the same effect that the server itself causes, also if a command comes across an expired key.
const EXPIRED: &CStr = c"expired";
const EVICTED: &CStr = c"evicted";

/// The callbacks for a blocked client.
const OF_CLIENT: Callbacks = Callbacks { reply: answer, unblocked, disconnected };

/// With more waiters and sessions than this, a debug build does not check all of them each time.
const CHECKED_MAX: usize = 50;

/// Makes sure that the timer goes off no later than the next alarm, after a change to the waiters.
///
/// It is the one timer of the module: armed for the earliest alarm, or for at once when there is work to do, and only while
/// there is something to wait for, or a subscription to end. A timer that goes off too early finds nothing due, and
/// is armed again; stopping it each time would cost more.
///
/// The server's timers go by its wall clock: if that is set back, a timer that is already armed goes off later by as much,
/// even one that was due at once. So a timer that was armed at a time after now does not count, and is armed again.
pub(super) fn arm_timer(context: &Context) {
    let (now, timer) = (context.now(), &state::get().timer);
    // The borrower of the engine arms the timer when it is done.
    let Ok(mut engine) = state::engine() else { return };
    let server = &Server::new(context);
    engine.read_notes(server);
    fences::log_grace(engine.take_grace_news(server));
    let is_small = engine.length().saturating_add(engine.sessions().len()) <= CHECKED_MAX;
    debug_assert!(!is_small || engine.fault().is_none(), "{:?}", engine.fault());
    let has_unanswered = !state::get().clients.borrow().unanswered.is_empty();
    let at_once = (has_unanswered || state::get().grace_is_unchecked.get()).then_some(UnixMs::MIN);
    let due = [
        at_once,
        engine.wakes_next_at(server),
        state::get().listening.borrow_mut().plan_end(engine.length() == 0, now),
    ];
    let (time, serving_ms) = (due.into_iter().flatten().min(), engine.take_serving_ms());
    drop(engine);
    if let Some(ms) = serving_ms {
        latency::took(context, c"rlock-serve", ms);
    }
    if time.is_some_and(|time| timer.get().is_some_and(|armed| armed.is_in_time_for(time, now))) {
        return;
    }
    if let Some(armed) = timer.take() {
        // SAFETY: the timer is armed, so it is not the one that is just going off.
        unsafe { api!(RedisModule_StopTimer(context.as_ptr(), armed.id, ptr::null_mut())) };
    }
    timer.set(time.map(|time| {
        let period = time.saturating_sub(now).max(0);
        // SAFETY: the context is alive; the callback takes no data.
        let id =
            unsafe { api!(RedisModule_CreateTimer(context.as_ptr(), period, Some(timer_went_off), ptr::null_mut())) };
        Armed { id, time, since: now }
    }));
}

/// The same, after an event that has to be followed up: for thousands of keys in one turn, the timer is armed only once.
fn arm_timer_at_once(context: &Context) {
    if !state::get().timer.get().is_some_and(|armed| armed.is_in_time_for(UnixMs::MIN, context.now())) {
        arm_timer(context);
    }
}

/// Listens to clients that come and go, from the first session on.
pub(super) fn listen_to_clients(context: &Context) {
    if state::get().events.hears_clients.replace(true) {
        return;
    }
    // SAFETY: the callback is for this event. The server never refuses.
    _ = unsafe { context.on(raw::REDISMODULE_EVENT_CLIENT_CHANGE, client_changed) };
}

/// # Errors
/// If the server refuses; the module cannot do without these events.
pub fn subscribe(context: &Context) -> Result<(), String> {
    state::get().hooks.set(Some(Hooks { of_client: &OF_CLIENT, on_key: key_event }));
    // SAFETY: the callbacks are for these events.
    unsafe {
        context.on(raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, role_changed)?;
        context.on(raw::REDISMODULE_EVENT_FLUSHDB, flushed)?;
        context.on(raw::REDISMODULE_EVENT_SWAPDB, swapped)
    }
}

/// # Safety
/// To be called by the server, for a keyspace event.
unsafe extern "C" fn key_event(
    context: *mut raw::RedisModuleCtx,
    class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // The command that changes a lock settles its queue.
    if is_ours(event) {
        return flag::OK;
    }
    guarded(flag::OK, || {
        let engine = state::engine();
        if engine.as_ref().is_ok_and(|engine| engine.length() == 0) {
            return flag::OK;
        }
        // SAFETY: the server passes a name that ends with a NUL, for the time of this call.
        let event = unsafe { CStr::from_ptr(event) };
        let cause = match event {
            // Any event of a sorted set: there may be fewer permits, or they may end at another time.
            _ if class == raw::REDISMODULE_NOTIFY_ZSET => Some(Cause::Command),
            _ if BY_COMMANDS.contains(&event) => Some(Cause::Command),
            _ if event == EXPIRED => Some(Cause::LeaseEnd),
            _ if event == EVICTED => Some(Cause::Server),
            _ => None,
        };
        state::get().events.is_sweep.set(matches!(cause, Some(Cause::LeaseEnd | Cause::Server)));
        let Some(cause) = cause else { return flag::OK };
        let strings = [key];
        // SAFETY: the server passes a context and a key's name, both for the time of this call.
        let (context, key) = unsafe { (Context::new(context), Str::arguments(strings.as_ptr().cast_mut(), 1)) };
        let Some(key) = key.first() else { return flag::OK };
        let lock = LockName { database: context.database(), key: key.bytes() };
        let Ok(mut engine) = engine else {
            // A command of ours is running, and checks its locks when it is done. So this event needs no job.
            let cause = if cause == Cause::Command { Cause::Server } else { cause };
            state::note(Note::Key { database: lock.database, key: lock.key.into(), cause });
            return flag::OK;
        };
        let is_waited_for = engine.key_changed(lock, cause);
        drop(engine);
        if is_waited_for {
            if cause == Cause::Command {
                set_job(&context);
            }
            arm_timer_at_once(&context);
        }
        flag::OK
    })
}

/// Sets a job to run after the current command, unless one is set already. The timer is armed all the same: for what the
/// job leaves, and for servers without jobs or on which the job's own events would move the command's client.
fn set_job(context: &Context) {
    let events = &state::get().events;
    if events.job_is_set.get() {
        return;
    }
    // SAFETY: a pointer that the server has set at load, or has not. The context is alive; the job takes no data.
    let is_set = unsafe {
        raw::RedisModule_AddPostNotificationJob
            .filter(|_| !this_server::events_move_clients())
            .is_some_and(|add| add(context.as_ptr(), Some(job), ptr::null_mut(), None) == flag::OK)
    };
    events.job_is_set.set(is_set);
    if let Some(mut engine) = state::engine().ok().filter(|_| !is_set) {
        engine.forget_command();
    }
}

/// # Safety
/// To be called by the server, as a job.
unsafe extern "C" fn job(context: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guarded((), || {
        let events = &state::get().events;
        events.job_is_set.set(false);
        let Ok(mut engine) = state::engine() else { return };
        if events.is_sweep.get() {
            return engine.forget_command();
        }
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        engine.follow_command(&Server::new(&context));
        drop(engine);
        arm_timer(&context);
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
    // A module has one listener for each event, and two things depend on this one.
    followers::replicate_everything();
    // Some servers are about to unblock the clients themselves.
    note(context, Note::RoleChanged { is_replica: now == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA });
}

/// # Safety
/// To be called by the server, around FLUSHDB and FLUSHALL.
unsafe extern "C" fn flushed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    _info: *mut c_void,
) {
    if moment != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    note(context, Note::Keys);
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
    let Some(info) = info else { return };
    note(context, Note::Swapped(info.dbnum_first, info.dbnum_second));
}

/// A client has come or gone. The server is about to free the one that is gone.
///
/// # Safety
/// To be called by the server, for clients that come and go.
unsafe extern "C" fn client_changed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    what: u64,
    info: *mut c_void,
) {
    if what != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: the server passes, for this event, this structure.
    let info = unsafe { info.cast::<raw::RedisModuleClientInfo>().as_ref() };
    if let Some(info) = info {
        note(context, Note::Disconnected(info.id));
    }
}

/// Notes what has happened, and has the timer follow it up as soon as the server is done with the event.
fn note(context: *mut raw::RedisModuleCtx, note: Note) {
    guarded((), || {
        if state::note(note) {
            // SAFETY: a context that the server has passed to the callback that calls this.
            arm_timer(&unsafe { Context::new(context) });
        }
    });
}

/// # Safety
/// To be called by the server, for the timer.
unsafe extern "C" fn timer_went_off(context: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guarded((), || {
        // The server frees the timer afterwards; stopping it then would free it twice.
        state::get().timer.set(None);
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        close_unanswered(&context);
        if let Ok(mut engine) = state::engine() {
            let server = &Server::new(&context);
            engine.catch_up(server);
            fences::log_grace(engine.take_grace_news(server));
        }
        stop_listening_if_due(&context);
        fences::check_if_due(&context);
        arm_timer(&context);
    });
}

/// Ends subscriptions to keys after some time without waiters.
fn stop_listening_if_due(context: &Context) {
    let (now, Ok(engine)) = (context.now(), state::engine()) else { return };
    let mut listening = state::get().listening.borrow_mut();
    if listening.plan_end(engine.length() == 0, now).is_some_and(|end| end <= now) {
        listening.end(context, Some(key_event));
    }
}

/// Closes clients that are still connected after the server has lost their reply: they would take the next reply for
/// the answer to their wait.
fn close_unanswered(context: &Context) {
    let unanswered = std::mem::take(&mut state::get().clients.borrow_mut().unanswered);
    for number in unanswered.into_iter().filter(|_| this_server::loses_replies()) {
        blocked_client::close(context, number);
    }
}

/// Replies to a client that was unblocked.
///
/// # Safety
/// To be called by the server, with the context of a blocked client.
unsafe extern "C" fn answer(
    context: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guarded(flag::OK, || {
        // SAFETY: the context is the server's, with the client that is answered.
        let (context, client, answer) = unsafe {
            let context = Context::new(context);
            let client = ClientKey::of(&context);
            let answer = blocked_client::answer_of(&context);
            (context, client, answer)
        };
        let blocked = no_longer_blocked(client);
        // Its user was deleted, so the server drops the reply, and reports nothing.
        let is_cast_out = blocked.is_some_and(|blocked| blocked.has_own_user && !users::has_own_user(&context));
        match blocked.map(|blocked| blocked.waits_for) {
            Some(WaitsFor::Lock(ticket)) if is_cast_out => _ = state::note(Note::Gone(ticket)),
            Some(WaitsFor::Lock(ticket)) => _ = state::note(Note::Delivered(ticket)),
            _ => {}
        }
        match blocked {
            _ if is_cast_out => arm_timer(&context),
            Some(Blocked { waits_for: WaitsFor::Events(session), since_us, .. }) => {
                match answer {
                    Some(Err(line)) => reply::send(&context, Err(line)),
                    _ => telling::send_news(&context, session, since_us),
                }
                arm_timer(&context);
            }
            _ => reply::send(&context, answer.unwrap_or(Err(Error::NoAnswer))),
        }
        flag::OK
    })
}

/// Forgets a client that is answered or gone, and returns what it waited for.
fn no_longer_blocked(client: ClientKey) -> Option<Blocked> {
    state::get().clients.borrow_mut().blocked.remove(&client)
}

/// Has the engine forget a client that waits no longer, and returns it if it was not unblocked.
fn stop_waiting(context: &Context, client: ClientKey, waits_for: WaitsFor) -> Option<BlockedClient> {
    let Ok(mut engine) = state::engine() else {
        if let WaitsFor::Lock(ticket) = waits_for {
            state::note(Note::Gone(ticket));
        }
        return None;
    };
    engine.stop_waiting(waits_for, context.now(), |other| other.key() == client)
}

/// CLIENT UNBLOCK … TIMEOUT: the client gets the reply of a wait that timed out.
///
/// # Safety
/// To be called by the server, with the context of a blocked client.
unsafe extern "C" fn unblocked(
    context: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    guarded(flag::OK, || {
        // SAFETY: the context and the arguments of the command that waits are the server's.
        let (context, client, arguments) = unsafe {
            let context = Context::new(context);
            let client = ClientKey::of(&context);
            (context, client, Str::arguments(arguments, count))
        };
        let Some(Blocked { waits_for, since_us, .. }) = no_longer_blocked(client) else { return flag::OK };
        let fenced =
            state::engine().is_ok_and(|engine| matches!(waits_for, WaitsFor::Lock(ticket) if engine.is_fenced(ticket)));
        let keys = match (state::engine(), waits_for) {
            (Ok(engine), WaitsFor::Lock(ticket)) => engine.keys_of(ticket),
            _ => Vec::new(),
        };
        let taken = stop_waiting(&context, client, waits_for);
        match waits_for {
            WaitsFor::Lock(_) => {
                let left_of = |key: &[u8]| host::left_ms(&context, &OwnedStr::new(key));
                let of_one = || arguments.get(1).map(|key| left_of(key.bytes()));
                let longest = keys.iter().map(|key| left_of(key)).reduce(longer_left);
                let left_ms = longest.or_else(of_one).unwrap_or(0);
                reply::send(&context, reply::of_acquire(Outcome::Busy { left_ms }, fenced));
            }
            WaitsFor::Events(session) => telling::send_news(&context, session, since_us),
            WaitsFor::Cancel => reply::send(&context, Err(Error::StillCancelling)),
            WaitsFor::Answer => reply::send(&context, Err(Error::NoAnswer)),
        }
        drop(taken);
        arm_timer(&context);
        flag::OK
    })
}

/// The client is gone, or the server has ended its wait. The server may be in the middle of anything, even of becoming a
/// replica: so only the module's own records are updated here, and locks are checked later.
///
/// # Safety
/// To be called by the server, for a blocked client.
unsafe extern "C" fn disconnected(context: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    guarded((), || {
        // SAFETY: the context is the server's, with the client that is gone.
        let context = unsafe { Context::new(context) };
        let Some(Blocked { waits_for, .. }) = no_longer_blocked(ClientKey(client)) else { return };
        if stop_waiting(&context, ClientKey(client), waits_for).is_none() {
            state::get().clients.borrow_mut().unanswered.push(context.client());
        }
        arm_timer(&context);
    });
}
