//! ```text
//! RLOCK.RENEW key holder lease-ms
//! ```

use super::arguments::{WRONG_ARITY, holder, lease};
use crate::server::waiting;
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str};
use rlock_core::lock::{Lease, Renewed};

/// RLOCK.RENEW
pub struct Renew;

impl Command for Renew {
    const SPEC: Spec = Spec {
        name: c"rlock.renew",
        summary: c"Restarts the lease of all holds of this holder on a lock.",
        complexity: c"O(1). For read holds O(N) with N their number; if the lease becomes shorter, with N the number of the read holds of all holders, of which it looks at most at 256",
        flags: c"write",
        audience: Audience::Services,
        key: KeyUse::Updates,
        arguments: &["key", "holder", "lease-ms"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let (key, holder, lease) = parse(arguments)?;
        let renewed = waiting::renew(context, key, holder, lease)?;
        Ok(Reply::Number(i64::from(renewed == Renewed::Restarted)))
    }
}

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A]) -> Result<(A, A, Lease), ErrorLine> {
    let [_, key, name, lease_ms] = arguments else { return Err(WRONG_ARITY) };
    Ok((*key, holder(*name)?, lease(lease_ms.as_ref())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{HOLDER, LEASE};

    fn outcome(arguments: &[&[u8]]) -> Result<Lease, ErrorLine> {
        parse(arguments).map(|(_, _, lease)| lease)
    }

    #[test]
    fn three_arguments_and_no_more() {
        assert_eq!(outcome(&[b"_", b"k", b"h", b"7"]), Ok(Lease::from_ms(7).unwrap()));
        assert_eq!(outcome(&[b"_", b"k", b"h"]), Err(WRONG_ARITY));
        assert_eq!(outcome(&[b"_", b"k", b"h", b"7", b"7"]), Err(WRONG_ARITY));
        assert_eq!(outcome(&[b"_", b"k", b"h", b"0"]), Err(LEASE));
        assert_eq!(outcome(&[b"_", b"k", b"h:write", b"7"]), Err(HOLDER));
    }
}
