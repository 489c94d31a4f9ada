//! Clients that wait: a test goes on when the server says that they do, and not a while later.

use crate::{Client, Server, wait_until};

/// Sends a command that waits, on a new connection. Returns once the client waits.
pub fn start_waiting(server: &Server, command: &str) -> Client {
    let (mut client, mut watch) = (server.client(), server.client());
    let before = watch.figure("waits");
    client.send(&command.split(' ').collect::<Vec<_>>());
    wait_until("the client waits", || watch.figure("waits") == before + 1);
    client
}

impl Client {
    /// Returns once this many clients wait on this server.
    pub fn until_waiting(&mut self, count: i64) {
        wait_until(&format!("{count} wait"), || self.figure("waiters") == count);
    }
}
