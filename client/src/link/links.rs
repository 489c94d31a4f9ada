//! One request to whichever server its key is on by then.

use super::connection::{Connection, Use};
use super::doubt::Doubt;
use super::fault::Fault;
use super::node::{Limits, Node};
use super::request::Request;
use super::route::Route;
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

pub(crate) struct Answer {
    pub value: Value,
    /// Read before the request was sent: whatever the server has done, it did later.
    pub sent_at: Instant,
    pub node: Arc<Node>,
    /// Where the answer came from. Nothing else is left to be answered on a dedicated one.
    pub connection: Connection,
}

impl Links {
    /// Whether there can be connections for waits.
    pub(crate) fn can_wait(&self) -> bool {
        match &self.route {
            Route::Single(node) => node.can_dedicate(),
            Route::Sentinels(_) | Route::Cluster(_) => true,
        }
    }

    /// Sends a request to the server that has the key, wherever that is by then. It is made anew each time it is sent,
    /// as time has passed by then.
    pub(crate) async fn ask(
        &self,
        key: &[u8],
        wanted: Use,
        doubt: &Doubt,
        request: impl Fn() -> Request + Sync,
    ) -> Result<Answer, Fault> {
        let mut redirect: Option<Arc<Node>> = None;
        let redirects_max = if self.route.is_cluster() { REDIRECTS_MAX } else { 0 };
        for hop in 1.. {
            let (node, asking) = match redirect.take() {
                Some(node) => (node, true),
                None => (self.route.node(key).await?, false),
            };
            let fault = match send(&node, wanted, asking, doubt, &request).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if fault.doubts_the_server() {
                self.route.mark_stale(&node);
            }
            match &fault {
                Fault::Moved(address) if hop <= redirects_max => self.route.moved(key, &node.full_address(address)),
                Fault::Ask(address) if hop <= redirects_max => {
                    redirect = self.route.redirected(&node.full_address(address))
                }
                _ => return Err(fault),
            }
        }
        unreachable!("the last redirection is a fault")
    }
}

async fn send(
    node: &Arc<Node>,
    wanted: Use,
    asking: bool,
    doubt: &Doubt,
    request: &(impl Fn() -> Request + Sync),
) -> Result<Answer, Fault> {
    if doubt.keeps_answers() {
        node.discard_if_broken();
    }
    let mut connection = node.connection(wanted).await?;
    let request = request();
    let sent_at = Instant::now();
    doubt.begin();
    let answer = tokio::select! {
        biased;
        answer = answer(&mut connection, request, asking, doubt) => answer,
        () = node.stands_still(), if wanted == Use::Dedicated => Err(Fault::Silent(Fault::timed_out())),
    };
    match answer {
        Ok(value) => {
            doubt.answered();
            Ok(Answer { value, sent_at, node: node.clone(), connection })
        }
        Err(fault @ Fault::Silent(_)) => {
            doubt.unanswered();
            node.discard(&connection);
            Err(fault)
        }
        Err(fault) => {
            doubt.answered();
            node.keep(connection);
            Err(fault)
        }
    }
}

/// The answer, which is kept where it is of use also when it comes too late.
async fn answer(connection: &mut Connection, request: Request, asking: bool, doubt: &Doubt) -> Result<Value, Fault> {
    let Request { command, limit } = request;
    match connection.again().filter(|_| doubt.keeps_answers()) {
        Some(mut again) => {
            let answer = async move { send_on(&mut again, &command, asking, None).await };
            doubt.keep(Box::pin(answer), limit).await
        }
        None => send_on(connection, &command, asking, limit).await,
    }
}

async fn send_on(
    connection: &mut Connection,
    command: &Cmd,
    asking: bool,
    limit: Option<Duration>,
) -> Result<Value, Fault> {
    match asking {
        true => connection.send_asking(command, limit).await,
        false => connection.send(command, limit).await,
    }
}
