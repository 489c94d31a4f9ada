//! RELEASE: releases one hold, or all holds of a holder.

use crate::server::waiting;
use crate::server::{Command, Context, Reply, Str};
use rlock_core::lock::Released;
use rlock_core::words::{self, Error, read};

/// RLOCK.RELEASE
pub struct Release;

impl Command for Release {
    const WORDS: &'static words::Command = &words::RELEASE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let released = waiting::release(context, request.key()?, request.holder()?, request.release())?;
        Ok(match released {
            Released::NotHeld => Reply::Nil,
            Released::StillHeld => Reply::Number(0),
            Released::Free => Reply::Number(1),
        })
    }
}
