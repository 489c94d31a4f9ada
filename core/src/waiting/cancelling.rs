//! Tickets that their process takes back by name.
//!
//! A command may name more of them than one turn of the server has time for. Then its client is blocked, the agenda has
//! the rest, and the client is answered when nothing of any of them is left: so a hold that cannot be given back yet has
//! its command wait. The tickets that were named but not come to are as they were, and may be granted meanwhile.

use super::agenda::{Cancelling, Hold};
use super::engine::Engine;
use super::waiter::SessionId;
use crate::lock::UnixMs;

/// What was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    Nothing,
    Ticket,
    /// A ticket with a grant that is not acknowledged.
    Granted(Hold),
}

impl<C> Engine<C> {
    /// Takes a ticket back. A session that has ended has none to be found.
    pub(super) fn take_back(&mut self, id: SessionId, ticket: &[u8]) -> Cancelled {
        if !self.sessions.is_open(id) {
            return Cancelled::Nothing;
        }
        if let Some(waiting) = self.waiting_ticket(id, ticket) {
            self.leave(waiting);
            self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
            return Cancelled::Ticket;
        }
        let Some(event) = self.sessions.of_outbox(id, |outbox| outbox.take_of_ticket(ticket)) else {
            return Cancelled::Nothing;
        };
        event.hold().map_or(Cancelled::Ticket, Cancelled::Granted)
    }

    /// Has these tickets taken back as well, and then the client told their number and that of those `found` before.
    pub(super) fn cancel_rest(&mut self, id: SessionId, names: Vec<Box<[u8]>>, found: usize, client: C) {
        let names = names.into_iter();
        self.cancelling.push_back(Cancelling { client: Some(client), session: id, names, found, hold: None });
    }

    /// Takes back a client whose tickets are being taken back, since it waits no longer.
    pub(super) fn stop_waiting_for_cancel(&mut self, is_it: impl Fn(&C) -> bool) -> Option<C> {
        let of_it = |cancelling: &&mut Cancelling<C>| cancelling.client.as_ref().is_some_and(&is_it);
        self.cancelling.iter_mut().find(of_it)?.client.take()
    }

    /// The next one to go on with.
    pub(super) fn take_cancelling(&mut self, now: UnixMs) -> Option<Cancelling<C>> {
        if self.cancelling.front()?.hold.is_some() && self.is_resting(now) {
            return None;
        }
        self.cancelling.pop_front()
    }

    /// Those that can go on come in turn.
    pub(super) fn put_back_cancelling(&mut self, cancelling: Cancelling<C>) {
        if cancelling.hold.is_some() {
            self.cancelling.push_front(cancelling);
        } else {
            self.cancelling.push_back(cancelling);
        }
    }
}
