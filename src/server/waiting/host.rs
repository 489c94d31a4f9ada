//! The server as the host on which waiters are served.

use super::blocked_client::BlockedClient;
use super::turn::Turn;
use super::{fitness, sessions, state};
use crate::server::edge::rights::Reader;
use crate::server::edge::{ErrorLine, Reply, reply};
use crate::server::ffi::api::flag;
use crate::server::ffi::cluster;
use crate::server::ffi::context::Context;
use crate::server::ffi::key::Key;
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::keys::{LockRecord, Step};
use rlock_core::lock::{
    self, Acquired, Ahead, Change, Changes, Decision, Expiry, Observed, Outcome, Record, Side, UnixMs, names,
};
use rlock_core::waiting::serve::{self, Grant, Host, Permission, Releasing, Tried, Trigger};
use rlock_core::waiting::{HeldAs, Hold, LockName, Next, Table};
use std::cell::Cell;

pub(super) struct Server<'a> {
    pub context: &'a Context,
    turn: Turn,
    /// Whether the server, asked in this turn, would let a client write.
    is_fit: Cell<bool>,
}

impl<'a> Server<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, turn: Turn::begin(), is_fit: Cell::new(false) }
    }

    /// Whether the server would let a client write to this key, now that its lock is free. It must not be open.
    fn ask(&self, key: Str<'_>, trigger: Trigger) -> Permission {
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
}

impl Host for Server<'_> {
    type Client = BlockedClient;

    fn with_table<T>(&self, use_table: impl FnOnce(&mut Table<BlockedClient>) -> T) -> T {
        state::with(use_table)
    }

    fn now(&self) -> UnixMs {
        self.context.now()
    }

    fn has_user(&self, name: &[u8]) -> bool {
        Reader::named(&OwnedStr::new(name)).is_some()
    }

    fn clients_are_paused(&self) -> bool {
        // Or only writes: the server does not say which.
        self.context.writes_are_paused()
    }

    fn turn_is_over(&self) -> bool {
        self.turn.is_over()
    }

    fn permission(&self, lock: LockName<'_>, trigger: Trigger) -> Permission {
        let _selected = self.context.select(lock.database);
        match fitness::fitness(self.context, trigger) {
            // A string for its name is dear, and mostly not needed.
            Permission::Granted if trigger != Trigger::Command => self.ask(OwnedStr::new(lock.key).lend(), trigger),
            Permission::Granted => Permission::Granted,
            unfit => unfit,
        }
    }

    fn acquire(&self, lock: LockName<'_>, next: &Next, ahead: Ahead, trigger: Trigger) -> Tried {
        // This costs nothing, and no key is touched if the answer is no.
        if let Permission::Later(ms) = fitness::fitness(self.context, trigger) {
            return Tried::Later(ms);
        }
        let _selected = self.context.select(lock.database);
        let (key, holder) = (OwnedStr::new(lock.key), OwnedStr::new(&next.wish.holder));
        let mut may_grant = trigger == Trigger::Command || self.is_fit.get();
        loop {
            let record = LockRecord::open(self.context, key.lend(), holder.lend());
            let at = self.now();
            match lock::acquire(&record, &next.wish, ahead, at) {
                Ok(Decision { answer: Acquired::Granted { token }, changes }) if may_grant => {
                    let ended = if changes.holds() > 1 { record.expiry() } else { Expiry::Never };
                    return match record.apply(&changes) {
                        Ok(()) => Tried::Granted(Grant::of(&changes, ended, at, token)),
                        Err(_) => Tried::Later(fitness::PAUSED_MS),
                    };
                }
                // Closed before the server checks a command on this very key, and looked at anew after that.
                Ok(Decision { answer: Acquired::Granted { .. }, .. }) => drop(record),
                Ok(Decision { answer: Acquired::Busy, .. }) => {
                    return match lock::left_ms(next.wish.side, &record, at) {
                        Ok(left_ms) => Tried::Busy { left_ms },
                        Err(refusal) => Tried::Refused(refusal),
                    };
                }
                Err(refusal) => return Tried::Refused(refusal),
            }
            match self.ask(key.lend(), trigger) {
                Permission::Granted => may_grant = true,
                Permission::Later(ms) => return Tried::Later(ms),
                Permission::Elsewhere => return Tried::Elsewhere,
            }
        }
    }

    /// In a cluster some servers look for each key in the slot of the transaction or the script that is under way.
    fn may_touch_any_key(&self) -> bool {
        !cluster::enabled() || self.context.flags() & (flag::IN_TRANSACTION | flag::IN_SCRIPT) == 0
    }

    fn revoke(&self, hold: &Hold) {
        let _selected = self.context.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.wish.holder));
        let want = lock::Release { side: Some(hold.wish.side), lease: None, all: false };
        let record = LockRecord::open(self.context, key.lend(), holder.lend());
        if let Ok(decision) = lock::release(&record, want, self.context.now()) {
            let release =
                Release { context: self.context, key: key.lend(), record, released: &decision.changes, broken: &[] };
            let lock = LockName { database: hold.database, key: &hold.key };
            // Refused only while writes are paused; the hold then ends with its lease.
            let _ = serve::release(self, lock, release, Trigger::Event);
        }
    }

    fn held_as(&self, hold: &Hold) -> Option<HeldAs> {
        let _selected = self.context.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.wish.holder));
        let record = LockRecord::open(self.context, key.lend(), holder.lend());
        let (holds, expiry) = match (record.observe().ok()?, hold.wish.side) {
            (Observed::Mine { holds }, Side::Plain) => (holds, record.expiry()),
            (Observed::ReadWrite(lock), Side::Write) => (lock.writes, record.expiry()),
            (Observed::ReadWrite(lock), Side::Read) => {
                let name = names::read_hold(&hold.key, &hold.wish.holder, lock.reads, OwnedStr::new);
                (lock.reads, Key::peek_expiry(self.context, name.lend())?)
            }
            _ => return None,
        };
        let Expiry::At(end) = expiry else { return None };
        Some(HeldAs { holds, end })
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let _selected = self.context.select(lock.database);
        left_ms(self.context, &OwnedStr::new(lock.key))
    }

    fn answer(&self, client: BlockedClient, outcome: Outcome, fenced: bool) {
        client.answer(reply::of_acquire(outcome, fenced));
    }

    fn answer_cancel(&self, client: BlockedClient, found: usize) {
        client.answer(Ok(Reply::count(found)));
    }

    fn wake(&self, call: BlockedClient) {
        sessions::wake(call);
    }
}

pub(super) fn left_ms(context: &Context, key: &OwnedStr) -> i64 {
    Key::peek_expiry(context, key.lend()).map_or(0, |expiry| expiry.left_ms(context.now()))
}

/// A release of an open lock, or the break of one, which releases every hold that anyone has of it.
pub(super) struct Release<'a> {
    pub context: &'a Context,
    pub key: Str<'a>,
    pub record: LockRecord<'a>,
    pub released: &'a Changes,
    /// See [`Step::broken`].
    pub broken: &'a [(Vec<u8>, Change)],
}

impl Releasing for Release<'_> {
    type Error = ErrorLine;

    fn frees(&self) -> bool {
        self.released.frees()
    }

    fn apply(self) -> Result<(), ErrorLine> {
        let Self { record, released, broken, .. } = self;
        let step = Step { broken, ..Step::of(record.holder(), released) };
        record.write(&step)
    }

    fn hand_over(self, next: &Next) -> Result<Grant, Self> {
        let Self { context, key, record, released, broken } = self;
        let at = context.now();
        let Some(hand_over) = lock::hand_over(&record, *released, &next.wish, at) else {
            return Err(Self { context, key, record, released, broken });
        };
        let (holder, to) = (record.holder(), OwnedStr::new(&next.wish.holder));
        let granted = &hand_over.granted;
        let step = Step { holder, changes: &hand_over.released, broken, next: Some((to.lend(), granted)) };
        match record.write(&step) {
            Ok(()) => Ok(Grant::of(granted, Expiry::Never, at, hand_over.token)),
            // Nothing was changed.
            Err(_) => Err(Self { context, key, record: LockRecord::open(context, key, holder), released, broken }),
        }
    }
}
