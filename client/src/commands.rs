//! Any command to a server that has locks. The command line `rlock` is built on this. The client's thread sends it
//! once, whichever thread the caller runs in.

use crate::locks::Locks;
use crate::shell::Shared;
use rlock_client_core::Error;
use rlock_client_core::{NodeId, Reply, resp};
use std::fmt;
use std::sync::Arc;

/// A server with locks: see [`Locks::masters`].
#[derive(Clone)]
pub struct Master {
    shared: Arc<Shared>,
    node: NodeId,
    address: String,
}

/// With the feature `commands`.
impl Locks {
    /// Sends a command (its name and arguments) to the server that has the lock of this name. It is sent once, except
    /// for redirections in a cluster: after [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) it may have been
    /// executed or not.
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
    /// If dropped, the command may have been executed or not.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server replies, and the server's error replies.
    pub async fn command<A: AsRef<[u8]>>(&self, name: impl AsRef<[u8]>, command: &[A]) -> Result<Reply, Error> {
        self.shared.ask(name.as_ref(), name.as_ref(), None, written(command)).await
    }

    /// The servers that have locks: in a cluster each master with slots, otherwise one.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no server says where the locks are.
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

    /// Like [`Locks::command`], to this server.
    ///
    /// # Cancel safety
    /// Like [`Locks::command`].
    ///
    /// # Errors
    /// Like [`Locks::command`].
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
