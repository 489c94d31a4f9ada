//! What became of the locks that tickets were granted: how each is held as it was granted, and which must be given back.

use super::host::A_PERMIT;
use rlock_core::lock::{Side, UnixMs};

/// How a holder has one side of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldAs {
    pub holds: i64,
    /// When the lease ends: the lock's, or a read hold's own.
    pub end: UnixMs,
}

#[derive(Debug)]
pub struct Grant {
    pub lock: usize,
    pub holder: &'static str,
    pub side: Side,
    /// The number of its session.
    pub session: u64,
    pub ticket: String,
    /// How its holder has the lock, if nothing but waiting has changed that since.
    pub held: HeldAs,
    /// Whether it was in a reply.
    pub was_told: bool,
    /// Whether only its lease ends it: it was acknowledged, or told before its session ended, or is another server's
    /// business.
    pub is_final: bool,
    /// Whether this server has changed its role since: another one knows what became of it.
    pub is_anothers: bool,
    /// Whether it must be given back if it is as it was granted: its session has ended, or it was cancelled.
    pub is_due: bool,
    /// Whether others have done something to it, so that it may not be as it was granted.
    pub is_touched: bool,
    pub is_revoked: bool,
}

impl Grant {
    pub fn is_open(&self) -> bool {
        !self.is_final && !self.is_revoked
    }
}

#[derive(Default)]
pub struct Grants {
    all: Vec<Grant>,
}

impl Grant {
    /// Read holds are counted, and only the last of a holder's is told apart from the others.
    fn hides(&self, former: &Self) -> bool {
        let is_theirs = self.lock == former.lock && self.holder == former.holder;
        is_theirs && self.side == Side::Read && former.side == Side::Read && !self.is_revoked
    }
}

impl Grants {
    fn open(&mut self) -> impl Iterator<Item = &mut Grant> {
        self.all.iter_mut().filter(|grant| grant.is_open())
    }

    fn of(&mut self, lock: usize, holder: &str) -> impl Iterator<Item = &mut Grant> {
        self.open().filter(move |grant| grant.lock == lock && grant.holder == holder)
    }

    pub fn add(&mut self, grant: Grant) {
        self.all.push(grant);
    }

    /// A waiter was granted a lock. What its holder has had of it so far ends with it; but each read hold by itself. A
    /// permit that is granted anew is shared by all that were granted it, which are counted. Returns how it is held.
    pub fn granted(
        &mut self,
        lock: usize,
        holder: &str,
        side: Side,
        before: Option<HeldAs>,
        mut held: HeldAs,
    ) -> HeldAs {
        if let Some(before) = before.filter(|_| side == A_PERMIT) {
            let is_it = |other: &&Grant| (other.lock, other.holder, other.side) == (lock, holder, side);
            let last = self.all.iter().rev().filter(is_it).find(|other| !other.is_revoked && !other.is_touched);
            let shared = last.filter(|last| last.held.end == before.end).map_or(1, |last| last.held.holds);
            held.holds = shared + 1;
        }
        for other in self.all.iter_mut().filter(|other| other.lock == lock && other.holder == holder) {
            if other.is_revoked || other.side == Side::Read {
                // One that is to be given back is hidden by this one, which is told apart from it no more; and one whose
                // number is given again was gone.
                let is_hidden = other.is_due || held.holds <= other.held.holds;
                other.is_touched |= side == Side::Read && other.side == Side::Read && is_hidden;
                continue;
            }
            let is_as_granted = match side {
                A_PERMIT => before.is_some_and(|before| before.end == other.held.end),
                _ => before == Some(other.held),
            };
            if side == other.side && is_as_granted {
                other.held = held;
            } else {
                // A read hold may make the lock's lease longer, which is the write hold's.
                other.is_touched = true;
            }
        }
        held
    }

    /// Others have done something to what this holder has.
    pub fn touched(&mut self, lock: usize, holder: &str) {
        self.of(lock, holder).for_each(|grant| grant.is_touched = true);
    }

    /// The lock is gone, with all that anyone had of it.
    pub fn lost(&mut self, lock: usize) {
        self.open().filter(|grant| grant.lock == lock).for_each(|grant| grant.is_touched = true);
    }

    /// A session is told that it was granted this ticket's lock.
    pub fn told(&mut self, session: u64, ticket: &str) -> &Grant {
        let is_it = |grant: &&mut Grant| grant.session == session && grant.ticket == ticket;
        let grant = self.all.iter_mut().rev().find(is_it).expect("what is told was granted");
        grant.was_told = true;
        grant
    }

    pub fn acknowledged(&mut self, session: u64, ticket: &str) {
        let is_it = |grant: &&mut Grant| grant.session == session && grant.ticket == ticket && !grant.is_due;
        let Some(grant) = self.open().find(is_it) else { return };
        grant.is_final = true;
    }

    pub fn cancelled(&mut self, session: u64, ticket: &str) {
        self.are_due(|grant| grant.session == session && grant.ticket == ticket);
    }

    pub fn session_ended(&mut self, session: u64) {
        self.are_due(|grant| grant.session == session && !grant.was_told);
        self.open().filter(|grant| grant.session == session && !grant.is_due).for_each(|grant| grant.is_final = true);
    }

    /// These must be given back, those that came last first. What is hidden then stays until its lease ends.
    fn are_due(&mut self, are: impl Fn(&Grant) -> bool) {
        for number in 0..self.all.len() {
            let (before, behind) = self.all.split_at_mut(number + 1);
            let Some(grant) = before.last_mut().filter(|grant| grant.is_open() && are(grant)) else { continue };
            grant.is_due = true;
            grant.is_touched |= behind.iter().any(|later| later.hides(grant) && !are(later));
        }
    }

    /// From now on another server decides.
    pub fn role_changed(&mut self) {
        self.open().for_each(|grant| grant.is_final = true);
        self.all.iter_mut().for_each(|grant| grant.is_anothers = true);
    }

    /// Gives back a grant that was to be given back, and was as it was granted. Returns whether there was one.
    pub fn revoked(&mut self, lock: usize, holder: &str, side: Side, held: HeldAs) -> bool {
        let is_it = |grant: &&mut Grant| {
            let is_its = (grant.lock, grant.holder, grant.side) == (lock, holder, side);
            let is_as_granted = grant.held == held || side == A_PERMIT && grant.held.end == held.end;
            grant.is_open() && grant.is_due && is_as_granted && is_its
        };
        if side == A_PERMIT {
            // It has gone with the last of those that were granted it.
            let all: Vec<_> = self.all.iter_mut().filter(|grant| is_it(grant)).collect();
            let is_one = !all.is_empty();
            all.into_iter().for_each(|grant| grant.is_revoked = true);
            return is_one;
        }
        let Some(grant) = self.all.iter_mut().find(is_it) else { return false };
        grant.is_revoked = true;
        true
    }

    /// A waiter's hold was given back.
    pub fn one_is_revoked(&mut self, lock: usize, holder: &str, side: Side, held: HeldAs) {
        for other in self.of(lock, holder).filter(|other| other.side == side && side != Side::Read && side != A_PERMIT)
        {
            if other.held == held {
                other.held.holds -= 1;
            }
        }
    }

    /// Whether nobody else was granted the same permit.
    fn all_are_due(&self, grant: &Grant) -> bool {
        let shares = |other: &&Grant| {
            let is_its = (other.lock, other.holder, other.side) == (grant.lock, grant.holder, grant.side);
            is_its && other.is_open() && other.is_due && !other.is_touched && other.held == grant.held
        };
        let due = self.all.iter().filter(shares).count();
        grant.side != A_PERMIT || i64::try_from(due) == Ok(grant.held.holds)
    }

    /// Those that must have been given back by now.
    pub fn overdue(&self, now: UnixMs) -> impl Iterator<Item = &Grant> {
        let due = move |grant: &Grant| grant.is_open() && grant.is_due && !grant.is_touched && now <= grant.held.end;
        let due = self.all.iter().enumerate().filter(move |(_, grant)| due(grant) && self.all_are_due(grant));
        due.filter(|(number, grant)| !self.all[number + 1..].iter().any(|later| later.hides(grant))).map(|(_, due)| due)
    }
}
