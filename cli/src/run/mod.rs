//! `rlock run`: waits for a lock, runs a command while it is held, and gives it back.
//!
//! - CMD is looked for before the lock is asked for: no user waits an hour to learn of a typing error.
//! - If a signal tells `rlock` to stop while it waits, it leaves the queue and runs nothing.
//! - What CMD says and reads is its own; its exit code is ours, unless the lock was lost.

mod child;
mod give_back;
mod lost;
mod not_got;
mod program;
mod reason;
mod terminal;

use crate::address;
use crate::arguments::{Run, Server};
use crate::exit;
use crate::failure::Failure;
use crate::signals::Signals;
use child::Child;
use nix::sys::signal::Signal;
use rlock_client::{Error, Fenced, Guard, Lock, Locks, Loss};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

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

/// How long a server may take to hear that we do not wait any more, or have done, when a signal wants us to end.
const GOODBYE: Duration = Duration::from_secs(1);

pub async fn run(args: &Run, server: &Server) -> Result<u8, Failure> {
    if args.key.is_empty() {
        // One lock for all whose variable is not set.
        return Err(Failure::usage("KEY is empty; is a variable not set?"));
    }
    let program = program::find(&args.command[0])?;
    let mut signals = Signals::take(&PASSED_ON)?;
    let (locks, at) = tokio::select! {
        biased;
        code = ended_by(&mut signals) => return Ok(code),
        connected = address::connect_as(args.name.as_deref(), server) => connected?,
    };
    let guard = tokio::select! {
        biased;
        code = ended_by(&mut signals) => Err(Ok(code)),
        acquired = acquire(args, &locks) => match acquired {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => Err(Ok(not_got::in_time(args))),
            Err(error) => Err(not_got::for_a_reason(args, &at, &error)),
        },
    };
    match guard {
        Ok(guard) => work(&program, args, guard, signals).await,
        Err(ended) => {
            // What may have been granted all the same is given back. A server that does not answer does not hold us up.
            let _ = timeout(GOODBYE, locks.settle()).await;
            ended
        }
    }
}

async fn work(program: &Path, args: &Run, guard: Guard<Fenced>, signals: Signals) -> Result<u8, Failure> {
    match Child::start(program, args, &guard) {
        Ok(child) => attend(child, guard, signals, args).await,
        Err(error) => {
            // The lock was for nothing; if it cannot be given back, its lease ends.
            let _ = guard.release().await;
            Err(program::did_not_start(program, &args.command[0], &error))
        }
    }
}

/// The lock, if it could be had in time.
async fn acquire(args: &Run, locks: &Locks) -> Result<Option<Guard<Fenced>>, Error> {
    let lock = lock(args, locks);
    match limit(args) {
        None => lock.acquire().await.map(Some),
        Some(limit) => match lock.acquire_timeout(limit).await {
            Err(error) if error.is_timeout() => Ok(None),
            acquired => acquired.map(Some),
        },
    }
}

/// For how long it is waited for. Once it is tried in any case.
fn limit(args: &Run) -> Option<Duration> {
    if args.no_wait { Some(Duration::ZERO) } else { args.wait }
}

fn lock(args: &Run, locks: &Locks) -> Lock<Fenced> {
    let key = args.key.as_bytes();
    let lock = match (args.read, args.write) {
        (true, _) => locks.read_write(key).read(),
        (_, true) => locks.read_write(key).write(),
        _ => locks.lock(key),
    };
    let lock = lock.lease(args.lease).fenced();
    match args.replicas {
        Some(wanted) => lock.replicas(wanted.into(), args.lease / 3),
        None => lock,
    }
}

/// While CMD runs.
async fn attend(mut child: Child, guard: Guard<Fenced>, mut signals: Signals, args: &Run) -> Result<u8, Failure> {
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
    Ok(give_back::give_back(guard, signals, args, code).await)
}

/// The exit code, if a signal comes that ends a program. Cancel safe.
async fn ended_by(signals: &mut Signals) -> u8 {
    loop {
        match signals.next().await.signal {
            Signal::SIGCONT | Signal::SIGWINCH => {}
            signal => return exit::by_signal(signal as i32),
        }
    }
}
