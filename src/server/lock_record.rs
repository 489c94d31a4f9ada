//! A lock in Redisson's layout, as one holder sees it: the record that decisions ask, and the place where each effect
//! is written, replicated and announced as the plain command that it stands for.
//!
//! The lock's own key is opened once. All that changes in it is written before anything is announced, and the key is
//! closed in between, because an announcement can run other code that changes the key under us.

use super::cluster;
use super::constants;
use super::context::{Context, EventClass};
use super::entry::ErrorLine;
use super::key::{Holding, Key};
use super::publish;
use super::replicate;
use super::string::{OwnedStr, Str};
use crate::lock::{
    Effect, Effects, Expiry, Field, Mode, Observed, READ_HOLDS_SCANNED_MAX, ReadWrite, Record, Refusal, UnixMs,
    decimal, names,
};

pub struct LockRecord<'a> {
    context: &'a Context,
    key: Key<'a>,
    holder: Str<'a>,
}

impl<'a> LockRecord<'a> {
    #[must_use]
    pub fn open(context: &'a Context, key: Str<'a>, holder: Str<'a>) -> Self {
        Self { context, key: Key::open(context, key), holder }
    }

    /// Makes the effects true, on this server and on everyone who follows it.
    ///
    /// # Errors
    /// The error reply, with nothing changed, where this is not the time to create a key.
    pub fn apply(self, effects: &Effects) -> Result<(), ErrorLine> {
        let Self { context, key, holder } = self;
        if effects.iter().flatten().any(may_create) {
            context.ensure_writes_go_on()?;
        }
        let name = key.name();
        let fields = Fields { holder, write: effects.iter().flatten().any(names_write).then(|| write_field(holder)) };
        for effect in effects.iter().flatten() {
            write(&key, &fields, *effect);
        }
        drop(key);
        let lock = Touched { context, name, fields };
        if effects.iter().flatten().any(changes_lock_key) {
            effects.iter().flatten().for_each(|effect| lock.replicate(*effect));
            context.signal_modified(name);
            effects.iter().flatten().for_each(|effect| lock.announce(*effect));
        }
        effects.iter().flatten().for_each(|effect| lock.change_other_keys(*effect));
        Ok(())
    }
}

impl Record for LockRecord<'_> {
    fn observe(&self) -> Result<Observed, Refusal> {
        match self.key.holding() {
            Holding::Nothing => return Ok(Observed::Free),
            Holding::Hash => {}
            Holding::Text | Holding::Other => return Err(Refusal::WrongType),
        }
        let holds = count(self.key.field(self.holder).as_ref())?;
        let fields = self.key.length();
        if holds > 0 && fields == 1 {
            // No room for a mode: by far the most frequent case.
            return Ok(Observed::Mine { holds });
        }
        let Some(mode) = self.key.field(constants::get().mode.lend()) else {
            return Ok(if holds > 0 {
                Observed::Mine { holds }
            } else {
                Observed::Others { expiry: self.key.expiry() }
            });
        };
        let mode = match mode.lend().bytes() {
            b"read" => Mode::Read,
            b"write" => Mode::Write,
            _ => return Err(Refusal::WrongType),
        };
        let writes = count(self.key.field(write_field(self.holder).lend()).as_ref())?;
        let mine = [true, holds > 0, writes > 0].into_iter().filter(|field| *field).count();
        Ok(Observed::ReadWrite(ReadWrite {
            mode,
            reads: holds,
            writes,
            others: fields > mine,
            expiry: self.key.expiry(),
        }))
    }

    fn derived_keys_are_reachable(&self) -> bool {
        !cluster::enabled() || names::derived_keys_share_the_slot(self.key.name().bytes())
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        if !self.derived_keys_are_reachable() {
            return Err(Refusal::OtherSlot);
        }
        let name = names::fencing_counter(self.key.name().bytes(), OwnedStr::new);
        let counter = Key::open(self.context, name.lend());
        match counter.holding() {
            Holding::Nothing => Ok(1),
            Holding::Text => decimal(counter.text()).and_then(|token| token.checked_add(1)).ok_or(Refusal::BadToken),
            Holding::Hash | Holding::Other => Err(Refusal::BadToken),
        }
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let Some(fields) = self.key.fields(usize::try_from(READ_HOLDS_SCANNED_MAX).unwrap_or(usize::MAX)) else {
            return Some(Expiry::Never);
        };
        let mut budget = READ_HOLDS_SCANNED_MAX;
        let mut longest = None;
        for (field, value) in &fields {
            if field == names::MODE_FIELD || field.ends_with(names::WRITE_SUFFIX) {
                continue;
            }
            let count = if field == self.holder.bytes() { own } else { positive(value).unwrap_or(0) };
            budget = budget.saturating_sub(count);
            if budget < 0 {
                return Some(Expiry::Never);
            }
            for index in 1..=count {
                let hold = names::read_hold(self.key.name().bytes(), field, index, OwnedStr::new);
                let expiry = Key::peek_expiry(self.context, hold.lend());
                longest = longest.max(expiry.filter(|expiry| *expiry > Expiry::At(now)));
            }
        }
        longest
    }
}

/// The fields of this holder. The one for writes is made only where an effect names it.
struct Fields<'a> {
    holder: Str<'a>,
    write: Option<OwnedStr>,
}

impl Fields<'_> {
    fn named(&self, field: Field) -> Str<'_> {
        match (field, &self.write) {
            (Field::HolderWrite, Some(write)) => write.lend(),
            _ => self.holder,
        }
    }

    fn begun(&self, mode: Mode) -> Str<'_> {
        self.named(match mode {
            Mode::Read => Field::Holder,
            Mode::Write => Field::HolderWrite,
        })
    }
}

fn names_write(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Begin(Mode::Write) | Effect::Count { field: Field::HolderWrite, .. } | Effect::Drop(Field::HolderWrite)
    )
}

/// Whether the effect may write a key that is not there, or is there but hidden.
fn may_create(effect: &Effect) -> bool {
    match effect {
        Effect::Begin(_) | Effect::SetHold { .. } | Effect::RenewHolds { .. } | Effect::CountToken { .. } => true,
        Effect::Count { by, makes, .. } => by == makes,
        Effect::Drop(_)
        | Effect::Downgrade
        | Effect::ExpireAt(_)
        | Effect::Delete
        | Effect::DropHolds { .. }
        | Effect::Publish(_) => false,
    }
}

fn changes_lock_key(effect: &Effect) -> bool {
    match effect {
        Effect::Begin(_)
        | Effect::Count { .. }
        | Effect::Drop(_)
        | Effect::Downgrade
        | Effect::ExpireAt(_)
        | Effect::Delete => true,
        Effect::SetHold { .. }
        | Effect::RenewHolds { .. }
        | Effect::DropHolds { .. }
        | Effect::CountToken { .. }
        | Effect::Publish(_) => false,
    }
}

/// Writes what an effect changes in the lock's own key.
fn write(key: &Key<'_>, fields: &Fields<'_>, effect: Effect) {
    let constants = constants::get();
    match effect {
        Effect::Begin(mode) => {
            key.set_field(constants.mode.lend(), constants::mode_value(mode));
            key.set_field(fields.begun(mode), constants.one.lend());
        }
        Effect::Count { field, makes: 1, .. } => key.set_field(fields.named(field), constants.one.lend()),
        Effect::Count { field, makes, .. } => key.set_field(fields.named(field), OwnedStr::number(makes).lend()),
        Effect::Drop(field) => key.delete_field(fields.named(field)),
        Effect::Downgrade => key.set_field(constants.mode.lend(), constants.read.lend()),
        Effect::ExpireAt(at) => key.expire_at(at),
        Effect::Delete => key.delete(),
        Effect::SetHold { .. }
        | Effect::RenewHolds { .. }
        | Effect::DropHolds { .. }
        | Effect::CountToken { .. }
        | Effect::Publish(_) => {}
    }
}

/// The lock's key after it has been written and closed, and the keys beside it.
struct Touched<'a> {
    context: &'a Context,
    name: Str<'a>,
    fields: Fields<'a>,
}

impl Touched<'_> {
    fn replicate(&self, effect: Effect) {
        let Self { context, name, fields } = self;
        let constants = constants::get();
        match effect {
            Effect::Begin(mode) => {
                let mode_field = (constants.mode.lend(), constants::mode_value(mode));
                replicate::hset_two(context, *name, mode_field, (fields.begun(mode), constants.one.lend()));
            }
            Effect::Count { field, by, .. } => replicate::hincrby(context, *name, fields.named(field), by),
            Effect::Drop(field) => replicate::hdel(context, *name, fields.named(field)),
            Effect::Downgrade => replicate::hset(context, *name, constants.mode.lend(), constants.read.lend()),
            Effect::ExpireAt(at) => replicate::pexpireat(context, *name, at),
            Effect::Delete => replicate::del(context, *name),
            Effect::SetHold { .. }
            | Effect::RenewHolds { .. }
            | Effect::DropHolds { .. }
            | Effect::CountToken { .. }
            | Effect::Publish(_) => {}
        }
    }

    fn announce(&self, effect: Effect) {
        let (class, event) = match effect {
            Effect::Begin(_) | Effect::Downgrade => (EventClass::Hash, c"hset"),
            Effect::Count { .. } => (EventClass::Hash, c"hincrby"),
            Effect::Drop(_) => (EventClass::Hash, c"hdel"),
            Effect::ExpireAt(_) => (EventClass::Generic, c"expire"),
            Effect::Delete => (EventClass::Generic, c"del"),
            Effect::SetHold { .. }
            | Effect::RenewHolds { .. }
            | Effect::DropHolds { .. }
            | Effect::CountToken { .. }
            | Effect::Publish(_) => return,
        };
        self.context.announce(class, event, self.name);
    }

    fn change_other_keys(&self, effect: Effect) {
        match effect {
            Effect::SetHold { index, end } => self.set_hold(&self.hold_key(index), end),
            Effect::RenewHolds { count, end } => (1..=count).for_each(|index| self.renew_hold(index, end)),
            Effect::DropHolds { first, last } => (first..=last).for_each(|index| self.drop_hold(index)),
            Effect::CountToken { makes } => self.count_token(makes),
            Effect::Publish(unlock) => publish::unlocked(self.context, self.name, unlock),
            Effect::Begin(_)
            | Effect::Count { .. }
            | Effect::Drop(_)
            | Effect::Downgrade
            | Effect::ExpireAt(_)
            | Effect::Delete => {}
        }
    }

    fn hold_key(&self, index: i64) -> OwnedStr {
        names::read_hold(self.name.bytes(), self.fields.holder.bytes(), index, OwnedStr::new)
    }

    fn set_hold(&self, name: &OwnedStr, end: UnixMs) {
        // A string of its own: the server stores this very one.
        let value = OwnedStr::new(b"1");
        {
            let key = Key::open(self.context, name.lend());
            key.set_text(&value);
            key.expire_at(end);
        }
        replicate::set_until(self.context, name.lend(), constants::get().one.lend(), end);
        self.context.signal_modified(name.lend());
        self.context.announce(EventClass::Text, c"set", name.lend());
        self.context.announce(EventClass::Generic, c"expire", name.lend());
    }

    fn renew_hold(&self, index: i64, end: UnixMs) {
        let name = self.hold_key(index);
        let alive = {
            let key = Key::open(self.context, name.lend());
            let alive = key.holding() == Holding::Text;
            if alive {
                key.expire_at(end);
            }
            alive
        };
        if !alive {
            return self.set_hold(&name, end);
        }
        replicate::pexpireat(self.context, name.lend(), end);
        self.context.signal_modified(name.lend());
        self.context.announce(EventClass::Generic, c"expire", name.lend());
    }

    fn drop_hold(&self, index: i64) {
        let name = self.hold_key(index);
        {
            let key = Key::open(self.context, name.lend());
            if key.holding() == Holding::Nothing {
                return;
            }
            key.delete();
        }
        replicate::del(self.context, name.lend());
        self.context.signal_modified(name.lend());
        self.context.announce(EventClass::Generic, c"del", name.lend());
    }

    /// The counter keeps an expiry that somebody gave it, as INCR would.
    fn count_token(&self, makes: i64) {
        let name = names::fencing_counter(self.name.bytes(), OwnedStr::new);
        {
            let key = Key::open(self.context, name.lend());
            let expiry = key.expiry();
            key.set_text(&OwnedStr::number(makes));
            if let Expiry::At(at) = expiry {
                key.expire_at(at);
            }
        }
        replicate::incr(self.context, name.lend());
        self.context.signal_modified(name.lend());
        self.context.announce(EventClass::Text, c"incrby", name.lend());
    }
}

fn write_field(holder: Str<'_>) -> OwnedStr {
    names::write_field(holder.bytes(), OwnedStr::new)
}

/// The count in a field of this holder; a field that is not there counts 0.
fn count(value: Option<&OwnedStr>) -> Result<i64, Refusal> {
    value.map_or(Ok(0), |value| positive(value.lend().bytes()).ok_or(Refusal::WrongType))
}

fn positive(bytes: &[u8]) -> Option<i64> {
    decimal(bytes).filter(|count| *count > 0)
}
