//! Any command to a server that has locks, for programs that are about locks: the command line `rlock` is built on this. It
//! is sent once, in the client's thread, whoever asks.

use crate::locks::Locks;
use crate::shell::Shared;
use rlock_client_core::Error;
use rlock_client_core::{NodeId, Reply, resp};
use std::fmt;
use std::sync::Arc;

/// A server that locks are on, as [`Locks::masters`] tells it.
#[derive(Clone)]
pub struct Master {
    shared: Arc<Shared>,
    node: NodeId,
    address: String,
}

/// With the feature `commands`.
impl Locks {
    /// Sends a command, which is its name and its arguments, to the server that has the lock of this name. It is sent
    /// once, but for redirections in a cluster: after [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) it may
    /// have been done or not.
    ///
    /// ```no_run
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// use rlock_client::Reply;
    ///
    /// let broken = locks.command("orders:42", &["RLOCK.BREAK", "orders:42"]).await?;
    /// assert!(matches!(broken, Reply::Int(0 | 1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server answers, and what it answers if that is
    /// an error.
    pub async fn command<A: AsRef<[u8]>>(&self, name: impl AsRef<[u8]>, command: &[A]) -> Result<Reply, Error> {
        self.shared.ask(name.as_ref(), name.as_ref(), None, written(command)).await
    }

    /// The servers that locks are on: each master of a cluster that has slots; else it is one.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if nobody says where they are.
    pub async fn masters(&self) -> Result<Vec<Master>, Error> {
        self.shared.learn(b"").await?;
        let master = |(node, address): (NodeId, Arc<crate::Address>)| Master {
            shared: self.shared.clone(),
            node,
            address: address.place.to_string(),
        };
        Ok(self.shared.masters().into_iter().map(master).collect())
    }
}

impl Master {
    /// Its address: `host:port`, or a path.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// As [`Locks::command`], to this server, whatever it has.
    ///
    /// # Cancel safety
    /// As [`Locks::command`].
    ///
    /// # Errors
    /// As [`Locks::command`].
    pub async fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Reply, Error> {
        self.shared.ask(self.address.as_bytes(), b"", Some(self.node), written(command)).await
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Master").field(&self.address()).finish()
    }
}

fn written<A: AsRef<[u8]>>(command: &[A]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::write(&mut bytes, command);
    bytes
}
