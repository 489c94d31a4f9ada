//! What belongs to a lock beside its own key: the read holds' keys, the fencing counter, and the unlock channel.
//!
//! Each key is opened, written, closed and announced by itself. What must be the server's before anyone is told is
//! already: the lock's own key comes first.

use super::constants;
use super::context::{Context, EventClass};
use super::key::{Holding, Key};
use super::latency;
use super::publish;
use super::replicate;
use super::string::{OwnedStr, Str};
use crate::lock::{CompanionEffect, Expiry, UnixMs, names};

/// Whether the effect may write a key that is not there, or is there but hidden.
pub(super) fn may_create(effect: CompanionEffect) -> bool {
    match effect {
        CompanionEffect::SetHold { .. } | CompanionEffect::RenewHolds { .. } | CompanionEffect::CountToken { .. } => {
            true
        }
        CompanionEffect::DropHolds { .. } | CompanionEffect::Publish(_) => false,
    }
}

/// The companions of a lock, as far as they are one holder's.
pub(super) struct Companions<'a> {
    pub context: &'a Context,
    /// The lock's key.
    pub name: Str<'a>,
    pub holder: Str<'a>,
}

impl Companions<'_> {
    pub fn apply(&self, effect: CompanionEffect) {
        match effect {
            CompanionEffect::SetHold { index, end } => self.set_hold(&self.hold_key(index), end),
            CompanionEffect::RenewHolds { count, end } => {
                let _timed = latency::of_many(self.context, count);
                (1..=count).for_each(|index| self.renew_hold(index, end));
            }
            CompanionEffect::DropHolds { first, last } => {
                let _timed = latency::of_many(self.context, last.saturating_sub(first));
                (first..=last).for_each(|index| self.drop_hold(index));
            }
            CompanionEffect::CountToken { makes } => self.count_token(makes),
            CompanionEffect::Publish(unlock) => publish::unlocked(self.context, self.name, unlock),
        }
    }

    fn hold_key(&self, index: i64) -> OwnedStr {
        names::read_hold(self.name.bytes(), self.holder.bytes(), index, OwnedStr::new)
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
