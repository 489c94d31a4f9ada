//! `rlock lock`, `unlock` and `renew`: a lock for several commands of a script that cannot be one CMD.
//!
//! Between the commands no process renews the lease, or stops the script when the lease ends. So the lease has to be
//! given, and `unlock` reports whether the lock was held until then.

pub mod token;

use crate::arguments::{Lock, Renew, Server, Unlock};
use crate::exit;
use crate::failure::{Failure, say};
use crate::operators;
use crate::signals::Signals;
use crate::wait::{self, Held, Lease};
use crate::{address, shown};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use token::Place;

/// Each ends the wait.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

pub async fn lock(args: &Lock, server: &Server) -> Result<u8, Failure> {
    wait::names(&args.wish.key, args.wish.all)?;
    wait::must_show_busy(&args.wish.waiting, "the lock were held")?;
    let place = Place::of(args)?;
    let mut signals = Signals::take(&ENDING)?;
    // Only a lease that is renewed can be handed on.
    let lease = if args.detach { Lease::Held(args.lease) } else { Lease::Fixed(args.lease) };
    let held = match wait::acquire(&args.wish, lease, server, &mut signals).await? {
        Ok(held) => held,
        Err(code) => return Ok(code),
    };
    if args.detach {
        return detach(held, &place, server).await;
    }
    if let Err(failure) = place.write(&token::lines(&held)) {
        // No process could unlock it.
        let _ = held.guard.release().await;
        return Err(failure);
    }
    // A drop would release the lock.
    std::mem::forget(held);
    Ok(0)
}

async fn detach(held: Held, place: &Place, server: &Server) -> Result<u8, Failure> {
    let (at, _) = address::read(server)?;
    let text = match held.guard.detach().await {
        Ok(text) => text,
        Err(error) => {
            let _ = held.guard.release().await;
            return Err(Failure::of_the_server(&at, &error));
        }
    };
    if let Err(failure) = place.write(&format!("{text}\n")) {
        // No process could adopt it.
        let (locks, _) = address::connect(server).await?;
        if let Ok(guard) = locks.adopt(&text).await {
            let _ = guard.release().await;
        }
        return Err(failure);
    }
    Ok(0)
}

pub async fn unlock(args: &Unlock, server: &Server) -> Result<u8, Failure> {
    let names = wait::names(&args.key, args.of.all)?;
    let holder = token::holder(&args.of)?;
    let (locks, at) = address::connect(server).await?;
    let mut released = true;
    for name in names {
        let answer = operators::release_of(&locks, name, &holder).await;
        released &= answer.map_err(|why| Failure::unanswered(&at, &why))?;
    }
    token::is_over(&args.of)?;
    Ok(if released { 0 } else { lost(&args.key, "before it was unlocked") })
}

pub async fn renew(args: &Renew, server: &Server) -> Result<u8, Failure> {
    let names = wait::names(&args.key, args.of.all)?;
    let holder = token::holder(&args.of)?;
    let (locks, at) = address::connect(server).await?;
    let mut renewed = true;
    for name in names {
        let answer = operators::renew_of(&locks, name, &holder, args.lease).await;
        renewed &= answer.map_err(|why| Failure::unanswered(&at, &why))?;
    }
    Ok(if renewed { 0 } else { lost(&args.key, "before it was renewed") })
}

fn lost(key: &OsStr, when: &str) -> u8 {
    let key = shown::name(key.as_bytes());
    let why = "its lease had ended, or it was unlocked or broken";
    say(&format!("{key}: the lock was lost {when}, others may have had it: {why}"));
    exit::LOST
}
