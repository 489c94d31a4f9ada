//! Makes changes true: each is written, replicated and announced as the plain command that it stands for.
//!
//! All changes in the lock's own key are written before any is announced, and the key is closed in between, because an
//! announcement can run other code that changes the key under us. Only then come the keys that belong to the lock
//! beside its own. Each of those is opened, written, closed and announced by itself.

use super::restore::NewLock;
use super::{announce, followers, kept, publish, replicate};
use crate::server::ffi::context::Context;
use crate::server::ffi::key::{Value, WritableKey};
use crate::server::ffi::latency;
use crate::server::ffi::string::{OwnedStr, Str};
use announce::Event;
use rlock_core::lock::{Change, Changes, Expiry, Field, Plan, Side, UnixMs, names};
use rlock_core::waiting::Paused;
use std::cell::OnceCell;

/// The interval at which a pause is looked at: the server sends no event when it ends.
pub const PAUSED: Paused = Paused { for_ms: 20 };

/// Makes a plan true, on this server and on all its followers. `key` is the lock's, unchanged since the decision.
///
/// # Errors
/// If the server may not create a key now; nothing is changed then.
pub(super) fn write(context: &Context, key: WritableKey<'_>, plan: &Plan<'_, Str<'_>>) -> Result<(), Paused> {
    if plan.may_create_keys() && context.writes_are_paused() {
        return Err(PAUSED);
    }
    let name = key.name();
    let mut in_lock = InLock { context, key, events: Events { list: [Event::Del; 8], length: 0 }, is_deleted: false };
    in_lock.write_all(plan.holder, plan.changes);
    if let Some((holder, changes)) = plan.next {
        in_lock.write_all(holder, changes);
    }
    in_lock.close();
    for change in plan.changes.on_side_keys() {
        Beside { context, name, holder: plan.holder }.write(*change);
    }
    for (holder, change) in plan.broken {
        Beside { context, name, holder: OwnedStr::new(holder).lend() }.write(*change);
    }
    if let Some((holder, changes)) = plan.next {
        for change in changes.on_side_keys() {
            Beside { context, name, holder }.write(*change);
        }
    }
    Ok(())
}

/// The fields of one holder. The field for writes is made only if a change names it.
struct Fields<'a> {
    holder: Str<'a>,
    write: OnceCell<OwnedStr>,
}

impl Fields<'_> {
    fn of(&self, field: Field) -> Str<'_> {
        match field {
            Field::Holder => self.holder,
            Field::HolderWrite => self.write.get_or_init(|| write_field(self.holder)).lend(),
        }
    }
}

/// The field that counts a holder's write holds.
pub(super) fn write_field(holder: Str<'_>) -> OwnedStr {
    names::write_field(holder.bytes(), OwnedStr::new)
}

/// The events to announce once the key is closed. No step has more.
struct Events {
    list: [Event; 8],
    length: usize,
}

impl Events {
    fn push(&mut self, event: Event) {
        if let Some(place) = self.list.get_mut(self.length) {
            *place = event;
            self.length = self.length.wrapping_add(1);
        }
    }
}

/// The lock's own key, open.
struct InLock<'a> {
    context: &'a Context,
    key: WritableKey<'a>,
    events: Events,
    /// Whether the key was deleted and followers do not know it: they need not if the lock begins anew.
    is_deleted: bool,
}

impl InLock<'_> {
    fn write_all(&mut self, holder: Str<'_>, changes: &Changes) {
        let fields = Fields { holder, write: OnceCell::new() };
        for change in changes.on_lock_key() {
            self.write(&fields, *change);
        }
    }

    fn write(&mut self, fields: &Fields<'_>, change: Change) {
        let Self { context, key, events, .. } = self;
        let (name, constants) = (key.name(), kept::get());
        match change {
            Change::Begin { side, end } => self.begin(fields.of(side.field()), side, end),
            Change::Count { field, by, makes } => {
                let field = fields.of(field);
                if makes == 1 {
                    key.set_field(field, constants.one.lend());
                } else {
                    key.set_field(field, OwnedStr::number(makes).lend());
                }
                replicate::hincrby(context, name, field, by.into());
                events.push(Event::Hincrby);
            }
            Change::Drop(field) => {
                key.delete_field(fields.of(field));
                replicate::hdel(context, name, fields.of(field));
                events.push(Event::Hdel);
            }
            Change::Downgrade => {
                key.set_field(constants.mode.lend(), constants.read.lend());
                replicate::hset(context, name, constants.mode.lend(), constants.read.lend());
                events.push(Event::Hset);
            }
            Change::ExpireAt(at) => {
                key.expire_at(at);
                replicate::pexpireat(context, name, at);
                events.push(Event::Expire);
            }
            Change::Delete => {
                key.delete();
                events.push(Event::Del);
                self.is_deleted = true;
            }
            // The other changes are not in the lock's key.
            _ => {}
        }
    }

    fn begin(&mut self, field: Str<'_>, side: Side, end: UnixMs) {
        let Self { context, key, events, is_deleted } = self;
        let (name, constants) = (key.name(), kept::get());
        let mode = side.mode().map(|mode| (constants.mode.lend(), kept::mode_value(mode)));
        match mode {
            Some(mode) => key.set_two_fields(mode, (field, constants.one.lend())),
            None => key.set_field(field, constants.one.lend()),
        }
        key.expire_at(end);
        if replicate::restores() {
            if followers::are_told(context) {
                replicate::restore(context, name, &NewLock { mode: side.mode(), field, end });
            }
        } else {
            if *is_deleted {
                replicate::del(context, name);
            }
            match mode {
                Some(mode) => replicate::hset_two(context, name, mode, (field, constants.one.lend())),
                None => replicate::hincrby(context, name, field, 1),
            }
            replicate::pexpireat(context, name, end);
        }
        *is_deleted = false;
        events.push(if mode.is_some() { Event::Hset } else { Event::Hincrby });
        events.push(Event::Expire);
    }

    fn close(self) {
        let Self { context, key, events, is_deleted } = self;
        let name = key.name();
        drop(key);
        if is_deleted {
            replicate::del(context, name);
        }
        if events.length > 0 {
            context.signal_modified(name);
        }
        for event in events.list.into_iter().take(events.length) {
            announce::of_lock(context, event, name);
        }
    }
}

/// What belongs to a lock beside its own key, of one holder: the read holds' keys, the fencing counter, and the unlock
/// channel.
struct Beside<'a> {
    context: &'a Context,
    /// The lock's key.
    name: Str<'a>,
    holder: Str<'a>,
}

impl Beside<'_> {
    fn write(&self, change: Change) {
        match change {
            Change::SetHold { index, end } => self.set_hold(&self.hold_key(index.into()), end),
            Change::RenewHolds { count, end } => {
                let _timed = latency::of_many(self.context, count.into());
                (1..=i64::from(count)).for_each(|index| self.renew_hold(index, end));
            }
            Change::DropHolds { first, count } => {
                let _timed = latency::of_many(self.context, count.into());
                (first..first.saturating_add(count.into())).for_each(|index| self.drop_hold(index));
            }
            Change::CountToken { makes } => self.count_token(makes),
            Change::Publish(unlock) => publish::unlocked(self.context, self.name, unlock),
            // The other changes are in the lock's key, and true by now.
            _ => {}
        }
    }

    fn hold_key(&self, index: i64) -> OwnedStr {
        names::read_hold(self.name.bytes(), self.holder.bytes(), index, OwnedStr::new)
    }

    fn set_hold(&self, name: &OwnedStr, end: UnixMs) {
        // A string of its own: the server stores this very one.
        let value = OwnedStr::new(b"1");
        {
            let mut key = WritableKey::open(self.context, name.lend());
            key.set_text(&value);
            key.expire_at(end);
        }
        replicate::set_until(self.context, name.lend(), kept::get().one.lend(), end);
        self.announce(name, &[Event::Set, Event::Expire]);
    }

    fn renew_hold(&self, index: i64, end: UnixMs) {
        let name = self.hold_key(index);
        let alive = {
            let mut key = WritableKey::open(self.context, name.lend());
            let alive = key.value().is_some_and(Value::is_text);
            if alive {
                key.expire_at(end);
            }
            alive
        };
        if !alive {
            return self.set_hold(&name, end);
        }
        replicate::pexpireat(self.context, name.lend(), end);
        self.announce(&name, &[Event::Expire]);
    }

    fn drop_hold(&self, index: i64) {
        let name = self.hold_key(index);
        {
            let mut key = WritableKey::open(self.context, name.lend());
            if key.value().is_none() {
                return;
            }
            key.delete();
        }
        replicate::del(self.context, name.lend());
        self.announce(&name, &[Event::Del]);
    }

    /// The counter keeps an expiry that somebody gave it, as INCR would.
    fn count_token(&self, makes: i64) {
        let name = names::fencing_counter(self.name.bytes(), OwnedStr::new);
        {
            let mut key = WritableKey::open(self.context, name.lend());
            let expiry = key.value().map(Value::expiry);
            key.set_text(&OwnedStr::number(makes));
            if let Some(Expiry::At(at)) = expiry {
                key.expire_at(at);
            }
        }
        replicate::incr(self.context, name.lend());
        self.announce(&name, &[Event::Incrby]);
    }

    fn announce(&self, name: &OwnedStr, events: &[Event]) {
        self.context.signal_modified(name.lend());
        for event in events {
            announce::of_other_key(self.context, *event, name.lend());
        }
    }
}
