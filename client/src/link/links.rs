//! One request to whichever server its key is on by then.

use super::connection::Connection;
use super::doubt::Doubt;
use super::fault::Fault;
use super::manner::Limits;
use super::node::Node;
use super::route::Route;
use super::session::Session;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often one request is sent elsewhere before it is a fault. Slots move one node on at a time.
const REDIRECTS_MAX: usize = 5;

/// As good as no limit: whoever waits for a late answer has one of its own.
const LATE: Duration = Duration::from_secs(24 * 3_600);

pub(crate) struct Links {
    pub route: Route,
    pub limits: Limits,
}

pub(crate) struct Answer {
    pub value: Value,
    /// Read before the request was sent: whatever the server has done, it did later.
    pub sent_at: Instant,
    pub node: Arc<Node>,
}

impl Links {
    /// Sends a request to the server that has the key, wherever that is by then.
    pub(crate) async fn ask(&self, key: &[u8], doubt: &Doubt, command: &Cmd) -> Result<Answer, Fault> {
        self.ask_each(key, doubt, false, |_| command.clone()).await
    }

    /// The same, of a request that waits by the session with that server. It is made anew each time it is sent.
    pub(crate) async fn ask_in_session(
        &self,
        key: &[u8],
        doubt: &Doubt,
        mut command: impl FnMut(&Arc<Session>) -> Cmd + Send,
    ) -> Result<Answer, Fault> {
        self.ask_each(key, doubt, true, |session| session.map_or_else(Cmd::new, &mut command)).await
    }

    async fn ask_each(
        &self,
        key: &[u8],
        doubt: &Doubt,
        in_session: bool,
        mut command: impl FnMut(Option<&Arc<Session>>) -> Cmd + Send,
    ) -> Result<Answer, Fault> {
        let mut redirect: Option<Arc<Node>> = None;
        let redirects_max = if self.route.is_cluster() { REDIRECTS_MAX } else { 0 };
        for hop in 1.. {
            let (node, asking) = match redirect.take() {
                Some(node) => (node, true),
                None => (self.route.node(key).await?, false),
            };
            let session = match in_session {
                true => node.session().await.map(Some),
                false => Ok(None),
            };
            let answer = match &session {
                Ok(session) => send(&node, asking, doubt, &command(session.as_ref())).await,
                Err(fault) => Err(fault.clone()),
            };
            let fault = match answer.map(|answer| (self.route.still_leads_to(&node), answer)) {
                Ok((Ok(()), answer)) => return Ok(answer),
                Ok((Err(fault), _)) => {
                    doubt.unanswered();
                    fault
                }
                Err(fault) => fault,
            };
            if let (Ok(Some(session)), true) = (&session, fault.is_no_session()) {
                session.ends(&fault);
            }
            self.heed(key, &node, &fault);
            match &fault {
                Fault::Moved(_) if hop <= redirects_max => {}
                Fault::Ask(address) if hop <= redirects_max => {
                    redirect = self.route.redirected(&node.full_address(address))
                }
                _ => return Err(fault),
            }
        }
        unreachable!("the last redirection is a fault")
    }

    /// What a fault says about where things are.
    pub(crate) fn heed(&self, key: &[u8], node: &Arc<Node>, fault: &Fault) {
        if fault.doubts_the_server() {
            self.route.mark_stale(node);
        }
        if let Fault::Moved(address) = fault {
            self.route.moved(key, &node.full_address(address));
        }
    }
}

async fn send(node: &Arc<Node>, asking: bool, doubt: &Doubt, command: &Cmd) -> Result<Answer, Fault> {
    if doubt.keeps_answers() {
        node.discard_if_broken();
    }
    let mut connection = node.connection().await?;
    let sent_at = Instant::now();
    doubt.begin();
    match answer(&mut connection, node.limits().answer, command, asking, doubt).await {
        Ok(value) => {
            doubt.answered();
            Ok(Answer { value, sent_at, node: node.clone() })
        }
        Err(fault @ Fault::Silent(_)) => {
            doubt.unanswered();
            node.discard(&connection);
            Err(fault)
        }
        Err(fault) => {
            doubt.answered();
            Err(fault)
        }
    }
}

/// The answer, which is kept where it is of use also when it comes too late.
async fn answer(
    connection: &mut Connection,
    limit: Duration,
    command: &Cmd,
    asking: bool,
    doubt: &Doubt,
) -> Result<Value, Fault> {
    if !doubt.keeps_answers() {
        return connection.send(command, asking, limit).await;
    }
    let (mut connection, command) = (connection.clone(), command.clone());
    doubt.keep(Box::pin(async move { connection.send(&command, asking, LATE).await }), limit).await
}
