//! The server as the host on which waiters are served.

use super::blocked_client::BlockedClient;
use super::state::Blocked;
use super::turn::{Turn, monotonic_us};
use super::{fitness, state};
use crate::server::edge::settings::SETTINGS;
use crate::server::edge::users::Reader;
use crate::server::edge::{Reply, reply};
use crate::server::ffi::api::flag;
use crate::server::ffi::cluster;
use crate::server::ffi::context::{Context, Selected};
use crate::server::ffi::key::Key;
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::keys::{LockRecord, take_snapshot};
use rlock_core::lock::{Outcome, Plan, Refusal, Side, Snapshot, UnixMs};
use rlock_core::waiting::{Host, LockName, Note, Paused, Permission, Room, Trigger, WaitsFor};
use std::cell::Cell;

pub struct Server<'a> {
    pub(super) context: &'a Context,
    turn: Turn,
    /// Whether the server, asked in this turn, would let a client write.
    is_fit: Cell<bool>,
}

impl<'a> Server<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, turn: Turn::default(), is_fit: Cell::new(false) }
    }
}

impl Host for Server<'_> {
    type Client = BlockedClient;
    type Text<'a>
        = Str<'a>
    where
        Self: 'a;
    type OwnText = OwnedStr;
    type Lock<'a>
        = LockRecord<'a>
    where
        Self: 'a;
    type Selected<'a>
        = Selected<'a>
    where
        Self: 'a;

    fn next_note(&self) -> Option<Note> {
        state::next_note()
    }

    fn now(&self) -> UnixMs {
        self.context.now()
    }

    fn turn_is_over(&self) -> bool {
        self.turn.is_over()
    }

    fn has_user(&self, name: &[u8]) -> bool {
        Reader::named(&OwnedStr::new(name)).is_some()
    }

    fn clients_are_paused(&self) -> bool {
        // Or only writes: the server does not say which.
        self.context.writes_are_paused()
    }

    fn own(&self, bytes: &[u8]) -> OwnedStr {
        OwnedStr::new(bytes)
    }

    fn lend<'a>(&'a self, text: &'a OwnedStr) -> Str<'a> {
        text.lend()
    }

    fn shorter<'b, 'a: 'b>(text: Str<'a>) -> Str<'b>
    where
        Self: 'a,
    {
        text
    }

    fn database(&self) -> i32 {
        self.context.database()
    }

    fn select(&self, database: i32) -> Selected<'_> {
        self.context.select(database)
    }

    fn open<'a>(&'a self, key: Str<'a>, holder: Str<'a>) -> LockRecord<'a> {
        LockRecord::open(self.context, key, holder)
    }

    fn commit<'a, 'b>(&'a self, lock: LockRecord<'a>, plan: &Plan<'_, Str<'b>>) -> Result<(), Paused>
    where
        Self: 'b,
    {
        lock.commit(plan)
    }

    fn snapshot(&self, key: Str<'_>, most: usize) -> Result<Option<Snapshot>, Refusal> {
        take_snapshot(self.context, key, most)
    }

    fn fitness(&self, trigger: Trigger) -> Permission {
        fitness::fitness(self.context, trigger)
    }

    fn is_known_to_be_fit(&self, trigger: Trigger) -> bool {
        trigger == Trigger::Command || self.is_fit.get()
    }

    fn permission(&self, key: Str<'_>, trigger: Trigger) -> Permission {
        if self.is_fit.get() {
            return Permission::Granted;
        }
        let permission = fitness::ask(self.context, key, trigger);
        // In a cluster each key may be at another node.
        if trigger == Trigger::Event && !cluster::enabled() {
            self.is_fit.set(permission == Permission::Granted);
        }
        permission
    }

    /// In a cluster some servers look for each key in the slot of the transaction or the script that is under way.
    fn may_touch_any_key(&self) -> bool {
        !cluster::enabled() || self.context.flags() & (flag::IN_TRANSACTION | flag::IN_SCRIPT) == 0
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let _selected = self.context.select(lock.database);
        left_ms(self.context, &OwnedStr::new(lock.key))
    }

    fn most_blocked(&self) -> usize {
        SETTINGS.max_waiters.get()
    }

    fn most_tickets(&self) -> usize {
        SETTINGS.max_tickets.get()
    }

    fn room(&self) -> Room {
        let has_memory = !fitness::is_out_of_memory(self.context);
        Room { all: SETTINGS.max_sessions.get(), of_user: SETTINGS.max_sessions_per_user.get(), has_memory }
    }

    fn listen(&self, side: Side) {
        let on_key = state::get().hooks.get().map(|hooks| hooks.on_key);
        state::get().listening.borrow_mut().begin(self.context, side, on_key.map(|on_key| on_key as _));
    }

    fn may_block(&self) -> bool {
        self.context.may_block()
    }

    fn block(&self) -> Option<BlockedClient> {
        BlockedClient::block(self.context, state::get().hooks.get()?.of_client)
    }

    fn blocked(&self, client: &BlockedClient, waits_for: WaitsFor) {
        let blocked = Blocked { waits_for, since_us: monotonic_us() };
        state::get().clients.borrow_mut().blocked.insert(client.key(), blocked);
    }

    fn answer(&self, client: BlockedClient, outcome: Outcome, fenced: bool) {
        client.answer(reply::of_acquire(outcome, fenced));
    }

    fn answer_cancel(&self, client: BlockedClient, found: usize) {
        client.answer(Ok(Reply::count(found)));
    }

    fn wake(&self, call: BlockedClient) {
        call.wake();
    }
}

pub(super) fn left_ms(context: &Context, key: &OwnedStr) -> i64 {
    Key::peek_expiry(context, key.lend()).map_or(0, |expiry| expiry.left_ms(context.now()))
}
