//! One connection to a server, and requests on it with a time limit.

use super::fault::Fault;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisResult, Value};
use std::time::Duration;
use tokio::time::timeout;

pub(crate) enum Connection {
    /// Shared by all requests that cannot block. Its node knows it by the number.
    Shared(MultiplexedConnection, u64),
    /// For one request that may block, or for what must come after it on the same connection.
    Dedicated(MultiplexedConnection),
    /// The caller's own.
    Given(GivenConnection),
}

pub(crate) type GivenConnection = Box<dyn ConnectionLike + Send + Sync>;

/// What a request uses a connection as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Shared,
    Dedicated,
}

impl Connection {
    /// The same connection once more, if it can be had.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Shared(connection, number) => Some(Self::Shared(connection.clone(), *number)),
            Self::Dedicated(connection) => Some(Self::Dedicated(connection.clone())),
            Self::Given(_) => None,
        }
    }

    /// Sends a request and waits for its answer, no longer than the limit.
    pub(crate) async fn send(&mut self, request: &Cmd, limit: Option<Duration>) -> Result<Value, Fault> {
        let answer = match self {
            Self::Shared(connection, _) | Self::Dedicated(connection) => connection.req_packed_command(request),
            Self::Given(connection) => connection.req_packed_command(request),
        };
        within(limit, answer).await.and_then(Value::extract_error).map_err(Fault::of_request)
    }

    /// The same, to a node that has the key but not yet its slot.
    pub(super) async fn send_asking(&mut self, request: &Cmd, limit: Option<Duration>) -> Result<Value, Fault> {
        let (Self::Shared(connection, _) | Self::Dedicated(connection)) = self else {
            return self.send(request, limit).await;
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore().add_command(request.clone());
        let mut answers = send_all(connection, &mut pipeline, limit).await?;
        answers.pop().unwrap_or(Ok(Value::Nil)).map_err(Fault::of_request)
    }
}

/// Sends several requests in one piece; each has an answer of its own.
pub(crate) async fn send_all(
    connection: &mut MultiplexedConnection,
    requests: &mut Pipeline,
    limit: Option<Duration>,
) -> Result<Vec<RedisResult<Value>>, Fault> {
    within(limit, requests.ignore_errors().query_async(connection)).await.map_err(Fault::of_request)
}

async fn within<T>(limit: Option<Duration>, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match limit {
        Some(limit) => timeout(limit, work).await.unwrap_or_else(|_| Err(Fault::timed_out())),
        None => work.await,
    }
}
