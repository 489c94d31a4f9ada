//! Whether the servers' clocks agree. A lease is stored as the time of its end, so the next master ends it by another
//! clock than the one that began it.

use crate::doctor::finding::Finding;
use crate::doctor::reading::{Clock, Node, Reading};
use crate::shown;
use std::time::Duration;

/// More than the difference of synchronized clocks, and less than any lease.
const MOST_US: i64 = 500_000;

pub fn look(reading: &Reading) -> Vec<Finding> {
    let clocks: Vec<_> = reading.nodes.iter().filter_map(|node| Some((node, clock(node)?))).collect();
    let Some((first, rest)) = clocks.split_first() else { return Vec::new() };
    rest.iter().filter_map(|(node, clock)| compared(first, node, clock)).collect()
}

fn clock(node: &Node) -> Option<Clock> {
    node.seen.as_ref().ok()?.clock.as_ref().ok().copied()
}

/// Goes by the minimum difference: the uncertainty of both clocks is subtracted.
fn compared((first, its): &(&Node, Clock), node: &Node, clock: &Clock) -> Option<Finding> {
    let ahead = clock.offset_us - its.offset_us;
    let certain = ahead.abs() - its.uncertain_us - clock.uncertain_us;
    let differs = Duration::from_micros(u64::try_from(certain).ok().filter(|_| certain > MOST_US)?);
    let (side, leases) = if ahead > 0 { ("ahead of", "earlier") } else { ("behind", "later") };
    let what = format!(
        "its clock is {} {side} that of {}: leases end so much {leases} if one takes the other's place",
        shown::time(differs),
        first.address
    );
    Some(Finding::wrong("clock", &node.address, what).fixed_by("timedatectl set-ntp true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{found, seen, watched};

    #[test]
    fn a_clock_that_is_wrong_for_certain() {
        let mut reading = watched();
        for (offset_us, uncertain_us, word) in [
            (2_000_000, 1_000, Some("ahead")),
            (-2_000_000, 1_000, Some("behind")),
            (2_000_000, 1_600_000, None),
            (400_000, 0, None),
        ] {
            seen(&mut reading, 2).clock = Ok(Clock { offset_us, uncertain_us });
            let findings = look(&reading);
            let fix = word.map(|_| ("clock", Some("timedatectl set-ntp true")));
            assert_eq!(found(&findings), Vec::from_iter(fix));
            assert!(findings.iter().all(|it| it.what.contains(word.unwrap())), "{findings:?}");
        }
    }
}
