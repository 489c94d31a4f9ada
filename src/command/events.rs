//! EVENTS: what became of a session's tickets. Opens the session, and shows that its process is alive.

use crate::server::waiting::{self, EventsCall};
use crate::server::{Command, Context, Reply, Str};
use rlock_core::words::{self, Error, read};

/// RLOCK.EVENTS
pub struct Events;

impl Command for Events {
    const WORDS: &'static words::Command = &words::EVENTS;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let call = EventsCall { acknowledged: request.seq, wait_ms: request.wait_ms, ttl_ms: request.ttl_ms };
        waiting::events(context, request.session()?, call)?;
        Ok(Reply::Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::waiting::EVENTS_BYTES_MAX;

    #[test]
    fn the_bound_of_a_reply_is_as_it_is_documented() {
        let bound = format!("at most {} KiB at once", EVENTS_BYTES_MAX / 1_024);
        assert!(Events::WORDS.complexity.contains(&bound), "{bound}");
    }
}
