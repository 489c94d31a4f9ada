//! Where the line is shown: in place at a terminal, as long as we are in its foreground; elsewhere, if requested, as
//! separate lines. A drop erases the line at a terminal, before anything else is written.

use crate::arguments::Wish;
use crate::failure::say;
use crate::output;
use crate::shown;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;
use tokio::time::Instant;

/// The time between two lines that are not shown in place.
const DISTANCE: Duration = Duration::from_secs(10);

pub enum Screen {
    Terminal { is_up: bool },
    Lines { last: Option<(String, Instant)> },
}

impl Screen {
    /// `None` if nothing has to be shown.
    pub fn for_this(wish: &Wish) -> Option<Self> {
        let is_terminal = stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        match (wish.waiting.quiet, is_terminal, wish.waiting.verbose) {
            (true, ..) => None,
            (_, true, _) => Some(Self::Terminal { is_up: false }),
            (_, _, true) => Some(Self::Lines { last: None }),
            _ => None,
        }
    }

    pub fn show(&mut self, words: &str, waited: Duration) {
        let whole = format!("{words}, waiting for {}", in_seconds(waited));
        match self {
            Self::Terminal { is_up } => {
                if has_foreground() {
                    let columns = output::room_on(&stderr()).unwrap_or(80);
                    // A line that is as wide as the screen would wrap.
                    let line = shown::cut(&format!("rlock: {whole}"), columns.saturating_sub(1));
                    write(&format!("\r{line}\x1b[K"));
                    *is_up = true;
                }
            }
            Self::Lines { last } => {
                let is_due = |(before, when): &(String, Instant)| before != words && when.elapsed() >= DISTANCE;
                if last.as_ref().is_none_or(is_due) {
                    say(&whole);
                    *last = Some((words.to_owned(), Instant::now()));
                }
            }
        }
    }

    pub fn clear(&mut self) {
        if let Self::Terminal { is_up } = self {
            if std::mem::take(is_up) && has_foreground() {
                write("\r\x1b[K");
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Also true without job control, because then there is no other job to disturb.
pub fn has_foreground() -> bool {
    tcgetpgrp(stderr()).map_or(true, |foreground| foreground == getpgrp())
}

/// A terminal that is gone needs no line.
fn write(text: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn in_seconds(time: Duration) -> String {
    if time < Duration::from_secs(60) { format!("{}s", time.as_secs()) } else { shown::time(time) }
}
