//! Held locks without waiters. The server has no list of them, so they are found step by step: each look continues the
//! last one, and costs the server as much with ten million keys as with ten thousand.

use crate::operators::{Inspection, Search, Unanswered};
use rlock_client::{Locks, Master};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum of steps in one look. A step is some thousand keys, for which a server needs half a millisecond.
const STEPS_MAX: u128 = 10;

/// At a shorter interval, each look takes fewer steps.
const STEP_EACH_MS: u128 = 100;

/// A look ends after so many hashes: they cost more than other keys.
const LOOKED_AT: usize = 2_000;

/// No step is begun later than this.
const TIME: Duration = Duration::from_millis(50);

/// The maximum number of locks that are kept.
const FOUND_MAX: usize = 1_000;

/// What is known of the held locks.
#[derive(Clone, Debug, Default)]
pub struct Held {
    pub locks: HashMap<Vec<u8>, Inspection>,
    /// How often all keys were looked through.
    pub rounds: u32,
    /// There are more.
    pub limited: bool,
    /// There are hashes that this user may not look at.
    pub hidden: bool,
    /// Why the keys cannot be looked through.
    pub refused: Option<String>,
}

pub struct Finding {
    /// How many steps each look takes.
    steps: u128,
    held: Held,
    search: Option<Search>,
    /// The locks of the current round. Locks that are missing at its end are gone.
    round: HashSet<Vec<u8>>,
    hidden: bool,
}

impl Finding {
    /// For a look at each interval.
    pub fn new(interval: Duration) -> Self {
        let steps = (interval.as_millis() / STEP_EACH_MS).clamp(1, STEPS_MAX);
        Self { steps, held: Held::default(), search: None, round: HashSet::new(), hidden: false }
    }

    /// Scans a bit further, and returns everything that is known.
    pub async fn go_on(&mut self, locks: &Locks, masters: &[Master]) -> Result<Held, Unanswered> {
        match self.look(locks, masters).await {
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => self.held.refused = Some(error.reason()),
            Ok(()) => self.held.refused = None,
        }
        Ok(self.held.clone())
    }

    /// Updates the known locks with those that were just looked at separately.
    pub fn learn(&mut self, seen: &HashMap<Vec<u8>, Inspection>) {
        self.held.locks.retain(|key, lock| match seen.get(key) {
            Some(now) => {
                lock.clone_from(now);
                now.kind.is_some()
            }
            None => true,
        });
    }

    async fn look(&mut self, locks: &Locks, masters: &[Master]) -> Result<(), Unanswered> {
        let (began, mut looked_at) = (Instant::now(), 0);
        for _ in 0..self.steps {
            let search = self.search.get_or_insert_with(|| Search::on(locks, masters, b"*"));
            let step = search.step().await?.unwrap_or_default();
            let is_over = search.is_over();
            looked_at += step.looked_at;
            self.hidden |= step.hidden > 0;
            self.keep(step.locks);
            if is_over {
                self.end_round();
                break;
            }
            if looked_at > LOOKED_AT || began.elapsed() > TIME {
                break;
            }
        }
        Ok(())
    }

    fn keep(&mut self, found: Vec<(Vec<u8>, Inspection)>) {
        for (key, lock) in found {
            if self.held.locks.len() < FOUND_MAX || self.held.locks.contains_key(&key) {
                self.round.insert(key.clone());
                self.held.locks.insert(key, lock);
            } else {
                self.held.limited = true;
            }
        }
    }

    fn end_round(&mut self) {
        let round = std::mem::take(&mut self.round);
        self.held.locks.retain(|key, _| round.contains(key));
        self.held.limited &= self.held.locks.len() == FOUND_MAX;
        self.held.hidden = std::mem::take(&mut self.hidden);
        self.held.rounds = self.held.rounds.saturating_add(1);
        self.search = None;
    }
}
