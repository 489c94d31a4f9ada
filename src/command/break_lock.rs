//! ```text
//! RLOCK.BREAK key
//! ```
//! For people on call: frees a lock, no matter which holder has it.

use super::arguments::WRONG_ARITY;
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, latency, waiting};

/// RLOCK.BREAK
pub struct Break;

impl Command for Break {
    const SPEC: Spec = Spec {
        name: c"rlock.break",
        summary: c"Frees a lock by force; the next waiter gets it.",
        complexity: c"O(N) with N the number of holders, 1000 at most, and of their read holds, of which it looks at most at 100000; what takes longer than a few ms is deleted later",
        flags: c"write admin",
        audience: Audience::Operators,
        key: KeyUse::Deletes,
        arguments: &["key"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let key = parse(arguments)?;
        let began = context.now();
        let broken = waiting::break_lock(context, key)?;
        latency::since(context, c"rlock-break", began);
        Ok(Reply::Number(broken.into()))
    }
}

fn parse<A: Copy>(arguments: &[A]) -> Result<A, ErrorLine> {
    match arguments {
        [_, key] => Ok(*key),
        _ => Err(WRONG_ARITY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_no_more() {
        assert_eq!(parse(&[&b"_"[..], b"k"]), Ok(&b"k"[..]));
        assert_eq!(parse(&[&b"_"[..]]), Err(WRONG_ARITY));
        assert_eq!(parse(&[&b"_"[..], b"k", b"h"]), Err(WRONG_ARITY));
    }
}
