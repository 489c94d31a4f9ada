//! CANCEL: withdraws a session's tickets, and says which were already granted their lock: their holders must release those.

use crate::server::{Command, Context, Reply, Str, waiting};
use rlock_core::waiting::TicketNames;
use rlock_core::words::{self, Error, read};

/// RLOCK.CANCEL
pub struct Cancel;

impl Command for Cancel {
    const WORDS: &'static words::Command = &words::CANCEL;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let mut names = TicketNames::default();
        request.tickets.iter().for_each(|name| names.push(name.bytes()));
        waiting::cancel(context, request.session()?, names)
    }
}
