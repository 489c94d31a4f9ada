//! What went wrong, in one line that says what and what to do, and an exit code. Never a stack trace: the
//! reader was woken up by it, or finds it in a mail from cron. What servers say is put into such lines in `advice.rs`.

use crate::exit;
use crate::shown;
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

    /// Says it, and returns the exit code.
    pub fn tell(self) -> u8 {
        say(&self.words);
        self.code
    }
}

/// One line on stderr. If that cannot be written, there is no other place to say so.
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
