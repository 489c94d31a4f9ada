//! How long those wait who want several locks, among many who want one: a simulation in turns, without a clock.
//!
//! Whoever has all that it wants has it for one turn, gives it back and asks for other locks. The module's own engine
//! serves them; beside it, a naive list with the rule that the engine follows, and with other bounds in it.

mod naive;
mod served;

use crate::figures::Figures;
use crate::plan::Plan;
use crate::progress;
use naive::Naive;
use rlock_core::waiting::PASSED_MAX;
use rlock_testing::Random;
use served::Served;

pub const LOCKS: usize = 8;
pub const SINGLES: usize = 24;
pub const SETS: usize = 4;
/// So many locks are wanted by those who want several.
pub const WANTED: usize = 3;
pub const TURNS: usize = 20_000;

const SEED: u64 = 27;

/// Who decides which client gets a lock.
pub trait Server {
    /// A client asks for all of these locks, which it gets at once, or waits for.
    fn ask(&mut self, client: usize, locks: &[usize], waits: bool);

    fn release(&mut self, client: usize, lock: usize);

    /// Which clients have got what they asked for, since this was called last.
    fn granted(&mut self) -> Vec<usize>;

    fn turn_begins(&mut self) {}
}

/// How several locks are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// For all, and in each turn again until all are free at once.
    Again,
    /// For one after the other in the order of their names, and each is kept meanwhile.
    InOrder,
    /// For all, and waits.
    AtOnce,
}

pub struct Way {
    pub id: &'static str,
    asking: Asking,
    server: fn() -> Box<dyn Server>,
}

const fn way(id: &'static str, asking: Asking, server: fn() -> Box<dyn Server>) -> Way {
    Way { id, asking, server }
}

pub const WAYS: [Way; 6] = [
    way("again", Asking::Again, || Box::new(Served::default())),
    way("in_order", Asking::InOrder, || Box::new(Served::default())),
    way("rlock", Asking::AtOnce, || Box::new(Served::default())),
    way("naive", Asking::AtOnce, || Box::new(Naive::new(PASSED_MAX.into()))),
    way("never_passed", Asking::AtOnce, || Box::new(Naive::new(0))),
    way("always_passed", Asking::AtOnce, || Box::new(Naive::new(usize::MAX))),
];

pub fn measure(_: &Plan, figures: &mut Figures) {
    for way in &WAYS {
        progress::step(way.id);
        let mut play = Play::new(way);
        (0..TURNS).for_each(|turn| play.turn(turn));
        let [singles, sets] = &mut play.waits;
        for (who, waits) in [("sets", sets), ("singles", singles)] {
            waits.sort_unstable();
            let mean = waits.iter().sum::<usize>() as f64 / waits.len() as f64;
            figures.add(&format!("several.{}.{who}.mean", way.id), "turns", mean);
            figures.add(&format!("several.{}.{who}.99", way.id), "turns", waits[waits.len() * 99 / 100] as f64);
        }
        let idle = play.idle as f64 / (TURNS * LOCKS) as f64;
        figures.add(&format!("several.{}.idle", way.id), "%", 100.0 * idle);
    }
}

struct Client {
    locks: Vec<usize>,
    /// How many of them it has been granted.
    has: usize,
    asked_at: usize,
}

struct Play {
    asking: Asking,
    server: Box<dyn Server>,
    random: Random,
    clients: Vec<Client>,
    /// Those who have all that they want.
    inside: Vec<usize>,
    /// In turns: of those who want one lock, and of those who want several.
    waits: [Vec<usize>; 2],
    /// In how many turns a lock was wanted and nobody worked with it, for all locks together.
    idle: usize,
}

impl Play {
    fn new(way: &Way) -> Self {
        let nobody = || Client { locks: Vec::new(), has: 0, asked_at: 0 };
        Self {
            asking: way.asking,
            server: (way.server)(),
            random: Random::from(SEED),
            clients: (0..SINGLES + SETS).map(|_| nobody()).collect(),
            inside: (0..SINGLES + SETS).collect(),
            waits: Default::default(),
            idle: 0,
        }
    }

    fn turn(&mut self, turn: usize) {
        self.server.turn_begins();
        let done = std::mem::take(&mut self.inside);
        let is_again = |client: &usize| self.asking == Asking::Again && is_set(*client) && !done.contains(client);
        let mut moves: Vec<_> = (0..self.clients.len()).filter(is_again).chain(done.iter().copied()).collect();
        while !moves.is_empty() {
            let place = self.random.below(moves.len() as u64) as usize;
            let client = moves.swap_remove(place);
            if done.contains(&client) {
                self.begin_anew(client, turn);
            } else {
                self.ask(client);
            }
            self.hear(turn);
        }
        let is_wanted = |lock: &usize| self.clients.iter().any(|client| client.locks.contains(lock));
        let is_used = |lock: &usize| self.inside.iter().any(|client| self.clients[*client].locks.contains(lock));
        self.idle += (0..LOCKS).filter(|lock| is_wanted(lock) && !is_used(lock)).count();
    }

    fn begin_anew(&mut self, client: usize, turn: usize) {
        for lock in std::mem::take(&mut self.clients[client].locks) {
            self.server.release(client, lock);
        }
        let mut locks: Vec<_> = (0..LOCKS).collect();
        while locks.len() > if is_set(client) { WANTED } else { 1 } {
            locks.remove(self.random.below(locks.len() as u64) as usize);
        }
        self.clients[client] = Client { locks, has: 0, asked_at: turn };
        self.ask(client);
    }

    fn ask(&mut self, client: usize) {
        let Client { locks, has, .. } = &self.clients[client];
        let wanted = if self.asking == Asking::InOrder { &locks[*has..=*has] } else { locks };
        self.server.ask(client, wanted, self.asking != Asking::Again || !is_set(client));
    }

    fn hear(&mut self, turn: usize) {
        loop {
            let granted = self.server.granted();
            if granted.is_empty() {
                return;
            }
            for number in granted {
                let client = &mut self.clients[number];
                client.has = if self.asking == Asking::InOrder { client.has + 1 } else { client.locks.len() };
                if client.has < client.locks.len() {
                    self.ask(number);
                } else {
                    self.waits[usize::from(is_set(number))].push(turn - client.asked_at);
                    self.inside.push(number);
                }
            }
        }
    }
}

fn is_set(client: usize) -> bool {
    client >= SINGLES
}
