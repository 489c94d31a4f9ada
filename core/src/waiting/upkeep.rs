//! How the agenda fills and empties.
//!
//! The caller does one item after the other for as long as the server's turn lasts, and goes on in the next. So neither
//! a hundred thousand leases that end together nor an emptied database makes another client wait for longer than one
//! turn.

use super::engine::Engine;
use super::grace::Begun;
use super::host::{Cause, Host, Note};
use super::queue::{LockId, LockName, Ticket};
use super::store::NEVER;
use crate::lock::UnixMs;

/// How often the patrol checks locks with waiters, for changes that send no event, and how many locks each time: a thousand
/// checks a second, however many locks there are.
const PATROL_MS: i64 = 100;
const PATROL_LOCKS: usize = 100;

/// With fewer entries, removing those of dropped locks is not worth the work.
const FEW: usize = 64;

impl<C> Engine<C> {
    /// Notes what has happened while the engine was at work.
    pub fn read_notes<H: Host<Client = C>>(&mut self, host: &H) {
        while let Some(note) = host.next_note() {
            self.note(note);
        }
    }

    /// Notes what has happened. [`Self::catch_up`] follows it up.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Key { database, key, cause } => _ = self.key_changed(LockName { database, key: &key }, cause),
            Note::Keys => self.all_changed(),
            Note::Swapped(first, second) => self.databases_swapped(first, second),
            Note::RoleChanged { is_replica } => {
                // From now on another server decides what becomes of these grants.
                self.untold.clear();
                self.agenda.to_release.clear();
                self.is_replica = is_replica;
                if is_replica {
                    // The new master has these read holds, and they end with their leases.
                    self.agenda.broken.clear();
                    self.agenda.dismissed = Some(self.queues.watermark());
                    self.grace.begun = Begun::No;
                } else {
                    self.begin_grace();
                }
            }
            Note::Disconnected(connection) => self.disconnected(connection),
            Note::Gone(ticket) => drop(self.gone(ticket)),
            Note::Delivered(ticket) => _ = self.untold.remove(&ticket),
        }
    }

    /// Notes that something has happened to a lock. Returns whether a client waits for it.
    pub fn key_changed(&mut self, lock: LockName<'_>, cause: Cause) -> bool {
        let Some(lock) = self.queues.find(lock) else { return false };
        match cause {
            Cause::Server => {}
            Cause::LeaseEnd => self.counters.lease_expiries = self.counters.lease_expiries.wrapping_add(1),
            Cause::Command if self.queues.kept(lock).is_some_and(|notes| notes.is_changed) => {}
            Cause::Command => self.agenda.by_command.push_back(lock),
        }
        self.changed(lock)
    }

    /// Notes that something has happened to many keys: every lock with waiters will be checked.
    pub(super) fn all_changed(&mut self) {
        self.agenda.to_sweep = self.queues.locks();
    }

    /// Notes that two databases have each other's number now. Waiters stay with the number, and holds with their keys: a grant
    /// whose reply was not sent ends with its lease.
    fn databases_swapped(&mut self, first: i32, second: i32) {
        self.untold.retain(|_, untold| ![first, second].contains(&untold.database));
        self.agenda.to_release.retain(|untold| ![first, second].contains(&untold.database));
        for broken in &mut self.agenda.broken {
            broken.database = match broken.database {
                database if database == first => second,
                database if database == second => first,
                database => database,
            };
        }
        self.all_changed();
    }

    /// Has a lock checked as soon as possible. Returns whether a client waits for it.
    pub(super) fn changed(&mut self, lock: LockId) -> bool {
        let Some(notes) = self.queues.kept(lock) else { return false };
        notes.is_changed = true;
        if !std::mem::replace(&mut notes.is_listed, true) {
            self.agenda.changed.push_back(lock);
            self.drop_what_is_no_more();
        }
        true
    }

    /// Drops locks without waiters. Otherwise the agenda drops each when its turn comes, but in a long rest no turn comes.
    fn drop_what_is_no_more(&mut self) {
        let Self { queues, agenda, .. } = self;
        if agenda.changed.len() > FEW && agenda.changed.len() / 2 > queues.locks() {
            agenda.changed.retain(|lock| queues.kept(*lock).is_some());
        }
    }

    /// The next lock to check.
    pub(super) fn take_changed(&mut self) -> Option<LockId> {
        while let Some(lock) = self.agenda.changed.pop_front() {
            if let Some(notes) = self.queues.kept(lock) {
                notes.is_listed = false;
                if notes.is_changed {
                    return Some(lock);
                }
            }
        }
        None
    }

    /// The next lock that the current command has changed, if it must still be checked.
    pub(super) fn take_changed_by_command(&mut self) -> Option<LockId> {
        while let Some(lock) = self.agenda.by_command.pop_front() {
            if self.queues.kept(lock).is_some_and(|notes| notes.is_changed) {
                return Some(lock);
            }
        }
        None
    }

    /// The command is over, or nothing may be done for it now. Its locks are checked like all others.
    pub fn forget_command(&mut self) {
        self.agenda.by_command.clear();
    }

    /// Notes that a lock is being checked: the check sees what has happened before.
    pub(super) fn seen(&mut self, lock: LockId) {
        if let Some(notes) = self.queues.kept(lock) {
            notes.is_changed = false;
        }
    }

    /// Has a lock checked no later than `end`. An earlier alarm is kept, and finds out the lock's new end when it goes off:
    /// to set an alarm for every hand-over is expensive.
    pub(super) fn recheck_by(&mut self, lock: LockId, end: UnixMs) {
        if self.queues.lease_end(lock).is_none_or(|set| end < set) {
            self.queues.set_lease_end(lock, Some(end));
        }
    }

    /// Marks the next lock in turn for a check. Returns whether there was one.
    pub(super) fn sweep_on(&mut self) -> bool {
        let left = self.agenda.to_sweep.min(self.queues.locks());
        self.agenda.to_sweep = left.saturating_sub(1);
        left > 0 && self.queues.take_turn().is_some_and(|lock| self.changed(lock))
    }

    /// Whether this waiter is to be dismissed.
    pub(super) fn is_dismissed(&self, ticket: Ticket) -> bool {
        self.agenda.dismissed.is_some_and(|dismissed| ticket < dismissed)
    }

    /// The next waiter to dismiss.
    pub(super) fn next_dismissed(&mut self) -> Option<Ticket> {
        self.agenda.dismissed?;
        let next = self.queues.oldest().filter(|oldest| self.is_dismissed(*oldest));
        if next.is_none() {
            self.agenda.dismissed = None;
        }
        next
    }

    pub(super) fn begin_patrol(&mut self, now: UnixMs) {
        // At round times, so that the server wakes up once for this and for its other work at such times.
        let next = || now.saturating_sub(now.rem_euclid(PATROL_MS)).saturating_add(PATROL_MS);
        self.agenda.patrol_at.get_or_insert_with(next);
    }

    /// Checks the locks whose turn it is, if it is time.
    pub(super) fn patrol(&mut self, now: UnixMs) {
        if self.agenda.patrol_at.is_none_or(|time| is_ahead(time, now)) {
            return;
        }
        self.agenda.patrol_at = None;
        if !self.queues.is_empty() {
            self.agenda.to_sweep = self.agenda.to_sweep.max(PATROL_LOCKS);
            self.begin_patrol(now);
        }
    }

    /// The number of grants to be released, since their clients were gone before their replies were sent.
    #[must_use]
    pub fn releases_due(&self) -> usize {
        self.agenda.to_release.len()
    }

    /// Makes the agenda rest until `time`, since this server may not write.
    pub(super) fn rest_until(&mut self, now: UnixMs, time: UnixMs) {
        self.agenda.rest = Some((now, time));
    }

    pub(super) fn is_resting(&self, now: UnixMs) -> bool {
        self.agenda.rest.is_some_and(|rest| lasts(rest, now))
    }

    /// When something is to be done next; a time that has long passed means at once.
    #[must_use]
    pub fn wakes_at(&self, now: UnixMs) -> Option<UnixMs> {
        let agenda = &self.agenda;
        if agenda.dismissed.is_some()
            || self.sessions.awaits_turn
            || !self.cancelling.is_empty()
            || !self.answering.is_empty()
        {
            return Some(UnixMs::MIN);
        }
        let mut next = self.queues.next_alarm().min(self.sessions.next_alarm());
        if !agenda.is_empty() {
            let rest = agenda.rest.filter(|rest| !is_over_by_a_step(*rest, now));
            next = next.min(rest.map_or(UnixMs::MIN, |(_, until)| until));
        }
        if let Some(time) = agenda.patrol_at.filter(|_| !self.queues.is_empty()) {
            next = next.min(if time <= now || is_ahead(time, now) { time } else { now });
        }
        (next != NEVER).then_some(next)
    }
}

/// Whether the time for a patrol is still to come. A time further away than one interval is from before the clock was
/// set back.
fn is_ahead(time: UnixMs, now: UnixMs) -> bool {
    (1..=PATROL_MS).contains(&time.saturating_sub(now))
}

/// Whether a rest goes on. If the clock was set back, the rest is over: how long it would last is unknown.
fn lasts(rest: (UnixMs, UnixMs), now: UnixMs) -> bool {
    now < rest.1 && !is_over_by_a_step(rest, now)
}

fn is_over_by_a_step((began, _): (UnixMs, UnixMs), now: UnixMs) -> bool {
    now < began
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Lease, Side, Wish};
    use crate::waiting::Ticket;
    use crate::waiting::agenda::{Broken, Untold};
    use crate::waiting::waiter::{AskedBy, Names, Recipient, Waiter};
    use std::rc::Rc;

    fn lock(key: &str) -> LockName<'_> {
        LockName { database: 0, key: key.as_bytes() }
    }

    fn waits(engine: &mut Engine<()>, lock: LockName<'_>) -> Ticket {
        let holder = Names::from(&b"ann"[..]);
        let wish = Wish { holder, side: Side::Plain, lease: Lease::from_ms(1_000).unwrap(), fenced: false };
        engine.join(&[lock], &[], Waiter::new(Recipient::Client(()), wish, AskedBy::Acquire), 0, None).unwrap()
    }

    fn engine_of(locks: usize) -> Engine<()> {
        let mut engine = Engine::default();
        for number in 0..locks {
            waits(&mut engine, lock(&number.to_string()));
        }
        engine
    }

    fn taken(engine: &mut Engine<()>) -> Vec<String> {
        while engine.sweep_on() {}
        let names = std::iter::from_fn(|| {
            let lock = engine.take_changed()?;
            engine.seen(lock);
            engine.queues.name(lock)
        });
        names.map(|(_, key)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_patrol_looks_at_so_many_locks_and_comes_to_all_of_them() {
        let mut engine = engine_of(10 * PATROL_LOCKS);
        let mut seen = Vec::new();
        for round in 1..=10 {
            engine.patrol(round * PATROL_MS - 1);
            assert_eq!(taken(&mut engine), [""; 0], "not before its time");
            engine.patrol(round * PATROL_MS);
            let looked_at = taken(&mut engine);
            assert_eq!(looked_at.len(), PATROL_LOCKS);
            seen.extend(looked_at);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 10 * PATROL_LOCKS);
        let mut few = engine_of(3);
        few.patrol(PATROL_MS);
        assert_eq!(taken(&mut few), ["0", "1", "2"], "each once");
        assert_eq!(few.wakes_at(PATROL_MS), Some(2 * PATROL_MS));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_rests_and_puts_off_no_patrol() {
        let (then, now) = (1_000_000, 5_000);
        let mut engine = engine_of(1);
        engine.patrol(then);
        taken(&mut engine);
        engine.rest_until(then, then + 20);
        engine.key_changed(lock("0"), Cause::Server);
        assert!(engine.is_resting(then + 19));
        assert_eq!(engine.wakes_at(then + 5), Some(then + 20));
        assert_eq!(engine.wakes_at(now), Some(UnixMs::MIN), "what is on the agenda is for at once");
        assert!(!engine.is_resting(now));
        taken(&mut engine);
        assert_eq!(engine.wakes_at(now), Some(now), "and so is the patrol");
        engine.patrol(now);
        assert_eq!(taken(&mut engine), ["0"]);
        assert_eq!(engine.wakes_at(now), Some(now - now % PATROL_MS + PATROL_MS));
    }

    #[test]
    fn a_lock_is_looked_at_once_whatever_happened_to_it() {
        let mut engine = engine_of(2);
        assert!(!engine.key_changed(lock("9"), Cause::Server), "nobody waits for it");
        for _ in 0..3 {
            assert!(engine.key_changed(lock("1"), Cause::Command) && engine.key_changed(lock("1"), Cause::Server));
        }
        assert_eq!(engine.take_changed_by_command(), engine.queues.find(lock("1")));
        assert_eq!(engine.take_changed_by_command(), None);
        assert_eq!(taken(&mut engine), ["1"]);
        engine.key_changed(lock("0"), Cause::Command);
        engine.forget_command();
        assert_eq!(
            (engine.take_changed_by_command(), taken(&mut engine)),
            (None, vec!["0".to_owned()]),
            "it is not lost"
        );
        engine.key_changed(lock("0"), Cause::Server);
        let seen = engine.queues.find(lock("0")).unwrap();
        engine.seen(seen);
        assert_eq!(taken(&mut engine), [""; 0], "what was looked at meanwhile need not be");
    }

    #[test]
    fn a_long_rest_does_not_fill_the_agenda() {
        let mut engine = engine_of(1);
        for client in 1..10_000 {
            let key = client.to_string();
            let ticket = waits(&mut engine, lock(&key));
            engine.key_changed(lock(&key), Cause::Server);
            engine.gone(ticket);
        }
        assert!(engine.agenda.changed.len() <= FEW + 1, "{}", engine.agenda.changed.len());
    }
    #[test]
    fn what_is_left_of_a_lock_goes_with_its_database_and_a_hold_without_a_reply_is_not_released_elsewhere() {
        let mut engine = engine_of(3);
        let holder = Names::from(&b"ann"[..]);
        for (number, database) in (0..3).enumerate() {
            let key: Rc<[u8]> = b"broken"[..].into();
            let (others, holder, side) = (Box::default(), holder.clone(), Side::Plain);
            let untold = Untold { database, key: Rc::clone(&key), others, holder, side };
            let waiter = waits(&mut engine, lock(&number.to_string()));
            engine.untold.insert(waiter, untold.clone());
            engine.agenda.to_release.push_back(untold);
            engine.agenda.broken.push_back(Broken { database, key, holds: Vec::new() });
        }
        engine.note(Note::Swapped(0, 1));
        assert!(engine.agenda.broken.iter().map(|broken| broken.database).eq([1, 0, 2]));
        assert!(engine.untold.values().map(|untold| untold.database).eq([2]));
        assert_eq!((engine.releases_due(), engine.agenda.to_release[0].database), (1, 2));
        assert_eq!(taken(&mut engine).len(), 3, "each lock is looked at");
    }
}
