//! The host on which the engine runs in memory. What a server would decide, tests decide here by switches; what a server
//! would send to its clients is collected.

use crate::keyspace::Keyspace;
use crate::record::{Clocks, View};
use rlock_core::lock::{Changes, Plan, Refusal, Side, Snapshot, UnixMs};
use rlock_core::waiting::{
    Act, Answer, Engine, Host, Kept, LockName, Most, Note, Paused, Permission, Purpose, User, WaitsFor,
};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// `W` sees each step of the engine.
pub struct Memory<W = ()> {
    pub keyspace: RefCell<Keyspace>,
    pub watcher: W,
    /// What was published: channels and messages.
    pub published: RefCell<VecDeque<(Vec<u8>, Vec<u8>)>>,
    /// The notes that the engine has still to read.
    pub inbox: RefCell<VecDeque<Note>>,
    /// What blocked clients wait for, up to the answer.
    pub waits: RefCell<BTreeMap<u64, WaitsFor>>,
    answers: Answers,
    /// The client of the command that is under way.
    pub caller: Cell<u64>,
    /// Whether this client can be blocked.
    pub may_block: Cell<bool>,
    /// Some servers block no client that has a subscription.
    pub has_subscription: Cell<bool>,
    pub steady_ms: Cell<i64>,
    pub clocks: Cell<Clocks>,
    /// The length of a turn: how many times the engine may ask whether it is over.
    pub turn: Cell<u32>,
    turn_left: Cell<u32>,
    pub limits: Cell<Limits>,
    pub has_memory: Cell<bool>,
    pub grace_ms: Cell<i64>,
    /// Until when nothing may be granted or renewed.
    pub held_back_until: Cell<UnixMs>,
    /// While writes are paused: when to try again.
    pub paused: Cell<Option<Paused>>,
    /// Until when the engine has asked to leave all locks alone.
    pub rests_until: Cell<UnixMs>,
    /// Whether a user of this name exists. None: every user exists.
    pub has_user: RefCell<Option<HasUser>>,
    database: Cell<i32>,
    /// How many nested selections of a database by the engine itself are in force.
    selected: Cell<u32>,
}

pub type HasUser = Box<dyn Fn(&[u8]) -> bool>;

type Answers = Rc<RefCell<VecDeque<(u64, Option<Answer>)>>>;

/// Sees what the engine does on the host.
pub trait Watcher: Sized {
    /// Called after each step of the engine.
    fn watch(&self, _host: &Memory<Self>, _engine: &Engine<Client>) {}

    /// The engine opens a lock.
    fn opens(&self, _host: &Memory<Self>) {}

    /// The client of the command that is under way is blocked. Returns the number by which it is answered.
    fn blocks(&self, host: &Memory<Self>) -> u64 {
        host.caller.get()
    }

    /// Whether writes are paused at the moment when this commit would be applied.
    fn refuses(&self, _host: &Memory<Self>, _commit: &Commit<'_>) -> Option<Paused> {
        None
    }

    /// `apply` applies the changes.
    fn commits(&self, _host: &Memory<Self>, _commit: &Commit<'_>, apply: impl FnOnce()) {
        apply();
    }
}

impl Watcher for () {}

/// What is applied in one step: changes, each with its key and its holder.
pub struct Commit<'a> {
    pub database: i32,
    pub changes: Vec<(&'a [u8], &'a [u8], Changes)>,
    /// The answer that is stored with them.
    pub answer: Option<&'a [u8]>,
    /// Whether the second change is the grant of a hand-over.
    pub hands_over: bool,
}

/// A blocked client. Dropping it unblocks the client without an answer.
pub struct Client {
    pub id: u64,
    answers: Option<Answers>,
}

impl Client {
    /// The client has got its answer in another way.
    pub fn forget(mut self) {
        self.answers = None;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(answers) = self.answers.take() {
            answers.borrow_mut().push_back((self.id, None));
        }
    }
}

/// All are alike: a state of the engine does not depend on which client waits.
impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}

/// A client that was blocked, and its answer.
pub struct Answered {
    pub client: u64,
    pub waited_for: Option<WaitsFor>,
    /// None: it is unblocked without an answer.
    pub answer: Option<Answer>,
}

/// The limits of what the engine keeps in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub blocked: usize,
    pub tickets: Most,
    pub sessions: Most,
    pub answer_bytes: usize,
}

/// The module's defaults.
const LIMITS: Limits = Limits {
    blocked: 10_000,
    tickets: Most { all: 1_000_000, of_user: 0 },
    sessions: Most { all: 10_000, of_user: 0 },
    answer_bytes: 64 * 1024,
};

impl<W: Default> Default for Memory<W> {
    fn default() -> Self {
        Self::watched_by(W::default())
    }
}

impl<W> Memory<W> {
    pub fn watched_by(watcher: W) -> Self {
        let (keyspace, published, inbox, waits, answers, caller) = Default::default();
        let (steady_ms, clocks, grace_ms, held_back_until, paused, rests_until) = Default::default();
        let (has_user, database, selected) = Default::default();
        let (may_block, has_memory, limits) = (Cell::new(true), Cell::new(true), Cell::new(LIMITS));
        let (turn, turn_left) = (Cell::new(1_000), Cell::new(1_000));
        Self {
            keyspace,
            watcher,
            published,
            inbox,
            waits,
            answers,
            caller,
            may_block,
            has_subscription: Cell::new(false),
            steady_ms,
            clocks,
            turn,
            turn_left,
            limits,
            has_memory,
            grace_ms,
            held_back_until,
            paused,
            rests_until,
            has_user,
            database,
            selected,
        }
    }

    /// Begins a turn: the server's other clients have been served.
    pub fn begin_turn(&self) {
        self.turn_left.set(self.turn.get());
    }

    /// The database of the command that is under way.
    pub fn use_database(&self, database: i32) {
        self.database.set(database);
    }

    /// Whether the engine checks a lock by itself, not for the command that is under way.
    pub fn is_elsewhere(&self) -> bool {
        self.selected.get() > 0
    }

    /// Whether writes are paused.
    fn pause(&self) -> Option<Paused> {
        let paused = self.paused.get()?;
        self.rests_until.set(self.rests_until.get().max(self.now() + paused.for_ms));
        Some(paused)
    }

    fn now(&self) -> UnixMs {
        self.keyspace.borrow().now()
    }

    /// For how long nothing may be granted or renewed yet.
    fn held_back_ms(&self) -> i64 {
        let left_ms = (self.held_back_until.get() - self.now()).max(0);
        if left_ms > 0 {
            self.rests_until.set(self.rests_until.get().max(self.held_back_until.get()));
        }
        left_ms
    }

    /// The rest of the turn.
    pub fn turn_left(&self) -> u32 {
        self.turn_left.get()
    }

    /// The next client that was answered or unblocked.
    pub fn take_answered(&self) -> Option<Answered> {
        let (client, answer) = self.answers.borrow_mut().pop_front()?;
        let waited_for = self.waits.borrow_mut().remove(&client);
        Some(Answered { client, waited_for, answer })
    }

    /// Removes expired keys, as the server does in its own time, and notes each.
    pub fn end_keys(&self) {
        let take = || self.keyspace.borrow_mut().take_ended();
        while let Some((database, key)) = take() {
            let note = Note::Key { database, key: key.into(), cause: rlock_core::waiting::Cause::LeaseEnd };
            self.inbox.borrow_mut().push_back(note);
        }
    }
}

impl<W: Watcher> Host for Memory<W> {
    type Client = Client;
    type OwnText = Vec<u8>;
    type Lock<'a>
        = View<'a, Ref<'a, Keyspace>>
    where
        W: 'a;
    type Selected<'a>
        = Selected<'a, W>
    where
        W: 'a;

    fn next_note(&self) -> Option<Note> {
        self.inbox.borrow_mut().pop_front()
    }

    fn now(&self) -> UnixMs {
        Self::now(self)
    }

    fn steady_ms(&self) -> i64 {
        self.steady_ms.get()
    }

    fn grace_ms(&self) -> i64 {
        self.grace_ms.get()
    }

    fn turn_is_over(&self) -> bool {
        self.turn_left.set(self.turn_left.get().saturating_sub(1));
        self.turn_left.get() == 0
    }

    /// Never `IsKeptBack`: in this world a pause is for writes only, so the server runs calls for events.
    fn user(&self, name: &[u8]) -> User {
        let is_there = self.has_user.borrow().as_ref().is_none_or(|has_user| has_user(name));
        if is_there { User::IsThere } else { User::IsGone }
    }

    fn own(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn database(&self) -> i32 {
        self.database.get()
    }

    fn select(&self, database: i32) -> Selected<'_, W> {
        self.selected.set(self.selected.get() + 1);
        Selected { host: self, before: self.database.replace(database) }
    }

    fn open<'a>(&'a self, key: &'a [u8], holder: &'a [u8]) -> Self::Lock<'a> {
        self.watcher.opens(self);
        let (keyspace, database, clocks) = (self.keyspace.borrow(), self.database.get(), self.clocks.get());
        View { keyspace, database, key, holder, clocks }
    }

    fn commit<'a, 'b>(
        &'a self,
        lock: Self::Lock<'a>,
        plan: &Plan<'_, &'a [u8], &'b [u8]>,
        others: Vec<(Self::Lock<'a>, Changes)>,
    ) -> Result<(), Paused>
    where
        Self: 'b,
    {
        let (database, key) = (lock.database, lock.key);
        drop(lock);
        let may_create_keys = plan.may_create_keys() || others.iter().any(|(_, changes)| changes.may_create_keys());
        let next = plan.next.map(|(holder, changes)| (key, holder, *changes));
        let others = others.into_iter().map(|(lock, changes)| (lock.key, plan.holder, changes));
        let changes = std::iter::once((key, plan.holder, *plan.changes)).chain(next).chain(others).collect();
        let commit = Commit { database, changes, answer: plan.answer, hands_over: plan.next.is_some() };
        let paused = if may_create_keys { self.pause() } else { None };
        if let Some(paused) = paused.or_else(|| self.watcher.refuses(self, &commit)) {
            return Err(paused);
        }
        self.watcher.commits(self, &commit, || {
            let published = self.keyspace.borrow_mut().apply(database, &commit.changes, commit.answer);
            self.published.borrow_mut().extend(published);
        });
        Ok(())
    }

    fn snapshot(&self, key: &[u8], most: usize) -> Result<Option<Snapshot>, Refusal> {
        self.keyspace.borrow().snapshot(self.database.get(), key, most)
    }

    fn permission(&self, key: Option<&[u8]>, purpose: Purpose) -> Permission {
        let held_back_ms = if key.is_none() { self.held_back_ms() } else { 0 };
        let pause = || if purpose == Purpose::Command { None } else { self.pause() };
        match (held_back_ms, pause()) {
            (1.., _) => Permission::Later(held_back_ms),
            (_, Some(paused)) => Permission::Later(paused.for_ms),
            (_, None) if key.is_none() && purpose == Purpose::Grant => Permission::OfKey,
            (_, None) => Permission::Granted,
        }
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        self.keyspace.borrow().left_until_next(lock.database, lock.key)
    }

    fn limit(&self, of: Kept) -> Option<Most> {
        let Limits { blocked, tickets, sessions, answer_bytes } = self.limits.get();
        match of {
            Kept::Blocked => Some(Most { all: blocked, of_user: blocked }),
            Kept::Tickets => Some(tickets),
            Kept::AnswerBytes => Some(Most { all: answer_bytes, of_user: 0 }),
            Kept::Sessions => self.has_memory.get().then_some(sessions),
        }
    }

    fn allows(&self, what: Act) -> bool {
        what == Act::TouchAnyKey || self.may_block.get()
    }

    fn block(&self) -> Option<Client> {
        let is_blocked = self.may_block.get() && !self.has_subscription.get();
        let id = is_blocked.then(|| self.watcher.blocks(self))?;
        Some(Client { id, answers: Some(Rc::clone(&self.answers)) })
    }

    /// Notes only what the client waits for: this host reports every change anyway.
    fn waits(&self, _side: Option<Side>, client: Option<(&Client, WaitsFor)>) {
        self.waits.borrow_mut().extend(client.map(|(client, waits_for)| (client.id, waits_for)));
    }

    fn answer(&self, mut client: Client, answer: Answer) {
        if let Some(answers) = client.answers.take() {
            answers.borrow_mut().push_back((client.id, Some(answer)));
        }
    }

    fn watch(&self, engine: &Engine<Client>) {
        self.watcher.watch(self, engine);
    }
}

/// While it lives, another database is selected.
pub struct Selected<'a, W> {
    host: &'a Memory<W>,
    before: i32,
}

impl<W> Drop for Selected<'_, W> {
    fn drop(&mut self) {
        self.host.database.set(self.before);
        self.host.selected.set(self.host.selected.get().saturating_sub(1));
    }
}
