//! BREAK frees the lock, or hands it to its first waiter, in one step. The read holds of its former holders, which are keys of
//! their own, are deleted in slices after that: no waiter needs them to be gone.

use super::agenda::Broken;
use super::commands::Rejected;
use super::engine::Engine;
use super::host::{Host, OwnText, Permission, Purpose, Text, Trigger};
use super::queue::LockName;
use crate::lock::{BROKEN_MAX, Change, Changes, Holds, Observed, Plan, Record};

/// The number of read holds that one step deletes.
const HOLDS_AT_ONCE: i64 = 64;

impl<C> Engine<C> {
    /// Breaks a lock, whichever holders it has: a release of every hold. Returns whether there was a lock.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn break_lock<'a, H: Host<Client = C>>(&mut self, host: &'a H, key: Text<'a, H>) -> Result<bool, Rejected> {
        // The turn begins here, so the time for the lock itself counts, too: its read holds get the rest.
        host.turn_is_over();
        let database = host.database();
        let Some(snapshot) = host.snapshot(key, BROKEN_MAX)? else {
            self.settle(host, LockName { database, key: key.as_ref() }, Trigger::Command);
            return Ok(false);
        };
        // An empty name, which no holder has: no hold of its own is changed.
        let (key, nobody) = (host.own(key.as_ref()), host.own(b""));
        let (key, nobody) = (key.lend(), nobody.lend());
        let record = host.open(key, nobody);
        let breaking = snapshot.break_up(record.derived_keys_are_reachable());
        self.release_open(host, key, record, &Plan::of(nobody, &breaking.lock), Trigger::Command, host.now())?;
        let others = self.agenda.broken.len();
        if !breaking.read_holds.is_empty() {
            self.agenda.broken.push_front(Broken { database, key: key.as_ref().into(), holds: breaking.read_holds });
        }
        // For most locks, all are deleted in this step. Only read holds of this lock, since the command has only its slot.
        while self.agenda.broken.len() > others && !host.turn_is_over() && self.drop_next_broken(host, Trigger::Command)
        {
        }
        self.counters.breaks = self.counters.breaks.wrapping_add(1);
        Ok(true)
    }

    /// Deletes the next read holds of a lock that was broken. Returns whether there were any and the server may write.
    pub(super) fn drop_next_broken<H: Host<Client = C>>(&mut self, host: &H, trigger: Trigger) -> bool {
        let Some(broken) = self.agenda.broken.front_mut() else { return false };
        let Some((holder, holds)) = broken.holds.pop() else {
            self.agenda.broken.pop_front();
            return true;
        };
        let _selected = host.select(broken.database);
        let (key, name) = (host.own(&broken.key), host.own(&holder));
        // The server has checked the command itself.
        let permission = match trigger {
            Trigger::Command => Permission::Granted,
            Trigger::Event => host.permission(Some(key.lend()), Purpose::Release),
        };
        match permission {
            Permission::Granted | Permission::OfKey => {}
            Permission::Later(ms) => {
                broken.holds.push((holder, holds));
                self.rest(host, ms);
                return false;
            }
            // The read holds went with their slot.
            Permission::Elsewhere => return true,
        }
        let record = host.open(key.lend(), name.lend());
        // The holder may have acquired read holds again, under the lowest numbers: these stay.
        let present = match record.observe() {
            Ok(Observed::ReadWrite(lock)) => lock.reads,
            _ => 0,
        };
        let left = holds.saturating_sub(HOLDS_AT_ONCE).max(present);
        let count = holds.saturating_sub(left).max(0);
        if let Ok(count @ 1..) = Holds::try_from(count) {
            let changes = Changes::of([Some(Change::DropHolds { first: left.saturating_add(1), count })]);
            // It creates no key, so it is never refused.
            _ = host.commit(record, &Plan::of(name.lend(), &changes), Vec::new());
        }
        if left > present {
            broken.holds.push((holder, left));
        }
        true
    }
}
