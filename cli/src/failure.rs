//! What went wrong, in one line that says what and what to do, and an exit code. Never a stack trace: who reads this
//! was woken up by it, or finds it in a mail from cron.

use crate::exit;
use crate::shown;
use rlock_client::{Error, ErrorKind};
use std::error::Error as _;
use std::io;

#[derive(Debug)]
pub struct Failure {
    code: u8,
    words: String,
}

impl Failure {
    pub fn new(code: u8, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }

    pub fn usage(words: impl Into<String>) -> Self {
        Self::new(exit::USAGE, words)
    }

    pub fn of_the_system(error: io::Error) -> Self {
        Self::new(exit::SYSTEM, error.to_string())
    }

    /// Something that the server at that address did not do.
    pub fn of_the_server(server: &str, error: &Error) -> Self {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        match error.kind() {
            ErrorKind::Unavailable => {
                let advice = "is --url or RLOCK_URL right, and the server up?";
                Self::new(exit::UNAVAILABLE, format!("no server answers at {server}: {cause}; {advice}"))
            }
            ErrorKind::ModuleMissing => {
                let what = format!("the server at {server} has no rlock module, or one without this command");
                let advice = "add `loadmodule /path/to/librlock.so` to its configuration";
                Self::new(exit::REFUSED, format!("{what}: {advice}"))
            }
            ErrorKind::QueueFull | ErrorKind::TooFewReplicas { .. } => {
                Self::new(exit::UNAVAILABLE, format!("{error}; try later"))
            }
            // Before anything was run.
            ErrorKind::Lost => {
                Self::new(exit::UNAVAILABLE, format!("{error} while it was asked for; a longer --lease?"))
            }
            ErrorKind::Configuration => Self::usage(format!("{error}; see rlock --help")),
            _ => Self::of_a_refusal(server, error),
        }
    }

    fn of_a_refusal(server: &str, error: &Error) -> Self {
        let password = "set RLOCK_PASSWORD or --password-file";
        match error.code() {
            Some("NOPERM") => Self::new(exit::FORBIDDEN, format!("{error}; ask who keeps the server's ACL")),
            Some("WRONGPASS" | "NOAUTH") => {
                Self::new(exit::FORBIDDEN, format!("the server at {server} refuses the password: {password}"))
            }
            None if is_about_a_password(error) => {
                Self::new(exit::FORBIDDEN, format!("the server at {server} refuses the password: {password}"))
            }
            _ => Self::new(exit::REFUSED, error.to_string()),
        }
    }

    /// Says it, and returns the exit code.
    pub fn tell(self) -> u8 {
        say(&self.words);
        self.code
    }
}

/// One line on stderr. If nobody can read it, there is nothing that could be done.
pub fn say(words: &str) {
    use io::Write;
    let _ = writeln!(io::stderr(), "rlock: {}", shown::line(words));
}

/// A panic is a defect of ours: one line, and a code that says so. Where a screen is up, ratatui has taken it down
/// before.
pub fn say_defects_in_one_line() {
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("a defect in rlock itself, please report it: {panic}"));
        std::process::exit(exit::DEFECT.into());
    }));
}

pub fn is_about_a_password(error: &Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<rlock_client::redis::RedisError>());
    source.is_some_and(|source| source.kind() == rlock_client::redis::ErrorKind::AuthenticationFailed)
}
