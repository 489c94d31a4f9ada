//! Where effects become true: each is written, replicated and announced as the plain command that it stands for.
//!
//! All that changes in the lock's own key is written before anything is announced, and the key is closed in between,
//! because an announcement can run other code that changes the key under us. Only then come the companions.

use super::companions::{self, Companions};
use super::constants;
use super::context::{Context, EventClass};
use super::entry::ErrorLine;
use super::key::{Holding, Key};
use super::replicate;
use super::string::{OwnedStr, Str};
use super::whole_lock::WholeLock;
use crate::lock::{CompanionEffect, Effects, Expiry, Field, KeyEffect, Mode, Unlock, names};

/// Makes the effects true, on this server and on everyone who follows it. `key` is the lock's, as it was when they were
/// decided.
pub(super) fn apply(context: &Context, key: Key<'_>, holder: Str<'_>, effects: &Effects) -> Result<(), ErrorLine> {
    let in_key = || effects.key.iter().flatten().copied();
    let beside = || effects.companions.iter().flatten().copied();
    if in_key().any(may_create_key) || beside().any(companions::may_create) {
        context.ensure_writes_go_on()?;
    }
    let name = key.name();
    let fields = Fields { holder, write: in_key().any(names_write).then(|| write_field(holder)) };
    let begins = key.holding() == Holding::Nothing;
    in_key().for_each(|effect| write(&key, &fields, effect));
    drop(key);
    if effects.key.iter().any(Option::is_some) {
        if context.tells_followers() {
            match fields.whole(effects).filter(|_| begins) {
                Some(lock) => replicate::restore(context, name, &lock),
                None => in_key().for_each(|effect| tell_followers(context, name, &fields, effect)),
            }
        }
        context.signal_modified(name);
        in_key().for_each(|effect| tell_listeners(context, name, effect));
    }
    let companions = Companions { context, name, holder };
    beside().for_each(|effect| companions.apply(effect));
    Ok(())
}

/// The next holder of a lock that is handed over, and what its grant changes.
pub(super) struct Successor<'a> {
    holder: Str<'a>,
    granted: &'a Effects,
    fields: Fields<'a>,
    leaving: Leaving<'a>,
}

/// The fields of whoever had the lock before.
enum Leaving<'a> {
    /// The releasing holder's only.
    Own(Str<'a>),
    Found(Vec<OwnedStr>),
}

/// The most fields that a hand-over takes out of a lock. Dead readers leave some behind; with more than this the lock is
/// deleted and begun anew.
const LEAVING_MAX: usize = 64;

impl<'a> Successor<'a> {
    /// None where the lock cannot be handed over in one step: too many have left fields behind, or the next holder has
    /// one of them. `holder` is who releases it, and `released` what that changes.
    pub fn new(
        key: &Key<'_>,
        holder: Str<'a>,
        released: &Effects,
        next: Str<'a>,
        granted: &'a Effects,
    ) -> Option<Self> {
        let write = granted.key.iter().flatten().copied().any(names_write).then(|| write_field(next));
        let fields = Fields { holder: next, write };
        let begins = granted.key.iter().flatten().find_map(|effect| match effect {
            KeyEffect::Begin(mode) => Some(fields.begun(*mode)),
            _ => None,
        });
        let (own, keeps_mode) = (begins.unwrap_or(next), begins.is_some());
        let old = holder.bytes();
        // Who breaks a lock releases it for all who have it, and has nothing of it himself.
        let is_nobody = old.is_empty();
        let leaving = if !is_nobody && is_alone(key, released, keeps_mode) {
            (old != own.bytes()).then_some(Leaving::Own(holder))
        } else {
            Leaving::find(key, own, keeps_mode)
        };
        Some(Self { holder: next, granted, leaving: leaving?, fields })
    }
}

impl Successor<'_> {
    /// Makes the lock the next one's. Its field comes before the others go, mostly in one call.
    fn write_over(&self, key: &Key<'_>) {
        let mut leaving = self.leaving.each();
        for effect in self.granted.key.iter().flatten() {
            let old = if matches!(effect, KeyEffect::Count { makes: 1, .. }) { leaving.next() } else { None };
            match (effect, old) {
                (KeyEffect::Count { field, .. }, Some(old)) => {
                    key.replace_field(old, (self.fields.named(*field), constants::get().one.lend()));
                }
                _ => write(key, &self.fields, *effect),
            }
        }
        leaving.for_each(|field| key.delete_field(field));
    }
}

/// Whether the field under the releasing holder's very name is all that is to leave the lock, as is mostly so.
fn is_alone(key: &Key<'_>, released: &Effects, keeps_mode: bool) -> bool {
    let publishes = |unlock| released.companions.contains(&Some(CompanionEffect::Publish(unlock)));
    match key.length() {
        1 => publishes(Unlock::Plain),
        2 => publishes(Unlock::Read) && keeps_mode,
        _ => false,
    }
}

impl Leaving<'_> {
    /// Looks for them. `own` is the next holder's field.
    fn find(key: &Key<'_>, own: Str<'_>, keeps_mode: bool) -> Option<Self> {
        let before = key.fields(LEAVING_MAX)?;
        if before.iter().any(|(field, _)| field == own.bytes()) {
            return None;
        }
        let leaving = before.into_iter().filter(|(field, _)| !(keeps_mode && field == names::MODE_FIELD));
        Some(Self::Found(leaving.map(|(field, _)| OwnedStr::new(&field)).collect()))
    }

    fn each(&self) -> impl Iterator<Item = Str<'_>> {
        let (own, found) = match self {
            Self::Own(field) => (Some(*field), &[][..]),
            Self::Found(fields) => (None, &fields[..]),
        };
        own.into_iter().chain(found.iter().map(OwnedStr::lend))
    }
}

/// Makes a release and the next holder's grant true in one step: the next one's field comes before the others go.
pub(super) fn hand_over(
    context: &Context,
    key: Key<'_>,
    holder: Str<'_>,
    released: &Effects,
    successor: &Successor<'_>,
) {
    let Successor { holder: next, granted, fields, leaving } = successor;
    let name = key.name();
    let in_key = || granted.key.iter().flatten().copied();
    let sooner = ends_sooner(&key, granted);
    successor.write_over(&key);
    drop(key);
    if context.tells_followers() {
        if let Some(lock) = fields.whole(granted) {
            replicate::restore(context, name, &lock);
        } else {
            in_key().for_each(|effect| tell_followers(context, name, fields, effect));
            replicate::hdel_all(context, name, leaving.each());
        }
    }
    context.signal_modified(name);
    in_key().for_each(|effect| tell_listeners(context, name, effect));
    context.announce(EventClass::Hash, c"hdel", name);
    let reading = in_key().any(|effect| effect == KeyEffect::Begin(Mode::Read));
    let old = Companions { context, name, holder };
    for effect in released.companions.iter().flatten() {
        // The lock is not free, so there is nothing to tell; but readers who wait elsewhere may join new readers, and who
        // sleeps until the old lease ends has to know of one that ends before it.
        if reading || sooner || !matches!(effect, CompanionEffect::Publish(_)) {
            old.apply(*effect);
        }
    }
    let new = Companions { context, name, holder: *next };
    granted.companions.iter().flatten().for_each(|effect| new.apply(*effect));
}

/// Whether the lock's lease would end sooner than it does now.
fn ends_sooner(key: &Key<'_>, granted: &Effects) -> bool {
    granted.key.iter().flatten().any(|effect| match effect {
        KeyEffect::ExpireAt(at) => Expiry::At(*at) < key.expiry(),
        _ => false,
    })
}

/// The field that counts a holder's write holds.
pub(super) fn write_field(holder: Str<'_>) -> OwnedStr {
    names::write_field(holder.bytes(), OwnedStr::new)
}

/// Whether the effect may write a key that is not there, or is there but hidden.
fn may_create_key(effect: KeyEffect) -> bool {
    match effect {
        KeyEffect::Begin(_) => true,
        KeyEffect::Count { by, makes, .. } => by == makes,
        KeyEffect::Drop(_) | KeyEffect::Downgrade | KeyEffect::ExpireAt(_) | KeyEffect::Delete => false,
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

    /// The lock that these effects make of a free one, if it can be told of whole.
    fn whole(&self, effects: &Effects) -> Option<WholeLock<'_>> {
        if !replicate::restores() {
            return None;
        }
        let (mode, field, end) = match effects.key {
            [Some(KeyEffect::Begin(mode)), Some(KeyEffect::ExpireAt(end)), None] => (Some(mode), self.begun(mode), end),
            [Some(KeyEffect::Count { field, makes: 1, .. }), Some(KeyEffect::ExpireAt(end)), None] => {
                (None, self.named(field), end)
            }
            _ => return None,
        };
        Some(WholeLock { mode, field, end })
    }

    fn begun(&self, mode: Mode) -> Str<'_> {
        self.named(match mode {
            Mode::Read => Field::Holder,
            Mode::Write => Field::HolderWrite,
        })
    }
}

fn names_write(effect: KeyEffect) -> bool {
    match effect {
        KeyEffect::Begin(mode) => mode == Mode::Write,
        KeyEffect::Count { field, .. } | KeyEffect::Drop(field) => field == Field::HolderWrite,
        KeyEffect::Downgrade | KeyEffect::ExpireAt(_) | KeyEffect::Delete => false,
    }
}

fn write(key: &Key<'_>, fields: &Fields<'_>, effect: KeyEffect) {
    let constants = constants::get();
    match effect {
        KeyEffect::Begin(mode) => {
            let mode_field = (constants.mode.lend(), constants::mode_value(mode));
            key.set_two_fields(mode_field, (fields.begun(mode), constants.one.lend()));
        }
        KeyEffect::Count { field, makes: 1, .. } => key.set_field(fields.named(field), constants.one.lend()),
        KeyEffect::Count { field, makes, .. } => key.set_field(fields.named(field), OwnedStr::number(makes).lend()),
        KeyEffect::Drop(field) => key.delete_field(fields.named(field)),
        KeyEffect::Downgrade => key.set_field(constants.mode.lend(), constants.read.lend()),
        KeyEffect::ExpireAt(at) => key.expire_at(at),
        KeyEffect::Delete => key.delete(),
    }
}

fn tell_followers(context: &Context, name: Str<'_>, fields: &Fields<'_>, effect: KeyEffect) {
    let constants = constants::get();
    match effect {
        KeyEffect::Begin(mode) => {
            let mode_field = (constants.mode.lend(), constants::mode_value(mode));
            replicate::hset_two(context, name, mode_field, (fields.begun(mode), constants.one.lend()));
        }
        KeyEffect::Count { field, by, .. } => replicate::hincrby(context, name, fields.named(field), by),
        KeyEffect::Drop(field) => replicate::hdel(context, name, fields.named(field)),
        KeyEffect::Downgrade => replicate::hset(context, name, constants.mode.lend(), constants.read.lend()),
        KeyEffect::ExpireAt(at) => replicate::pexpireat(context, name, at),
        KeyEffect::Delete => replicate::del(context, name),
    }
}

fn tell_listeners(context: &Context, name: Str<'_>, effect: KeyEffect) {
    let (class, event) = match effect {
        KeyEffect::Begin(_) | KeyEffect::Downgrade => (EventClass::Hash, c"hset"),
        KeyEffect::Count { .. } => (EventClass::Hash, c"hincrby"),
        KeyEffect::Drop(_) => (EventClass::Hash, c"hdel"),
        KeyEffect::ExpireAt(_) => (EventClass::Generic, c"expire"),
        KeyEffect::Delete => (EventClass::Generic, c"del"),
    };
    context.announce(class, event, name);
}
