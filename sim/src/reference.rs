//! One naive model of the lock, written from the contract alone (docs/commands.md). The histories of rlock-core and the
//! wire tests are judged against it.
//!
//! It is a list of holds that is searched again for each question. It knows nothing of decisions and changes: it has the reply
//! to each command, and what the keys and messages must be after it.

use crate::keyspace::{Entry, Permits, Value};
use rlock_core::lock::{Expiry, Side, UnixMs};
use std::collections::BTreeMap;

/// What a command replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Number(i64),
    Token(i64),
    /// The answer of another holder's work.
    Answer(Vec<u8>),
    Error(&'static str),
}

const RW_CHANNEL: &str = "redisson_rwlock";

/// A lock, its holders and its tokens.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    key: String,
    pub now: UnixMs,
    lock: Option<Lock>,
    /// The holder and the end of each permit. Empty while there is a lock.
    permits: Vec<(String, i64)>,
    /// When the key with the permits ends, if not with the last permit: a client has removed that permit, or the expiry.
    foreign_expiry: Option<Expiry>,
    /// Read hold keys: they may outlive the lock, and die before it.
    hold_keys: BTreeMap<(String, usize), i64>,
    tokens: i64,
    /// The stored answer, with its end.
    answer: Option<(Vec<u8>, i64)>,
    /// The time for fencing tokens, if they go by a clock.
    pub token_clock_us: Option<i64>,
    /// The longest lease that is allowed; 0: no limit.
    pub grace_length: i64,
    /// Until then no lock gets a new holder.
    pub grace_until: i64,
    /// Channels and messages.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether any number of readers counts as many.
    pub any_are_many: bool,
}

#[derive(Clone, Debug)]
struct Lock {
    read_write: bool,
    writing: bool,
    end: Expiry,
    /// One entry a hold, in the order in which they were taken.
    holds: Vec<(String, Side)>,
}

impl Lock {
    fn count(&self, holder: &str, side: Side) -> usize {
        self.holds.iter().filter(|hold| **hold == (holder.to_owned(), side)).count()
    }

    /// The fields of the hash, in the order in which they came.
    fn fields(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut fields = Vec::new();
        if self.read_write {
            fields.push((b"mode".to_vec(), if self.writing { b"write".to_vec() } else { b"read".to_vec() }));
        }
        for (holder, side) in &self.holds {
            let suffix = if *side == Side::Write { ":write" } else { "" };
            let field = format!("{holder}{suffix}").into_bytes();
            if !fields.iter().any(|(known, _)| *known == field) {
                fields.push((field, self.count(holder, *side).to_string().into_bytes()));
            }
        }
        fields
    }

    fn take_last(&mut self, holder: &str, side: Side) {
        let last = self.holds.iter().rposition(|hold| *hold == (holder.to_owned(), side)).unwrap();
        self.holds.remove(last);
    }
}

impl Reference {
    /// A lock that is free.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self { key: key.to_owned(), ..Self::default() }
    }

    /// A key is there up to the ms in which it ends.
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        self.hold_keys.retain(|_, end| *end >= now);
        self.answer = self.answer.take().filter(|(_, end)| *end >= now);
        if self.lock.as_ref().is_some_and(|lock| lock.end < Expiry::At(now)) {
            self.lock = None;
        }
        // The key ends with the last permit.
        if self.permits_expiry().is_some_and(|expiry| expiry < Expiry::At(now)) {
            self.permits.clear();
            self.foreign_expiry = None;
        }
    }

    pub fn delete_lock(&mut self) {
        self.lock = None;
        self.permits.clear();
        self.foreign_expiry = None;
    }

    pub fn persist_lock(&mut self) {
        if let Some(lock) = &mut self.lock {
            lock.end = Expiry::Never;
        }
        self.foreign_expiry = self.permits_expiry().map(|_| Expiry::Never);
    }

    pub fn remove_permit(&mut self, holder: &str) {
        self.foreign_expiry = self.permits_expiry();
        self.permits.retain(|(other, _)| other != holder);
        self.foreign_expiry = self.foreign_expiry.filter(|_| !self.permits.is_empty());
    }

    fn permits_expiry(&self) -> Option<Expiry> {
        let last = self.permits.iter().map(|(_, end)| Expiry::At(*end)).max()?;
        Some(self.foreign_expiry.unwrap_or(last))
    }

    pub fn delete_hold_key(&mut self, holder: &str, index: i64) {
        self.hold_keys.remove(&(holder.to_owned(), index as usize));
    }

    pub fn delete_answer(&mut self) {
        self.answer = None;
    }

    /// Without an answer it is an acquire: the caller leads, or another holder does.
    pub fn once(&mut self, holder: &str, lease: i64) -> Reply {
        match &self.answer {
            Some((value, _)) => Reply::Answer(value.clone()),
            None => self.acquire(holder, Side::Plain, lease, false),
        }
    }

    /// Any holder of the plain lock can answer.
    pub fn answer(&mut self, holder: &str, value: &[u8], keep: i64) -> Reply {
        let is_read_write = self.lock.as_ref().is_some_and(|lock| lock.read_write);
        if !self.permits.is_empty() || is_read_write {
            return Reply::Error("WRONGKIND");
        }
        if self.lock.as_ref().is_none_or(|lock| lock.count(holder, Side::Plain) == 0) {
            return Reply::Nil;
        }
        self.answer = Some((value.to_vec(), self.now + keep));
        self.free("redisson_lock__channel", "0")
    }

    /// What RLOCK.INSPECT shows of the stored answer: its length, and the ms until its end.
    #[must_use]
    pub fn seen_answer(&self) -> Option<(usize, i64)> {
        self.answer.as_ref().map(|(value, end)| (value.len(), end - self.now))
    }

    pub fn acquire(&mut self, holder: &str, side: Side, lease: i64, fenced: bool) -> Reply {
        let now = self.now;
        if self.is_too_long(lease) {
            return Reply::Error("ERR");
        }
        if let Side::Permit(limit) = side {
            return self.acquire_permit(holder, limit.get(), now + lease, fenced);
        }
        if !self.permits.is_empty() {
            return Reply::Error("WRONGKIND");
        }
        match &self.lock {
            Some(lock) if lock.read_write != (side != Side::Plain) => return Reply::Error("WRONGKIND"),
            None if self.grace_until > now => return Reply::Number(self.grace_until - now),
            None => {
                self.lock = Some(Lock {
                    read_write: side != Side::Plain,
                    writing: side == Side::Write,
                    end: Expiry::At(now + lease),
                    holds: vec![(holder.to_owned(), side)],
                });
            }
            Some(lock) => {
                if let Some(reply) = self.why_not(lock, holder, side, lease) {
                    return reply;
                }
                self.add_hold(holder, side, lease);
            }
        }
        if side == Side::Read {
            let index = self.lock.as_ref().unwrap().count(holder, Side::Read);
            self.hold_keys.insert((holder.to_owned(), index), now + lease);
        }
        self.grants(fenced)
    }

    /// The reply if a held lock is not granted to this holder as well.
    fn why_not(&self, lock: &Lock, holder: &str, side: Side, lease: i64) -> Option<Reply> {
        let writer = lock.writing && lock.count(holder, Side::Write) > 0;
        let is_allowed = match side {
            Side::Plain => lock.count(holder, Side::Plain) > 0,
            Side::Read => !lock.writing || writer,
            Side::Write => writer,
            Side::Permit(_) => unreachable!("not of a lock"),
        };
        let left = match lock.end {
            Expiry::At(end) => end - self.now,
            Expiry::Never => -1,
        };
        // A writer's leases are added up.
        let adds_up = side == Side::Write && writer && lock.end != Expiry::Never;
        if adds_up && self.is_too_long(left + lease) {
            return Some(Reply::Error("ERR"));
        }
        let in_grace = self.grace_until > self.now;
        let grace_left = if in_grace && left >= 0 { self.grace_until - self.now } else { left };
        (!is_allowed || in_grace).then(|| Reply::Number(left.max(grace_left)))
    }

    fn add_hold(&mut self, holder: &str, side: Side, lease: i64) {
        let lock = self.lock.as_mut().unwrap();
        lock.holds.push((holder.to_owned(), side));
        let end = Expiry::At(self.now + lease);
        lock.end = match (side, lock.end) {
            (Side::Read, old) => old.max(end),
            (Side::Write, Expiry::At(old)) => Expiry::At(old + lease),
            (Side::Write, Expiry::Never) => Expiry::Never,
            (Side::Plain | Side::Permit(_), _) => end,
        };
    }

    fn acquire_permit(&mut self, holder: &str, limit: usize, end: i64, fenced: bool) -> Reply {
        if self.lock.is_some() {
            return Reply::Error("WRONGKIND");
        }
        let alive = self.alive();
        let is_granted = alive.len() < limit || self.has_permit(holder);
        let first_end = alive.iter().map(|(_, end)| *end).min().filter(|_| !is_granted).unwrap_or(self.now);
        let left = (first_end - self.now).max(self.grace_until - self.now);
        if !is_granted || self.grace_until > self.now {
            return Reply::Number(left);
        }
        self.set_permit(holder, end);
        self.grants(fenced)
    }

    fn alive(&self) -> Vec<(String, i64)> {
        self.permits.iter().filter(|(_, end)| *end >= self.now).cloned().collect()
    }

    fn has_permit(&self, holder: &str) -> bool {
        self.alive().iter().any(|(other, _)| other == holder)
    }

    fn set_permit(&mut self, holder: &str, end: i64) {
        self.drop_permit(holder);
        self.permits.push((holder.to_owned(), end));
    }

    /// Drops this permit, and every one that has ended.
    fn drop_permit(&mut self, holder: &str) {
        self.foreign_expiry = None;
        self.permits = self.alive();
        self.permits.retain(|(other, _)| other != holder);
    }

    fn grants(&mut self, fenced: bool) -> Reply {
        if !fenced {
            return Reply::Nil;
        }
        self.tokens += 1;
        if let Some(clock) = self.token_clock_us {
            self.tokens = self.tokens.max(clock.min(9_007_199_254_740_991));
        }
        Reply::Token(self.tokens)
    }

    pub fn release(&mut self, holder: &str, side: Option<Side>, lease: Option<i64>, all: bool) -> Reply {
        if side == Some(Side::Read) && lease.is_some() || lease.is_some_and(|lease| self.is_too_long(lease)) {
            return Reply::Error("ERR");
        }
        if !self.permits.is_empty() {
            return match (side, self.has_permit(holder)) {
                (Some(_), _) => Reply::Error("WRONGKIND"),
                (None, false) => Reply::Nil,
                (None, true) => {
                    self.drop_permit(holder);
                    Reply::Number(1)
                }
            };
        }
        let Some(lock) = &self.lock else { return Reply::Nil };
        if !lock.read_write {
            return if side.is_some() { Reply::Error("WRONGKIND") } else { self.release_plain(holder, lease, all) };
        }
        let reads = lock.count(holder, Side::Read) > 0 && side != Some(Side::Write);
        let writes = lock.count(holder, Side::Write) > 0 && side != Some(Side::Read);
        match (reads, writes) {
            (false, false) => Reply::Nil,
            (true, true) if !all => Reply::Error("ERR"),
            (true, false) if lease.is_some() => Reply::Error("ERR"),
            (true, false) => self.release_read(holder, all),
            (false, true) => self.release_write(holder, lease, all),
            (true, true) => {
                // The script releases the write hold, and then the reads like any reader's. Here both happen at once.
                self.drop_reads(holder, true);
                let lock = self.lock.as_mut().unwrap();
                lock.holds.retain(|hold| hold.0 != holder);
                assert!(lock.holds.is_empty(), "no other holder can be inside a write lock");
                self.free(RW_CHANNEL, "1")
            }
        }
    }

    fn release_plain(&mut self, holder: &str, lease: Option<i64>, all: bool) -> Reply {
        let now = self.now;
        let lock = self.lock.as_mut().unwrap();
        match lock.count(holder, Side::Plain) {
            0 => Reply::Nil,
            count if count == 1 || all => self.free("redisson_lock__channel", "0"),
            _ => {
                lock.take_last(holder, Side::Plain);
                lock.end = lease.map_or(lock.end, |lease| Expiry::At(now + lease));
                Reply::Number(0)
            }
        }
    }

    fn release_read(&mut self, holder: &str, all: bool) -> Reply {
        let gone = self.drop_reads(holder, all);
        let longest = self.longest_read();
        let any_are_many = self.any_are_many;
        let lock = self.lock.as_mut().unwrap();
        match (lock.writing, longest) {
            (true, _) => Reply::Number(0),
            // With many holders, the leases of the others are only read if the leaving one had the lock's own.
            (false, _) if any_are_many && !lock.holds.is_empty() && gone < lock.end => Reply::Number(0),
            (false, Some(end)) => {
                lock.end = Expiry::At(end);
                Reply::Number(0)
            }
            (false, None) => self.free(RW_CHANNEL, "0"),
        }
    }

    /// Returns when the last of the dropped holds would have ended.
    fn drop_reads(&mut self, holder: &str, all: bool) -> Expiry {
        let lock = self.lock.as_mut().unwrap();
        let mut latest = Expiry::At(i64::MIN);
        loop {
            let count = lock.count(holder, Side::Read);
            lock.take_last(holder, Side::Read);
            let gone = self.hold_keys.remove(&(holder.to_owned(), count));
            latest = latest.max(Expiry::At(gone.unwrap_or(i64::MIN)));
            if !all || count == 1 {
                return latest;
            }
        }
    }

    fn longest_read(&self) -> Option<i64> {
        let lock = self.lock.as_ref().unwrap();
        let counts = |holder: &str, index, end| end > self.now && index <= lock.count(holder, Side::Read);
        let alive = self.hold_keys.iter().filter(|((holder, index), end)| counts(holder, *index, **end));
        alive.map(|(_, end)| *end).max()
    }

    fn release_write(&mut self, holder: &str, lease: Option<i64>, all: bool) -> Reply {
        let now = self.now;
        let lock = self.lock.as_mut().unwrap();
        if lock.count(holder, Side::Write) > 1 && !all {
            lock.take_last(holder, Side::Write);
            lock.end = lease.map_or(lock.end, |lease| Expiry::At(now + lease));
            return Reply::Number(0);
        }
        lock.holds.retain(|hold| *hold != (holder.to_owned(), Side::Write));
        if lock.holds.is_empty() {
            return self.free(RW_CHANNEL, "1");
        }
        lock.writing = false;
        self.publish(RW_CHANNEL, "1");
        Reply::Number(1)
    }

    fn free(&mut self, channel: &str, message: &str) -> Reply {
        self.lock = None;
        self.publish(channel, message);
        Reply::Number(1)
    }

    fn publish(&mut self, channel: &str, message: &str) {
        let channel = format!("{channel}:{}", self.tag());
        self.published.push((channel.into_bytes(), message.as_bytes().to_vec()));
    }

    /// The key as it is part of other names.
    fn tag(&self) -> String {
        if self.key.contains('{') { self.key.clone() } else { format!("{{{}}}", self.key) }
    }

    fn is_too_long(&self, lease: i64) -> bool {
        self.grace_length > 0 && lease > self.grace_length
    }

    /// Whether a free lock is not handed to a waiter with this lease.
    pub fn keeps_out(&self, lease: i64) -> bool {
        self.grace_until > self.now || self.is_too_long(lease)
    }

    pub fn renew(&mut self, holder: &str, lease: i64) -> Reply {
        if self.is_too_long(lease) {
            return Reply::Error("ERR");
        }
        let end = self.now + lease;
        if self.has_permit(holder) {
            self.set_permit(holder, end);
            return Reply::Number(1);
        }
        let Some(lock) = &mut self.lock else { return Reply::Number(0) };
        if !lock.holds.iter().any(|hold| hold.0 == holder) {
            return Reply::Number(0);
        }
        let mut before = Expiry::At(i64::MIN);
        for index in 1..=lock.count(holder, Side::Read) {
            let hold = self.hold_keys.insert((holder.to_owned(), index), end);
            before = before.max(Expiry::At(hold.unwrap_or(i64::MIN)));
        }
        if lock.read_write && !lock.writing {
            // A renewal may shorten this holder's own lease, but not the longer lease of another holder. Like a new
            // reader, it makes the lock's lease longer only up to its own end. If another's read hold outlives the lock,
            // its holder asked for that: it gave the lock this lease when it released a nested write hold before the downgrade.
            let longer = Expiry::At(end) >= lock.end;
            if !longer && self.any_are_many && before < lock.end {
                return Reply::Number(1);
            }
            let lock_end = if longer { end } else { self.longest_read().unwrap_or(end).max(end) };
            self.lock.as_mut().unwrap().end = Expiry::At(lock_end);
        } else {
            lock.end = Expiry::At(end);
        }
        Reply::Number(1)
    }

    /// What the data set must hold, as Redisson lays it out.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<Vec<u8>, Entry> {
        let mut entries = BTreeMap::new();
        let mut put = |key: &str, value, expiry| entries.insert(key.as_bytes().to_vec(), Entry { value, expiry });
        if let Some(lock) = &self.lock {
            put(&self.key, Value::Hash(lock.fields()), lock.end);
        }
        if let Some(end) = self.permits_expiry() {
            let permits = self.permits.iter().map(|(holder, end)| (holder.as_bytes(), *end));
            put(&self.key, Value::SortedSet(Permits::of(permits)), end);
        }
        if let Some((value, end)) = &self.answer {
            put(&format!("rlock_answer:{}", self.tag()), Value::Text(value.clone()), Expiry::At(*end));
        }
        let text = |text: String| Value::Text(text.into_bytes());
        for ((holder, index), end) in &self.hold_keys {
            let key = format!("{}:{holder}:rwlock_timeout:{index}", self.tag());
            put(&key, text("1".to_owned()), Expiry::At(*end));
        }
        if self.tokens > 0 {
            put(&format!("redisson_lock_token:{}", self.tag()), text(self.tokens.to_string()), Expiry::Never);
        }
        entries
    }

    /// What must be true of any lock at any time.
    pub fn check_exclusion(&self) {
        let Some(lock) = &self.lock else { return };
        let mut writers: Vec<_> = lock.holds.iter().filter(|hold| hold.1 != Side::Read).map(|hold| &hold.0).collect();
        writers.dedup();
        assert!(writers.len() <= 1, "two exclusive holders: {writers:?}");
        if let Some(writer) = writers.first() {
            assert!(lock.holds.iter().all(|hold| hold.0 == **writer), "someone is beside the writer: {lock:?}");
        }
    }
}
