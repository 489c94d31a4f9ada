//! A read-only command, for the server of a lock, or for each master, which reports its own locks.
//!
//! A connection that broke, perhaps unnoticed for long, says nothing about the server: then the command is sent again.

use rlock_client::{Error, Locks, Master, Reply};
use std::error::Error as _;
use std::io;
use tokio::task::JoinSet;

pub async fn of_lock(locks: &Locks, key: &[u8], command: &[&[u8]]) -> Result<Reply, Error> {
    match locks.command(key, command).await {
        Err(error) if is_a_broken_connection(&error) => locks.command(key, command).await,
        answer => answer,
    }
}

pub async fn of_master(master: &Master, command: &[&[u8]]) -> Result<Reply, Error> {
    match master.command(command).await {
        Err(error) if is_a_broken_connection(&error) => master.command(command).await,
        answer => answer,
    }
}

/// All at once, in no order.
pub async fn of_each(masters: &[Master], command: &[&str]) -> Result<Vec<(Master, Reply)>, Error> {
    let mut asked = JoinSet::new();
    for master in masters {
        let (master, command) = (master.clone(), command.iter().map(ToString::to_string).collect::<Vec<_>>());
        asked.spawn(async move {
            let command: Vec<_> = command.iter().map(String::as_bytes).collect();
            of_master(&master, &command).await.map(|answer| (master, answer))
        });
    }
    asked.join_all().await.into_iter().collect()
}

/// It broke at once. A timeout is something else.
fn is_a_broken_connection(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    error.is_unavailable() && cause.is_some_and(|cause| cause.kind() != io::ErrorKind::TimedOut)
}
