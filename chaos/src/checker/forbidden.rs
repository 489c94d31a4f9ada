//! Grants by a server that could not write at that time.
//!
//! Only samples show when a waiter was granted the lock: it is no holder in one sample, and a holder in the next.

use super::by_lock::LockHistory;
use super::verdict::{NO_GRANT_WHILE_FORBIDDEN, Verdict};
use crate::history::{Holding, Sample};

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    for (earlier, sample) in lock.looks() {
        let Some(new) = sample.holders.iter().find(|holding| !has(earlier, holding)) else { continue };
        let (from, until) = (earlier.asked, sample.answered);
        // A clock that is stepped may end a pause.
        let mut around = lock.troubles.forbidden.touching(from, until).filter(|(began, ended, (server, _))| {
            *began <= from
                && until <= *ended
                && *server == sample.server
                && !lock.troubles.clock_steps.touches(*began, *ended)
        });
        // Swapping databases takes locks away and brings them back.
        if let Some((.., (server, why))) = around.next().filter(|_| !lock.is_removed(from, until)) {
            let what = format!("{} got it from server {server} in spite of {why}", new.holder);
            let evidence: Vec<_> = lock.last_of(&new.holder).into_iter().collect();
            verdict.violations.push(lock.violation(NO_GRANT_WHILE_FORBIDDEN, sample.asked, what, &evidence));
        }
    }
}

fn has(sample: &Sample, holding: &Holding) -> bool {
    sample.holders.iter().any(|it| it.holder == holding.holder && it.side == holding.side)
}

#[cfg(test)]
mod tests {
    use super::NO_GRANT_WHILE_FORBIDDEN;
    use crate::checker::written::{Written, clock, removed};
    use crate::history::Side::Plain;

    fn handed_over(at: u64) -> Written {
        let before = Written::default().seen(at - 20, &[("x", Plain)], &[("w", Plain, 0)]);
        before.seen(at, &[("w", Plain)], &[])
    }

    #[test]
    fn a_new_holder_between_two_looks_is_one() {
        assert_eq!(handed_over(500).forbade((100, 900)).broken(), [NO_GRANT_WHILE_FORBIDDEN]);
        let free = Written::default().seen(480, &[], &[("w", Plain, 0)]).seen(500, &[("w", Plain)], &[]);
        assert_eq!(free.forbade((100, 900)).broken(), [NO_GRANT_WHILE_FORBIDDEN]);
    }

    #[test]
    fn it_may_have_been_before_or_after() {
        assert_eq!(handed_over(500).forbade((490, 900)).broken(), []);
        assert_eq!(handed_over(500).forbade((100, 490)).broken(), []);
        assert_eq!(handed_over(500).broken(), []);
    }

    #[test]
    fn a_lock_that_is_brought_back_is_none() {
        let swapped = handed_over(500).forbade((100, 900)).troubled((450, 490), removed(false));
        assert_eq!(swapped.broken(), []);
        let before = handed_over(500).forbade((100, 900)).troubled((200, 300), removed(false));
        assert_eq!(before.broken(), [NO_GRANT_WHILE_FORBIDDEN]);
    }

    #[test]
    fn a_waiter_that_goes_is_no_grant() {
        let gone = Written::default().seen(480, &[("x", Plain), ("y", Plain)], &[]).seen(500, &[("y", Plain)], &[]);
        assert_eq!(gone.forbade((100, 900)).broken(), []);
    }

    #[test]
    fn a_clock_that_is_stepped_ends_pauses() {
        assert_eq!(handed_over(500).forbade((100, 900)).troubled((300, 301), clock(1_000)).broken(), []);
    }
}
