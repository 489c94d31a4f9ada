//! Requests to whichever server a lock is on, over connections that are made when needed.

mod broken;
mod fault;
mod flight;
mod line;
mod node;
mod pulse;
mod route;
mod together;

pub(crate) use fault::Fault;
pub(crate) use flight::{Flight, Late};
pub(crate) use line::{Line, send_together};
pub(crate) use node::{Lane, Limits, Node};
pub(crate) use route::{Cluster, Route, Sentinels};

use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often one request is sent elsewhere before it is a fault. Slots move one node on at a time.
const REDIRECTS_MAX: usize = 5;

pub(crate) struct Links {
    pub route: Route,
    pub limits: Limits,
}

pub(crate) struct Request {
    pub command: Cmd,
    /// How long the answer may take; without one, as long as it takes.
    pub limit: Option<Duration>,
}

pub(crate) struct Answer {
    pub value: Value,
    /// Read before the request was sent: whatever the server has done, it did later.
    pub sent_at: Instant,
    pub node: Arc<Node>,
    /// Where the answer came from, with nothing else left to be answered if it is a line aside.
    pub line: Line,
}

impl Links {
    /// Whether there can be connections for waits.
    pub(crate) fn can_wait(&self) -> bool {
        match &self.route {
            Route::Single(node) => node.has_asides(),
            Route::Sentinels(_) | Route::Cluster(_) => true,
        }
    }

    /// Sends a request to the server that has the key, wherever that is by then. It is made anew each time it is sent, as
    /// time has passed by then.
    pub(crate) async fn ask(
        &self,
        key: &[u8],
        lane: Lane,
        flight: &Flight,
        request: impl Fn() -> Request + Sync,
    ) -> Result<Answer, Fault> {
        let mut redirect: Option<Arc<Node>> = None;
        let redirects_max = if self.route.is_cluster() { REDIRECTS_MAX } else { 0 };
        for hop in 1.. {
            let (node, asking) = match redirect.take() {
                Some(node) => (node, true),
                None => (self.route.node(key).await?, false),
            };
            let fault = match send(&node, lane, asking, flight, &request).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if fault.doubts_the_server() {
                self.route.doubt(&node);
            }
            match &fault {
                Fault::Moved(address) if hop <= redirects_max => self.route.moved(key, &node.seen(address)),
                Fault::Ask(address) if hop <= redirects_max => redirect = self.route.redirected(&node.seen(address)),
                _ => return Err(fault),
            }
        }
        unreachable!("the last redirection is a fault")
    }
}

async fn send(
    node: &Arc<Node>,
    lane: Lane,
    asking: bool,
    flight: &Flight,
    request: &(impl Fn() -> Request + Sync),
) -> Result<Answer, Fault> {
    if flight.is_keeping() {
        node.let_go_if_broken();
    }
    let mut line = node.line(lane).await?;
    let Request { command, limit } = request();
    let sent_at = Instant::now();
    flight.begin();
    let again = if flight.is_keeping() { line.again() } else { None };
    let answering = async {
        match again {
            Some(mut line) => {
                let answer = async move { send_on(&mut line, &command, asking, None).await };
                flight.keep(Box::pin(answer), limit).await
            }
            None => send_on(&mut line, &command, asking, limit).await,
        }
    };
    let answer = tokio::select! {
        biased;
        answer = answering => answer,
        () = node.stands_still(), if lane == Lane::Aside => Err(Fault::Silent(Fault::timed_out())),
    };
    match answer {
        Ok(value) => {
            flight.landed();
            Ok(Answer { value, sent_at, node: node.clone(), line })
        }
        Err(fault) => {
            match &fault {
                Fault::Silent(_) => flight.vanished(),
                _ => flight.landed(),
            }
            match fault {
                Fault::Silent(_) => node.discard(&line),
                _ => node.keep(line),
            }
            Err(fault)
        }
    }
}

async fn send_on(line: &mut Line, command: &Cmd, asking: bool, limit: Option<Duration>) -> Result<Value, Fault> {
    match asking {
        true => line.send_asking(command, limit).await,
        false => line.send(command, limit).await,
    }
}
