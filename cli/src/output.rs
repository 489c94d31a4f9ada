//! What goes to stdout, in one piece. A reader that has gone, as `head` does, is no failure.

use crate::failure::Failure;
use crate::table::{Form, Heading};
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::os::fd::AsFd;

pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    print_if_read(bytes).map(drop)
}

/// Returns whether the reader still reads, for endless output.
pub fn print_if_read(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::of_the_system(error)),
    }
}

/// One JSON value, with a line end.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether a user reads remarks, which a program or a mail does not need.
pub fn is_watched() -> bool {
    is_terminal() || stderr().is_terminal()
}

/// Whether stdout is a terminal, and its user wants colours: <https://no-color.org>.
pub fn has_colours() -> bool {
    is_terminal() && wants_colours()
}

/// The form of a table on stdout.
pub fn form() -> Form {
    Form { heading: if has_colours() { Heading::Bold } else { Heading::Plain }, room: room_on(&stdout()) }
}

/// The form of a table on stderr.
pub fn form_of_questions() -> Form {
    Form { heading: Heading::Plain, room: room_on(&stderr()) }
}

/// The width of the stream, if it is a terminal that reports it.
pub fn room_on(stream: &impl AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(stream).map(|(width, _)| width.0.into())
}

pub fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
