//! Waiting for a lock, until it is granted, the time is over, or a signal wants us to end. Then nothing of us is left in
//! the queue.

mod line;
mod not_got;
mod screen;

use crate::address;
use crate::arguments::{Server, Wish};
use crate::exit;
use crate::failure::Failure;
use crate::signals::Signals;
use nix::sys::signal::Signal;
use rlock_client::{Error, Fenced, Guard, Lock, Locks};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server may take to hear that we do not wait any more, or have done, when a signal wants us to end.
pub const GOODBYE: Duration = Duration::from_secs(1);

/// How the lease ends.
#[derive(Clone, Copy)]
pub enum Lease {
    /// With us, who renew it while a command runs.
    Kept(Duration),
    /// By itself.
    Fixed(Duration),
}

impl Lease {
    /// What it means that there is no lock.
    fn so(self) -> &'static str {
        match self {
            Self::Kept(_) => ", so nothing was run",
            Self::Fixed(_) => "",
        }
    }
}

/// Under an empty name all would be one lock, whose variable is not set.
pub fn must_have_a_name(key: &OsStr) -> Result<(), Failure> {
    match key.is_empty() {
        true => Err(Failure::usage("KEY is empty; is a variable not set?")),
        false => Ok(()),
    }
}

/// The lock, or the exit code if it was not got.
pub async fn acquire(
    wish: &Wish,
    lease: Lease,
    server: &Server,
    signals: &mut Signals,
) -> Result<Result<Guard<Fenced>, u8>, Failure> {
    let (locks, at) = tokio::select! {
        biased;
        code = ended_by(signals) => return Ok(Err(code)),
        connected = address::connect_as(wish.name.as_deref(), server) => connected?,
    };
    let not_got = tokio::select! {
        biased;
        code = ended_by(signals) => Ok(code),
        acquired = in_time(wish, lock(wish, lease, &locks)) => match acquired {
            Ok(Some(guard)) => return Ok(Ok(guard)),
            Ok(None) => Ok(not_got::in_time(wish, lease.so())),
            Err(error) => not_got::for_a_reason(wish, lease.so(), &at, &error),
        },
        // Looked at last, and gone with what it has shown before anything else is said.
        () = line::tell(&locks, wish) => Ok(exit::DEFECT),
    };
    // What may have been granted all the same is given back. A server that does not answer does not hold us up.
    let _ = timeout(GOODBYE, locks.settle()).await;
    not_got.map(Err)
}

async fn in_time(wish: &Wish, lock: Lock<Fenced>) -> Result<Option<Guard<Fenced>>, Error> {
    match limit(wish) {
        None => lock.acquire().await.map(Some),
        Some(limit) => match lock.acquire_timeout(limit).await {
            Err(error) if error.is_timeout() => Ok(None),
            acquired => acquired.map(Some),
        },
    }
}

/// For how long it is waited for. Once it is tried in any case.
fn limit(wish: &Wish) -> Option<Duration> {
    if wish.no_wait { Some(Duration::ZERO) } else { wish.wait }
}

fn lock(wish: &Wish, lease: Lease, locks: &Locks) -> Lock<Fenced> {
    let key = wish.key.as_bytes();
    let lock = match (wish.read, wish.write) {
        (true, _) => locks.read_write(key).read(),
        (_, true) => locks.read_write(key).write(),
        _ => locks.lock(key),
    };
    let (lock, length) = match lease {
        Lease::Kept(length) => (lock.lease(length), length),
        Lease::Fixed(length) => (lock.fixed_lease(length), length),
    };
    match wish.replicas {
        Some(wanted) => lock.fenced().replicas(wanted.into(), length / 3),
        None => lock.fenced(),
    }
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
