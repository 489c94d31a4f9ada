//! Waiting, as a whole: random histories of several clients that ask for one lock, wait, give up, die, and are served,
//! while leases end, keys go, writes are paused and the server changes its role; with a clock that the test moves.
//!
//! There is no second implementation to compare with. What is checked after each step is what waiting is for.

use crate::keyspace::{HolderView, Keyspace, Value, hold_key};
use proptest::prelude::*;
use rlock::lock::{
    self, Acquired, Ahead, Breaking, Change, Changes, Decision, Expiry, HandOver, Holding, Lease, Mode, Observed,
    Outcome, Record, Side, Snapshot, UnixMs, Wish,
};
use rlock::waiting::serve::{self, Grant, Host, Permission, Releasing, Tried, Trigger};
use rlock::waiting::{Hold, LockName, Names, Next, Recipient, Table, Ticket, Waiter};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

const LOCK: LockName<'static> = LockName { database: 0, key: b"lock" };
const HOLDERS: [&str; 4] = ["ann:1", "bob:1", "cid:1", "dan:1"];
const MOST: usize = 6;
const PAUSED_MS: i64 = 20;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        holder: usize,
        side: Side,
        lease: i64,
        wait: Option<i64>,
    },
    Release {
        holder: usize,
        side: Option<Side>,
        all: bool,
    },
    Renew {
        holder: usize,
        lease: i64,
    },
    HangUp {
        waiter: usize,
    },
    /// The next one who is granted the lock is gone before it can be told.
    NextOneDies,
    Advance {
        ms: i64,
    },
    ForeignDelete,
    /// Somebody on call breaks the lock.
    Break,
    Pause(bool),
    BecomeReplica,
    /// From now on a turn of the server lasts for so many things.
    Turn(u32),
    /// Whether the server comes to its agenda from now on, or has commands to run first.
    Busy(bool),
}

fn step(sides: &'static [Side]) -> impl Strategy<Value = Step> {
    let holder = 0..HOLDERS.len();
    let wait = prop::option::weighted(0.7, prop_oneof![Just(0), 1..60_i64]);
    let lease = prop_oneof![1..40_i64, 100..2_000_i64];
    prop_oneof![
        20 => (holder.clone(), prop::sample::select(sides), lease.clone(), wait)
            .prop_map(|(holder, side, lease, wait)| Step::Ask { holder, side, lease, wait }),
        3 => (holder.clone(), lease).prop_map(|(holder, lease)| Step::Renew { holder, lease }),
        14 => (holder, prop::option::of(prop_oneof![Just(Side::Read), Just(Side::Write)]), any::<bool>())
            .prop_map(|(holder, side, all)| Step::Release { holder, side, all }),
        4 => (0..20_usize).prop_map(|waiter| Step::HangUp { waiter }),
        2 => Just(Step::NextOneDies),
        6 => prop_oneof![1..5_i64, 10..100_i64, 500..3_000_i64].prop_map(|ms| Step::Advance { ms }),
        2 => Just(Step::ForeignDelete),
        2 => Just(Step::Break),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::BecomeReplica),
        2 => prop_oneof![Just(1), Just(2), Just(100)].prop_map(Step::Turn),
        3 => any::<bool>().prop_map(Step::Busy),
    ]
}

/// How each client was let go: answered, or not.
type Answers = Rc<RefCell<Vec<(u64, Option<Outcome>)>>>;

/// A client that notes how it was let go.
struct Client {
    id: u64,
    answers: Answers,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.answers.borrow_mut().push((self.id, None));
    }
}

struct Fake {
    keyspace: RefCell<Keyspace>,
    table: RefCell<Table<Client>>,
    paused: Cell<bool>,
    answers: Answers,
    /// Of those who were granted the lock and have not heard of it: whether each was in it already.
    was_inside: RefCell<VecDeque<bool>>,
    turn: Cell<u32>,
    /// What is left of the turn.
    turn_left: Cell<u32>,
}

impl Host for Fake {
    type Client = Client;

    fn with_table<T>(&self, use_table: impl FnOnce(&mut Table<Client>) -> T) -> T {
        use_table(&mut self.table.borrow_mut())
    }

    /// One ms ahead of the keys: a key is gone once its end is past, not at its end.
    fn now(&self) -> UnixMs {
        self.keyspace.borrow().now + 1
    }

    fn permission(&self, _lock: LockName<'_>, _trigger: Trigger) -> Permission {
        if self.paused.get() { Permission::Later(PAUSED_MS) } else { Permission::Granted }
    }

    fn turn_is_over(&self) -> bool {
        self.turn_left.set(self.turn_left.get().saturating_sub(1));
        self.turn_left.get() == 0
    }

    fn acquire(&self, _lock: LockName<'_>, next: &Next, ahead: Ahead, _trigger: Trigger) -> Tried {
        let holder = name(&next.wish.holder);
        match self.decide(holder, next.wish.with_holder(()), ahead) {
            Ok(Decision { answer: Acquired::Granted { .. }, .. }) if self.paused.get() => Tried::Later(PAUSED_MS),
            Ok(Decision { answer: Acquired::Granted { token }, changes }) => {
                self.was_inside.borrow_mut().push_back(self.is_inside(holder));
                self.keyspace.borrow_mut().apply(holder, &changes);
                Tried::Granted(Grant::of(&changes, self.now(), token))
            }
            Ok(Decision { answer: Acquired::Busy, .. }) => Tried::Busy { left_ms: self.left_ms(LOCK) },
            Err(refusal) => Tried::Refused(refusal),
        }
    }

    fn revoke(&self, hold: &Hold) {
        self.release(name(&hold.wish.holder), Some(hold.wish.side), false);
    }

    fn is_untouched(&self, hold: &Hold) -> bool {
        let keyspace = self.keyspace.borrow();
        let view = HolderView { keyspace: &keyspace, holder: name(&hold.wish.holder) };
        match (view.observe(), hold.wish.side) {
            (Ok(Observed::ReadWrite(lock)), Side::Read) => {
                let key = hold_key(name(&hold.wish.holder), lock.reads);
                keyspace.entries().get(&key).is_some_and(|(_, expiry)| *expiry == Expiry::At(hold.end))
            }
            _ => view.expiry() == Expiry::At(hold.end),
        }
    }

    fn left_ms(&self, _lock: LockName<'_>) -> i64 {
        lock::left_ms(Side::Read, &HolderView { keyspace: &self.keyspace.borrow(), holder: "" }, self.now()).unwrap()
    }

    fn answer(&self, client: Client, outcome: Outcome, _fenced: bool) {
        self.answers.borrow_mut().push((client.id, Some(outcome)));
        std::mem::forget(client);
    }

    fn wake(&self, _call: Client) {}
}

/// A release, or a break: see the server's own.
struct FakeRelease<'a> {
    world: &'a Fake,
    holder: &'a str,
    changes: Changes,
    broken: Vec<(Vec<u8>, Change)>,
}

impl FakeRelease<'_> {
    fn apply_part(&self, holder: &str, changes: &[Change]) {
        changes.iter().for_each(|change| self.world.keyspace.borrow_mut().apply_one(holder, *change));
    }

    fn drop_read_holds(&self) {
        for (holder, change) in &self.broken {
            self.world.keyspace.borrow_mut().apply_one(name(holder), *change);
        }
    }
}

impl Releasing for FakeRelease<'_> {
    type Error = ();

    fn frees(&self) -> bool {
        self.changes.frees()
    }

    fn apply(self) -> Result<(), ()> {
        self.world.keyspace.borrow_mut().apply(self.holder, &self.changes);
        self.drop_read_holds();
        Ok(())
    }

    fn hand_over(self, next: &Next) -> Result<Grant, Self> {
        let (world, to) = (self.world, name(&next.wish.holder));
        let at = world.now();
        let hand_over = {
            let keyspace = world.keyspace.borrow();
            let view = HolderView { keyspace: &keyspace, holder: self.holder };
            lock::hand_over(&view, self.changes, &next.wish, at)
        };
        // Now and then, as if it could not be done in one step.
        let Some(HandOver { released, granted, token }) = hand_over.filter(|_| at % 5 != 0) else { return Err(self) };
        world.was_inside.borrow_mut().push_back(false);
        self.apply_part(self.holder, released.in_lock());
        self.apply_part(to, granted.in_lock());
        self.apply_part(self.holder, released.beside());
        self.drop_read_holds();
        self.apply_part(to, granted.beside());
        Ok(Grant::of(&granted, at, token))
    }
}

impl Fake {
    fn snapshot(&self) -> Option<Snapshot> {
        let keyspace = self.keyspace.borrow();
        let Some((Value::Hash(fields), expiry)) = keyspace.entries().get("lock") else { return None };
        let mode = fields.get("mode").map(|mode| if mode == "read" { Mode::Read } else { Mode::Write });
        let holding = |(field, value): (&String, &String)| {
            Holding::of_field(mode, field.as_bytes(), value.as_bytes()).expect("a lock of ours")
        };
        let holdings: Vec<_> = fields.iter().filter_map(holding).collect();
        Some(Snapshot { mode, expiry: *expiry, holder_count: holdings.len(), holdings })
    }

    fn fields(&self) -> BTreeMap<String, String> {
        match self.keyspace.borrow().entries().get("lock") {
            Some((Value::Hash(fields), _)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn is_inside(&self, holder: &str) -> bool {
        let fields = self.fields();
        fields.contains_key(holder) || fields.contains_key(&format!("{holder}:write"))
    }

    fn break_up(&self) {
        let Some(snapshot) = self.snapshot() else { return };
        let Breaking { lock: changes, read_holds: broken } = snapshot.break_up(true);
        serve::release(self, LOCK, FakeRelease { world: self, holder: "", changes, broken }).unwrap();
    }

    fn decide(&self, holder: &str, wish: Wish<()>, ahead: Ahead) -> Result<Decision<Acquired>, lock::Refusal> {
        let keyspace = self.keyspace.borrow();
        lock::acquire(&HolderView { keyspace: &keyspace, holder }, &wish, ahead, self.now())
    }

    fn release(&self, holder: &str, side: Option<Side>, all: bool) {
        let want = lock::Release { side, lease: None, all };
        let decision = {
            let keyspace = self.keyspace.borrow();
            lock::release(&HolderView { keyspace: &keyspace, holder }, want, self.now())
        };
        if let Ok(decision) = decision {
            let release = FakeRelease { world: self, holder, changes: decision.changes, broken: Vec::new() };
            serve::release(self, LOCK, release).unwrap();
        }
    }
}

/// The world, and what the test knows of it.
struct Play {
    world: Fake,
    /// Who waits, in the order of coming: id, holder, side.
    waiting: Vec<(u64, &'static str, Side)>,
    /// Everyone who was ever kept, and how each was let go.
    let_go: BTreeMap<u64, Option<Outcome>>,
    /// Of everyone who ever waited.
    tickets: BTreeMap<u64, Ticket>,
    next_id: u64,
    heard: usize,
    next_one_dies: bool,
    busy: bool,
}

impl Play {
    fn new() -> Self {
        let answers = Rc::default();
        let (keyspace, table, paused, was_inside, turn_left) = Default::default();
        let world = Fake { keyspace, table, paused, answers, was_inside, turn: Cell::new(100), turn_left };
        let (waiting, let_go, tickets) = Default::default();
        Self { world, waiting, let_go, tickets, next_id: 0, heard: 0, next_one_dies: false, busy: false }
    }

    /// The server begins a turn: a command, or one round of its event loop.
    fn begin_turn(&self) {
        self.world.turn_left.set(self.world.turn.get());
    }

    /// The server comes to what is on its agenda, turn by turn, unless it has commands to run first.
    fn catch_up(&mut self) {
        while !self.busy && self.is_something_due() {
            self.begin_turn();
            serve::catch_up(&self.world);
            self.begin_turn();
            self.hear();
        }
    }

    fn is_something_due(&self) -> bool {
        let now = self.world.now();
        self.world.with_table(|table| table.wakes_at(now)).is_some_and(|time| time <= now)
    }

    fn take(&mut self, step: &Step) {
        self.begin_turn();
        match *step {
            Step::Turn(things) => self.world.turn.set(things),
            Step::Busy(busy) => self.busy = busy,
            Step::Ask { holder, side, lease, wait } => self.ask(HOLDERS[holder], side, lease, wait),
            Step::Release { holder, side, all } => {
                if !self.world.paused.get() {
                    self.world.release(HOLDERS[holder], side, all);
                }
            }
            Step::Renew { holder, lease } => self.renew(HOLDERS[holder], lease),
            Step::HangUp { waiter } if !self.waiting.is_empty() => {
                let ticket = self.tickets[&self.waiting[waiter % self.waiting.len()].0];
                drop(self.world.with_table(|table| table.gone(ticket)));
            }
            Step::HangUp { .. } => {}
            Step::NextOneDies => self.next_one_dies = true,
            Step::Advance { ms } => self.advance(ms),
            Step::ForeignDelete => {
                if !self.world.paused.get() {
                    self.world.keyspace.borrow_mut().delete("lock");
                    // As a command does it, or as the server does by itself, or with everything else.
                    match self.heard % 3 {
                        0 => drop(self.world.with_table(|table| table.key_changed(LOCK))),
                        1 => {
                            self.world.with_table(|table| table.key_changed_by_command(LOCK));
                            serve::follow_command(&self.world);
                        }
                        _ => self.world.with_table(|table| table.database_changed(Some(LOCK.database))),
                    }
                }
            }
            Step::Break => {
                self.hear();
                let busy = std::mem::take(&mut self.busy);
                self.catch_up();
                if !self.world.paused.get() {
                    self.break_up();
                }
                self.busy = busy;
            }
            Step::Pause(paused) => {
                self.world.paused.set(paused);
                self.advance(PAUSED_MS + 1);
            }
            Step::BecomeReplica => self.world.with_table(Table::dismiss_all),
        }
        self.hear();
        self.catch_up();
    }

    /// Whoever had the lock has it no longer; who has it now has it from the queue, and whole.
    fn break_up(&mut self) {
        let first = self.waiting.first().copied();
        let had_lock = !self.world.fields().is_empty();
        let before = self.read_holds();
        let granted = |play: &Self| play.world.with_table(|table| table.counters.waited.count());
        let granted_before = granted(self);
        self.world.break_up();
        assert_eq!(had_lock && first.is_some(), granted(self) > granted_before, "the first who waits gets the lock");
        let fields = self.world.fields();
        for (field, count) in fields.iter().filter(|(field, _)| *field != "mode") {
            let holder = field.trim_end_matches(":write");
            assert!(self.waiting.iter().any(|waiting| waiting.1 == holder), "{holder} did not wait: {fields:?}");
            let waited = self.waiting.iter().filter(|waiting| waiting.1 == holder).count();
            assert!(count.parse::<usize>().unwrap() <= waited, "{holder} has more than it waited for: {fields:?}");
        }
        let now_there = self.read_holds();
        let keyspace = self.world.keyspace.borrow();
        assert!(now_there.iter().all(|hold| keyspace.entries().contains_key(hold)), "whoever reads now has its lease");
        let left = before.iter().find(|hold| keyspace.entries().contains_key(*hold) && !now_there.contains(*hold));
        assert_eq!(left, None, "a read hold of a broken lock is left: {fields:?}");
    }

    /// The keys of all read holds that the lock has.
    fn read_holds(&self) -> BTreeSet<String> {
        let holdings = self.world.snapshot().map_or_else(Vec::new, |snapshot| snapshot.holdings);
        let reads = holdings.iter().filter(|holding| holding.side == Side::Read);
        reads.flat_map(|reads| (1..=reads.count).map(|index| hold_key(name(&reads.holder), index))).collect()
    }

    /// As the command does it.
    fn ask(&mut self, holder: &'static str, side: Side, lease: i64, wait: Option<i64>) {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced: lease % 3 == 0 };
        let ahead = serve::settle(&self.world, LOCK, Trigger::Command);
        let inside = self.world.is_inside(holder);
        let Ok(decision) = self.world.decide(holder, wish, ahead) else { return };
        match (decision.answer, wait) {
            (Acquired::Granted { .. }, _) if self.world.paused.get() => {}
            (Acquired::Granted { .. }, _) => {
                assert!(inside || ahead == Ahead::Nobody, "{holder} overtakes those who wait");
                self.world.keyspace.borrow_mut().apply(holder, &decision.changes);
                serve::settle(&self.world, LOCK, Trigger::Command);
            }
            (Acquired::Busy, Some(wait)) => {
                let keyspace = self.world.keyspace.borrow();
                if lock::check_wait(side, &HolderView { keyspace: &keyspace, holder }).is_err() {
                    return;
                }
                drop(keyspace);
                let left_ms = self.world.left_ms(LOCK);
                self.next_id += 1;
                let recipient = Recipient::Client(Client { id: self.next_id, answers: Rc::clone(&self.world.answers) });
                let waiter = Waiter { recipient, wish: wish.with_holder(Names::from(holder.as_bytes())) };
                let deadline = (wait > 0).then(|| self.world.now() + wait);
                let waits = serve::wait(&self.world, LOCK, waiter, self.world.now(), MOST, deadline, Some(left_ms));
                if let Ok(ticket) = waits {
                    self.tickets.insert(self.next_id, ticket);
                    self.waiting.push((self.next_id, holder, side));
                } else {
                    assert_eq!(self.waiting.len(), MOST);
                    self.world.answers.borrow_mut().pop();
                }
            }
            (Acquired::Busy, None) => {}
        }
    }

    fn renew(&mut self, holder: &'static str, lease: i64) {
        let decision = {
            let keyspace = self.world.keyspace.borrow();
            let lease = Lease::from_ms(lease).unwrap();
            lock::renew(&HolderView { keyspace: &keyspace, holder }, lease, self.world.now()).unwrap()
        };
        if !self.world.paused.get() {
            self.world.keyspace.borrow_mut().apply(holder, &decision.changes);
            serve::settle(&self.world, LOCK, Trigger::Command);
        }
    }

    /// Lets time pass, alarm by alarm.
    fn advance(&mut self, ms: i64) {
        let end = self.world.now() + ms;
        loop {
            let now = self.world.now();
            let next = self.world.with_table(|table| table.wakes_at(now)).filter(|next| *next <= end);
            let time = next.unwrap_or(end).max(self.world.now());
            let passed = (time - self.world.now()).max(0);
            self.world.keyspace.borrow_mut().advance(passed);
            self.catch_up();
            if next.is_none() || self.busy {
                let passed = (end - self.world.now()).max(0);
                return self.world.keyspace.borrow_mut().advance(passed);
            }
        }
    }

    /// The server gets to tell clients what became of them; one of them may be gone by then.
    fn hear(&mut self) {
        loop {
            let answer = self.world.answers.borrow().get(self.heard).copied();
            let Some((id, answer)) = answer else { return };
            self.heard += 1;
            assert!(self.let_go.insert(id, answer).is_none(), "client {id} is let go twice");
            let place = self.waiting.iter().position(|waiting| waiting.0 == id).expect("only who waits is let go");
            let (_, holder, side) = self.waiting.remove(place);
            let ticket = self.tickets[&id];
            if matches!(answer, Some(Outcome::Granted { .. })) {
                let ahead = &self.waiting[..place];
                let was_inside = self.world.was_inside.borrow_mut().pop_front().expect("a grant for each answer");
                assert!(ahead.is_empty() || was_inside, "{holder} {side:?} overtakes {ahead:?}");
                if std::mem::take(&mut self.next_one_dies) {
                    assert!(self.world.with_table(|table| table.gone(ticket)).is_none());
                } else {
                    self.world.with_table(|table| table.delivered(ticket));
                }
            }
        }
    }

    fn check(&self) {
        let fields = self.world.fields();
        let mode = fields.get("mode").map(String::as_str);
        let inside: BTreeSet<_> =
            fields.keys().filter(|field| *field != "mode").map(|field| field.trim_end_matches(":write")).collect();
        assert!(mode == Some("read") || inside.len() <= 1, "someone is beside an exclusive holder: {fields:?}");
        let waiting = self.world.with_table(|table| table.length());
        assert_eq!(waiting, self.waiting.len(), "everyone who is not answered waits");
        if self.world.paused.get() || self.is_something_due() {
            return;
        }
        for (place, (_, holder, side)) in self.waiting.iter().enumerate() {
            let wish = Wish { holder: (), side: *side, lease: Lease::from_ms(1).unwrap(), fenced: false };
            let decision = self.world.decide(holder, wish, Ahead::Nobody);
            let is_free = matches!(&decision, Ok(Decision { answer: Acquired::Granted { .. }, .. }));
            let is_its_turn = place == 0 || self.world.is_inside(holder);
            assert!(!(is_free && is_its_turn), "{holder} {side:?} sleeps while the lock is free to it: {fields:?}");
        }
    }

    /// Everyone leaves, and nothing must be left of anyone.
    fn end(mut self) {
        self.world.paused.set(false);
        self.busy = false;
        self.advance(PAUSED_MS + 1);
        for (id, ..) in self.waiting.clone() {
            let ticket = self.tickets[&id];
            drop(self.world.with_table(|table| table.gone(ticket)));
        }
        self.hear();
        self.catch_up();
        assert!(self.waiting.is_empty());
        assert_eq!(self.let_go.len() as u64, self.next_id - self.turned_away());
        assert!(self.world.with_table(|table| table.is_clean()), "something is left over");
    }

    fn turned_away(&self) -> u64 {
        (1..=self.next_id).filter(|id| !self.let_go.contains_key(id)).count() as u64
    }
}

fn name(holder: &[u8]) -> &'static str {
    HOLDERS.into_iter().find(|known| known.as_bytes() == holder).expect("a holder of the test")
}

fn play(history: &[Step]) {
    let mut play = Play::new();
    for step in history {
        play.take(step);
        play.check();
    }
    play.end();
}

/// Ann has the lock, bob and cid wait; ann gives it to bob, whose client is gone before it can be told.
fn bob_dies_before_being_told(paused: bool) {
    let mut play = Play::new();
    for (holder, wait) in [("ann:1", None), ("bob:1", Some(0)), ("cid:1", Some(0))] {
        play.begin_turn();
        play.ask(holder, Side::Plain, 100_000, wait);
    }
    play.begin_turn();
    play.world.release("ann:1", None, false);
    assert!(play.world.is_inside("bob:1"));
    play.world.paused.set(paused);
    play.next_one_dies = true;
    play.hear();
    play.catch_up();
    if paused {
        play.advance(10 * PAUSED_MS);
        assert!(play.world.is_inside("bob:1"), "nothing is written during a pause");
        play.world.paused.set(false);
        play.advance(PAUSED_MS + 1);
    }
    assert!(
        !play.world.is_inside("bob:1") && play.world.is_inside("cid:1"),
        "the lock goes on to the next: {:?}",
        play.world.fields()
    );
    play.hear();
    play.end();
}

#[test]
fn a_grant_to_a_client_that_is_gone_goes_on_to_the_next() {
    bob_dies_before_being_told(false);
}

#[test]
fn a_grant_to_a_client_that_is_gone_is_taken_back_after_a_pause() {
    bob_dies_before_being_told(true);
}

fn ask(holder: usize, side: Side, wait: Option<i64>) -> Step {
    Step::Ask { holder, side, lease: 1, wait }
}

/// The last who waited is let go by the very command that comes to wait, and this is all that its turn allows.
#[test]
fn behind_the_last_one_who_is_let_go_nobody_sleeps() {
    play(&[
        ask(0, Side::Plain, None),
        ask(1, Side::Plain, Some(0)),
        Step::Turn(1),
        Step::Busy(true),
        Step::BecomeReplica,
        Step::Advance { ms: 10 },
        ask(2, Side::Plain, Some(0)),
        Step::Busy(false),
    ]);
}

/// Dan, who waits three times, is let in to read. Before his others are looked at his lease ends, and bob is next.
#[test]
fn a_namesake_of_one_who_has_left_overtakes_nobody() {
    play(&[
        ask(0, Side::Write, None),
        ask(3, Side::Read, Some(0)),
        ask(1, Side::Read, Some(0)),
        ask(3, Side::Write, Some(0)),
        ask(3, Side::Write, Some(0)),
        Step::Turn(1),
        Step::Busy(true),
        Step::Release { holder: 0, side: None, all: false },
        Step::Advance { ms: 10 },
        Step::Busy(false),
    ]);
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn plain_locks_are_waited_for(history in prop::collection::vec(step(&[Side::Plain]), 1..150)) {
        play(&history);
    }

    #[test]
    fn read_write_locks_are_waited_for(history in prop::collection::vec(step(&[Side::Read, Side::Read, Side::Write]), 1..150)) {
        play(&history);
    }

    #[test]
    fn locks_of_changing_kinds_are_waited_for(history in prop::collection::vec(step(&[Side::Plain, Side::Read, Side::Write]), 1..150)) {
        play(&history);
    }
}
