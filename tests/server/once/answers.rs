//! Which caller leads, and which answer the others get.

use super::{KEPT, gets};
use crate::inspect::of;
use crate::waiting::for_all_waiters;
use crate::waiting::scene::{First, Outcome, Scene};
use rlock_testing::resp::Protocol;
use rlock_testing::{LeaseCheck, Reply, Server, start_waiting, text, wait_until};

for_all_waiters!(
    every_caller_gets_the_answer_wherever_it_stands,
    without_an_answer_the_next_caller_leads,
    a_caller_waits_no_longer_than_it_asked_for,
    an_answer_of_another_database_comes_with_it,
    another_request_of_a_holder_takes_its_place,
);

fn every_caller_gets_the_answer_wherever_it_stands(scene: &mut Scene) {
    assert_eq!(scene.say("RLOCK.ONCE k ann 600000"), Reply::Nil);
    assert_eq!(scene.say("RLOCK.ONCE k ann 600000"), Reply::Nil, "the leader leads again");
    assert!((1..=600_000).contains(&scene.say("RLOCK.ONCE k bob 600000").as_int()));
    let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    let mut cid = scene.wait("RLOCK.ACQUIRE k cid 700000 WAIT 0");
    let mut dan = scene.wait("RLOCK.ONCE k dan 600000 WAIT 600000");
    assert_eq!(scene.say("RLOCK.ANSWER k bob 41 KEEP 600000"), Reply::Nil, "only the leader answers");
    let keep = LeaseCheck::begin(scene);
    assert_eq!(scene.say(KEPT), Reply::Int(1));
    keep.lease_is(scene, "rlock_answer:{k}", 600_000);
    cid.is_granted();
    gets(scene, &mut bob, "42");
    gets(scene, &mut dan, "42");
    assert_eq!(scene.ask("RLOCK.ONCE k eva 600000 WAIT 0"), text("42"), "also while another has the lock");
    assert_eq!(scene.say(KEPT), Reply::Nil, "the leader leads no more");
    assert_eq!((&*scene.fields("k"), scene.figures(["waiters", "answers_stored"])), ("{cid:1}", [0, 1]));
    assert!(scene.figure("answers_given") >= 3);
    let seen = scene.say("RLOCK.INSPECT k");
    assert_eq!(of(&seen, "answer-bytes"), &Reply::Int(2));
    assert!((1..=600_000).contains(&of(&seen, "answer-ttl-ms").as_int()), "{seen:?}");
    assert_eq!(scene.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(scene.keys(), ["rlock_answer:{k}"], "a break keeps the answer");
    scene.say("DEL rlock_answer:{k}");
    assert_eq!(scene.say("RLOCK.ONCE k eva 600000"), Reply::Nil, "without it the next caller leads");
}

fn without_an_answer_the_next_caller_leads(scene: &mut Scene) {
    for end in [
        "RLOCK.RELEASE k ann",
        "RLOCK.RELEASE k ann ALL",
        "RLOCK.BREAK k",
        "DEL k",
        "FLUSHALL",
        "SWAPDB 0 7",
        "PEXPIREAT k 1",
        "RLOCK.RENEW k ann 1",
    ] {
        assert_eq!(scene.say("RLOCK.ONCE k ann 600000"), Reply::Nil);
        let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
        let mut cid = scene.wait("RLOCK.ONCE k cid 600000 WAIT 0");
        scene.say(end);
        bob.is_granted();
        scene.say("SELECT 0");
        assert_eq!(scene.fields("k"), "{bob:1}", "{end}");
        assert_eq!(scene.say("RLOCK.ANSWER k ann late KEEP 600000"), Reply::Nil, "{end}");
        assert_eq!(scene.say("RLOCK.ANSWER k bob good KEEP 600000"), Reply::Int(1), "{end}");
        gets(scene, &mut cid, "good");
        scene.say("FLUSHALL");
    }
}

fn a_caller_waits_no_longer_than_it_asked_for(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 30");
    let outcome = bob.outcome();
    assert!(matches!(outcome, Outcome::TimeIsUp(1..=600_000)), "{outcome:?}");
    // cid is the first in the queue, and dan is not.
    let mut cid = scene.wait("RLOCK.ONCE k cid 600000 WAIT 300");
    let plain = scene.wait("RLOCK.ACQUIRE k plain 600000 WAIT 0");
    let mut dan = scene.wait("RLOCK.ONCE k dan 600000 WAIT 350");
    scene.say("SET rlock_answer:{k} copied PX 600000");
    gets(scene, &mut cid, "copied");
    gets(scene, &mut dan, "copied");
    assert_eq!(scene.fields("k"), "{ann:1}");
    plain.leave(scene);
}

fn an_answer_of_another_database_comes_with_it(scene: &mut Scene) {
    scene.say_all(["SELECT 7", "SET rlock_answer:{k} copied PX 600000", "SELECT 0", "RLOCK.ONCE k ann 600000"]);
    let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    assert_eq!(scene.say("SWAPDB 0 7"), text("OK"));
    gets(scene, &mut bob, "copied");
    scene.say("SELECT 0");
    assert_eq!(scene.keys(), ["rlock_answer:{k}"], "no caller leads");
}

fn another_request_of_a_holder_takes_its_place(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    let mut first = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    let mut second = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    assert!(first.outcome().is_error("UNBLOCKED"));
    scene.say(KEPT);
    gets(scene, &mut second, "42");
}

/// In both, a caller cannot wait, and callers that already wait are answered.
#[test]
fn in_a_transaction_and_in_a_script() {
    let server = Server::start();
    let mut scene = Scene::at(&server, First::Client);
    let transaction = [
        "RLOCK.ONCE k ann 600000",
        "RLOCK.ONCE k bob 600000 WAIT 0",
        "RLOCK.ANSWER k bob 41 KEEP 600000",
        KEPT,
        "RLOCK.ONCE k bob 600000 WAIT 0",
    ];
    let replies = scene.transaction(transaction);
    let [led, left, refused, stored, answer] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!([led, refused, stored, answer], [&Reply::Nil, &Reply::Nil, &Reply::Int(1), &text("42")]);
    assert!((1..=600_000).contains(&left.as_int()), "{left:?}");
    let script = "local led = redis.call('RLOCK.ONCE', KEYS[1], 'ann', '600000')
                  local left = redis.call('RLOCK.ONCE', KEYS[1], 'bob', '600000', 'WAIT', '0')
                  local stored = redis.call('RLOCK.ANSWER', KEYS[1], 'ann', ARGV[1], 'KEEP', '600000')
                  return {led == false, left, stored, redis.call('RLOCK.ONCE', KEYS[1], 'bob', '600000')}";
    let replies = scene.run(&["EVAL", script, "1", "other", "of a script"]);
    let [led, left, stored, answer] = replies.as_list() else { panic!("{replies:?}") };
    assert_eq!([led, stored, answer], [&Reply::Int(1), &Reply::Int(1), &text("of a script")]);
    // The module's clock runs on within a script.
    assert!((1..=600_000).contains(&left.as_int()), "{left:?}");
    for is_script in [false, true] {
        scene.say("FLUSHALL");
        scene.say("RLOCK.ONCE k ann 600000");
        let mut waiters = ["bob", "cid"].map(|name| scene.wait(&format!("RLOCK.ONCE k {name} 600000 WAIT 0")));
        let mut dan = start_waiting(&server, "RLOCK.ACQUIRE k dan 600000 WAIT 0");
        if is_script {
            let script = "return redis.call('RLOCK.ANSWER', KEYS[1], 'ann', '42', 'KEEP', '600000')";
            assert_eq!(scene.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
        } else {
            assert_eq!(scene.transaction([KEPT, "DEL rlock_answer:{k}", "SET rlock_answer:{k} 42"])[0], Reply::Int(1));
        }
        waiters.iter_mut().for_each(|waiter| gets(&mut scene, waiter, "42"));
        assert_eq!(dan.receive(), Reply::Nil);
    }
}

/// Byte for byte, for a waiting caller and for a newcomer.
#[test]
fn an_answer_is_bytes() {
    let (server, mut client) = Server::with_client();
    let key = b"a\r\nb\0\xff";
    for (value, shown) in [
        (&b""[..], r#""""#.to_owned()),
        (b"\r\n$3\r\n+OK\r\n:1\r\n", r#""\r\n$3\r\n+OK\r\n:1\r\n""#.to_owned()),
        (b"\0\xff\0", r#""\x00\xff\x00""#.to_owned()),
    ] {
        assert_eq!(client.run(&[b"RLOCK.ONCE", &key[..], b"ann", b"600000"]), Reply::Nil);
        let mut waiters = [("2", Protocol::Resp2), ("3", Protocol::Resp3)].map(|(number, protocol)| {
            let mut waiter = server.client();
            waiter.say(&format!("HELLO {number}"));
            (waiter, protocol)
        });
        for (number, (waiter, _)) in waiters.iter_mut().enumerate() {
            waiter.send(&[b"RLOCK.ONCE", &key[..], &[b'0' + u8::try_from(number).unwrap()], b"600000", b"WAIT", b"0"]);
        }
        client.until_waiting(2);
        assert_eq!(
            client.run(&[b"RLOCK.ANSWER", &key[..], b"ann", value, b"KEEP", b"600000"]),
            Reply::Int(1),
            "{shown}"
        );
        for (waiter, protocol) in &mut waiters {
            assert_eq!(waiter.receive_in(*protocol), shown);
            waiter.send(&[b"RLOCK.ONCE", &key[..], b"later", b"600000"]);
            assert_eq!(waiter.receive_in(*protocol), shown);
        }
        client.send(&[b"GET", &[b"rlock_answer:{", &key[..], b"}"].concat()[..]]);
        assert_eq!(client.receive_in(Protocol::Resp2), shown);
        client.say("FLUSHALL");
    }
}

/// The sleeper waits for a message of the channel, then asks. After a hand-over it is woken only if the new lease ends sooner
/// than the old one.
#[test]
fn a_sleeper_of_redissons_is_woken_by_an_answer() {
    let (server, mut client) = Server::with_client();
    let mut sleeper = server.client();
    sleeper.say("SUBSCRIBE redisson_lock__channel:{k}");
    let mut is_woken = |client: &mut rlock_testing::Client| {
        client.say("PUBLISH redisson_lock__channel:{k} end");
        let first = sleeper.receive().as_list()[2].as_text().to_owned();
        let is_woken = first == "0";
        assert!(!is_woken || sleeper.receive().as_list()[2] == text("end"));
        is_woken
    };
    client.say("RLOCK.ONCE k ann 600000");
    let mut caller = start_waiting(&server, "RLOCK.ONCE k bob 600000 WAIT 0");
    client.say(KEPT);
    assert!(is_woken(&mut client), "the lock is free");
    assert_eq!(caller.receive(), text("42"));
    for (lease, expected) in [("500000", true), ("6000000", false)] {
        client.say("DEL rlock_answer:{k}");
        client.say("RLOCK.ONCE k ann 600000");
        let mut plain = start_waiting(&server, &format!("RLOCK.ACQUIRE k plain {lease} WAIT 0"));
        client.say(KEPT);
        assert_eq!(plain.receive(), Reply::Nil);
        assert_eq!(is_woken(&mut client), expected, "{lease}");
        client.say("RLOCK.RELEASE k plain");
        is_woken(&mut client);
    }
}

#[test]
fn an_answer_expires() {
    let (server, mut client) = Server::with_client();
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    for answer in ["first", "second"] {
        assert_eq!(client.say("RLOCK.ONCE k ann 600000"), Reply::Nil, "before {answer}");
        let mut bob = start_waiting(&server, "RLOCK.ONCE k bob 600000 WAIT 0");
        assert_eq!(client.say(&format!("RLOCK.ANSWER k ann {answer} KEEP 1")), Reply::Int(1));
        assert_eq!(bob.receive(), text(answer));
        wait_until("it is gone", || client.expiry("rlock_answer:{k}") == -2);
    }
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!([of(&seen, "answer-bytes"), of(&seen, "answer-ttl-ms")], [&Reply::Nil, &Reply::Nil]);
}
