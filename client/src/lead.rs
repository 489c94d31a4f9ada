//! Leading: work that runs under a lock, turn after turn, for as long as the program runs.

use crate::callbacks::{log, woken_safely};
use crate::guard::Guard;
use crate::lock::Lock;
use rlock_client_core::{Error, ErrorKind};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tracing::{Level, warn};

/// The shortest pause after a failed turn.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(3);

impl<F, K> Lock<F, K> {
    /// Leads: waits for the lock, however long that takes, does the work until it ends or the lock is lost, releases,
    /// and starts again at the end of the queue. It goes on until it is dropped or fails, so of many processes one
    /// works at a time.
    ///
    /// The work is created again for each turn. At a loss it is stopped as by [`Guard::run`]. A lost lock, or servers
    /// that do not reply, do not end it: the next turn begins after a pause, which grows to 3 s.
    ///
    /// ```no_run
    /// # async fn send_mails(_token: u64) -> Result<(), rlock_client::Error> { Ok(()) }
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// let lead = locks.lock("mails:lock").fenced();
    /// lead.lead(|guard| send_mails(guard.token())).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// If dropped, the work is dropped and the lock is released in the background, or the wait leaves the queue. This
    /// is the way to end it, for example with `select!`.
    ///
    /// # Errors
    /// It returns only with an error: the work's own, unchanged; or an error of the client that a later turn would have
    /// too, such as [`Configuration`](ErrorKind::Configuration), [`Refused`](ErrorKind::Refused) or
    /// [`ModuleMissing`](ErrorKind::ModuleMissing).
    pub async fn lead<E: From<Error>, W: Future<Output = Result<(), E>>>(
        &self,
        mut work: impl FnMut(&Guard<F>) -> W,
    ) -> Result<Infallible, E> {
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.turn(&mut work).await? {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    continue;
                }
                Err(error) if passes(&error) => error,
                Err(error) => return Err(error.into()),
            };
            log(Level::WARN, || move || warn!(%error, "a turn of a lead has failed"));
            woken_safely(self.shared().thread.alarms.at(Instant::now() + pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The work's error, or the result of the turn.
    async fn turn<E, W: Future<Output = Result<(), E>>>(
        &self,
        work: &mut impl FnMut(&Guard<F>) -> W,
    ) -> Result<Result<(), Error>, E> {
        let guard = match self.acquire().await {
            Ok(guard) => guard,
            Err(error) => return Ok(Err(error)),
        };
        let (work, mut failed) = (work(&guard), None);
        let ran = guard.run(async { failed = work.await.err() }).await;
        failed.map_or(Ok(ran), Err)
    }
}

/// Whether a later turn may succeed.
fn passes(error: &Error) -> bool {
    use ErrorKind::{Lost, QueueFull, Timeout, TooFewReplicas, Unavailable};
    matches!(error.kind(), Lost | QueueFull | Timeout | TooFewReplicas { .. } | Unavailable)
}
