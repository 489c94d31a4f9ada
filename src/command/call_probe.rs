//! ```text
//! RLOCK.CALL [WITHIN-EVENT] command [argument …]
//! RLOCK.CALL ERROR-WITHIN-EVENT
//! ```
//! Calls a command as other modules do, so that a test can prove what they are answered. Never in a build that ships.

use crate::server::{
    Argument, Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, call_as_a_module, call_within_event,
    error_within_event,
};

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
        let words = arguments.get(1..).unwrap_or_default();
        match words.split_first() {
            Some((word, command)) if word.bytes() == b"WITHIN-EVENT" => {
                call_within_event(context, command);
                Ok(Reply::Nil)
            }
            Some((word, [])) if word.bytes() == b"ERROR-WITHIN-EVENT" => {
                error_within_event(context);
                Ok(Reply::Written)
            }
            _ => Ok(call_as_a_module(context, words)),
        }
    }
}
