//! What a process has its locks by.

use super::key;
use super::set::Set;
use crate::contenders::Module;
use crate::crates::{Crate, Failure};
use crate::session;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The crate of this project.
    Rlock,
    /// `SET NX PX`, tried again when a message tells of a release.
    PubSub,
    /// `SET NX PX`, tried again after a random time.
    Polling,
    /// The crate of that name.
    Rslock,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Rlock, Self::PubSub, Self::Polling, Self::Rslock];

    pub fn id(self) -> &'static str {
        match self {
            Self::Rlock => "rlock_client",
            Self::PubSub => "pubsub",
            Self::Polling => "polling",
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
    Crate(Crate),
    Set(Arc<Set>),
}

impl Process {
    pub async fn open(way: Way, address: &str, locks: usize) -> Result<Self, Failure> {
        Ok(match way {
            Way::Rlock => Self::Crate(Crate::rlock(address).await?),
            Way::PubSub => Self::Set(Arc::new(Set::with_messages(address, (0..locks).map(key)).await?)),
            Way::Polling => Self::Set(Arc::new(Set::with_pauses(address).await?)),
            Way::Rslock => Self::Crate(Crate::rslock(address)),
        })
    }

    /// The task waits for the lock, does the work, and gives the lock back.
    pub async fn cycle<W: Future>(&self, lock: &str, task: usize, work: impl FnOnce() -> W) -> Result<(), Failure> {
        match self {
            Self::Crate(it) => it.cycle(lock, work).await,
            Self::Set(it) => it.cycle(lock, &session::holder(task), work).await,
        }
    }
}
