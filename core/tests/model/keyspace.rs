//! A data set in a map, with a clock that the test moves, and the record of a lock over it.
//!
//! Changes are carried out as the plain commands that they stand for, so this is also the test that those commands
//! alone make the right keys.

use rlock_core::lock::{
    Change, Changes, Expiry, Field, Grace, Mode, Observed, Permits, ReadWrite, Record, Refusal, Side, UnixMs, Unlock,
    names,
};
use std::collections::BTreeMap;
use std::ops::Deref;

pub const LOCK: &[u8] = b"lock";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Hash(BTreeMap<String, String>),
    /// Permits, each with its end.
    SortedSet(BTreeMap<String, UnixMs>),
    Text(String),
}

#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    pub now: UnixMs,
    entries: BTreeMap<String, (Value, Expiry)>,
    /// What was published: channel and message.
    pub published: Vec<(String, String)>,
    /// Whether any number of readers counts as many.
    pub any_are_many: bool,
    /// The time by which tokens go, if they do.
    pub token_clock_us: Option<i64>,
    /// How long a grace lasts, and until when one runs.
    pub grace: (i64, UnixMs),
}

impl Keyspace {
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        self.entries.retain(|_, (_, expiry)| *expiry > Expiry::At(self.now));
    }

    pub fn grace(&self) -> Grace {
        Grace { length_ms: self.grace.0, left_ms: (self.grace.1 - self.now).max(0) }
    }

    pub fn delete(&mut self, key: &str) {
        self.entries.remove(key);
    }

    pub fn persist(&mut self, key: &str) {
        if let Some((_, expiry)) = self.entries.get_mut(key) {
            *expiry = Expiry::Never;
        }
    }

    /// A client removes a permit.
    pub fn remove_permit(&mut self, holder: &str) {
        if let Some((Value::SortedSet(permits), _)) = self.entries.get_mut("lock") {
            permits.remove(holder);
            if permits.is_empty() {
                self.delete("lock");
            }
        }
    }

    pub fn entries(&self) -> &BTreeMap<String, (Value, Expiry)> {
        &self.entries
    }

    /// First what is in the lock's own key, then what is beside it.
    pub fn apply(&mut self, holder: &str, changes: &Changes) {
        changes.on_lock_key().iter().chain(changes.on_side_keys()).for_each(|change| self.apply_one(holder, *change));
    }

    pub fn apply_one(&mut self, holder: &str, change: Change) {
        let write_field = names::write_field(holder.as_bytes(), text);
        let field = |field| match field {
            Field::Holder => holder.to_owned(),
            Field::HolderWrite => write_field.clone(),
        };
        match change {
            Change::Begin { side: Side::Permit(_), end } => {
                assert!(!self.entries.contains_key("lock"), "permits begin on a free key");
                assert!(end > self.now, "a lease ends in the future");
                let permits = Value::SortedSet(BTreeMap::from([(holder.to_owned(), end)]));
                self.entries.insert("lock".to_owned(), (permits, Expiry::At(end)));
            }
            Change::SetPermit { end, again } => {
                let now = self.now;
                let had = self.permits().insert(holder.to_owned(), end);
                // In the ms of its end a permit has ended by some clocks, and not by others.
                let is_so = had.map_or(!again, |had| had == now || (had > now) == again);
                assert!(is_so, "whether the holder has a permit: {had:?} at {now}");
                assert_ne!(had, Some(end), "a permit that stays as it is");
            }
            Change::PermitStays => assert!(self.permits().contains_key(holder), "a permit stays"),
            Change::DropPermit => {
                assert!(self.permits().remove(holder).is_some(), "a permit that is given back was there");
                assert!(!self.permits().is_empty(), "with the last of them the key goes");
            }
            Change::DropEnded { count } => {
                let mut by_end: Vec<_> = self.permits().iter().map(|(holder, end)| (*end, holder.clone())).collect();
                by_end.sort();
                for (end, holder) in by_end.into_iter().take(count.into()) {
                    assert!(end <= self.now, "the permit of {holder} has not ended");
                    self.permits().remove(&holder);
                }
            }
            Change::Begin { side, end } => {
                assert!(self.hash().is_empty(), "a lock begins on a free key");
                assert!(end > self.now, "a lease ends in the future");
                let mode = side.mode().map(|mode| if mode == Mode::Read { "read" } else { "write" });
                self.hash().extend(mode.map(|mode| ("mode".to_owned(), mode.to_owned())));
                self.hash().insert(field(side.field()), "1".to_owned());
                self.entries.get_mut("lock").unwrap().1 = Expiry::At(end);
            }
            Change::Count { field: of, by, makes } => {
                assert!(!self.hash().is_empty(), "a lock begins with its lease");
                let count = self.hash().entry(field(of)).or_insert_with(|| "0".to_owned());
                *count = (count.parse::<i64>().unwrap() + i64::from(by)).to_string();
                assert_eq!(*count, makes.to_string(), "the count that the change claims");
                assert!(makes > 0);
            }
            Change::Drop(of) => assert!(self.hash().remove(&field(of)).is_some(), "a dropped field was there"),
            Change::Downgrade => drop(self.hash().insert("mode".to_owned(), "read".to_owned())),
            Change::ExpireAt(at) => {
                let (value, expiry) = self.entries.get_mut("lock").unwrap();
                // Of permits others' may be the last, which end in this very ms.
                let earliest = if matches!(value, Value::SortedSet(_)) { self.now } else { self.now + 1 };
                assert!(at >= earliest, "a lease ends in the future");
                *expiry = Expiry::At(at);
            }
            Change::Delete => assert!(self.entries.remove("lock").is_some(), "a deleted lock was there"),
            Change::SetHold { index, end } => self.set_hold(holder, index.into(), end),
            Change::RenewHolds { count, end } => {
                (1..=i64::from(count)).for_each(|index| self.set_hold(holder, index, end))
            }
            Change::DropHolds { first, count } => (first..first + i64::from(count)).for_each(|index| {
                self.entries.remove(&hold_key(holder, index));
            }),
            Change::CountToken { makes: to } | Change::SetToken { to } => {
                let counter = (Value::Text(to.to_string()), Expiry::Never);
                self.entries.insert(names::fencing_counter(LOCK, text), counter);
            }
            Change::Publish(unlock) => {
                let message = if unlock == Unlock::Write { "1" } else { "0" };
                self.published.push((names::channel(LOCK, unlock, text), message.to_owned()));
            }
        }
    }

    fn set_hold(&mut self, holder: &str, index: i64, end: UnixMs) {
        self.entries.insert(hold_key(holder, index), (Value::Text("1".to_owned()), Expiry::At(end)));
    }

    fn hash(&mut self) -> &mut BTreeMap<String, String> {
        let entry = self.entries.entry("lock".to_owned());
        match &mut entry.or_insert((Value::Hash(BTreeMap::new()), Expiry::Never)).0 {
            Value::Hash(fields) => fields,
            _ => panic!("the lock is a hash"),
        }
    }

    fn permits(&mut self) -> &mut BTreeMap<String, UnixMs> {
        match self.entries.get_mut("lock") {
            Some((Value::SortedSet(permits), _)) => permits,
            _ => panic!("the key holds permits"),
        }
    }
}

/// The lock as one holder sees it.
pub struct HolderView<'a, K> {
    pub keyspace: K,
    pub holder: &'a str,
}

impl<K: Deref<Target = Keyspace>> Record for HolderView<'_, K> {
    fn is_there(&self) -> bool {
        self.keyspace.entries.contains_key("lock")
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        let fields = match self.keyspace.entries.get("lock") {
            Some((Value::Hash(fields), _)) => fields,
            Some((Value::SortedSet(_), _)) => return Ok(Observed::Permits),
            _ => return Ok(Observed::Free),
        };
        let count = |field: &str| fields.get(field).map_or(0, |count| count.parse().unwrap());
        let Some(mode) = fields.get("mode") else {
            return Ok(match count(self.holder) {
                0 => Observed::Others,
                holds => Observed::Mine { holds },
            });
        };
        let (reads, writes) = (count(self.holder), count(&format!("{}:write", self.holder)));
        let mine = 1 + usize::from(reads > 0) + usize::from(writes > 0);
        Ok(Observed::ReadWrite(ReadWrite {
            mode: if mode == "read" { Mode::Read } else { Mode::Write },
            reads,
            writes,
            others: fields.len() > mine,
        }))
    }

    fn expiry(&self) -> Expiry {
        self.keyspace.entries.get("lock").map_or(Expiry::At(UnixMs::MIN), |(_, expiry)| *expiry)
    }

    fn derived_keys_are_reachable(&self) -> bool {
        true
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        match self.keyspace.entries.get(&names::fencing_counter(LOCK, text)) {
            Some((Value::Text(counter), _)) => Ok(counter.parse::<i64>().unwrap() + 1),
            _ => Ok(1),
        }
    }

    fn token_clock_us(&self) -> Option<i64> {
        self.keyspace.token_clock_us
    }

    fn readers(&self) -> usize {
        if self.keyspace.any_are_many { usize::MAX } else { 0 }
    }

    fn read_hold_end(&self, index: i64) -> Option<Expiry> {
        self.keyspace.entries.get(&hold_key(self.holder, index)).map(|(_, expiry)| *expiry)
    }

    fn permits(&self, now: UnixMs, _most: usize) -> Permits {
        let Some((Value::SortedSet(permits), _)) = self.keyspace.entries.get("lock") else { return Permits::default() };
        let alive = || permits.iter().filter(|(_, end)| **end >= now);
        let others = || permits.iter().filter(|(holder, _)| *holder != self.holder);
        Permits {
            mine: permits.get(self.holder).copied().filter(|end| *end >= now),
            taken: alive().count(),
            ended: others().filter(|(_, end)| **end < now).count(),
            first_end: alive().map(|(_, end)| *end).min(),
            others_end: others().map(|(_, end)| *end).filter(|end| *end >= now).max(),
        }
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let Some((Value::Hash(fields), _)) = self.keyspace.entries.get("lock") else {
            return None;
        };
        let readers = fields.iter().filter(|(field, _)| *field != "mode" && !field.ends_with(":write"));
        let holds = readers.flat_map(|(reader, count)| {
            let count = if reader == self.holder { own } else { count.parse().unwrap() };
            (1..=count).map(move |index| hold_key(reader, index))
        });
        holds
            .filter_map(|key| self.keyspace.entries.get(&key).map(|(_, expiry)| *expiry))
            .filter(|expiry| *expiry > Expiry::At(now))
            .max()
    }
}

pub fn hold_key(holder: &str, index: i64) -> String {
    names::read_hold(LOCK, holder.as_bytes(), index, text)
}

fn text(name: &[u8]) -> String {
    String::from_utf8(name.to_vec()).unwrap()
}
