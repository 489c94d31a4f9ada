//! The connection to a server that all requests share, and whether it has broken.
//!
//! A break has to be noticed though nobody uses the connection just now: behind it the server may have forgotten all
//! locks. The library tells of a break only in answer to a request. So a request is made now and then and withdrawn at
//! once; the library does not send a request that no caller waits for, so looking costs neither network nor server
//! anything.

use super::fault::Fault;
use super::opening::Opened;
use super::single_flight::SingleFlight;
use crate::runtime::Thread;
use futures_util::FutureExt;
use redis::aio::ConnectionLike;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct SharedConnection {
    present: Mutex<Present>,
    connecting: SingleFlight,
    /// It was taken out of use, and `has_broken` was not asked since.
    has_broken: AtomicBool,
}

#[derive(Default)]
struct Present {
    connection: Option<Opened>,
    /// Grows with each connection, so that an old one's failure does not throw away its successor.
    number: u64,
}

impl SharedConnection {
    /// The connection and its number. If there is none, it is opened, once for all those that want it; and also if those
    /// do not wait for it any more, so that it is there for the next one.
    pub(super) async fn get<O: Future<Output = Result<Opened, Fault>> + Send + 'static>(
        self: &Arc<Self>,
        thread: &Thread,
        open: impl FnOnce() -> O,
    ) -> Result<(Opened, u64), Fault> {
        if let Some(present) = self.get_present() {
            return Ok(present);
        }
        let (shared, open) = (self.clone(), open());
        let (tell, opened) = oneshot::channel();
        thread.detach(async move { _ = tell.send(shared.connecting.run(shared.share(open)).await) });
        opened.await.unwrap_or_else(|_| Err(broken()))?;
        self.get_present().ok_or_else(broken)
    }

    async fn share(&self, open: impl Future<Output = Result<Opened, Fault>>) -> Result<(), Fault> {
        // Somebody else may have opened one since it was looked for.
        if self.get_present().is_some() {
            return Ok(());
        }
        let connection = open.await?;
        let mut present = self.present();
        present.number += 1;
        present.connection = Some(connection);
        Ok(())
    }

    /// Takes this one out of use, unless that was done before.
    pub(super) fn discard(&self, number: u64) {
        let mut present = self.present();
        if present.number == number && present.connection.take().is_some() {
            self.has_broken.store(true, Relaxed);
        }
    }

    /// Takes it out of use if it has broken, as far as that is known.
    pub(super) fn discard_if_broken(&self) {
        if let Some((mut connection, number)) = self.get_present() {
            if is_closed(&mut connection) {
                self.discard(number);
            }
        }
    }

    /// Whether it was taken out of use since this was asked the last time.
    pub(super) fn has_broken(&self) -> bool {
        self.discard_if_broken();
        self.has_broken.swap(false, Relaxed)
    }

    fn get_present(&self) -> Option<(Opened, u64)> {
        let present = self.present();
        present.connection.clone().map(|connection| (connection, present.number))
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken() -> Fault {
    Fault::Unreachable(Fault::broken_at_once())
}

fn is_closed(opened: &mut Opened) -> bool {
    opened.connection.req_packed_command(&redis::cmd("PING")).now_or_never().is_some_and(|answer| answer.is_err())
}
