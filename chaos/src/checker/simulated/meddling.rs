//! What is done to the server and to its locks.

use super::lock::{Flaw, Lock};
use super::world::{Event, World, moment};
use crate::history::{Answer, Reach, Record, Trouble};

impl World {
    pub(super) fn trouble(&mut self) {
        let lock = usize::try_from(self.random.below(self.locks.len() as u64)).expect("a few");
        if self.settings.meddling {
            if self.random.is(50) {
                self.kill(lock);
            } else {
                self.remove(lock);
            }
        }
        if self.settings.clock_steps && self.random.is(20) {
            self.step_clock();
        }
        if self.settings.failovers && self.random.is(20) {
            self.fail_over();
        }
        self.soon(self.settings.trouble_every_ms * 1_000, Event::Trouble);
    }

    fn troubled(&mut self, what: &str, reach: Reach) {
        let (before, after) = (self.random.between((10, 2_000)), self.random.between((10, 2_000)));
        let (began, ended) = (moment(self.now.saturating_sub(before)), moment(self.now + after));
        self.records.push(Record::Troubled(Trouble { began, ended, what: what.to_owned(), reach }));
    }

    fn kill(&mut self, lock: usize) {
        let Some(waiter) = self.locks[lock].queue.back().filter(|waiter| waiter.attended.is_none()) else { return };
        let (number, client_id) = (waiter.asking.number, waiter.client_id);
        if self.asked[number].is_lost || self.asked[number].is_over {
            return;
        }
        if self.settings.flaw != Some(Flaw::GrantToKilled) {
            self.locks[lock].leave(number);
        }
        self.troubled("CLIENT KILL", Reach::Wait { client_id });
        self.answer(number, Answer::Unknown("killed".to_owned()));
        self.asked[number].is_over = true;
        self.serve(lock);
    }

    fn remove(&mut self, lock: usize) {
        self.locks[lock].clear();
        let (locks, takes_counters) = match self.random.below(3) {
            0 => (vec![self.locks[lock].name.clone()], false),
            1 => {
                self.locks[lock].forget_tokens(u64::MAX);
                (vec![self.locks[lock].name.clone()], true)
            }
            _ => {
                self.locks.iter_mut().for_each(Lock::clear);
                (Vec::new(), false)
            }
        };
        self.troubled("DEL", Reach::Locks { locks, takes_counters });
        (0..self.locks.len()).for_each(|lock| self.serve(lock));
    }

    fn step_clock(&mut self) {
        let by: i64 = self.random.one_of(&[50, 100, -60]);
        let by_us = by.unsigned_abs() * 1_000;
        for lock in &mut self.locks {
            let sooner = if by > 0 { lock.ends.saturating_sub(by_us) } else { lock.ends + by_us };
            lock.ends = sooner;
            for waiter in &mut lock.queue {
                waiter.since = if by > 0 { waiter.since.saturating_sub(by_us) } else { waiter.since + by_us };
            }
            lock.move_reads(by * 1_000);
        }
        self.troubled("clock", Reach::ClockStep { server: "a".to_owned(), by_ms: by });
        (0..self.locks.len()).for_each(|lock| self.serve(lock));
    }

    fn fail_over(&mut self) {
        for lock in 0..self.locks.len() {
            if self.random.is(50) {
                self.locks[lock].clear();
                self.locks[lock].forget_tokens(2);
            }
            let waiting: Vec<usize> = self.locks[lock].queue.drain(..).map(|waiter| waiter.asking.number).collect();
            for number in waiting {
                if !self.asked[number].is_over && self.session_in(number).is_none() {
                    self.answer(number, Answer::Unknown("UNBLOCKED".to_owned()));
                    self.asked[number].is_over = true;
                }
            }
        }
        self.forget_sessions();
        self.troubled("failover", Reach::Failover { server: "a".to_owned() });
    }
}
