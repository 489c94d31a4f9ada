//! Histories by their words: what random ones seldom reach, or do not look at.

use crate::scene::Scene;
use rlock_sim::Plain;

/// Redisson's waiters are notified of a lock that they can get now, or sooner than they know.
#[test]
fn a_release_hands_the_lock_over_in_one_step() {
    for (first, next, messages) in [
        ("ACQUIRE k ann 1000", "ACQUIRE k bob 1000", 0),
        ("ACQUIRE k ann 1000", "ACQUIRE k bob 2000", 0),
        ("ACQUIRE k ann 1000", "ONCE k bob 2000", 0),
        ("ACQUIRE k ann 1000", "ACQUIRE k bob 999", 1),
        ("WACQUIRE k ann 1000", "WACQUIRE k bob 2000", 0),
        ("WACQUIRE k ann 1000", "RACQUIRE k bob 2000", 1),
    ] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, first), "$-1");
        assert_eq!(scene.say(2, &format!("{next} WAIT 0")), "waits");
        assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
        assert_eq!((scene.heard(2), scene.published()), ("$-1".to_owned(), messages), "{next}, behind {first}");
    }
}

/// Bob waits for a lock that ann has, and ann waits for it with another: only she can get it before he does.
#[test]
fn a_holder_of_one_lock_gets_several_before_those_that_wait_for_it() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE other cid 1000"), "$-1");
    assert_eq!(scene.say(3, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(1, "MACQUIRE 2 k other ann 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(2, "RELEASE other cid"), ":1");
    assert_eq!([1, 3].map(|id| scene.heard(id)), ["$-1", ""]);
}

#[test]
fn sixteen_waiters_for_several_locks_are_overtaken_in_one_line_and_no_more() {
    for (several, heard) in [(16, "$-1"), (17, "")] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
        assert_eq!(scene.say(2, "ACQUIRE other cid 1000"), "$-1");
        for id in 3..3 + several {
            assert_eq!(scene.say(id, &format!("MACQUIRE 2 k other h{id} 1000 WAIT 0")), "waits");
        }
        assert_eq!(scene.say(30, "ACQUIRE k bob 1000 WAIT 0"), "waits");
        assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
        assert_eq!(scene.heard(30), heard, "behind {several}");
    }
}

/// It names when the lock can end that the first waiter lacks: later it may be free.
#[test]
fn a_try_at_a_lock_that_is_kept_for_a_waiter_learns_for_how_long() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE other cid 5000"), "$-1");
    assert_eq!(scene.say(2, "MACQUIRE 2 k other ann 1000 WAIT 0"), "waits");
    for id in 3..7 {
        assert_eq!(scene.say(id, &format!("ACQUIRE k h{id} 100")), "$-1");
        assert_eq!(scene.say(id, &format!("RELEASE k h{id}")), ":1");
    }
    assert_eq!(scene.say(7, "ACQUIRE k eve 100"), ":5000");
    scene.advance(1_000);
    assert_eq!(scene.say(7, "ACQUIRE k eve 100 WAIT 10"), "waits");
    scene.advance(10);
    assert_eq!(scene.heard(7), ":3990");
    scene.run_plain(Plain::Persist { key: b"other" });
    assert_eq!(scene.say(7, "ACQUIRE k eve 100"), ":1000");
}
