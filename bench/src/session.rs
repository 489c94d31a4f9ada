//! What a process sends to wait by a session: on one connection it asks for locks, each time by a new ticket, and on
//! another it polls for the events of its tickets.
//!
//! Two polls are always under way, so that the server can answer one while the process reads the answer to the other. Each
//! ticket is used once: until its event is acknowledged, the server takes the same ticket for the same wait.

use crate::contenders::{HOLDER, LONG_LEASE};
use rlock_testing::{Client, Server};

/// The session's name, as long as that of a real process: a UUID.
const NAME: &str = "6b1f4c0e-52c7-4c43-9d0f-3a7be3a1c9d5";

/// The command that opens the session, and is its first poll. The server answers it after a third of the TTL at the latest,
/// and no measurement lasts that long.
pub const OPENING: [&str; 6] = ["RLOCK.EVENTS", NAME, "WAIT", "0", "TTL", "600000"];

/// A poll that acknowledges all events up to this one.
pub fn poll(heard: &str) -> [&str; 6] {
    ["RLOCK.EVENTS", NAME, "ACK", heard, "WAIT", "0"]
}

pub fn ask<'a>(lock: &'a str, holder: &'a str, wait_ms: &'a str, ticket: &'a str) -> [&'a str; 9] {
    ["RLOCK.ACQUIRE", lock, holder, LONG_LEASE, "WAIT", wait_ms, "SESSION", NAME, ticket]
}

/// One of many holders, each as long as [`HOLDER`].
pub fn holder(number: usize) -> String {
    format!("{}{number:07}", &HOLDER[..HOLDER.len() - 7])
}

/// A connection on which the session is open, with two polls under way.
pub fn open(server: &Server) -> Client {
    let mut client = server.client();
    client.send_together(&[&OPENING, &poll("0")]);
    client
}
