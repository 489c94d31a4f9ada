//! Verdicts on whole histories. The tests of each check are in its own file.

use super::written::{Written, give, granted, wait};
use super::*;
use crate::history::{Moment, Side};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[test]
fn a_recorded_breach_is_a_violation() {
    let (promise, what) = ("Servers do not end.".to_owned(), "a ended".to_owned());
    let records = [Record::Broken { at: Moment(5), promise: promise.clone(), what }];
    let verdict = check(&records);
    assert_eq!(verdict.violations[0].promise, Promise(promise.into()));
    assert!(verdict.to_string().contains("Servers do not end."), "{verdict}");
}

/// In each turn one of forty waiters is granted the lock, is seen as its holder, and releases it.
fn turns(count: u64) -> Vec<Record> {
    const EACH: u64 = 10;
    const WAITS: u64 = 40 * EACH;
    let turn = |history: Written, number: u64| {
        let (holder, asked) = (format!("c{number}"), number * EACH);
        let answered = asked + WAITS;
        let history = history.did(&holder, wait(5_000, 0), (asked, answered), granted());
        let history = history.seen(answered + 2, &[(&holder, Side::Plain)], &[]);
        history.did(&holder, give(Side::Plain), (answered + 5, answered + 7), Answer::Released(Some(1)))
    };
    (0..count).fold(Written::default(), turn).records()
}

/// Eight times as much takes far less than 64 times as long.
#[test]
fn much_is_checked_soon() {
    let took = [1_000, 8_000].map(|count| {
        let records = turns(count);
        let began = processor_time();
        let verdict = check(&records);
        let took = processor_time() - began;
        assert!(verdict.violations.is_empty(), "{verdict}");
        assert_eq!(verdict.figures.of("holds certain"), count, "{verdict}");
        took
    });
    assert!(took[1] < 32 * took[0], "{took:?}");
}

/// Of this thread only: the machine may have other load.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}
