//! Visits every state that the protocol can come to, the nearest first, so that the first one in which a promise is broken
//! is told with a shortest history.
//!
//! It is written by hand, as it is a page: states are values, and one that was seen is known by its hash. A checker from
//! elsewhere would bring some forty crates, and the protocol would be no shorter.

use super::promises::Promise;
use super::protocol::{Action, Rules, State, actions};
use std::collections::HashSet;
use std::hash::BuildHasher;

pub struct Broken {
    pub promise: Promise,
    pub history: Vec<Action>,
}

/// All states, and how many steps lead to the last of them; or the first one in which a promise is broken.
pub fn explore(rules: &Rules) -> Result<(usize, usize), Broken> {
    let actions = actions();
    let hasher = foldhash::fast::FixedState::default();
    let mut seen = HashSet::with_hasher(hasher.clone());
    let mut found: Vec<(State, usize, Action)> = vec![(rules.first_state(), 0, Action::Tick)];
    let (mut place, mut depth, mut level_ends) = (0, 0, 1);
    while place < found.len() {
        if place == level_ends {
            (depth, level_ends) = (depth + 1, found.len());
        }
        let (state, ..) = found[place];
        if let Some(promise) = rules.broken_in(&state) {
            return Err(Broken { promise, history: history(&found, place) });
        }
        for action in &actions {
            let next = rules.after(state, *action);
            if let Some(next) = next.filter(|next| seen.insert(hasher.hash_one(next.canonical()))) {
                found.push((next, place, *action));
            }
        }
        place += 1;
    }
    Ok((found.len(), depth))
}

fn history(found: &[(State, usize, Action)], mut place: usize) -> Vec<Action> {
    let mut history = Vec::new();
    while place > 0 {
        history.push(found[place].2);
        place = found[place].1;
    }
    history.reverse();
    history
}
