//! ```text
//! RLOCK.CANCEL session [ticket ...]
//! ```
//! Takes a session's tickets back, and says of each whether it was granted its lock: that is its holder's to release.

use super::arguments::{WRONG_ARITY, session, ticket};
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, waiting};
use rlock_core::waiting::TicketNames;

/// RLOCK.CANCEL
pub struct Cancel;

impl Command for Cancel {
    const SPEC: Spec = Spec {
        name: c"rlock.cancel",
        summary: c"Takes tickets of a session back, or ends the session.",
        complexity: c"O(N) with N the number of tickets; what is left after a few ms is done by and by",
        flags: c"write",
        audience: Audience::Services,
        key: KeyUse::NoKey,
        arguments: &["session", "[ticket ...]"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let [_, name, tickets @ ..] = arguments else { return Err(WRONG_ARITY) };
        let name = session(Some(*name))?;
        let mut names = TicketNames::default();
        for name in tickets {
            names.push(ticket(Some(*name))?.bytes());
        }
        waiting::cancel(context, name, names)
    }
}
