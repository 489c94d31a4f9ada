//! The server as the world in which waiters are served.

use super::ground;
use super::kept_client::KeptClient;
use super::room;
use crate::lock::serve::{Answer, Grant, Ground, Permission, Releasing, Tried, World};
use crate::lock::{
    self, Acquire, Acquired, Ahead, Decision, Effects, Expiry, Hold, KeyEffect, Kind, LockName, Next, Observed, Record,
    Room, UnixMs, names,
};
use crate::server::context::{Context, Reply};
use crate::server::entry::ErrorLine;
use crate::server::key::Key;
use crate::server::lock_record::LockRecord;
use crate::server::string::OwnedStr;

pub(super) struct Server<'a>(pub &'a Context);

impl World for Server<'_> {
    type Client = KeptClient;

    fn with_room<R>(&self, use_room: impl FnOnce(&mut Room<KeptClient>) -> R) -> R {
        room::with(use_room)
    }

    fn now(&self) -> UnixMs {
        self.0.now()
    }

    fn permission(&self, lock: LockName<'_>, ground: Ground) -> Permission {
        self.0.select(lock.database);
        ground::permission(self.0, lock, ground)
    }

    fn acquire(&self, lock: LockName<'_>, next: &Next) -> Tried {
        self.0.select(lock.database);
        let (key, holder) = (OwnedStr::new(lock.key), OwnedStr::new(&next.holder));
        let record = LockRecord::open(self.0, key.lend(), holder.lend());
        let at = self.0.now();
        match lock::acquire(next.kind, &record, next.want, Ahead::Nobody, at) {
            Ok(Decision { answer: Acquired::Granted { token }, effects }) => match record.apply(&effects) {
                Ok(()) => Tried::Granted(Grant { at, token, end: end_of(&effects) }),
                Err(_) => Tried::Later(ground::PAUSED_MS),
            },
            Ok(Decision { answer: Acquired::Busy, .. }) => match lock::left_ms(next.kind, &record, self.0.now()) {
                Ok(left_ms) => Tried::Busy { left_ms },
                Err(refusal) => Tried::Refused(refusal),
            },
            Err(refusal) => Tried::Refused(refusal),
        }
    }

    fn give_back(&self, hold: &Hold) {
        self.0.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.holder));
        let side = match hold.kind {
            Kind::Plain => None,
            Kind::Read => Some(lock::Side::Read),
            Kind::Write => Some(lock::Side::Write),
        };
        let want = lock::Release { side, lease: None, all: false };
        let record = LockRecord::open(self.0, key.lend(), holder.lend());
        if let Ok(decision) = lock::release(&record, want, self.0.now()) {
            let release = Release { context: self.0, record, released: &decision.effects };
            let lock = LockName { database: hold.database, key: &hold.key };
            // Refused only while writes are paused; then the hold ends with its lease.
            let _ = lock::serve::release(self, lock, release);
        }
    }

    fn is_untouched(&self, hold: &Hold) -> bool {
        self.0.select(hold.database);
        let (key, holder) = (OwnedStr::new(&hold.key), OwnedStr::new(&hold.holder));
        let record = LockRecord::open(self.0, key.lend(), holder.lend());
        let expiry = match (record.observe(), hold.kind) {
            (Ok(Observed::ReadWrite(lock)), Kind::Read) => {
                let name = names::read_hold(&hold.key, &hold.holder, lock.reads, OwnedStr::new);
                Key::peek_expiry(self.0, name.lend())
            }
            (Ok(_), _) => Some(record.expiry()),
            (Err(_), _) => None,
        };
        expiry == Some(Expiry::At(hold.end))
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        self.0.select(lock.database);
        left_ms(self.0, &OwnedStr::new(lock.key))
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
