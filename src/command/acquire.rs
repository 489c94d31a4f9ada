//! ACQUIRE, RACQUIRE, WACQUIRE and PACQUIRE: one grammar, four kinds of hold.
//!
//! With WAIT, a client that is not granted the lock at once is blocked until it is, or until its time is up. With SESSION, a
//! ticket waits instead of the client, and the session gets an event. With MAX, neither waits if that many already wait.

use crate::server::waiting::{self, Acquiring, Waiting};
use crate::server::{Command, Context, Reply, Str, reply};
use rlock_core::lock::{Side, Wish};
use rlock_core::words::{self, Error, read};

/// RLOCK.ACQUIRE
pub struct Acquire;

impl Command for Acquire {
    const WORDS: &'static words::Command = &words::ACQUIRE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        acquire(context, request.key()?, &request.wish(Side::Plain)?, request.waiting())
    }
}

/// RLOCK.RACQUIRE
pub struct ReadAcquire;

impl Command for ReadAcquire {
    const WORDS: &'static words::Command = &words::RACQUIRE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        acquire(context, request.key()?, &request.wish(Side::Read)?, request.waiting())
    }
}

/// RLOCK.WACQUIRE
pub struct WriteAcquire;

impl Command for WriteAcquire {
    const WORDS: &'static words::Command = &words::WACQUIRE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        acquire(context, request.key()?, &request.wish(Side::Write)?, request.waiting())
    }
}

/// RLOCK.PACQUIRE
pub struct PermitAcquire;

impl Command for PermitAcquire {
    const WORDS: &'static words::Command = &words::PACQUIRE;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let side = Side::Permit(request.limit.ok_or(Error::Limit)?);
        acquire(context, request.key()?, &request.wish(side)?, request.waiting())
    }
}

fn acquire(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<(Str<'_>, Str<'_>)>>,
) -> Result<Reply, Error> {
    reply_to(waiting::acquire(context, key, wish, waiting)?, wish.fenced)
}

#[allow(clippy::inline_always, reason = "what a plain lock comes to passes through here, and is copied otherwise")]
#[inline(always)]
pub(super) fn reply_to(acquiring: Acquiring, fenced: bool) -> Result<Reply, Error> {
    match acquiring {
        Acquiring::Done(outcome) => reply::of_acquire(outcome, fenced),
        Acquiring::GrantedAll { tokens } => Ok(reply::of_several(tokens)),
        Acquiring::Answered(value) => Ok(Reply::Bytes(value)),
        Acquiring::Blocked(_) => Ok(Reply::Later),
        Acquiring::Waiting => Ok(Reply::Word(c"WAITING")),
        Acquiring::TurnedAway { waiting } => Ok(Reply::TurnedAway(waiting)),
    }
}
