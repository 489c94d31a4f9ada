//! What the module's engine stands on where there is no server: locks as a measurement has them, and clients that are
//! numbers.

use rlock_core::lock::{Changes, Expiry, Observed, Outcome, Permits, Plan, Record, Refusal, Side, Snapshot, UnixMs};
use rlock_core::waiting::{GraceNews, Host, LockName, Most, Note, Paused, Permission, Room, Trigger, WaitsFor};
use std::cell::{Cell, RefCell};

/// The locks that there are.
pub trait Locks {
    /// A lock as a holder sees it, and when its lease ends.
    fn look(&self, key: &[u8], holder: &[u8]) -> (Observed, UnixMs);

    fn change(&self, key: &[u8], holder: &[u8], changes: &Changes);
}

pub struct NoServer<L> {
    pub locks: L,
    pub now: Cell<UnixMs>,
    clients: Cell<u64>,
    /// The numbers of the clients that were granted what they waited for.
    pub granted: RefCell<Vec<u64>>,
}

impl<L> NoServer<L> {
    pub fn new(locks: L, now: UnixMs) -> Self {
        Self { locks, now: Cell::new(now), clients: Cell::default(), granted: RefCell::default() }
    }
}

/// As large as what the module keeps of a blocked client.
pub struct Client {
    _blocked: usize,
    pub number: u64,
}

/// A plain lock at one moment.
pub struct Look<'a> {
    key: &'a [u8],
    observed: Observed,
    end: UnixMs,
}

impl Record for Look<'_> {
    fn is_there(&self) -> bool {
        self.observed != Observed::Free
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        Ok(self.observed)
    }

    fn expiry(&self) -> Expiry {
        Expiry::At(self.end)
    }

    fn derived_keys_are_reachable(&self) -> bool {
        true
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        Ok(1)
    }

    fn token_clock_us(&self) -> Option<i64> {
        None
    }

    fn readers(&self) -> usize {
        0
    }

    fn read_hold_end(&self, _: i64) -> Option<Expiry> {
        None
    }

    fn permits(&self, _: UnixMs, _: usize) -> Permits {
        panic!("these are plain locks");
    }

    fn longest_read_lease(&self, _: i64, _: UnixMs) -> Option<Expiry> {
        None
    }
}

impl<L: Locks> Host for NoServer<L> {
    type Client = Client;
    type Text<'a>
        = &'a [u8]
    where
        L: 'a;
    type OwnText = Vec<u8>;
    type Lock<'a>
        = Look<'a>
    where
        L: 'a;
    type Selected<'a>
        = ()
    where
        L: 'a;

    fn next_note(&self) -> Option<Note> {
        None
    }

    fn now(&self) -> UnixMs {
        self.now.get()
    }

    fn steady_ms(&self) -> i64 {
        self.now.get()
    }

    fn grace_ms(&self) -> i64 {
        0
    }

    fn tell_grace(&self, _: GraceNews) {}

    fn turn_is_over(&self) -> bool {
        false
    }

    fn has_user(&self, _: &[u8]) -> bool {
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

    fn shorter<'b, 'a: 'b>(text: &'a [u8]) -> &'b [u8]
    where
        Self: 'a,
    {
        text
    }

    fn database(&self) -> i32 {
        0
    }

    fn select(&self, _: i32) {}

    fn open<'a>(&'a self, key: &'a [u8], holder: &'a [u8]) -> Look<'a> {
        let (observed, end) = self.locks.look(key, holder);
        Look { key, observed, end }
    }

    fn commit<'a, 'b>(&'a self, lock: Look<'a>, plan: &Plan<'_, &'b [u8]>) -> Result<(), Paused>
    where
        Self: 'b,
    {
        for (holder, changes) in [(plan.holder, plan.changes)].into_iter().chain(plan.next) {
            self.locks.change(lock.key, holder, changes);
        }
        Ok(())
    }

    fn snapshot(&self, _: &[u8], _: usize) -> Result<Option<Snapshot>, Refusal> {
        Ok(None)
    }

    fn fitness(&self, _: Trigger) -> Permission {
        Permission::Granted
    }

    fn is_known_to_be_fit(&self, _: Trigger) -> bool {
        true
    }

    fn permission(&self, _: &[u8], _: Trigger) -> Permission {
        Permission::Granted
    }

    fn may_touch_any_key(&self) -> bool {
        true
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let (observed, end) = self.locks.look(lock.key, b"");
        if observed == Observed::Free { 0 } else { end - self.now.get() }
    }

    fn most_blocked(&self) -> usize {
        usize::MAX
    }

    fn most_tickets(&self) -> Most {
        Most { all: usize::MAX, of_user: usize::MAX }
    }

    fn listen(&self, _: Side) {}

    fn room(&self) -> Room {
        Room { most: Most { all: 0, of_user: 0 }, has_memory: true }
    }

    fn may_block(&self) -> bool {
        true
    }

    fn block(&self) -> Option<Client> {
        self.clients.set(self.clients.get() + 1);
        Some(Client { _blocked: 0, number: self.clients.get() })
    }

    fn blocked(&self, _: &Client, _: WaitsFor) {}

    fn answer(&self, client: Client, outcome: Outcome, _: bool) {
        assert!(matches!(outcome, Outcome::Granted { .. }), "nobody is told anything else here, but {outcome:?}");
        self.granted.borrow_mut().push(client.number);
    }

    fn answer_all(&self, client: Client, _: Vec<i64>) {
        self.granted.borrow_mut().push(client.number);
    }

    fn answer_cancel(&self, _: Client, _: usize) {
        panic!("nobody takes anything back here");
    }

    fn wake(&self, _: Client) {
        panic!("nobody waits for events here");
    }
}
