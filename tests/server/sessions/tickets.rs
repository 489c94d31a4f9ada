//! The replies to tickets, and what becomes of a ticket: on all three sides, with and without a token, and from where no
//! client can be blocked.

use rlock_testing::resp::Protocol;
use rlock_testing::{Client, Event, Reply, Server, list, text, wait_until};

#[test]
fn a_ticket_waits_in_the_database_where_it_was_asked_for() {
    let (_server, mut client, mut ann) = Server::with_session();
    for database in ["3", "0"] {
        client.say(&format!("SELECT {database}"));
        ann.other.say(&format!("SELECT {database}"));
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{database} 600000 WAIT 0"), database);
    }
    client.say("FLUSHDB");
    assert_eq!(ann.fetch("WAIT 1000"), [Event::granted(1, "0", None)]);
    client.say("SWAPDB 0 3");
    assert_eq!(ann.fetch("WAIT 200"), [], "the lock of the one is the other's now, and both are held");
    client.say("DEL k");
    client.say("SELECT 3");
    client.say("DEL k");
    assert_eq!(ann.fetch("WAIT 1000"), [Event::granted(2, "3", None)]);
    assert_eq!(client.fields("k"), "{ann3:1}");
}

/// Nothing blocks, so a ticket waits wherever it comes from.
#[test]
fn a_ticket_waits_from_transactions_and_scripts() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    let ask = |ticket| format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0 SESSION {} {ticket}", ann.name);
    assert_eq!(client.transaction([1, 2].map(ask)), [text("WAITING"), text("WAITING")]);
    let script =
        "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann3', '600000', 'WAIT', '0', 'SESSION', ARGV[1], '3').ok";
    assert_eq!(client.run(&["EVAL", script, "1", "k", &ann.name]), text("WAITING"));
    assert_eq!(client.figure("tickets"), 3);
    // A release in a transaction does not wait either: the transaction's other commands see the grant.
    assert_eq!(client.transaction(["RLOCK.RELEASE k holder", "HKEYS k"]), [Reply::Int(1), list([text("ann1")])]);
    assert_eq!(ann.fetch(""), [Event::granted(1, "1", None)]);
    let script = "return redis.call('RLOCK.CANCEL', ARGV[1], '2', '3', '4')";
    assert_eq!(client.run(&["EVAL", script, "0", &ann.name]), list([1, 1, 0].map(Reply::Int)));
    assert_eq!(client.figure("tickets"), 0);
}

/// Some of the commands come in a transaction or a script, where no client can be blocked.
#[test]
fn sessions_come_and_go_within_a_transaction() {
    let (_server, mut client) = Server::with_client();
    let name = "the-session-of-ann";
    client.say("RLOCK.ACQUIRE k holder 600000");
    for _ in 0..100 {
        let replies = client.transaction([
            format!("RLOCK.EVENTS {name} WAIT 0"),
            format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {name} 1"),
            format!("RLOCK.CANCEL {name}"),
            format!("RLOCK.EVENTS {name} ACK 1"),
            format!("RLOCK.EVENTS {name}"),
            format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {name} 1"),
            "RLOCK.RELEASE k holder".to_owned(),
            format!("RLOCK.CANCEL {name}"),
            "RLOCK.RELEASE k ann".to_owned(),
            "RLOCK.ACQUIRE k holder 600000".to_owned(),
        ]);
        let [opened, asked, closed, unknown, again, waits, released, ended, granted, taken] = &replies[..] else {
            panic!("{replies:?}")
        };
        assert_eq!((opened, asked, closed), (&Reply::List(vec![]), &text("WAITING"), &Reply::Int(1)));
        assert!(unknown.as_error().starts_with("NOSESSION "));
        assert_eq!((again, waits, released), (&Reply::List(vec![]), &text("WAITING"), &Reply::Int(1)));
        assert_eq!((ended, granted, taken), (&Reply::Int(0), &Reply::Int(1), &Reply::Nil));
    }
    assert_eq!(client.figure("sessions"), 0);
    let script = "redis.call('RLOCK.EVENTS', ARGV[1])
                  redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann', '600000', 'WAIT', '0', 'SESSION', ARGV[1], '1')
                  return redis.call('RLOCK.CANCEL', ARGV[1])";
    assert_eq!(client.run(&["EVAL", script, "1", "k", name]), Reply::Int(1));
    assert_eq!((client.figure("sessions"), client.figure("waiters")), (0, 0));
}

/// Some servers cannot block a client with subscriptions. A ticket does not block it.
#[test]
fn a_ticket_waits_for_a_client_that_is_subscribed() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.other.say("HELLO 3");
    ann.other.say("SUBSCRIBE c");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.fetch(""), [Event::granted(1, "1", None)]);
}

/// Also if the answer comes later, to a client that was blocked.
#[test]
fn on_the_wire_it_is_the_same_in_both_protocols_except_nil() {
    for (hello, protocol) in [("HELLO 2", Protocol::Resp2), ("HELLO 3", Protocol::Resp3)] {
        let (server, mut client, mut ann) = Server::with_session();
        for key in ["a", "b", "c", "d"] {
            client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        }
        client.say("PERSIST c");
        ann.other.say(hello);
        ann.other.send(&["RLOCK.ACQUIRE", "a", "ann", "590000", "WAIT", "0", "SESSION", &ann.name, "t1"]);
        assert_eq!(ann.other.receive_in(protocol), "+WAITING");
        // The remaining lease is exact to the ms.
        let events = |connection: &mut Client| {
            let received = connection.receive_in(protocol);
            let words: Vec<_> =
                received.split(' ').map(|word| if word.starts_with('5') { "<ends>]," } else { word }).collect();
            words.join(" ")
        };
        ann.connection.say(hello);
        ann.arm("WAIT 0");
        client.say("RLOCK.RELEASE a holder");
        assert!(events(&mut ann.connection).starts_with(r#"[[1, "t1", "granted", nil, <ends>],"#));
        ann.wait_for("RLOCK.ACQUIRE b ann 590000 WAIT 0 FENCED", "t2");
        client.say("RLOCK.RELEASE b holder");
        ann.wait_for("RLOCK.ACQUIRE c ann 600000 WAIT 1", "t3");
        wait_until("the time is up", || client.figure("events_unacknowledged") == 3);
        ann.wait_for("RLOCK.ACQUIRE d ann 600000 WAIT 0", "t4");
        client.say("SET d text");
        wait_until("it is reported", || client.figure("events_unacknowledged") == 4);
        ann.reconnect(&server);
        ann.connection.say(hello);
        ann.connection.send(&["RLOCK.EVENTS", &ann.name]);
        let token = client.say("GET redisson_lock_token:{b}").as_text().to_owned();
        let expected = format!(r#"[[1, "t1", "granted", nil, <ends>], [2, "t2", "granted", {token}, <ends>], "#)
            + r#"[3, "t3", "timeout", -1], [4, "t4", "error", "WRONGTYPE key is not a lock: not a hash, or a hash "#;
        assert!(events(&mut ann.connection).starts_with(&expected));
        ann.connection.send(&["RLOCK.EVENTS", &ann.name, "ACK", "4"]);
        assert_eq!(events(&mut ann.connection), "[]");
    }
}
