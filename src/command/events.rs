//! ```text
//! RLOCK.EVENTS session [ACK seq] [WAIT ms] [TTL ms]
//! ```
//! What became of a session's tickets. Opens the session, and shows that its process is alive.
//!
//! No write: a server that has become a replica still has to tell its tickets so.

use super::arguments::{WAIT_TWICE, WRONG_ARITY, once, session, wait_ms};
use crate::server::waiting::{self, EventsCall};
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str};
use rlock_core::lock::decimal;

/// RLOCK.EVENTS
pub struct Events;

impl Command for Events {
    const SPEC: Spec = Spec {
        name: c"rlock.events",
        summary: c"Tells a session what became of its tickets, or waits until it can; opens the session.",
        complexity: c"O(N) with N the number of events told, at most 128 KiB at once; what is acknowledged beyond 256 events is freed later",
        flags: c"allow-stale",
        audience: Audience::Services,
        key: KeyUse::NoKey,
        arguments: &["session", "[ACK seq]", "[WAIT wait-ms]", "[TTL ttl-ms]"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let (session, call) = parse(arguments)?;
        waiting::events(context, session, call)?;
        Ok(Reply::Written)
    }
}

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A]) -> Result<(A, EventsCall), ErrorLine> {
    let [_, name, options @ ..] = arguments else { return Err(WRONG_ARITY) };
    let session = session(Some(*name))?;
    let (mut options, mut call) = (options.iter().copied(), EventsCall::default());
    while let Some(option) = options.next() {
        let word = option.as_ref();
        if word.eq_ignore_ascii_case(b"ACK") {
            let seq = options.next().and_then(|seq| decimal(seq.as_ref())).and_then(|seq| u64::try_from(seq).ok());
            once(&mut call.acknowledged, seq.ok_or(ACK)?, ACK_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"WAIT") {
            once(&mut call.wait_ms, wait_ms(options.next())?, WAIT_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"TTL") {
            let ms = options.next().and_then(|ms| decimal(ms.as_ref())).filter(|ms| (1_000..=600_000).contains(ms));
            once(&mut call.ttl_ms, ms.ok_or(TTL)?, TTL_TWICE)?;
        } else {
            return Err(OPTION);
        }
    }
    Ok((session, call))
}

const ACK: ErrorLine = ErrorLine(c"ERR ACK must be the number of an event, from 0 to that of the last one told");

const ACK_TWICE: ErrorLine = ErrorLine(c"ERR option ACK given twice: each is allowed once");

const TTL: ErrorLine = ErrorLine(c"ERR TTL must be an integer number of ms from 1000 to 600000");

const TTL_TWICE: ErrorLine = ErrorLine(c"ERR option TTL given twice: each is allowed once");

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: after session come ACK seq, WAIT ms and TTL ms");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{SESSION, WAIT};
    use crate::server::waiting::TOLD_BYTES_MAX;

    fn call(options: &[&[u8]]) -> Result<EventsCall, ErrorLine> {
        parse(&[&[&b"_"[..], b"0123456789abcdef"], options].concat()).map(|(_, call)| call)
    }

    #[test]
    fn the_bound_of_a_reply_is_as_it_is_documented() {
        let bound = format!("at most {} KiB at once", TOLD_BYTES_MAX / 1_024);
        assert!(Events::SPEC.complexity.to_string_lossy().contains(&bound), "{bound}");
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        assert_eq!(call(&[]), Ok(EventsCall::default()));
        let all = EventsCall { acknowledged: Some(7), wait_ms: Some(0), ttl_ms: Some(1_000) };
        assert_eq!(call(&[b"ACK", b"7", b"WAIT", b"0", b"TTL", b"1000"]), Ok(all));
        assert_eq!(call(&[b"ttl", b"1000", b"Wait", b"0", b"ack", b"7"]), Ok(all));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse(&[&b"_"[..]]).unwrap_err(), WRONG_ARITY);
        assert_eq!(parse(&[&b"_"[..], b"short"]).unwrap_err(), SESSION);
        for seq in [&b"-1"[..], b"", b"x", b"9223372036854775808"] {
            assert_eq!(call(&[b"ACK", seq]), Err(ACK));
        }
        for ms in [&b"999"[..], b"600001", b"0", b"-1", b"x"] {
            assert_eq!(call(&[b"TTL", ms]), Err(TTL));
        }
        assert_eq!((call(&[b"WAIT", b"-1"]), call(&[b"WAIT"])), (Err(WAIT), Err(WAIT)));
        assert_eq!(call(&[b"ACK", b"1", b"ACK", b"1"]), Err(ACK_TWICE));
        assert_eq!(call(&[b"WAIT", b"1", b"WAIT", b"1"]), Err(WAIT_TWICE));
        assert_eq!(call(&[b"TTL", b"1000", b"TTL", b"1000"]), Err(TTL_TWICE));
        assert_eq!(call(&[b"COUNT", b"1"]), Err(OPTION));
    }
}
