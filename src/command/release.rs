//! ```text
//! RLOCK.RELEASE key holder [READ|WRITE] [LEASE lease-ms] [ALL]
//! ```

use super::arguments::{LEASE, WRONG_ARITY, holder, lease, once};
use crate::server::waiting;
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str};
use rlock_core::lock::{self, Released, Side};

/// RLOCK.RELEASE
pub struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"rlock.release",
        summary: c"Releases one hold on a lock, or all holds of this holder.",
        complexity:
            c"O(1). For a read hold O(N) with N the number of remaining read holds, at most 256: with up to 16 readers it looks at all, with more only if the released hold ends with the lock",
        flags: c"write",
        audience: Audience::Services,
        key: KeyUse::Deletes,
        arguments: &["key", "holder", "[READ|WRITE]", "[LEASE lease-ms]", "[ALL]"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let (key, holder, want) = parse(arguments)?;
        let released = waiting::release(context, key, holder, want)?;
        Ok(match released {
            Released::NotHeld => Reply::Nil,
            Released::StillHeld => Reply::Number(0),
            Released::Free => Reply::Number(1),
        })
    }
}

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A]) -> Result<(A, A, lock::Release), ErrorLine> {
    let [_, key, name, options @ ..] = arguments else { return Err(WRONG_ARITY) };
    let (holder, mut options) = (holder(*name)?, options.iter());
    let (mut side, mut restart, mut all) = (None, None, None);
    while let Some(option) = options.next() {
        let word = option.as_ref();
        if word.eq_ignore_ascii_case(b"READ") {
            once(&mut side, Side::Read, SIDE_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"WRITE") {
            once(&mut side, Side::Write, SIDE_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"LEASE") {
            let ms = options.next().ok_or(LEASE)?;
            once(&mut restart, lease(ms.as_ref())?, LEASE_TWICE)?;
        } else if word.eq_ignore_ascii_case(b"ALL") {
            once(&mut all, (), ALL_TWICE)?;
        } else {
            return Err(OPTION);
        }
    }
    Ok((*key, holder, lock::Release { side, lease: restart, all: all.is_some() }))
}

const SIDE_TWICE: ErrorLine = ErrorLine(c"ERR option READ or WRITE given twice: one of them is allowed, once");

const LEASE_TWICE: ErrorLine = ErrorLine(c"ERR option LEASE given twice: each is allowed once");

const ALL_TWICE: ErrorLine = ErrorLine(c"ERR option ALL given twice: each is allowed once");

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: after holder come READ or WRITE, LEASE lease-ms, and ALL");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::HOLDER;
    use rlock_core::lock::Lease;

    fn want(options: &[&[u8]]) -> Result<lock::Release, ErrorLine> {
        parse(&[&[&b"_"[..], b"k", b"h"], options].concat()).map(|(_, _, want)| want)
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        let everything = lock::Release { side: Some(Side::Write), lease: Some(Lease::from_ms(5).unwrap()), all: true };
        assert_eq!(want(&[b"write", b"Lease", b"5", b"ALL"]), Ok(everything));
        assert_eq!(want(&[b"all", b"LEASE", b"5", b"WRITE"]), Ok(everything));
        assert_eq!(want(&[b"READ"]), Ok(lock::Release { side: Some(Side::Read), lease: None, all: false }));
        assert_eq!(want(&[]), Ok(lock::Release { side: None, lease: None, all: false }));
    }

    #[test]
    fn what_is_missing_or_doubled_is_refused() {
        assert_eq!(parse(&[&b"_"[..], b"k"]).map(|_| ()), Err(WRONG_ARITY));
        assert_eq!(parse(&[&b"_"[..], b"k", b"mode"]).map(|_| ()), Err(HOLDER));
        assert_eq!(want(&[b"READ", b"WRITE"]), Err(SIDE_TWICE));
        assert_eq!(want(&[b"READ", b"READ"]), Err(SIDE_TWICE));
        assert_eq!(want(&[b"ALL", b"ALL"]), Err(ALL_TWICE));
        assert_eq!(want(&[b"LEASE", b"1", b"LEASE", b"1"]), Err(LEASE_TWICE));
        assert_eq!(want(&[b"LEASE"]), Err(LEASE));
        assert_eq!(want(&[b"LEASE", b"0"]), Err(LEASE));
        assert_eq!(want(&[b"FENCED"]), Err(OPTION));
    }
}
