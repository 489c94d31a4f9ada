//! One connection to a server, and requests on it with a time limit.

use super::fault::Fault;
use super::opening::Opened;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, Value};
use std::time::Duration;
use tokio::time::timeout;

/// One of this client's. Its node knows by the number which one it is.
#[derive(Clone)]
pub(crate) struct Connection {
    pub opened: Opened,
    pub number: u64,
}

impl Connection {
    /// Sends a request and waits for its answer, no longer than the limit. `asking`: to a node that has the key but not
    /// yet its slot.
    pub(crate) async fn send(&mut self, request: &Cmd, asking: bool, limit: Duration) -> Result<Value, Fault> {
        if !asking {
            return send(&mut self.opened, request, limit).await;
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore().add_command(request.clone());
        let mut answers = send_all(&mut self.opened, &mut pipeline, limit).await?;
        answers.pop().unwrap_or(Ok(Value::Nil)).map_err(Fault::of_request)
    }
}

pub(super) async fn send(opened: &mut Opened, request: &Cmd, limit: Duration) -> Result<Value, Fault> {
    let answer = within(limit, opened.connection.req_packed_command(request)).await;
    match answer {
        Ok(Value::ServerError(error)) => Err(Fault::of_request(error.into())),
        answer => answer.map_err(Fault::of_request),
    }
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
