//! CMD has ended: the lock is given back.

use super::reason;
use crate::arguments::Run;
use crate::exit;
use crate::failure::say;
use crate::shown;
use rlock_client::{Error, Guard, Loss};
use std::os::unix::ffi::OsStrExt;

/// CMD has ended with this code. Returns ours.
pub async fn give_back(guard: Guard, wish: &Run, code: u8) -> u8 {
    let key = shown::name(wish.key.as_bytes());
    let loss = guard.loss();
    let Err(error) = guard.release().await else { return code };
    match loss.or_else(|| loss_by_release(&error)) {
        Some(loss) => {
            let why = reason::of(&loss);
            say(&format!("{key}: the lock was lost before CMD had ended (with {code}), others may have had it: {why}"));
            exit::LOST
        }
        None => {
            let lease = shown::time(wish.lease);
            say(&format!("{error}; CMD had the lock all the time, which ends with its lease, in {lease} at most"));
            code
        }
    }
}

/// It was not held any more, and nobody knew before.
fn loss_by_release(error: &Error) -> Option<Loss> {
    match error.code() {
        _ if !error.is_lost() => None,
        Some(_) => Some(Loss::Overwritten(error.clone())),
        None => Some(Loss::NotHeld),
    }
}
