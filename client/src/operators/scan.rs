//! Locks that are held, whether or not anybody waits for them. The server keeps no list of them, so the keys are looked
//! through, in steps that hold nobody up.

use super::ask;
use super::fields::read;
use super::inspection::Inspection;
use crate::error::Error;
use crate::link::{Fault, Node};
use crate::locks::Locks;
use futures_util::future::join_all;
use redis::Cmd;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// How many keys the server looks at in one step.
const STEP: usize = 1_000;

/// Of each lock only the first ones are asked for.
const SHOWN: usize = 1;

/// What was found, as [`Locks::held`] tells it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Held {
    /// Each lock's name, and what is known of it, with its first holder and its first waiter.
    pub locks: Vec<(Vec<u8>, Inspection)>,
    /// Whether there may be more: it was stopped at the limit.
    pub limited: bool,
    /// How many hashes this user may not look at. They may be locks.
    pub hidden: usize,
}

/// A look through all keys, as [`Locks::search`] begins it. It goes on only when it is asked to.
pub struct Search {
    locks: Locks,
    pattern: Vec<u8>,
    /// Those that are left, the present one first. `None`: nobody has been asked for them yet.
    masters: Option<VecDeque<Arc<Node>>>,
    cursor: u64,
}

/// What one step of a [`Search`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Step {
    /// Each lock's name, and what is known of it, with its first holder and its first waiter. A lock may be found more
    /// than once, while the server's table of keys grows.
    pub locks: Vec<(Vec<u8>, Inspection)>,
    /// How many hashes were looked at, locks or not.
    pub looked_at: usize,
    /// How many of them this user may not look at. They may be locks.
    pub hidden: usize,
}

impl Locks {
    /// The locks that are held and whose names match the pattern, as `SCAN` takes it; at most `limit` of them. It looks
    /// through **all keys** of each master, in steps: on a large server that takes its time, though nobody is held up.
    /// Hashes that are no locks are passed over.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if a master does not answer.
    pub async fn held(&self, pattern: impl AsRef<[u8]>, limit: usize) -> Result<Held, Error> {
        let mut search = self.search(pattern);
        let mut held = Held::default();
        let mut seen = HashSet::new();
        while let Some(step) = search.step().await? {
            held.hidden += step.hidden;
            for (key, lock) in step.locks {
                if !seen.insert(key.clone()) {
                    continue;
                }
                if held.locks.len() == limit {
                    held.limited = true;
                    return Ok(held);
                }
                held.locks.push((key, lock));
            }
        }
        Ok(held)
    }

    /// The same in steps that the caller asks for, so that a large server can be looked through slowly, or in part.
    /// Nothing is asked before the first step.
    pub fn search(&self, pattern: impl AsRef<[u8]>) -> Search {
        Search { locks: self.clone(), pattern: pattern.as_ref().to_vec(), masters: None, cursor: 0 }
    }
}

impl Search {
    /// Whether all keys of all masters have been looked at.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.masters.as_ref().is_some_and(VecDeque::is_empty)
    }

    /// The locks among some thousand keys more; `None` once all keys of all masters have been looked at.
    ///
    /// # Cancel safety
    /// Cancel safe: what was not told is looked at again.
    ///
    /// # Errors
    /// As [`Locks::held`]. The next call tries the same step again.
    pub async fn step(&mut self) -> Result<Option<Step>, Error> {
        let about = |fault: Fault| fault.into_error(b"held locks");
        let masters = match &mut self.masters {
            Some(masters) => masters,
            None => self.masters.insert(ask::masters(&self.locks.shared).await.map_err(about)?.into()),
        };
        let Some(node) = masters.front() else { return Ok(None) };
        let (next, keys) = self.locks.scan(node, self.cursor, &self.pattern).await.map_err(about)?;
        let step = self.locks.look_at(keys).await?;
        self.cursor = next;
        if next == 0 {
            masters.pop_front();
        }
        Ok(Some(step))
    }
}

impl Locks {
    async fn scan(&self, node: &Arc<Node>, cursor: u64, pattern: &[u8]) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let mut scan = Cmd::new();
        scan.arg("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP).arg("TYPE").arg("hash");
        read(ask::read_from(&self.shared, node, &scan).await?)
    }

    async fn look_at(&self, keys: Vec<Vec<u8>>) -> Result<Step, Error> {
        let mut step = Step { looked_at: keys.len(), ..Step::default() };
        let looks = join_all(keys.iter().map(|key| self.inspect(key, SHOWN))).await;
        for (key, look) in keys.into_iter().zip(looks) {
            match look {
                Ok(lock) if lock.kind.is_some() => step.locks.push((key, lock)),
                // Free again by now.
                Ok(_) => {}
                // Somebody else's data.
                Err(error) if error.code() == Some("WRONGTYPE") => {}
                // A user who may look at none at all has to know.
                Err(error) if error.code() == Some("NOPERM") && error.is_about_the_key() => step.hidden += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(step)
    }
}
