//! The grants to sessions of which nobody has said yet that he knows, by lock and holder.
//!
//! Mostly one event for each; several if a holder has several tickets for one lock.

use super::Map;
use super::queue::LockName;
use super::sessions::SessionId;
use std::hash::BuildHasher;

/// An event, by its session and its number.
pub(super) type EventId = (SessionId, u64);

#[derive(Debug, Default)]
pub(super) struct UnconfirmedGrants {
    by_holder: Map<u64, Events>,
}

#[derive(Debug)]
enum Events {
    One(EventId),
    More(Vec<EventId>),
}

impl UnconfirmedGrants {
    pub fn is_empty(&self) -> bool {
        self.by_holder.is_empty()
    }

    fn hash(&self, lock: LockName<'_>, holder: &[u8]) -> u64 {
        self.by_holder.hasher().hash_one((lock.database, lock.key, holder))
    }

    pub fn insert(&mut self, lock: LockName<'_>, holder: &[u8], event: EventId) {
        let hash = self.hash(lock, holder);
        let events = match self.by_holder.remove(&hash) {
            None => Events::One(event),
            Some(Events::One(other)) => Events::More(vec![other, event]),
            Some(Events::More(mut events)) => {
                events.push(event);
                Events::More(events)
            }
        };
        self.by_holder.insert(hash, events);
    }

    pub fn remove(&mut self, lock: LockName<'_>, holder: &[u8], event: EventId) {
        let hash = self.hash(lock, holder);
        let is_empty = match self.by_holder.get_mut(&hash) {
            None => return,
            Some(Events::One(other)) => *other == event,
            Some(Events::More(events)) => {
                events.retain(|other| *other != event);
                events.is_empty()
            }
        };
        if is_empty {
            self.by_holder.remove(&hash);
        }
    }

    /// The events that may be of this lock and holder. Names may share a hash, so the caller checks them.
    pub fn find(&self, lock: LockName<'_>, holder: &[u8]) -> impl Iterator<Item = EventId> {
        let events = if self.is_empty() { None } else { self.by_holder.get(&self.hash(lock, holder)) };
        let (one, more) = match events {
            None => (None, None),
            Some(Events::One(event)) => (Some(*event), None),
            Some(Events::More(events)) => (None, Some(events)),
        };
        one.into_iter().chain(more.into_iter().flatten().copied())
    }
}
