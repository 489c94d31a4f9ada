//! Who waits for several locks, of which he gets all or none: a *set*, with a *member* in the queue of each of its locks. The
//! first member is the one that is told, and stands for the set. `serve_sets` says when it gets them.

use super::Map;
use super::agenda::Notes;
use super::outbox::Beside;
use super::queue::{LockId, Queues, Ticket};
use super::waiter::{Recipient, Waiter};
use std::rc::Rc;

/// The queues of all locks.
type AllQueues<C> = Queues<Waiter<C>, Notes>;

#[derive(Debug, Default)]
pub(super) struct Sets {
    by_first: Map<Ticket, Set>,
    /// The number of members that wait beside their first ones.
    pub beside: usize,
    /// Whether no lock may be touched but the one that is looked at.
    pub is_confined: bool,
}

#[derive(Debug)]
pub(super) struct Set {
    /// In the order in which the locks were asked for.
    pub members: Box<[Ticket]>,
    /// How many have passed it.
    pub passed: u8,
    /// The number of the member whose lock it lacked the last time.
    pub lacks: usize,
}

/// The waiter that is told what becomes of this one: itself, or the first of its set.
pub(super) fn who_is_told<C>(queues: &AllQueues<C>, ticket: Ticket) -> Ticket {
    match queues.waiter(ticket).map(|wait| &wait.recipient) {
        Some(Recipient::Of(told)) => *told,
        _ => ticket,
    }
}

impl Sets {
    pub fn is_empty(&self) -> bool {
        self.by_first.is_empty() && self.beside == 0
    }

    /// Of members that wait and are counted, in the order in which their locks were asked for.
    pub fn begin(&mut self, told: Ticket, members: Box<[Ticket]>) {
        self.by_first.insert(told, Set { members, passed: 0, lacks: 0 });
    }

    pub fn get(&self, told: Ticket) -> Option<&Set> {
        self.by_first.get(&told)
    }

    pub fn get_mut(&mut self, told: Ticket) -> Option<&mut Set> {
        self.by_first.get_mut(&told)
    }

    /// None of a waiter for one lock.
    pub fn members(&self, told: Ticket) -> &[Ticket] {
        self.get(told).map_or(&[], |set| &set.members)
    }

    /// Those beside the first one.
    pub fn members_beside(&self, told: Ticket) -> Vec<Ticket> {
        self.members(told).iter().skip(1).copied().collect()
    }

    /// Whether this waiter is a member of a set.
    pub fn has<C>(&self, queues: &AllQueues<C>, ticket: Ticket) -> bool {
        self.by_first.contains_key(&who_is_told(queues, ticket))
    }

    /// The locks of a set; none of a waiter for one lock.
    pub fn locks<C>(&self, queues: &AllQueues<C>, told: Ticket) -> Vec<LockId> {
        self.members(told).iter().filter_map(|member| queues.lock_of(*member)).collect()
    }

    /// The same without the first one, with their keys.
    pub fn other_locks<C>(&self, queues: &AllQueues<C>, told: Ticket) -> Vec<(LockId, Rc<[u8]>)> {
        let locks = self.locks(queues, told).into_iter().skip(1);
        locks.filter_map(|lock| queues.name(lock).map(|(_, key)| (lock, key))).collect()
    }

    /// What is to be kept of a set's other locks when it leaves without any.
    pub fn kept_of<C>(&self, queues: &AllQueues<C>, ticket: Ticket) -> Option<Box<Beside>> {
        let others = self.other_locks(queues, who_is_told(queues, ticket));
        let keys: Vec<_> = others.into_iter().map(|(_, key)| key).collect();
        (!keys.is_empty()).then(|| Box::new(Beside { keys, tokens: Vec::new() }))
    }

    /// Notes that a waiter leaves. Returns whether it stands for a set.
    pub fn forget<C>(&mut self, queues: &AllQueues<C>, ticket: Ticket) -> bool {
        if self.by_first.is_empty() && self.beside == 0 {
            return false;
        }
        if matches!(queues.waiter(ticket).map(|wait| &wait.recipient), Some(Recipient::Of(_))) {
            self.beside = self.beside.saturating_sub(1);
            return false;
        }
        self.by_first.remove(&ticket).is_some()
    }

    /// What of the sets does not hold, if anything.
    pub fn fault<C>(&self, queues: &AllQueues<C>) -> Option<&'static str> {
        let mut beside: usize = 0;
        for (told, set) in &self.by_first {
            let is_of_it = |member: &Ticket| queues.lock_of(*member).is_some() && who_is_told(queues, *member) == *told;
            if set.members.first() != Some(told) || !set.members.iter().all(is_of_it) {
                return Some("a set has lost a member");
            }
            beside = beside.saturating_add(set.members.len().saturating_sub(1));
        }
        if beside != self.beside {
            return Some("the members of sets are miscounted");
        }
        let is_known = |(ticket, wait): (Ticket, &Waiter<C>)| match wait.recipient {
            Recipient::Of(told) => self.members(told).contains(&ticket),
            _ => true,
        };
        (!queues.all().all(is_known)).then_some("a member has lost its set")
    }
}
