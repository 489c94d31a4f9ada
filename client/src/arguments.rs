//! Arguments that are refused before anything is sent, with the same rules in all languages.

use rlock_client_core::Error;
use rlock_client_core::Terms;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The server's limit.
const NAMES_MAX: usize = 64;
const PERMITS_MAX: u32 = 100_000;
const OWNER_MAX: usize = 512;

type Name = Arc<[u8]>;

/// Returns the first name and the others.
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), with the first broken rule.
pub(crate) fn checked<'a>(
    names: &'a [Name],
    shown: &str,
    terms: &Terms,
    owner: Option<&[u8]>,
) -> Result<(&'a Name, &'a [Name]), Error> {
    let lease = terms.lease.length().as_millis();
    let is_owner =
        |owner: &[u8]| (1..=OWNER_MAX).contains(&owner.len()) && owner != b"mode" && !owner.ends_with(b":write");
    let rules = [
        (names.len() <= NAMES_MAX, "there are more than 64 names"),
        (names.iter().all(|name| !name.is_empty()), "a name is empty"),
        (names.len() < 2 || names.iter().collect::<BTreeSet<_>>().len() == names.len(), "a name is given twice"),
        (lease >= 1, "the lease must be at least 1 ms"),
        (i64::try_from(lease).is_ok(), "the lease is longer than the server can count"),
        (terms.permits.is_none_or(|limit| (1..=PERMITS_MAX).contains(&limit)), "the limit must be 1 to 100,000"),
        (terms.max != Some(0), "max_waiters must be at least 1"),
        (terms.replicas.is_none_or(|replicas| replicas.wanted > 0), "replicas must be at least 1"),
        (owner.is_none_or(is_owner), "the owner must be 1 to 512 bytes, not \"mode\", and not end in \":write\""),
    ];
    let about = if shown.is_empty() { "lock" } else { shown };
    match rules.iter().find(|(is_kept, _)| !is_kept) {
        Some((_, why)) => Err(Error::configuration(about, why)),
        None => names.split_first().ok_or_else(|| Error::configuration(about, "at least one name is needed")),
    }
}

/// A time that the server counts in whole ms.
pub(crate) fn check_time(about: &str, time: Duration, why: &'static str) -> Result<(), Error> {
    let is_right = (1..=i64::MAX.unsigned_abs().into()).contains(&time.as_millis());
    if is_right { Ok(()) } else { Err(Error::configuration(about, why)) }
}
