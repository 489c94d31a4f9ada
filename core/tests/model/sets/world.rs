//! The memory host as the histories of sets have it: what begins, and how often locks are looked at.

use rlock_core::lock::Change;
use rlock_core::waiting::{Host, LockName, Most, Paused};
use rlock_sim::{Commit, Limits, Memory, Watcher};
use std::cell::{Cell, RefCell};

pub const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// The most blocked clients, and the most tickets.
pub const MOST: usize = 30;

#[must_use]
pub fn lock_name(key: usize) -> LockName<'static> {
    LockName { database: 0, key: KEYS[key] }
}

pub type World = Memory<Begun>;

#[derive(Default)]
pub struct Begun {
    pub last_client: Cell<u64>,
    /// Which locks have begun, and their holders.
    pub begun: RefCell<Vec<(usize, String)>>,
    /// How often a lock was looked at.
    pub looks: Cell<usize>,
}

impl Watcher for Begun {
    fn opens(&self, _world: &World) {
        self.looks.set(self.looks.get() + 1);
    }

    fn blocks(&self, _world: &World) -> u64 {
        self.last_client.set(self.last_client.get() + 1);
        self.last_client.get()
    }

    /// Refuses now and then, as if the server had been paused meanwhile.
    fn refuses(&self, world: &World, commit: &Commit<'_>) -> Option<Paused> {
        let may_create = commit.changes.iter().any(|(_, _, changes)| changes.may_create_keys());
        let is_refused = may_create && world.now() % 7 == 3 && commit.changes.iter().any(|(key, ..)| *key == KEYS[2]);
        is_refused.then(|| {
            world.rests_until.set(world.rests_until.get().max(world.now() + 1));
            Paused { for_ms: 1 }
        })
    }

    fn commits(&self, _world: &World, commit: &Commit<'_>, apply: impl FnOnce()) {
        for (key, holder, changes) in &commit.changes {
            let begins = |change: &Change| matches!(change, Change::Begin { .. });
            if let (true, Some(number)) =
                (changes.on_lock_key().iter().any(begins), KEYS.iter().position(|known| known == key))
            {
                self.begun.borrow_mut().push((number, String::from_utf8(holder.to_vec()).unwrap()));
            }
        }
        apply();
    }
}

/// A world in which this many clients may be blocked.
pub fn new_world(most: usize) -> World {
    let world = World::default();
    let tickets = Most { all: MOST, of_user: MOST };
    world.limits.set(Limits { blocked: most, tickets, sessions: Most { all: 3, of_user: 3 }, answer_bytes: 100 });
    world
}

pub fn holder(world: &World, key: &[u8]) -> Option<String> {
    let snapshot = world.keyspace.borrow().snapshot(0, key, 1).unwrap()?;
    Some(String::from_utf8(snapshot.holdings[0].holder.clone()).unwrap())
}
