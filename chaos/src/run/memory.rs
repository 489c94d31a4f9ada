//! Whether servers keep something of each round: after one everything has been given back, so they should be as before.

use crate::checker::{Promise, Violation};
use crate::history::{Moment, Record, measured};
use std::collections::HashMap;

/// The name under which worlds tell the memory of a server.
const NAME: &str = "used memory after the round";

/// What a server may take for itself in time: buffers, tables of expiry and of commands that it has not seen before.
const SLACK: f64 = 2_000_000.0;

/// Until then it learns who its clients are: scripts are kept, tables grow to what a round needs.
const ROUNDS_TO_SETTLE: u32 = 3;

#[derive(Default)]
pub struct Memory {
    rounds: u32,
    settled: HashMap<String, f64>,
}

impl Memory {
    /// What has grown.
    pub fn after_round(&mut self, records: &[Record]) -> Option<Violation> {
        self.rounds += 1;
        let mut grown = None;
        for (_, server, bytes) in measured(records, NAME) {
            if self.rounds <= ROUNDS_TO_SETTLE {
                let most = self.settled.entry(server.clone()).or_default();
                *most = most.max(bytes);
            } else if let Some(settled) = self.settled.get(server).filter(|it| bytes > *it * 1.1 + SLACK) {
                let what = format!("{server}: {bytes} bytes in round {}, {settled} in the first ones", self.rounds);
                grown = Some(Violation::told(Promise::of("memory stays what it was"), Moment::now(), what));
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_after_the_first_rounds_is_told() {
        let round = |bytes| [Record::Measured { at: Moment(0), what: format!("{NAME} (server a)"), value: bytes }];
        let mut memory = Memory::default();
        let used = [1e6, 9e6, 2e6, 9e6, 1.1e7, 1.3e7];
        let told = used.map(|bytes| memory.after_round(&round(bytes)).is_some());
        assert_eq!(told, [false, false, false, false, false, true]);
    }
}
