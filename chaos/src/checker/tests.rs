//! What is said of a history as a whole. What each check lets pass, and what it does not, is tested beside it.

use super::written::{Written, give, granted, wait};
use super::*;
use crate::history::{Moment, Side};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[test]
fn what_was_told_is_a_violation() {
    let (promise, what) = ("Servers do not end.".to_owned(), "a ended".to_owned());
    let records = [Record::Broken { at: Moment(5), promise: promise.clone(), what }];
    let verdict = check(&records);
    assert_eq!(verdict.violations[0].promise, Promise(promise.into()));
    assert!(verdict.to_string().contains("Servers do not end."), "{verdict}");
}

/// So many turns, in each of which one of forty who wait is granted the lock, is seen in it, and gives it back.
fn turns(count: u64) -> Vec<Record> {
    const EACH: u64 = 10;
    const WAITS: u64 = 40 * EACH;
    let turn = |history: Written, number: u64| {
        let (who, asked) = (format!("c{number}"), number * EACH);
        let told = asked + WAITS;
        let history = history.did(&who, wait(5_000, 0), (asked, told), granted());
        let history = history.seen(told + 2, &[(&who, Side::Plain)], &[]);
        history.did(&who, give(Side::Plain), (told + 5, told + 7), Answer::Released(Some(1)))
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

/// Of this thread: others of the machine do not count.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}
