//! The followers of this server (replicas, a backlog for replicas that return, an AOF file): whether there are any, and the
//! plain commands that they get. The server puts everything that one command replicates into one MULTI/EXEC.
//!
//! Replicating a change costs as much as making it, even without followers: the server looks up the command and copies its
//! arguments before it checks for followers. So nothing is replicated while there are none.
//!
//! That is safe because a follower begins with a snapshot that a forked child writes, and the server reports each fork from
//! within it. The snapshot has what was left out; from then on everything is replicated, until the server, which is asked now
//! and then, has no followers. Only a replica that continues its old master's stream at a promoted replica gets no snapshot, so
//! a change of role counts like a fork. In a cluster everything is always replicated: slots move in other ways, too.
//!
//! The server looks up each replicated command by its name, and drops it without an error if it has none of this name. So a
//! server with a configuration that renames one must not load the module: [`missing_command`] finds that out.

use super::kept::{self, kept};
use crate::server::ffi::api::{api, flag, missing};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::ffi::this_server;
use crc::{CRC_64_REDIS, Crc, Table};
use redis_module::raw;
use rlock_core::lock::Mode;
use std::ffi::{CStr, c_int, c_void};

pub fn there_may_be() -> bool {
    !kept().has_no_follower.get()
}

pub fn there_may_be_replicas() -> bool {
    !kept().has_no_replica.get()
}

/// Makes the server count a change that is under way, and returns whether to replicate it. Call this after every write, not
/// once: a follower may have begun to follow in between.
pub(super) fn begin_change(context: &Context) -> bool {
    let replicates = !context.is_command || there_may_be();
    if !replicates && !context.is_counted.replace(true) {
        // By this the server counts the command's changes for its save points. Every other way costs something even without
        // followers. With a follower, this would replicate the command itself.
        // SAFETY: the context is alive, and belongs to a command.
        unsafe { api!(RedisModule_ReplicateVerbatim(context.as_ptr())) };
    }
    replicates
}

/// Replicates a command with arguments of the types in the format: `s` a string, `l` a long long.
macro_rules! send {
    ($context:expr, $command:expr, $format:literal, [$($word:ident),+] $(, $number:ident)?) => {
        // SAFETY: the context and the strings are alive, and are as many as the format says; the number is a long long.
        unsafe {
            let (command, format) = ($command.as_ptr(), $format.as_ptr());
            _ = api!(RedisModule_Replicate($context.as_ptr(), command, format, $($word.as_ptr()),+ $(, $number)?));
        }
    };
}

/// If there are followers, replicates a command with these words, and perhaps a number after them.
pub(super) fn replicate(context: &Context, command: &CStr, words: &[Str<'_>], number: Option<i64>) {
    if begin_change(context) {
        match (words, number) {
            ([one], None) => send!(context, command, c"s", [one]),
            ([one, two], None) => send!(context, command, c"ss", [one, two]),
            ([one, two, three], None) => send!(context, command, c"sss", [one, two, three]),
            ([one, two, three, four, five], None) => {
                send!(context, command, c"sssss", [one, two, three, four, five]);
            }
            ([one], Some(number)) => send!(context, command, c"sl", [one], number),
            ([one, two], Some(number)) => send!(context, command, c"ssl", [one, two], number),
            ([one, two, three], Some(number)) => send!(context, command, c"sssl", [one, two, three], number),
            _ => missing("command of so many words"),
        }
    }
}

/// Makes the replicas publish a message to their own subscribers. It is not written to the AOF file (`A`).
pub(super) fn publish(context: &Context, command: &CStr, channel: Str<'_>, message: Str<'_>) {
    if (!context.is_command || there_may_be_replicas()) && begin_change(context) {
        send!(context, command, c"Ass", [channel, message]);
    }
}

const COMMANDS: [&CStr; 14] = [
    c"HSET",
    c"HINCRBY",
    c"HDEL",
    c"PEXPIREAT",
    c"DEL",
    c"SET",
    c"INCR",
    c"PUBLISH",
    c"SPUBLISH",
    c"ZADD",
    c"ZREM",
    c"ZREMRANGEBYRANK",
    // The module does not replicate this one, but the server begins its transactions with it.
    c"MULTI",
    // Nor this one: the module calls it to ask the server whether a grant may be written.
    c"SETRANGE",
];

/// A needed command that the server does not know by its name. This uses nothing of `kept`: if loading fails, the server
/// drops the module as it is.
pub fn missing_command(context: &Context) -> Option<&'static CStr> {
    COMMANDS.into_iter().find(|name| !knows(context, name))
}

fn knows(context: &Context, name: &CStr) -> bool {
    let argument = OwnedStr::new(name.to_bytes());
    let mut arguments = [argument.lend().as_ptr()];
    let mut keys = 0;
    // SAFETY: one argument is passed. With no arguments after its name each of these commands is either refused
    // for that, or has no keys, so no list of keys comes back that we would have to free; the reason is in errno.
    let list = unsafe { api!(RedisModule_GetCommandKeys(context.as_ptr(), arguments.as_mut_ptr(), 1, &raw mut keys)) };
    !list.is_null() || std::io::Error::last_os_error().kind() != std::io::ErrorKind::NotFound
}

/// Replicates everything from now on, until the server says again that there are no followers.
pub fn replicate_everything() {
    kept().has_no_follower.set(false);
    kept().has_no_replica.set(false);
}

/// Finds out how new locks can be replicated, and subscribes to the server's forks, with which followers begin.
///
/// # Errors
/// If the server refuses: without news of forks no command may be left out.
pub fn subscribe(context: &Context) -> Result<(), String> {
    kept().restores.set(knows(context, c"RESTORE"));
    if this_server::is_in_cluster() {
        return Ok(());
    }
    // SAFETY: the callback is for this event.
    unsafe { context.on(raw::REDISMODULE_EVENT_FORK_CHILD, forked) }
}

/// # Safety
/// To be called by the server, when a child was born or has ended.
unsafe extern "C" fn forked(_: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    replicate_everything();
}

/// Called at each turn of the server's cron: asks about once a second whether there are still followers.
pub fn has_a_turn(context: &Context, turns_per_second: i32) {
    if this_server::is_in_cluster() {
        return;
    }
    let turns = kept().turns.get().saturating_add(1);
    let ask = turns >= turns_per_second && there_may_be();
    kept().turns.set(if ask { 0 } else { turns });
    if ask {
        let alone = has_no_replica(context);
        kept().has_no_replica.set(alone);
        kept().has_no_follower.set(alone && writes_no_file(context));
    }
}

/// Whether the server reports neither a replica nor a backlog, nor a save: that may be a replica's snapshot.
fn has_no_replica(context: &Context) -> bool {
    context.flags() & flag::IS_MASTER != 0
        && all_zero(context, c"replication", &[c"connected_slaves", c"repl_backlog_active"])
        && all_zero(context, c"persistence", &[c"rdb_bgsave_in_progress"])
}

fn writes_no_file(context: &Context) -> bool {
    let fields = [c"aof_enabled", c"aof_rewrite_in_progress", c"aof_rewrite_scheduled"];
    all_zero(context, c"persistence", &fields)
}

/// Whether the server reports 0 for all these fields. A field that it does not have does not count as 0.
fn all_zero(context: &Context, section: &CStr, fields: &[&CStr]) -> bool {
    // SAFETY: the context is alive; what the server returns is freed below, and not used after that.
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

/// The type of a hash as pairs of strings: the oldest form, which every server reads, whatever form it keeps in memory.
const HASH: u8 = 4;

/// The version of the format. A server refuses a newer one than its own; all servers that load the module have newer ones.
const VERSION: [u8; 2] = 9_u16.to_le_bytes();

const CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The bytes in addition to the field: the mode, lengths, version and checksum.
const OVERHEAD: usize = 32;

/// A new lock, as the `<hash>` of the one command by which followers get it: `RESTORE key <end> <hash> ABSTTL REPLACE`. It
/// has the field of its only holder, with a count of 1, and, unless it is a plain lock, its mode.
///
/// RESTORE sets the fields and the lease together: a lock without its lease would never end. Two commands would need a
/// transaction around them, and these four cost followers and the log half of what a lock costs. REPLACE also makes a
/// hand-over one command: it replaces one holder's fields by the next one's.
pub(super) fn dump(mode: Option<Mode>, field: Str<'_>) -> Vec<u8> {
    let field = field.bytes();
    let mut dump = Vec::with_capacity(field.len().saturating_add(OVERHEAD));
    dump.extend([HASH, if mode.is_some() { 2 } else { 1 }]);
    if let Some((name, value)) = mode.map(kept::mode) {
        append(&mut dump, name.bytes());
        append(&mut dump, value.bytes());
    }
    append(&mut dump, field);
    append(&mut dump, b"1");
    dump.extend(VERSION);
    let checksum = CHECKSUM.checksum(&dump);
    dump.extend(checksum.to_le_bytes());
    dump
}

/// Appends a string after its length, which takes six bits, or fourteen after a mark. No field is longer.
fn append(dump: &mut Vec<u8>, string: &[u8]) {
    const TWO_BYTES: u8 = 0x40;
    let [high, low] = u16::try_from(string.len()).unwrap_or(u16::MAX).to_be_bytes();
    if high == 0 && low < TWO_BYTES {
        dump.push(low);
    } else {
        dump.extend([high | TWO_BYTES, low]);
    }
    dump.extend(string);
}
