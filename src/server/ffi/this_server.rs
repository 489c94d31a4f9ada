//! Which server this is, for differences that no function of the module API shows by its presence; whether the module was
//! tested on it; and whether it is a node of a cluster, which never changes while it runs.

use super::api::{api, flag};
use super::call::call;
use super::context::Context;
use super::string::Str;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The newest servers on which all tests have passed, as major and minor version: docs/servers.md says how each was built.
const TRIED_REDIS: (c_int, c_int) = (8, 6);
const TRIED_VALKEY: (c_int, c_int) = (9, 1);

/// A warning for the log, if this server is newer than all on which the module was tested.
pub fn warning() -> Option<String> {
    is_newer_than_tried(is_valkey(), number())
}

fn is_newer_than_tried(is_valkey: bool, number: c_int) -> Option<String> {
    let version = (number >> 16, number >> 8 & 0xff);
    let (kind, tried) = if is_valkey { ("Valkey", TRIED_VALKEY) } else { ("Redis", TRIED_REDIS) };
    (version > tried).then(|| {
        let ((major, minor), (tried_major, tried_minor)) = (version, tried);
        format!(
            "rlock was tested up to {kind} {tried_major}.{tried_minor}, and not on {kind} {major}.{minor}: docs/servers.md \
             says what is known of newer servers, and how to run the tests on this one"
        )
    })
}

pub fn is_valkey() -> bool {
    let mut function: *mut c_void = std::ptr::null_mut();
    let name = c"ValkeyModule_GetServerVersion".as_ptr();
    // SAFETY: the server writes at most one function pointer to this address.
    unsafe { api!(RedisModule_GetApi(name, (&raw mut function).cast())) == flag::OK }
}

/// Whether CLIENT UNBLOCK leaves a client without any reply if it coincides with the client's grant: Redis before 7.4.
pub fn loses_replies() -> bool {
    !is_valkey() && number() < 0x0007_0400
}

/// Whether an event about a key switches the client behind the event to the key's database, and leaves it there. Valkey
/// 8.1 and 9.0 do this, also for events that modules announce.
pub fn events_move_clients() -> bool {
    is_valkey() && (0x0008_0100..0x0009_0100).contains(&number())
}

/// Whether the server has no clients yet: a module that is loaded later is loaded by a client.
pub fn is_starting(context: &Context) -> bool {
    let (section, field) = (c"clients".as_ptr(), c"connected_clients".as_ptr());
    let mut problem: c_int = 0;
    // SAFETY: the context is alive; what the server returns is freed at once.
    let clients = unsafe {
        let info = api!(RedisModule_GetServerInfo(context.as_ptr(), section));
        let clients = api!(RedisModule_ServerInfoGetFieldUnsigned(info, field, &raw mut problem));
        api!(RedisModule_FreeServerInfo(context.as_ptr(), info));
        clients
    };
    problem != flag::OK || clients == 0
}

/// Two digits each for major, minor and patch.
fn number() -> c_int {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_GetServerVersion()) }
}

static IS_IN_CLUSTER: AtomicBool = AtomicBool::new(false);

pub fn learn(context: &Context) {
    IS_IN_CLUSTER.store(context.flags() & flag::IN_CLUSTER != 0, Ordering::Relaxed);
}

pub fn is_in_cluster() -> bool {
    IS_IN_CLUSTER.load(Ordering::Relaxed)
}

/// Whether two keys of one slot that are absent here exist at no other node, either. While the slot moves, the server
/// refuses a command with two keys that it does not have. Neither key may be open.
pub fn has_all_there_is_of(context: &Context, one: Str<'_>, other: Str<'_>) -> bool {
    // SAFETY: two strings, as the format says. Without a modifier that asks for errors as replies, there is no reply if the
    // server does not run the command.
    let reply = unsafe { call!(context, c"EXISTS", c"ss", one.as_ptr(), other.as_ptr()) };
    reply.is_some_and(|reply| reply.error().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_newer_than_every_tested_one_are_warned_of() {
        for (is_valkey, number) in
            [(false, 0x0007_000f), (false, 0x0008_0603), (true, 0x0008_0000), (true, 0x0009_0163)]
        {
            assert_eq!(is_newer_than_tried(is_valkey, number), None, "{number:x}");
        }
        let warnings = [(false, 0x0008_0800), (true, 0x0009_0200), (true, 0x000a_0000)]
            .map(|(is_valkey, number)| is_newer_than_tried(is_valkey, number).unwrap_or_default());
        let begins = [
            "up to Redis 8.6, and not on Redis 8.8:",
            "up to Valkey 9.1, and not on Valkey 9.2:",
            "not on Valkey 10.0:",
        ];
        for (warning, begins) in warnings.iter().zip(begins) {
            assert!(warning.contains(begins), "{warning}");
        }
    }
}
