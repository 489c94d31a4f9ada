//! A hand-over is a release and the next holder's grant: after it the keys must be as after the one and then the other, by
//! the naive reference. Only the messages differ: Redisson's sleepers are notified only if they have use for it, of a lock
//! that readers may join, or that ends sooner than they believe.
//!
//! Tried after each step of random histories, for each holder that would free the lock and each wish that may be next.

use crate::{HOLDERS, LOCK, Lock, Step, config, entries_of, history, permit, play};
use proptest::prelude::*;
use rlock_core::lock::{self, Expiry, HandOver, Lease, Record, Release, Side, Wish};
use rlock_sim::{Entry, Reference, Reply, Value};

/// One is shorter than most leases of the histories, one is longer.
const LEASES: [i64; 2] = [7, 600];

fn check(history: Vec<Step>) {
    play(history, false, |lock, reference| {
        for holder in HOLDERS {
            hands_over(lock, reference, holder);
            hands_over_with_an_answer(lock, reference, holder);
        }
    });
}

fn hands_over(lock: &Lock, reference: &Reference, holder: &str) {
    let (view, now, grace) = (lock.seen_by(holder), lock.now(), lock.grace());
    let want = Release { side: None, lease: None, all: true };
    let Ok(decision) = lock::release(&view, want, grace, now) else { return };
    if !decision.changes.frees() {
        return;
    }
    let ends = view.expiry();
    for (number, next) in HOLDERS.into_iter().cycle().take(8 * HOLDERS.len()).enumerate() {
        let side = [Side::Plain, Side::Read, Side::Write, permit(2)][number % 4];
        let (lease, fenced) = (LEASES[number % 2], number % 5 < 2);
        let wish = Wish { holder: next, side, lease: Lease::from_ms(lease).unwrap(), fenced };
        let hand_over = lock::hand_over(&view, decision.changes, &wish, grace, now);
        if reference.keeps_out(lease) {
            assert_eq!(hand_over, None, "to {next}, {side:?} for {lease} ms");
            continue;
        }
        let HandOver { released, granted } = hand_over.expect("a free lock is granted");
        let (mut after, mut expected) = (lock.clone(), reference.clone());
        after.apply([(holder, released), (next, granted.changes)]);
        expected.release(holder, None, None, true);
        let heard = expected.published.len();
        let reply = expected.acquire(next, side, lease, fenced);
        assert_eq!(reply, granted.token.map_or(Reply::Nil, Reply::Token));
        assert_eq!(after.entries(), entries_of(&expected.entries()), "{holder} to {next}, {side:?} for {lease} ms");
        let can_act = side == Side::Read || Expiry::At(now + lease) < ends;
        assert_eq!(expected.published.len(), heard, "a grant is not heard of");
        let expected = if can_act { &expected.published } else { &reference.published };
        assert_eq!(&after.published, expected, "{holder} to {next}, {side:?} for {lease} ms");
        assert!(is_whole(&after), "a lock that was handed over has one hold");
    }
}

/// An answer is a release with one key more.
fn hands_over_with_an_answer(lock: &Lock, reference: &Reference, holder: &str) {
    let (view, now, grace, keep) = (lock.seen_by(holder), lock.now(), lock.grace(), 50);
    let Ok(decision) = lock::answer(&view, Lease::from_ms(keep).unwrap(), now) else { return };
    assert_eq!(decision.answer, decision.changes.frees());
    for (next, lease) in HOLDERS.into_iter().zip([7, 600, 7]).filter(|(_, lease)| !reference.keeps_out(*lease)) {
        let wish = Wish { holder: next, side: Side::Plain, lease: Lease::from_ms(lease).unwrap(), fenced: true };
        let hand_over = decision.answer.then(|| lock::hand_over(&view, decision.changes, &wish, grace, now));
        let Some(HandOver { released, granted }) = hand_over.flatten() else { continue };
        let (mut after, mut expected) = (lock.clone(), reference.clone());
        after.apply_with([(holder, released), (next, granted.changes)], Some(b"42"));
        assert_eq!(expected.answer(holder, b"42", keep), Reply::Number(1));
        assert_eq!(expected.acquire(next, Side::Plain, lease, true), granted.token.map_or(Reply::Nil, Reply::Token));
        assert_eq!(after.entries(), entries_of(&expected.entries()), "{holder} answers, {next} is next for {lease} ms");
    }
}

fn is_whole(lock: &Lock) -> bool {
    let Some(Entry { value, expiry: Expiry::At(_) }) = lock.keyspace.get(0, LOCK.as_bytes()) else { return false };
    match value {
        Value::SortedSet(permits) => permits.len() == 1,
        Value::Hash(fields) => fields.iter().filter(|(field, _)| field != b"mode").count() == 1,
        Value::Text(_) => false,
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_plain_lock_is_handed_over(history in history([Side::Plain])) {
        check(history);
    }

    #[test]
    fn a_read_write_lock_is_handed_over(history in history([Side::Read, Side::Read, Side::Write])) {
        check(history);
    }

    #[test]
    fn the_last_permit_is_handed_over(history in history([permit(1), permit(2), permit(3)])) {
        check(history);
    }
}
