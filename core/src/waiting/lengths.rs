//! The locks of a database by the length of their queues. Of equally long ones, the first has not changed for longest.
//!
//! Each hand-over makes a queue shorter, and mostly longer again. So most lengths have a list at hand that stays when it
//! is empty; only for long queues, of which there are few, lists come and go.

use super::store::{Links, List, Place, Store};
use std::collections::BTreeMap;

/// Lengths below this have a list at hand, once there was such a queue.
const SHORT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Lengths {
    short: Vec<List>,
    long: BTreeMap<u32, List>,
    locks: usize,
}

impl Lengths {
    pub fn is_empty(&self) -> bool {
        self.locks == 0
    }

    pub fn insert<T>(&mut self, store: &mut Store<T>, place: Place, length: u32, links: impl Fn(&mut T) -> &mut Links) {
        self.locks = self.locks.saturating_add(1);
        let index = as_count(length);
        if index >= SHORT {
            self.long.entry(length).or_default().push(store, place, links);
            return;
        }
        if index >= self.short.len() {
            self.short.resize(index.saturating_add(1), List::default());
        }
        if let Some(list) = self.short.get_mut(index) {
            list.push(store, place, links);
        }
    }

    pub fn remove<T>(&mut self, store: &mut Store<T>, place: Place, length: u32, links: impl Fn(&mut T) -> &mut Links) {
        self.locks = self.locks.saturating_sub(1);
        if let Some(list) = self.short.get_mut(as_count(length)) {
            list.remove(store, place, links);
        } else if let Some(list) = self.long.get_mut(&length) {
            list.remove(store, place, links);
            if list.first().is_none() {
                self.long.remove(&length);
            }
        }
    }

    /// The first lock of each length, the longest first.
    pub fn longest_first(&self) -> impl Iterator<Item = Place> {
        let lists = self.long.values().rev().chain(self.short.iter().rev());
        lists.filter_map(|list| list.first())
    }

    /// The length of the longest queue.
    pub fn longest(&self) -> usize {
        let short = || self.short.iter().rposition(|list| list.first().is_some()).unwrap_or(0);
        self.long.last_key_value().map_or_else(short, |(length, _)| as_count(*length))
    }
}

pub(super) fn as_count(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
