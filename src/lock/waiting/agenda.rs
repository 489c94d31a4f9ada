//! What is to be done for those who wait: at once, as soon as this server may write again, or in its turn.
//!
//! Nothing here is a decision. It is a list of locks to be looked at, each at most once however often something happens to
//! it, of holds to be taken back, and of waiters to be let go; whoever does it takes one after the other for as long as the
//! server's turn lasts, and goes on in the next. So neither a hundred thousand leases that end together nor an emptied
//! database makes anyone else wait for longer than one turn.

use super::alarms::{Alarm, Slot};
use super::queue::{LockId, LockName, Ticket};
use super::room::{Client, Hold, Room};
use crate::lock::UnixMs;
use std::collections::VecDeque;
use std::rc::Rc;

/// Not everything that can happen to a key is told, on every server. So the locks that are waited for are looked at in turn,
/// so many of them so often, whatever is told of them: a thousand looks in a second, however many locks there are.
const PATROL_MS: i64 = 100;
const PATROL_LOCKS: usize = 100;

/// With fewer entries, that some of them are no more is not worth a thought.
const FEW: usize = 64;

/// What is kept of each lock that is waited for.
#[allow(clippy::struct_excessive_bools, reason = "four notes that have nothing to do with each other")]
#[derive(Debug, Default)]
pub(super) struct Care {
    /// The alarm for the end of its lease, as far as that is known.
    pub lease_end: Option<Slot>,
    /// Whether it is to be looked at.
    is_changed: bool,
    /// Whether it is in the list of those that are.
    is_listed: bool,
    /// Whether it is in the list of those that the command under way has changed.
    is_by_command: bool,
    /// Whether a release has freed it, and lets in one after the other.
    pub released: bool,
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Locks to be looked at, and some that need not be any more.
    changed: VecDeque<LockId>,
    /// Those of them that the command under way has changed.
    by_command: VecDeque<LockId>,
    /// Waiters whose holder has come in, and who may go in after it.
    pub reentries: VecDeque<Reentry>,
    /// Granted to clients that were gone before they could be told, to be taken back.
    pub undelivered: VecDeque<Hold>,
    sweep: Option<Sweep>,
    /// Everyone who came before this one is to be let go.
    dismissed: Option<Ticket>,
    patrol_at: Option<UnixMs>,
    /// From then until then nothing is written: this server may not, as far as it is known.
    rest: Option<(UnixMs, UnixMs)>,
}

/// All who wait for a lock under the name of one who was granted it.
#[derive(Clone, Debug)]
pub(super) struct Reentry {
    pub lock: LockId,
    pub holder: Rc<[u8]>,
    /// Those up to this one have had their turn.
    pub after: Option<Ticket>,
}

/// Something has happened to whole databases: so many locks are still to be asked whether it was theirs.
#[derive(Debug)]
struct Sweep {
    /// None is all.
    databases: Option<Vec<i32>>,
    left: usize,
}

impl Agenda {
    fn is_empty(&self) -> bool {
        let lists = self.changed.is_empty() && self.reentries.is_empty() && self.undelivered.is_empty();
        lists && self.sweep.is_none()
    }
}

impl<C: Client> Room<C> {
    /// Something has happened to a lock. Tells whether anyone waits for it.
    pub fn key_changed(&mut self, lock: LockName<'_>) -> bool {
        let lock = self.queues.find(lock);
        lock.is_some_and(|lock| self.changed(lock))
    }

    /// The command under way has done something to a lock. Tells whether anyone waits for it.
    pub fn key_changed_by_command(&mut self, lock: LockName<'_>) -> bool {
        let Some(lock) = self.queues.find(lock) else { return false };
        self.changed(lock);
        if self.queues.kept(lock).is_some_and(|care| !std::mem::replace(&mut care.is_by_command, true)) {
            self.agenda.by_command.push_back(lock);
        }
        true
    }

    /// Something has happened to all locks of a database, or of all databases.
    pub fn database_changed(&mut self, database: Option<i32>) {
        if self.queues.is_empty() {
            return;
        }
        let before = self.agenda.sweep.take().map(|sweep| sweep.databases);
        let databases = match (before, database) {
            (None, Some(database)) => Some(vec![database]),
            (Some(Some(mut databases)), Some(database)) => {
                if !databases.contains(&database) {
                    databases.push(database);
                }
                Some(databases)
            }
            (Some(None), _) | (_, None) => None,
        };
        self.agenda.sweep = Some(Sweep { databases, left: self.queues.locks() });
    }

    /// Everyone who waits now is to be let go.
    pub fn dismiss_all(&mut self) {
        self.agenda.dismissed = Some(self.queues.watermark());
    }

    /// Somebody else decides from now on what becomes of the holds here.
    pub fn forget_grants(&mut self) {
        self.agenda.undelivered.clear();
        self.agenda.reentries.clear();
    }

    /// Has a lock looked at, as soon as it can be. Tells whether anyone waits for it.
    pub(super) fn changed(&mut self, lock: LockId) -> bool {
        let Some(care) = self.queues.kept(lock) else { return false };
        care.is_changed = true;
        if !std::mem::replace(&mut care.is_listed, true) {
            self.agenda.changed.push_back(lock);
            self.drop_what_is_no_more();
        }
        true
    }

    /// Locks that nobody waits for any more are dropped when they come up; in a long rest none does.
    fn drop_what_is_no_more(&mut self) {
        let Self { queues, agenda, .. } = self;
        if agenda.changed.len() > FEW && agenda.changed.len() / 2 > queues.locks() {
            agenda.changed.retain(|lock| queues.kept(*lock).is_some());
        }
    }

    /// The next lock to be looked at.
    pub(super) fn take_changed(&mut self) -> Option<LockId> {
        while let Some(lock) = self.agenda.changed.pop_front() {
            if let Some(care) = self.queues.kept(lock) {
                care.is_listed = false;
                if care.is_changed {
                    return Some(lock);
                }
            }
        }
        None
    }

    /// The next of those that the command under way has changed, if it is still to be looked at.
    pub(super) fn take_changed_by_command(&mut self) -> Option<LockId> {
        while let Some(lock) = self.agenda.by_command.pop_front() {
            if let Some(care) = self.queues.kept(lock) {
                care.is_by_command = false;
                if care.is_changed {
                    return Some(lock);
                }
            }
        }
        None
    }

    /// The command is over, or nothing may be done for it now. What it has changed is looked at like all else.
    pub fn forget_command(&mut self) {
        for lock in std::mem::take(&mut self.agenda.by_command) {
            if let Some(care) = self.queues.kept(lock) {
                care.is_by_command = false;
            }
        }
    }

    /// A release is about to free a lock, and whoever it lets in is handed over to. Or all are in that it lets in.
    pub(super) fn is_being_released(&mut self, lock: LockId, released: bool) {
        if let Some(care) = self.queues.kept(lock) {
            care.released = released;
        }
    }

    /// A lock is being looked at: what has happened to it before is seen now.
    pub(super) fn seen(&mut self, lock: LockId) {
        if let Some(care) = self.queues.kept(lock) {
            care.is_changed = false;
        }
    }

    /// Takes note of what the look at a busy lock has shown: when it may be free at last.
    pub(super) fn is_busy_until(&mut self, lock: LockId, end: Option<UnixMs>) {
        let Some(care) = self.queues.kept(lock) else { return };
        care.released = false;
        if care.lease_end.map(|slot| slot.time) != end {
            if let Some(before) = care.lease_end.take() {
                self.alarms.cancel(before);
            }
            care.lease_end = end.map(|end| self.alarms.set(end, Alarm::LeaseEnd(lock)));
        }
    }

    /// Has a lock looked at no later than that. To set an alarm for every hand-over would be dear: an earlier one that goes
    /// off first finds out how things stand.
    pub(super) fn is_busy_until_at_most(&mut self, lock: LockId, end: UnixMs) {
        let Some(care) = self.queues.kept(lock) else { return };
        if care.lease_end.is_none_or(|slot| end < slot.time) {
            if let Some(before) = care.lease_end.replace(self.alarms.set(end, Alarm::LeaseEnd(lock))) {
                self.alarms.cancel(before);
            }
        }
    }

    /// The alarm for the end of a lease has gone off.
    pub(super) fn lease_has_ended(&mut self, lock: LockId) {
        if let Some(care) = self.queues.kept(lock) {
            care.lease_end = None;
        }
        self.changed(lock);
    }

    /// Lets one lock more know of what has happened to its database. Tells whether there may be others.
    pub(super) fn sweep_on(&mut self) -> bool {
        let Some(Sweep { databases, left }) = &mut self.agenda.sweep else { return false };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        let Some(lock) = self.queues.take_turn() else {
            self.agenda.sweep = None;
            return false;
        };
        let database = self.queues.name(lock).map(|(database, _)| database);
        let is_theirs =
            databases.as_ref().is_none_or(|databases| database.is_some_and(|database| databases.contains(&database)));
        if is_last {
            self.agenda.sweep = None;
        }
        if is_theirs {
            self.changed(lock);
        }
        true
    }

    /// Whether this waiter is to be let go.
    pub(super) fn is_dismissed(&self, ticket: Ticket) -> bool {
        self.agenda.dismissed.is_some_and(|dismissed| ticket < dismissed)
    }

    /// The next waiter who is to be let go.
    pub(super) fn next_dismissed(&mut self) -> Option<Ticket> {
        self.agenda.dismissed?;
        let next = self.queues.oldest().filter(|oldest| self.is_dismissed(*oldest));
        if next.is_none() {
            self.agenda.dismissed = None;
        }
        next
    }

    pub(super) fn begin_patrol(&mut self, now: UnixMs) {
        // At round times, so that whatever else the server does then wakes it up once for both.
        let next = || now.saturating_sub(now.rem_euclid(PATROL_MS)).saturating_add(PATROL_MS);
        self.agenda.patrol_at.get_or_insert_with(next);
    }

    /// Has the locks looked at whose turn it is, if it is time.
    pub(super) fn patrol(&mut self, now: UnixMs) {
        if self.agenda.patrol_at.is_none_or(|time| is_ahead(time, now)) {
            return;
        }
        self.agenda.patrol_at = None;
        if self.queues.is_empty() {
            return;
        }
        for _ in 0..self.queues.locks().min(PATROL_LOCKS) {
            if let Some(lock) = self.queues.take_turn() {
                self.changed(lock);
            }
        }
        self.begin_patrol(now);
    }

    /// A hold is to be taken back, as soon as it can be.
    pub(super) fn take_back(&mut self, hold: Hold) {
        let put_off = self.agenda.rest.is_some();
        self.agenda.undelivered.push_back(Hold { put_off, ..hold });
    }

    /// This server may not write: nothing is tried until then.
    pub(super) fn rest_until(&mut self, now: UnixMs, time: UnixMs) {
        self.agenda.rest = Some((now, time));
        for hold in &mut self.agenda.undelivered {
            hold.put_off = true;
        }
    }

    pub(super) fn is_resting(&mut self, now: UnixMs) -> bool {
        self.agenda.rest = self.agenda.rest.filter(|rest| lasts(*rest, now));
        self.agenda.rest.is_some()
    }

    /// When something is to be done next; a time that has long passed is at once.
    #[must_use]
    pub fn wakes_at(&self, now: UnixMs) -> Option<UnixMs> {
        let agenda = &self.agenda;
        let at_once = agenda.dismissed.is_some().then_some(UnixMs::MIN);
        let rest = agenda.rest.filter(|rest| !is_over_by_a_step(*rest, now));
        let in_time = (!agenda.is_empty()).then(|| rest.map_or(UnixMs::MIN, |(_, until)| until));
        let patrol = agenda.patrol_at.filter(|_| !self.queues.is_empty());
        let patrol = patrol.map(|time| if time <= now || is_ahead(time, now) { time } else { now });
        [at_once, in_time, patrol, self.alarms.next()].into_iter().flatten().min()
    }
}

/// Whether the time for a patrol is still to come. One that is further away than two are from each other was set by a clock
/// that has been set back since.
fn is_ahead(time: UnixMs, now: UnixMs) -> bool {
    (1..=PATROL_MS).contains(&time.saturating_sub(now))
}

/// Whether a rest goes on. By a clock that was set back since, it is over: how long it would last nobody knows.
fn lasts(rest: (UnixMs, UnixMs), now: UnixMs) -> bool {
    now < rest.1 && !is_over_by_a_step(rest, now)
}

fn is_over_by_a_step((began, _): (UnixMs, UnixMs), now: UnixMs) -> bool {
    now < began
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Acquire, Kind, Lease, Waiter};

    struct Somebody(usize);

    impl Client for Somebody {
        type Id = usize;

        fn id(&self) -> usize {
            self.0
        }
    }

    fn lock(key: &str) -> LockName<'_> {
        LockName { database: 0, key: key.as_bytes() }
    }

    fn waits(room: &mut Room<Somebody>, client: usize, lock: LockName<'_>) {
        let want = Acquire { lease: Lease::from_ms(1_000).unwrap(), fenced: false };
        let waiter = Waiter { client: Somebody(client), holder: b"ann"[..].into(), kind: Kind::Plain, want };
        room.join(lock, waiter, 0, usize::MAX, None).unwrap();
    }

    fn room_of(locks: usize) -> Room<Somebody> {
        let mut room = Room::default();
        for number in 0..locks {
            waits(&mut room, number, lock(&number.to_string()));
        }
        room
    }

    fn taken(room: &mut Room<Somebody>) -> Vec<String> {
        let names = std::iter::from_fn(|| {
            let lock = room.take_changed()?;
            room.seen(lock);
            room.queues.name(lock)
        });
        names.map(|(_, key)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_patrol_looks_at_so_many_locks_and_comes_to_all_of_them() {
        let mut room = room_of(10 * PATROL_LOCKS);
        let mut seen = Vec::new();
        for round in 1..=10 {
            room.patrol(round * PATROL_MS - 1);
            assert_eq!(taken(&mut room), [""; 0], "not before its time");
            room.patrol(round * PATROL_MS);
            let looked_at = taken(&mut room);
            assert_eq!(looked_at.len(), PATROL_LOCKS);
            seen.extend(looked_at);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 10 * PATROL_LOCKS);
        let mut few = room_of(3);
        few.patrol(PATROL_MS);
        assert_eq!(taken(&mut few), ["0", "1", "2"], "each once");
        assert_eq!(few.wakes_at(PATROL_MS), Some(2 * PATROL_MS));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_rests_and_puts_off_no_patrol() {
        let (then, now) = (1_000_000, 5_000);
        let mut room = room_of(1);
        room.patrol(then);
        taken(&mut room);
        room.rest_until(then, then + 20);
        room.key_changed(lock("0"));
        assert!(room.is_resting(then + 19));
        assert_eq!(room.wakes_at(then + 5), Some(then + 20));
        assert_eq!(room.wakes_at(now), Some(UnixMs::MIN), "what is on the agenda is for at once");
        assert!(!room.is_resting(now));
        taken(&mut room);
        assert_eq!(room.wakes_at(now), Some(now), "and so is the patrol");
        room.patrol(now);
        assert_eq!(taken(&mut room), ["0"]);
        assert_eq!(room.wakes_at(now), Some(now - now % PATROL_MS + PATROL_MS));
    }

    #[test]
    fn a_lock_is_looked_at_once_whatever_happened_to_it() {
        let mut room = room_of(2);
        assert!(!room.key_changed(lock("9")), "nobody waits for it");
        for _ in 0..3 {
            assert!(room.key_changed(lock("1")) && room.key_changed_by_command(lock("1")));
        }
        assert_eq!(room.take_changed_by_command(), room.queues.find(lock("1")));
        assert_eq!(room.take_changed_by_command(), None);
        assert_eq!(taken(&mut room), ["1"]);
        room.key_changed_by_command(lock("0"));
        room.forget_command();
        assert_eq!((room.take_changed_by_command(), taken(&mut room)), (None, vec!["0".to_owned()]), "it is not lost");
        room.key_changed(lock("0"));
        let seen = room.queues.find(lock("0")).unwrap();
        room.seen(seen);
        assert_eq!(taken(&mut room), [""; 0], "what was looked at meanwhile need not be");
    }

    #[test]
    fn what_happens_to_a_database_is_for_its_locks_only() {
        let mut room = room_of(2);
        for database in [3, 4] {
            waits(&mut room, 10 + usize::try_from(database).unwrap(), LockName { database, key: b"there" });
        }
        let mut swept = |databases: &[Option<i32>]| {
            for database in databases {
                room.database_changed(*database);
            }
            while room.sweep_on() {}
            taken(&mut room).len()
        };
        assert_eq!(swept(&[Some(3)]), 1);
        assert_eq!(swept(&[Some(3), Some(0), Some(3)]), 3);
        assert_eq!(swept(&[Some(9)]), 0);
        assert_eq!(swept(&[Some(3), None, Some(4)]), 4);
    }

    #[test]
    fn a_long_rest_does_not_fill_the_agenda() {
        let mut room = room_of(1);
        for client in 1..10_000 {
            let key = client.to_string();
            waits(&mut room, client, lock(&key));
            room.key_changed(lock(&key));
            drop(room.gone(client));
        }
        assert!(room.agenda.changed.len() <= FEW + 1, "{}", room.agenda.changed.len());
    }
}
