//! Whether this server may grant a lock now: what it checks before it runs a client's command, asked for grants that no
//! command of the waiter's causes.

use crate::server::ffi::api::flag;
use crate::server::ffi::call::call;
use crate::server::ffi::cluster;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::server::keys::PAUSED;
use rlock_core::waiting::{Permission, Trigger};

const UNFIT_MS: i64 = 100;

/// Asks the server itself, by a command on the key. The key must not be open.
pub(super) fn ask(context: &Context, key: Str<'_>, trigger: Trigger) -> Permission {
    match trigger {
        Trigger::Command => Permission::Granted,
        Trigger::Revocation if !cluster::enabled() => Permission::Granted,
        Trigger::Event | Trigger::Revocation => probe(context, key),
    }
}

/// What is known without a command, for any lock.
pub(super) fn fitness(context: &Context, trigger: Trigger) -> Permission {
    let flags = context.flags();
    let is_full = flags & flag::IS_FULL != 0 && trigger != Trigger::Revocation;
    if flags & flag::IS_MASTER == 0 || flags & flag::IS_LOADING != 0 || is_full {
        return Permission::Later(UNFIT_MS);
    }
    // Writing while writes are paused would abort the server.
    if context.writes_are_paused() {
        return Permission::Later(PAUSED.for_ms);
    }
    Permission::Granted
}

/// Whether the server would refuse a client's command that needs memory. Only a server that seems full is asked: one that
/// evicts keys makes room.
pub(super) fn is_out_of_memory(context: &Context) -> bool {
    if context.flags() & flag::IS_FULL == 0 {
        return false;
    }
    // SAFETY: a C string, a long long and a C string, as the format says behind its modifiers: check memory, errors as
    // replies. It puts an empty piece into a string, which changes nothing.
    let reply = unsafe { call!(context, c"SETRANGE", c"MEclc", c"".as_ptr(), 0_i64, c"".as_ptr()) };
    reply.is_some_and(|reply| reply.error().is_some_and(|error| error.starts_with(b"OOM")))
}

/// Asks the server by a command that writes nothing but is checked as if it did: it puts an empty piece into a string.
/// On a lock it fails with the wrong type, which is as good as a yes.
fn probe(context: &Context, key: Str<'_>) -> Permission {
    // SAFETY: a string, a long long and a C string, as the format says behind its modifiers: check as for a script,
    // check memory, errors as replies.
    let reply = unsafe { call!(context, c"SETRANGE", c"SMEslc", key.as_ptr(), 0_i64, c"".as_ptr()) };
    let Some(reply) = reply else { return elsewhere() };
    match reply.error() {
        None => Permission::Granted,
        Some(error) if error.starts_with(b"WRONGTYPE") => Permission::Granted,
        Some(_) if cluster::enabled() && reply.is_error_with(b"non local key") => elsewhere(),
        Some(_) => Permission::Later(UNFIT_MS),
    }
}

fn elsewhere() -> Permission {
    if cluster::enabled() { Permission::Elsewhere } else { Permission::Later(UNFIT_MS) }
}
