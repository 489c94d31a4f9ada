//! A waiter: what it wants, and how it gets the outcome.
//!
//! A waiter is a blocked client, which gets the outcome as the reply to its command; or a ticket of a session, which gets it
//! as an event. There may be a million tickets, so both names are kept in one piece, and a waiter in few bytes.

use super::queue::Ticket;
use super::store::Place;
use crate::lock::{Lease, Side, Wish};
use std::ops::Deref;
use std::rc::Rc;

/// A waiter's names: its holder's name, and behind it the ticket's name if the waiter is a ticket.
#[derive(Clone, PartialEq, Eq)]
pub struct Names {
    both: Rc<[u8]>,
    holder: u16,
}

impl Names {
    /// The names of a ticket. Both are short: a command refuses longer ones.
    #[must_use]
    pub fn of_ticket(holder: &[u8], ticket: &[u8]) -> Self {
        let both = holder.iter().chain(ticket).copied().collect();
        Self { both, holder: u16::try_from(holder.len()).unwrap_or(u16::MAX) }
    }

    #[must_use]
    pub fn holder(&self) -> &[u8] {
        self.both.get(..usize::from(self.holder)).unwrap_or(&self.both)
    }

    /// Empty if the waiter is no ticket.
    #[must_use]
    pub fn ticket(&self) -> &[u8] {
        self.both.get(usize::from(self.holder)..).unwrap_or_default()
    }
}

/// The names of a blocked client: the holder's name alone.
impl From<&[u8]> for Names {
    fn from(holder: &[u8]) -> Self {
        Self { both: holder.into(), holder: u16::try_from(holder.len()).unwrap_or(u16::MAX) }
    }
}

impl Deref for Names {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.holder()
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |name| String::from_utf8_lossy(name).into_owned();
        formatter.debug_tuple("Names").field(&text(self.holder())).field(&text(self.ticket())).finish()
    }
}

/// A session, until it has ended and nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub(super) place: Place,
    /// The low half of a growing number: it distinguishes sessions that have the same place one after the other.
    pub(super) number: u32,
}

/// The recipient of the outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient<C> {
    /// A blocked client. Dropping it unblocks the client without an answer.
    Client(C),
    Session(SessionId),
    /// For a further claim of a waiter: the waiter's first claim.
    Of(Ticket),
}

/// The command by which a lock was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    Acquire,
    /// The command for several locks, even if it names only one.
    AcquireAll,
    /// A wait by ONCE, which can also get the answer of another holder's work.
    Once,
}

/// A waiter, in few bytes.
#[derive(Debug)]
pub struct Waiter<C> {
    pub recipient: Recipient<C>,
    names: Rc<[u8]>,
    lease: Lease,
    holder: u16,
    pub side: Side,
    pub fenced: bool,
    pub asked_by: AskedBy,
}

impl<C> Waiter<C> {
    pub fn new(recipient: Recipient<C>, wish: Wish<Names>, asked_by: AskedBy) -> Self {
        let Wish { holder: Names { both, holder }, side, lease, fenced } = wish;
        Self { recipient, names: both, lease, holder, side, fenced, asked_by }
    }

    pub fn wish(&self) -> Wish<Names> {
        let names = Names { both: Rc::clone(&self.names), holder: self.holder };
        Wish { holder: names, side: self.side, lease: self.lease, fenced: self.fenced }
    }

    pub fn holder(&self) -> &[u8] {
        self.names.get(..usize::from(self.holder)).unwrap_or(&self.names)
    }

    pub fn ticket(&self) -> &[u8] {
        self.names.get(usize::from(self.holder)..).unwrap_or_default()
    }

    pub fn is_of_several(&self) -> bool {
        self.asked_by == AskedBy::AcquireAll
    }

    pub fn session(&self) -> Option<SessionId> {
        match self.recipient {
            Recipient::Client(_) | Recipient::Of(_) => None,
            Recipient::Session(session) => Some(session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_ticket_are_its_holders_and_its_own() {
        let names = Names::of_ticket(b"ann", b"7");
        assert_eq!((names.holder(), names.ticket(), &*names), (&b"ann"[..], &b"7"[..], &b"ann"[..]));
        let (holder, ticket) = ([b'h'; 512], [b't'; 64]);
        for length in [1, 64, 100, 128, 512] {
            let names = Names::of_ticket(&holder[..length], &ticket);
            assert_eq!((names.holder(), names.ticket()), (&holder[..length], &ticket[..]));
        }
        let names = Names::from(&b"ann"[..]);
        assert_eq!((names.holder(), names.ticket()), (&b"ann"[..], &b""[..]));
    }

    #[test]
    fn a_waiter_is_kept_in_few_bytes() {
        assert!(size_of::<Waiter<[u64; 2]>>() <= 56, "{}", size_of::<Waiter<[u64; 2]>>());
    }
}
