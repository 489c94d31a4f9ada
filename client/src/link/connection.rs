//! One connection to a server, and requests on it with a time limit.

use super::fault::Fault;
use super::opening::Opened;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, Value};
use std::time::Duration;
use tokio::time::timeout;

pub(crate) enum Connection {
    /// By this client. Its node knows by the number which one it is.
    Opened(Opened, u64),
    /// The caller's own.
    Given(GivenConnection),
}

pub(crate) type GivenConnection = Box<dyn ConnectionLike + Send + Sync>;

impl Connection {
    /// The same connection once more, if it can be had.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Opened(opened, number) => Some(Self::Opened(opened.clone(), *number)),
            Self::Given(_) => None,
        }
    }

    /// Sends a request and waits for its answer, no longer than the limit. `asking`: to a node that has the key but not
    /// yet its slot.
    pub(crate) async fn send(&mut self, request: &Cmd, asking: bool, limit: Duration) -> Result<Value, Fault> {
        match self {
            Self::Opened(opened, _) if asking => {
                let mut pipeline = redis::pipe();
                pipeline.cmd("ASKING").ignore().add_command(request.clone());
                let mut answers = send_all(opened, &mut pipeline, limit).await?;
                answers.pop().unwrap_or(Ok(Value::Nil)).map_err(Fault::of_request)
            }
            Self::Opened(opened, _) => send(&mut opened.connection, request, limit).await,
            Self::Given(connection) => send(&mut **connection, request, limit).await,
        }
    }
}

pub(super) async fn send(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    request: &Cmd,
    limit: Duration,
) -> Result<Value, Fault> {
    let answer = within(limit, connection.req_packed_command(request)).await;
    answer.and_then(Value::extract_error).map_err(Fault::of_request)
}

/// Sends several requests in one piece; each has an answer of its own.
pub(crate) async fn send_all(
    opened: &mut Opened,
    requests: &mut Pipeline,
    limit: Duration,
) -> Result<Vec<RedisResult<Value>>, Fault> {
    within(limit, requests.ignore_errors().query_async(&mut opened.connection)).await.map_err(Fault::of_request)
}

async fn within<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(Fault::timed_out()))
}
