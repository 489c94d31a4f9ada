//! Work that many callers want at the same time, and that one of them does for all: connecting, asking where things
//! are. Without it, a thousand requests to a dead server would wait for a thousand attempts, one after the other.

use super::fault::Fault;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::Mutex;

#[derive(Default)]
pub(crate) struct SingleFlight {
    /// Why it failed the last time, if it did. Locked while it is being done.
    failure: Mutex<Option<Fault>>,
    rounds: AtomicU64,
}

impl SingleFlight {
    /// Does the work, or waits for the caller that does it and shares what comes of it.
    pub(crate) async fn run(&self, work: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        let round = self.rounds.load(Relaxed);
        let mut failure = self.failure.lock().await;
        if self.rounds.load(Relaxed) == round {
            *failure = work.await.err();
            self.rounds.fetch_add(1, Relaxed);
        }
        failure.clone().map_or(Ok(()), Err)
    }

    /// Does the work anew, for what has come about since another caller began it.
    pub(crate) async fn run_anew(&self, work: impl Future<Output = Result<(), Fault>>) {
        let mut failure = self.failure.lock().await;
        *failure = work.await.err();
        self.rounds.fetch_add(1, Relaxed);
    }
}
