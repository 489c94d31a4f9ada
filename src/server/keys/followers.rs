//! Whether anybody follows this server: replicas, a backlog for replicas that come back, an AOF file.
//!
//! To report a change to followers costs as much as to make it, even if there are none: the server looks up the command
//! and copies its arguments before it asks whether anyone listens. So nothing is replicated while nobody follows.
//!
//! That is safe because a follower begins with a snapshot that a forked child writes, and the server reports each fork
//! inside of it. The snapshot has what was left out; from then on all is replicated. When to stop, the server is asked
//! now and then. Only a replica that reads on, from a promoted one, what its old master said has no snapshot; so a
//! change of role counts like a fork. In a cluster all is replicated always: slots move in other ways, too.

use super::kept::kept;
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::cluster;
use crate::server::ffi::context::Context;
use crate::server::ffi::panics::guarded;
use redis_module::raw;
use std::ffi::{CStr, c_int, c_void};

pub fn there_may_be() -> bool {
    !kept().followers.none.get()
}

pub fn there_may_be_replicas() -> bool {
    !kept().followers.no_replicas.get()
}

/// Whether a change that is under way is replicated. Ask after every write, not once: a follower may have begun to
/// follow in between.
pub fn are_told(context: &Context) -> bool {
    let tells = !context.is_command || there_may_be();
    context.unreplicated.set(context.unreplicated.get() || !tells);
    tells
}

/// Whether a message is replicated to the followers that have subscribers of their own.
pub fn replicas_are_told(context: &Context) -> bool {
    !context.is_command || there_may_be_replicas()
}

/// Has the server count the changes of a command that were not replicated, for its save points. This is the one way
/// that costs nothing while nobody follows; with a follower, it would replicate the command itself.
pub fn count_unreplicated(context: &Context) {
    if context.unreplicated.get() && !there_may_be() {
        // SAFETY: the context is alive, and a command's.
        unsafe { api!(RedisModule_ReplicateVerbatim(context.as_ptr())) };
    }
}

/// Replicates everything from now on, until the server says again that nobody follows.
pub fn begin_to_tell() {
    kept().followers.none.set(false);
    kept().followers.no_replicas.set(false);
}

pub fn subscribe(context: &Context) -> Result<(), String> {
    if cluster::enabled() {
        return Ok(());
    }
    // Without news of forks nothing may ever be left out.
    // SAFETY: the callbacks are for these events.
    let results = unsafe {
        [context.on(raw::REDISMODULE_EVENT_FORK_CHILD, forked), context.on(raw::REDISMODULE_EVENT_CRON_LOOP, cron)]
    };
    if results.iter().all(|result| *result == flag::OK) {
        Ok(())
    } else {
        Err("the server does not let it listen to its forks".to_owned())
    }
}

/// # Safety
/// To be called by the server, when a child was born or has ended.
unsafe extern "C" fn forked(_: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    begin_to_tell();
}

/// # Safety
/// To be called by the server, at each turn of its cron.
unsafe extern "C" fn cron(context: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, info: *mut c_void) {
    // SAFETY: the server passes this structure with this event.
    let turns_per_second = unsafe { info.cast::<raw::RedisModuleCronLoopInfo>().as_ref() }.map_or(10, |info| info.hz);
    let followers = &kept().followers;
    let turns = followers.turns.get().saturating_add(1);
    let ask = turns >= turns_per_second && there_may_be();
    followers.turns.set(if ask { 0 } else { turns });
    if !ask {
        return;
    }
    guarded((), || {
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        let alone = has_no_replica(&context);
        followers.no_replicas.set(alone);
        followers.none.set(alone && writes_no_file(&context));
    });
}

/// Whether the server says that it has neither a replica nor a backlog. A save may be a replica's snapshot.
fn has_no_replica(context: &Context) -> bool {
    context.flags() & flag::IS_MASTER != 0
        && all_zero(context, c"replication", &[c"connected_slaves", c"repl_backlog_active"])
        && all_zero(context, c"persistence", &[c"rdb_bgsave_in_progress"])
}

fn writes_no_file(context: &Context) -> bool {
    let fields = [c"aof_enabled", c"aof_rewrite_in_progress", c"aof_rewrite_scheduled"];
    all_zero(context, c"persistence", &fields)
}

/// Whether the server says that all these fields are 0: a field that it does not have says nothing.
fn all_zero(context: &Context, section: &CStr, fields: &[&CStr]) -> bool {
    // SAFETY: the context is alive; what the server tells is freed below, and not used after that.
    unsafe {
        let info = api!(RedisModule_GetServerInfo(context.as_ptr(), section.as_ptr()));
        let zero = |field: &&CStr| {
            let mut problem: c_int = 0;
            let value = api!(RedisModule_ServerInfoGetFieldUnsigned(info, field.as_ptr(), &raw mut problem));
            problem == flag::OK && value == 0
        };
        let zeros = fields.iter().all(zero);
        api!(RedisModule_FreeServerInfo(context.as_ptr(), info));
        zeros
    }
}
