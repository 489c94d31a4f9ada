//! Any command to a server that has locks, for programs that are about locks: the command line `rlock` is built on this. It
//! is sent once, in the client's thread, whoever asks.

use crate::core::Shared;
use crate::error::Error;
use crate::link::{Doubt, Fault, Node};
use crate::locks::Locks;
use crate::reply::Reply;
use redis::{Cmd, Value};
use std::fmt;
use std::sync::Arc;

/// A server that locks are on, as [`Locks::masters`] tells it.
#[derive(Clone)]
pub struct Master {
    shared: Arc<Shared>,
    node: Arc<Node>,
}

const ABOUT: &[u8] = b"masters";

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
        let (name, links, command) = (name.as_ref().to_vec(), self.shared.links.clone(), packed(command));
        let about = name.clone();
        let asked = async move {
            let answer = links.ask(&name, &Doubt::default(), &command).await;
            answer.map(|answer| answer.value.into()).map_err(|fault| fault.into_error(&name))
        };
        self.shared.thread.ask(&about, asked).await
    }

    /// The servers that locks are on: each master of a cluster that has slots; else it is one.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if nobody says where they are.
    pub async fn masters(&self) -> Result<Vec<Master>, Error> {
        let links = self.shared.links.clone();
        let asked = async move { links.route.masters().await.map_err(|fault| fault.into_error(ABOUT)) };
        let nodes = self.shared.thread.ask(ABOUT, asked).await?;
        Ok(nodes.into_iter().map(|node| Master { shared: self.shared.clone(), node }).collect())
    }
}

impl Master {
    /// Its address: `host:port`, or a path.
    #[must_use]
    pub fn address(&self) -> &str {
        self.node.name()
    }

    /// As [`Locks::command`], to this server, whatever it has.
    ///
    /// # Cancel safety
    /// As [`Locks::command`].
    ///
    /// # Errors
    /// As [`Locks::command`].
    pub async fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Reply, Error> {
        let (links, node, command) = (self.shared.links.clone(), self.node.clone(), packed(command));
        let asked = async move {
            let answer = node.send(&command).await;
            if answer.as_ref().is_err_and(Fault::doubts_the_server) {
                links.route.mark_stale(&node);
            }
            answer.map(Reply::from).map_err(|fault| fault.into_error(node.name().as_bytes()))
        };
        self.shared.thread.ask(self.address().as_bytes(), asked).await
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Master").field(&self.address()).finish()
    }
}

fn packed<A: AsRef<[u8]>>(words: &[A]) -> Cmd {
    let mut command = Cmd::new();
    words.iter().for_each(|word| _ = command.arg(word.as_ref()));
    command
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::BulkString(bytes) => Self::Text(bytes),
            Value::SimpleString(text) => Self::Text(text.into_bytes()),
            Value::Okay => Self::Text(b"OK".to_vec()),
            Value::Array(list) => Self::List(list.into_iter().map(Self::from).collect()),
            Value::Map(pairs) => Self::List(pairs.into_iter().flat_map(<[Value; 2]>::from).map(Self::from).collect()),
            Value::ServerError(error) => {
                Self::Error(format!("{} {}", error.code(), error.details().unwrap_or_default()))
            }
            other => Self::Error(format!("ERR an answer that RESP2 has not: {other:?}")),
        }
    }
}
