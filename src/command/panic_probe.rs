//! ```text
//! RLOCK.PANIC key
//! ```
//! Panics, so that a test can prove that a panic in any command becomes an error reply. Never in a build that ships.

use crate::server::{Argument, Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str};

/// RLOCK.PANIC
pub struct PanicProbe;

impl Command for PanicProbe {
    const SPEC: Spec = Spec {
        name: c"rlock.panic",
        summary: c"Panics.",
        complexity: c"O(1)",
        arity: 2,
        flags: c"write",
        audience: Audience::Services,
        key: KeyUse::Updates,
        arguments: &[Argument::Key(c"key")],
    };

    #[allow(clippy::panic, reason = "what it is for")]
    fn run(_context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let key = arguments.last().map_or(&b""[..], |key| key.bytes());
        panic!("as asked, for {}", String::from_utf8_lossy(key));
    }
}
