//! Applies changes: each is written, replicated and announced as the plain command that it stands for.
//!
//! All changes in the locks' own keys are written before any is announced, and the keys are closed in between, because an
//! announcement can run other code that changes a key under us. Only then come the other keys that belong to a lock. Each of
//! those is opened, written, closed and announced by itself.
//!
//! The module listens to keyspace events itself, for what others do to locks with waiters. It ignores its own events about
//! a lock: the command that changes a lock settles its queue. It recognizes them by the pointer to the event's name, which
//! the server passes on, so what another module does within our announcement is not taken for ours.

use super::followers::{self, dump};
use super::kept::{self, kept};
use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::context::{Context, KeyEvent};
use crate::server::ffi::key::{Value, WritableKey};
use crate::server::ffi::latency;
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::ffi::this_server;
use followers::replicate;
use redis_module::raw::{
    REDISMODULE_NOTIFY_GENERIC, REDISMODULE_NOTIFY_HASH, REDISMODULE_NOTIFY_STRING, REDISMODULE_NOTIFY_ZSET,
};
use rlock_core::lock::{Change, Changes, Expiry, Field, Mode, Plan, Side, UnixMs, Unlock, names, score_of_end};
use rlock_core::waiting::Paused;
use std::cell::OnceCell;
use std::ffi::c_char;
use std::ptr;

/// How often a pause is checked: the server sends no event when it ends.
pub const PAUSED: Paused = Paused { for_ms: 20 };

/// Applies a plan, on this server and on all its followers. `key` is the lock's, unchanged since the decision.
///
/// # Errors
/// If the server may not create a key now; nothing is changed then.
pub(super) fn write(context: &Context, key: WritableKey<'_>, plan: &Plan<'_, Str<'_>, Str<'_>>) -> Result<(), Paused> {
    if plan.may_create_keys() && context.writes_are_paused() {
        return Err(PAUSED);
    }
    let name = key.name();
    let holders = [Some((plan.holder, plan.changes)), plan.next];
    // Hardly any plan has an answer, so that work is in a cold function.
    let (key, answer) = match plan.answer {
        None => (key, None),
        Some(value) => write_answer(context, key, plan, value),
    };
    let mut lock = LockKey { context, key, is_deleted: false };
    for (holder, changes) in holders.iter().flatten() {
        changes.on_lock_key().iter().for_each(|change| lock.write(*holder, *change));
    }
    lock.close();
    if let Some(answer) = answer {
        announce_derived(context, &answer, &[SET, EXPIRE]);
    }
    if !plan.changes.on_lock_key().is_empty() {
        context.signal_modified(name);
    }
    for (_, changes) in holders.iter().flatten() {
        announce(context, name, changes);
    }
    for (holder, changes) in holders.iter().flatten() {
        write_derived(context, name, *holder, changes);
    }
    Ok(())
}

/// Stores the answer of a plan, and returns its key's name. This comes first, so followers have the answer when the lock ends.
#[cold]
fn write_answer<'a>(
    context: &'a Context,
    key: WritableKey<'a>,
    plan: &Plan<'_, Str<'_>, Str<'_>>,
    value: Str<'_>,
) -> (WritableKey<'a>, Option<OwnedStr>) {
    let end = plan.changes.on_side_keys().iter().find_map(|change| match change {
        Change::StoreAnswer { end } => Some(*end),
        _ => None,
    });
    let Some(end) = end else { return (key, None) };
    let name = key.name();
    drop(key);
    let answer = names::answer(name.bytes(), OwnedStr::new);
    let mut stored = WritableKey::open(context, answer.lend());
    stored.set_text(&OwnedStr::new(value.bytes()));
    stored.expire_at(end);
    drop(stored);
    replicate(context, c"SET", &[answer.lend(), value, kept().pxat.lend()], Some(end));
    (WritableKey::open(context, name), Some(answer))
}

/// The same for what one holder changes in several locks, in one step.
///
/// # Errors
/// As above.
pub(super) fn write_all(
    context: &Context,
    holder: Str<'_>,
    locks: Vec<(WritableKey<'_>, Changes)>,
) -> Result<(), Paused> {
    if locks.iter().any(|(_, changes)| changes.may_create_keys()) && context.writes_are_paused() {
        return Err(PAUSED);
    }
    let names: Vec<_> = locks.iter().map(|(key, changes)| (key.name(), *changes)).collect();
    let write_one = |(key, changes): (_, Changes)| {
        let mut lock = LockKey { context, key, is_deleted: false };
        changes.on_lock_key().iter().for_each(|change| lock.write(holder, *change));
        lock
    };
    let open: Vec<_> = locks.into_iter().map(write_one).collect();
    open.into_iter().for_each(LockKey::close);
    for (name, changes) in &names {
        context.signal_modified(*name);
        announce(context, *name, changes);
    }
    for (name, changes) in &names {
        write_derived(context, *name, holder, changes);
    }
    Ok(())
}

/// Announces what was changed in a lock's own key.
#[inline]
fn announce(context: &Context, name: Str<'_>, changes: &Changes) {
    for event in changes.on_lock_key().iter().flat_map(|change| events(*change)) {
        kept().announced.set(event.1.as_ptr());
        context.announce(*event, name);
        kept().announced.set(ptr::null());
    }
}

/// Announces what was changed in a key that belongs to a lock.
fn announce_derived(context: &Context, name: &OwnedStr, events: &[KeyEvent]) {
    context.signal_modified(name.lend());
    for event in events {
        context.announce(*event, name.lend());
    }
}

#[inline]
fn write_derived(context: &Context, name: Str<'_>, holder: Str<'_>, changes: &Changes) {
    for change in changes.on_side_keys() {
        DerivedKeys { context, name, holder }.write(*change);
    }
}

/// Whether the event that the server reports with this name is one that we announce about a lock.
pub fn is_ours(event: *const c_char) -> bool {
    kept().announced.get() == event
}

const DEL: KeyEvent = (REDISMODULE_NOTIFY_GENERIC, c"del");
const EXPIRE: KeyEvent = (REDISMODULE_NOTIFY_GENERIC, c"expire");
const HDEL: KeyEvent = (REDISMODULE_NOTIFY_HASH, c"hdel");
const HINCRBY: KeyEvent = (REDISMODULE_NOTIFY_HASH, c"hincrby");
const HSET: KeyEvent = (REDISMODULE_NOTIFY_HASH, c"hset");
const INCRBY: KeyEvent = (REDISMODULE_NOTIFY_STRING, c"incrby");
const SET: KeyEvent = (REDISMODULE_NOTIFY_STRING, c"set");
const ZADD: KeyEvent = (REDISMODULE_NOTIFY_ZSET, c"zadd");
const ZREM: KeyEvent = (REDISMODULE_NOTIFY_ZSET, c"zrem");
const ZREMRANGEBYRANK: KeyEvent = (REDISMODULE_NOTIFY_ZSET, c"zremrangebyrank");

/// The events of a change in the lock's own key.
fn events(change: Change) -> &'static [KeyEvent] {
    match change {
        Change::Begin { side: Side::Plain, .. } => &[HINCRBY, EXPIRE],
        Change::Begin { side: Side::Read | Side::Write, .. } => &[HSET, EXPIRE],
        Change::Begin { side: Side::Permit(_), .. } => &[ZADD, EXPIRE],
        Change::Count { .. } => &[HINCRBY],
        Change::Drop(_) => &[HDEL],
        Change::Downgrade => &[HSET],
        Change::ExpireAt(_) => &[EXPIRE],
        Change::Delete => &[DEL],
        Change::SetPermit { .. } => &[ZADD],
        Change::DropPermit => &[ZREM],
        Change::DropEnded { .. } => &[ZREMRANGEBYRANK],
        // The other changes are not in the lock's key.
        _ => &[],
    }
}

/// The field that counts a holder's write holds.
pub(super) fn write_field(holder: Str<'_>) -> OwnedStr {
    names::write_field(holder.bytes(), OwnedStr::new)
}

/// The lock's own key, open.
struct LockKey<'a> {
    context: &'a Context,
    key: WritableKey<'a>,
    /// Whether the key was deleted and that is not replicated yet: it need not be if the lock begins again.
    is_deleted: bool,
}

impl LockKey<'_> {
    fn write(&mut self, holder: Str<'_>, change: Change) {
        // The field of the write holds, made only if the change names it.
        let of_writes = OnceCell::new();
        let field_of = |field| match field {
            Field::Holder => holder,
            Field::HolderWrite => of_writes.get_or_init(|| write_field(holder)).lend(),
        };
        let Self { context, key, .. } = self;
        let name = key.name();
        match change {
            Change::Begin { side: Side::Permit(_), end } => self.begin_permits(holder, end),
            Change::Begin { side, end } => self.begin(field_of(side.field()), side.mode(), end),
            Change::Count { field, by, makes } => self.count(field_of(field), by, makes),
            Change::Drop(field) => {
                let field = field_of(field);
                key.delete_field(field);
                replicate(context, c"HDEL", &[name, field], None);
            }
            Change::Downgrade => {
                let (mode, read) = kept::mode(Mode::Read);
                key.set_fields((mode, read), None);
                replicate(context, c"HSET", &[name, mode, read], None);
            }
            Change::ExpireAt(at) => {
                key.expire_at(at);
                replicate(context, c"PEXPIREAT", &[name], Some(at));
            }
            Change::Delete => {
                key.delete();
                self.is_deleted = true;
            }
            Change::SetPermit { end, .. } => self.set_permit(holder, end),
            Change::DropPermit => {
                key.remove_member(holder);
                replicate(context, c"ZREM", &[name, holder], None);
            }
            Change::DropEnded { count } => {
                key.remove_lowest(count.into());
                let (first, last) = (kept().zero.lend(), i64::from(count).saturating_sub(1));
                replicate(context, c"ZREMRANGEBYRANK", &[name, first], Some(last));
            }
            // The other changes are not in the lock's key.
            _ => {}
        }
    }

    fn count(&mut self, field: Str<'_>, by: i8, makes: i64) {
        if makes == 1 {
            self.key.set_fields((field, kept().one.lend()), None);
        } else {
            self.key.set_fields((field, OwnedStr::number(makes).lend()), None);
        }
        replicate(self.context, c"HINCRBY", &[self.key.name(), field], Some(by.into()));
    }

    fn begin(&mut self, field: Str<'_>, mode: Option<Mode>, end: UnixMs) {
        let Self { context, key, is_deleted } = self;
        let (name, kept, count) = (key.name(), kept(), (field, kept().one.lend()));
        match mode.map(kept::mode) {
            Some(mode) => key.set_fields(mode, Some(count)),
            None => key.set_fields(count, None),
        }
        key.expire_at(end);
        if kept.restores.get() {
            if followers::begin_change(context) {
                let (end, lock) = (OwnedStr::number(end), OwnedStr::new(&dump(mode, field)));
                let words = [name, end.lend(), lock.lend(), kept.absttl.lend(), kept.replace.lend()];
                replicate(context, c"RESTORE", &words, None);
            }
        } else {
            if *is_deleted {
                replicate(context, c"DEL", &[name], None);
            }
            match mode.map(kept::mode) {
                Some((mode, value)) => replicate(context, c"HSET", &[name, mode, value, count.0, count.1], None),
                None => replicate(context, c"HINCRBY", &[name, field], Some(1)),
            }
            replicate(context, c"PEXPIREAT", &[name], Some(end));
        }
        *is_deleted = false;
    }

    /// Replicated as two commands, which the server puts into one transaction.
    fn begin_permits(&mut self, holder: Str<'_>, end: UnixMs) {
        let Self { context, key, is_deleted } = self;
        if std::mem::take(is_deleted) {
            replicate(context, c"DEL", &[key.name()], None);
        }
        self.set_permit(holder, end);
        self.key.expire_at(end);
        replicate(self.context, c"PEXPIREAT", &[self.key.name()], Some(end));
    }

    fn set_permit(&mut self, holder: Str<'_>, end: UnixMs) {
        self.key.set_score(holder, score_of_end(end));
        replicate(self.context, c"ZADD", &[self.key.name(), OwnedStr::number(end).lend(), holder], None);
    }

    fn close(self) {
        let Self { context, key, is_deleted } = self;
        let name = key.name();
        drop(key);
        if is_deleted {
            replicate(context, c"DEL", &[name], None);
        }
    }
}

/// What belongs to a lock in addition to its own key, for one holder: the read holds' keys, the fencing counter, and the
/// unlock channel.
struct DerivedKeys<'a> {
    context: &'a Context,
    /// The lock's key.
    name: Str<'a>,
    holder: Str<'a>,
}

impl DerivedKeys<'_> {
    fn write(&self, change: Change) {
        match change {
            Change::SetHold { index, end } => self.set_hold(&self.hold_key(index.into()), end),
            Change::RenewHolds { count, end } => {
                let renew = || (1..=i64::from(count)).for_each(|index| self.renew_hold(index, end));
                latency::of_many(self.context, count.into(), renew);
            }
            Change::DropHolds { first, count } => {
                let count = i64::from(count);
                let drop = || (first..first.saturating_add(count)).for_each(|index| self.drop_hold(index));
                latency::of_many(self.context, count, drop);
            }
            Change::CountToken { makes } => {
                let name = self.set_token(makes);
                replicate(self.context, c"INCR", &[name.lend()], None);
                self.announce(&name, &[INCRBY]);
            }
            Change::SetToken { to } => {
                let (name, number) = (self.set_token(to), OwnedStr::number(to));
                replicate(self.context, c"SET", &[name.lend(), number.lend(), kept().keepttl.lend()], None);
                self.announce(&name, &[SET]);
            }
            Change::Publish(unlock) => self.publish(unlock),
            // The other changes are already applied.
            _ => {}
        }
    }

    fn hold_key(&self, index: i64) -> OwnedStr {
        names::read_hold(self.name.bytes(), self.holder.bytes(), index, OwnedStr::new)
    }

    fn open<'a>(&'a self, name: &'a OwnedStr) -> WritableKey<'a> {
        WritableKey::open(self.context, name.lend())
    }

    fn set_hold(&self, name: &OwnedStr, end: UnixMs) {
        // A new string each time: the server stores this very one.
        let value = OwnedStr::new(b"1");
        {
            let mut key = self.open(name);
            key.set_text(&value);
            key.expire_at(end);
        }
        let words = [name.lend(), kept().one.lend(), kept().pxat.lend()];
        replicate(self.context, c"SET", &words, Some(end));
        self.announce(name, &[SET, EXPIRE]);
    }

    fn renew_hold(&self, index: i64, end: UnixMs) {
        let name = self.hold_key(index);
        let mut key = self.open(&name);
        if !key.value().is_some_and(Value::is_text) {
            drop(key);
            return self.set_hold(&name, end);
        }
        key.expire_at(end);
        drop(key);
        replicate(self.context, c"PEXPIREAT", &[name.lend()], Some(end));
        self.announce(&name, &[EXPIRE]);
    }

    fn drop_hold(&self, index: i64) {
        let name = self.hold_key(index);
        let mut key = self.open(&name);
        if key.value().is_none() {
            return;
        }
        key.delete();
        drop(key);
        replicate(self.context, c"DEL", &[name.lend()], None);
        self.announce(&name, &[DEL]);
    }

    /// The counter keeps an expiry that another client gave it, as INCR would. Returns its name.
    fn set_token(&self, to: i64) -> OwnedStr {
        let name = names::fencing_counter(self.name.bytes(), OwnedStr::new);
        {
            let mut key = self.open(&name);
            let expiry = key.value().map(Value::expiry);
            key.set_text(&OwnedStr::number(to));
            if let Some(Expiry::At(at)) = expiry {
                key.expire_at(at);
            }
        }
        name
    }

    fn announce(&self, name: &OwnedStr, events: &[KeyEvent]) {
        announce_derived(self.context, name, events);
    }

    /// Notifies Redisson's waiters, on this server and its replicas, that the lock may be free. In a cluster the server
    /// itself passes the message to the other nodes.
    fn publish(&self, unlock: Unlock) {
        let [to_all, to_shard] = SETTINGS.notify();
        if !to_all && !to_shard {
            return;
        }
        let channel = names::channel(self.name.bytes(), unlock, OwnedStr::new);
        let message = match unlock {
            Unlock::Plain | Unlock::Read => kept().zero.lend(),
            Unlock::Write => kept().one.lend(),
        };
        for (wanted, command, by_shard) in [(to_all, c"PUBLISH", false), (to_shard, c"SPUBLISH", true)] {
            if wanted {
                self.context.publish(by_shard, channel.lend(), message);
                if !this_server::is_in_cluster() {
                    followers::publish(self.context, command, channel.lend(), message);
                }
            }
        }
    }
}
