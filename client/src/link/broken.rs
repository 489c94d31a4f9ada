//! Whether a shared connection has broken that nobody uses just now. Behind it the server may have forgotten all locks, and
//! nothing but a request would tell.
//!
//! The library tells of a break whoever sends something, and nobody else. So something is sent now and then and withdrawn at
//! once: what nobody waits for any more it does not pass on. So looking costs no network and no server anything.

use super::line::Line;
use super::node::Node;
use futures_util::FutureExt;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use std::sync::atomic::Ordering::Relaxed;

impl Node {
    /// Whether the shared connection was taken out of use since this was asked the last time.
    pub(crate) fn has_broken(&self) -> bool {
        self.let_go_if_broken();
        self.broken.swap(false, Relaxed)
    }

    /// Takes the shared connection out of use if it has broken, as far as that is known: the next request is then not sent
    /// into nowhere.
    pub(super) fn let_go_if_broken(&self) {
        if let Some((mut connection, number)) = self.present() {
            if is_closed(&mut connection) {
                self.discard(&Line::Shared(connection, number));
            }
        }
    }
}

fn is_closed(connection: &mut MultiplexedConnection) -> bool {
    connection.req_packed_command(&redis::cmd("PING")).now_or_never().is_some_and(|answer| answer.is_err())
}
