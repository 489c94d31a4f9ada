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
use std::collections::HashSet;
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
        let about = |fault: Fault| fault.into_error(b"held locks");
        let mut held = Held::default();
        let mut seen = HashSet::new();
        for node in self.shared.links.route.masters().await.map_err(about)? {
            let mut cursor = 0;
            loop {
                let (next, keys) = self.step(&node, cursor, pattern.as_ref()).await.map_err(about)?;
                // A key may be told more than once while the server's table grows.
                let fresh: Vec<_> = keys.into_iter().filter(|key| seen.insert(key.clone())).collect();
                self.look_at(fresh, limit, &mut held).await?;
                if held.limited {
                    return Ok(held);
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(held)
    }

    async fn step(&self, node: &Arc<Node>, cursor: u64, pattern: &[u8]) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let mut scan = Cmd::new();
        scan.arg("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP).arg("TYPE").arg("hash");
        read(ask::read_from(&self.shared.links, node, &scan).await?)
    }

    async fn look_at(&self, keys: Vec<Vec<u8>>, limit: usize, held: &mut Held) -> Result<(), Error> {
        let looks = join_all(keys.iter().map(|key| self.inspect(key.clone(), SHOWN))).await;
        for (key, look) in keys.into_iter().zip(looks) {
            match look {
                Ok(lock) if lock.kind.is_some() && held.locks.len() == limit => held.limited = true,
                Ok(lock) if lock.kind.is_some() => held.locks.push((key, lock)),
                // Free again by now.
                Ok(_) => {}
                Err(error) if is_no_lock(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A hash of somebody else's, or one that this user may not look at. A user who may look at none at all has to know.
fn is_no_lock(error: &Error) -> bool {
    match error.code() {
        Some("WRONGTYPE") => true,
        Some("NOPERM") => error.is_about_the_key(),
        _ => false,
    }
}
