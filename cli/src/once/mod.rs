//! `rlock once`: one caller runs CMD, and its output is the answer for every caller.
//!
//! - The answer is printed only when it is stored: a caller that prints it has the same answer as all others.
//! - CMD runs as in `rlock run`, except for its stdout.

mod output;

use crate::address::Address;
use crate::arguments::{Once, Server};
use crate::exit;
use crate::failure::{Failure, say};
use crate::run::release::until_stopped;
use crate::run::{self, Job, PASSED_ON, Program, reason};
use crate::signals::Signals;
use crate::{address, output as stdout, shown, wait};
use output::{LONGEST, Output};
use rlock_client::{Begun, Lead, Locks};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server that does not reply is asked again after CMD has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a caller needs if it becomes the leader.
struct Caller<'a> {
    job: Job<'a>,
    lease: Duration,
    locks: Locks,
    at: Address,
}

pub async fn once(args: &Once, server: &Server) -> Result<u8, Failure> {
    wait::names(&args.key, false)?;
    // Required, except for removing the answer.
    let Some(keep) = args.keep else { return forget(args, server).await };
    wait::must_show_busy(&args.waiting, "the answer were empty")?;
    let job = Job { key: &args.key, work: &args.work, program: Program::find(&args.work)?, secret: None };
    let mut signals = Signals::take(&PASSED_ON)?;
    let (locks, at) = address::connect_in_time(args.waiting.name.as_deref(), server).await?;
    match wait::answer(args, keep, &locks, &at, &mut signals).await? {
        Ok(Begun::Answer(value)) => stdout::print_bytes(&value).map(|()| 0),
        Ok(Begun::Lead(lead)) => Caller { job, lease: args.lease, locks, at }.leads(lead, &mut signals).await,
        Err(code) => Ok(code),
    }
}

async fn forget(args: &Once, server: &Server) -> Result<u8, Failure> {
    let (locks, at) = address::connect(server).await?;
    locks.forget(args.key.as_bytes()).await.map_err(|error| Failure::of_the_server(&at, &error))?;
    Ok(0)
}

impl Caller<'_> {
    async fn leads(&self, lead: Lead, signals: &mut Signals) -> Result<u8, Failure> {
        let (output, pipe) = Output::open()?;
        let child = match run::start(&self.job, lead.guard(), None, pipe) {
            Ok(child) => child,
            Err(failure) => {
                self.gives_up(lead, signals).await;
                return Err(failure);
            }
        };
        let Some(code) = run::attend(&self.job, child, lead.guard(), signals).await? else { return Ok(exit::LOST) };
        if code != 0 {
            self.gives_up(lead, signals).await;
            return Ok(code);
        }
        let value = output.end().await?;
        if value.len() > LONGEST {
            self.gives_up(lead, signals).await;
            let (key, cmd) = (shown::name(self.job.key.as_bytes()), &self.job.program.shown);
            let words = format!("{key}: the output of {cmd} is longer than {LONGEST} bytes, so nothing is stored");
            return Err(Failure::new(exit::REFUSED, words));
        }
        self.answers(lead, &value, signals).await
    }

    async fn gives_up(&self, lead: Lead, signals: &mut Signals) {
        lead.give_up().await;
        self.settle(signals).await;
    }

    async fn answers(&self, lead: Lead, value: &[u8], signals: &mut Signals) -> Result<u8, Failure> {
        let error = match lead.answer(value).await {
            Ok(()) => {
                let printed = stdout::print_bytes(value);
                self.settle(signals).await;
                return printed.map(|()| 0);
            }
            Err(error) => error,
        };
        if error.is_lost() {
            let (key, cmd) = (shown::name(self.job.key.as_bytes()), &self.job.program.shown);
            let why = error.loss().map_or_else(|| error.reason(), |loss| reason::of(&loss));
            say(&format!("{key}: the lock was lost before {cmd} had ended, so nothing is stored: {why}"));
            return Ok(exit::LOST);
        }
        self.settle(signals).await;
        Err(Failure::of_the_server(&self.at, &error))
    }

    /// Waits until a server that has not replied yet has replied to the background releases.
    async fn settle(&self, signals: &mut Signals) {
        let is_settled = tokio::select! {
            biased;
            settled = timeout(PATIENCE, self.locks.settle()) => settled.is_ok(),
            () = until_stopped(signals) => false,
        };
        if !is_settled {
            let (key, lease) = (shown::name(self.job.key.as_bytes()), shown::time(self.lease));
            say(&format!("{key}: no server has replied yet; if none does, the lock ends with its lease, in {lease}"));
        }
    }
}
