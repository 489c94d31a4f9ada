//! The host on which sets are served: a few plain locks in a map, and a clock that the test moves.

use rlock_core::lock::{
    Change, Changes, Expiry, Field, Observed, Outcome, Permits, Plan, Record, Refusal, Side, Snapshot, UnixMs,
};
use rlock_core::waiting::{
    Answer, Fitness, GraceNews, Host, Limits, LockName, Most, Note, Paused, Permission, Purpose, WaitsFor,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

pub const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// The most blocked clients, and the most tickets.
pub const MOST: usize = 30;

#[must_use]
pub fn lock_name(key: usize) -> LockName<'static> {
    LockName { database: 0, key: KEYS[key] }
}

/// A blocked client, which notes if it is dropped without an answer.
#[derive(Debug)]
pub struct Client(pub u64);

#[derive(Clone, Debug)]
pub struct Lock {
    pub holder: String,
    pub holds: i64,
    pub end: UnixMs,
}

type Locks = Rc<RefCell<BTreeMap<Vec<u8>, Lock>>>;

#[derive(Default)]
pub struct World {
    pub locks: Locks,
    tokens: RefCell<BTreeMap<Vec<u8>, i64>>,
    pub now: Cell<UnixMs>,
    pub paused: Cell<bool>,
    pub rests_until: Cell<UnixMs>,
    pub turn: Cell<u32>,
    turn_left: Cell<u32>,
    pub last_client: Cell<u64>,
    /// Who was answered what.
    pub answers: RefCell<Vec<(u64, Outcome)>>,
    /// Which locks have begun, and for whom.
    pub begun: RefCell<Vec<(usize, String)>>,
    /// How often a lock was looked at.
    pub looks: Cell<usize>,
    /// Whether any number of requests may wait.
    pub is_boundless: Cell<bool>,
}

impl World {
    pub fn begin_turn(&self) {
        self.turn_left.set(if self.turn.get() == 0 { 1_000 } else { self.turn.get() });
    }

    pub fn holder(&self, key: usize) -> Option<String> {
        self.locks.borrow().get(KEYS[key]).map(|lock| lock.holder.clone())
    }

    fn make_true(&self, key: &[u8], holder: &[u8], changes: &Changes) {
        let holder = String::from_utf8(holder.to_vec()).unwrap();
        for change in changes.on_lock_key() {
            let mut locks = self.locks.borrow_mut();
            match *change {
                Change::Begin { side: Side::Plain, end } => {
                    let number = KEYS.iter().position(|known| *known == key);
                    self.begun.borrow_mut().extend(number.map(|number| (number, holder.clone())));
                    let before = locks.insert(key.to_vec(), Lock { holder: holder.clone(), holds: 1, end });
                    assert!(before.is_none(), "a lock begins that {before:?} has");
                }
                Change::Count { field: Field::Holder, makes, .. } => {
                    let held = locks.get_mut(key).unwrap();
                    assert_eq!(held.holder, holder, "a hold of another");
                    held.holds = makes;
                }
                Change::ExpireAt(end) => locks.get_mut(key).unwrap().end = end,
                Change::Delete => _ = locks.remove(key),
                other => panic!("{other:?} of a plain lock"),
            }
        }
        for change in changes.on_side_keys() {
            if let Change::CountToken { makes } = *change {
                self.tokens.borrow_mut().insert(key.to_vec(), makes);
            }
        }
    }

    pub fn pass_to(&self, time: UnixMs) {
        self.now.set(time.max(self.now.get()));
        self.locks.borrow_mut().retain(|_, lock| lock.end >= time);
    }
}

pub struct View {
    locks: Locks,
    key: Vec<u8>,
    holder: String,
    next_token: i64,
}

impl Record for View {
    fn is_there(&self) -> bool {
        self.locks.borrow().contains_key(&self.key)
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        Ok(match self.locks.borrow().get(&self.key) {
            None => Observed::Free,
            Some(lock) if lock.holder == self.holder => Observed::Mine { holds: lock.holds },
            Some(_) => Observed::Others,
        })
    }

    fn expiry(&self) -> Expiry {
        Expiry::At(self.locks.borrow().get(&self.key).map_or(0, |lock| lock.end))
    }

    fn derived_keys_are_reachable(&self) -> bool {
        true
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        Ok(self.next_token)
    }

    fn token_clock_us(&self) -> Option<i64> {
        None
    }

    fn readers(&self) -> usize {
        0
    }

    fn read_hold_end(&self, _index: i64) -> Option<Expiry> {
        None
    }

    fn permits(&self, _now: UnixMs, _most: usize) -> Permits {
        unreachable!("these are plain locks")
    }

    fn longest_read_lease(&self, _own: i64, _now: UnixMs) -> Option<Expiry> {
        None
    }
}

impl Host for World {
    type Client = Client;
    type Text<'a> = &'a [u8];
    type OwnText = Vec<u8>;
    type Lock<'a> = View;
    type Selected<'a> = ();

    fn next_note(&self) -> Option<Note> {
        None
    }

    fn now(&self) -> UnixMs {
        self.now.get()
    }

    fn steady_ms(&self) -> i64 {
        self.now.get()
    }

    fn held_back_ms(&self) -> i64 {
        0
    }

    fn grace_ms(&self) -> i64 {
        0
    }

    fn tell_grace(&self, _news: GraceNews) {}

    fn turn_is_over(&self) -> bool {
        self.turn_left.set(self.turn_left.get().saturating_sub(1));
        self.turn_left.get() == 0
    }

    fn has_user(&self, _name: &[u8]) -> bool {
        true
    }

    fn clients_are_paused(&self) -> bool {
        false
    }

    fn own(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn lend<'a>(&'a self, text: &'a Vec<u8>) -> &'a [u8] {
        text
    }

    fn database(&self) -> i32 {
        0
    }

    fn select(&self, _database: i32) {}

    fn open<'a>(&'a self, key: &'a [u8], holder: &'a [u8]) -> View {
        self.looks.set(self.looks.get() + 1);
        let next_token = self.tokens.borrow().get(key).copied().unwrap_or(0) + 1;
        let holder = String::from_utf8(holder.to_vec()).unwrap();
        View { locks: Rc::clone(&self.locks), key: key.to_vec(), holder, next_token }
    }

    fn commit<'a, 'b>(
        &'a self,
        lock: View,
        plan: &Plan<'_, &'a [u8], &'b [u8]>,
        others: Vec<(View, Changes)>,
    ) -> Result<(), Paused>
    where
        Self: 'b,
    {
        let may_create = plan.may_create_keys() || others.iter().any(|(_, changes)| changes.may_create_keys());
        if may_create && self.paused.get() {
            self.rests_until.set(self.now.get() + 20);
            return Err(Paused { for_ms: 20 });
        }
        // Now and then, as if the server had been paused meanwhile.
        let mut keys = others.iter().map(|(lock, _)| &lock.key).chain([&lock.key]);
        if may_create && self.now.get() % 7 == 3 && keys.any(|key| key == KEYS[2]) {
            self.rests_until.set(self.now.get() + 1);
            return Err(Paused { for_ms: 1 });
        }
        self.make_true(&lock.key, plan.holder, plan.changes);
        plan.next.into_iter().for_each(|(to, changes)| self.make_true(&lock.key, to, changes));
        others.iter().for_each(|(lock, changes)| self.make_true(&lock.key, plan.holder, changes));
        Ok(())
    }

    fn snapshot(&self, _key: &[u8], _most: usize) -> Result<Option<Snapshot>, Refusal> {
        Ok(None)
    }

    fn fitness(&self) -> Fitness {
        if self.paused.get() {
            self.rests_until.set(self.now.get() + 20);
            Fitness::Unfit(20)
        } else {
            Fitness::OfKey
        }
    }

    fn permission(&self, _key: &[u8], _purpose: Purpose) -> Permission {
        match self.fitness() {
            Fitness::Unfit(ms) => Permission::Later(ms),
            _ => Permission::Granted,
        }
    }

    fn may_touch_any_key(&self) -> bool {
        true
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        self.locks.borrow().get(lock.key).map_or(0, |lock| (lock.end - self.now.get()).max(0))
    }

    fn limits(&self) -> Limits {
        let blocked = if self.is_boundless.get() { usize::MAX } else { MOST };
        Limits { blocked, tickets: Most { all: MOST, of_user: MOST }, sessions: Most { all: 3, of_user: 3 } }
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn listen(&self, _side: Side) {}

    fn may_block(&self) -> bool {
        true
    }

    fn block(&self) -> Option<Client> {
        self.last_client.set(self.last_client.get() + 1);
        Some(Client(self.last_client.get()))
    }

    fn blocked(&self, _client: &Client, _waits_for: WaitsFor) {}

    fn answer(&self, client: Client, answer: Answer) {
        let outcome = match answer {
            Answer::Outcome { outcome, .. } => outcome,
            Answer::GrantedAll { tokens } => Outcome::Granted { token: tokens.first().copied() },
            Answer::Cancelled(_) | Answer::Events | Answer::NoSession => return,
        };
        self.answers.borrow_mut().push((client.0, outcome));
    }
}
