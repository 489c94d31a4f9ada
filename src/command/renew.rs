//! RENEW: restarts a lease.

use crate::server::waiting;
use crate::server::{Command, Context, Reply, Str};
use rlock_core::lock::Renewed;
use rlock_core::words::{self, Error, read};

/// RLOCK.RENEW
pub struct Renew;

impl Command for Renew {
    const WORDS: &'static words::Command = &words::RENEW;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let renewed = waiting::renew(context, request.key()?, request.holder()?, request.lease()?)?;
        Ok(Reply::Number(i64::from(renewed == Renewed::Restarted)))
    }
}
