//! BREAK, for people on call: frees a lock, no matter which holder has it.

use crate::server::{Command, Context, Reply, Str, latency, waiting};
use rlock_core::words::{self, Error, read};

/// RLOCK.BREAK
pub struct Break;

impl Command for Break {
    const WORDS: &'static words::Command = &words::BREAK;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let key = read(Self::WORDS, arguments)?.key()?;
        let began = context.now();
        let broken = waiting::break_lock(context, key)?;
        latency::since(context, c"rlock-break", began);
        Ok(Reply::Number(broken.into()))
    }
}
