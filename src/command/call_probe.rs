//! ```text
//! RLOCK.CALL command [argument …]
//! ```
//! Calls a command as other modules do, so that a test can prove what they are answered. Never in a build that ships.

use crate::server::{Argument, Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, call_as_a_module};

/// RLOCK.CALL
pub struct CallProbe;

impl Command for CallProbe {
    const SPEC: Spec = Spec {
        name: c"rlock.call",
        summary: c"Calls a command as other modules do.",
        complexity: c"That of the command",
        arity: -2,
        flags: c"write",
        audience: Audience::Operators,
        key: KeyUse::NoKey,
        arguments: &[Argument::Text(c"command"), Argument::Texts(c"argument")],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        Ok(call_as_a_module(context, arguments.get(1..).unwrap_or_default()))
    }
}
