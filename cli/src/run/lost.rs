//! The lock is lost while CMD runs: another holder may have it already, so CMD has to end. First it is asked to end,
//! then it is killed. Each message comes after its signal.

use super::child::Child;
use super::{Job, reason};
use crate::failure::{Failure, say};
use crate::shown;
use crate::signals::Signals;
use nix::sys::signal::Signal;
use rlock_client::Loss;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::{sleep, sleep_until};

/// The system does not report when the last process of a group ends, so this checks at this interval.
const LOOK: Duration = Duration::from_millis(10);

pub async fn end(mut child: Child, signals: &mut Signals, job: &Job<'_>, loss: &Loss) -> Result<(), Failure> {
    let (key, cmd, grace) = (shown::name(job.key.as_bytes()), &job.program.shown, job.work.grace);
    child.send_to_all(Signal::SIGTERM);
    // A stopped process has to continue in order to end.
    child.send_to_all(Signal::SIGCONT);
    let why = reason::of(loss);
    say(&format!("{key}: the lock was lost, others may have it, so {cmd} was sent TERM: {why}"));
    let killed = asked(&mut child, signals, grace).await?;
    if killed {
        child.send_to_all(Signal::SIGKILL);
        child.ended().await.map_err(Failure::of_the_system)?;
    }
    // CMD was made to end, so its changes of the terminal are not kept, however it ended.
    child.restore_terminal();
    if killed {
        say(&format!("{key}: {cmd} did not end within {}: it was killed", shown::time(grace)));
    }
    Ok(())
}

/// Whether CMD has to be killed, because it did not end within the grace.
async fn asked(child: &mut Child, signals: &mut Signals, grace: Duration) -> Result<bool, Failure> {
    let over = tokio::time::Instant::now().checked_add(grace);
    let over = over.unwrap_or_else(|| tokio::time::Instant::now() + Duration::from_secs(1 << 30));
    loop {
        tokio::select! {
            biased;
            ended = gone(child) => return ended.map(|()| false),
            () = sleep_until(over) => return Ok(true),
            arrival = signals.next() => child.pass_on(arrival),
        }
    }
}

async fn gone(child: &mut Child) -> Result<(), Failure> {
    child.ended().await.map_err(Failure::of_the_system)?;
    while child.has_processes() {
        sleep(LOOK).await;
    }
    Ok(())
}
