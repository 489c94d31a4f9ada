//! The ways in which a process gets its locks.

use super::Failure;
use super::set::Set;
use crate::servers::Module;
use crate::session;
use rlock_client::Locks;
use rslock::LockManager;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The client of this project.
    Rlock,
    /// `SET NX PX`, tried again after a message about a release.
    PubSub,
    /// The crate of that name, which polls.
    Rslock,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rlock => "rlock-client",
            Self::PubSub => "pub/sub",
            Self::Rslock => "rslock",
        }
    }

    pub fn module(self) -> Module {
        if self == Self::Rlock { Module::Rlock } else { Module::None }
    }
}

/// What all tasks of a process share.
#[derive(Clone)]
pub enum Process {
    Rlock(Locks),
    PubSub(Arc<Set>),
    Rslock(LockManager),
}

const TTL: Duration = Duration::from_secs(30);

impl Process {
    pub async fn open(way: Way, address: &str, locks: impl Iterator<Item = String>) -> Result<Self, Failure> {
        Ok(match way {
            Way::Rlock => Self::Rlock(Locks::connect(address).await?),
            Way::PubSub => Self::PubSub(Arc::new(Set::connect(address, locks).await?)),
            Way::Rslock => Self::Rslock(LockManager::new(vec![address])),
        })
    }

    /// The task waits for the lock, does the work, and releases the lock.
    pub async fn cycle<W: Future>(&self, lock: &str, task: usize, work: impl FnOnce() -> W) -> Result<(), Failure> {
        match self {
            Self::Rlock(locks) => {
                let guard = locks.lock(lock).acquire().await?;
                work().await;
                guard.release().await?;
            }
            Self::PubSub(set) => set.cycle(lock, &session::holder(task), work).await?,
            Self::Rslock(manager) => {
                let lock = manager.acquire_no_guard(lock, TTL).await?;
                work().await;
                manager.unlock(&lock).await;
            }
        }
        Ok(())
    }
}
