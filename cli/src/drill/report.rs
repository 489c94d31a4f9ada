//! The verdict. What could not be determined is never success.

use super::ledger::{Counts, Side};
use crate::address::Address;
use crate::exit;
use crate::shown;
use std::fmt::Display;
use std::time::Duration;

#[derive(Default)]
pub struct Report {
    pub counts: Counts,
    /// At the end of the cut.
    pub kept: [usize; 2],
    pub longest_wait: Duration,
    /// The longest wait had not ended.
    pub still_waits: bool,
    unknown: Vec<String>,
}

impl Report {
    pub fn unknown(&mut self, what: String) {
        self.unknown.push(what);
    }

    pub fn code(&self) -> u8 {
        match (self.counts.held_twice, self.unknown.is_empty() && !self.still_waits) {
            (0, true) => 0,
            (0, false) => exit::UNAVAILABLE,
            _ => exit::NOTHING_DONE,
        }
    }

    pub fn text(&self, at: &Address) -> String {
        let (counts, mut text) = (&self.counts, "\n".to_owned());
        let [near, rest] =
            [Side::CutOff, Side::Rest].map(|side| (counts.held[side as usize], self.kept[side as usize]));
        let mut row = |name: &str, value: &dyn Display| text += &format!("{name:<46}  {value}\n");
        row("locks held at the cut", &(near.0 + rest.0));
        row("renewed by their holders on the other side", &format!("{} of {}", rest.1, rest.0));
        row("lost by their holders on the cut-off side", &format!("{} of {}", near.0 - near.1, near.0));
        row("granted by the cut-off master since", &counts.late);
        row("held twice", &counts.held_twice);
        let so_far = if self.still_waits { ", so far" } else { "" };
        row("longest wait for a free lock", &format!("{}{so_far}", shown::time(self.longest_wait)));
        row("tokens in order", &format!("{} of {}", counts.grants - counts.fallen, counts.grants));
        for what in &self.unknown {
            text += &format!("not known: {what}\n");
        }
        text + &match (&counts.example, self.code()) {
            (Some(example), _) => format!(
                "wrong: {} locks had two holders, as {example}: rlock doctor names the setting\n",
                counts.held_twice
            ),
            (None, 0) => format!("no lock had two holders while {at} was cut off\n"),
            (None, _) => "no lock was seen with two holders, but not all could be tried\n".to_owned(),
        }
    }
}
