//! A lock as it should be, simple and slow; and the ways in which it can be made not to be.

use crate::history::{Answer, Holding, Side, Waiting, WaitsBy};
use rlock_testing::Random;
use std::collections::{BTreeMap, VecDeque};

/// Microseconds.
pub type Time = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Leases end after four fifths of their time.
    EarlyEnd,
    /// Who came last is served first.
    LastFirst,
    /// A lock that was given back is free for a while before the queue is served, and who comes by takes it.
    Overtaking,
    /// At times nobody is served when the lock becomes free, until somebody has a look a second later.
    Sleep,
    /// At times somebody is told that the lock was granted, and it was not.
    LostGrant,
    /// Who has waited for too long is told so, and stays in the queue.
    GrantToRefused,
    /// Whose wait was ended by somebody stays in the queue.
    GrantToKilled,
    /// At times readers get in beside a writer.
    Mixed,
    /// RENEW says yes and does nothing.
    DeafRenewal,
    /// A release by one who holds nothing takes the lock from who holds it.
    Theft,
    /// At times a token is given twice.
    TwinTokens,
    /// At times a token is lower than the last.
    FallingTokens,
    /// One release gives back all.
    Uncounted,
    /// What a session was granted goes when the session ends, known or not.
    RevokedGrant,
    /// A ticket that was passed over comes back behind all others.
    LostPlace,
    /// What is told again is told otherwise.
    TwoOutcomes,
    /// What was told on a connection is not told on the next.
    EventLost,
    /// A ticket that is taken back stays in the queue.
    LeftTicket,
    /// Sessions end too soon.
    ShortLife,
    /// Whoever is not there is served, too.
    Absent,
}

#[derive(Clone, Debug)]
pub struct Asking {
    /// Of the request.
    pub number: usize,
    pub holder: String,
    pub side: Side,
    pub lease: Time,
    pub fenced: bool,
    pub by_script: bool,
}

pub struct Waiter {
    pub asking: Asking,
    pub since: Time,
    pub client_id: i64,
    /// None: it does not wait by ticket.
    pub attended: Option<bool>,
}

#[derive(Clone, Default)]
struct Share {
    /// When each read hold ends.
    reads: Vec<Time>,
    writes: u32,
}

pub struct Lock {
    pub name: String,
    shares: BTreeMap<String, Share>,
    pub ends: Time,
    token: u64,
    pub queue: VecDeque<Waiter>,
    pub is_asleep_until: Time,
    pub flaw: Option<Flaw>,
}

impl Lock {
    pub fn new(name: String, flaw: Option<Flaw>) -> Self {
        let (shares, queue) = Default::default();
        Self { name, shares, ends: 0, token: 0, queue, is_asleep_until: 0, flaw }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub fn is_held(&self) -> bool {
        !self.shares.is_empty()
    }

    fn is_written(&self) -> bool {
        self.shares.values().any(|share| share.writes > 0)
    }

    pub fn expire(&mut self, now: Time) {
        if now >= self.ends {
            self.shares.clear();
        }
    }

    /// Whatever was held is gone.
    pub fn clear(&mut self) {
        self.shares.clear();
    }

    pub fn forget_tokens(&mut self, count: u64) {
        self.token = self.token.saturating_sub(count);
    }

    /// By so many microseconds less.
    pub fn move_reads(&mut self, by: i64) {
        for ends in self.shares.values_mut().flat_map(|share| &mut share.reads) {
            *ends = ends.saturating_add_signed(-by);
        }
    }

    /// None: it has to wait, if it is ready to.
    pub fn ask(&mut self, asking: &Asking, now: Time, random: &mut Random) -> Option<Answer> {
        self.expire(now);
        let is_within = self.shares.contains_key(&asking.holder);
        let is_open = self.queue.iter().all(|waiter| waiter.attended == Some(false))
            || asking.by_script
            || is_within
            || self.has(Flaw::Overtaking);
        (is_open && self.fits(asking, random)).then(|| self.grant(asking, now, random))
    }

    fn fits(&self, asking: &Asking, random: &mut Random) -> bool {
        let own = self.shares.get(&asking.holder);
        let writes = own.is_some_and(|share| share.writes > 0);
        match asking.side {
            Side::Plain | Side::Write => self.shares.is_empty() || writes,
            Side::Read => writes || !self.is_written() || (self.has(Flaw::Mixed) && random.is(20)),
        }
    }

    fn grant(&mut self, asking: &Asking, now: Time, random: &mut Random) -> Answer {
        let lease = if self.has(Flaw::EarlyEnd) { asking.lease * 4 / 5 } else { asking.lease };
        let token = asking.fenced.then(|| self.next_token(random));
        if self.has(Flaw::LostGrant) && random.is(5) {
            return Answer::Granted { token };
        }
        let is_new = self.shares.is_empty();
        let share = self.shares.entry(asking.holder.clone()).or_default();
        match asking.side {
            Side::Read => share.reads.push(now + lease),
            Side::Plain | Side::Write => share.writes += 1,
        }
        self.ends = match asking.side {
            _ if is_new => now + lease,
            Side::Plain => now + lease,
            Side::Write => self.ends + lease,
            Side::Read => self.ends.max(now + lease),
        };
        Answer::Granted { token }
    }

    fn next_token(&mut self, random: &mut Random) -> u64 {
        if self.has(Flaw::FallingTokens) && random.is(10) {
            self.token = self.token.saturating_sub(2);
        }
        let is_repeated = self.has(Flaw::TwinTokens) && self.token > 0 && random.is(10);
        self.token += u64::from(!is_repeated);
        self.token
    }

    pub fn left_ms(&self, now: Time) -> i64 {
        i64::try_from(self.ends.saturating_sub(now) / 1_000).expect("a short time")
    }

    pub fn renew(&mut self, holder: &str, lease: Time, now: Time) -> Answer {
        self.expire(now);
        if self.has(Flaw::DeafRenewal) {
            return Answer::Renewed(self.shares.contains_key(holder));
        }
        let Some(share) = self.shares.get_mut(holder) else { return Answer::Renewed(false) };
        share.reads.iter_mut().for_each(|ends| *ends = now + lease);
        let others = self.shares.iter().filter(|(name, _)| *name != holder);
        let others = others.flat_map(|(_, share)| share.reads.iter().copied()).max().unwrap_or(0);
        self.ends = others.max(now + lease);
        Answer::Renewed(true)
    }

    pub fn release(&mut self, holder: &str, side: Side, all: bool, now: Time) -> Answer {
        self.expire(now);
        let is_theft = self.has(Flaw::Theft) && side.is_exclusive();
        let all = all || self.has(Flaw::Uncounted);
        let Some(share) = self.shares.get_mut(holder) else {
            if is_theft {
                self.shares.clear();
            }
            return Answer::Released(None);
        };
        let had = if side == Side::Read { share.reads.len() } else { share.writes as usize };
        if had == 0 {
            return Answer::Released(None);
        }
        match side {
            Side::Read => share.reads.truncate(if all { 0 } else { had - 1 }),
            Side::Plain | Side::Write => share.writes = if all { 0 } else { share.writes - 1 },
        }
        let is_over = side.is_exclusive() && share.writes == 0;
        if share.reads.is_empty() && share.writes == 0 {
            self.shares.remove(holder);
        }
        if side == Side::Read && !self.is_written() {
            self.ends = self.shares.values().flat_map(|share| share.reads.iter().copied()).max().unwrap_or(0);
            self.expire(now);
        }
        Answer::Released(Some(i64::from(is_over || self.shares.is_empty())))
    }

    /// Lets in whoever can be let in, and tells what they are answered.
    pub fn serve(&mut self, now: Time, random: &mut Random) -> Vec<(usize, Answer)> {
        self.expire(now);
        let mut served = Vec::new();
        if now < self.is_asleep_until {
            return served;
        }
        loop {
            let is_there = |waiter: &Waiter| waiter.attended != Some(false) || self.has(Flaw::Absent);
            let first = self.queue.iter().position(is_there);
            let place = if self.has(Flaw::LastFirst) { self.queue.len().checked_sub(1) } else { first };
            let Some(place) = place else { return served };
            if self.has(Flaw::LostPlace) {
                self.queue.rotate_left(place);
            }
            let place = if self.has(Flaw::LostPlace) { 0 } else { place };
            let Some(asking) = self.queue.get(place).map(|waiter| waiter.asking.clone()) else { return served };
            if !self.fits(&asking, random) {
                return served;
            }
            if self.has(Flaw::Sleep) && random.is(10) {
                self.is_asleep_until = now + 1_000_000;
                return served;
            }
            self.queue.remove(place);
            served.push((asking.number, self.grant(&asking, now, random)));
        }
    }

    pub fn leave(&mut self, number: usize) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.asking.number != number);
        self.queue.len() < before
    }

    pub fn holders(&self, now: Time) -> Vec<Holding> {
        let mut holders = Vec::new();
        let side = if self.name.starts_with("rw") { Side::Write } else { Side::Plain };
        for (holder, share) in &self.shares {
            if share.writes > 0 {
                let (holder, count) = (holder.clone(), share.writes.into());
                holders.push(Holding { holder, side, count, ttl_ms: None });
            }
            if let Some(ends) = share.reads.iter().max() {
                let left = i64::try_from(ends.saturating_sub(now) / 1_000).expect("a short time");
                let count = i64::try_from(share.reads.len()).expect("a few");
                holders.push(Holding { holder: holder.clone(), side: Side::Read, count, ttl_ms: Some(left) });
            }
        }
        holders
    }

    pub fn waiters(&self, now: Time) -> Vec<Waiting> {
        let seen = |waiter: &Waiter| Waiting {
            holder: waiter.asking.holder.clone(),
            side: waiter.asking.side,
            by: match waiter.attended {
                None => WaitsBy::Client(waiter.client_id),
                Some(is_attended) => WaitsBy::Ticket { name: waiter.asking.holder.clone(), is_attended },
            },
            waited_ms: i64::try_from(now.saturating_sub(waiter.since) / 1_000).expect("a short time"),
        };
        self.queue.iter().map(seen).collect()
    }
}
