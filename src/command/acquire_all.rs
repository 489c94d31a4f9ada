//! ```text
//! RLOCK.MACQUIRE numkeys key [key ...] holder lease-ms [WAIT ms [MAX n] [SESSION session ticket]] [FENCED]
//! ```
//! Several plain locks, all or none. What is held then is held as if each had been acquired alone, and is given back and
//! renewed lock by lock.
//!
//! The server finds the keys by their number, for access rights and slots. It reads the number as this does: else a client
//! could name keys that nobody has checked.

use super::acquire::{Options, reply_to};
use super::arguments::{WRONG_ARITY, holder, lease};
use crate::server::waiting::{self, Waiting};
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str};
use rlock_core::lock::{Side, Wish, decimal};
use std::collections::HashSet;

/// RLOCK.MACQUIRE
pub struct AcquireAll;

/// The most locks of one command. The server serves nobody else while it looks at them.
const KEYS_MAX: usize = 64;

impl Command for AcquireAll {
    const SPEC: Spec = Spec {
        name: c"rlock.macquire",
        summary: c"Acquires several exclusive locks with a lease, all or none.",
        complexity: c"O(N*log(W)+M) with N the number of keys, W that of waiters, and M that of the keys of up to 16 requests that wait before this one",
        flags: c"write deny-oom getkeys-api",
        audience: Audience::Services,
        key: KeyUse::UpdatesSeveral,
        arguments: &[
            "numkeys",
            "key ...",
            "holder",
            "lease-ms",
            "[WAIT wait-ms]",
            "[MAX max-waiters]",
            "[FENCED]",
            "[SESSION session ticket]",
        ],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let (keys, wish, waiting) = parse(arguments)?;
        reply_to(waiting::acquire_all(context, keys, &wish, waiting)?, wish.fenced)
    }
}

/// The keys, and what is asked of each.
type Request<'a, A> = (&'a [A], Wish<A>, Option<Waiting<(A, A)>>);

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A]) -> Result<Request<'_, A>, ErrorLine> {
    let [_, count, rest @ ..] = arguments else { return Err(WRONG_ARITY) };
    let count = decimal(count.as_ref()).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| (1..=KEYS_MAX).contains(count)).ok_or(NUMKEYS)?;
    let (keys, rest) = rest.split_at_checked(count).ok_or(WRONG_ARITY)?;
    let [name, lease_ms, options @ ..] = rest else { return Err(WRONG_ARITY) };
    let mut seen = HashSet::with_capacity(count);
    if !keys.iter().all(|key| seen.insert(key.as_ref())) {
        return Err(KEY_TWICE);
    }
    let (holder, lease) = (holder(*name)?, lease(lease_ms.as_ref())?);
    let Options { waiting, fenced, .. } = Options::parse(options, false)?;
    Ok((keys, Wish { holder, side: Side::Plain, lease, fenced }, waiting))
}

const NUMKEYS: ErrorLine = ErrorLine(c"ERR numkeys must be an integer from 1 to 64, the number of keys that follow");

const KEY_TWICE: ErrorLine = ErrorLine(c"ERR key given twice: name each lock once");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{HOLDER, LEASE};

    fn error(arguments: &[&[u8]]) -> ErrorLine {
        parse(&[&[&b"_"[..]], arguments].concat()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn so_many_keys_as_are_told() {
        let arguments = [&b"_"[..], b"2", b"a", b"b", b"h", b"7", b"fenced", b"WAIT", b"0"];
        let (keys, wish, waiting) = parse(&arguments).unwrap();
        assert_eq!((keys, wish.holder, wish.fenced), (&[&b"a"[..], b"b"][..], &b"h"[..], true));
        assert_eq!(waiting, Some(Waiting { limit_ms: 0, max: None, ticket: None }));
        for count in [&b"0"[..], b"-1", b"65", b"", b"x", b"1.0", b"+1", b"01", b"9223372036854775808"] {
            assert_eq!(error(&[count, b"a", b"h", b"7"]), NUMKEYS, "{count:?}");
        }
        for short in [&[&b"1"[..]][..], &[b"1", b"a"], &[b"1", b"a", b"h"], &[b"2", b"a", b"h", b"7"], &[b"64", b"a"]] {
            assert_eq!(error(short), WRONG_ARITY, "{short:?}");
        }
        assert_eq!(error(&[b"3", b"a", b"b", b"a", b"h", b"7"]), KEY_TWICE);
        assert_eq!(error(&[b"1", b"a", b"mode", b"7"]), HOLDER);
        assert_eq!(error(&[b"1", b"a", b"b", b"h", b"7"]), LEASE, "a key too many is taken for the holder");
    }
}
