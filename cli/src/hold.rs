//! `rlock hold`: holds a lock until it gets a signal or its input ends.
//!
//! The end of the input counts because a script that is killed closes its end of a pipe. The end of `/dev/null`, the
//! input of services and background jobs, means nothing, nor does that of another job's terminal.

use crate::arguments::{Hold, Server};
use crate::exit;
use crate::failure::{Failure, say};
use crate::lock::token::{Place, lines};
use crate::run::reason;
use crate::run::release::{Done, release};
use crate::shown;
use crate::signals::Signals;
use crate::wait::{self, Lease};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::fstat;
use rlock_client::{Guard, Loss};
use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::thread;
use tokio::sync::oneshot;

const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

pub async fn hold(args: &Hold, server: &Server) -> Result<u8, Failure> {
    wait::names(&args.wish.key, args.wish.all)?;
    wait::must_show_busy(&args.wish.waiting, "the lock were held")?;
    let mut signals = Signals::take(&ENDING)?;
    let held = match wait::acquire(&args.wish, Lease::Held(args.lease), server, &mut signals).await? {
        Ok(held) => held,
        Err(code) => return Ok(code),
    };
    if let Err(failure) = Place::Descriptor(1).write(&lines(&held)) {
        let _ = held.guard.release().await;
        return Err(failure);
    }
    let (guard, key) = (held.guard, args.wish.key.as_bytes());
    if stdin().is_terminal() && wait::has_foreground() && !args.wish.waiting.quiet {
        say(&format!("{}: held; Ctrl-C or Ctrl-D releases it", shown::name(key)));
    }
    if let Some(loss) = until_end_or_loss(&guard, &mut signals).await {
        say(&format!("{}: the lock was lost, others may have it: {}", shown::name(key), reason::of(&loss)));
        return Ok(exit::LOST);
    }
    Ok(release(guard, &mut signals, Done { key, lease: args.lease, cmd: None, code: 0 }).await)
}

/// Returns the reason if the lock was lost.
async fn until_end_or_loss(guard: &Guard, signals: &mut Signals) -> Option<Loss> {
    let mut ended = end_of_input();
    tokio::select! {
        biased;
        () = guard.lost() => Some(guard.loss().unwrap_or(Loss::Ended)),
        _ = signals.next() => None,
        Ok(()) = &mut ended => None,
    }
}

/// The receiver fails if no end of the input will come.
fn end_of_input() -> oneshot::Receiver<()> {
    let (sender, ended) = oneshot::channel();
    // If the shell runs us in the background, reading the terminal has to fail: otherwise it would stop us, and nothing
    // would renew the lease.
    // SAFETY: ignoring a signal runs no code of ours.
    let _ = unsafe { signal(Signal::SIGTTIN, SigHandler::SigIgn) };
    if has_input() {
        // The thread ends with the program.
        thread::spawn(move || {
            if std::io::copy(&mut stdin().lock(), &mut std::io::sink()).is_ok() {
                let _ = sender.send(());
            }
        });
    }
    ended
}

fn has_input() -> bool {
    let null = std::fs::metadata("/dev/null").map_or(0, |null| null.rdev());
    fstat(stdin()).is_ok_and(|input| input.st_rdev == 0 || input.st_rdev != null)
}
