//! The locks of the simulation as the module's engine serves them.

use super::Server;
use crate::no_server::{Client, Locks, NoServer};
use rlock_core::lock::{Change, Changes, Lease, Observed, Outcome, Release, Side, UnixMs, Wish};
use rlock_core::waiting::commands::{Acquiring, Waiting};
use rlock_core::waiting::{Engine, Note, Ticket};
use std::cell::RefCell;
use std::collections::HashMap;

/// Longer than the simulation.
const LEASE_MS: i64 = 1_000_000_000;

const NOW: UnixMs = 1_800_000_000_000;

/// Who has which lock.
#[derive(Default)]
struct Held(RefCell<HashMap<Vec<u8>, Vec<u8>>>);

impl Locks for Held {
    fn look(&self, key: &[u8], holder: &[u8]) -> (Observed, UnixMs) {
        let observed = match self.0.borrow().get(key) {
            None => Observed::Free,
            Some(other) if other == holder => Observed::Mine { holds: 1 },
            Some(_) => Observed::Others,
        };
        (observed, NOW + LEASE_MS)
    }

    fn change(&self, key: &[u8], holder: &[u8], changes: &Changes) {
        for change in changes.on_lock_key() {
            match change {
                Change::Begin { .. } => _ = self.0.borrow_mut().insert(key.to_vec(), holder.to_vec()),
                Change::Delete => _ = self.0.borrow_mut().remove(key),
                other => panic!("nobody has a lock twice, but {other:?}"),
            }
        }
    }
}

pub struct Served {
    engine: Engine<Client>,
    host: NoServer<Held>,
    /// Who waits, by the number under which it is blocked.
    blocked: HashMap<u64, (usize, Ticket)>,
    granted: Vec<usize>,
    blocks: u64,
}

impl Default for Served {
    fn default() -> Self {
        let host = NoServer::new(Held::default(), NOW);
        Self { engine: Engine::default(), host, blocked: HashMap::new(), granted: Vec::new(), blocks: 0 }
    }
}

impl Server for Served {
    fn ask(&mut self, client: usize, locks: &[usize], waits: bool) {
        let keys: Vec<_> = locks.iter().map(|lock| name("lock", *lock)).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let (holder, lease) = (name("holder", client), Lease::from_ms(LEASE_MS - 1).expect("a lease"));
        let wish = Wish { holder: &*holder, side: Side::Plain, lease, fenced: false };
        let waiting = waits.then_some(Waiting { limit_ms: 0, max: None, ticket: None });
        let asked = match *keys {
            [key] => self.engine.acquire(&self.host, key, &wish, waiting),
            _ => self.engine.acquire_all(&self.host, &keys, &wish, waiting),
        };
        match asked {
            Ok(Acquiring::Done(Outcome::Granted { .. }) | Acquiring::GrantedAll { .. }) => self.granted.push(client),
            Ok(Acquiring::Blocked(ticket)) => {
                self.blocks += 1;
                self.blocked.insert(self.blocks, (client, ticket));
            }
            Ok(Acquiring::Done(Outcome::Busy { .. })) if !waits => {}
            other => panic!("an answer that nobody expects: {other:?}"),
        }
    }

    fn release(&mut self, client: usize, lock: usize) {
        let (key, holder) = (name("lock", lock), name("holder", client));
        let want = Release { side: None, lease: None, all: false };
        self.engine.release(&self.host, &key, &holder, want).expect("whoever has a lock may give it back");
    }

    fn granted(&mut self) -> Vec<usize> {
        while self.engine.wakes_next_at(&self.host).is_some_and(|time| time <= self.host.now.get()) {
            self.engine.catch_up(&self.host);
        }
        for number in self.host.granted.take() {
            let (client, ticket) = self.blocked.remove(&number).expect("who is told something waits");
            self.engine.note(Note::Delivered(ticket));
            self.granted.push(client);
        }
        std::mem::take(&mut self.granted)
    }

    fn turn_begins(&mut self) {
        self.host.now.set(self.host.now.get() + 1);
    }
}

fn name(what: &str, number: usize) -> Vec<u8> {
    format!("{what}:{number:02}").into_bytes()
}
