//! `rlock run`: waits for a lock, runs a command while it is held, and gives it back.
//!
//! - CMD is looked for before the lock is asked for: no user waits an hour to learn of a typing error.
//! - If a signal tells `rlock` to stop while it waits, it leaves the queue and runs nothing.
//! - What CMD says and reads is its own; its exit code is ours, unless the lock was lost.

mod child;
pub mod give_back;
mod lost;
mod program;
pub mod reason;
mod terminal;

use crate::arguments::{Run, Server};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::wait::{self, Held, Lease};
use child::Child;
use give_back::{Done, give_back};
use nix::sys::signal::Signal;
use rlock_client::{Guard, Loss};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Passed on to CMD. While there is none, each of them ends the wait, except those that end no program.
const PASSED_ON: [Signal; 9] = [
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

pub async fn run(args: &Run, server: &Server) -> Result<u8, Failure> {
    wait::names(&args.wish.key, args.wish.all)?;
    let words = program::words(args);
    let program = program::find(&words[0])?;
    let mut signals = Signals::take(&PASSED_ON)?;
    match wait::acquire(&args.wish, Lease::Kept(args.lease), server, &mut signals).await? {
        Ok(held) => work(&program, &words, args, held, signals).await,
        Err(code) => Ok(code),
    }
}

async fn work(program: &Path, words: &[OsString], args: &Run, held: Held, signals: Signals) -> Result<u8, Failure> {
    match Child::start(program, words, args, &held) {
        Ok(child) => attend(child, held.guard, signals, args).await,
        Err(error) => {
            // The lock was for nothing; if it cannot be given back, its lease ends.
            let _ = held.guard.release().await;
            Err(program::did_not_start(program, &words[0], &error))
        }
    }
}

/// While CMD runs.
async fn attend(mut child: Child, guard: Guard, mut signals: Signals, args: &Run) -> Result<u8, Failure> {
    let lost = guard.lost();
    tokio::pin!(lost);
    let code = loop {
        tokio::select! {
            biased;
            code = child.ended() => break code.map_err(Failure::of_the_system)?,
            () = &mut lost => {
                let loss = guard.loss().unwrap_or(Loss::Ended);
                return lost::end(child, signals, args, &loss).await;
            }
            arrival = signals.next() => child.pass_on(arrival),
        }
    };
    let (key, cmd) = (args.wish.key.as_bytes(), Some(program::shown(args)));
    Ok(give_back(guard, &mut signals, Done { key, lease: args.lease, cmd, code }).await)
}
