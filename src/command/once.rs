//! ONCE and ANSWER: one holder does the work under a lock, and every caller gets its answer.

use super::acquire::reply_to;
use crate::server::waiting;
use crate::server::{Command, Context, Reply, Str};
use rlock_core::lock::Side;
use rlock_core::words::{self, Error, read};

/// RLOCK.ONCE
pub struct Once;

impl Command for Once {
    const WORDS: &'static words::Command = &words::ONCE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        reply_to(waiting::once(context, request.key()?, &request.wish(Side::Plain)?, request.waiting())?, false)
    }
}

/// RLOCK.ANSWER
pub struct Answer;

impl Command for Answer {
    const WORDS: &'static words::Command = &words::ANSWER;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let is_stored = waiting::answer(context, request.key()?, request.holder()?, request.answer()?)?;
        Ok(if is_stored { Reply::Number(1) } else { Reply::Nil })
    }
}
