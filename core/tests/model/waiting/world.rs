//! The world of the histories: the memory host with two locks, and everything that the engine does on it, in its order.
//!
//! The checks read these notes. So they see each grant as it was at its moment, not as it looks after the whole step.

use super::SESSIONS;
use super::sessions::MOST_SESSIONS;
use crate::permit;
use rlock_core::lock::{
    self, Ahead, Change, Changes, Expiry, Field, Grace, Lease, Outcome, Part, Refusal, Side, Snapshot, UnixMs, Verdict,
    Wish, names,
};
use rlock_core::waiting::{
    Answer, AskedBy, Cancelled, Engine, Host, LockName, Most, Paused, Queued, SeenRecipient, SessionId, Use,
};
use rlock_sim::{Answered, Client, Clocks, Commit, Entry, Keyspace, Limits, Memory, Value, View, Watcher};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;

/// One lock in each of two databases.
pub const LOCKS: [LockName<'static>; 2] =
    [LockName { database: 0, key: b"lock" }, LockName { database: 1, key: b"lock" }];
pub const HOLDERS: [&str; 4] = ["ann:1", "bob:1", "cid:1", "dan:1"];

/// The holder of this number: after those above there are more.
pub fn holder(number: usize) -> &'static str {
    static MORE: LazyLock<Vec<String>> = LazyLock::new(|| (0..40).map(|number| format!("more:{number}")).collect());
    HOLDERS.get(number).copied().unwrap_or_else(|| &MORE[number - HOLDERS.len()])
}
pub const PAUSED_MS: i64 = 20;

/// The most blocked clients.
pub const MOST: usize = 6;

/// The maximum number of tickets that wait or have an event without an acknowledgement.
const MOST_TICKETS: usize = 8;

pub type World = Memory<Seen>;

/// A waiter.
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
    /// Whether its holder asks again, just now.
    pub is_asked_anew: bool,
}

/// What a holder has on one side of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAs {
    pub holds: i64,
    /// When the lease ends: the lock's, or a read hold's own.
    pub end: UnixMs,
}

/// What `rlock_core::waiting` has done.
#[derive(Debug)]
pub enum Happening {
    /// A command was granted its lock at once.
    Came(Came),
    /// A waiter was granted its lock; next it leaves its queue.
    Granted(Granting),
    Left(Left),
    /// A ticket that its session had named is taken back. Next it leaves its queue, if it waited.
    TakenBack(Named, bool),
    /// A client gets the outcomes of the tickets that it has taken back.
    CancelAnswered(u64, Vec<Cancelled>),
    /// A session is no more.
    SessionEnded(&'static str),
    /// A grant to a client that was gone before its reply was sent is released.
    GivenBack(usize, &'static str, Side),
    /// A session's call is to be answered.
    Woken(u64),
    /// A blocked client is answered, or unblocked without an answer.
    LetGo(u64, Option<Outcome>),
}

#[derive(Debug)]
pub struct Came {
    pub holder: &'static str,
    pub was_inside: bool,
    /// The waiters for the lock at this moment.
    pub waiting: Vec<Waiting>,
}

#[derive(Debug)]
pub struct Granting {
    pub lock: usize,
    pub holder: &'static str,
    pub was_inside: bool,
    pub held: HeldAs,
    /// How many permits are taken now.
    pub taken: usize,
    pub token: Option<i64>,
}

#[derive(Debug)]
pub struct Left {
    pub waiter: Waiting,
    /// Earlier waiters for the same lock.
    pub ahead: Vec<Waiting>,
    /// The ms left of its lock.
    pub left_ms: i64,
    /// Why it could not be granted the lock at this moment.
    pub refusal: Option<Refusal>,
}

/// A ticket that is to be taken back, of the session with this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub id: SessionId,
    pub session: u64,
    pub ticket: String,
}

/// What was seen of the engine, and what the checks know of the world.
#[derive(Default)]
pub struct Seen {
    last_id: Cell<u64>,
    /// The open sessions, and which tickets to be taken back were in use, when the engine was last watched.
    before: RefCell<(Vec<&'static str>, Vec<Named>)>,
    /// All waiters, in the order of arrival.
    pub waiting: RefCell<Vec<Waiting>>,
    /// Tickets that commands under way take back.
    pub named: RefCell<Vec<Named>>,
    /// Whether the command is a RENEW: a permit is renewed by the same change by which it is granted.
    pub renews: Cell<bool>,
    /// Since when a grace runs.
    pub grace_since: Cell<Option<UnixMs>>,
    pub happenings: RefCell<VecDeque<Happening>>,
}

impl Watcher for Seen {
    fn watch(&self, world: &World, engine: &Engine<Client>) {
        self.note_answers(world);
        let is_open = |name: &&str| engine.session(name.as_bytes(), b"eve").is_ok();
        let (open, used) = (SESSIONS.into_iter().filter(is_open).collect::<Vec<_>>(), self.used(engine));
        let (open_before, used_before) = self.before.replace((open.clone(), used.clone()));
        let ended: Vec<_> = open_before.into_iter().filter(|name| !open.contains(name)).collect();
        let none_has_ended = ended.is_empty();
        ended.into_iter().for_each(|name| self.happens(Happening::SessionEnded(name)));
        if none_has_ended {
            let is_taken_back = |named: &Named| !used.contains(named) && self.named.borrow().contains(named);
            used_before.into_iter().filter(is_taken_back).for_each(|named| self.taken_back(named));
        }
        if engine.length() < self.waiting.borrow().len() {
            self.note_leavers(world, engine);
        }
    }

    fn blocks(&self, _world: &World) -> u64 {
        self.last_id.set(self.last_id.get() + 1);
        self.last_id.get()
    }

    /// Refuses now and then, as if a hand-over could not be done in one step.
    fn refuses(&self, world: &World, commit: &Commit<'_>) -> Option<Paused> {
        (commit.hands_over && world.now() % 5 == 0).then_some(Paused { for_ms: 0 })
    }

    fn commits(&self, world: &World, commit: &Commit<'_>, apply: impl FnOnce()) {
        self.note_answers(world);
        let lock = number_of(commit.database);
        let [(_, holder, changes), ref next @ ..] = commit.changes[..] else { panic!("a commit without changes") };
        assert_eq!(next.len(), usize::from(commit.hands_over), "here are requests for one lock: see `sets.rs`");
        let named = std::str::from_utf8(holder).unwrap();
        // A break has no holder.
        let side = if holder.is_empty() { None } else { world.side_of(lock, named, &changes) };
        let was_inside = world.is_inside(lock, named);
        apply();
        if let Some(side) = side {
            let holder = name(holder);
            match (is_grant(&changes), world.is_elsewhere()) {
                (true, true) => self.granted(world, lock, holder, side, was_inside, &changes),
                (true, false) if self.renews.get() => {}
                (true, false) => {
                    let waiting = self.waiting.borrow();
                    let waiting = waiting.iter().filter(|waiting| waiting.lock == lock).cloned().collect();
                    self.happens(Happening::Came(Came { holder, was_inside, waiting }));
                }
                (false, true) => self.happens(Happening::GivenBack(lock, holder, side)),
                (false, false) => {}
            }
        }
        if let [(_, to, granted)] = next {
            let to = name(to);
            let side = world.side_of(lock, to, granted).expect("a grant is of a side");
            self.granted(world, lock, to, side, false, granted);
        }
    }
}

impl Seen {
    /// The client that was blocked last.
    pub fn last_id(&self) -> u64 {
        self.last_id.get()
    }

    fn happens(&self, happening: Happening) {
        self.happenings.borrow_mut().push_back(happening);
    }

    fn note_answers(&self, world: &World) {
        while let Some(Answered { client, answer, .. }) = world.take_answered() {
            self.happens(match answer {
                None => Happening::LetGo(client, None),
                Some(Answer::Outcome { outcome, .. }) => Happening::LetGo(client, Some(outcome)),
                Some(Answer::GrantedAll { .. } | Answer::Value(_)) => {
                    panic!("no client here asks for several locks, or by ONCE: see `sets.rs` and `once.rs`")
                }
                Some(Answer::Cancelled(cancelled)) => Happening::CancelAnswered(client, cancelled),
                Some(Answer::Events | Answer::NoSession) => Happening::Woken(client),
            });
        }
    }

    fn granted(
        &self,
        world: &World,
        lock: usize,
        holder: &'static str,
        side: Side,
        was_inside: bool,
        changes: &Changes,
    ) {
        let held = world.held(lock, holder, side).expect("who is granted a lock has it");
        let taken = world.permits(lock).map_or(0, |permits| permits.len());
        let token = changes.on_side_keys().iter().find_map(|change| match change {
            Change::CountToken { makes: token } | Change::SetToken { to: token } => Some(*token),
            _ => None,
        });
        self.happens(Happening::Granted(Granting { lock, holder, was_inside, held, taken, token }));
    }

    /// The tickets to be cancelled that wait, or have a stored event.
    fn used(&self, engine: &Engine<Client>) -> Vec<Named> {
        let wish = Wish { holder: &b""[..], side: Side::Plain, lease: Lease::from_ms(1).unwrap(), fenced: false };
        let is_used = |named: &&Named| {
            engine.use_of(named.id, named.ticket.as_bytes(), (&LOCKS[..1], AskedBy::Acquire), &wish) != Use::Free
        };
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
    fn note_leavers(&self, world: &World, engine: &Engine<Client>) {
        for (number, lock) in LOCKS.into_iter().enumerate() {
            let mut there = engine.queue(lock, world.now()).map(|queued| (who(&queued), queued.wish.lease)).peekable();
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
                let wish = Wish { holder: (), side: waiter.side, lease: waiter.lease, fenced: false };
                let refusal = world.decide(number, waiter.holder, wish, Ahead::Nobody).err();
                let left_ms = world.grace().left_of(world.left_ms(lock));
                self.happens(Happening::Left(Left { waiter, ahead, left_ms, refusal }));
            }
        }
    }
}

/// What the checks ask of the world.
pub trait Look {
    fn world(&self) -> &World;

    fn pause(&self, is_paused: bool) {
        self.world().paused.set(is_paused.then_some(Paused { for_ms: PAUSED_MS }));
    }

    fn is_paused(&self) -> bool {
        self.world().paused.get().is_some()
    }

    fn allow_tickets(&self, all: usize) {
        let sessions = Most { all: MOST_SESSIONS, of_user: 0 };
        self.world().limits.set(Limits {
            blocked: MOST,
            tickets: Most { all, of_user: all },
            sessions,
            answer_bytes: 100,
        });
    }

    /// The grace as it is now: over only when all of it has passed, not in the ms in which it ends.
    fn grace(&self) -> Grace {
        let world = self.world();
        let length_ms = world.grace_ms.get();
        let since = world.watcher.grace_since.get();
        let left_ms = since.map_or(0, |since| (since + length_ms + 1 - world.now()).clamp(0, length_ms));
        Grace { length_ms, left_ms }
    }

    /// Whether this lease is longer than a lease may be.
    fn is_too_long(&self, lease: Lease) -> bool {
        let length_ms = self.world().grace_ms.get();
        length_ms > 0 && lease.end(0).unwrap() > length_ms
    }

    /// Makes the next command be about this lock. Returns its key.
    fn is_about(&self, lock: usize) -> &'static [u8] {
        self.world().use_database(LOCKS[lock].database);
        LOCKS[lock].key
    }

    fn entry(&self, lock: usize, key: &[u8]) -> Option<Entry> {
        self.world().keyspace.borrow().get(LOCKS[lock].database, key).cloned()
    }

    fn has_key(&self, lock: usize, key: &[u8]) -> bool {
        self.entry(lock, key).is_some()
    }

    /// Which side's holds these changes count; None if none.
    fn side_of(&self, lock: usize, holder: &str, changes: &Changes) -> Option<Side> {
        let fields = self.fields(lock);
        let of = |field| match field {
            Field::HolderWrite => Side::Write,
            Field::Holder if fields.contains_key("mode") => Side::Read,
            Field::Holder => Side::Plain,
        };
        if changes.on_side_keys().contains(&Change::PermitStays) {
            return Some(A_PERMIT);
        }
        changes.on_lock_key().iter().find_map(|change| match *change {
            Change::Delete if self.permits(lock).is_some() => Some(A_PERMIT),
            Change::SetPermit { .. } | Change::DropPermit => Some(A_PERMIT),
            Change::DropEnded { .. } => None,
            Change::Begin { side, .. } => Some(kind_of(side)),
            Change::Count { field, .. } | Change::Drop(field) => Some(of(field)),
            Change::Downgrade => Some(Side::Write),
            Change::Delete => {
                Some(if fields.contains_key(&format!("{holder}:write")) && !fields.contains_key(holder) {
                    Side::Write
                } else {
                    of(Field::Holder)
                })
            }
            Change::ExpireAt(_) => None,
            _ => unreachable!("not in the lock"),
        })
    }

    /// What this holder has on this side of the lock, with the lease of its last hold.
    fn held(&self, lock: usize, holder: &str, side: Side) -> Option<HeldAs> {
        let side = kind_of(side);
        if let Some(permits) = self.permits(lock) {
            let end = *permits.get(holder).filter(|_| side == A_PERMIT)?;
            return Some(HeldAs { holds: 1, end });
        }
        if side == A_PERMIT {
            return None;
        }
        let fields = self.fields(lock);
        let field = if side == Side::Write { format!("{holder}:write") } else { holder.to_owned() };
        let is_plain = !fields.contains_key("mode");
        let holds: i64 = fields.get(&field).filter(|_| is_plain == (side == Side::Plain))?.parse().unwrap();
        let key = if side == Side::Read { hold_key(lock, holder, holds) } else { LOCKS[lock].key.to_vec() };
        match self.entry(lock, &key)?.expiry {
            Expiry::At(end) => Some(HeldAs { holds, end }),
            Expiry::Never => None,
        }
    }

    fn snapshot_of(&self, lock: usize) -> Option<Snapshot> {
        let LockName { database, key } = LOCKS[lock];
        self.world().keyspace.borrow().snapshot(database, key, usize::MAX).expect("the key is a lock")
    }

    /// The keys of all read holds that the lock has.
    fn read_holds(&self, lock: usize) -> BTreeSet<Vec<u8>> {
        let holdings = self.snapshot_of(lock).map_or_else(Vec::new, |snapshot| snapshot.holdings);
        let reads = holdings.iter().filter(|holding| holding.part == Part::Read);
        reads.flat_map(|reads| (1..=reads.count).map(|index| hold_key(lock, name(&reads.holder), index))).collect()
    }

    fn fields(&self, lock: usize) -> BTreeMap<String, String> {
        match self.entry(lock, LOCKS[lock].key).map(|entry| entry.value) {
            Some(Value::Hash(fields)) => fields.iter().map(|(field, count)| (text(field), text(count))).collect(),
            Some(Value::SortedSet(_)) => {
                self.permits(lock).into_iter().flatten().map(|(holder, _)| (holder, "1".to_owned())).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    /// The permits that have not ended, each with its end; None if the key holds something else.
    fn permits(&self, lock: usize) -> Option<BTreeMap<String, UnixMs>> {
        let Entry { value: Value::SortedSet(permits), expiry } = self.entry(lock, LOCKS[lock].key)? else {
            return None;
        };
        let last = permits.from(UnixMs::MIN).last().map(|(end, _)| Expiry::At(end));
        assert_eq!(Some(expiry), last, "the key ends with the last");
        Some(permits.from(self.world().now()).map(|(end, holder)| (text(holder), end)).collect())
    }

    fn is_inside(&self, lock: usize, holder: &str) -> bool {
        let fields = self.fields(lock);
        fields.contains_key(holder) || fields.contains_key(&format!("{holder}:write"))
    }

    fn decide(&self, lock: usize, holder: &str, wish: Wish<()>, ahead: Ahead) -> Result<Verdict, Refusal> {
        let LockName { database, key } = LOCKS[lock];
        let keyspace: Ref<'_, Keyspace> = self.world().keyspace.borrow();
        let view = View { keyspace, database, key, holder: holder.as_bytes(), clocks: Clocks::default() };
        lock::acquire(&view, &wish, ahead, self.grace(), self.world().now())
    }

    /// Whether the lock would be granted if no waiter were before.
    fn is_free_to(&self, lock: usize, holder: &str, side: Side) -> bool {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(1).unwrap(), fenced: false };
        matches!(self.decide(lock, holder, wish, Ahead::Nobody), Ok(Verdict::Granted(_)))
    }
}

impl Look for World {
    fn world(&self) -> &World {
        self
    }
}

pub fn new_world() -> World {
    let world = World::default();
    world.turn.set(100);
    world.allow_tickets(MOST_TICKETS);
    world
}

pub fn hold_key(lock: usize, holder: &str, index: i64) -> Vec<u8> {
    names::read_hold(LOCKS[lock].key, holder.as_bytes(), index, <[u8]>::to_vec)
}

pub fn who(queued: &Queued<'_, Client>) -> Who {
    match &queued.recipient {
        SeenRecipient::Client(client) => Who::Client(client.id),
        SeenRecipient::Session(session) => {
            Who::Ticket { session: text(&session.name), ticket: text(queued.wish.holder.ticket()) }
        }
    }
}

/// A permit, whatever its limit: a held permit does not say its limit.
pub const A_PERMIT: Side = permit(1);

pub fn kind_of(side: Side) -> Side {
    if side.limit().is_some() { A_PERMIT } else { side }
}

fn is_grant(changes: &Changes) -> bool {
    let begins = |change: &Change| {
        matches!(change, Change::Begin { .. } | Change::SetPermit { .. } | Change::Count { by: 1, .. })
    };
    changes.on_lock_key().iter().any(begins) || changes.on_side_keys().contains(&Change::PermitStays)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn number_of(database: i32) -> usize {
    LOCKS.iter().position(|lock| lock.database == database).expect("a lock of the test")
}

pub fn name(holder: &[u8]) -> &'static str {
    (0..44).map(self::holder).find(|known| known.as_bytes() == holder).expect("a holder of the test")
}
