//! The arguments and their help. The help is written for a tired reader: what a command does, its options, then
//! examples, then the exit codes.

mod help;
mod typed;

pub use typed::read;

use crate::exit;
use crate::values::{count, descriptor, interval, some_time, time};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Run a command under a distributed lock, and see the holders and waiters of locks.
#[derive(Debug, Parser)]
#[command(name = "rlock", version, max_term_width = 80, after_help = help::HELP, disable_help_subcommand = true)]
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
    /// A file with the password as its first line [otherwise RLOCK_PASSWORD, then the file RLOCK_PASSWORD_FILE]
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
    #[command(after_help = help::RUN_HELP)]
    Run(Run),
    #[command(after_help = help::ONCE_HELP)]
    Once(Once),
    #[command(after_help = help::ADOPT_HELP)]
    Adopt(Adopt),
    #[command(after_help = help::LOCK_HELP)]
    Lock(Lock),
    #[command(after_help = help::UNLOCK_HELP)]
    Unlock(Unlock),
    #[command(after_help = help::RENEW_HELP)]
    Renew(Renew),
    #[command(after_help = help::HOLD_HELP)]
    Hold(Hold),
    #[command(after_help = help::LS_HELP)]
    Ls(Ls),
    #[command(after_help = help::INSPECT_HELP)]
    Inspect(Inspect),
    #[command(after_help = help::BREAK_HELP)]
    Break(Break),
    #[command(after_help = help::SESSIONS_HELP)]
    Sessions(Sessions),
    #[command(after_help = help::TOP_HELP)]
    Top(Top),
    #[command(after_help = help::DOCTOR_HELP)]
    Doctor(Doctor),
    /// The same as `rlock doctor --short`
    #[command(after_help = help::DOCTOR_HELP)]
    Status(Doctor),
    #[command(after_help = help::DRILL_HELP)]
    Drill(Drill),
    #[command(after_help = help::DEV_HELP)]
    Dev(Dev),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS_HELP)]
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
    #[command(flatten)]
    pub work: Work,
}

/// Run a command once, and print its output for every caller
///
/// If an answer is stored under KEY, prints it. Otherwise one caller runs CMD under the lock KEY, and CMD's standard output
/// becomes the answer, which the server keeps for --keep; the other callers wait for it. If CMD fails, nothing is stored
/// or printed, and the next caller runs its own CMD.
#[derive(Args, Debug)]
#[command(mut_arg("command", |command| command.required_unless_present("forget")))]
pub struct Once {
    /// The name of the answer, and of the lock under which it is made
    pub key: OsString,
    /// How long the server keeps the answer: 50m, 12h
    #[arg(long, value_name = "TIME", required_unless_present = "forget", value_parser = some_time)]
    pub keep: Option<Duration>,
    /// Remove the answer: the next caller runs CMD
    #[arg(long, conflicts_with_all = ["keep", "line", "command", "wait", "no_wait", "max_waiters"])]
    pub forget: bool,
    #[command(flatten)]
    pub waiting: Waiting,
    /// How long the next caller waits if this machine dies; renewed while CMD runs
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub lease: Duration,
    #[command(flatten)]
    pub work: Work,
}

/// Run a command under a lock that another process has detached
///
/// Reads the text of a detached lock: the output of `rlock lock --detach`, or what `detach` of a client returned. Then it
/// does what `rlock run` does when it has the lock: renews the lease, runs CMD, and releases the lock. The text is as
/// secret as a password, so it is no argument: other users would see it.
#[derive(Args, Debug)]
pub struct Adopt {
    /// The file with the text as its first line; -: stdin, and CMD gets the rest of it [otherwise RLOCK_DETACHED]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub text_file: Option<PathBuf>,
    #[command(flatten)]
    pub work: Work,
}

// What runs under the lock. No doc comment, which would become the command's.
#[derive(Args, Debug)]
pub struct Work {
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

// Which lock is wanted. No doc comment, which would become the command's.
#[derive(Args, Debug, Default)]
pub struct Wish {
    /// The lock's name; with --all: the names, divided by commas
    pub key: OsString,
    #[command(flatten)]
    pub waiting: Waiting,
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
    /// Accept the lock only if N replicas confirm it within a third of the lease
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub replicas: Option<u16>,
    /// Take a fencing token too, as RLOCK_TOKEN; its counter stays at the server, one for each KEY
    #[arg(long)]
    pub token: bool,
}

// How a caller waits. No doc comment, which would become the command's.
#[derive(Args, Clone, Debug, Default)]
pub struct Waiting {
    /// How long to wait for the lock: 10s, 500ms, 5m; 0: do not wait [default: forever]
    #[arg(short, long, alias = "timeout", value_name = "TIME", value_parser = time)]
    pub wait: Option<Duration>,
    /// Give up at once if the lock is not free: the same as --wait 0
    #[arg(short, long, aliases = ["nonblock", "nb"], conflicts_with = "wait")]
    pub no_wait: bool,
    /// Give up at once if N or more wait for the lock already
    #[arg(long, value_name = "N", conflicts_with = "no_wait", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_waiters: Option<u32>,
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
/// Waits for the lock KEY, prints lines for a shell that name its holder and, with --token, its fencing token, and
/// exits. After that no process renews the lease, and nothing stops the script when it ends: choose a lease longer than
/// the script, renew it with `rlock renew`, and check the exit code of `rlock unlock`. If the script can be one
/// command, `rlock run` is safer.
#[derive(Args, Debug)]
pub struct Lock {
    #[command(flatten)]
    pub wish: Wish,
    /// How long the lock is held unless it is unlocked or renewed
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub lease: Duration,
    /// Print the text by which `rlock adopt` or a client goes on with the lock, within --lease, in place of the lines
    #[arg(long)]
    pub detach: bool,
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
    /// How long the lock is held from now on unless it is unlocked or renewed
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub lease: Duration,
}

// The holder of the lock. No doc comment: it would become the command's.
#[derive(Args, Debug)]
pub struct Of {
    /// KEY names several locks, divided by commas, as for `rlock lock --all`
    #[arg(long)]
    pub all: bool,
    /// The holder, or everything that `rlock lock` has printed [otherwise RLOCK_HOLDER]
    #[arg(conflicts_with_all = ["token_file", "token_fd"])]
    pub holder: Option<OsString>,
    /// The file that `rlock lock` wrote; `unlock` removes it
    #[arg(long, value_name = "FILE", conflicts_with = "token_fd", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// A file descriptor to read from what `rlock lock` wrote
    #[arg(long, value_name = "N", value_parser = descriptor)]
    pub token_fd: Option<RawFd>,
}

/// Hold a lock until stopped
///
/// Waits for the lock KEY, prints the same lines as `rlock lock`, and holds the lock and renews its lease until it gets
/// INT (Ctrl-C), TERM, HUP or QUIT, or until its input ends (/dev/null does not count as input). Then it releases the
/// lock.
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
/// The next waiter gets the lock at once. The former holders find out when they renew their lease, within a third of
/// it, and may go on working until then. It is safer to stop the program that holds the lock.
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
/// Each process has one session at a server, which has its waits; the sessions with the most waits come first. If a
/// session is ended, its waits leave their queues, and its process may open another.
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
    /// With --batch: end after N tables [default: go on forever]
    #[arg(short = 'n', long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

/// Find out which failure would lose a lock or stop all
///
/// Checks each server of the address, its replicas and its sentinels: their settings, whether those fit together, and
/// whether the servers can reach each other. Reports what is wrong in plain words, with the line that fixes it. Changes
/// nothing. Settings that this user may not read are reported as unknown, and do not count as fine.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Short form: each server, how many hold and wait, and what is wrong, without the fixes
    #[arg(long)]
    pub short: bool,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Have the master cut off, and count locks with two holders
///
/// For a staging network. Takes locks as clients on both sides of a cut, and has the master cut off from the other servers.
/// Counts the locks that two clients hold at the same time, each sure of its lease, and how long no lock is
/// granted. The manual is docs/drill.md.
#[derive(Args, Debug)]
pub struct Drill {
    /// How many locks to take
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=5_000))]
    pub locks: u32,
    /// The lease of each; a client renews it after a third
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub lease: Duration,
    /// What the names of the locks begin with; in a cluster it decides which master has them
    #[arg(long, value_name = "TEXT", default_value = "rlock-drill", value_parser = NonEmptyStringValueParser::new())]
    pub prefix: String,
    /// How long to wait for another master after the cut, and for the return of the old one
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time)]
    pub within: Duration,
    /// The address of the master that this machine reaches during the cut, if it is not the one that servers name
    #[arg(long, value_name = "HOST:PORT", value_parser = NonEmptyStringValueParser::new())]
    pub near: Option<String>,
    /// The command that cuts $RLOCK_DRILL_MASTER off [default: you are asked to do it]
    #[arg(long, value_name = "LINE", value_parser = NonEmptyStringValueParser::new())]
    pub cut: Option<String>,
    /// The command that heals the cut, also if the drill is interrupted
    #[arg(long, value_name = "LINE", value_parser = NonEmptyStringValueParser::new())]
    pub heal: Option<String>,
}

/// Serve locks from memory, for tests and tutorials
///
/// The engine of the rlock module behind a port, without Redis. It supports all commands of rlock, and the few others
/// that clients of rlock and tests of locks need. It stores nothing, and is not for production. The first line on
/// stdout is its address.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
