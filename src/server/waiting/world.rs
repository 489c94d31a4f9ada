//! The server as the world in which waiters are served.

use super::ground;
use super::kept_client::KeptClient;
use super::room;
use super::turn::Turn;
use crate::lock::serve::{Answer, Grant, Ground, Permission, Releasing, Tried, World};
use crate::lock::{
    self, Acquire, Acquired, Ahead, Decision, Effects, Expiry, Hold, KeyEffect, Kind, LockName, Next, Observed, Record,
    Room, UnixMs, names,
};
use crate::server::cluster;
use crate::server::context::{Context, Reply};
use crate::server::entry::ErrorLine;
use crate::server::key::Key;
use crate::server::lock_record::LockRecord;
use crate::server::string::{OwnedStr, Str};
use std::cell::Cell;

pub(super) struct Server<'a> {
    pub context: &'a Context,
    turn: Turn,
    /// Whether the server has been asked in this turn, and would let a client write.
    is_fit: Cell<bool>,
}

impl<'a> Server<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, turn: Turn::begin(), is_fit: Cell::new(false) }
    }

    /// Whether the server would let a client write to this key, whose lock would be granted. It must not be open.
    fn ask(&self, key: Str<'_>, ground: Ground) -> Permission {
        if self.is_fit.get() {
            return Permission::Granted;
        }
        let permission = ground::ask(self.context, key, ground);
        // In a cluster each key may be elsewhere.
        if ground == Ground::Event && !cluster::enabled() {
            self.is_fit.set(permission == Permission::Granted);
        }
        permission
    }
}

impl World for Server<'_> {
    type Client = KeptClient;

    fn with_room<R>(&self, use_room: impl FnOnce(&mut Room<KeptClient>) -> R) -> R {
        room::with(use_room)
    }

    fn now(&self) -> UnixMs {
        self.context.now()
    }

    fn turn_is_over(&self) -> bool {
        self.turn.is_over()
    }

    fn permission(&self, lock: LockName<'_>, ground: Ground) -> Permission {
        self.context.select(lock.database);
        match ground::fitness(self.context, ground) {
            Permission::Granted => self.ask(OwnedStr::new(lock.key).lend(), ground),
            unfit => unfit,
        }
    }

    fn acquire(&self, lock: LockName<'_>, next: &Next, ahead: Ahead, ground: Ground) -> Tried {
        // Which costs nothing, and nothing is touched where it is not so.
        if let Permission::Later(ms) = ground::fitness(self.context, ground) {
            return Tried::Later(ms);
        }
        self.context.select(lock.database);
        let (key, holder) = (OwnedStr::new(lock.key), OwnedStr::new(&next.holder));
        let mut may_grant = ground == Ground::Command || self.is_fit.get();
        loop {
            let record = LockRecord::open(self.context, key.lend(), holder.lend());
            let at = self.now();
            match lock::acquire(next.kind, &record, next.want, ahead, at) {
                Ok(Decision { answer: Acquired::Granted { token }, effects }) if may_grant => {
                    return match record.apply(&effects) {
                        Ok(()) => Tried::Granted(Grant { at, token, end: end_of(&effects) }),
                        Err(_) => Tried::Later(ground::PAUSED_MS),
                    };
                }
                // Closed before the server is asked by a command on this very key, and looked at anew after it.
                Ok(Decision { answer: Acquired::Granted { .. }, .. }) => drop(record),
                Ok(Decision { answer: Acquired::Busy, .. }) => {
                    return match lock::left_ms(next.kind, &record, at) {
                        Ok(left_ms) => Tried::Busy { left_ms },
                        Err(refusal) => Tried::Refused(refusal),
                    };
                }
                Err(refusal) => return Tried::Refused(refusal),
            }
            match self.ask(key.lend(), ground) {
                Permission::Granted => may_grant = true,
                Permission::Later(ms) => return Tried::Later(ms),
                Permission::Elsewhere => return Tried::Elsewhere,
            }
        }
    }

    fn give_back(&self, hold: &Hold) {
        self.context.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.holder));
        let side = match hold.kind {
            Kind::Plain => None,
            Kind::Read => Some(lock::Side::Read),
            Kind::Write => Some(lock::Side::Write),
        };
        let want = lock::Release { side, lease: None, all: false };
        let record = LockRecord::open(self.context, key.lend(), holder.lend());
        if let Ok(decision) = lock::release(&record, want, self.context.now()) {
            let release = Release { context: self.context, record, released: &decision.effects };
            let lock = LockName { database: hold.database, key: &hold.key };
            // Refused only while writes are paused; then the hold ends with its lease.
            let _ = lock::serve::release(self, lock, release);
        }
    }

    fn is_untouched(&self, hold: &Hold) -> bool {
        self.context.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.holder));
        let record = LockRecord::open(self.context, key.lend(), holder.lend());
        let expiry = match (record.observe(), hold.kind) {
            (Ok(Observed::ReadWrite(lock)), Kind::Read) => {
                let name = names::read_hold(&hold.key, &hold.holder, lock.reads, OwnedStr::new);
                Key::peek_expiry(self.context, name.lend())
            }
            (Ok(_), _) => Some(record.expiry()),
            (Err(_), _) => None,
        };
        expiry == Some(Expiry::At(hold.end))
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        self.context.select(lock.database);
        left_ms(self.context, &OwnedStr::new(lock.key))
    }

    fn answer(&self, client: KeptClient, want: Acquire, answer: Answer) {
        client.answer(reply(want.fenced, answer));
    }
}

pub(super) fn left_ms(context: &Context, key: &OwnedStr) -> i64 {
    Key::peek_expiry(context, key.lend()).map_or(0, |expiry| expiry.left_ms(context.now()))
}

pub(super) fn reply(fenced: bool, answer: Answer) -> Result<Reply, ErrorLine> {
    match answer {
        Answer::Granted { token } if fenced => Ok(Reply::Pair(None, token)),
        Answer::Granted { .. } => Ok(Reply::Nil),
        Answer::TimeIsUp { left_ms } if fenced => Ok(Reply::Pair(Some(left_ms), None)),
        Answer::TimeIsUp { left_ms } => Ok(Reply::Number(left_ms)),
        Answer::Refused(refusal) => Err(refusal.into()),
        Answer::SlotMoved => Err(SLOT_MOVED),
        Answer::NowReplica => Err(NOW_REPLICA),
    }
}

fn end_of(effects: &Effects) -> Option<UnixMs> {
    effects.key.iter().flatten().find_map(|effect| match effect {
        KeyEffect::ExpireAt(end) => Some(*end),
        _ => None,
    })
}

/// A release of an open lock.
pub(super) struct Release<'a> {
    pub context: &'a Context,
    pub record: LockRecord<'a>,
    pub released: &'a Effects,
}

impl Releasing for Release<'_> {
    type Error = ErrorLine;

    fn frees(&self) -> bool {
        self.released.key.contains(&Some(KeyEffect::Delete))
    }

    fn apply(self) -> Result<(), ErrorLine> {
        self.record.apply(self.released)
    }

    fn hand_over(self, next: &Next) -> Result<Grant, Self> {
        let Self { context, record, released } = self;
        let at = context.now();
        let granted = lock::acquire(next.kind, &record.vacant(), next.want, Ahead::Nobody, at);
        let Ok(Decision { answer: Acquired::Granted { token }, effects }) = granted else {
            return Err(Self { context, record, released });
        };
        match record.hand_over(released, &next.holder, &effects) {
            Ok(()) => Ok(Grant { at, token, end: end_of(&effects) }),
            Err(record) => Err(Self { context, record, released }),
        }
    }
}

const SLOT_MOVED: ErrorLine = ErrorLine(c"TRYAGAIN the slot of this lock is served by another node now");

const NOW_REPLICA: ErrorLine =
    ErrorLine(c"UNBLOCKED this server has become a replica: ask the new master for the lock");
