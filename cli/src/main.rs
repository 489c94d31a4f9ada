//! `rlock`: runs a command under a lock, shows holders and waiters, and finds what would lose a lock. For cron on ten
//! hosts, and for operators on call. The manual is docs/command-line.md.
//!
//! All requests run on the main thread: CMD must be started by the thread that lives as long as the program (see
//! `run/child.rs`), and there is little to do.

mod address;
mod adopt;
mod advice;
mod arguments;
mod break_lock;
mod by_client;
mod completions;
mod dev;
mod doctor;
mod drill;
mod exit;
mod failure;
mod greeting;
mod hold;
mod holder;
mod inspect;
mod json;
mod lock;
mod ls;
#[cfg(feature = "manual")]
mod manual;
mod once;
mod operators;
mod other_tools;
mod output;
mod pattern;
mod run;
mod sessions;
mod shown;
mod signals;
mod table;
mod top;
mod values;
mod wait;

use arguments::{Arguments, Command};
use failure::Failure;
use std::process::ExitCode;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    failure::say_defects_in_one_line();
    #[cfg(feature = "manual")]
    if let Some(code) = manual::write_if_asked() {
        return code;
    }
    let code = match arguments::read().and_then(perform) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    };
    ExitCode::from(code)
}

fn perform(arguments: Arguments) -> Result<u8, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::of_the_system)?;
    let code = runtime.block_on(carry_out(arguments));
    // Only a cleanup on a server that does not reply may still run in the background.
    runtime.shutdown_background();
    code
}

async fn carry_out(Arguments { server, command }: Arguments) -> Result<u8, Failure> {
    match &command {
        Command::Run(args) => run::run(args, &server).await,
        Command::Once(args) => once::once(args, &server).await,
        Command::Adopt(args) => adopt::adopt(args, &server).await,
        Command::Lock(args) => lock::lock(args, &server).await,
        Command::Unlock(args) => lock::unlock(args, &server).await,
        Command::Renew(args) => lock::renew(args, &server).await,
        Command::Hold(args) => hold::hold(args, &server).await,
        Command::Ls(args) => ls::ls(args, &server).await,
        Command::Inspect(args) => inspect::inspect(args, &server).await,
        Command::Break(args) => break_lock::break_lock(args, &server).await,
        Command::Sessions(args) => sessions::sessions(args, &server).await,
        Command::Top(args) => top::top(args, &server).await,
        Command::Doctor(args) => doctor::doctor(args, args.short, &server).await,
        Command::Status(args) => doctor::doctor(args, true, &server).await,
        Command::Drill(args) => drill::drill(args, &server).await,
        Command::Dev(args) => dev::dev(args).await,
        Command::Completions { shell } => completions::print(*shell),
    }
}
