//! ```text
//! RLOCK.ACQUIRE  key holder lease-ms [WAIT ms] [FENCED]
//! RLOCK.RACQUIRE key holder lease-ms [WAIT ms] [FENCED]
//! RLOCK.WACQUIRE key holder lease-ms [WAIT ms] [FENCED]
//! ```
//! One grammar, three kinds of hold: a plain lock, the read side and the write side of a read-write lock.
//!
//! With WAIT, a client that is not granted the lock at once is blocked until it is, or until its time is up.

use super::arguments::{Subject, lease, next, once};
use crate::lock::{Side, Wish, decimal};
use crate::server::{Argument, Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, reply, waiting};

/// One of the three commands.
macro_rules! command {
    ($command:ident, $side:expr, $name:literal, $summary:literal) => {
        pub struct $command;

        impl Command for $command {
            const SPEC: Spec = Spec { name: $name, summary: $summary, ..SPEC };

            fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
                acquire(context, arguments, $side)
            }
        }
    };
}

command!(Acquire, Side::Plain, c"rlock.acquire", c"Acquires an exclusive lock, or re-enters it, with a lease.");
command!(
    ReadAcquire,
    Side::Read,
    c"rlock.racquire",
    c"Acquires the read side of a read-write lock; each read hold has its own lease."
);
command!(
    WriteAcquire,
    Side::Write,
    c"rlock.wacquire",
    c"Acquires the write side of a read-write lock, or re-enters it, with a lease."
);

const SPEC: Spec = Spec {
    name: c"",
    summary: c"",
    complexity: c"O(1)",
    arity: -4,
    flags: c"write deny-oom",
    audience: Audience::Services,
    key: KeyUse::Updates,
    arguments: &[
        Argument::Key(c"key"),
        Argument::Text(c"holder"),
        Argument::Integer(c"lease-ms"),
        Argument::Option { name: c"wait-ms", word: c"WAIT" },
        Argument::Flag { name: c"fenced", word: c"FENCED" },
    ],
};

fn acquire(context: &Context, arguments: &[Str<'_>], side: Side) -> Result<Reply, ErrorLine> {
    let Request { key, wish, wait_ms } = parse(arguments, side)?;
    match waiting::acquire(context, key, &wish, wait_ms)? {
        Some(outcome) => reply::of_acquire(outcome, wish.fenced),
        None => Ok(Reply::Later),
    }
}

struct Request<A> {
    key: A,
    wish: Wish<A>,
    /// 0 means for ever.
    wait_ms: Option<i64>,
}

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A], side: Side) -> Result<Request<A>, ErrorLine> {
    let mut arguments = arguments.iter().copied().skip(1);
    let Subject { key, holder } = Subject::parse(&mut arguments)?;
    let lease = lease(next(&mut arguments)?.as_ref())?;
    let (mut wait_ms, mut fenced) = (None, None);
    while let Some(option) = arguments.next() {
        let word = option.as_ref();
        if word.eq_ignore_ascii_case(b"FENCED") {
            once(&mut fenced, (), FENCED_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"WAIT") {
            let ms = arguments.next().and_then(|ms| decimal(ms.as_ref())).filter(|ms| *ms >= 0);
            once(&mut wait_ms, ms.ok_or(WAIT)?, WAIT_TWICE)?;
        } else {
            return Err(OPTION);
        }
    }
    Ok(Request { key, wish: Wish { holder, side, lease, fenced: fenced.is_some() }, wait_ms })
}

const WAIT: ErrorLine = ErrorLine(c"ERR WAIT must be an integer number of ms from 0 (for ever) to 9223372036854775807");

const WAIT_TWICE: ErrorLine = ErrorLine(c"ERR option WAIT given twice: each is allowed once");

const FENCED_TWICE: ErrorLine = ErrorLine(c"ERR option FENCED given twice: each is allowed once");

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: after lease-ms come WAIT ms and FENCED");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{HOLDER, LEASE, WRONG_ARITY};
    use crate::lock::Lease;

    fn plain<'a>(arguments: &[&'a [u8]]) -> Result<Request<&'a [u8]>, ErrorLine> {
        parse(arguments, Side::Plain)
    }

    fn error(arguments: &[&[u8]]) -> ErrorLine {
        plain(arguments).map(|_| ()).unwrap_err()
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let orders: [&[&[u8]]; 2] =
            [&[b"_", b"k", b"h", b"7", b"wait", b"0", b"Fenced"], &[b"_", b"k", b"h", b"7", b"FENCED", b"WaIt", b"0"]];
        for arguments in orders {
            let request = plain(arguments).unwrap();
            assert_eq!(request.key, b"k");
            let lease = Lease::from_ms(7).unwrap();
            assert_eq!(request.wish, Wish { holder: &b"h"[..], side: Side::Plain, lease, fenced: true });
            assert_eq!(request.wait_ms, Some(0));
        }
        let bare = plain(&[&b"_"[..], b"k", b"h", b"7"]).unwrap();
        assert_eq!((bare.wish.fenced, bare.wait_ms), (false, None));
    }

    #[test]
    fn what_is_missing_or_doubled_is_refused() {
        assert_eq!(error(&[b"_"]), WRONG_ARITY);
        assert_eq!(error(&[b"_", b"k", b"h"]), WRONG_ARITY);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"FENCED", b"fenced"]), FENCED_TWICE);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"WAIT", b"1", b"WAIT", b"1"]), WAIT_TWICE);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"WAIT"]), WAIT);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"WAIT", b"-1"]), WAIT);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"WAIT", b"9223372036854775808"]), WAIT);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"ALL"]), OPTION);
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b""]), OPTION);
    }

    #[test]
    fn a_holder_fits_the_layout() {
        let longest = [b'h'; 512];
        for holder in [&b"h"[..], b"\0", b"\xff\xfe", b"mode:write:", b"Mode", b"write", b"h:write ", &longest] {
            assert!(plain(&[b"_", b"k", holder, b"7"]).is_ok(), "{holder:?}");
        }
        let too_long = [b'h'; 513];
        for holder in [&b""[..], b"mode", b":write", b"h:write", b"mode:write", &too_long] {
            assert_eq!(error(&[b"_", b"k", holder, b"7"]), HOLDER, "{holder:?}");
        }
    }

    #[test]
    fn a_lease_is_a_positive_integer() {
        for lease in [&b""[..], b"0", b"-1", b"1.5", b" 1", b"+1", b"01", b"9223372036854775808", b"x", b"\xff"] {
            assert_eq!(error(&[b"_", b"k", b"h", lease]), LEASE, "{lease:?}");
        }
        assert!(plain(&[&b"_"[..], b"k", b"h", b"9223372036854775807"]).is_ok());
    }
}
