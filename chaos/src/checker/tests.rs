//! Whole histories: those of right locks must pass, those of locks with a flaw must not.

use super::simulated::{Flaw, Settings, history};
use super::*;
use crate::history::Call;

use nix::time::{ClockId, clock_gettime};
use rlock_testing::Random;

/// Of each kind of trouble. Thousands were tried once.
const SEEDS: u64 = 30;

/// With each flaw; and in how many of them it has to be seen.
const HISTORIES: u64 = 8;
const MOST: usize = 7;

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

/// Which promise a flaw breaks. It was seen in each of twenty histories.
const BROKEN_BY: [(Flaw, Promise); 13] = [
    (Flaw::EarlyEnd, Promise::OneHolder),
    (Flaw::LastFirst, Promise::FirstComeFirstServed),
    (Flaw::Overtaking, Promise::FirstComeFirstServed),
    (Flaw::Sleep, Promise::NobodySleepsAtAFreeLock),
    (Flaw::LostGrant, Promise::HoldsLast),
    (Flaw::GrantToRefused, Promise::NoGrantToNobody),
    (Flaw::GrantToKilled, Promise::NoGrantToNobody),
    (Flaw::Mixed, Promise::OneHolder),
    (Flaw::DeafRenewal, Promise::OneHolder),
    (Flaw::Theft, Promise::OneHolder),
    (Flaw::TwinTokens, Promise::TokensGrow),
    (Flaw::FallingTokens, Promise::TokensGrow),
    (Flaw::Uncounted, Promise::HoldsLast),
];

#[test]
fn flaws_are_caught() {
    for (flaw, promise) in BROKEN_BY {
        let caught = (0..HISTORIES).filter(|seed| {
            let settings = if flaw == Flaw::GrantToKilled { killing(*seed) } else { Settings::of(*seed) };
            let settings = Settings { flaw: Some(flaw), scripts: flaw != Flaw::Sleep, ..settings };
            breaks(&history(settings), &promise)
        });
        let caught = caught.count();
        assert!(caught >= MOST, "{flaw:?} was caught in {caught} of {HISTORIES} histories");
    }
}

/// Which promise a flaw of sessions breaks, and how long it takes to show, in ms: until sessions have ended, or answers were
/// lost.
const BROKEN_BY_SESSIONS: [(Flaw, Promise, u64); 7] = [
    (Flaw::RevokedGrant, Promise::HoldsLast, 30_000),
    (Flaw::LostPlace, Promise::FirstComeFirstServed, 25_000),
    (Flaw::TwoOutcomes, Promise::OneOutcomeEach, 8_000),
    (Flaw::EventLost, Promise::WaitersAreAnswered, 90_000),
    (Flaw::LeftTicket, Promise::WhatIsTakenBackIsGone, 8_000),
    (Flaw::ShortLife, Promise::SessionsLast, 8_000),
    (Flaw::Absent, Promise::NoGrantToTheAbsent, 25_000),
];

fn by_tickets(seed: u64) -> Settings {
    Settings { sessions: true, length_ms: 8_000, ..Settings::of(seed) }
}

#[test]
fn right_locks_pass_whoever_waits_by_ticket() {
    let mut figures = Figures::default();
    for seed in 0..SEEDS / 3 {
        figures.add(&assert_right(by_tickets(seed)).figures);
        assert_right(Settings { meddling: true, ..by_tickets(seed) });
        assert_right(Settings { clock_steps: true, ..by_tickets(seed) });
        assert_right(Settings { meddling: true, clock_steps: true, failovers: true, ..by_tickets(seed) });
    }
    assert!(figures.told_grants > 5 * SEEDS, "{figures:?}");
    assert!(figures.lin_checked_locks > 2 * figures.lin_undecided_locks, "{figures:?}");
}

#[test]
fn flaws_of_sessions_are_caught() {
    for (flaw, promise, length_ms) in BROKEN_BY_SESSIONS {
        let among_themselves = |seed| Settings { scripts: false, guards: false, locks: 2, ..by_tickets(seed) };
        let settings = |seed| Settings { flaw: Some(flaw), length_ms, observed_every_ms: 20, ..among_themselves(seed) };
        // They are longer than the others.
        let caught = (0..HISTORIES / 2).filter(|seed| breaks(&history(settings(*seed)), &promise)).count();
        assert!(caught > MOST / 3, "{flaw:?} was caught in {caught} of {} histories", HISTORIES / 2);
    }
}

/// Long queues, in which somebody ends waits.
fn killing(seed: u64) -> Settings {
    Settings { meddling: true, trouble_every_ms: 30, clients: 40, locks: 1, guards: false, ..Settings::of(seed) }
}

fn breaks(records: &[Record], promise: &Promise) -> bool {
    check(records).violations.iter().any(|violation| violation.promise == *promise)
}

/// The answers that match, each with its place.
fn answers(records: &[Record], wanted: impl Fn(&Call, Moment, &Answer) -> bool) -> Vec<usize> {
    let mut calls = std::collections::HashMap::new();
    let mut found = Vec::new();
    for (place, record) in records.iter().enumerate() {
        if let Record::Called(call) = record {
            calls.insert((&call.client, call.number), call);
        }
        let Record::Answered { at, client, number, answer } = record else { continue };
        if calls.get(&(client, *number)).is_some_and(|call| wanted(call, *at, answer)) {
            found.push(place);
        }
    }
    found
}

/// In how many of 20 right histories one lie is seen.
fn lies_seen(lie: impl Fn(&mut Vec<Record>, &mut Random)) -> usize {
    let seen = (0..20).filter(|seed| {
        let mut records = history(Settings::of(*seed));
        lie(&mut records, &mut Random::from(seed + 1_000));
        records.sort_by_key(Record::at);
        !check(&records).violations.is_empty()
    });
    seen.count()
}

fn answer_instead(records: &mut [Record], place: usize, lie: Answer) {
    let Record::Answered { answer, .. } = &mut records[place] else { panic!("an answer") };
    *answer = lie;
}

#[test]
fn two_tokens_in_each_others_place_are_seen() {
    let seen = lies_seen(|records, random| {
        let is_token = |call: &Call, answer: &Answer| {
            call.lock == "plain:0" && matches!(answer, Answer::Granted { token: Some(_) })
        };
        let tokens = answers(records, |call, _, answer| is_token(call, answer));
        let (first, second) = (random.one_of(&tokens[..10]), random.one_of(&tokens[20..]));
        let (Record::Answered { answer: one, .. }, Record::Answered { answer: other, .. }) =
            (records[first].clone(), records[second].clone())
        else {
            panic!("answers")
        };
        answer_instead(records, first, other);
        answer_instead(records, second, one);
    });
    assert_eq!(seen, 20);
}

#[test]
fn a_grant_to_one_who_was_refused_is_seen() {
    let seen = lies_seen(|records, random| {
        let refused = answers(records, |call, _, answer| {
            call.lock != "rw:1" && matches!(answer, Answer::Refused { left_ms } if *left_ms > 5)
        });
        answer_instead(records, random.one_of(&refused), Answer::Granted { token: None });
    });
    assert!(seen >= 16, "{seen}");
}

#[test]
fn a_renewal_that_was_denied_is_seen() {
    let seen = lies_seen(|records, random| {
        let renewed = answers(records, |_, _, answer| matches!(answer, Answer::Renewed(true)));
        answer_instead(records, random.one_of(&renewed), Answer::Renewed(false));
    });
    assert!(seen >= 17, "{seen}");
}

#[test]
fn a_release_that_is_said_to_have_found_nothing_is_seen() {
    let seen = lies_seen(|records, random| {
        let released = answers(records, |_, _, answer| matches!(answer, Answer::Released(Some(_))));
        answer_instead(records, random.one_of(&released), Answer::Released(None));
    });
    assert!(seen >= 16, "{seen}");
}

#[test]
fn a_grant_that_comes_too_early_is_seen() {
    let seen = lies_seen(|records, random| {
        let waited = answers(records, |call, at, answer| {
            call.lock == "plain:0"
                && matches!(answer, Answer::Granted { .. })
                && at.since(call.at) > Duration::from_millis(20)
        });
        let place = random.one_of(&waited);
        let Record::Answered { at, client, number, .. } = records[place].clone() else { panic!("an answer") };
        let called = records.iter().find_map(|record| match record {
            Record::Called(call) if call.client == client && call.number == number => Some(call.at),
            _ => None,
        });
        let early = called.expect("it was called") + Duration::from_micros(200);
        assert!(early < at);
        let Record::Answered { at, .. } = &mut records[place] else { panic!("an answer") };
        *at = early;
    });
    assert!(seen >= 15, "{seen}");
}

#[test]
fn what_was_told_is_a_violation() {
    let (promise, what) = ("Servers do not end.".to_owned(), "a ended".to_owned());
    let records = [Record::Broken { at: Moment(5), promise: promise.clone(), what }];
    let verdict = check(&records);
    assert_eq!(verdict.violations[0].promise, Promise::Told(promise));
    assert!(verdict.to_string().contains("Servers do not end."), "{verdict}");
}

#[test]
fn a_verdict_can_be_written_and_read() {
    let verdict = check(&history(Settings { flaw: Some(Flaw::Theft), ..Settings::of(1) }));
    let text = serde_json::to_string(&verdict).expect("plain data");
    assert_eq!(serde_json::from_str::<Verdict>(&text).expect("plain data"), verdict);
    assert!(verdict.to_string().contains("BROKEN"), "{verdict}");
}

/// Eight times as much takes far less than 64 times as long.
#[test]
fn much_is_checked_soon() {
    let took = [2_500_u32, 20_000].map(|length_ms| {
        let length = length_ms.into();
        let settings =
            Settings { clients: 120, locks: 12, length_ms: length, observed_every_ms: 90, ..Settings::of(7) };
        let records = history(Settings { guards: false, ..settings });
        let began = processor_time();
        let verdict = check(&records);
        let took = processor_time() - began;
        assert!(verdict.figures.operations > 2 * u64::from(length_ms), "{verdict}");
        assert!(verdict.figures.lin_checked_operations > u64::from(length_ms), "{verdict}");
        took
    });
    assert!(took[1] < 32 * took[0], "{took:?}");
}

/// Of this thread: others of the machine do not count.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}
