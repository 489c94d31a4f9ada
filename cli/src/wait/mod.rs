//! Waits for a lock until it is granted, the time is over, or a signal ends us. Afterwards no waiter of ours is left in
//! the queue.

mod line;
mod not_got;
mod screen;
mod within;

pub use screen::has_foreground;
pub use within::{HOLDERS, with_outer_holders};

use crate::address;
use crate::address::Address;
use crate::arguments::{Once, Server, Waiting, Wish};
use crate::exit;
use crate::failure::Failure;
use crate::shown;
use crate::signals::Signals;
use nix::sys::signal::Signal;
use rlock_client::{Begun, Error, Fenced, Guard, Lock, Locks, Unfenced};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server may take to process our cancel or release when a signal ends us.
pub const GOODBYE: Duration = Duration::from_secs(1);

/// Whether the lease is renewed.
#[derive(Clone, Copy)]
pub enum Lease {
    /// Renewed, while a command runs.
    Kept(Duration),
    /// Renewed, for another program.
    Held(Duration),
    /// Not renewed: it ends by itself.
    Fixed(Duration),
}

impl Lease {
    /// What a message adds if the lock was not acquired.
    fn so(self) -> &'static str {
        match self {
            Self::Kept(_) => ", so nothing was run",
            Self::Held(_) | Self::Fixed(_) => "",
        }
    }
}

/// A granted lock.
pub struct Held {
    pub guard: Guard,
    /// The fencing token, if it was requested; for several locks one of each, in the order of their names.
    pub tokens: Option<String>,
}

/// The locks that KEY names. An empty name is refused: with an unset variable, all locks would be the same one.
pub fn names(key: &OsStr, all: bool) -> Result<Vec<&[u8]>, Failure> {
    let names = divided(key, all);
    match names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
        _ if key.is_empty() => Err(Failure::usage("KEY is empty; is a variable not set?")),
        _ if names.contains(&&b""[..]) => {
            Err(Failure::usage(format!("a name in {} is empty; is a variable not set?", shown::name(key.as_bytes()))))
        }
        Some((_, name)) => Err(Failure::usage(format!("{} is named twice", shown::name(name)))),
        None => Ok(names),
    }
}

fn divided(key: &OsStr, all: bool) -> Vec<&[u8]> {
    if all { key.as_bytes().split(|byte| *byte == b',').collect() } else { vec![key.as_bytes()] }
}

/// Refuses an exit code that a script would take for success.
pub fn must_show_busy(waiting: &Waiting, success: &str) -> Result<(), Failure> {
    match waiting.busy_code {
        0 => Err(Failure::usage(format!("-E 0 would look as if {success}; for no output use --quiet"))),
        _ => Ok(()),
    }
}

/// The lock, or the exit code if it was not acquired.
pub async fn acquire(
    wish: &Wish,
    lease: Lease,
    server: &Server,
    signals: &mut Signals,
) -> Result<Result<Held, u8>, Failure> {
    let (locks, at) = address::connect_in_time(wish.waiting.name.as_deref(), server).await?;
    until_outcome(wish, lease.so(), &locks, &at, granted(wish, lease, &locks), signals).await
}

/// The answer or the lead, or the exit code if there was neither in time. `locks` is for queries about the lock.
pub async fn answer(
    args: &Once,
    keep: Duration,
    locks: &Locks,
    at: &Address,
    signals: &mut Signals,
) -> Result<Result<Begun, u8>, Failure> {
    let wish = Wish { key: args.key.clone(), waiting: args.waiting.clone(), ..Wish::default() };
    let once = locks.once(args.key.as_bytes(), keep).lease(args.lease);
    let once = if let Some(limit) = limit(&wish) { once.wait(limit) } else { once };
    let once = if let Some(most) = args.waiting.max_waiters { once.max_waiters(most) } else { once };
    let begun = async { in_time_or_none(once.begin().await) };
    until_outcome(&wish, Lease::Kept(args.lease).so(), locks, at, begun, signals).await
}

/// The result of `asked`, or the exit code if it was `None` (not in time), it failed, or a signal came.
async fn until_outcome<T>(
    wish: &Wish,
    so: &str,
    locks: &Locks,
    at: &Address,
    asked: impl Future<Output = Result<Option<T>, Error>>,
    signals: &mut Signals,
) -> Result<Result<T, u8>, Failure> {
    let not_got = tokio::select! {
        biased;
        code = ended_by(signals) => Ok(code),
        why = within::must_not_wait(wish, locks) => Err(why),
        got = asked => match got {
            Ok(Some(got)) => return Ok(Ok(got)),
            Ok(None) => Ok(not_got::in_time(wish, so, locks).await),
            Err(error) => not_got::for_a_reason(wish, so, at, &error),
        },
        // Polled last. It erases its line before anything else is printed.
        () = line::show(locks, wish) => Ok(exit::DEFECT),
    };
    // Releases what may have been granted. A server that does not reply does not delay us.
    let _ = timeout(GOODBYE, locks.settle()).await;
    not_got.map(Err)
}

async fn granted(wish: &Wish, lease: Lease, locks: &Locks) -> Result<Option<Held>, Error> {
    let key = wish.key.as_bytes();
    match (wish.slots, wish.all, wish.read, wish.write) {
        (Some(slots), ..) => in_time(wish, lease, locks.permits(key, slots)).await,
        (_, true, ..) => in_time(wish, lease, locks.all(divided(&wish.key, true))).await,
        (_, _, true, _) => in_time(wish, lease, locks.read_write(key).read()).await,
        (_, _, _, true) => in_time(wish, lease, locks.read_write(key).write()).await,
        _ => in_time(wish, lease, locks.lock(key)).await,
    }
}

async fn in_time<K>(wish: &Wish, lease: Lease, lock: Lock<Unfenced, K>) -> Result<Option<Held>, Error> {
    let lock = with_options(wish, lease, lock);
    if wish.token {
        let fenced = |guard: Guard<Fenced>| Held { tokens: Some(tokens(&guard)), guard: guard.unfenced() };
        return Ok(try_for(wish, lock.fenced()).await?.map(fenced));
    }
    Ok(try_for(wish, lock).await?.map(|guard| Held { guard, tokens: None }))
}

/// `None`: it was not free in time.
async fn try_for<F, K>(wish: &Wish, lock: Lock<F, K>) -> Result<Option<Guard<F>>, Error> {
    match limit(wish) {
        None => lock.acquire().await.map(Some),
        Some(limit) => in_time_or_none(lock.acquire_timeout(limit).await),
    }
}

fn in_time_or_none<T>(got: Result<T, Error>) -> Result<Option<T>, Error> {
    match got {
        Err(error) if error.is_timeout() => Ok(None),
        got => got.map(Some),
    }
}

/// How long to wait at most. The lock is tried once in any case.
fn limit(wish: &Wish) -> Option<Duration> {
    if wish.waiting.no_wait { Some(Duration::ZERO) } else { wish.waiting.wait }
}

fn with_options<K>(wish: &Wish, lease: Lease, lock: Lock<Unfenced, K>) -> Lock<Unfenced, K> {
    let (lock, length) = match lease {
        Lease::Kept(length) | Lease::Held(length) => (lock.lease(length), length),
        Lease::Fixed(length) => (lock.fixed_lease(length), length),
    };
    let lock = match wish.waiting.max_waiters {
        Some(most) => lock.max_waiters(most),
        None => lock,
    };
    match wish.replicas {
        Some(wanted) => lock.replicas(wanted.into(), length / 3),
        None => lock,
    }
}

fn tokens(guard: &Guard<Fenced>) -> String {
    guard.tokens().map(|token| token.to_string()).collect::<Vec<_>>().join(",")
}

/// Waits for a signal that ends a program, and returns the exit code. Cancel safe.
pub async fn ended_by(signals: &mut Signals) -> u8 {
    loop {
        match signals.next().await.signal {
            Signal::SIGCONT | Signal::SIGWINCH => {}
            signal => return exit::by_signal(signal as i32),
        }
    }
}
