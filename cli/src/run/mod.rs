//! `rlock run`: waits for a lock, runs a command while it is held, and releases it.
//!
//! - CMD is looked up before the lock is requested: no user waits an hour for a typing error.
//! - If a signal stops `rlock` while it waits, it leaves the queue and runs nothing.
//! - CMD's input and output are its own; its exit code is ours, unless the lock was lost.

mod child;
mod lost;
mod program;
pub mod reason;
pub mod release;
mod terminal;

pub use program::Program;

use crate::arguments::{Run, Server, Work};
use crate::exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::wait::{self, Held, Lease};
use child::Child;
use nix::sys::signal::Signal;
use release::{Done, release};
use rlock_client::{Guard, Loss};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

/// Passed on to CMD. Before CMD runs, each of them ends the wait, except those that end no program.
pub const PASSED_ON: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// CMD, and the lock under which it runs.
pub struct Job<'a> {
    pub key: &'a OsStr,
    pub work: &'a Work,
    pub program: Program,
    /// A variable that CMD does not get.
    pub secret: Option<&'static str>,
}

pub async fn run(args: &Run, server: &Server) -> Result<u8, Failure> {
    wait::names(&args.wish.key, args.wish.all)?;
    let job = Job { key: &args.wish.key, work: &args.work, program: Program::find(&args.work)?, secret: None };
    let mut signals = Signals::take(&PASSED_ON)?;
    match wait::acquire(&args.wish, Lease::Kept(args.lease), server, &mut signals).await? {
        Ok(held) => perform(&job, held, args.lease, signals).await,
        Err(code) => Ok(code),
    }
}

/// Runs CMD under the lock, and releases it.
pub async fn perform(job: &Job<'_>, held: Held, lease: Duration, mut signals: Signals) -> Result<u8, Failure> {
    let child = match start(job, &held.guard, held.tokens.as_deref(), Stdio::inherit()) {
        Ok(child) => child,
        Err(failure) => {
            // The lock was not needed; if it cannot be released, its lease ends.
            let _ = held.guard.release().await;
            return Err(failure);
        }
    };
    let Some(code) = attend(job, child, &held.guard, &mut signals).await? else { return Ok(exit::LOST) };
    let (key, cmd) = (job.key.as_bytes(), Some(job.program.shown.clone()));
    Ok(release(held.guard, &mut signals, Done { key, lease, cmd, code }).await)
}

pub fn start(job: &Job<'_>, guard: &Guard, tokens: Option<&str>, stdout: Stdio) -> Result<Child, Failure> {
    let child = Child::start(job, &guard.holder(), tokens, stdout);
    child.map_err(|error| program::did_not_start(&job.program, &error))
}

/// The code with which CMD ended. `None`: the lock was lost, and CMD was ended for that.
pub async fn attend(
    job: &Job<'_>,
    mut child: Child,
    guard: &Guard,
    signals: &mut Signals,
) -> Result<Option<u8>, Failure> {
    let lost = guard.lost();
    tokio::pin!(lost);
    loop {
        tokio::select! {
            biased;
            code = child.ended() => return code.map(Some).map_err(Failure::of_the_system),
            () = &mut lost => {
                let loss = guard.loss().unwrap_or(Loss::Ended);
                return lost::end(child, signals, job, &loss).await.map(|()| None);
            }
            arrival = signals.next() => child.pass_on(arrival),
        }
    }
}
