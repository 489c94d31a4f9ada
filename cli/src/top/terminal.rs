//! The terminal while `top` runs: the alternate screen, without an echo of what is typed. The former screen comes back,
//! also after a panic.

use crate::output;
use crate::shown;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use std::io::{self, Write, stdout};

/// One line of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub look: Look,
}

/// With NO_COLOR, bold and reversed do what colours do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Plain,
    Bold,
    Heading,
    Selected,
    Alarm,
    Keys,
}

pub struct Terminal {
    size: (u16, u16),
    /// What is on it.
    lines: Vec<Line>,
}

impl Terminal {
    pub fn open() -> io::Result<Self> {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            close();
            report(panic);
        }));
        let opened = Self { size: (0, 0), lines: Vec::new() };
        terminal::enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(opened)
    }

    /// Writes the changed lines.
    pub fn show(&mut self, lines: impl FnOnce((u16, u16)) -> Vec<Line>) -> io::Result<()> {
        let size = terminal::size()?;
        let mut stdout = stdout().lock();
        if self.size != size {
            queue!(stdout, Clear(ClearType::All))?;
            (self.size, self.lines) = (size, Vec::new());
        }
        let lines = lines(size);
        for (place, line) in (0..size.1).zip(&lines) {
            if self.lines.get(usize::from(place)) != Some(line) {
                queue!(stdout, MoveTo(0, place))?;
                stdout.write_all(line.whole(size.0.into()).as_bytes())?;
            }
        }
        self.lines = lines;
        stdout.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        close();
    }
}

/// Errors are ignored: a terminal that is gone needs nothing.
fn close() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = terminal::disable_raw_mode();
}

impl Line {
    pub fn new(text: impl Into<String>, look: Look) -> Self {
        Self { text: text.into(), look }
    }

    /// Padded to the width of the screen, so that nothing is left of the line before it.
    fn whole(&self, width: usize) -> String {
        let text = shown::cut(&self.text, width);
        let free = width.saturating_sub(shown::width(&text));
        format!("\x1b[{}m{text}{:free$}\x1b[0m", self.look.codes(), "")
    }
}

impl Look {
    fn codes(self) -> &'static str {
        match (self, output::wants_colours()) {
            (Self::Plain, _) | (Self::Keys, false) => "0",
            (Self::Selected, _) => "7",
            (Self::Bold, _) | (Self::Heading | Self::Alarm, false) => "1",
            (Self::Heading, true) => "1;33",
            (Self::Alarm, true) => "1;31",
            (Self::Keys, true) => "36",
        }
    }
}
