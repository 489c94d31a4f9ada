//! An owner's gate. Requests that change an owner's holds on a lock (acquire, release, renew) go one at a time, in
//! order, so none undoes another, whichever connection it takes. An owner's attempts also wait for each other, because
//! a second wait of the same holder takes the first one's place in the server's queue.
//!
//! A holder without an owner has only one guard, which sends one request after the other: it needs no gate.

use super::{Asker, Engine, HoldId};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Gate {
    /// Requests that wait for a reply that is not overdue: one, and a renewal that has overtaken it.
    under_way: Vec<u64>,
    behind: VecDeque<Asker>,
}

impl Gate {
    pub fn is_open(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether it was in the queue.
    pub fn leaves(&mut self, asker: Asker) -> bool {
        let place = self.behind.iter().position(|it| *it == asker);
        place.and_then(|place| self.behind.remove(place)).is_some()
    }
}

impl Engine {
    /// Whether this request may be sent now. If not, its asker is called when its turn comes.
    pub(super) fn passes_gate(&mut self, id: HoldId, asker: Asker, errand: u64) -> bool {
        let Some(hold) = self.holds.get_mut(&id).filter(|hold| hold.named) else { return true };
        // A lease cannot wait for a silent server. Overtaking is safe: the renewal asks for at least as long as any
        // other request.
        let overtakes = asker == Asker::Renewal(id) && hold.keep.as_ref().is_some_and(|keep| keep.failing.is_some());
        let passes = hold.gate.is_open() || overtakes;
        if passes {
            hold.gate.under_way.push(errand);
        } else if !hold.gate.behind.contains(&asker) {
            hold.gate.behind.push_back(asker);
        }
        passes
    }

    /// This request has its reply, or nothing waits for it any more: the next one has its turn.
    pub(super) fn opens_gate(&mut self, id: HoldId, errand: u64) {
        match self.holds.get_mut(&id) {
            Some(hold) if hold.gate.under_way.contains(&errand) => hold.gate.under_way.retain(|it| *it != errand),
            _ => return,
        }
        while let Some(hold) = self.holds.get_mut(&id).filter(|hold| hold.gate.is_open()) {
            match hold.gate.behind.pop_front() {
                Some(Asker::Attempt(attempt)) => self.attempt_has_turn(attempt),
                Some(Asker::Release(release)) => self.send_release(release),
                Some(Asker::Renewal(hold)) => self.renewal_has_turn(hold),
                Some(_) => {}
                None => return self.drop_if_unused(id),
            }
        }
    }

    /// A renewal has waited at the gate for its maximum time: no more requests are sent behind the one under way, and
    /// the next try overtakes it. Returns whether it was in the queue.
    pub(super) fn gives_up_at_gate(&mut self, id: HoldId) -> bool {
        let Some(hold) = self.holds.get_mut(&id) else { return false };
        let waited = hold.gate.leaves(Asker::Renewal(id));
        let under_way = if waited { hold.gate.under_way.clone() } else { Vec::new() };
        under_way.into_iter().for_each(|errand| self.retires_connection_of(errand));
        waited
    }
}
