//! MACQUIRE: several plain locks, all or none. Each is then held as if it had been acquired alone, and is released and
//! renewed alone.
//!
//! The server finds the keys by their number, for access rights and slots. It reads the number as the grammar does: else a
//! client could name keys that are not checked.

use super::acquire::reply_to;
use crate::server::waiting;
use crate::server::{Command, Context, Reply, Str};
use rlock_core::lock::Side;
use rlock_core::words::{self, Error, read};

/// RLOCK.MACQUIRE
pub struct AcquireAll;

impl Command for AcquireAll {
    const WORDS: &'static words::Command = &words::MACQUIRE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let acquiring = waiting::acquire_all(context, request.keys, &request.wish(Side::Plain)?, request.waiting())?;
        reply_to(acquiring, request.fenced)
    }
}
