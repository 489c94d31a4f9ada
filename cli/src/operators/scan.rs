//! Held locks, with or without waiters. The server has no list of them, so all keys are scanned, in steps that block no
//! other client: once for locks, and once for permits, which have another type.

use super::ask;
use super::fields::bytes;
use super::inspection::{Inspection, inspect_each};
use super::unanswered::Unanswered;
use rlock_client::{Locks, Master, Reply};
use std::collections::{HashMap, VecDeque};

/// How many keys the server looks at in one step.
const STEP: &[u8] = b"1000";

/// How many holders and waiters of each lock are asked for.
const SHOWN: usize = 1;

/// The types of keys that may be locks.
const TYPES: [&[u8]; 2] = [b"hash", b"zset"];

/// The cursor at which a scan of all keys begins and ends.
const ENDS: &[u8] = b"0";

/// What was found.
#[derive(Debug, Default)]
pub struct Held {
    /// Each lock, with its first holder and its first waiter.
    pub locks: HashMap<Vec<u8>, Inspection>,
    /// Whether there may be more: it was stopped at the limit.
    pub limited: bool,
    /// How many keys this user may not look at. They may be locks.
    pub hidden: usize,
}

/// A scan of all keys, one step at a time.
pub struct Search {
    locks: Locks,
    pattern: Vec<u8>,
    /// The remaining scans, the current one first: server and type.
    left: VecDeque<(Master, &'static [u8])>,
    cursor: Vec<u8>,
}

/// What one step found.
#[derive(Debug, Default)]
pub struct Step {
    /// Each lock, with its first holder and its first waiter. One may be found more than once, while the server's table
    /// of keys grows.
    pub locks: Vec<(Vec<u8>, Inspection)>,
    /// How many keys were looked at, locks or not.
    pub looked_at: usize,
    /// How many of them this user may not look at. They may be locks.
    pub hidden: usize,
}

/// The held locks of these servers with names that match the pattern, in the syntax of `SCAN`; at most `limit`. Other
/// keys are skipped.
pub async fn held(locks: &Locks, masters: &[Master], pattern: &[u8], limit: usize) -> Result<Held, Unanswered> {
    let mut search = Search::on(locks, masters, pattern);
    let mut held = Held::default();
    while let Some(step) = search.step().await? {
        held.hidden += step.hidden;
        for (key, lock) in step.locks {
            if held.locks.len() == limit && !held.locks.contains_key(&key) {
                held.limited = true;
                return Ok(held);
            }
            held.locks.entry(key).or_insert(lock);
        }
    }
    Ok(held)
}

impl Search {
    /// On these servers. Nothing is asked before the first step.
    pub fn on(locks: &Locks, masters: &[Master], pattern: &[u8]) -> Self {
        let left = masters.iter().flat_map(|master| TYPES.map(|of| (master.clone(), of))).collect();
        Self { locks: locks.clone(), pattern: pattern.to_vec(), left, cursor: ENDS.to_vec() }
    }

    /// Whether all keys of all servers have been looked at.
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The locks among some thousand more keys; `None` when all keys are done. If a step failed or was dropped, it is
    /// repeated.
    pub async fn step(&mut self) -> Result<Option<Step>, Unanswered> {
        let Some((master, of)) = self.left.front() else { return Ok(None) };
        let scan = [b"SCAN", &self.cursor[..], b"MATCH", &self.pattern, b"COUNT", STEP, b"TYPE", of];
        let answer = ask::of_master(master, &scan).await?;
        let (next, keys) = next_and_keys(answer).ok_or(Unanswered::Nonsense)?;
        let step = look_at(&self.locks, keys).await?;
        self.cursor = next;
        if self.cursor == ENDS {
            self.left.pop_front();
        }
        Ok(Some(step))
    }
}

fn next_and_keys(answer: Reply) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Reply::List(parts) = answer else { return None };
    let Ok([next, Reply::List(keys)]) = <[Reply; 2]>::try_from(parts) else { return None };
    Some((bytes(next)?, keys.into_iter().map(bytes).collect::<Option<_>>()?))
}

async fn look_at(locks: &Locks, keys: Vec<Vec<u8>>) -> Result<Step, Unanswered> {
    let mut step = Step { looked_at: keys.len(), ..Step::default() };
    for (key, look) in inspect_each(locks, keys, SHOWN).await {
        match look {
            Ok(lock) if lock.kind.is_some() => step.locks.push((key, lock)),
            // Free again by now.
            Ok(_) => {}
            Err(Unanswered::Error(error)) => match error.code() {
                // Another program's data.
                Some("WRONGTYPE") => {}
                // This user may not read this key; but if it may not read any key, that is an error.
                Some("NOPERM") if error.text().is_some_and(|text| text.contains("key")) => step.hidden += 1,
                _ => return Err(error.into()),
            },
            Err(nonsense) => return Err(nonsense),
        }
    }
    Ok(step)
}
