//! If CMD requests the lock under which it runs, it would wait for itself forever. So `rlock run`, and the output of
//! `rlock lock`, put the holder into CMD's environment.

use super::{divided, limit};
use crate::arguments::Wish;
use crate::exit;
use crate::failure::Failure;
use crate::operators::{HoldSide, Holder, inspect};
use crate::shown;
use rlock_client::Locks;
use std::future::pending;
use std::os::unix::ffi::OsStrExt;

/// The variable that names all holders under which CMD runs: this `rlock` may have been run by another one.
pub const HOLDERS: &str = "RLOCK_HOLDERS";

/// How many holders are looked at.
const SEEN: usize = 1_000;

/// Separated by spaces, which no holder contains.
pub fn with_outer_holders(own: &str) -> String {
    outer_holders().into_iter().chain([own.to_owned()]).collect::<Vec<_>>().join(" ")
}

fn outer_holders() -> Vec<String> {
    let named = [HOLDERS, "RLOCK_HOLDER"].map(|name| std::env::var(name).unwrap_or_default()).join(" ");
    let mut holders: Vec<_> = named.split_ascii_whitespace().map(str::to_owned).collect();
    holders.sort();
    holders.dedup();
    holders
}

/// Returns only if the request would wait for itself. A request that does not wait needs no check.
pub async fn must_not_wait(wish: &Wish, locks: &Locks) -> Failure {
    let outer = outer_holders();
    if outer.is_empty() || limit(wish).is_some_and(|limit| limit.is_zero()) {
        return pending().await;
    }
    let is_outer = |holder: &Holder| outer.iter().any(|outer| outer.as_bytes() == holder.holder);
    for key in divided(&wish.key, wish.all) {
        let is_ours = match inspect(locks, key, SEEN).await {
            Ok(lock) => lock.holders.iter().any(|it| is_outer(it) && excludes(it, wish)),
            // Without the right to inspect, the environment is believed.
            Err(why) if why.is_refused_with("NOPERM") => {
                std::env::var_os("RLOCK_KEY").is_some_and(|held| held.as_bytes() == key)
            }
            Err(_) => false,
        };
        if is_ours {
            let words = "is held by what this runs under (RLOCK_HOLDERS), so it would wait for itself: leave out the inner \
                         rlock, or take another KEY";
            return Failure::new(exit::REFUSED, format!("{}: {words}", shown::name(key)));
        }
    }
    pending().await
}

/// Whether no other client can get the requested lock before this holder releases its own.
fn excludes(holder: &Holder, wish: &Wish) -> bool {
    match holder.side {
        HoldSide::Exclusive | HoldSide::Write => true,
        HoldSide::Read => wish.write,
        HoldSide::Permit => wish.slots == Some(1),
    }
}
