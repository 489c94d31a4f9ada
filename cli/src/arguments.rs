//! What can be typed. The help is written for somebody who is tired: what it does, then examples, then the exit codes.

use crate::exit;
use crate::failure::Failure;
use crate::output;
use crate::values::{count, interval, some_time, time};
use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Run a command under a distributed lock, and see who holds and who waits.
#[derive(Debug, Parser)]
#[command(name = "rlock", version, max_term_width = 80, after_help = HELP, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: Command,
}

/// Where the locks are.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// Where the locks are, without a password; else RLOCK_URL, else redis://127.0.0.1:6379
    #[arg(short, long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub url: Option<String>,
    /// A file whose first line is the password; else RLOCK_PASSWORD, else RLOCK_PASSWORD_FILE
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
    /// How long the server may take to accept a connection, and to answer
    #[arg(long, global = true, value_name = "TIME", default_value = "3s", value_parser = some_time)]
    pub connect_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// List the locks that somebody waits for, longest queue first
    Ls(Ls),
    /// Show who holds a lock and who waits for it
    Inspect(Inspect),
    Break(Break),
    /// Watch the busiest locks
    Top(Top),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        shell: Shell,
    },
}

/// Run a command while holding a lock
///
/// Waits for the lock KEY, runs CMD while holding it, gives it back, and exits with CMD's code. The lock is kept for as
/// long as CMD runs. CMD has RLOCK_KEY, RLOCK_HOLDER and RLOCK_TOKEN in its environment. If the lock is lost, CMD is
/// ended.
#[derive(Args, Debug)]
pub struct Run {
    /// The lock's name
    pub key: OsString,
    /// Wait for that long, and then give up: 10s, 500ms, 5m. Without it, wait for ever; 0: do not wait
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    /// Do not wait: the same as --wait 0
    #[arg(short, long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// How long the lock stays taken if this machine dies. It is renewed while CMD runs
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub lease: Duration,
    /// Take the read side of a read-write lock, which many may have
    #[arg(long, conflicts_with = "write")]
    pub read: bool,
    /// Take the write side of a read-write lock
    #[arg(long)]
    pub write: bool,
    /// Run CMD only if that many replicas have confirmed the lock, within a third of the lease
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub replicas: Option<u16>,
    /// If the lock is lost: the time between TERM and KILL
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub grace: Duration,
    /// The exit code if the lock was not free in time; with 0 it is no failure, and nothing is said
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::BUSY)]
    pub busy_code: u8,
    /// The command, and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Args, Clone, Debug)]
pub struct Ls {
    /// Only names that match, with * ? [a-z] as in KEYS
    #[arg(default_value = "*")]
    pub pattern: OsString,
    /// Also the locks that are held and that nobody waits for: looks through all keys of the server
    #[arg(long)]
    pub held: bool,
    /// How many to list at most
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count)]
    pub limit: u32,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct Inspect {
    /// The lock's name
    pub key: OsString,
    /// How many holders and how many waiters to show at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count)]
    pub limit: u32,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Take a lock away from whoever holds it
///
/// The next in the queue gets it at once. The holders are not asked; they find out when they renew their lease, within
/// a third of it, and may go on working until then. Prefer to end the program that holds it.
#[derive(Args, Debug)]
pub struct Break {
    /// The lock's name
    pub key: OsString,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct Top {
    /// How often to look, at least 100ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// What to sort by; s changes it
    #[arg(short, long, default_value = "waiters")]
    pub sort: Sort,
    /// Show only names that contain this; / changes it
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Waiters,
    Wait,
    Rate,
    Key,
}

// Lines of at most 80 columns: longer ones are broken in the middle.

const HELP: &str = "\
Examples:
  rlock run nightly-report -- ./report       one at a time, over all hosts
  rlock run --no-wait backup -- pg_dump      or not at all: exit code 75
  rlock ls                                   what is waited for?
  rlock inspect nightly-report               who has it, and who waits?
  rlock break nightly-report                 take it away
  rlock -u rediss://redis.internal:6380 top  watch

Addresses:
  redis://user@host:port/db          rediss:// is TLS
  unix:///run/redis.sock
  redis+cluster://host,host          rediss+cluster:// is TLS
  redis+sentinel://host,host/NAME    rediss+sentinel:// is TLS
  A password goes into RLOCK_PASSWORD, a file, or RLOCK_URL; not into --url,
  as `ps` shows it.

Exit codes:
    0  done; of run: CMD's own code       75  not free in time (-E changes it)
    1  no such lock, or the answer was    76  the lock was lost while CMD ran
       no                                 77  wrong password, or no right
   64  wrong arguments                    78  the server has no module, or
   69  no server answers, or not now          refuses
   70  a defect in rlock                 126  CMD cannot be executed
   74  this system fails                 127  CMD was not found
                                       128+n  ended by signal n
";

const RUN_HELP: &str = "\
Examples:
  rlock run nightly-report -- /usr/local/bin/report
  rlock run --wait 10m --lease 20s import -- sh -c 'fetch | load'
  rlock run --no-wait -E 0 cleanup -- find /tmp/cache -mtime +7 -delete
  rlock run --read prices -- ./show-prices

Exit codes:
  CMD's own, 128+n if it was ended by signal n
   75  the lock was not free in time; nothing was run
   76  the lock was lost; CMD was ended
  126  CMD cannot be executed
  127  CMD was not found
  `rlock --help` has the others
";

const COMPLETIONS_HELP: &str = "\
Examples:
  rlock completions bash >~/.local/share/bash-completion/completions/rlock
";

/// Reads them. What only asks for help is printed, and that is all.
pub fn read() -> Result<Arguments, Failure> {
    Arguments::try_parse_from(as_an_option(std::env::args_os().collect())).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let text = if output::has_colours() { text.ansi().to_string() } else { text.to_string() };
            output::print(&format!("{}\n", text.trim_end()))?;
            std::process::exit(0);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::usage("what to do? One of run, ls, inspect, break, top, completions; see rlock --help"))
        }
        _ => Err(Failure::usage(in_one_line(&error.render().to_string()))),
    })
}

/// `rlock help run` is `rlock run --help`. Not a command of its own, which would be listed and completed beside the others.
fn as_an_option(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.get(1).is_some_and(|first| first == "help") {
        typed.remove(1);
        typed.push("--help".into());
    }
    typed
}

/// What is wrong, without the usage that comes after it.
fn in_one_line(error: &str) -> String {
    let words = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let words: Vec<_> = words.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let words = words.join(" ");
    format!("{}; see rlock --help", words.strip_prefix("error: ").unwrap_or(&words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
