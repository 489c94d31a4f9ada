//! Permits: as many holders at once as each request allows, their waiters, and what others see of them.

use crate::grace::{LONG_MS, begin, end};
use crate::inspect::of;
use crate::waiting::scene::{Outcome, Scene};
use crate::waiting::{for_all_waiters, median};
use rlock_testing::{Client, Event, Reply, Server, ServerVersion, Session, Tap, Wanted, text, wait_until};

for_all_waiters!(
    waiters_are_granted_as_permits_are_released,
    no_request_overtakes_a_higher_limit,
    a_permit_that_ends_is_granted_to_the_next_within_5_ms,
    a_wait_that_ends_replies_when_the_first_permit_ends,
    whatever_removes_permits_admits_waiters,
    no_permit_is_granted_within_a_grace,
    a_lock_and_permits_follow_each_other,
);

/// Sorted by name: the server sorts them by their ends, which may be the same.
fn holders(client: &mut Client) -> Vec<String> {
    let mut holders: Vec<_> = client.say("ZRANGE k 0 -1").words().into_iter().map(str::to_owned).collect();
    holders.sort();
    holders
}

/// When this holder's permit ends.
fn end_of(client: &mut Client, holder: &str) -> i64 {
    client.say(&format!("ZSCORE k {holder}")).as_text().parse().unwrap()
}

#[test]
fn as_many_have_one_as_the_request_allows() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.PACQUIRE k ann 600000 LIMIT 2"), Reply::Nil);
    assert_eq!(client.say("RLOCK.PACQUIRE k bob 300000 LIMIT 2"), Reply::Nil);
    let left = client.say("RLOCK.PACQUIRE k cid 900000 LIMIT 2").as_int();
    assert!((299_000..=300_000).contains(&left), "until the first of them ends: {left}");
    assert_eq!(holders(&mut client), ["ann", "bob"]);
    assert_eq!(client.expiry("k"), end_of(&mut client, "ann"), "the key ends with the last");
    assert_eq!(client.say("RLOCK.PACQUIRE k cid 900000 LIMIT 3"), Reply::Nil, "each is judged by its own limit");
    assert_eq!(client.expiry("k"), end_of(&mut client, "cid"));
    assert!(client.say("RLOCK.PACQUIRE k dan 1000 LIMIT 1").as_int() > 0, "and a lower one ends no hold");

    assert_eq!(client.say("RLOCK.RELEASE k cid"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE k cid"), Reply::Nil);
    assert_eq!(client.expiry("k"), end_of(&mut client, "ann"));
    assert_eq!(client.say("RLOCK.RENEW k cid 600000"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RENEW k bob 800000"), Reply::Int(1));
    assert_eq!(client.expiry("k"), end_of(&mut client, "bob"), "a renewal may make it the last");
    assert_eq!(client.say("RLOCK.RENEW k bob 1000"), Reply::Int(1));
    assert_eq!(client.expiry("k"), end_of(&mut client, "ann"), "and no longer the last");
    assert_eq!(client.say("RLOCK.RELEASE k bob LEASE 5 ALL"), Reply::Int(1), "LEASE and ALL mean nothing");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn a_holder_is_granted_it_again_with_a_new_lease() {
    let (_server, mut client) = Server::with_client();
    client.say_all(["ann", "bob", "cid"].map(|holder| format!("RLOCK.PACQUIRE k {holder} 600000 LIMIT 3")));
    let before = end_of(&mut client, "bob");
    let first = client.say("RLOCK.PACQUIRE k bob 700000 LIMIT 1 FENCED").token();
    assert!(end_of(&mut client, "bob") >= before + 100_000);
    let second = client.say("RLOCK.PACQUIRE k bob 500000 LIMIT 1 WAIT 0 FENCED").token();
    assert!(first < second, "{second} after {first}");
    assert!(end_of(&mut client, "bob") <= before);
    assert_eq!(client.say("ZCARD k"), Reply::Int(3), "it is one permit");
    let refused = client.say("RLOCK.PACQUIRE k dan 600000 LIMIT 3 FENCED");
    assert!(matches!(refused.as_list(), [Reply::Int(_), Reply::Nil]), "{refused:?}");
}

#[test]
fn a_permit_that_has_ended_is_none() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.PACQUIRE k long 600000 LIMIT 2");
    client.say("RLOCK.PACQUIRE k ann 1 LIMIT 2");
    let end = end_of(&mut client, "ann");
    wait_until("it has ended", || client.time_ms() > end);
    assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Nil);
    assert_eq!(of(&client.say("RLOCK.INSPECT k"), "holder-count"), &Reply::Int(1));
    assert_eq!(client.say("ZCARD k"), Reply::Int(2), "and stays as an entry");
    assert_eq!(client.say("RLOCK.PACQUIRE k bob 600000 LIMIT 2"), Reply::Nil);
    assert_eq!(holders(&mut client), ["bob", "long"], "until the next change takes it along");
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let (server, mut client) = Server::with_client();
    client.say_all(["RLOCK.ACQUIRE plain ann 600000", "RLOCK.RACQUIRE rw ann 600000", "SET text 1"]);
    client.say_all(["RLOCK.PACQUIRE k ann 600000 LIMIT 1", "HSET hash f x", "SADD set 1"]);
    let mut tap = Tap::on(&server);
    for (command, error) in [
        ("RLOCK.PACQUIRE k ann 1000", "ERR wrong number of arguments"),
        ("RLOCK.PACQUIRE k ann 1000 WAIT 5", "ERR LIMIT must be"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT", "ERR wrong number of arguments"),
        ("RLOCK.PACQUIRE k ann 1000 WAIT 5 LIMIT", "ERR LIMIT must be"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT 0", "ERR LIMIT must be"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT 100001", "ERR LIMIT must be"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT -1", "ERR LIMIT must be"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT 1 limit 1", "ERR option LIMIT given twice"),
        ("RLOCK.PACQUIRE k ann 1000 LIMIT 1 ALL", "ERR option unknown"),
        ("RLOCK.ACQUIRE k ann 1000 LIMIT 1", "ERR option unknown"),
        ("RLOCK.PACQUIRE k ann 0 LIMIT 1", "ERR lease must be"),
        ("RLOCK.PACQUIRE k ann 9007199254740992 LIMIT 1", "ERR lease must be"),
        ("RLOCK.RENEW k ann 9007199254740992", "ERR lease must be"),
        ("RLOCK.PACQUIRE k mode 1000 LIMIT 1", "ERR holder must be"),
        ("RLOCK.PACQUIRE plain ann 1000 LIMIT 1", "WRONGKIND key is a plain lock"),
        ("RLOCK.PACQUIRE plain bob 1000 LIMIT 1 WAIT 0", "WRONGKIND key is a plain lock"),
        ("RLOCK.PACQUIRE rw ann 1000 LIMIT 1", "WRONGKIND key is a read-write lock"),
        ("RLOCK.PACQUIRE text ann 1000 LIMIT 1", "WRONGTYPE"),
        ("RLOCK.PACQUIRE set ann 1000 LIMIT 1", "WRONGTYPE"),
        ("RLOCK.ACQUIRE k ann 1000", "WRONGKIND key holds permits"),
        ("RLOCK.ACQUIRE k bob 1000 WAIT 0", "WRONGKIND key holds permits"),
        ("RLOCK.RACQUIRE k ann 1000", "WRONGKIND key holds permits"),
        ("RLOCK.WACQUIRE k ann 1000", "WRONGKIND key holds permits"),
        ("RLOCK.RELEASE k ann READ", "WRONGKIND key holds permits"),
        ("RLOCK.RELEASE k ann WRITE", "WRONGKIND key holds permits"),
    ] {
        let reply = client.say(command);
        assert!(reply.as_error().starts_with(error), "{command}: {reply:?}");
    }
    assert_eq!(tap.drain(), [""; 0]);
    for orders in ["FENCED WAIT 5 limit 2", "wait 0 Limit 2 fenced MAX 1", "LIMIT 100000 FENCED"] {
        assert_eq!(client.say(&format!("RLOCK.PACQUIRE k ann 1000 {orders}")).as_list()[0], Reply::Nil, "{orders}");
    }
}

/// Foreign scores, or dates of another kind.
#[test]
fn a_foreign_sorted_set_is_left_alone() {
    let (server, mut client) = Server::with_client();
    let far = client.time_ms() + 600_000;
    for make in
        ["ZADD k 100 ann 7 bob", "ZADD k inf ann", "ZADD k 1700000000 ann", "ZADD k 0 ann 18014398509481984 bob"]
    {
        client.say_all(["DEL k", make, &format!("PEXPIREAT k {far}")]);
        let mut tap = Tap::on(&server);
        for command in [&USES[..], &["RLOCK.INSPECT k", "RLOCK.BREAK k"]].concat() {
            let reply = client.say(command);
            assert!(reply.as_error().starts_with("WRONGTYPE"), "{command} on {make}: {reply:?}");
        }
        assert_eq!(tap.drain(), [""; 0]);
    }
}

/// What a holder or a client asks of a lock.
const USES: [&str; 6] = [
    "RLOCK.PACQUIRE k ann 1000 LIMIT 9",
    "RLOCK.PACQUIRE k cid 1000 LIMIT 9 WAIT 0",
    "RLOCK.ACQUIRE k ann 1000",
    "RLOCK.RACQUIRE k ann 1000",
    "RLOCK.RELEASE k ann",
    "RLOCK.RENEW k ann 1000",
];

/// Nothing is dropped from such a key; INSPECT shows the permits in it, and BREAK deletes it.
#[test]
fn permits_among_other_scores_can_be_seen_and_broken() {
    let (_server, mut client) = Server::with_client();
    for damage in ["ZADD k 0 bob", "ZADD k -inf bob", "ZADD k inf bob", "ZINCRBY k 0.5 ann", "ZADD k 0.5 bob inf cid"] {
        client.say_all(["RLOCK.PACQUIRE k ann 600000 LIMIT 9", damage]);
        for command in USES {
            let reply = client.say(command);
            assert!(reply.as_error().starts_with("WRONGTYPE"), "{command} after {damage}: {reply:?}");
        }
        let seen = client.say("RLOCK.INSPECT k");
        assert_eq!(of(&seen, "kind"), &text("permits"), "{damage}");
        let shown = of(&seen, "holders").as_list();
        assert_eq!(of(&shown[0], "holder"), &text("ann"), "{damage}");
        assert!((1..=600_000).contains(&of(&shown[0], "ttl-ms").as_int()), "{damage}");
        assert_eq!(client.say_all(["RLOCK.BREAK k", "EXISTS k"]), [Reply::Int(1), Reply::Int(0)], "{damage}");
    }
    client.say_all(["RLOCK.PACQUIRE k ann 1 LIMIT 9", "PERSIST k", "ZADD k 0 bob"]);
    let end = end_of(&mut client, "ann");
    wait_until("it has ended", || client.time_ms() > end);
    assert_eq!(of(&client.say("RLOCK.INSPECT k"), "holder-count"), &Reply::Int(0));
    assert_eq!(client.say_all(["RLOCK.BREAK k", "EXISTS k"]), [Reply::Int(1), Reply::Int(0)], "none is alive");
}

#[test]
fn a_permit_that_a_stranger_removes_is_released_whatever_the_expiry() {
    let (server, mut client) = Server::with_client();
    for expiry in ["EXISTS k", "PERSIST k", "PEXPIRE k 90000000", "PEXPIRE k 30000"] {
        client.say_all(["RLOCK.PACQUIRE k ann 600000 LIMIT 2", "RLOCK.PACQUIRE k bob 60000000 LIMIT 2", expiry]);
        let mut waiter = rlock_testing::start_waiting(&server, "RLOCK.PACQUIRE k cid 500000 LIMIT 2 WAIT 0");
        assert_eq!(client.say("ZREM k bob"), Reply::Int(1));
        assert_eq!(waiter.receive(), Reply::Nil, "{expiry}");
        assert_eq!(
            (holders(&mut client), client.expiry("k")),
            (vec!["ann".to_owned(), "cid".to_owned()], end_of(&mut client, "ann")),
            "{expiry}"
        );
        client.say(expiry);
        let seen = client.say("RLOCK.INSPECT k");
        assert_eq!((of(&seen, "kind"), of(&seen, "holder-count")), (&text("permits"), &Reply::Int(2)), "{expiry}");
        let uses = [
            "RLOCK.RENEW k ann 600000",
            "RLOCK.RENEW k bob 600000",
            "RLOCK.RELEASE k cid",
            "RLOCK.BREAK k",
            "EXISTS k",
        ];
        assert_eq!(client.say_all(uses), [1, 0, 1, 1, 0].map(Reply::Int), "{expiry}");
    }
}

#[test]
fn what_is_granted_past_many_that_have_ended_stays_short() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.PACQUIRE k long 600000 LIMIT 5000");
    client.say_all((0..2_500).map(|number| format!("RLOCK.PACQUIRE k h{number} 1000 LIMIT 5000")));
    let last = end_of(&mut client, "h2499");
    wait_until("they have ended", || client.time_ms() > last);
    let mut tap = Tap::on(&server);
    assert_eq!(client.say("RLOCK.PACQUIRE k ann 600000 LIMIT 2"), Reply::Nil);
    assert_eq!(tap.drain()[2], "ZREMRANGEBYRANK k 0 999");
    assert_eq!(client.say("ZCARD k"), Reply::Int(1_502));
    assert!(client.say("RLOCK.PACQUIRE k bob 600000 LIMIT 2").as_int() > 0, "two have not ended");
    assert_eq!(tap.drain(), [""; 0]);
    for left in [502, 2] {
        client.say("RLOCK.RENEW k ann 700000");
        assert_eq!(client.say("ZCARD k"), Reply::Int(left));
    }
    assert_eq!(holders(&mut client), ["ann", "long"]);
}

#[test]
fn people_on_call_see_each_permit_and_break_all() {
    let (server, mut client) = Server::with_client();
    let [_, _, token] = ["ann 600000", "bob 300000", "cid 900000"]
        .map(|who| client.say(&format!("RLOCK.PACQUIRE k {who} LIMIT 3 FENCED")).token());
    let mut dan = rlock_testing::start_waiting(&server, "RLOCK.PACQUIRE k dan 600000 LIMIT 2 WAIT 0");
    let seen = client.say("RLOCK.INSPECT k COUNT 2");
    assert_eq!((of(&seen, "kind"), of(&seen, "holder-count")), (&text("permits"), &Reply::Int(3)));
    assert_eq!(of(&seen, "fencing-token"), &Reply::Int(token));
    let shown = of(&seen, "holders").as_list();
    let names: Vec<_> = shown.iter().map(|shown| of(shown, "holder").as_text()).collect();
    assert_eq!(names, ["bob", "ann"], "those that end first");
    for (shown, lease) in shown.iter().zip([300_000, 600_000]) {
        assert_eq!((of(shown, "side"), of(shown, "count")), (&text("permit"), &Reply::Int(1)));
        let left = of(shown, "ttl-ms").as_int();
        assert!((lease - 9_000..=lease).contains(&left), "{left} of {lease}");
    }
    let waiter = &of(&seen, "waiters").as_list()[0];
    assert_eq!((of(waiter, "side"), of(waiter, "limit")), (&text("permit"), &Reply::Int(2)));
    let queues = client.say("RLOCK.QUEUES");
    assert!(queues.as_list()[0].as_list().contains(&text("k")), "{queues:?}");
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(dan.receive(), Reply::Nil);
    assert_eq!(holders(&mut client), ["dan"]);
    assert_eq!(client.say_all(["RLOCK.BREAK k", "RLOCK.BREAK k"]), [Reply::Int(1), Reply::Int(0)]);
}

/// All permits end in the same ms, and as many waiters wait.
#[test]
fn three_thousand_that_end_in_one_ms_admit_three_thousand() {
    const MANY: usize = 3_000;
    let (server, mut client) = Server::with_client();
    let mut ann = Session::open(&server, "many");
    let ends = client.time_ms() + 100_000;
    client.say_all((0..MANY).map(|number| format!("ZADD k {ends} h{number}")));
    client.say(&format!("PEXPIREAT k {ends}"));
    // One more permit does not end so soon, so that the key stays.
    client.say("RLOCK.PACQUIRE k long 6000000 LIMIT 100000");
    let ask = |number: usize| format!("RLOCK.PACQUIRE k w{number} 600000 LIMIT {} WAIT 0", MANY + 1);
    (0..MANY).for_each(|number| ann.wait_for(&ask(number), &format!("t{number}")));
    let soon = client.time_ms() + 700;
    let sets = (0..MANY).map(|number| format!("ZADD k {soon} h{number}"));
    client.say_all(sets);
    assert_eq!(client.figure("waiters"), 3_000);
    let mut received: Vec<Event> = Vec::new();
    wait_until("all are granted", || {
        received.extend(ann.fetch(&format!("WAIT 100 ACK {}", received.last().map_or(0, |last| last.seq))));
        received.len() == MANY
    });
    assert!(received.iter().enumerate().all(|(number, event)| event.ticket == format!("t{number}")), "in their order");
    assert_eq!(client.say("ZCARD k"), Reply::Int(3_001), "and the others are gone");
}

/// The event has the permit's own end, not the key's.
#[test]
fn an_event_says_when_the_permit_ends() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say_all(["holder 600000", "long 6000000"].map(|who| format!("RLOCK.PACQUIRE k {who} LIMIT 2")));
    ann.wait_for("RLOCK.PACQUIRE k ann 300000 LIMIT 2 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    let received = ann.call("WAIT 0");
    assert_eq!(received.events(), [Event::granted(1, "1", None)]);
    let [ends_in] = received.grants_end_in()[..] else { panic!("{received:?}") };
    assert!((290_000..=300_000).contains(&ends_in), "{ends_in}");
    let again = client.say("RLOCK.PACQUIRE k ann 300000 LIMIT 3 WAIT 0 SESSION the-session-of-ann 1");
    assert!(again.as_error().starts_with("ERR ticket is in use"), "another limit: {again:?}");
}

#[test]
fn a_copy_has_permits_of_its_own() {
    let (_server, mut client) = Server::with_client();
    client.say_all(["RLOCK.PACQUIRE k ann 600000 LIMIT 1", "COPY k other", "RENAME k k2"]);
    for key in ["other", "k2"] {
        assert!(client.say(&format!("RLOCK.PACQUIRE {key} bob 600000 LIMIT 1")).as_int() > 0);
        assert_eq!(client.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Int(1));
        assert_eq!(client.say(&format!("RLOCK.PACQUIRE {key} bob 600000 LIMIT 1")), Reply::Nil);
    }
    assert_eq!(client.say("RLOCK.PACQUIRE k bob 600000 LIMIT 1"), Reply::Nil);
}

fn waiters_are_granted_as_permits_are_released(scene: &mut Scene) {
    scene.say_all(["h1", "h2", "h3"].map(|holder| format!("RLOCK.PACQUIRE k {holder} 600000 LIMIT 3")));
    let mut line: Vec<_> =
        (0..6).map(|number| scene.wait(&format!("RLOCK.PACQUIRE k w{number} 600000 LIMIT 3 WAIT 0 FENCED"))).collect();
    let order = ["h2", "h1", "h3", "w0", "w1", "w2"];
    let mut last = 0;
    for (leaves, waiter) in order.into_iter().zip(&mut line) {
        assert_eq!(scene.say(&format!("RLOCK.RELEASE k {leaves}")), Reply::Int(1));
        let token = waiter.outcome().token();
        assert!(last < token, "{token} after {last}");
        last = token;
        assert_eq!(scene.say("ZCARD k"), Reply::Int(3));
    }
    scene.say_all(["w3", "w4", "w5"].map(|holder| format!("RLOCK.RELEASE k {holder}")));
    assert_eq!(scene.keys(), ["redisson_lock_token:{k}"]);
}

fn no_request_overtakes_a_higher_limit(scene: &mut Scene) {
    scene.say_all(["h1", "h2", "h3"].map(|holder| format!("RLOCK.PACQUIRE k {holder} 600000 LIMIT 3")));
    let mut few = scene.wait("RLOCK.PACQUIRE k few 600000 LIMIT 2 WAIT 0");
    let mut many = scene.wait("RLOCK.PACQUIRE k many 600000 LIMIT 100 WAIT 0");
    assert!(scene.say("RLOCK.PACQUIRE k more 600000 LIMIT 1000").as_int() > 0);
    assert_eq!(scene.say("RLOCK.PACQUIRE k h1 600000 LIMIT 1"), Reply::Nil, "but for who has one");
    scene.say("RLOCK.RELEASE k h1");
    assert!(scene.say("RLOCK.PACQUIRE k more 600000 LIMIT 1000").as_int() > 0);
    assert_eq!((scene.figure("waiters"), scene.say("ZCARD k")), (2, Reply::Int(2)));
    scene.say("RLOCK.RELEASE k h2");
    few.is_granted();
    many.is_granted();
    assert_eq!(holders(scene), ["few", "h3", "many"]);
    let first = scene.wait("RLOCK.PACQUIRE k first 600000 LIMIT 1 WAIT 0");
    let mut second = scene.wait("RLOCK.PACQUIRE k second 600000 LIMIT 4 WAIT 0");
    let server = scene.server;
    first.leave(&mut server.client());
    second.is_granted();
}

fn a_permit_that_ends_is_granted_to_the_next_within_5_ms(scene: &mut Scene) {
    const ROUNDS: i64 = 10;
    scene.say("RLOCK.PACQUIRE k long 600000 LIMIT 3");
    scene.say("RLOCK.PACQUIRE k other 500000 LIMIT 3");
    let mut wanted = Wanted::by(scene.server.id());
    let late: Vec<_> = (1..=ROUNDS)
        .map(|_| {
            scene.say("RLOCK.PACQUIRE k ann 600000 LIMIT 3");
            let mut bob = scene.wait("RLOCK.PACQUIRE k bob 600000 LIMIT 3 WAIT 0");
            let end = scene.time_ms() + 50;
            scene.say("RLOCK.RENEW k ann 50");
            bob.is_granted();
            let granted = end_of(scene, "bob") - 600_000;
            wanted.look();
            assert!(granted >= end, "a permit has its whole time");
            scene.say("RLOCK.RELEASE k bob");
            granted - end - wanted.ms_between(end, granted)
        })
        .collect();
    assert!(median(late.clone()) <= 5, "{late:?}");
}

fn a_wait_that_ends_replies_when_the_first_permit_ends(scene: &mut Scene) {
    scene.say("RLOCK.PACQUIRE k long 600000 LIMIT 2");
    scene.say("RLOCK.PACQUIRE k ann 300000 LIMIT 2");
    let mut waiter = scene.wait("RLOCK.PACQUIRE k bob 600000 LIMIT 2 WAIT 20");
    let outcome = waiter.outcome();
    assert!(matches!(outcome, Outcome::TimeIsUp(290_000..=300_000)), "{outcome:?}");
}

fn whatever_removes_permits_admits_waiters(scene: &mut Scene) {
    for removal in [
        "ZREM k ann",
        "ZPOPMIN k",
        "ZREMRANGEBYRANK k 0 0",
        "ZREMRANGEBYSCORE k 0 (inf",
        "ZINCRBY k -90000000 ann",
        "ZRANGESTORE k none 0 -1",
        "DEL k",
        "UNLINK k",
        "RENAME k other",
        "MOVE k 5",
        "FLUSHALL",
        "RLOCK.BREAK k",
        "RLOCK.RENEW k ann 1",
        "RLOCK.PACQUIRE k ann 1 LIMIT 9",
    ] {
        scene.say_all(["RLOCK.PACQUIRE k ann 50000000 LIMIT 2", "RLOCK.PACQUIRE k bob 60000000 LIMIT 2"]);
        let mut waiter = scene.wait("RLOCK.PACQUIRE k cid 70000000 LIMIT 2 WAIT 0");
        let reply = scene.say(removal);
        assert!(!matches!(reply, Reply::Error(_)), "{removal}: {reply:?}");
        if ServerVersion::under_test().moves_clients() {
            scene.say("SELECT 0");
        }
        assert_eq!(waiter.outcome(), Outcome::Granted(None), "{removal}");
        assert!(holders(scene).contains(&"cid".to_owned()), "{removal}");
        scene.say("FLUSHALL");
    }
}

fn no_permit_is_granted_within_a_grace(scene: &mut Scene) {
    scene.say_all(["RLOCK.PACQUIRE k ann 600000 LIMIT 2", "RLOCK.PACQUIRE k bob 600000 LIMIT 2"]);
    begin(scene, LONG_MS);
    let mut cid = scene.wait("RLOCK.PACQUIRE k cid 600000 LIMIT 2 WAIT 0");
    assert_eq!(scene.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(scene.say("RLOCK.RENEW k bob 600000"), Reply::Int(1));
    for holder in ["ann", "bob"] {
        let left = scene.say(&format!("RLOCK.PACQUIRE k {holder} 600000 LIMIT 9")).as_int();
        assert!(left > LONG_MS / 2, "{holder}: {left}");
    }
    let too_long = scene.say(&format!("RLOCK.PACQUIRE k bob {} LIMIT 9", LONG_MS + 1));
    assert!(too_long.as_error().starts_with("ERR lease must be"), "{too_long:?}");
    let mut again = scene.wait("RLOCK.PACQUIRE k bob 700000 LIMIT 1 WAIT 0");
    assert_eq!((scene.figure("waiters"), scene.say("ZCARD k")), (2, Reply::Int(1)));
    end(scene);
    cid.is_granted();
    again.is_granted();
    assert_eq!(holders(scene), ["bob", "cid"]);
}

fn a_lock_and_permits_follow_each_other(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    scene.say("DEL k");
    scene.say("RLOCK.PACQUIRE k ann 600000 LIMIT 1");
    let mut bob = scene.wait("RLOCK.PACQUIRE k bob 600000 LIMIT 1 WAIT 0");
    let mut cid = scene.wait("RLOCK.PACQUIRE k cid 600000 LIMIT 2 WAIT 0");
    // A foreign command puts a lock there.
    scene.transaction(["DEL k", "HSET k dan 1", "PEXPIRE k 600000"]);
    assert!(bob.outcome().is_error("WRONGKIND"));
    assert!(cid.outcome().is_error("WRONGKIND"));
    let mut eve = scene.wait("RLOCK.ACQUIRE k eve 600000 WAIT 0");
    scene.say("DEL k");
    eve.is_granted();
}
