//! The connections of one client that sends its commands itself. One on which an answer is outstanding is never used
//! again: whoever gives up an answer gives up the connection.

use super::route::{Redirection, Route};
use super::wire::{Command, Wire};
use rlock_testing::Reply;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How often a lock may be somewhere else.
const REDIRECTIONS: usize = 6;

/// Until somebody is asked again who takes no connections.
const PAUSE: Duration = Duration::from_millis(30);

pub struct Connections {
    route: Route,
    open: HashMap<u16, Wire>,
    pub resp3: bool,
}

impl Connections {
    pub fn new(route: Route, resp3: bool) -> Self {
        Self { route, open: HashMap::new(), resp3 }
    }

    /// Whether there is a connection to the lock's place by then, so that a call does not begin before one can be sent.
    pub async fn are_open(&mut self, lock: &str, until: Instant) -> bool {
        let connecting = async {
            loop {
                let port = self.route.port(lock);
                if self.open.contains_key(&port) {
                    return;
                }
                match Wire::connect(port, self.resp3).await {
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

    /// The replies to these commands, which are sent in one piece, or why they are not known.
    pub async fn ask(&mut self, lock: &str, commands: &[Command], until: Instant) -> Result<Vec<Reply>, String> {
        let answer = timeout_at(until, self.follow(lock, commands)).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        if answer.is_err() {
            self.route.doubt(lock);
        }
        answer
    }

    /// The reply on the connection that this lock was asked for on last, if that is still there.
    pub async fn ask_there(&mut self, lock: &str, command: Command, until: Instant) -> Result<Reply, String> {
        let port = self.route.port(lock);
        if self.open.contains_key(&port) {
            self.ask_at(port, command, until).await
        } else {
            Err("the connection is gone".to_owned())
        }
    }

    /// The reply of whoever is at that port.
    pub async fn ask_at(&mut self, port: u16, command: Command, until: Instant) -> Result<Reply, String> {
        let asking = self.exchange(Redirection { port, asking: false }, std::slice::from_ref(&command));
        let answer = timeout_at(until, asking).await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        Ok(answer?.remove(0))
    }

    /// Where that lock is, as far as is known.
    pub fn port(&mut self, lock: &str) -> u16 {
        self.route.port(lock)
    }

    /// Closes all of them, as a process does that ends.
    pub fn hang_up(&mut self) {
        self.open.clear();
    }

    async fn follow(&mut self, lock: &str, commands: &[Command]) -> Result<Vec<Reply>, String> {
        let mut to = Redirection { port: self.route.port(lock), asking: false };
        for _ in 1..REDIRECTIONS {
            let replies = self.exchange(to, commands).await?;
            let sent_on: Vec<_> = replies.iter().filter_map(|reply| self.route.redirection(lock, reply)).collect();
            match sent_on.first() {
                // In a pair or a transaction one part may have been done; and an ASKING is for one command.
                Some(next) if commands.len() == 1 || !next.asking && sent_on.len() == commands.len() => to = *next,
                _ => return Ok(replies),
            }
        }
        self.exchange(to, commands).await
    }

    async fn exchange(&mut self, to: Redirection, commands: &[Command]) -> Result<Vec<Reply>, String> {
        let wire = match self.open.remove(&to.port) {
            Some(wire) => Ok(wire),
            None => Wire::connect(to.port, self.resp3).await,
        };
        let mut wire = wire.map_err(|error| format!("no connection: {error}"))?;
        let asking = [vec!["ASKING".to_owned()], commands[0].clone()];
        let sent = if to.asking { &asking[..] } else { commands };
        let mut replies = wire.ask(sent).await.map_err(|error| error.to_string())?;
        self.open.insert(to.port, wire);
        Ok(replies.split_off(usize::from(to.asking)))
    }
}
