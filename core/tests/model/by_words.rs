//! Histories that are written as commands: what random ones seldom reach, or do not check.

use crate::scene::Scene;
use rlock_core::waiting::Most;
use rlock_sim::{Limits, Plain};

const SESSION: &str = "session-of-16-bytes";

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

/// Bob waits for a lock that ann has, and ann waits for it together with another lock: only she can get it before he does.
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

/// In the line of the lock that was released, and in that of another lock of the waiter that would get it.
#[test]
fn sixteen_waiters_for_several_locks_are_overtaken_in_one_line_and_no_more() {
    for (line, last) in [("k", "ACQUIRE k"), ("z", "MACQUIRE 2 k z")] {
        for (several, heard) in [(16, "$-1"), (17, "")] {
            let mut scene = Scene::new();
            assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
            assert_eq!(scene.say(2, "ACQUIRE other cid 1000"), "$-1");
            for id in 3..3 + several {
                assert_eq!(scene.say(id, &format!("MACQUIRE 2 {line} other h{id} 1000 WAIT 0")), "waits");
            }
            assert_eq!(scene.say(30, &format!("{last} bob 1000 WAIT 0")), "waits");
            assert_eq!(scene.node.engine.waits(), several as usize + 1);
            assert_eq!(scene.node.engine.oldest_since(), Some(scene.now));
            assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
            assert_eq!(scene.heard(30), heard, "{last}, behind {several}");
        }
    }
}

/// The reply says when the lock that the first waiter lacks can end: after that, this lock may be free.
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

#[test]
fn only_requests_for_plain_locks_overtake_a_waiter_for_several() {
    for request in ["RACQUIRE k eve 100", "WACQUIRE k eve 100", "PACQUIRE k eve 100 LIMIT 2"] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, "ACQUIRE other cid 5000"), "$-1");
        assert_eq!(scene.say(2, "MACQUIRE 2 k other ann 1000 WAIT 0"), "waits");
        assert_eq!(scene.say(3, request), ":5000", "{request}");
    }
}

/// If only the server looked, the end of a lease could be found late.
#[test]
fn a_lease_that_is_cut_wakes_the_engine_at_its_new_end() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 5000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 5000 WAIT 0"), "waits");
    assert_eq!(scene.say(1, "RENEW k ann 50"), ":1");
    assert_eq!(scene.node.wakes_at(), Some(scene.now + 51));
}

#[test]
fn a_client_that_takes_the_place_of_another_needs_no_room() {
    let mut scene = Scene::new();
    let limits = scene.node.host.limits.get();
    scene.node.host.limits.set(Limits { blocked: 1, ..limits });
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    assert!(scene.say(3, "ACQUIRE k cid 1000 WAIT 0").starts_with("-QUEUEFULL"));
    assert_eq!(scene.say(4, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    assert!(scene.heard(2).starts_with("-UNBLOCKED"));
}

#[test]
fn a_request_takes_the_place_of_its_holders_for_the_same_locks_only() {
    let mut scene = Scene::new();
    for key in ["k", "other", "third"] {
        assert_eq!(scene.say(1, &format!("ACQUIRE {key} cid 1000")), "$-1");
    }
    let requests = ["MACQUIRE 2 k other", "MACQUIRE 2 k third", "MACQUIRE 1 k", "ACQUIRE k", "ONCE k"];
    for (id, request) in (2..).zip(requests) {
        assert_eq!(scene.say(id, &format!("{request} ann 1000 WAIT 0")), "waits");
    }
    assert_eq!([2, 3, 4].map(|id| scene.heard(id)), ["", "", ""]);
    assert!(scene.heard(5).starts_with("-UNBLOCKED"), "ONCE and ACQUIRE take each other's place");
    assert_eq!(scene.say(7, "MACQUIRE 2 other k ann 1000 WAIT 0"), "waits");
    assert!(scene.heard(2).starts_with("-UNBLOCKED"));
}

#[test]
fn one_cancel_takes_a_thousand_tickets_where_no_client_can_wait() {
    let mut scene = Scene::new();
    let cancel = |count: usize| format!("CANCEL {SESSION}{}", " 7".repeat(count));
    assert_eq!(scene.say(1, &format!("EVENTS {SESSION}")), "*0");
    assert_eq!(scene.say_only(1, &cancel(2)), "*2 :0 :0", "at once");
    scene.node.host.may_block.set(false);
    assert!(scene.say_only(1, &cancel(1_000)).starts_with("*1000 :0"));
    assert!(scene.say_only(1, &cancel(1_001)).starts_with("-ERR"));
    scene.node.host.may_block.set(true);
    scene.node.host.has_subscription.set(true);
    scene.node.host.turn.set(1);
    scene.advance(0);
    assert!(scene.say_only(1, &cancel(3)).starts_with("*3 :0"), "in one turn, however short");
    assert!(scene.say_only(1, &cancel(1_001)).starts_with("-ERR"));
}

#[test]
fn no_lock_counts_the_tokens_of_another_in_one_request() {
    let mut scene = Scene::new();
    let said = scene.say(1, "MACQUIRE 2 k redisson_lock_token:{k} ann 1000 FENCED");
    assert!(said.starts_with("-ERR fencing counter"), "{said}");
}

#[test]
fn a_waiter_that_leaves_may_have_kept_out_one_behind_it() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE other cid 5000"), "$-1");
    assert_eq!(scene.say(2, "MACQUIRE 2 k other ann 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(3, "RACQUIRE k eve 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(4, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    scene.node.close(3);
    scene.advance(0);
    assert_eq!([2, 4].map(|id| scene.heard(id)), ["", "$-1"]);
}

#[test]
fn a_grant_of_several_locks_after_a_wait_has_their_tokens_in_the_order_of_the_keys() {
    let mut scene = Scene::new();
    for key in ["b", "b"] {
        assert!(scene.say(1, &format!("ACQUIRE {key} cid 1000 FENCED")).starts_with("*2 $-1 :"));
    }
    assert_eq!(scene.say(2, "MACQUIRE 2 b a ann 1000 FENCED WAIT 0"), "waits");
    assert_eq!(scene.say(1, "RELEASE b cid"), ":0");
    assert_eq!(scene.say(1, "RELEASE b cid"), ":1");
    let heard = scene.heard(2);
    let tokens: Vec<i64> = heard.split(" :").skip(1).map(|token| token.parse().unwrap()).collect();
    assert!(heard.starts_with("*2 $-1 *2 :") && tokens.len() == 2 && tokens[0] > tokens[1], "{heard}");
}

#[test]
fn the_time_that_serving_took_is_from_the_first_grant_to_the_last() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(3, "ACQUIRE k cid 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
    scene.advance(5);
    assert_eq!(scene.say(2, "RELEASE k bob"), ":1");
    assert_eq!([(); 2].map(|()| scene.node.engine.take_serving_ms()), [Some(5), None]);
}

#[test]
fn a_client_that_is_unblocked_gets_the_reply_of_its_request() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    for (id, fenced, reply) in [(2, "", ":1000"), (3, " FENCED", "*2 :1000 $-1")] {
        assert_eq!(scene.say(id, &format!("ACQUIRE k h{id} 1000 WAIT 0{fenced}")), "waits");
        assert!(scene.node.unblock(id, false));
        assert_eq!(scene.heard(id), reply);
    }
}

#[test]
fn inspect_tells_when_a_waiter_gives_up() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "ACQUIRE k bob 1000 WAIT 100"), "waits");
    scene.advance(30);
    let said = scene.say(9, "INSPECT k");
    assert!(said.contains("deadline-in-ms :70") && said.contains("waited-ms :30"), "{said}");
}

#[test]
fn a_ticket_whose_event_is_unread_is_in_use_for_all_but_the_same_request() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k cid 1000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    let ask = |request: &str| format!("{request} 1000 WAIT 0 SESSION {SESSION} 7");
    let waits = scene.say(2, &ask("ACQUIRE k ann"));
    assert_eq!(scene.say(1, "RELEASE k cid"), ":1");
    assert_eq!(scene.node.engine.claims_of_tickets(), 1);
    for other in ["ACQUIRE other ann", "ACQUIRE k bob", "RACQUIRE k ann", "ONCE k ann", "MACQUIRE 1 k ann"] {
        let said = scene.say(2, &ask(other));
        assert!(said.starts_with("-ERR ticket is in use"), "{other}: {said}");
    }
    assert_eq!(scene.say(2, &ask("ACQUIRE k ann")), waits);
}

#[test]
fn a_small_session_ends_within_its_command_and_a_large_one_in_later_turns() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k cid 1000"), "$-1");
    for (turn, waits) in [(100, 0), (3, 8)] {
        scene.node.host.turn.set(turn);
        scene.advance(0);
        assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
        (0..10).for_each(|ticket| {
            scene.say(2, &format!("ACQUIRE k h{ticket} 1000 WAIT 0 SESSION {SESSION} {ticket}"));
        });
        scene.node.host.begin_turn();
        assert_eq!(scene.say_only(2, &format!("CANCEL {SESSION}")), ":10");
        assert_eq!(scene.node.engine.waits(), waits);
        assert_eq!(scene.node.host.turn_left() > 0, waits == 0);
        (0..9).for_each(|_| scene.advance(1));
        assert_eq!(scene.node.engine.waits(), 0);
    }
}

/// Tom's request was overtaken as often as it may be, on another lock. Ann's, before it, was not.
#[test]
fn an_unattended_waiter_for_several_keeps_out_no_one_behind_it_wherever_it_stands() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE other cid 100000"), "$-1");
    assert_eq!(scene.say(2, "MACQUIRE 2 k other ann 1000 WAIT 0"), "waits");
    assert_eq!(scene.say(3, &format!("EVENTS {SESSION}")), "*0");
    scene.say(3, &format!("MACQUIRE 3 k z other tom 1000 WAIT 0 SESSION {SESSION} 7"));
    for id in 4..8 {
        assert_eq!(scene.say(id, &format!("ACQUIRE z h{id} 100")), "$-1");
        assert_eq!(scene.say(id, &format!("RELEASE z h{id}")), ":1");
    }
    assert_eq!(scene.say(8, "ACQUIRE k bob 1000 WAIT 0"), "waits");
    scene.node.close(3);
    scene.advance(0);
    assert_eq!(scene.heard(8), "$-1");
}

#[test]
fn a_waiter_for_a_lock_that_becomes_another_kind_is_refused() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "WACQUIRE k ann 1000"), "$-1");
    assert_eq!(scene.say(2, "RACQUIRE k eve 1000 WAIT 0"), "waits");
    scene.run_plain(Plain::Del { key: b"k" });
    scene.run_plain(Plain::HSet { key: b"k", field: b"dan", value: b"1" });
    (0..3).for_each(|_| scene.advance(100));
    let heard = scene.heard(2);
    assert!(heard.starts_with("-WRONGKIND"), "{heard}");
}

/// Right behind a command the server may be in the middle of something with other keys.
#[test]
fn behind_a_command_only_a_waiter_for_its_lock_alone_is_granted_it() {
    for (request, waits) in [("ACQUIRE k", 0), ("MACQUIRE 2 k z", 1)] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
        assert_eq!(scene.say(2, &format!("{request} bob 1000 WAIT 0")), "waits");
        assert!(scene.node.change(b"k", Plain::Del { key: b"k" }));
        scene.node.engine.follow_command(&scene.node.host);
        assert_eq!(scene.node.engine.waits(), waits, "{request}");
        scene.advance(0);
        assert_eq!(scene.heard(2), "$-1", "{request}");
    }
}

/// The writer's lease ends at that moment, and a turn is too short for all readers.
#[test]
fn a_waiter_with_an_ended_deadline_is_among_those_that_are_being_granted_the_lock() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "WACQUIRE k ann 1000"), "$-1");
    for id in 2..9 {
        assert_eq!(scene.say(id, &format!("RACQUIRE k h{id} 1000 WAIT 0")), "waits");
    }
    assert_eq!(scene.say(9, "RACQUIRE k eve 1000 WAIT 1001"), "waits");
    scene.node.host.turn.set(3);
    scene.node.host.begin_turn();
    scene.advance(1_001);
    for _ in 0..20 {
        scene.node.host.begin_turn();
        scene.advance(0);
    }
    (2..=9).for_each(|id| assert_eq!(scene.heard(id), "$-1", "{id}"));
}

#[test]
fn an_unread_event_of_several_locks_counts_for_each() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k cid 1000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    for (ticket, claims) in [(7, 3), (8, 5)] {
        let keys = if ticket == 7 { "3 k a b" } else { "2 c k" };
        scene.say(2, &format!("MACQUIRE {keys} ann{ticket} 1000 WAIT 0 SESSION {SESSION} {ticket}"));
        assert_eq!(scene.node.engine.claims_of_tickets(), claims);
    }
    assert_eq!(scene.say(1, "RELEASE k cid"), ":1");
    assert_eq!((scene.node.engine.waits(), scene.node.engine.claims_of_tickets()), (1, 5));
    scene.say(2, &format!("CANCEL {SESSION} 7"));
    assert_eq!(scene.node.engine.claims_of_tickets(), 2);
}

/// The end of a permit is a score: a number that is exact up to 2^53.
#[test]
fn a_permit_ends_at_the_largest_exact_number_at_the_latest() {
    let mut scene = Scene::new();
    let longest = (1_i64 << 53) - scene.now;
    for command in ["PACQUIRE k ann {} LIMIT 2", "RENEW k ann {}"] {
        let said = [longest + 1, longest].map(|lease| scene.say(1, &command.replace("{}", &lease.to_string())));
        assert!(said[0].starts_with("-ERR lease") && !said[1].starts_with('-'), "{command}: {said:?}");
    }
}

#[test]
fn a_reader_has_so_many_holds_at_most() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "RACQUIRE k ann 1000"), "$-1");
    let one_less = (rlock_core::lock::READ_HOLDS_MAX - 1).to_string();
    scene.run_plain(Plain::HSet { key: b"k", field: b"ann", value: one_less.as_bytes() });
    assert_eq!(scene.say(1, "RACQUIRE k ann 1000"), "$-1");
    assert!(scene.say(1, "RACQUIRE k ann 1000").starts_with("-ERR holder has too many holds"));
    assert_eq!(scene.say(1, "RENEW k ann 1000"), ":1");
    let one_more = (rlock_core::lock::READ_HOLDS_MAX + 1).to_string();
    scene.run_plain(Plain::HSet { key: b"k", field: b"ann", value: one_more.as_bytes() });
    assert!(scene.say(1, "RENEW k ann 1000").starts_with("-ERR holder has too many holds"));
}

/// Another program has made the lock's lease longer than those of its holds.
#[test]
fn up_to_sixteen_readers_are_all_looked_at_when_one_leaves() {
    for (readers, left) in [(16, ":1000"), (17, ":50000")] {
        let mut scene = Scene::new();
        for id in 1..=readers {
            assert_eq!(scene.say(id, &format!("RACQUIRE k h{id} 1000")), "$-1");
        }
        scene.run_plain(Plain::PExpireAt { key: b"k", at: scene.now + 50_000 });
        assert_eq!(scene.say(1, "RELEASE k h1"), ":0");
        assert_eq!(scene.say(30, "WACQUIRE k eve 10"), left, "{readers} readers");
    }
}

/// A server that comes late was busy, or stalled: signs of life may be unread.
#[test]
fn a_session_whose_end_is_noticed_late_gets_a_third_of_its_time_more() {
    for (late, lives) in [(0, false), (300, false), (301, true)] {
        let mut scene = Scene::new();
        assert_eq!(scene.say(1, &format!("EVENTS {SESSION} TTL 3000")), "*0");
        scene.advance(3_000 + late);
        assert_eq!(!scene.node.engine.sessions().is_empty(), lives, "{late} ms late");
        if lives {
            scene.advance(999);
            assert!(!scene.node.engine.sessions().is_empty());
            scene.advance(1);
            assert!(scene.node.engine.sessions().is_empty());
        }
    }
}

#[test]
fn inspect_names_the_connection_of_a_ticket_as_long_as_it_is_open() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 100000"), "$-1");
    assert_eq!(scene.say(3, &format!("EVENTS {SESSION}")), "*0");
    scene.say(3, &format!("ACQUIRE k bob 1000 WAIT 0 SESSION {SESSION} 7"));
    let said = scene.say(9, "INSPECT k");
    assert!(said.contains("client-id :3"), "{said}");
    scene.node.close(3);
    scene.advance(0);
    let said = scene.say(9, "INSPECT k");
    assert!(!said.contains("client-id :3"), "{said}");
}

#[test]
fn each_user_has_its_own_bound_of_sessions_within_that_of_all() {
    let mut scene = Scene::new();
    let limits = scene.node.host.limits.get();
    let open = |scene: &mut Scene, number: i32| scene.say(1, &format!("EVENTS session-of-16-bytes-{number}"));
    for (sessions, bound) in [(Most { all: 2, of_user: 1 }, "-per-user"), (Most { all: 1, of_user: 9 }, "sessions")] {
        scene.node.host.limits.set(Limits { sessions, ..limits });
        assert_eq!(open(&mut scene, 1), "*0");
        let said = open(&mut scene, 2);
        assert!(said.starts_with("-QUEUEFULL") && said.contains(bound), "{said}");
    }
}

#[test]
fn an_unread_event_of_several_locks_names_them_all_also_without_a_grant() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k cid 1000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    let ask = |keys: &str| format!("MACQUIRE {keys} ann 1000 WAIT 100 SESSION {SESSION} 7");
    let waits = scene.say(2, &ask("3 k a b"));
    scene.advance(100);
    assert_eq!((scene.node.engine.waits(), scene.node.engine.claims_of_tickets()), (0, 3));
    assert_eq!(scene.say(2, &ask("3 k a b")), waits);
    assert!(scene.say(2, &ask("3 k a c")).starts_with("-ERR ticket is in use"));
}

#[test]
fn the_tickets_of_an_unattended_session_stay_in_the_queue() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "WACQUIRE k ann 100000"), "$-1");
    assert_eq!(scene.say(3, &format!("EVENTS {SESSION}")), "*0");
    for (ticket, side) in [(7, "WACQUIRE"), (8, "RACQUIRE"), (9, "WACQUIRE")] {
        scene.say(3, &format!("{side} k bob{ticket} 1000 WAIT 0 SESSION {SESSION} {ticket}"));
    }
    scene.node.close(3);
    (0..9).for_each(|_| scene.advance(1));
    assert_eq!(scene.node.engine.waits(), 3);
    assert_eq!(scene.say(4, &format!("EVENTS {SESSION}")), "*0");
    assert_eq!(scene.say(1, "RELEASE k ann"), ":1");
    assert!(scene.say(4, &format!("EVENTS {SESSION}")).contains("$1 7 $7 granted"));
}

#[test]
fn a_session_with_too_many_unread_events_is_back_when_one_is_cancelled() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    let wait = |scene: &mut Scene, ticket: usize| {
        assert_eq!(scene.say(1, &format!("ACQUIRE k{ticket} cid 100000")), "$-1");
        scene.say(2, &format!("ACQUIRE k{ticket} ann 100000 WAIT 0 SESSION {SESSION} {ticket}"));
    };
    (0..=1_001).for_each(|ticket| wait(&mut scene, ticket));
    for ticket in 0..=1_001 {
        assert_eq!(scene.say(1, &format!("RELEASE k{ticket} cid")), ":1");
    }
    assert_eq!(scene.node.engine.waits(), 1, "with 1,001 unread events it is granted nothing");
    assert_eq!(scene.say(2, &format!("CANCEL {SESSION} 5")), "*1 :2");
    assert_eq!(scene.node.engine.waits(), 0);
}

#[test]
fn an_event_of_a_grant_that_is_no_more_has_no_time_left() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "WACQUIRE k cid 1000"), "$-1");
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    scene.say(2, &format!("WACQUIRE k ann 1000 WAIT 0 SESSION {SESSION} 7"));
    assert_eq!(scene.say(1, "RELEASE k cid"), ":1");
    assert_eq!(scene.say(9, "BREAK k"), ":1");
    assert_eq!(scene.say(3, "RACQUIRE k bob 5000"), "$-1");
    let said = scene.say(2, &format!("EVENTS {SESSION}"));
    assert!(said.contains("granted") && said.contains(":0") && !said.contains(":5000"), "{said}");
}

/// A command may touch only keys in the slot of its own lock.
#[test]
fn a_break_leaves_the_rest_of_another_lock_to_a_later_turn() {
    let mut scene = Scene::new();
    for key in ["k", "other"] {
        for id in 1..=9 {
            assert_eq!(scene.say(id, &format!("RACQUIRE {key} h{id} 1000")), "$-1");
        }
    }
    scene.node.host.turn.set(3);
    scene.node.host.begin_turn();
    assert_eq!(scene.say_only(30, "BREAK other"), ":1");
    scene.node.host.turn.set(1_000);
    scene.node.host.begin_turn();
    assert_eq!(scene.say_only(30, "BREAK k"), ":1");
    assert!(scene.node.wakes_at().is_some_and(|at| at <= scene.now));
    scene.advance(0);
    assert!(scene.node.wakes_at().is_none_or(|at| at > scene.now));
}

/// The keys of read holds have numbers, and the first ones are in use again.
#[test]
fn what_is_left_of_a_broken_lock_takes_no_hold_of_a_holder_that_is_back() {
    let mut scene = Scene::new();
    (0..3).for_each(|_| assert_eq!(scene.say(1, "RACQUIRE k ann 1000"), "$-1"));
    scene.node.host.turn.set(1);
    scene.node.host.begin_turn();
    assert_eq!(scene.say_only(9, "BREAK k"), ":1");
    assert_eq!(scene.say_only(1, "RACQUIRE k ann 1000"), "$-1");
    assert!(scene.node.wakes_at().is_some_and(|at| at <= scene.now), "there is something left");
    scene.node.host.turn.set(1_000);
    scene.advance(0);
    assert_eq!(scene.say(2, "RACQUIRE k bob 5000"), "$-1");
    assert_eq!(scene.say(2, "RELEASE k bob"), ":0");
    assert_eq!(scene.say(3, "WACQUIRE k eve 1000"), ":1000");
}

#[test]
fn a_broken_lock_of_one_holder_with_very_many_holds_leaves_no_key() {
    let mut scene = Scene::new();
    let before = scene.node.host.keyspace.borrow().clone();
    (0..2_000).for_each(|_| assert_eq!(scene.say(1, "RACQUIRE k ann 1000"), "$-1"));
    assert_eq!(scene.say(9, "BREAK k"), ":1");
    scene.advance(0);
    assert!(*scene.node.host.keyspace.borrow() == before);
}

#[test]
fn the_largest_sessions_are_shown_as_many_as_are_wanted() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(1, "ACQUIRE k ann 1000"), "$-1");
    for session in ["session-of-16-bytes-1", "session-of-16-bytes-2"] {
        assert_eq!(scene.say(2, &format!("EVENTS {session}")), "*0");
    }
    scene.say(2, "ACQUIRE k bob 1000 WAIT 0 SESSION session-of-16-bytes-2 7");
    for (count, shown) in [(1, "*1 "), (2, "*2 "), (3, "*2 ")] {
        let said = scene.say(9, &format!("SESSIONS COUNT {count}"));
        assert!(said.starts_with(shown), "{said}");
        let first = said.find("tickets :1").unwrap();
        assert!(said.find("tickets :0").is_none_or(|other| first < other), "{said}");
    }
}

#[test]
fn a_session_is_ended_by_its_number() {
    let mut scene = Scene::new();
    assert_eq!(scene.say(2, &format!("EVENTS {SESSION}")), "*0");
    assert_eq!(scene.say(9, "SESSIONS END 77"), ":0");
    assert_eq!(scene.say(9, "SESSIONS END 1"), ":1");
    assert!(scene.node.engine.sessions().is_empty());
}
