//! A waiter's claims: its place in the queue of each lock that it waits for, 1 to 64. The first claim is the waiter itself, which
//! gets the outcome; the others only point to it. A waiter holds none of its locks before it gets all.

use super::Map;
use super::agenda::Notes;
use super::queue::{LockId, Queues, Ticket};
use super::waiter::{Recipient, Waiter};

/// The queues of all locks.
type AllQueues<C> = Queues<Waiter<C>, Notes>;

/// What is kept of the waiters for several locks. For all other waiters, the queues have everything.
#[derive(Debug, Default)]
pub(super) struct Claims {
    of_several: Map<Ticket, Several>,
    /// The number of claims other than the first ones.
    pub beside: usize,
}

#[derive(Debug)]
pub(super) struct Several {
    /// In the order in which the locks were asked for.
    all: Box<[Ticket]>,
    /// How often it was overtaken.
    pub overtaken: u8,
    /// The index of the claim that it lacked last time.
    pub lacks: usize,
}

/// The waiter of a claim.
pub(super) fn waiter_of<C>(queues: &AllQueues<C>, claim: Ticket) -> Ticket {
    match queues.waiter(claim).map(|wait| &wait.recipient) {
        Some(Recipient::Of(waiter)) => *waiter,
        _ => claim,
    }
}

impl Claims {
    /// Whether no waiter has more than one claim.
    pub fn is_empty(&self) -> bool {
        self.of_several.is_empty() && self.beside == 0
    }

    /// A waiter for several locks begins to wait.
    pub fn begin(&mut self, waiter: Ticket, all: Box<[Ticket]>) {
        self.of_several.insert(waiter, Several { all, overtaken: 0, lacks: 0 });
    }

    /// All claims of a waiter, in the order in which it asked for the locks.
    pub fn all<'a>(&'a self, waiter: &'a Ticket) -> &'a [Ticket] {
        self.of_several.get(waiter).map_or(std::slice::from_ref(waiter), |several| &several.all)
    }

    /// All claims except the first one.
    pub fn beside(&self, waiter: Ticket) -> Vec<Ticket> {
        self.of_several.get(&waiter).map_or_else(Vec::new, |several| several.all.iter().skip(1).copied().collect())
    }

    /// The locks of a waiter.
    pub fn locks<C>(&self, queues: &AllQueues<C>, waiter: Ticket) -> Vec<LockId> {
        self.all(&waiter).iter().filter_map(|claim| queues.lock_of(*claim)).collect()
    }

    /// What is kept of a waiter; None if it waits for one lock.
    pub fn of_several(&self, waiter: Ticket) -> Option<&Several> {
        self.of_several.get(&waiter)
    }

    pub fn of_several_mut(&mut self, waiter: Ticket) -> Option<&mut Several> {
        self.of_several.get_mut(&waiter)
    }

    /// A claim leaves its queue.
    pub fn forget<C>(&mut self, queues: &AllQueues<C>, claim: Ticket) {
        if self.is_empty() {
            return;
        }
        if waiter_of(queues, claim) == claim {
            self.of_several.remove(&claim);
        } else {
            self.beside = self.beside.saturating_sub(1);
        }
    }

    /// A fault of the claims, if there is one.
    pub fn fault<C>(&self, queues: &AllQueues<C>) -> Option<&'static str> {
        let mut beside: usize = 0;
        for (waiter, several) in &self.of_several {
            let is_its = |claim: &Ticket| queues.lock_of(*claim).is_some() && waiter_of(queues, *claim) == *waiter;
            if several.all.first() != Some(waiter) || !several.all.iter().all(is_its) {
                return Some("a waiter has lost a claim");
            }
            beside = beside.saturating_add(several.all.len().saturating_sub(1));
        }
        if beside != self.beside {
            return Some("the claims are miscounted");
        }
        let is_known = |(claim, _): (Ticket, &Waiter<C>)| self.all(&waiter_of(queues, claim)).contains(&claim);
        (!queues.all().all(is_known)).then_some("a claim has lost its waiter")
    }
}
