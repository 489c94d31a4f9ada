//! Whether servers keep something of each round. After a round everything has been released, so their memory should be
//! as before.

use crate::checker::{Promise, Violation};
use crate::history::{Moment, Record, measured};
use std::collections::HashMap;

/// The figure of a server's memory.
const NAME: &str = "used memory after the round";

/// How much a server may grow by itself in time: buffers, tables of expiry and of commands.
const SLACK: f64 = 2_000_000.0;

/// In this many rounds memory may grow: the server caches scripts, and its tables grow to the size that a round needs.
const ROUNDS_TO_SETTLE: u32 = 3;

#[derive(Default)]
pub struct Memory {
    rounds: u32,
    settled: HashMap<String, f64>,
}

impl Memory {
    /// A violation if a server's memory has grown.
    pub fn after_round(&mut self, records: &[Record]) -> Option<Violation> {
        self.rounds += 1;
        let mut grown = None;
        for (_, server, bytes) in measured(records, NAME) {
            if self.rounds <= ROUNDS_TO_SETTLE {
                let most = self.settled.entry(server.clone()).or_default();
                *most = most.max(bytes);
            } else if let Some(settled) = self.settled.get(server).filter(|it| bytes > *it * 1.1 + SLACK) {
                let what = format!("{server}: {bytes} bytes in round {}, {settled} in the first ones", self.rounds);
                grown = Some(Violation::without_lock(Promise::of("memory stays what it was"), Moment::now(), what));
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_after_the_first_rounds_is_reported() {
        let round = |bytes| [Record::Measured { at: Moment(0), what: format!("{NAME} (server a)"), value: bytes }];
        let mut memory = Memory::default();
        let used = [1e6, 9e6, 2e6, 9e6, 1.1e7, 1.3e7];
        let reported = used.map(|bytes| memory.after_round(&round(bytes)).is_some());
        assert_eq!(reported, [false, false, false, false, false, true]);
    }
}
