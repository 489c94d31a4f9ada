//! ```text
//! RLOCK.ACQUIRE  key holder lease-ms [WAIT ms [MAX n] [SESSION session ticket]] [FENCED]
//! RLOCK.RACQUIRE key holder lease-ms [WAIT ms [MAX n] [SESSION session ticket]] [FENCED]
//! RLOCK.WACQUIRE key holder lease-ms [WAIT ms [MAX n] [SESSION session ticket]] [FENCED]
//! RLOCK.PACQUIRE key holder lease-ms LIMIT n [WAIT ms [MAX n] [SESSION session ticket]] [FENCED]
//! ```
//! One grammar, four kinds of hold: a plain lock, the read side and the write side of a read-write lock, and one of so many
//! permits.
//!
//! With WAIT, a client that is not granted the lock at once is blocked until it is, or until its time is up. With
//! SESSION, a ticket waits in its place, and the session is told. With MAX, neither waits behind as many others.

use super::arguments::{
    LIMIT, WAIT_TWICE, WRONG_ARITY, holder, lease, limit, max_waiters, once, session, ticket, wait_ms,
};
use crate::server::waiting::{self, Acquiring, Waiting};
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, reply};
use rlock_core::lock::{Limit, Side, Wish};

/// One of the four commands.
macro_rules! command {
    ($command:ident, $kind:expr, $name:literal, $spec:expr, $summary:literal) => {
        pub struct $command;

        impl Command for $command {
            const SPEC: Spec = Spec { name: $name, summary: $summary, ..$spec };

            fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
                acquire(context, arguments, $kind)
            }
        }
    };
}

command!(
    Acquire,
    Kind::Of(Side::Plain),
    c"rlock.acquire",
    SPEC,
    c"Acquires an exclusive lock, or re-enters it, with a lease."
);
command!(
    ReadAcquire,
    Kind::Of(Side::Read),
    c"rlock.racquire",
    SPEC,
    c"Acquires the read side of a read-write lock; each read hold has its own lease."
);
command!(
    WriteAcquire,
    Kind::Of(Side::Write),
    c"rlock.wacquire",
    SPEC,
    c"Acquires the write side of a read-write lock, or re-enters it, with a lease."
);
command!(
    PermitAcquire,
    Kind::Permit,
    c"rlock.pacquire",
    OF_PERMITS,
    c"Acquires one of at most so many permits, or restarts the lease of the one that the holder has."
);

/// What the command's name says of the side.
#[derive(Clone, Copy)]
enum Kind {
    Of(Side),
    /// LIMIT says the rest.
    Permit,
}

const SPEC: Spec = Spec {
    name: c"",
    summary: c"",
    complexity: c"O(1)",
    flags: c"write deny-oom",
    audience: Audience::Services,
    key: KeyUse::Updates,
    arguments: &["key", "holder", "lease-ms", WAIT, MAX, FENCED, SESSION],
};

const OF_PERMITS: Spec = Spec {
    complexity: c"O(log(N)+M) with N the number of permits and M that of those which have ended and are not dropped yet; drops at most 1000",
    arguments: &["key", "holder", "lease-ms", "LIMIT limit", WAIT, MAX, FENCED, SESSION],
    ..SPEC
};

const WAIT: &str = "[WAIT wait-ms]";
const MAX: &str = "[MAX max-waiters]";
const FENCED: &str = "[FENCED]";
const SESSION: &str = "[SESSION session ticket]";

fn acquire(context: &Context, arguments: &[Str<'_>], kind: Kind) -> Result<Reply, ErrorLine> {
    let (key, wish, waiting) = parse(arguments, kind)?;
    reply_to(waiting::acquire(context, key, &wish, waiting)?, wish.fenced)
}

#[allow(clippy::inline_always, reason = "what a plain lock comes to passes through here, and is copied otherwise")]
#[inline(always)]
pub(super) fn reply_to(acquiring: Acquiring, fenced: bool) -> Result<Reply, ErrorLine> {
    match acquiring {
        Acquiring::Done(outcome) => reply::of_acquire(outcome, fenced),
        Acquiring::GrantedAll { tokens } => Ok(reply::of_several(tokens)),
        Acquiring::Blocked(_) => Ok(Reply::Later),
        Acquiring::Waiting => Ok(Reply::Word(c"WAITING")),
        Acquiring::TurnedAway { waiting } => Ok(Reply::TurnedAway(waiting)),
    }
}

/// The key, and what is asked of it.
type Request<A> = (A, Wish<A>, Option<Waiting<(A, A)>>);

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A], kind: Kind) -> Result<Request<A>, ErrorLine> {
    let [_, key, name, lease_ms, options @ ..] = arguments else { return Err(WRONG_ARITY) };
    let (holder, lease) = (holder(*name)?, lease(lease_ms.as_ref())?);
    // Most requests have none.
    let options = (!options.is_empty()).then(|| Options::parse(options, matches!(kind, Kind::Permit))).transpose()?;
    let Options { waiting, fenced, limit } = options.unwrap_or(Options { waiting: None, fenced: false, limit: None });
    let side = match kind {
        Kind::Of(side) => side,
        Kind::Permit => Side::Permit(limit.ok_or(LIMIT)?),
    };
    Ok((*key, Wish { holder, side, lease, fenced }, waiting))
}

/// What all commands that acquire have in common behind the lease.
pub(super) struct Options<A> {
    pub waiting: Option<Waiting<(A, A)>>,
    pub fenced: bool,
    /// Of permits.
    pub limit: Option<Limit>,
}

impl<A: AsRef<[u8]> + Copy> Options<A> {
    pub fn parse(options: &[A], with_limit: bool) -> Result<Self, ErrorLine> {
        let mut options = options.iter().copied();
        let (mut limit_ms, mut max, mut fenced, mut by_ticket) = (None, None, None, None);
        let mut permits = None;
        while let Some(option) = options.next() {
            let word = option.as_ref();
            if word.eq_ignore_ascii_case(b"FENCED") {
                once(&mut fenced, (), FENCED_TWICE)?;
            } else if word.eq_ignore_ascii_case(b"WAIT") {
                once(&mut limit_ms, wait_ms(options.next())?, WAIT_TWICE)?;
            } else if word.eq_ignore_ascii_case(b"MAX") {
                once(&mut max, max_waiters(options.next())?, MAX_TWICE)?;
            } else if word.eq_ignore_ascii_case(b"SESSION") {
                let names = (session(options.next())?, ticket(options.next())?);
                once(&mut by_ticket, names, SESSION_TWICE)?;
            } else if with_limit && word.eq_ignore_ascii_case(b"LIMIT") {
                once(&mut permits, limit(options.next())?, LIMIT_TWICE)?;
            } else {
                return Err(if with_limit { PERMIT_OPTION } else { OPTION });
            }
        }
        if by_ticket.is_some() && limit_ms.is_none() {
            return Err(SESSION_WITHOUT_WAIT);
        }
        if max.is_some() && limit_ms.is_none() {
            return Err(MAX_WITHOUT_WAIT);
        }
        let waiting = limit_ms.map(|limit_ms| Waiting { limit_ms, max, ticket: by_ticket });
        Ok(Self { waiting, fenced: fenced.is_some(), limit: permits })
    }
}

const FENCED_TWICE: ErrorLine = ErrorLine(c"ERR option FENCED given twice: each is allowed once");

const MAX_TWICE: ErrorLine = ErrorLine(c"ERR option MAX given twice: each is allowed once");

const MAX_WITHOUT_WAIT: ErrorLine =
    ErrorLine(c"ERR MAX needs WAIT ms: it bounds the queue, and without WAIT nothing waits");

const SESSION_TWICE: ErrorLine = ErrorLine(c"ERR option SESSION given twice: each is allowed once");

const SESSION_WITHOUT_WAIT: ErrorLine =
    ErrorLine(c"ERR SESSION needs WAIT ms: without it there is no wait for a ticket");

const OPTION: ErrorLine =
    ErrorLine(c"ERR option unknown: after lease-ms come WAIT ms, MAX n, FENCED and SESSION session ticket");

const LIMIT_TWICE: ErrorLine = ErrorLine(c"ERR option LIMIT given twice: each is allowed once");

const PERMIT_OPTION: ErrorLine =
    ErrorLine(c"ERR option unknown: after lease-ms come LIMIT n, WAIT ms, MAX n, FENCED and SESSION session ticket");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{HOLDER, LEASE, MAX, SESSION, TICKET, WAIT};
    use rlock_core::lock::Lease;

    fn plain<'a>(arguments: &[&'a [u8]]) -> Result<Request<&'a [u8]>, ErrorLine> {
        parse(arguments, Kind::Of(Side::Plain))
    }

    fn error(arguments: &[&[u8]]) -> ErrorLine {
        plain(arguments).map(|_| ()).unwrap_err()
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let orders: [&[&[u8]]; 2] =
            [&[b"_", b"k", b"h", b"7", b"wait", b"0", b"Fenced"], &[b"_", b"k", b"h", b"7", b"FENCED", b"WaIt", b"0"]];
        for arguments in orders {
            let (key, wish, waiting) = plain(arguments).unwrap();
            assert_eq!(key, b"k");
            let lease = Lease::from_ms(7).unwrap();
            assert_eq!(wish, Wish { holder: &b"h"[..], side: Side::Plain, lease, fenced: true });
            assert_eq!(waiting, Some(Waiting { limit_ms: 0, max: None, ticket: None }));
        }
        let (_, wish, waiting) = plain(&[&b"_"[..], b"k", b"h", b"7"]).unwrap();
        assert_eq!((wish.fenced, waiting), (false, None));
    }

    #[test]
    fn a_ticket_has_a_session_and_a_wait() {
        let session = &b"0123456789abcdef"[..];
        let orders: [&[&[u8]]; 2] = [
            &[b"_", b"k", b"h", b"7", b"WAIT", b"5", b"SESSION", session, b"t"],
            &[b"_", b"k", b"h", b"7", b"session", session, b"t", b"FENCED", b"wait", b"5"],
        ];
        for arguments in orders {
            let waiting = Waiting { limit_ms: 5, max: None, ticket: Some((session, &b"t"[..])) };
            assert_eq!(plain(arguments).unwrap().2, Some(waiting));
        }
        let options = |options: &[&[u8]]| error(&[&[&b"_"[..], b"k", b"h", b"7"], options].concat());
        assert_eq!(options(&[b"SESSION", session, b"t"]), SESSION_WITHOUT_WAIT);
        let twice = [&b"WAIT"[..], b"5", b"SESSION", session, b"t", b"SESSION", session, b"t"];
        assert_eq!(options(&twice), SESSION_TWICE);
        for (session, ticket, expected) in [
            (&b"0123456789abcde"[..], &b"t"[..], SESSION),
            (&[b's'; 65], b"t", SESSION),
            (session, b"", TICKET),
            (session, &[b't'; 65], TICKET),
        ] {
            assert_eq!(options(&[b"WAIT", b"5", b"SESSION", session, ticket]), expected);
        }
        assert_eq!(options(&[b"WAIT", b"5", b"SESSION"]), SESSION);
        assert_eq!(options(&[b"WAIT", b"5", b"SESSION", session]), TICKET);
    }

    #[test]
    fn a_bound_on_the_queue_has_a_wait() {
        let options = |options: &[&'static [u8]]| plain(&[&[&b"_"[..], b"k", b"h", b"7"], options].concat());
        let session = &b"0123456789abcdef"[..];
        assert_eq!(options(&[b"WAIT", b"5", b"MAX", b"1"]).unwrap().2.unwrap().max, Some(1));
        let by_ticket = options(&[b"max", b"9223372036854775807", b"SESSION", session, b"t", b"WAIT", b"5"]);
        let waiting = by_ticket.unwrap().2.unwrap();
        assert_eq!((waiting.max, waiting.ticket), (usize::try_from(i64::MAX).ok(), Some((session, &b"t"[..]))));
        let error = |words: &[&'static [u8]]| options(words).map(|_| ()).unwrap_err();
        assert_eq!(error(&[b"MAX", b"1"]), MAX_WITHOUT_WAIT);
        assert_eq!(error(&[b"WAIT", b"5", b"MAX", b"1", b"MAX", b"1"]), MAX_TWICE);
        assert_eq!(error(&[b"WAIT", b"5", b"MAX"]), MAX);
        for max in [&b"0"[..], b"-1", b"", b"1.5", b"+1", b"01", b"many", b"9223372036854775808"] {
            assert_eq!(error(&[b"WAIT", b"5", b"MAX", max]), MAX, "{max:?}");
        }
    }

    #[test]
    fn a_permit_has_a_limit() {
        let options =
            |options: &[&'static [u8]]| parse(&[&[&b"_"[..], b"k", b"h", b"7"], options].concat(), Kind::Permit);
        let side = |words: &[&'static [u8]]| options(words).map(|(_, wish, _)| wish.side);
        let permit = |limit| Ok(Side::Permit(Limit::new(limit).unwrap()));
        assert_eq!(side(&[b"LIMIT", b"1"]), permit(1));
        assert_eq!(side(&[b"fenced", b"limit", b"100000", b"WAIT", b"0"]), permit(100_000));
        assert_eq!(side(&[b"LIMIT", b"1", b"limit", b"1"]), Err(LIMIT_TWICE));
        assert_eq!(side(&[b"LIMIT", b"1", b"ALL"]), Err(PERMIT_OPTION));
        for words in [&[&b"LIMIT"[..]][..], &[], &[b"WAIT", b"0"]] {
            assert_eq!(side(words), Err(LIMIT), "{words:?}");
        }
        for limit in [&b"0"[..], b"-1", b"", b"1.5", b"+1", b"01", b"many", b"100001", b"9223372036854775808"] {
            assert_eq!(side(&[b"LIMIT", limit]), Err(LIMIT), "{limit:?}");
        }
        assert_eq!(error(&[b"_", b"k", b"h", b"7", b"LIMIT", b"1"]), OPTION, "nothing else has one");
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
