//! Tells Redisson's waiters that a lock may be free.

use super::{kept, replicate};
use crate::server::edge::settings::{self, Notify};
use crate::server::ffi::api::api;
use crate::server::ffi::cluster;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{Unlock, names};

/// Publishes an unlock of `key` to the subscribers of this server and its replicas. In a cluster the server itself
/// carries it to the other nodes.
pub(super) fn unlocked(context: &Context, key: Str<'_>, unlock: Unlock) {
    let (publish, spublish) = match settings::notify() {
        Notify::Off => return,
        Notify::Auto => (!cluster::enabled(), cluster::enabled()),
        Notify::Publish => (true, false),
        Notify::Spublish => (false, true),
        Notify::Both => (true, true),
    };
    let channel = names::channel(key.bytes(), unlock, OwnedStr::new);
    let message = match unlock {
        Unlock::Plain | Unlock::Read => kept::get().zero.lend(),
        Unlock::Write => kept::get().one.lend(),
    };
    let to_replicas = !cluster::enabled();
    if publish {
        // SAFETY: the context and both strings are alive; the server takes references of its own.
        unsafe { api!(RedisModule_PublishMessage(context.as_ptr(), channel.lend().as_ptr(), message.as_ptr())) };
        if to_replicas {
            replicate::publish(context, c"PUBLISH", channel.lend(), message);
        }
    }
    if spublish {
        // SAFETY: as above.
        unsafe { api!(RedisModule_PublishMessageShard(context.as_ptr(), channel.lend().as_ptr(), message.as_ptr())) };
        if to_replicas {
            replicate::publish(context, c"SPUBLISH", channel.lend(), message);
        }
    }
}
