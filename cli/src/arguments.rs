//! The arguments and their help. The help is written for a tired reader: what a command does, its options, then
//! examples, then the exit codes.

use crate::exit;
use crate::failure::Failure;
use crate::other_tools;
use crate::output;
use crate::shown;
use crate::values::{count, descriptor, interval, some_time, time};
use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Run a command under a distributed lock, and see the holders and waiters of locks.
#[derive(Debug, Parser)]
#[command(name = "rlock", version, max_term_width = 80, after_help = HELP, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: Command,
}

/// The server that has the locks.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// The server's address, without a password [otherwise RLOCK_URL, then redis://127.0.0.1:6379]
    #[arg(short, long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub url: Option<String>,
    /// A file whose first line is the password [otherwise RLOCK_PASSWORD, then the file RLOCK_PASSWORD_FILE]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
    /// With TLS: the authorities to trust, as PEM [otherwise this system's]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cacert: Option<PathBuf>,
    /// With TLS: the certificate by which the server knows us, as PEM
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cert: Option<PathBuf>,
    /// With TLS: the private key of --cert, as PEM
    #[arg(long = "key", global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub private_key: Option<PathBuf>,
    /// How long the server may take to accept a connection, and to answer a request
    #[arg(long, global = true, value_name = "TIME", default_value = "3s", value_parser = some_time)]
    pub connect_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(after_help = RUN_HELP)]
    Run(Run),
    #[command(after_help = LOCK_HELP)]
    Lock(Lock),
    #[command(after_help = UNLOCK_HELP)]
    Unlock(Unlock),
    #[command(after_help = RENEW_HELP)]
    Renew(Renew),
    #[command(after_help = HOLD_HELP)]
    Hold(Hold),
    #[command(after_help = LS_HELP)]
    Ls(Ls),
    #[command(after_help = INSPECT_HELP)]
    Inspect(Inspect),
    #[command(after_help = BREAK_HELP)]
    Break(Break),
    #[command(after_help = SESSIONS_HELP)]
    Sessions(Sessions),
    #[command(after_help = TOP_HELP)]
    Top(Top),
    #[command(after_help = DOCTOR_HELP)]
    Doctor(Doctor),
    /// The same as `rlock doctor --short`
    #[command(after_help = DOCTOR_HELP)]
    Status(Doctor),
    #[command(after_help = DEV_HELP)]
    Dev(Dev),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell that the script is for
        shell: Shell,
    },
}

/// Run a command while holding a lock
///
/// Waits for the lock KEY, runs CMD while holding the lock, releases it, and exits with CMD's code. The lease is
/// renewed for as long as CMD runs. CMD has RLOCK_KEY, RLOCK_HOLDER and, with --token, RLOCK_TOKEN in its environment.
/// If the lock is lost, CMD is sent TERM, and KILL after --grace.
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    pub wish: Wish,
    /// How long the lock stays taken if this machine dies; renewed while CMD runs
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub lease: Duration,
    /// The time between TERM and KILL for CMD if the lock is lost
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub grace: Duration,
    /// Run this line with sh, in place of CMD
    #[arg(short = 'c', long = "command", value_name = "LINE", conflicts_with = "command")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub line: Option<String>,
    /// The command to run, and its arguments
    #[arg(value_name = "CMD", required_unless_present = "line", trailing_var_arg = true)]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

// Which lock is wanted, and what is done until it is there. No doc comment, which would become the command's.
#[derive(Args, Debug)]
pub struct Wish {
    /// The lock's name; with --all: the names, divided by commas
    pub key: OsString,
    /// How long to wait for the lock: 10s, 500ms, 5m; 0: do not wait [default: for ever]
    #[arg(short, long, alias = "timeout", value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    /// Give up at once if the lock is not free: the same as --wait 0
    #[arg(short, long, aliases = ["nonblock", "nb"], conflicts_with = "wait")]
    pub no_wait: bool,
    /// Take the read side of a read-write lock, which many holders can share
    #[arg(long, conflicts_with = "write")]
    pub read: bool,
    /// Take the write side of a read-write lock, which excludes all others
    #[arg(long)]
    pub write: bool,
    /// Take one of N slots, so that at most N holders are there at a time
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "read", "write"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub slots: Option<u32>,
    /// Take all locks that KEY names at once, and none while one of them is taken
    #[arg(long, conflicts_with_all = ["read", "write"])]
    pub all: bool,
    /// Give up at once if N or more wait for the lock already
    #[arg(long, value_name = "N", conflicts_with = "no_wait", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_waiters: Option<u32>,
    /// Accept the lock only if N replicas confirm it within a third of the lease
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub replicas: Option<u16>,
    /// Take a fencing token too, as RLOCK_TOKEN; its counter stays at the server, one for each KEY
    #[arg(long)]
    pub token: bool,
    /// What INSPECT and CLIENT LIST call this holder, in place of host and process
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The exit code if the lock was not free in time, or too many wait. With 0, of run alone, nothing is printed either
    #[arg(short = 'E', long, alias = "conflict-exit-code", value_name = "CODE", default_value_t = exit::BUSY)]
    pub busy_code: u8,
    /// While waiting, say the place in line also without a terminal, each 10s at most
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print only errors; the exit code says that the lock was not free in time
    #[arg(short, long)]
    pub quiet: bool,
}

/// Take a lock for several commands of a script
///
/// Waits for the lock KEY, prints lines for a shell that name its holder and, with --token, its fencing token, and exits. Then nobody
/// renews the lease, and nothing stops the script when the lease ends: choose one that is longer than the script, renew it with
/// `rlock renew`, and look at the code of `rlock unlock`. Where the script can be one command, `rlock run` is safer.
#[derive(Args, Debug)]
pub struct Lock {
    #[command(flatten)]
    pub wish: Wish,
    /// How long the lock is held if nobody unlocks or renews it
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub lease: Duration,
    /// Write the lines to a new file, which only this user can read
    #[arg(long, value_name = "FILE", conflicts_with = "token_fd", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Write them to this file descriptor [default: 1]
    #[arg(long, value_name = "N", value_parser = descriptor)]
    pub token_fd: Option<RawFd>,
}

/// Release what `rlock lock` took
#[derive(Args, Debug)]
pub struct Unlock {
    /// The lock's name
    pub key: OsString,
    #[command(flatten)]
    pub of: Of,
}

/// Restart the lease of what `rlock lock` took
#[derive(Args, Debug)]
pub struct Renew {
    /// The lock's name
    pub key: OsString,
    #[command(flatten)]
    pub of: Of,
    /// How long the lock is held from now on if nobody unlocks or renews it
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub lease: Duration,
}

// Whose lock it is. No doc comment, which would become the command's.
#[derive(Args, Debug)]
pub struct Of {
    /// KEY names several locks, divided by commas, as for `rlock lock --all`
    #[arg(long)]
    pub all: bool,
    /// The holder, or all that `rlock lock` has printed [otherwise RLOCK_HOLDER]
    #[arg(conflicts_with_all = ["token_file", "token_fd"])]
    pub holder: Option<OsString>,
    /// The file that `rlock lock` wrote; `unlock` removes it
    #[arg(long, value_name = "FILE", conflicts_with = "token_fd", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// A file descriptor to read from what `rlock lock` wrote
    #[arg(long, value_name = "N", value_parser = descriptor)]
    pub token_fd: Option<RawFd>,
}

/// Hold a lock until you say so
///
/// Waits for the lock KEY, prints the same lines as `rlock lock`, and holds the lock, whose lease it renews, until it is
/// sent INT (Ctrl-C), TERM, HUP or QUIT, or until its input ends; /dev/null does not count as one. Then the lock is
/// released.
#[derive(Args, Debug)]
pub struct Hold {
    #[command(flatten)]
    pub wish: Wish,
    /// How long the lock stays taken if this machine dies; renewed until then
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub lease: Duration,
}

/// List the locks that have waiters, the longest queue first
#[derive(Args, Clone, Debug)]
pub struct Ls {
    /// List only names that match, with * ? [a-z] as in KEYS
    #[arg(default_value = "*")]
    pub pattern: OsString,
    /// Also list locks that are held without a waiter; scans all keys of the server
    #[arg(long)]
    pub held: bool,
    /// List at most N locks
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count)]
    pub limit: u32,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Show the holders and the waiters of a lock
#[derive(Args, Debug)]
pub struct Inspect {
    /// The lock's name
    pub key: OsString,
    /// Show at most N holders and N waiters [default: 10; with --json 100]
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<u32>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Free a lock by force
///
/// The next waiter gets the lock at once. The former holders are not told; they find out when they renew their lease,
/// within a third of it, and may go on working until then. It is safer to stop the program that holds the lock.
#[derive(Args, Debug)]
pub struct Break {
    /// The lock's name
    pub key: OsString,
    /// Do not ask first; required without a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// List the sessions by which clients wait, or end one
///
/// Each process has one session at a server, which has its waits; those with the most waits come first. If one is ended,
/// its waits leave their queues, and its process may open another.
#[derive(Args, Debug)]
pub struct Sessions {
    /// End the session with this ID; in a cluster by the address of its node
    #[arg(long, value_name = "ID", conflicts_with = "limit")]
    pub end: Option<u64>,
    /// List at most N sessions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count)]
    pub limit: u32,
    /// Print JSON, for programs
    #[arg(long, conflicts_with = "end")]
    pub json: bool,
}

/// Watch the locks with the most waiters, live
#[derive(Args, Debug)]
pub struct Top {
    /// The time between two updates, at least 100ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// What to sort by; the key s changes it
    #[arg(short, long, default_value = "waiters")]
    pub sort: Sort,
    /// Sort the other way round; the key r changes it
    #[arg(short, long)]
    pub reverse: bool,
    /// Show only names that contain TEXT; the key / changes it
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Also show locks that are held without a waiter; looks through all keys, slowly. The key h changes it
    #[arg(long)]
    pub held: bool,
    /// Print a table at each interval instead, for files and programs
    #[arg(short, long)]
    pub batch: bool,
    /// With --batch: end after N tables [default: go on for ever]
    #[arg(short = 'n', long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

/// Find out which failure would lose a lock or stop all
///
/// Looks at each server of the address, at its replicas and at its sentinels: their settings, whether those fit
/// together, and whether each hears of the others. Says what is wrong in plain words, and the line that mends it.
/// Changes nothing. What this user may not read is told as not known, and does not count as fine.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Say it in a few lines: each server, how many hold and wait, and what is wrong, without what mends it
    #[arg(long)]
    pub short: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Serve locks from memory, for tests and tutorials
///
/// The engine of the rlock module behind a port, without Redis. It knows all commands of rlock, and the few others that
/// clients of rlock and tests of locks need. It keeps nothing, and is not for production. The first line on stdout is its
/// address.
#[derive(Args, Debug)]
pub struct Dev {
    /// The port to listen on; 0: any that is free
    #[arg(short, long, value_name = "N", default_value_t = 6379)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Listen on this Unix socket, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The password of the user `default` [default: none is needed]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub password: Option<String>,
    /// A setting of the module, as CONFIG SET has it: --set max-waiters=10
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// End with stdin, so that the server does not outlive the test that has started it
    #[arg(long)]
    pub until_eof: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Waiters,
    Wait,
    Rate,
    Held,
    Key,
}

// Lines of at most 80 columns: longer ones are broken in the middle.

const HELP: &str = "\
Examples:
  rlock run nightly-report -- ./report       one host at a time
  rlock run --no-wait backup -- pg_dump      exit code 75 if the lock is taken
  rlock lock --lease 5m deploy               hold it for several commands
  rlock ls                                   which locks have waiters?
  rlock inspect nightly-report               who holds it, and who waits?
  rlock break nightly-report                 free it by force
  rlock status                               is all well?
  rlock doctor                               which failure would lose a lock?
  rlock -u rediss://redis.internal:6380 top  watch the queues

Addresses:
  redis://user@host:port/db          rediss:// is TLS
  host:port, or host                 the same as redis://host:port
  unix:///run/redis.sock
  redis+cluster://host,host          rediss+cluster:// is TLS
  redis+sentinel://host,host/NAME    rediss+sentinel:// is TLS
  Put the password into RLOCK_PASSWORD, a file, or RLOCK_URL; not into --url,
  which `ps` shows to everybody.

Exit codes:
    0  done; of run: CMD's own code       75  the lock was not free in time
    1  nobody holds the lock; of break:       (-E changes this code)
       or the answer was no; of status    76  the lock was lost
       and doctor: something is wrong
   64  wrong arguments                    77  wrong password, or no right
   69  no server answers, or the          78  the server has no rlock module,
       server cannot do it now                or refuses for good
   70  a defect in rlock                 126  CMD cannot be executed
   74  this system fails                 127  CMD was not found
                                       128+n  ended by signal n
";

const RUN_HELP: &str = "\
Examples:
  rlock run nightly-report -- /usr/local/bin/report
  rlock run --wait 10m --lease 20s -c 'fetch | load' import
  rlock run --no-wait -E 0 cleanup -- find /tmp/cache -mtime +7 -delete
  rlock run --read prices -- ./show-prices
  rlock run --slots 4 gpu -- ./train         at most four at a time
  rlock run --all ann,bob -- ./transfer      both locks, or none yet
  rlock run --name deploy-7 --verbose deploy -- ./deploy

Exit codes:
  CMD's own, or 128+n if signal n ended it
   75  the lock was not free in time, or too many wait; CMD was not run
   76  the lock was lost while CMD ran, or that is not known
  126  CMD cannot be executed
  127  CMD was not found
  `rlock --help` lists the others
";

const LOCK_HELP: &str = "\
Examples:
  rlock lock --lease 10m --token-file deploy.token deploy
  rlock lock --no-wait --lease 1h deploy >deploy.token

Exit codes:
    0  the lock is held
   75  the lock was not free in time, or too many wait
   74  the lines could not be written; the lock is free again
  `rlock --help` lists the others
";

const UNLOCK_HELP: &str = "\
Examples:
  rlock unlock --token-file deploy.token deploy
  rlock unlock deploy \"$holder\"

Exit codes:
    0  the lock is free
   76  it was lost before: others may have had it
  `rlock --help` lists the others
";

const RENEW_HELP: &str = "\
Examples:
  rlock renew --lease 10m --token-file deploy.token deploy || exit

Exit codes:
    0  the lock is held for that long from now on
   76  it is lost: others may have it
  `rlock --help` lists the others
";

const HOLD_HELP: &str = "\
Examples:
  rlock hold deploy
  rlock hold --wait 10m --name ann deploy

Exit codes:
    0  the lock was held until it was released
   75  the lock was not free in time, or too many wait
   76  the lock was lost, or that is not known
  128+n  ended by signal n before the lock was there
  `rlock --help` lists the others
";

const LS_HELP: &str = "\
Examples:
  rlock ls
  rlock ls 'orders:*'
  rlock ls --held --limit 50
";

const INSPECT_HELP: &str = "\
Examples:
  rlock inspect orders:42
  rlock inspect --limit 10 --json orders:42
";

const BREAK_HELP: &str = "\
Examples:
  rlock break orders:42
  rlock break --yes orders:42
";

const SESSIONS_HELP: &str = "\
Examples:
  rlock sessions --limit 10
  rlock sessions --end 4711

Exit codes:
    0  listed, or ended
    1  there is no session with this ID
  `rlock --help` lists the others
";

const TOP_HELP: &str = "\
Examples:
  rlock top
  rlock top --interval 5s --sort wait --filter orders:
  rlock top --held --sort held               which lock is held longest?
  rlock top --batch --count 60 >locks.txt    the next minute, for later
";

const DOCTOR_HELP: &str = "\
Examples:
  rlock doctor
  rlock doctor --short                       the same: rlock status
  rlock -u redis+sentinel://10.0.0.11,10.0.0.12,10.0.0.13/locks doctor --json

Exit codes:
    0  nothing is wrong, and all was looked at
    1  something is wrong
   69  nothing seen is wrong, but a server does not answer
   77  nothing seen is wrong, but this user may not see all
  `rlock --help` lists the others
";

const DEV_HELP: &str = "\
Examples:
  rlock dev                                  on port 6379
  rlock dev --port 0                         on a free port, which it prints
  rlock dev --set max-waiters=10 --set grace=30000

Exit codes:
    0  ended by INT, TERM or HUP, or with stdin
   74  the port is taken
  `rlock --help` lists the others
";

const COMPLETIONS_HELP: &str = "\
Examples:
  rlock completions bash >~/.local/share/bash-completion/completions/rlock
";

/// Reads them. What only asks for help is printed, and that is all.
pub fn read() -> Result<Arguments, Failure> {
    let typed = as_an_option(std::env::args_os().collect());
    let known = Arguments::command();
    let read = Arguments::try_parse_from(typed.clone()).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            must_only_ask_for_help(&typed, &known)?;
            let text = error.render();
            let text = if output::has_colours() { text.ansi().to_string() } else { text.to_string() };
            output::print(&format!("{}\n", text.trim_end()))?;
            std::process::exit(0);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let commands: Vec<_> = known.get_subcommands().map(clap::Command::get_name).collect();
            Err(Failure::usage(format!("what to do? One of {}; see rlock --help", commands.join(", "))))
        }
        ErrorKind::UnknownArgument => Err(unknown(&error)),
        _ => Err(mistyped(&error.render().to_string())),
    })?;
    must_name_key_before_cmd(&read.command, &typed)?;
    Ok(read)
}

/// `rlock run -- env true` would take `env` for KEY. A KEY that begins with a dash can only stand there.
fn must_name_key_before_cmd(command: &Command, typed: &[OsString]) -> Result<(), Failure> {
    let Command::Run(Run { wish, line: None, command: cmd, .. }) = command else { return Ok(()) };
    let behind = typed.iter().position(|word| word == "--").map_or(0, |dashes| typed.len() - dashes - 1);
    if behind == cmd.len() + 1 && !wish.key.as_encoded_bytes().starts_with(b"-") {
        let key = shown::name(wish.key.as_encoded_bytes());
        return Err(Failure::usage(format!("KEY comes before --: rlock run KEY -- {key} …")));
    }
    Ok(())
}

/// `-h` with a host, as for `redis-cli`, would print the help and look like success; and so would help where a command is to be
/// run, which cron would take for done.
fn must_only_ask_for_help(typed: &[OsString], known: &clap::Command) -> Result<(), Failure> {
    let own: Vec<_> = typed.iter().take_while(|word| *word != "--").collect();
    let behind = own.iter().position(|word| *word == "-h").and_then(|place| own.get(place + 1));
    let is_host = |word: &OsString| known.find_subcommand(word).is_none() && !word.as_encoded_bytes().starts_with(b"-");
    if behind.is_some_and(|word| is_host(word)) {
        return Err(Failure::usage("-h prints help and takes no host: for a server use -u host:port"));
    }
    match own.len() == typed.len() {
        true => Ok(()),
        false => {
            Err(Failure::usage("with -h, --help or -V there is only that printed, and CMD is not run: leave it out"))
        }
    }
}

/// What other tools have may be meant.
fn unknown(error: &clap::Error) -> Failure {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.as_str(),
        _ => "",
    };
    match other_tools::advice(option) {
        Some(advice) => Failure::usage(format!("there is no {option}: {advice}")),
        None => mistyped(&error.render().to_string()),
    }
}

/// `rlock help run` is `rlock run --help`. Not a command of its own, which would be listed and completed beside the others.
fn as_an_option(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.get(1).is_some_and(|first| first == "help") {
        typed.remove(1);
        typed.push("--help".into());
    }
    typed
}

/// What is wrong in one line, without the usage that comes after it; and what may have been meant.
fn mistyped(error: &str) -> Failure {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let (tips, words): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("tip:"));
    let words = words.join(" ");
    let words = format!("{}; see rlock --help", words.strip_prefix("error: ").unwrap_or(&words));
    let tips = tips.iter().map(|tip| tip.trim_start_matches("tip:").trim().to_owned()).collect();
    Failure::usage(words).with_tips(tips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
