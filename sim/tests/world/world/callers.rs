//! What callers do, and the end of a program.

use super::World;
use crate::program::Wanted;
use std::time::Duration;

impl World {
    pub(super) fn acquire(&mut self, program: usize, wanted: Wanted) {
        if self.programs[program].is_dead {
            return;
        }
        self.attempts += 1;
        self.longest_lease = self.longest_lease.max(wanted.lease);
        let event = self.programs[program].acquire(self.attempts, wanted, self.at);
        self.step(program, event);
    }

    pub(super) fn abandon(&mut self, program: usize, attempt: u64) {
        if let Some(event) = self.programs[program].abandon(attempt) {
            self.step(program, event);
        }
    }

    pub(super) fn release(&mut self, program: usize, guard: u64, is_awaited: bool) {
        let Some(it) = self.programs[program].guards.get(&guard) else { return };
        let before = self.released_by_servers(&it.key, &it.holder);
        if let Some(event) = self.programs[program].release(guard, is_awaited, before, self.at) {
            self.step(program, event);
        }
    }

    pub(super) fn answer(&mut self, program: usize, guard: u64, keep: Duration) {
        let Some(it) = self.programs[program].guards.get(&guard).filter(|it| it.is_lead) else { return };
        let before = self.released_by_servers(&it.key, &it.holder);
        self.notes_made(program, guard);
        if let Some(event) = self.programs[program].answer(guard, keep, before, self.at) {
            self.step(program, event);
        }
    }

    pub fn released_by_servers(&self, key: &str, holder: &str) -> u64 {
        let name = (key.to_owned(), holder.to_owned());
        self.servers.iter().filter_map(|server| server.released.get(&name)).sum()
    }

    pub(super) fn settle(&mut self, program: usize) {
        if !self.programs[program].is_dead {
            let event = self.programs[program].settle();
            self.step(program, event);
        }
    }

    pub(super) fn dies(&mut self, program: usize, arrives: bool) {
        self.programs[program].dies();
        for wire in self.all_wires().into_iter().filter(|wire| wire.program == program) {
            self.closes(wire, arrives);
        }
    }
}
