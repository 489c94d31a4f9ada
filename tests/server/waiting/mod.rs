//! Waiting in the server, each way in and out of it.

mod followers;
mod handing_over;
mod leaving;
mod moving_on;
mod unfit_servers;

use rlock_testing::{Client, Server, wait_until};

/// The number that INFO tells under this name.
pub fn info(client: &mut Client, name: &str) -> i64 {
    let info = client.say("INFO rlock");
    let line = info.as_text().lines().find_map(|line| line.strip_prefix(&format!("rlock_{name}:")));
    line.unwrap_or_else(|| panic!("INFO has no {name}: {info:?}")).parse().unwrap()
}

/// Sends a command that will wait, and returns once it does.
pub fn start_waiting(server: &Server, command: &str) -> Client {
    let (mut client, mut watch) = (server.client(), server.client());
    let before = info(&mut watch, "waits");
    client.send(&command.split(' ').collect::<Vec<_>>());
    wait_until("the client waits", || info(&mut watch, "waits") == before + 1);
    client
}
