//! The connections of one client that sends its commands itself. A connection with an outstanding answer is never used
//! again: to give up an answer is to give up the connection.

use super::route::{Redirection, Route};
use super::wire::{Command, Wire};
use rlock_testing::Reply;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How many redirections in a row are followed.
const REDIRECTIONS: usize = 6;

/// How long until a server that refuses connections is asked again.
const PAUSE: Duration = Duration::from_millis(30);

pub struct Connections {
    route: Route,
    open: HashMap<u16, Wire>,
}

impl Connections {
    pub fn new(route: Route) -> Self {
        Self { route, open: HashMap::new() }
    }

    /// Whether the lock's server is connected before `until`, so that a call does not begin before it can be sent.
    pub async fn are_open(&mut self, lock: &str, until: Instant) -> bool {
        let connecting = async {
            loop {
                let port = self.route.port(lock);
                if self.open.contains_key(&port) {
                    return;
                }
                match Wire::connect(port).await {
                    Ok(wire) => drop(self.open.insert(port, wire)),
                    Err(_) => {
                        self.route.doubt(lock);
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        timeout_at(until, connecting).await.is_ok()
    }

    /// The reply to this command, or why it is not known.
    pub async fn ask(&mut self, lock: &str, command: Command, until: Instant) -> Result<Reply, String> {
        let answer = timeout_at(until, self.follow(lock, command)).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        if answer.is_err() {
            self.route.doubt(lock);
        }
        answer
    }

    /// Closes all of them, as at the end of a process.
    pub fn hang_up(&mut self) {
        self.open.clear();
    }

    async fn follow(&mut self, lock: &str, command: Command) -> Result<Reply, String> {
        let mut to = Redirection { port: self.route.port(lock), asking: false };
        for _ in 1..REDIRECTIONS {
            let reply = self.exchange(to, command.clone()).await?;
            match self.route.redirection(lock, &reply) {
                Some(next) => to = next,
                None => return Ok(reply),
            }
        }
        self.exchange(to, command).await
    }

    async fn exchange(&mut self, to: Redirection, command: Command) -> Result<Reply, String> {
        let wire = match self.open.remove(&to.port) {
            Some(wire) => Ok(wire),
            None => Wire::connect(to.port).await,
        };
        let mut wire = wire.map_err(|error| format!("no connection: {error}"))?;
        let asking = to.asking.then(|| vec!["ASKING".to_owned()]);
        let commands: Vec<Command> = asking.into_iter().chain([command]).collect();
        let mut replies = wire.ask(&commands).await.map_err(|error| error.to_string())?;
        self.open.insert(to.port, wire);
        Ok(replies.swap_remove(commands.len() - 1))
    }
}
