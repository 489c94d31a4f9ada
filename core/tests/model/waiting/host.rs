//! The host on which the waiters of the model are served: two locks in a map each, a clock that the test moves, and a
//! record of everything that `rlock_core::waiting` does, in its order.
//!
//! The checks read that record. So they see each grant as it was at its moment, not as it looks after the whole step.

use crate::keyspace::{HolderView, Keyspace, Value, hold_key};
use rlock_core::lock::{
    self, Acquired, Ahead, Breaking, Change, Changes, Decision, Expiry, HandOver, Holding, Lease, Mode, Outcome,
    Refusal, Side, Snapshot, UnixMs, Wish,
};
use rlock_core::waiting::serve::{self, Grant, Host, Permission, Releasing, Tried, Trigger};
use rlock_core::waiting::{HeldAs, Hold, LockName, Names, Next, Queued, SeenRecipient, SessionId, Table, Use};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// One lock in each of two databases.
pub const LOCKS: [LockName<'static>; 2] =
    [LockName { database: 0, key: b"lock" }, LockName { database: 1, key: b"lock" }];
pub const HOLDERS: [&str; 4] = ["ann:1", "bob:1", "cid:1", "dan:1"];
pub const PAUSED_MS: i64 = 20;

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Client(u64),
    Ticket { session: String, ticket: String },
}

#[derive(Clone, Debug)]
pub struct Waiting {
    pub who: Who,
    /// The number of the session that the ticket came in. A later session may have the same name.
    pub session: Option<u64>,
    pub lease: Lease,
    pub lock: usize,
    pub holder: &'static str,
    pub side: Side,
    pub deadline: Option<UnixMs>,
    pub is_dismissed: bool,
    pub is_cancelled: bool,
}

/// What `rlock_core::waiting` has done.
#[derive(Debug)]
pub enum Happening {
    /// A waiter was granted its lock; next it leaves its queue.
    Granted(Granting),
    /// A waiter cannot be granted its lock; next it leaves its queue.
    Refused(Refusal),
    Left {
        waiter: Waiting,
        /// Those who came before it and wait for the same lock.
        ahead: Vec<Waiting>,
        /// Of its lock.
        left_ms: i64,
    },
    /// A ticket that its session had named is taken back. Next it leaves its queue, if it waited.
    TakenBack(Named, bool),
    /// A client is told how many of its tickets were taken back.
    CancelAnswered(u64, usize),
    /// A session is no more.
    SessionEnded,
    /// With how the holder had the lock until then.
    Revoked(Hold, HeldAs),
    /// A session's call is to be answered.
    Woken(u64),
    /// A blocked client is answered, or let go without an answer.
    LetGo(u64, Option<Outcome>),
}

#[derive(Debug)]
pub struct Granting {
    pub holder: &'static str,
    pub ticket: Vec<u8>,
    pub was_inside: bool,
    /// How the holder had this side of the lock before, and has it now.
    pub before: Option<HeldAs>,
    pub held: HeldAs,
    pub token: Option<i64>,
}

pub type Happenings = Rc<RefCell<VecDeque<Happening>>>;

/// A client that notes how it was let go.
pub struct Client {
    pub id: u64,
    happenings: Happenings,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.happenings.borrow_mut().push_back(Happening::LetGo(self.id, None));
    }
}

/// A ticket that is to be taken back, of the session with this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub id: SessionId,
    pub session: u64,
    pub ticket: String,
}

pub struct Fake {
    pub keyspaces: [RefCell<Keyspace>; 2],
    pub table: RefCell<Table<Client>>,
    /// Who waits, in the order of coming.
    pub waiting: RefCell<Vec<Waiting>>,
    /// Tickets that commands under way take back.
    pub named: RefCell<Vec<Named>>,
    pub paused: Cell<bool>,
    /// Until then nothing is tried, since this server was told that it may not write.
    pub rests_until: Cell<UnixMs>,
    pub happenings: Happenings,
    pub turn: Cell<u32>,
    /// What is left of the turn.
    pub turn_left: Cell<u32>,
}

impl Host for Fake {
    type Client = Client;

    fn with_table<T>(&self, use_table: impl FnOnce(&mut Table<Client>) -> T) -> T {
        let mut table = self.table.borrow_mut();
        let (length, sessions, named) = (table.length(), table.sessions(), self.used(&table));
        let result = use_table(&mut table);
        if table.sessions() < sessions {
            self.happens(Happening::SessionEnded);
        } else {
            let used = self.used(&table);
            named.into_iter().filter(|named| !used.contains(named)).for_each(|named| self.taken_back(named));
        }
        if table.length() < length {
            self.note_who_left(&table);
        }
        result
    }

    /// One ms ahead of the keys: a key is gone once its end is past, not at its end.
    fn now(&self) -> UnixMs {
        self.keyspaces[0].borrow().now + 1
    }

    fn permission(&self, _lock: LockName<'_>, _trigger: Trigger) -> Permission {
        if self.paused.get() { Permission::Later(self.later()) } else { Permission::Granted }
    }

    fn has_user(&self, _name: &[u8]) -> bool {
        true
    }

    /// A pause of writes: calls for events are not among them.
    fn clients_are_paused(&self) -> bool {
        false
    }

    fn turn_is_over(&self) -> bool {
        self.turn_left.set(self.turn_left.get().saturating_sub(1));
        self.turn_left.get() == 0
    }

    fn acquire(&self, lock: LockName<'_>, next: &Next, ahead: Ahead, _trigger: Trigger) -> Tried {
        let (lock, holder) = (number_of(lock.database), name(&next.wish.holder));
        match self.decide(lock, holder, next.wish.with_holder(()), ahead) {
            Ok(Decision { answer: Acquired::Granted { .. }, .. }) if self.paused.get() => Tried::Later(self.later()),
            Ok(Decision { answer: Acquired::Granted { token }, changes }) => {
                let (before, was_inside) = (self.held(lock, holder, next.wish.side), self.is_inside(lock, holder));
                let ended = self.lock_end(lock);
                self.keyspaces[lock].borrow_mut().apply(holder, &changes);
                self.granted(lock, &next.wish, was_inside, before, token);
                Tried::Granted(Grant::of(&changes, ended, self.now(), token))
            }
            Ok(Decision { answer: Acquired::Busy, .. }) => Tried::Busy { left_ms: self.left_ms(LOCKS[lock]) },
            Err(refusal) => {
                self.happens(Happening::Refused(refusal));
                Tried::Refused(refusal)
            }
        }
    }

    fn may_touch_any_key(&self) -> bool {
        true
    }

    fn revoke(&self, hold: &Hold) {
        let (lock, holder) = (number_of(hold.database), name(&hold.wish.holder));
        let held = self.held(lock, holder, hold.wish.side);
        self.happens(Happening::Revoked(hold.clone(), held.expect("what is revoked is there")));
        self.release_by(Trigger::Event, lock, holder, Some(hold.wish.side), false);
    }

    fn held_as(&self, hold: &Hold) -> Option<HeldAs> {
        self.held(number_of(hold.database), name(&hold.wish.holder), hold.wish.side)
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let keyspace = self.keyspaces[number_of(lock.database)].borrow();
        lock::left_ms(Side::Read, &HolderView { keyspace: &keyspace, holder: "" }, self.now()).unwrap()
    }

    fn answer(&self, client: Client, outcome: Outcome, _fenced: bool) {
        self.happens(Happening::LetGo(client.id, Some(outcome)));
        std::mem::forget(client);
    }

    fn answer_cancel(&self, client: Client, found: usize) {
        self.happens(Happening::CancelAnswered(client.id, found));
        std::mem::forget(client);
    }

    fn wake(&self, call: Client) {
        self.happens(Happening::Woken(call.id));
        std::mem::forget(call);
    }
}

/// A release, or a break: see the server's own.
struct FakeRelease<'a> {
    world: &'a Fake,
    lock: usize,
    holder: &'a str,
    changes: Changes,
    broken: Vec<(Vec<u8>, Change)>,
}

impl FakeRelease<'_> {
    fn apply_part(&self, holder: &str, changes: &[Change]) {
        let mut keyspace = self.world.keyspaces[self.lock].borrow_mut();
        changes.iter().for_each(|change| keyspace.apply_one(holder, *change));
    }

    fn drop_read_holds(&self) {
        for (holder, change) in &self.broken {
            self.world.keyspaces[self.lock].borrow_mut().apply_one(name(holder), *change);
        }
    }
}

impl Releasing for FakeRelease<'_> {
    type Error = ();

    fn frees(&self) -> bool {
        self.changes.frees()
    }

    fn apply(self) -> Result<(), ()> {
        self.world.keyspaces[self.lock].borrow_mut().apply(self.holder, &self.changes);
        self.drop_read_holds();
        Ok(())
    }

    fn hand_over(self, next: &Next) -> Result<Grant, Self> {
        let (world, to) = (self.world, name(&next.wish.holder));
        let at = world.now();
        let hand_over = {
            let keyspace = world.keyspaces[self.lock].borrow();
            let view = HolderView { keyspace: &keyspace, holder: self.holder };
            lock::hand_over(&view, self.changes, &next.wish, at)
        };
        // Now and then, as if it could not be done in one step.
        let Some(HandOver { released, granted, token }) = hand_over.filter(|_| at % 5 != 0) else { return Err(self) };
        self.apply_part(self.holder, released.in_lock());
        self.apply_part(to, granted.in_lock());
        self.apply_part(self.holder, released.beside());
        self.drop_read_holds();
        self.apply_part(to, granted.beside());
        world.granted(self.lock, &next.wish, false, None, token);
        Ok(Grant::of(&granted, Expiry::Never, at, token))
    }
}

impl Fake {
    pub fn new() -> Self {
        let (keyspaces, table, waiting, named, paused, rests_until, happenings, turn_left) = Default::default();
        let turn = Cell::new(100);
        Self { keyspaces, table, waiting, named, paused, rests_until, happenings, turn, turn_left }
    }

    pub fn client(&self, id: u64) -> Client {
        Client { id, happenings: Rc::clone(&self.happenings) }
    }

    fn happens(&self, happening: Happening) {
        self.happenings.borrow_mut().push_back(happening);
    }

    fn later(&self) -> i64 {
        self.rests_until.set(self.now() + PAUSED_MS);
        PAUSED_MS
    }

    fn granted(&self, lock: usize, wish: &Wish<Names>, was_inside: bool, before: Option<HeldAs>, token: Option<i64>) {
        let holder = name(&wish.holder);
        let held = self.held(lock, holder, wish.side).expect("who is granted a lock has it");
        let ticket = wish.holder.ticket().to_vec();
        self.happens(Happening::Granted(Granting { holder, ticket, was_inside, before, held, token }));
    }

    /// How this holder has this side of the lock: with its last hold's lease.
    pub fn held(&self, lock: usize, holder: &str, side: Side) -> Option<HeldAs> {
        let fields = self.fields(lock);
        let field = if side == Side::Write { format!("{holder}:write") } else { holder.to_owned() };
        let is_plain = !fields.contains_key("mode");
        let holds = fields.get(&field).filter(|_| is_plain == (side == Side::Plain))?.parse().unwrap();
        let key = if side == Side::Read { hold_key(holder, holds) } else { "lock".to_owned() };
        match self.keyspaces[lock].borrow().entries().get(&key)?.1 {
            Expiry::At(end) => Some(HeldAs { holds, end }),
            Expiry::Never => None,
        }
    }

    fn lock_end(&self, lock: usize) -> Expiry {
        self.keyspaces[lock].borrow().entries().get("lock").map_or(Expiry::Never, |(_, expiry)| *expiry)
    }

    /// The tickets to be taken back that wait, or whose event is kept.
    fn used(&self, table: &Table<Client>) -> Vec<Named> {
        let wish = Wish { holder: &b""[..], side: Side::Plain, lease: Lease::from_ms(1).unwrap(), fenced: false };
        let is_used = |named: &&Named| table.use_of(named.id, named.ticket.as_bytes(), LOCKS[0], &wish) != Use::Free;
        self.named.borrow().iter().filter(is_used).cloned().collect()
    }

    fn taken_back(&self, named: Named) {
        let mut waiting = self.waiting.borrow_mut();
        let is_it = |waiting: &&mut Waiting| {
            let is_its = matches!(&waiting.who, Who::Ticket { ticket, .. } if *ticket == named.ticket);
            is_its && waiting.session == Some(named.session)
        };
        let waits = waiting.iter_mut().find(is_it).map(|waiting| waiting.is_cancelled = true);
        self.happens(Happening::TakenBack(named, waits.is_some()));
    }

    /// Notes which waiters are no longer in the queues, and that the others are in the order of coming.
    fn note_who_left(&self, table: &Table<Client>) {
        for (number, lock) in LOCKS.into_iter().enumerate() {
            let mut there = table.queue(lock, self.now()).map(|queued| (who(&queued), queued.wish.lease)).peekable();
            let (mut ahead, mut left) = (Vec::new(), Vec::new());
            self.waiting.borrow_mut().retain(|waiting| {
                if waiting.lock != number {
                    return true;
                }
                let is_there = there.next_if(|(who, lease)| *who == waiting.who && *lease == waiting.lease).is_some();
                if is_there {
                    ahead.push(waiting.clone());
                } else {
                    left.push((waiting.clone(), ahead.clone()));
                }
                is_there
            });
            assert_eq!(there.next(), None, "the queue is in the order of coming: {:?}", self.waiting.borrow());
            for (waiter, ahead) in left {
                self.happens(Happening::Left { waiter, ahead, left_ms: self.left_ms(lock) });
            }
        }
    }

    pub fn snapshot(&self, lock: usize) -> Option<Snapshot> {
        let keyspace = self.keyspaces[lock].borrow();
        let Some((Value::Hash(fields), expiry)) = keyspace.entries().get("lock") else { return None };
        let mode = fields.get("mode").map(|mode| if mode == "read" { Mode::Read } else { Mode::Write });
        let holding = |(field, value): (&String, &String)| {
            Holding::of_field(mode, field.as_bytes(), value.as_bytes()).expect("a lock of ours")
        };
        let holdings: Vec<_> = fields.iter().filter_map(holding).collect();
        Some(Snapshot { mode, expiry: *expiry, holder_count: holdings.len(), holdings })
    }

    pub fn fields(&self, lock: usize) -> BTreeMap<String, String> {
        match self.keyspaces[lock].borrow().entries().get("lock") {
            Some((Value::Hash(fields), _)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub fn is_inside(&self, lock: usize, holder: &str) -> bool {
        let fields = self.fields(lock);
        fields.contains_key(holder) || fields.contains_key(&format!("{holder}:write"))
    }

    pub fn break_up(&self, lock: usize) {
        let Some(snapshot) = self.snapshot(lock) else { return };
        let Breaking { lock: changes, read_holds: broken } = snapshot.break_up(true);
        serve::release(
            self,
            LOCKS[lock],
            FakeRelease { world: self, lock, holder: "", changes, broken },
            Trigger::Command,
        )
        .unwrap();
    }

    pub fn decide(
        &self,
        lock: usize,
        holder: &str,
        wish: Wish<()>,
        ahead: Ahead,
    ) -> Result<Decision<Acquired>, Refusal> {
        let keyspace = self.keyspaces[lock].borrow();
        lock::acquire(&HolderView { keyspace: &keyspace, holder }, &wish, ahead, self.now())
    }

    /// Whether the lock would be granted if nobody were before.
    pub fn is_free_to(&self, lock: usize, holder: &str, side: Side) -> bool {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(1).unwrap(), fenced: false };
        let decision = self.decide(lock, holder, wish, Ahead::Nobody);
        matches!(decision, Ok(Decision { answer: Acquired::Granted { .. }, .. }))
    }

    pub fn release(&self, lock: usize, holder: &str, side: Option<Side>, all: bool) {
        self.release_by(Trigger::Command, lock, holder, side, all);
    }

    fn release_by(&self, trigger: Trigger, lock: usize, holder: &str, side: Option<Side>, all: bool) {
        let want = lock::Release { side, lease: None, all };
        let decision = {
            let keyspace = self.keyspaces[lock].borrow();
            lock::release(&HolderView { keyspace: &keyspace, holder }, want, self.now())
        };
        if let Ok(decision) = decision {
            let release = FakeRelease { world: self, lock, holder, changes: decision.changes, broken: Vec::new() };
            serve::release(self, LOCKS[lock], release, trigger).unwrap();
        }
    }

    /// Whether anything is due now.
    pub fn is_something_due(&self) -> bool {
        let now = self.now();
        self.with_table(|table| table.wakes_at(now)).is_some_and(|time| time <= now)
    }

    /// Whether everything is done that can be done now.
    pub fn is_quiet(&self) -> bool {
        !self.paused.get() && self.now() >= self.rests_until.get() && !self.is_something_due()
    }
}

fn who(queued: &Queued<'_, Client>) -> Who {
    match queued.recipient {
        SeenRecipient::Client(client) => Who::Client(client.id),
        SeenRecipient::Session { name, .. } => {
            Who::Ticket { session: text(name), ticket: text(queued.wish.holder.ticket()) }
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn number_of(database: i32) -> usize {
    LOCKS.iter().position(|lock| lock.database == database).expect("a lock of the test")
}

pub fn name(holder: &[u8]) -> &'static str {
    HOLDERS.into_iter().find(|known| known.as_bytes() == holder).expect("a holder of the test")
}
