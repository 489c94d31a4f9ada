//! Who stands in line, for people on call.

use super::{lock_name, room};
use crate::lock::{Kind, Queued, UnixMs, Waited};
use crate::server::client_address::Addresses;
use crate::server::context::Context;
use crate::server::entry::ErrorLine;
use crate::server::rights::Reader;
use crate::server::string::Str;
use std::rc::Rc;

/// Who waits for one lock.
pub struct Line {
    /// All of them.
    pub length: usize,
    /// From the first on.
    pub waiters: Vec<InLine>,
}

pub struct InLine {
    pub holder: Rc<[u8]>,
    pub kind: Kind,
    pub client: u64,
    /// As CLIENT LIST says it.
    pub address: Option<Vec<u8>>,
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
}

/// Who waits for this lock; no more of them than `most`.
#[must_use]
pub fn line(context: &Context, key: Str<'_>, most: usize) -> Line {
    if room::is_empty() {
        return Line { length: 0, waiters: Vec::new() };
    }
    let lock = lock_name(context, key);
    let mut line = room::with(|room| {
        let waiters = room.queue(lock).take(most).map(|Queued { waiter, since, deadline }| InLine {
            holder: Rc::clone(&waiter.holder),
            kind: waiter.kind,
            client: waiter.client.number(),
            address: None,
            since,
            deadline,
        });
        Line { length: room.length_of(lock), waiters: waiters.collect() }
    });
    let addresses = Addresses::new(context);
    for waiter in &mut line.waiters {
        waiter.address = addresses.of(waiter.client);
    }
    line
}

/// A lock that is waited for.
pub struct WaitedFor {
    pub key: Rc<[u8]>,
    pub waiters: usize,
    pub since: UnixMs,
    pub served: u64,
}

/// The locks of this database that are waited for and that the user may know of, the longest queue first; no more of them
/// than `most`.
///
/// # Errors
/// Where there is no user who asks.
pub fn queues(context: &Context, most: usize) -> Result<Vec<WaitedFor>, ErrorLine> {
    let reader = Reader::of(context)?;
    // To ask for a right calls nobody back.
    Ok(room::with(|room| {
        let readable = room.to_be_shown(context.database(), most, |key| reader.may_read(key));
        let waited_for = |queue: Waited<'_>| WaitedFor {
            key: queue.lock.key.into(),
            waiters: queue.waiters,
            since: queue.since,
            served: queue.served,
        };
        readable.map(waited_for).collect()
    }))
}
