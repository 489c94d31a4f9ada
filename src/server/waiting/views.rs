//! Queues as people on call see them.

use super::state;
use crate::lock::{Side, UnixMs};
use crate::server::edge::ErrorLine;
use crate::server::edge::client_address::Addresses;
use crate::server::edge::rights::Reader;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::waiting::{LockName, QueueSummary, Queued};
use std::rc::Rc;

/// The queue of one lock.
pub struct QueueView {
    /// The number of all its waiters.
    pub length: usize,
    /// The first of the waiters, in their order.
    pub waiters: Vec<WaiterView>,
}

pub struct WaiterView {
    pub holder: Rc<[u8]>,
    pub side: Side,
    pub client: u64,
    /// The client's address, as CLIENT LIST says it.
    pub address: Option<Vec<u8>>,
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
}

/// The waiters of this lock, at most `limit` of them.
#[must_use]
pub fn queue(context: &Context, key: Str<'_>, limit: usize) -> QueueView {
    let lock = LockName { database: context.database(), key: key.bytes() };
    let mut queue = state::with(|table| {
        let waiters = table.queue(lock).take(limit).map(|Queued { waiter, since, deadline }| WaiterView {
            holder: Rc::clone(&waiter.wish.holder),
            side: waiter.wish.side,
            client: waiter.recipient.number(),
            address: None,
            since,
            deadline,
        });
        QueueView { length: table.length_of(lock), waiters: waiters.collect() }
    });
    let addresses = Addresses::new(context);
    for waiter in &mut queue.waiters {
        waiter.address = addresses.of(waiter.client);
    }
    queue
}

/// The locks of this database that have waiters and that the user may read, the longest queue first; at most `limit` of
/// them.
///
/// # Errors
/// If the call has no user.
pub fn queues(context: &Context, limit: usize) -> Result<Vec<QueueSummary>, ErrorLine> {
    let reader = Reader::of(context)?;
    // Asking for a right calls nothing back.
    let may_read = |key: &[u8]| reader.may_read(key);
    Ok(state::with(|table| table.to_be_shown(context.database(), limit, may_read).collect()))
}
