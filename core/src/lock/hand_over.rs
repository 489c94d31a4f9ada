//! A hand-over: the release of a lock and the next holder's grant as one step.
//!
//! The lock is deleted and begins anew, with no moment in between in which it is free. The release was decided before,
//! and the grant is an acquire of a free lock; this file decides what each of the two changes.

use super::decide::acquire_freed;
use super::request::{Effect, Wish};
use super::{Changes, Record, Side, UnixMs};

/// The changes that are written in one step, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The releasing holder's changes.
    pub released: Changes,
    /// The next holder's grant.
    pub granted: Effect,
}

/// Hands over a lock that `released` would free. None if the next holder may not have it even then.
pub fn hand_over<H>(record: &impl Record, released: Changes, next: &Wish<H>, now: UnixMs) -> Option<HandOver> {
    let granted = acquire_freed(record, next, now).ok()??;
    // The lock is not free, so a waiter of Redisson's can act only in two cases: readers may join a new reader, and a
    // client that sleeps until the old lease ends must know of one that ends before it.
    let can_act = next.side == Side::Read || granted.changes.ends_before(record.expiry());
    let released = if can_act { released } else { released.unpublished() };
    Some(HandOver { released, granted })
}
