//! Error messages: one line that says what is wrong and what to do, and an exit code. Never a stack trace: the message
//! may have woken its reader up, or arrived in a mail from cron. `advice.rs` words the servers' errors. Only typing
//! errors get more lines, with suggestions.

use crate::exit;
use crate::shown;
use std::io;

#[derive(Debug)]
pub struct Failure {
    code: u8,
    words: String,
    /// What may have been meant, each on a line of its own.
    tips: Vec<String>,
}

impl Failure {
    pub fn new(code: u8, words: impl Into<String>) -> Self {
        Self { code, words: words.into(), tips: Vec::new() }
    }

    pub fn usage(words: impl Into<String>) -> Self {
        Self::new(exit::USAGE, words)
    }

    pub fn with_tips(self, tips: Vec<String>) -> Self {
        Self { tips, ..self }
    }

    pub fn of_the_system(error: io::Error) -> Self {
        Self::system(error.to_string())
    }

    pub fn system(words: impl Into<String>) -> Self {
        Self::new(exit::SYSTEM, words)
    }

    /// Prints the message, and returns the exit code.
    pub fn report(self) -> u8 {
        say(&self.words);
        self.tips.iter().for_each(|tip| write(&format!("  tip: {}", shown::line(tip))));
        self.code
    }
}

/// One line on stderr.
pub fn say(words: &str) {
    write(&format!("rlock: {}", shown::line(words)));
}

/// If it cannot be written, there is no other place to say so.
fn write(line: &str) {
    use io::Write;
    let _ = writeln!(io::stderr(), "{line}");
}

/// A panic is a bug in rlock: one line, with its own exit code. `top` restores the terminal first.
pub fn say_defects_in_one_line() {
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("a defect in rlock itself, please report it: {panic}"));
        std::process::exit(exit::DEFECT.into());
    }));
}
