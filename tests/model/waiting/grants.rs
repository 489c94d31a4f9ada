//! What became of the locks that tickets were granted: which of them their processes know of, and which must be given
//! back.

use rlock::lock::{Side, UnixMs};

#[derive(Debug)]
pub struct Grant {
    pub lock: usize,
    pub holder: &'static str,
    pub side: Side,
    /// The number of its session.
    pub session: u64,
    pub ticket: String,
    pub end: UnixMs,
    /// Whether only its lease ends it: it was acknowledged, renewed or released, or is another server's business.
    pub is_final: bool,
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

    /// A ticket is granted a lock. What its holder has had of it so far ends with it; but each read hold by itself.
    pub fn add(&mut self, grant: Grant, now: UnixMs) {
        for other in self.of(grant.lock, grant.holder).filter(|other| now <= other.end) {
            match (other.side, grant.side) {
                (Side::Read, _) => {}
                // A read hold may make the lock's lease longer, which is the write hold's.
                (_, Side::Read) => other.is_touched = true,
                // It waits for its revocation, and the lock's lease is no longer what it was.
                _ if other.is_due => other.is_touched = true,
                _ => other.end = grant.end,
            }
        }
        self.all.push(grant);
    }

    /// Others have done something to what this holder has.
    pub fn touched(&mut self, lock: usize, holder: &str) {
        self.of(lock, holder).for_each(|grant| grant.is_touched = true);
    }

    /// The lock is gone, with all that anyone had of it.
    pub fn lost(&mut self, lock: usize) {
        self.open().filter(|grant| grant.lock == lock).for_each(|grant| grant.is_touched = true);
    }

    /// The lock begins anew with this holder: what it had of it before went with the lock.
    pub fn begins(&mut self, lock: usize, holder: &str) {
        self.known_to(lock, holder);
    }

    /// The holder has renewed or released what it has.
    pub fn known_to(&mut self, lock: usize, holder: &str) {
        self.of(lock, holder).for_each(|grant| grant.is_final = true);
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
        self.are_due(|grant| grant.session == session);
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
    }

    /// Checks that this grant was to be given back.
    pub fn revoked(&mut self, lock: usize, holder: &str, ticket: &str, now: UnixMs) {
        let is_it = |grant: &&mut Grant| {
            let names = (grant.lock, grant.holder, grant.ticket.as_str());
            let may_be_there = grant.is_touched || now <= grant.end;
            grant.is_open() && grant.is_due && may_be_there && names == (lock, holder, ticket)
        };
        let Some(grant) = self.all.iter_mut().find(is_it) else {
            panic!("ticket {ticket} of {holder} is revoked, though nothing says so: {:?}", self.all);
        };
        grant.is_revoked = true;
    }

    /// Those that must have been given back by now.
    pub fn overdue(&self, now: UnixMs) -> impl Iterator<Item = &Grant> {
        let due = move |grant: &Grant| grant.is_open() && grant.is_due && !grant.is_touched && now <= grant.end;
        let due = self.all.iter().enumerate().filter(move |(_, grant)| due(grant));
        due.filter(|(number, grant)| !self.all[number + 1..].iter().any(|later| later.hides(grant))).map(|(_, due)| due)
    }
}
