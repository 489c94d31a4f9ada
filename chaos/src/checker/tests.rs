//! Whole histories: those of right locks must pass, those of locks with a flaw must not.

use super::simulated::{Flaw, Settings, history};
use super::*;
use crate::random::Random;

/// Of each kind of trouble.
const SEEDS: u64 = 100;

fn assert_right(settings: Settings) -> Verdict {
    let records = history(settings);
    let verdict = check(&records);
    if let Some(violation) = verdict.violations.first() {
        panic!("{settings:?}: {verdict}\n{}", crate::story::story(&records, violation));
    }
    verdict
}

#[test]
fn right_locks_pass() {
    let mut figures = Figures::default();
    for seed in 0..SEEDS {
        let verdict = assert_right(Settings::of(seed));
        figures.grants += verdict.figures.grants;
        figures.holds_certain += verdict.figures.holds_certain;
        figures.lin_checked_locks += verdict.figures.lin_checked_locks;
        figures.lin_undecided_locks += verdict.figures.lin_undecided_locks;
    }
    assert!(figures.grants > 100 * SEEDS && figures.holds_certain > 100 * SEEDS, "{figures:?}");
    assert!(figures.lin_checked_locks > 9 * figures.lin_undecided_locks, "{figures:?}");
}

#[test]
fn right_locks_pass_whatever_is_done_to_them() {
    for seed in 0..SEEDS {
        assert_right(Settings { meddling: true, ..Settings::of(seed) });
        assert_right(Settings { clock_steps: true, ..Settings::of(seed) });
        assert_right(Settings { failovers: true, ..Settings::of(seed) });
        assert_right(Settings { meddling: true, clock_steps: true, failovers: true, ..Settings::of(seed) });
    }
}

#[test]
fn flaws_are_caught() {
    for flaw in Flaw::ALL {
        let mut caught = 0;
        let mut by = std::collections::BTreeMap::new();
        for seed in 0..40 {
            let settings = Settings { flaw: Some(flaw), meddling: flaw == Flaw::GrantToKilled, ..Settings::of(seed) };
            let verdict = check(&history(settings));
            caught += u32::from(!verdict.violations.is_empty());
            for violation in verdict.violations {
                *by.entry(format!("{:?}", violation.promise)).or_insert(0) += 1;
            }
        }
        println!("{flaw:?}: {caught} of 40, {by:?}");
    }
}
