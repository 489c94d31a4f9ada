//! The rule of the engine, told as simply as can be: all who wait are asked in the order of coming, whatever has happened.

use super::{LOCKS, Server};

pub struct Naive {
    /// So often may others get a lock before one that wants several.
    passed_max: usize,
    holders: [Option<usize>; LOCKS],
    /// In the order of coming.
    waiters: Vec<Waiter>,
    granted: Vec<usize>,
}

struct Waiter {
    client: usize,
    locks: Vec<usize>,
    passed: usize,
}

impl Naive {
    pub fn new(passed_max: usize) -> Self {
        Self { passed_max, holders: [None; LOCKS], waiters: Vec::new(), granted: Vec::new() }
    }

    fn serve(&mut self) {
        while let Some(place) = (0..self.waiters.len()).find(|place| self.may_have(*place)) {
            let Waiter { client, locks, .. } = self.waiters.remove(place);
            for lock in &locks {
                self.holders[*lock] = Some(client);
            }
            for other in self.waiters[..place].iter_mut().filter(|other| other.shares(&locks)) {
                other.passed += 1;
            }
            self.granted.push(client);
        }
    }

    fn may_have(&self, place: usize) -> bool {
        let locks = &self.waiters[place].locks;
        let may_be_passed = |other: &Waiter| other.locks.len() > 1 && other.passed < self.passed_max;
        locks.iter().all(|lock| self.holders[*lock].is_none())
            && self.waiters[..place].iter().filter(|other| other.shares(locks)).all(may_be_passed)
    }
}

impl Waiter {
    fn shares(&self, locks: &[usize]) -> bool {
        self.locks.iter().any(|lock| locks.contains(lock))
    }
}

impl Server for Naive {
    fn ask(&mut self, client: usize, locks: &[usize], _: bool) {
        self.waiters.push(Waiter { client, locks: locks.to_vec(), passed: 0 });
        self.serve();
    }

    fn release(&mut self, _: usize, lock: usize) {
        self.holders[lock] = None;
        self.serve();
    }

    fn granted(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.granted)
    }
}
