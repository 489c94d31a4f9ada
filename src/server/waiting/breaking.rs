//! Breaking a lock: a release of everything that anyone has of it, after which the lock goes to who waits, as after any
//! release.

use super::world::{Release, Server};
use super::{clock, lock_name, room};
use crate::lock::serve::{self, Grant, Releasing};
use crate::lock::{Breaking, CompanionEffect, Next};
use crate::server::companions::Companions;
use crate::server::context::Context;
use crate::server::entry::ErrorLine;
use crate::server::lock_record::LockRecord;
use crate::server::sight;
use crate::server::string::{OwnedStr, Str};

/// Breaks a lock, as it was decided when it was looked at. The first who waits gets it in the same step.
///
/// # Errors
/// The error reply, with nothing changed, where this is not the time to write.
pub fn break_up<'a>(context: &'a Context, key: Str<'a>, breaking: &'a Breaking) -> Result<(), ErrorLine> {
    // A holder that nobody can be: none of its own is changed.
    let nobody = OwnedStr::new(b"");
    let record = LockRecord::open(context, key, nobody.lend());
    let release = Release { context, record, released: &breaking.lock };
    serve::release(&Server::new(context), lock_name(context, key), Break { release, key, breaking })?;
    room::with(|room| room.counters.breaks = room.counters.breaks.wrapping_add(1));
    clock::arm(context);
    Ok(())
}

struct Break<'a> {
    release: Release<'a>,
    key: Str<'a>,
    breaking: &'a Breaking,
}

impl Releasing for Break<'_> {
    type Error = ErrorLine;

    fn frees(&self) -> bool {
        true
    }

    fn apply(self) -> Result<(), ErrorLine> {
        let Self { release, key, breaking } = self;
        let context = release.context;
        release.apply()?;
        drop_read_holds(context, key, &breaking.read_holds);
        Ok(())
    }

    /// The next one is none of those who read the lock before, or it could not be handed over: so no read hold that is
    /// dropped here is its own.
    fn hand_over(self, next: &Next) -> Result<Grant, Self> {
        let Self { release, key, breaking } = self;
        let context = release.context;
        match release.hand_over(next) {
            Ok(grant) => {
                drop_read_holds(context, key, &breaking.read_holds);
                Ok(grant)
            }
            Err(release) => Err(Self { release, key, breaking }),
        }
    }
}

fn drop_read_holds(context: &Context, key: Str<'_>, holds: &[(Vec<u8>, CompanionEffect)]) {
    // Of a name that loses its slot there are none of ours, and what is in another slot is not to be touched.
    if !sight::derived_keys_are_reachable(key) {
        return;
    }
    for (holder, effect) in holds {
        let holder = OwnedStr::new(holder);
        Companions { context, name: key, holder: holder.lend() }.apply(*effect);
    }
}
