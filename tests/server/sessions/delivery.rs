//! How a session gets its events: once per connection, oldest first, many at once, and until it acknowledges them.

use crate::inspect::of;
use rlock_testing::{Client, Event, Reply, Server, Session, list, text, wait_until};

/// Has this many tickets of a session granted, one lock each: `name:1` and so on.
fn grant(client: &mut Client, session: &mut Session, name: &str, count: usize) {
    for number in 1..=count {
        client.say(&format!("RLOCK.ACQUIRE {name}:{number} holder 600000"));
        session.wait_for(&format!("RLOCK.ACQUIRE {name}:{number} ann 600000 WAIT 0"), &format!("{name}:{number}"));
    }
    for number in 1..=count {
        assert_eq!(client.say(&format!("RLOCK.RELEASE {name}:{number} holder")), Reply::Int(1));
    }
}

fn seqs(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.seq).collect()
}

#[test]
fn an_event_is_delivered_once_per_connection() {
    let (server, mut client, mut ann) = Server::with_session();
    grant(&mut client, &mut ann, "k", 3);
    assert_eq!(seqs(&ann.fetch("")), [1, 2, 3], "oldest first, and each has the next number");
    assert_eq!(ann.fetch(""), [], "they were notified");
    assert_eq!(ann.fetch("ACK 1 WAIT 1"), []);
    ann.reconnect(&server);
    assert_eq!(seqs(&ann.fetch("")), [2, 3], "but for what is done with");
    assert_eq!(ann.fetch(""), []);
    grant(&mut client, &mut ann, "l", 1);
    assert_eq!(seqs(&ann.fetch("ACK 2")), [4]);
    ann.reconnect(&server);
    assert_eq!(seqs(&ann.fetch("ACK 3")), [4], "what is acknowledged in the first call is not delivered again either");
    assert_eq!(ann.fetch("ACK 4"), []);
    ann.reconnect(&server);
    assert_eq!(ann.fetch(""), []);
    assert_eq!(client.figure("events_unacknowledged"), 0);
    grant(&mut client, &mut ann, "m", 1);
    assert_eq!(seqs(&ann.fetch("")), [5], "no number is given twice");
}

/// The time counts from when the call began: a process that read its clock before it sent the call then knows the end.
#[test]
fn a_grant_says_when_its_lease_ends() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.WACQUIRE k holder 600000");
    for (lease, ticket) in [(50_000, "read"), (90_000, "longer")] {
        ann.wait_for(&format!("RLOCK.RACQUIRE k {ticket} {lease} WAIT 0"), ticket);
    }
    client.say("RLOCK.ACQUIRE plain holder 600000");
    ann.wait_for("RLOCK.ACQUIRE plain ann 60000 WAIT 0", "plain");
    let before = client.time_ms();
    ann.arm("WAIT 0");
    let armed = client.time_ms();
    wait_until("the call has waited for a while", || client.time_ms() - armed >= 302);
    client.send_together(&[&["RLOCK.RELEASE", "k", "holder"][..], &["RLOCK.RELEASE", "plain", "holder"]]);
    assert_eq!((client.receive(), client.receive()), (Reply::Int(1), Reply::Int(1)));
    let received = ann.connection.receive();
    let after = client.time_ms();
    assert_eq!(received.events().len(), 3);
    for (ends_in, lease) in received.grants_end_in().into_iter().zip([50_000, 90_000, 60_000]) {
        // At most the lease and the time from `before` to `after`; at least the lease and the time that the call waited for
        // certain, less 2 ms: two of the times are rounded down to ms.
        assert!((lease + 300..=lease + after - before).contains(&ends_in), "{lease}: {ends_in}");
    }
    // Delivered again, by a call that does not wait, each event has the lease that remains then.
    ann.reconnect(&server);
    let received = ann.call("").grants_end_in();
    let mut left = |key: &str| client.expiry(key) - client.time_ms();
    assert!(received.iter().zip([50_000, 90_000, 60_000]).all(|(ends_in, lease)| *ends_in <= lease), "{received:?}");
    assert!(received[2] >= left("plain") && received[1] >= left("k"), "{received:?}");
    // A lease that has ended has nothing left, however long the call has waited.
    ann.wait_for("RLOCK.ACQUIRE plain bob 20 WAIT 0", "short");
    client.say("RLOCK.RELEASE plain ann");
    wait_until("its lease has ended", || client.expiry("plain") == -2);
    assert_eq!(ann.call("").grants_end_in(), [0]);
}

/// A process relies on the lock for that long without another check, so the event must include later changes by others.
#[test]
fn a_grant_has_the_lease_at_the_time_of_delivery() {
    let (server, mut client, mut ann) = Server::with_session();
    let renewed = 80_000..=90_000;
    for (number, (meanwhile, expected)) in [
        (&["RLOCK.BREAK k", "RLOCK.ACQUIRE k bob 600000"][..], 0..=0),
        (&["RLOCK.RELEASE k ann", "RLOCK.ACQUIRE k bob 600000"], 0..=0),
        (&["DEL k"], 0..=0),
        (&["PEXPIRE k 9000"], 1..=9_000),
        (&["RLOCK.RENEW k ann 90000"], renewed.clone()),
        (&["RLOCK.ACQUIRE k ann 90000"], renewed),
        (&["SELECT 1", "SWAPDB 0 1"], 0..=0),
        (&[], 50_000..=60_000),
    ]
    .into_iter()
    .enumerate()
    {
        client.say("SELECT 0");
        client.say("FLUSHALL");
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 60000 WAIT 0", &number.to_string());
        client.say("RLOCK.RELEASE k holder");
        // Delivered once to an earlier connection, and again to the next.
        let before = ann.call("").grants_end_in();
        assert!((50_000..=60_000).contains(&before[0]), "{before:?}");
        for command in meanwhile {
            client.say(command);
        }
        ann.reconnect(&server);
        let received = ann.call("").grants_end_in();
        assert!(received.len() == 1 && expected.contains(&received[0]), "{meanwhile:?}: {received:?}");
        assert_eq!(ann.fetch(&format!("ACK {}", number + 1)), []);
    }
    // Each read hold of a holder has its own lease. That of the last hold counts, which ends first when they are released.
    client.say("FLUSHALL");
    client.say("RLOCK.WACQUIRE k holder 600000");
    ann.wait_for("RLOCK.RACQUIRE k ann 60000 WAIT 0", "read");
    client.say_all(["RLOCK.RELEASE k holder", "RLOCK.RACQUIRE k ann 90000", "PEXPIRE {k}:ann:rwlock_timeout:2 9000"]);
    let received = ann.call("").grants_end_in();
    assert!(received.len() == 1 && (1..=9_000).contains(&received[0]), "{received:?}");
}

#[test]
fn a_call_without_wait_or_with_news_answers_at_once() {
    let (_server, mut client, mut ann) = Server::with_session();
    assert_eq!(ann.fetch(""), []);
    grant(&mut client, &mut ann, "k", 2);
    assert_eq!(ann.fetch("WAIT 0").len(), 2);
    // In a transaction or a script, where nothing can be blocked, it is as if the call did not wait.
    assert_eq!(ann.connection.transaction(["RLOCK.EVENTS the-session-of-ann WAIT 0"]), [list([])]);
    grant(&mut client, &mut ann, "l", 1);
    let received = ann.connection.transaction(["RLOCK.EVENTS the-session-of-ann ACK 2 WAIT 0"]);
    assert_eq!(seqs(&received[0].events()), [3]);
    let script = "return redis.call('RLOCK.EVENTS', ARGV[1], 'WAIT', '0')";
    assert_eq!(client.run(&["EVAL", script, "0", &ann.name]), list([]));
}

/// Some servers do not block a client that has subscriptions: it is answered as if it did not wait. Others block it.
#[test]
fn a_subscribed_client_gets_events_at_once_or_waits() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 1_000));
    ann.connection.say("HELLO 3");
    ann.connection.say("SUBSCRIBE c");
    assert_eq!(ann.fetch("WAIT 0"), []);
    grant(&mut client, &mut ann, "k", 1);
    assert_eq!(seqs(&ann.fetch("WAIT 0")), [1]);
}

#[test]
fn calls_that_wait_on_one_connection_are_answered_in_order() {
    let (server, mut client, mut ann) = Server::with_session();
    let id = ann.connection.say("CLIENT ID").as_int();
    let (name, other_name) = (ann.name.clone(), "the-session-of-bob".to_owned());
    let call: &[&str] = &["RLOCK.EVENTS", &name, "WAIT", "0"];
    ann.connection.send_together(&[call, call, &["PING"], call]);
    client.until_blocked(id);
    grant(&mut client, &mut ann, "k", 1);
    assert_eq!(seqs(&ann.connection.receive().events()), [1]);
    client.until_blocked(id);
    grant(&mut client, &mut ann, "l", 2);
    let mut second = seqs(&ann.connection.receive().events());
    assert_eq!(ann.connection.receive(), text("PONG"));
    if second.len() == 1 {
        // The two releases may come in two turns.
        second.extend(seqs(&ann.connection.receive().events()));
    }
    assert_eq!(second, [2, 3]);
    // One connection may serve several sessions, one after the other.
    let other: &[&str] = &["RLOCK.EVENTS", &other_name, "WAIT", "50"];
    let mut connection = server.client();
    connection.send_together(&[&["RLOCK.EVENTS", &name, "ACK", "3", "WAIT", "50"][..], other]);
    assert_eq!((connection.receive(), connection.receive()), (list([]), list([])));
}

#[test]
fn a_thousand_grants_of_one_turn_are_one_reply() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.WACQUIRE k holder 600000");
    let ask = |number| format!("RLOCK.RACQUIRE k reader:{number} 600000 WAIT 0 SESSION the-session-of-ann {number}");
    let answers = client.say_all((1..=1_000).map(ask));
    assert!(answers.iter().all(|answer| *answer == text("WAITING")));
    ann.arm("WAIT 0");
    // A transaction is done in one turn, however long it takes. The names of the tickets are as long as is allowed.
    let longest = |number: usize| format!("plain:{number:058}");
    let release = |number| format!("RLOCK.RELEASE plain:{number} holder");
    client.say_all((1..=1_000).map(|number| format!("RLOCK.ACQUIRE plain:{number} holder 600000")));
    client.say_all((1..=1_000).map(|number| {
        format!("RLOCK.ACQUIRE plain:{number} ann 600000 WAIT 0 SESSION the-session-of-ann {}", longest(number))
    }));
    client.transaction((1..=1_000).map(release));
    let received = ann.connection.receive().events();
    assert_eq!(seqs(&received), (1..=1_000).collect::<Vec<_>>());
    assert!(received.iter().all(|event| event.outcome == "granted" && event.ticket.starts_with("plain:")));
    // Readers that are granted together may take more than one turn of a slow server, but only a few.
    ann.fetch("ACK 1000");
    ann.arm("WAIT 0");
    client.say("RLOCK.RELEASE k holder");
    let first = ann.connection.receive().events();
    let (mut all_seqs, mut replies) = (seqs(&first), 1);
    while all_seqs.len() < 1_000 {
        all_seqs.extend(seqs(&ann.fetch("WAIT 1000")));
        replies += 1;
    }
    assert_eq!(all_seqs, (1_001..=2_000).collect::<Vec<_>>());
    assert!(replies <= 100, "{replies} replies");
}

/// Otherwise the server would close the connection for its unread output, and the next one for the same reply.
#[test]
fn a_reply_is_no_longer_than_a_limit_of_the_servers_allows() {
    let limit = ["--client-output-buffer-limit", "normal 200kb 100kb 1"];
    let server = Server::prepare().options(&limit).start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    for first in (1..=9_000).step_by(1_000) {
        // Waits that time out: an event each, which a session that reads nothing still gets.
        client.say_all((first..first + 1_000).map(|number| format!("RLOCK.ACQUIRE k:{number} holder 600000")));
        let asked =
            client.say_all((first..first + 1_000).map(|number| {
                format!("RLOCK.ACQUIRE k:{number} ann 600000 WAIT 1 SESSION the-session-of-ann {number}")
            }));
        assert!(asked.iter().all(|answer| *answer == text("WAITING")));
    }
    wait_until("all times are up", || client.figure("tickets") == 0);
    // Two calls under way, as is recommended.
    let call = ["RLOCK.EVENTS", &ann.name.clone(), "WAIT", "1"].map(str::to_owned);
    ann.connection.send(&call);
    let mut received = Vec::new();
    while received.len() < 9_000 {
        ann.connection.send(&call);
        let events = ann.connection.receive().events();
        assert!((1_000..9_000).contains(&events.len()) || received.len() + events.len() == 9_000, "{}", events.len());
        received.extend(seqs(&events));
    }
    assert_eq!(ann.connection.receive().events(), []);
    assert_eq!(received, (1..=9_000).collect::<Vec<_>>());
    // An acknowledgement of the first ones loses none of the others.
    ann.reconnect(&server);
    assert_eq!(seqs(&ann.fetch("ACK 8990")), (8_991..=9_000).collect::<Vec<_>>());
    assert_eq!(ann.fetch("ACK 9000"), []);
    wait_until("all are freed", || client.figure("events_unacknowledged") == 0);
}

/// Two processes with one name would cut each other off forever, as fast as the server can answer.
#[test]
fn a_replaced_connection_gets_takenover_while_the_other_one_waits() {
    let (server, mut client, mut ann) = Server::with_session();
    ann.arm("WAIT 0");
    let mut next = server.client();
    let id = next.say("CLIENT ID").as_int();
    let call: &[&str] = &["RLOCK.EVENTS", &ann.name.clone(), "WAIT", "0"];
    next.send(call);
    assert_eq!(ann.connection.receive(), list([]), "what waited is answered empty");
    client.until_blocked(id);
    for options in ["WAIT 0", "", "WAIT 0 ACK 0 TTL 1000"] {
        // The reply is empty if the call comes so soon that the server cannot tell it from one that was sent before.
        let mut received = list([]);
        wait_until("it is reported", || {
            received = ann.call(options);
            received != list([])
        });
        assert!(received.as_error().starts_with("TAKENOVER "), "{options}: {received:?}");
    }
    // The other connection goes on waiting, and gets its event.
    grant(&mut client, &mut ann, "k", 1);
    assert_eq!(seqs(&next.receive().events()), [1]);
    // If no call waits, the former connection may take over; a newer one always may.
    assert_eq!(seqs(&ann.fetch("WAIT 0")), [1]);
    ann.arm("WAIT 0");
    let mut received = Vec::new();
    wait_until("it takes over", || {
        received = seqs(&next.say(&format!("RLOCK.EVENTS {}", ann.name)).events());
        !received.is_empty()
    });
    assert_eq!((received, ann.connection.receive()), (vec![1], list([])));
    next.send(call);
    client.until_blocked(id);
    drop(next);
    wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
    assert_eq!(seqs(&ann.fetch("WAIT 0")), [1], "there is no other any more");
}

/// A peer that vanished without a word is noticed within the TTL, so no call waits for longer than a third of it.
#[test]
fn a_call_waits_for_a_third_of_the_ttl_at_most() {
    let (server, mut client) = Server::with_client();
    let mut clock = server.client();
    let mut is_answered_after = |session: &mut Session, options: &str, least: i64| {
        // Once in three tries, as others may have the processors.
        let is_in_time = (0..3).any(|_| {
            let before = clock.time_ms();
            assert_eq!(session.fetch(options), []);
            let ms = clock.time_ms() - before;
            assert!(ms >= least, "{options}: {ms} ms");
            ms < least + 400
        });
        assert!(is_in_time, "{options}: three times it took {} ms", least + 400);
    };
    let mut ann = Session::open_for(&server, "ann", 1_500);
    is_answered_after(&mut ann, "WAIT 0", 500);
    is_answered_after(&mut ann, "WAIT 60000", 500);
    is_answered_after(&mut ann, "WAIT 20", 20);
    // A TTL holds until another one is given, and counts at once.
    is_answered_after(&mut ann, "WAIT 0 TTL 2100", 700);
    is_answered_after(&mut ann, "WAIT 0", 700);
    // Without any TTL, the session has 10 s.
    assert_eq!(ann.cancel(""), Reply::Int(0));
    let before = client.time_ms();
    assert_eq!(client.say("RLOCK.EVENTS the-session-of-bob"), list([]));
    let left = of(&client.say("RLOCK.SESSIONS").as_list()[0], "ends-in-ms").as_int();
    assert!((10_000 - (client.time_ms() - before)..=10_000).contains(&left), "{left} ms");
}

#[test]
fn client_unblock_ends_a_call_both_ways() {
    let (_server, mut client, mut ann) = Server::with_session();
    let id = ann.connection.say("CLIENT ID").as_int();
    ann.arm("WAIT 0");
    assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} TIMEOUT")), Reply::Int(1));
    assert_eq!(ann.connection.receive(), list([]));
    ann.arm("WAIT 0");
    assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} ERROR")), Reply::Int(1));
    assert!(ann.connection.receive().as_error().starts_with("UNBLOCKED"));
    // The connection and the session are as before.
    assert_eq!(ann.connection.say("PING"), text("PONG"));
    grant(&mut client, &mut ann, "k", 1);
    assert_eq!(seqs(&ann.fetch("WAIT 0")), [1]);
    assert_eq!(client.figure("sessions"), 1);
}

/// A grant and the end of the call come in the same turn: the session gets the event, by this call or by the next.
#[test]
fn a_grant_that_meets_client_unblock_is_delivered() {
    let (server, mut client, mut ann) = Server::with_session();
    for (seq, how) in [(1, "TIMEOUT"), (2, "ERROR")] {
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
        let id = ann.connection.say("CLIENT ID").as_int();
        ann.arm("WAIT 0");
        client.transaction(["RLOCK.RELEASE k holder", &format!("CLIENT UNBLOCK {id} {how}")]);
        let received = match ann.connection.try_receive() {
            Some(Reply::List(events)) if !events.is_empty() => Reply::List(events).events(),
            answer => {
                // Answered with an error, or cut off by servers that lose the reply.
                if answer.is_none() {
                    ann.reconnect(&server);
                }
                let received = ann.fetch("");
                if received.is_empty() {
                    // The event was sent on that connection, and the server has lost its reply.
                    ann.reconnect(&server);
                    ann.fetch("")
                } else {
                    received
                }
            }
        };
        assert_eq!(seqs(&received), [seq], "{how}");
        assert_eq!(ann.fetch(&format!("ACK {seq}")), []);
        assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    }
}
