//! The queues against a plain list of all waiters, in random histories; and what people are shown of them.

use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;

const KEYS: [&[u8]; 3] = [b"a", b"b", b""];

#[derive(Clone, Debug)]
enum Step {
    Join { database: i32, key: usize },
    ServeFirst { database: i32, key: usize },
    Leave { waiter: usize },
    PassOver { waiter: usize },
    PutBack,
    PutFirstBack { database: i32, key: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..2, 0..3_usize).prop_map(|(database, key)| Step::Join { database, key }),
        2 => (0..2, 0..3_usize).prop_map(|(database, key)| Step::ServeFirst { database, key }),
        2 => (0..1_000_usize).prop_map(|waiter| Step::Leave { waiter }),
        2 => (0..1_000_usize).prop_map(|waiter| Step::PassOver { waiter }),
        1 => Just(Step::PutBack),
        1 => (0..2, 0..3_usize).prop_map(|(database, key)| Step::PutFirstBack { database, key }),
    ]
}

struct Known {
    database: i32,
    key: usize,
    id: u64,
    ticket: Ticket,
}

impl Known {
    fn is_for(&self, database: i32, key: usize) -> bool {
        (self.database, self.key) == (database, key)
    }
}

/// A plain list of all waiters, in the order in which they came.
#[derive(Default)]
struct Reference {
    list: Vec<Known>,
    /// The waiters that are passed over, in the order in which they were passed over.
    passed_over: Vec<Ticket>,
    gone: Vec<Ticket>,
    served: Map<(i32, usize), u64>,
    /// The step that last changed the length of a queue.
    changed: Map<(i32, usize), u64>,
}

impl Reference {
    fn first(&self, database: i32, key: usize) -> Option<usize> {
        let is_first = |known: &Known| known.is_for(database, key) && !self.passed_over.contains(&known.ticket);
        self.list.iter().position(is_first)
    }

    fn remove(&mut self, position: usize, step: u64) -> Known {
        let known = self.list.remove(position);
        self.passed_over.retain(|ticket| *ticket != known.ticket);
        self.gone.push(known.ticket);
        self.changed.insert((known.database, known.key), step);
        known
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each step is a moment after the one before.
    #[test]
    fn queues_are_what_a_list_of_waiters_would_be(steps in prop::collection::vec(step(), 1..200)) {
        let mut queues = Queues::<u64, ()>::default();
        let (mut reference, mut group) = (Reference::default(), Group::new(7));
        for (id, step) in (0_u64..).zip(steps) {
            match step {
                Step::Join { database, key } => {
                    let (ticket, _) = queues.join(LockName { database, key: KEYS[key] }, id, came(id), Joins::Last).unwrap();
                    queues.enlist(ticket, &mut group);
                    reference.list.push(Known { database, key, id, ticket });
                    reference.changed.insert((database, key), id);
                }
                Step::ServeFirst { database, key } => {
                    let position = reference.first(database, key);
                    let lock = queues.find(LockName { database, key: KEYS[key] });
                    let first = lock.and_then(|lock| queues.first(lock));
                    prop_assert_eq!(first, position.map(|position| reference.list[position].ticket));
                    if let Some(position) = position {
                        let Known { id: waiter, ticket, .. } = reference.remove(position, id);
                        let served = queues.take(ticket, Some(&mut group), true, true);
                        prop_assert_eq!(served.map(|left| (left.waiter, left.was_first)), Some((waiter, true)));
                        *reference.served.entry((database, key)).or_default() += 1;
                    }
                }
                Step::Leave { waiter } if !reference.list.is_empty() => {
                    let position = waiter % reference.list.len();
                    let Known { database, key, .. } = reference.list[position];
                    let was_first = reference.first(database, key) == Some(position);
                    let known = reference.remove(position, id);
                    let left = queues.take(known.ticket, Some(&mut group), true, false).unwrap();
                    prop_assert_eq!((left.waiter, left.was_first), (known.id, was_first));
                    let is_there = queues.find(LockName { database: left.database, key: &left.key });
                    prop_assert_eq!(queues.name(left.lock).map(|_| left.lock), is_there);
                }
                Step::PassOver { waiter } if !reference.list.is_empty() => {
                    let ticket = reference.list[waiter % reference.list.len()].ticket;
                    queues.pass_over(ticket, &mut group);
                    if !reference.passed_over.contains(&ticket) {
                        reference.passed_over.push(ticket);
                    }
                }
                Step::Leave { .. } | Step::PassOver { .. } | Step::PutFirstBack { .. } => {}
                Step::PutBack => {
                    let lock = queues.put_back(&mut group);
                    prop_assert_eq!(lock.is_some(), !reference.passed_over.is_empty());
                    if let Some(lock) = lock {
                        let ticket = reference.passed_over.remove(0);
                        prop_assert_eq!(queues.lock_of(ticket), Some(lock));
                    }
                }
            }
            if let Step::PutFirstBack { database, key } = step {
                if let Some(lock) = queues.find(LockName { database, key: KEYS[key] }) {
                    _ = queues.put_first_back(lock, &mut group);
                }
                let is_it = |known: &&Known| known.is_for(database, key) && reference.passed_over.contains(&known.ticket);
                if let Some(first) = reference.list.iter().find(is_it).map(|known| known.ticket) {
                    reference.passed_over.retain(|ticket| *ticket != first);
                }
            }
            for ticket in &reference.gone {
                prop_assert_eq!(queues.take(*ticket, None, true, false), None, "nobody leaves twice");
                prop_assert_eq!(queues.lock_of(*ticket), None);
            }
            let Reference { list, served, .. } = &mut reference;
            served.retain(|(database, key), _| list.iter().any(|known| known.is_for(*database, *key)));
            prop_assert_eq!((group.length(), group.has_passed_over()), (list.len(), !reference.passed_over.is_empty()));
            check(&mut queues, &reference)?;
        }
        for known in reference.list {
            queues.take(known.ticket, Some(&mut group), true, false);
        }
        prop_assert!(queues.is_empty() && queues.locks() == 0 && queues.length() == 0, "nothing is left over");
        prop_assert!(queues.by_name.is_empty() && queues.databases.is_empty());
        prop_assert!(queues.passed_over.is_empty() && queues.passed_over_by_group.is_empty() && queues.back.is_empty() && group.length() == 0);
        prop_assert_eq!(queues.take_turn(), None);
    }
}

#[test]
fn what_may_not_be_shown_is_asked_about_up_to_a_bound() {
    let mut queues = Queues::<(), ()>::default();
    let names: Vec<_> = (0..QUEUES_SKIPPED_MAX + 5).map(|number| number.to_string()).collect();
    for (name, now) in names.iter().zip(0..) {
        queues.join(LockName { database: 0, key: name.as_bytes() }, (), now, Joins::Last).unwrap();
    }
    let shown = |limit, may_be_shown: &dyn Fn(&[u8]) -> bool| {
        let shown = queues.to_be_shown(0, limit, may_be_shown).map(|queue| queue.key.to_vec());
        shown.collect::<Vec<_>>()
    };
    assert_eq!(shown(2, &|key| key.ends_with(b"7")), [b"7".to_vec(), b"17".to_vec()]);
    assert_eq!(shown(usize::MAX, &|_| true).len(), names.len(), "what is shown is not bounded by that");
    let asked = std::cell::Cell::new(0);
    let nothing = |_: &[u8]| {
        asked.set(asked.get() + 1);
        false
    };
    assert!(shown(1, &nothing).is_empty());
    assert_eq!(asked.get(), QUEUES_SKIPPED_MAX);
    asked.set(0);
    assert!(queues.to_be_shown(1, 1, nothing).next().is_none(), "another database has none");
    assert_eq!(asked.get(), 0);
}

#[test]
fn each_lock_has_its_turn_once_in_a_round() {
    let mut queues = Queues::<(), ()>::default();
    let names: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    let locks: Vec<_> = names
        .iter()
        .map(|name| queues.join(LockName { database: 0, key: name.as_bytes() }, (), 0, Joins::Last).unwrap().1)
        .collect();
    for _ in 0..3 {
        let round: Vec<_> = (0..10).map(|_| queues.take_turn().unwrap()).collect();
        assert_eq!(round, locks);
    }
}

fn came(id: u64) -> UnixMs {
    i64::try_from(id).unwrap() * 10
}

fn check(queues: &mut Queues<u64, ()>, reference: &Reference) -> Result<(), TestCaseError> {
    let Reference { list, served, changed, .. } = reference;
    let mut lengths = Vec::new();
    for database in 0..2 {
        let mut by_length = Vec::new();
        for (key, name) in KEYS.into_iter().enumerate() {
            let lock = LockName { database, key: name };
            let expected: Vec<_> =
                list.iter().filter(|known| known.is_for(database, key)).map(|known| known.id).collect();
            let waiting: Vec<_> = queues.waiters(lock).map(|(_, id)| *id).collect();
            prop_assert_eq!(&waiting, &expected);
            prop_assert!(list.iter().all(|known| queues.waiter(known.ticket) == Some(&known.id)));
            prop_assert_eq!(queues.find(lock).is_some(), !expected.is_empty());
            prop_assert_eq!(queues.length_of(lock), expected.len());
            let in_line =
                |known: &&Known| known.is_for(database, key) && !reference.passed_over.contains(&known.ticket);
            let line: Vec<_> = list.iter().filter(in_line).map(|known| known.ticket).collect();
            let behind = |ticket: &Ticket| queues.next(queues.lock_of(*ticket)?, Some(*ticket));
            let first = queues.find(lock).and_then(|lock| queues.first(lock));
            prop_assert_eq!(std::iter::successors(first, behind).collect::<Vec<_>>(), line);
            lengths.push(expected.len());
            let changed = changed.get(&(database, key)).copied().unwrap_or(0);
            by_length.extend(expected.first().map(|first| {
                let served = served.get(&(database, key)).copied().unwrap_or(0);
                let summary = QueueSummary { key: name.into(), waiters: expected.len(), since: came(*first), served };
                (changed, summary)
            }));
        }
        by_length.sort_by_key(|(changed, queue)| (Reverse(queue.waiters), *changed));
        let by_length: Vec<_> = by_length.into_iter().map(|(_, queue)| queue).collect();
        prop_assert_eq!(queues.longest_first(database).collect::<Vec<_>>(), by_length);
    }
    prop_assert_eq!(queues.length(), list.len());
    prop_assert_eq!(queues.locks(), lengths.iter().filter(|length| **length > 0).count());
    prop_assert_eq!(queues.longest(), lengths.iter().copied().max().unwrap_or(0));
    prop_assert_eq!(queues.oldest(), list.first().map(|first| first.ticket));
    for Known { database, key, id, ticket } in list {
        prop_assert_eq!(queues.since(*ticket), Some(came(*id)));
        let name = queues.lock_of(*ticket).and_then(|lock| queues.name(lock));
        prop_assert_eq!(name, Some((*database, Rc::from(KEYS[*key]))));
    }
    let turns: std::collections::HashSet<_> = (0..queues.locks()).filter_map(|_| queues.take_turn()).collect();
    prop_assert_eq!(turns.len(), queues.locks(), "each lock has its turn");
    Ok(())
}
