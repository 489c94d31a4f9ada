//! The gate of an owner. Requests that change what an owner has of a lock (acquire, release, renew) go one at a time, in order:
//! over whatever connection they go, none of them undoes another. Its attempts also wait for each other, as a second wait of
//! one holder takes the place of the first one in the server's queue.
//!
//! A holder without an owner has one guard, whose requests follow each other anyway: it has no gate.

use super::{Asker, Engine, HoldId};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Gate {
    /// The request that is neither answered nor overdue; and a renewal that has overtaken it.
    under_way: Vec<u64>,
    behind: VecDeque<Asker>,
}

impl Gate {
    pub fn is_open(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether it was there.
    pub fn leaves(&mut self, asker: Asker) -> bool {
        let place = self.behind.iter().position(|it| *it == asker);
        place.and_then(|place| self.behind.remove(place)).is_some()
    }
}

impl Engine {
    /// Whether this request may go now. If not, its asker is called when it is its turn.
    pub(super) fn passes_gate(&mut self, id: HoldId, asker: Asker, errand: u64) -> bool {
        let Some(hold) = self.holds.get_mut(&id).filter(|hold| hold.named) else { return true };
        // A lease does not wait for a server that is silent. Its renewal undoes nothing: it is as long as any that was asked for.
        let overtakes = asker == Asker::Renewal(id) && hold.keep.as_ref().is_some_and(|keep| keep.failing.is_some());
        let passes = hold.gate.is_open() || overtakes;
        if passes {
            hold.gate.under_way.push(errand);
        } else if !hold.gate.behind.contains(&asker) {
            hold.gate.behind.push_back(asker);
        }
        passes
    }

    /// This request is answered, or not waited for: the next one has its turn.
    pub(super) fn opens_gate(&mut self, id: HoldId, errand: u64) {
        match self.holds.get_mut(&id) {
            Some(hold) if hold.gate.under_way.contains(&errand) => hold.gate.under_way.retain(|it| *it != errand),
            _ => return,
        }
        while let Some(hold) = self.holds.get_mut(&id).filter(|hold| hold.gate.is_open()) {
            match hold.gate.behind.pop_front() {
                Some(Asker::Attempt(attempt)) => self.attempt_has_turn(attempt),
                Some(Asker::Giving(giving)) => self.gives(giving),
                Some(Asker::Renewal(hold)) => self.renewal_has_turn(hold),
                Some(_) => {}
                None => return self.drop_if_unused(id),
            }
        }
    }

    /// A renewal has waited at the gate for as long as it may: nothing more is sent behind what is under way, and the next try
    /// overtakes that. Returns whether it was there.
    pub(super) fn gives_up_at_gate(&mut self, id: HoldId) -> bool {
        let Some(hold) = self.holds.get_mut(&id) else { return false };
        let waited = hold.gate.leaves(Asker::Renewal(id));
        let under_way = if waited { hold.gate.under_way.clone() } else { Vec::new() };
        under_way.into_iter().for_each(|errand| self.retires_line_of(errand));
        waited
    }
}
