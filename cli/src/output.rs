//! What goes to stdout, in one piece. A reader that has gone, as `head` does, is no failure.

use crate::failure::Failure;
use crate::table::Heading;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::of_the_system(error)),
        _ => Ok(()),
    }
}

/// One JSON value, with a line end.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether somebody reads remarks that a program or a mail has no use for.
pub fn is_watched() -> bool {
    is_terminal() || stderr().is_terminal()
}

/// Whether stdout is looked at by somebody who wants colours: <https://no-color.org>.
pub fn has_colours() -> bool {
    is_terminal() && wants_colours()
}

/// The heading of a table on stdout.
pub fn heading() -> Heading {
    if has_colours() { Heading::Bold } else { Heading::Plain }
}

pub fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
