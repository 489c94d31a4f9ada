//! How the watchdog's renewals reach the servers.

use super::watchdog::{Due, Renewed, Servers};
use crate::foreign::log;
use crate::link::request;
use crate::link::{Connection, Doubt, Fault, Links, Node, send_all};
use redis::{RedisResult, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Level, debug};

/// How soon a break is found of a connection on which nothing is sent.
const LOOK: Duration = Duration::from_millis(100);

impl Servers for Links {
    /// In a cluster the owner of the lock's slot; elsewhere all is at one place.
    type Place = Option<Arc<str>>;

    fn place(&self, key: &[u8]) -> Self::Place {
        self.route.place(key)
    }

    async fn broken_places(&self) -> Vec<Self::Place> {
        loop {
            tokio::select! {
                () = sleep(LOOK) => {}
                () = self.route.superseded() => return vec![None],
            }
            let broken = self.route.broken_places();
            if !broken.is_empty() {
                return broken;
            }
        }
    }

    async fn renew(
        &self,
        _: &Self::Place,
        leases: &[Due],
        limit: Duration,
        wanted: impl Fn(&Due) -> bool + Send + Sync,
    ) -> (Instant, Vec<Renewed>) {
        let limit = limit.min(self.limits.answer);
        let (node, connection) = match self.connection_to(leases, limit).await {
            Ok(connected) => connected,
            Err(fault) => return (Instant::now(), vec![Renewed::Failed(fault); leases.len()]),
        };
        let wanted: Vec<_> = leases.iter().map(wanted).collect();
        let sent_at = Instant::now();
        let sent = leases.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(due, _)| due);
        let answers = self.send(&node, connection, sent, limit).await;
        let answers = answers.and_then(|answers| self.route.still_leads_to(&node).map(|()| answers));
        let (mut answers, fault) = match answers {
            Ok(answers) => (answers.into_iter(), Fault::Silent(Fault::broken_at_once())),
            Err(fault) => {
                log(Level::DEBUG, || {
                    let (server, fault) = (node.clone(), fault.clone());
                    move || debug!(%server, ?fault, "leases were not renewed")
                });
                (Vec::new().into_iter(), fault)
            }
        };
        let mut renewed = Vec::with_capacity(leases.len());
        for (due, wanted) in leases.iter().zip(wanted) {
            renewed.push(match wanted.then(|| answers.next()) {
                Some(Some(answer)) => self.outcome(&node, due, answer).await,
                Some(None) => Renewed::Failed(fault.clone()),
                None => Renewed::Unasked,
            });
        }
        (sent_at, renewed)
    }
}

impl Links {
    /// All leases were at one place when they fell due. The place of one is asked; a lease that has moved since is
    /// redirected.
    async fn connection_to(&self, leases: &[Due], limit: Duration) -> Result<(Arc<Node>, Connection), Fault> {
        let some_key = leases.first().map_or(&[][..], |due| &due.hold.key);
        let node = self.route.node(some_key).await?;
        let connected = timeout(limit, node.connection()).await;
        let connected = connected.unwrap_or_else(|_| Err(Fault::Unreachable(Fault::timed_out())));
        if connected.is_err() {
            self.route.mark_stale(&node);
        }
        connected.map(|connection| (node, connection))
    }

    /// Sends all in one piece.
    async fn send(
        &self,
        node: &Arc<Node>,
        mut connection: Connection,
        leases: impl Iterator<Item = &Due>,
        limit: Duration,
    ) -> Result<Vec<RedisResult<Value>>, Fault> {
        let mut pipeline = redis::pipe();
        for due in leases {
            pipeline.add_command(request::renew(&due.hold.key, &due.hold.holder, due.lease));
        }
        let answers = send_all(&mut connection.opened, &mut pipeline, limit).await;
        if answers.as_ref().is_err_and(Fault::doubts_the_server) {
            self.route.mark_stale(node);
            node.discard(&connection);
        }
        answers
    }

    async fn outcome(&self, node: &Arc<Node>, due: &Due, answer: RedisResult<Value>) -> Renewed {
        let fault = match answer.map_err(Fault::of_request).and_then(|answer| request::renewed(&answer)) {
            Ok(held) => return of_an_answer(held),
            Err(fault) => fault,
        };
        if fault.doubts_the_server() {
            self.route.mark_stale(node);
        }
        match &fault {
            Fault::Moved(address) => self.route.moved(&due.hold.key, &node.full_address(address)),
            // The slot is on its way, and the lock has gone ahead.
            Fault::Ask(_) => return self.renew_one(due).await,
            _ => {}
        }
        of_a_fault(fault)
    }

    async fn renew_one(&self, due: &Due) -> Renewed {
        let command = request::renew(&due.hold.key, &due.hold.holder, due.lease);
        let answer = self.ask(&due.hold.key, &Doubt::default(), &command).await;
        match answer.and_then(|answer| request::renewed(&answer.value)) {
            Ok(held) => of_an_answer(held),
            Err(fault) => of_a_fault(fault),
        }
    }
}

fn of_an_answer(held: bool) -> Renewed {
    if held { Renewed::Yes } else { Renewed::Gone }
}

fn of_a_fault(fault: Fault) -> Renewed {
    if fault.is_overwritten() { Renewed::Overwritten(fault) } else { Renewed::Failed(fault) }
}
