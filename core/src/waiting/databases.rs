//! Where a database is now whose number was given to another one: SWAPDB takes all keys along, and with them the holds
//! that were granted there.
//!
//! Waiters stay with the number, since that is what their clients have selected and will ask for again. A hold stays
//! with its key, wherever that goes.

use std::collections::BTreeMap;

/// A database, whatever its number is by now: the number that it had at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Database(i32);

/// The databases that have another number than at first. They have each other's, so each number here is also a key.
#[derive(Debug, Default)]
pub(super) struct Databases {
    moved: BTreeMap<Database, i32>,
}

impl Databases {
    /// The database that has this number now.
    pub fn at(&self, number: i32) -> Database {
        self.moved.iter().find(|(_, now)| **now == number).map_or(Database(number), |(database, _)| *database)
    }

    /// The number that a database has now.
    pub fn number_of(&self, database: Database) -> i32 {
        self.moved.get(&database).copied().unwrap_or(database.0)
    }

    /// Two databases have each other's number from now on.
    pub fn swap(&mut self, first: i32, second: i32) {
        let (of_first, of_second) = (self.at(first), self.at(second));
        self.set(of_first, second);
        self.set(of_second, first);
    }

    fn set(&mut self, database: Database, number: i32) {
        if database.0 == number {
            self.moved.remove(&database);
        } else {
            self.moved.insert(database, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a list of what is at each number.
        #[test]
        fn a_database_is_found_wherever_it_was_swapped_to(swaps in prop::collection::vec((0..5_i32, 0..5_i32), 0..40)) {
            let (mut databases, mut expected) = (Databases::default(), [0, 1, 2, 3, 4]);
            for (first, second) in swaps {
                databases.swap(first, second);
                expected.swap(usize::try_from(first).unwrap(), usize::try_from(second).unwrap());
                for (number, at_first) in (0_i32..).zip(expected) {
                    prop_assert_eq!(databases.at(number), Database(at_first));
                    prop_assert_eq!(databases.number_of(Database(at_first)), number);
                }
                prop_assert!(databases.moved.len() <= 5);
            }
        }
    }
}
