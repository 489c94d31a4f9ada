//! The host on which the waiters of the model are served: two locks in a map each, a clock that the test moves, and a
//! record of everything that `rlock_core::waiting` does, in its order.
//!
//! The checks read that record. So they see each grant as it was at its moment, not as it looks after the whole step.

use super::SESSIONS;
use super::sessions::MOST_SESSIONS;
use crate::keyspace::{HolderView, Keyspace, Value, hold_key};
use crate::permit;
use rlock_core::lock::{
    self, Ahead, Change, Changes, Expiry, Field, Grace, Holding, Kind, Lease, Mode, Observed, Outcome, Part, Plan,
    Record, Refusal, Side, Snapshot, UnixMs, Verdict, Wish,
};
use rlock_core::waiting::{
    Answer, Cancelled, Engine, Fitness, GraceNews, Host, Limits, LockName, Most, Note, Paused, Permission, Purpose,
    Queued, SeenRecipient, SessionId, Use, WaitsFor,
};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
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

/// The most tickets that wait or whose event is not acknowledged.
const MOST_TICKETS: usize = 8;

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
    /// Whether its holder asks once more, just now.
    pub is_asked_anew: bool,
}

/// How a holder has one side of a lock.
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
    /// A client is told what became of the tickets that it has taken back.
    CancelAnswered(u64, Vec<Cancelled>),
    /// A session is no more.
    SessionEnded(&'static str),
    /// What a client was granted that was gone before it could be told is released.
    GivenBack(usize, &'static str, Side),
    /// A session's call is to be answered.
    Woken(u64),
    /// A blocked client is answered, or let go without an answer.
    LetGo(u64, Option<Outcome>),
}

#[derive(Debug)]
pub struct Came {
    pub holder: &'static str,
    pub was_inside: bool,
    /// Those who wait for the lock at this moment.
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
    /// Those who came before it and wait for the same lock.
    pub ahead: Vec<Waiting>,
    /// Of its lock.
    pub left_ms: i64,
    /// Why it could not be granted the lock at this moment.
    pub refusal: Option<Refusal>,
}

pub type Happenings = Rc<RefCell<VecDeque<Happening>>>;

/// A client that notes how it was let go.
pub struct Client {
    pub id: u64,
    happenings: Happenings,
}

/// All are alike.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Client")
    }
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
    /// The number of the lock in the database that is selected.
    pub selected: Cell<usize>,
    /// Whether that is not the one of the command.
    is_elsewhere: Cell<bool>,
    last_id: Cell<u64>,
    /// What callbacks within writes have noted.
    pub inbox: RefCell<VecDeque<Note>>,
    /// The open sessions, and which tickets to be taken back were in use, when the engine was last watched.
    seen: RefCell<(Vec<&'static str>, Vec<Named>)>,
    /// Who waits, in the order of coming.
    pub waiting: RefCell<Vec<Waiting>>,
    /// Tickets that commands under way take back.
    pub named: RefCell<Vec<Named>>,
    pub paused: Cell<bool>,
    /// Whether the command is a RENEW: a permit is renewed by the same change by which it is granted.
    pub renews: Cell<bool>,
    /// Until then nothing is tried, since this server was told that it may not write.
    pub rests_until: Cell<UnixMs>,
    /// Until then nothing may be granted or renewed, since this server stood still.
    pub held_back_until: Cell<UnixMs>,
    pub happenings: Happenings,
    pub turn: Cell<u32>,
    /// What is left of the turn.
    pub turn_left: Cell<u32>,
    pub most_tickets: Cell<usize>,
    /// How long a grace lasts; and since when one runs, by the test itself.
    pub grace_ms: Cell<i64>,
    pub grace_since: Cell<Option<UnixMs>>,
    grace_is_told: Cell<bool>,
}

impl Host for Fake {
    type Client = Client;
    type Text<'a> = &'a [u8];
    type OwnText = Vec<u8>;
    type Lock<'a> = HolderView<'a, Ref<'a, Keyspace>>;
    type Selected<'a> = Selected<'a>;

    fn next_note(&self) -> Option<Note> {
        self.inbox.borrow_mut().pop_front()
    }

    fn watch(&self, engine: &Engine<Client>) {
        let is_open = |name: &&str| engine.session(name.as_bytes(), b"eve").is_ok();
        let (open, used) = (SESSIONS.into_iter().filter(is_open).collect::<Vec<_>>(), self.used(engine));
        let (open_before, used_before) = self.seen.replace((open.clone(), used.clone()));
        let ended: Vec<_> = open_before.into_iter().filter(|name| !open.contains(name)).collect();
        let none_has_ended = ended.is_empty();
        ended.into_iter().for_each(|name| self.happens(Happening::SessionEnded(name)));
        if none_has_ended {
            let is_taken_back = |named: &Named| !used.contains(named) && self.named.borrow().contains(named);
            used_before.into_iter().filter(is_taken_back).for_each(|named| self.taken_back(named));
        }
        if engine.length() < self.waiting.borrow().len() {
            self.note_who_left(engine);
        }
    }

    fn limits(&self) -> Limits {
        let all = self.most_tickets.get();
        let sessions = Most { all: MOST_SESSIONS, of_user: 0 };
        Limits { blocked: MOST, tickets: Most { all, of_user: all }, sessions }
    }

    fn has_memory(&self) -> bool {
        true
    }

    /// One ms ahead of the keys: a key is gone once its end is past, not at its end.
    fn now(&self) -> UnixMs {
        self.keyspaces[0].borrow().now + 1
    }

    fn fitness(&self) -> Fitness {
        if self.paused.get() { Fitness::Unfit(self.later()) } else { Fitness::OfKey }
    }

    fn permission(&self, _key: &[u8], _purpose: Purpose) -> Permission {
        if self.paused.get() { Permission::Later(self.later()) } else { Permission::Granted }
    }

    fn has_user(&self, _name: &[u8]) -> bool {
        true
    }

    /// A pause of writes: calls for events are not among them.
    fn clients_are_paused(&self) -> bool {
        false
    }

    fn steady_ms(&self) -> i64 {
        self.now()
    }

    fn held_back_ms(&self) -> i64 {
        let left_ms = (self.held_back_until.get() - self.now()).max(0);
        if left_ms > 0 {
            self.rests_until.set(self.rests_until.get().max(self.held_back_until.get()));
        }
        left_ms
    }

    fn grace_ms(&self) -> i64 {
        self.grace_ms.get()
    }

    fn tell_grace(&self, news: GraceNews) {
        let runs = matches!(news, GraceNews::Begins { .. });
        assert!(runs || self.grace_is_told.get(), "no grace was told of that is over");
        self.grace_is_told.set(runs);
    }

    fn turn_is_over(&self) -> bool {
        self.turn_left.set(self.turn_left.get().saturating_sub(1));
        self.turn_left.get() == 0
    }

    fn own(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn lend<'a>(&'a self, text: &'a Vec<u8>) -> &'a [u8] {
        text
    }

    fn database(&self) -> i32 {
        LOCKS[self.selected.get()].database
    }

    fn select(&self, database: i32) -> Selected<'_> {
        let before = (self.selected.replace(number_of(database)), self.is_elsewhere.replace(true));
        Selected { world: self, before }
    }

    fn open<'a>(&'a self, _key: &'a [u8], holder: &'a [u8]) -> HolderView<'a, Ref<'a, Keyspace>> {
        let holder = std::str::from_utf8(holder).unwrap();
        HolderView { keyspace: self.keyspaces[self.selected.get()].borrow(), holder }
    }

    fn commit<'a, 'b>(
        &'a self,
        record: Self::Lock<'a>,
        plan: &Plan<'_, Self::Text<'a>, Self::Text<'b>>,
        others: Vec<(Self::Lock<'a>, Changes)>,
    ) -> Result<(), Paused>
    where
        Self: 'b,
    {
        assert!(others.is_empty(), "here are requests for one lock: see `sets.rs`");
        drop(record);
        if plan.may_create_keys() && self.paused.get() {
            return Err(Paused { for_ms: self.later() });
        }
        // Now and then, as if it could not be done in one step.
        if plan.next.is_some() && self.now() % 5 == 0 {
            return Err(Paused { for_ms: 0 });
        }
        self.make_true(plan);
        Ok(())
    }

    fn snapshot(&self, _key: &[u8], _most: usize) -> Result<Option<Snapshot>, Refusal> {
        Ok(self.snapshot_of(self.selected.get()))
    }

    fn may_touch_any_key(&self) -> bool {
        true
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let keyspace = self.keyspaces[number_of(lock.database)].borrow();
        let record = HolderView { keyspace, holder: "" };
        match record.observe() {
            Ok(Observed::Permits) => {
                record.permits(self.now(), 0).first_end.map_or(0, |end| Expiry::At(end).left_ms(self.now()))
            }
            _ => record.expiry().left_ms(self.now()),
        }
    }

    fn listen(&self, _side: Side) {}

    fn may_block(&self) -> bool {
        true
    }

    fn block(&self) -> Option<Client> {
        self.last_id.set(self.last_id.get() + 1);
        Some(Client { id: self.last_id.get(), happenings: Rc::clone(&self.happenings) })
    }

    fn blocked(&self, _client: &Client, _waits_for: WaitsFor) {}

    fn answer(&self, client: Client, answer: Answer) {
        self.happens(match answer {
            Answer::Outcome { outcome, .. } => Happening::LetGo(client.id, Some(outcome)),
            Answer::GrantedAll { .. } => unreachable!("no client here asks for several locks: see `sets.rs`"),
            Answer::Cancelled(cancelled) => Happening::CancelAnswered(client.id, cancelled),
            Answer::Events | Answer::NoSession => Happening::Woken(client.id),
        });
        std::mem::forget(client);
    }
}

/// While it lives, another database is selected.
pub struct Selected<'a> {
    world: &'a Fake,
    before: (usize, bool),
}

impl Drop for Selected<'_> {
    fn drop(&mut self) {
        self.world.selected.set(self.before.0);
        self.world.is_elsewhere.set(self.before.1);
    }
}

impl Fake {
    pub fn new() -> Self {
        let (keyspaces, selected, is_elsewhere, last_id) = Default::default();
        let (inbox, seen, waiting, named, paused, rests_until, happenings, turn_left) = Default::default();
        let (grace_ms, grace_since, grace_is_told, renews, held_back_until) = Default::default();
        let (turn, most_tickets) = (Cell::new(100), Cell::new(MOST_TICKETS));
        Self {
            keyspaces,
            selected,
            is_elsewhere,
            last_id,
            inbox,
            seen,
            waiting,
            named,
            paused,
            renews,
            rests_until,
            held_back_until,
            happenings,
            turn,
            turn_left,
            most_tickets,
            grace_ms,
            grace_since,
            grace_is_told,
        }
    }

    /// The grace as it is now: over only when all of it has passed, not in the ms in which it ends.
    pub fn grace(&self) -> Grace {
        let length_ms = self.grace_ms.get();
        let left_ms =
            self.grace_since.get().map_or(0, |since| (since + length_ms + 1 - self.now()).clamp(0, length_ms));
        Grace { length_ms, left_ms }
    }

    /// Whether no lease may be so long.
    pub fn is_too_long(&self, lease: Lease) -> bool {
        self.grace_ms.get() > 0 && lease.end(0).unwrap() > self.grace_ms.get()
    }

    /// The next command is about this lock.
    pub fn is_about(&self, lock: usize) -> &'static [u8] {
        self.selected.set(lock);
        LOCKS[lock].key
    }

    /// The client that was blocked last.
    pub fn last_id(&self) -> u64 {
        self.last_id.get()
    }

    fn happens(&self, happening: Happening) {
        self.happenings.borrow_mut().push_back(happening);
    }

    fn later(&self) -> i64 {
        self.rests_until.set(self.rests_until.get().max(self.now() + PAUSED_MS));
        PAUSED_MS
    }

    /// Makes a plan true, and notes for whom.
    fn make_true(&self, plan: &Plan<'_, &[u8], &[u8]>) {
        let lock = self.selected.get();
        let holder = std::str::from_utf8(plan.holder).unwrap();
        // A break is in nobody's name.
        let side = if holder.is_empty() { None } else { self.side_of(lock, holder, plan.changes) };
        let was_inside = self.is_inside(lock, holder);
        let to = plan.next.map(|(to, granted)| (name(to), granted));
        let apply = |holder: &str, changes: &[Change]| {
            let mut keyspace = self.keyspaces[lock].borrow_mut();
            changes.iter().for_each(|change| keyspace.apply_one(holder, *change));
        };
        apply(holder, plan.changes.on_lock_key());
        to.iter().for_each(|(to, granted)| apply(to, granted.on_lock_key()));
        apply(holder, plan.changes.on_side_keys());
        to.iter().for_each(|(to, granted)| apply(to, granted.on_side_keys()));
        if let Some(side) = side {
            let holder = name(plan.holder);
            match (is_grant(plan.changes), self.is_elsewhere.get()) {
                (true, true) => self.granted(lock, holder, side, was_inside, plan.changes),
                (true, false) if self.renews.get() => {}
                (true, false) => {
                    let waiting =
                        self.waiting.borrow().iter().filter(|waiting| waiting.lock == lock).cloned().collect();
                    self.happens(Happening::Came(Came { holder, was_inside, waiting }));
                }
                (false, true) => self.happens(Happening::GivenBack(lock, holder, side)),
                (false, false) => {}
            }
        }
        if let Some((to, granted)) = to {
            let side = self.side_of(lock, to, granted).expect("a grant is of a side");
            self.granted(lock, to, side, false, granted);
        }
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

    fn granted(&self, lock: usize, holder: &'static str, side: Side, was_inside: bool, changes: &Changes) {
        let held = self.held(lock, holder, side).expect("who is granted a lock has it");
        let taken = self.permits(lock).map_or(0, |permits| permits.len());
        let token = changes.on_side_keys().iter().find_map(|change| match change {
            Change::CountToken { makes: token } | Change::SetToken { to: token } => Some(*token),
            _ => None,
        });
        self.happens(Happening::Granted(Granting { lock, holder, was_inside, held, taken, token }));
    }

    /// How this holder has this side of the lock: with its last hold's lease.
    pub fn held(&self, lock: usize, holder: &str, side: Side) -> Option<HeldAs> {
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
        let key = if side == Side::Read { hold_key(holder, holds) } else { "lock".to_owned() };
        match self.keyspaces[lock].borrow().entries().get(&key)?.1 {
            Expiry::At(end) => Some(HeldAs { holds, end }),
            Expiry::Never => None,
        }
    }

    /// The tickets to be taken back that wait, or whose event is kept.
    fn used(&self, engine: &Engine<Client>) -> Vec<Named> {
        let wish = Wish { holder: &b""[..], side: Side::Plain, lease: Lease::from_ms(1).unwrap(), fenced: false };
        let is_used =
            |named: &&Named| engine.use_of(named.id, named.ticket.as_bytes(), &LOCKS[..1], &wish) != Use::Free;
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
    fn note_who_left(&self, engine: &Engine<Client>) {
        for (number, lock) in LOCKS.into_iter().enumerate() {
            let mut there = engine.queue(lock, self.now()).map(|queued| (who(&queued), queued.wish.lease)).peekable();
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
                let refusal = self.decide(number, waiter.holder, wish, Ahead::Nobody).err();
                self.happens(Happening::Left(Left {
                    waiter,
                    ahead,
                    left_ms: self.grace().left_of(self.left_ms(lock)),
                    refusal,
                }));
            }
        }
    }

    pub fn snapshot_of(&self, lock: usize) -> Option<Snapshot> {
        let keyspace = self.keyspaces[lock].borrow();
        if let Some(permits) = self.permits(lock) {
            let holding = |(holder, end): (&String, &UnixMs)| Holding {
                holder: holder.clone().into_bytes(),
                part: Part::Permit(*end),
                count: 1,
            };
            let (holdings, expiry): (Vec<_>, _) = (permits.iter().map(holding).collect(), keyspace.entries()["lock"].1);
            return Some(Snapshot { kind: Kind::Permits, expiry, holder_count: holdings.len(), holdings });
        }
        let Some((Value::Hash(fields), expiry)) = keyspace.entries().get("lock") else { return None };
        let mode = fields.get("mode").map(|mode| if mode == "read" { Mode::Read } else { Mode::Write });
        let holding = |(field, value): (&String, &String)| {
            Holding::of_field(mode, field.as_bytes(), value.as_bytes()).expect("a lock of ours")
        };
        let holdings: Vec<_> = fields.iter().filter_map(holding).collect();
        let kind = if mode.is_some() { Kind::ReadWrite } else { Kind::Plain };
        Some(Snapshot { kind, expiry: *expiry, holder_count: holdings.len(), holdings })
    }

    pub fn fields(&self, lock: usize) -> BTreeMap<String, String> {
        match self.keyspaces[lock].borrow().entries().get("lock") {
            Some((Value::Hash(fields), _)) => fields.clone(),
            Some((Value::SortedSet(_), _)) => {
                let holders = self.permits(lock).into_iter().flatten();
                holders.map(|(holder, _)| (holder, "1".to_owned())).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    /// Those that have not ended, each with its end; None if the key holds something else.
    pub fn permits(&self, lock: usize) -> Option<BTreeMap<String, UnixMs>> {
        match self.keyspaces[lock].borrow().entries().get("lock") {
            Some((Value::SortedSet(permits), expiry)) => {
                assert_eq!(
                    Some(*expiry),
                    permits.values().max().map(|end| Expiry::At(*end)),
                    "the key ends with the last"
                );
                Some(
                    permits
                        .iter()
                        .filter(|(_, end)| **end >= self.now())
                        .map(|(who, end)| (who.clone(), *end))
                        .collect(),
                )
            }
            _ => None,
        }
    }

    pub fn is_inside(&self, lock: usize, holder: &str) -> bool {
        let fields = self.fields(lock);
        fields.contains_key(holder) || fields.contains_key(&format!("{holder}:write"))
    }

    pub fn decide(&self, lock: usize, holder: &str, wish: Wish<()>, ahead: Ahead) -> Result<Verdict, Refusal> {
        let keyspace = self.keyspaces[lock].borrow();
        lock::acquire(&HolderView { keyspace, holder }, &wish, ahead, self.grace(), self.now())
    }

    /// Whether the lock would be granted if nobody were before.
    pub fn is_free_to(&self, lock: usize, holder: &str, side: Side) -> bool {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(1).unwrap(), fenced: false };
        matches!(self.decide(lock, holder, wish, Ahead::Nobody), Ok(Verdict::Granted(_)))
    }
}

pub fn who(queued: &Queued<'_, Client>) -> Who {
    match queued.recipient {
        SeenRecipient::Client(client) => Who::Client(client.id),
        SeenRecipient::Session { name, .. } => {
            Who::Ticket { session: text(name), ticket: text(queued.wish.holder.ticket()) }
        }
    }
}

/// A permit, whatever its limit: what a holder has does not say it.
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
