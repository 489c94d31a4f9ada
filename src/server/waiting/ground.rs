//! Whether this is the place and the time to grant: what the server checks before it runs a client's command, asked for
//! grants that no command of the waiter's brings about.

use crate::lock::serve::{Ground, Permission};
use crate::server::api::{api, flag};
use crate::server::cluster;
use crate::server::context::Context;
use crate::server::string::Str;

/// There is no event when a pause ends.
pub(super) const PAUSED_MS: i64 = 20;

const UNFIT_MS: i64 = 100;

/// Asks the server itself, which takes a command on the key. It must not be open.
pub(super) fn ask(context: &Context, key: Str<'_>, ground: Ground) -> Permission {
    match ground {
        Ground::Command => Permission::Granted,
        Ground::GiveBack if !cluster::enabled() => Permission::Granted,
        Ground::Event | Ground::GiveBack => probe(context, key),
    }
}

/// What can be told without a command, whichever lock it is.
pub(super) fn fitness(context: &Context, ground: Ground) -> Permission {
    let flags = context.flags();
    let is_full = flags & flag::IS_FULL != 0 && ground != Ground::GiveBack;
    if flags & flag::IS_MASTER == 0 || flags & flag::IS_LOADING != 0 || is_full {
        return Permission::Later(UNFIT_MS);
    }
    // Writing while writes are paused would abort the server.
    if context.ensure_writes_go_on().is_err() {
        return Permission::Later(PAUSED_MS);
    }
    Permission::Granted
}

/// Asks the server by a command that writes nothing but is checked as if it did: an empty piece put into a string. On a
/// lock it is the wrong type, which is as good as a yes.
fn probe(context: &Context, key: Str<'_>) -> Permission {
    // SAFETY: the format says a string, a long long and a C string behind its modifiers, and these are passed. The reply
    // is ours and freed below. The modifiers: check as for a script, check memory, errors as replies.
    unsafe {
        let reply = api!(RedisModule_Call(
            context.as_ptr(),
            c"SETRANGE".as_ptr(),
            c"SMEslc".as_ptr(),
            key.as_ptr(),
            0_i64,
            c"".as_ptr(),
        ));
        if reply.is_null() {
            return elsewhere();
        }
        let is_error = api!(RedisModule_CallReplyType(reply)) == flag::ERROR_REPLY;
        let mut length = 0;
        let text = api!(RedisModule_CallReplyStringPtr(reply, &raw mut length));
        let text: &[u8] =
            if is_error && !text.is_null() { std::slice::from_raw_parts(text.cast(), length) } else { b"" };
        let permission = if !is_error || text.starts_with(b"WRONGTYPE") {
            Permission::Granted
        } else if cluster::enabled() && contains(text, b"non local key") {
            elsewhere()
        } else {
            Permission::Later(UNFIT_MS)
        };
        api!(RedisModule_FreeCallReply(reply));
        permission
    }
}

fn contains(text: &[u8], piece: &[u8]) -> bool {
    text.windows(piece.len()).any(|window| window == piece)
}

fn elsewhere() -> Permission {
    if cluster::enabled() { Permission::Elsewhere } else { Permission::Later(UNFIT_MS) }
}
