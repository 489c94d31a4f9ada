//! How many sessions and tickets there may be: one too many is an error that names the limit, and changes nothing.

use super::kept;
use rlock_testing::{Client, Reply, Server, Session, list, start_waiting, text, wait_until};

fn refused(reply: &Reply, limit: &str) {
    let line = reply.as_error();
    assert!(line.starts_with("QUEUEFULL ") && line.contains(limit), "{line}");
}

#[test]
fn a_server_that_is_full_of_tickets_takes_no_more() {
    let server = Server::start();
    let (mut client, mut ann, mut bob) =
        (server.client(), Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("CONFIG SET rlock.max-tickets 2");
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    bob.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0", "1");
    let before = (client.everything(), kept(&mut client));
    refused(&ann.ask("RLOCK.ACQUIRE k eve 600000 WAIT 0", "2"), "rlock.max-tickets");
    refused(&bob.ask("RLOCK.ACQUIRE k eve 600000 WAIT 0 FENCED", "2"), "rlock.max-tickets");
    assert_eq!((client.everything(), kept(&mut client)), before);
    assert_eq!(ann.ask("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1"), text("WAITING"), "that one has its place");
    assert_eq!(ann.ask("RLOCK.ACQUIRE free ann 600000 WAIT 0", "2"), Reply::Nil, "and for a free lock none is needed");
    // Blocked clients are counted separately.
    client.say("CONFIG SET rlock.max-waiters 1");
    let _blocked = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    refused(&client.say("RLOCK.ACQUIRE k dan 600000 WAIT 0"), "rlock.max-waiters");
    // A ticket is in use until its delivered event is acknowledged.
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.fetch("").len(), 1);
    refused(&ann.ask("RLOCK.ACQUIRE k eve 600000 WAIT 0", "2"), "rlock.max-tickets");
    assert_eq!(ann.fetch("ACK 1"), []);
    ann.wait_for("RLOCK.ACQUIRE k eve 600000 WAIT 0", "2");
    assert_eq!(ann.cancel("2"), list([Reply::Int(1)]));
    bob.wait_for("RLOCK.ACQUIRE k dan 600000 WAIT 0", "2");
    // A ticket that waits already is not sent away.
    client.say("CONFIG SET rlock.max-tickets 0");
    refused(&bob.ask("RLOCK.ACQUIRE k eve 600000 WAIT 0", "3"), "rlock.max-tickets");
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(bob.fetch("").len(), 1);
}

/// While it waits, and until its event is acknowledged.
#[test]
fn a_ticket_for_several_locks_counts_as_one_for_each() {
    let (server, mut client) = Server::with_client();
    let mut ann = Session::open(&server, "ann");
    client.say_all(["CONFIG SET rlock.max-tickets 4", "RLOCK.ACQUIRE a holder 600000"]);
    ann.wait_for("RLOCK.MACQUIRE 3 a b c ann 600000 WAIT 0", "1");
    refused(&ann.ask("RLOCK.MACQUIRE 2 a b ann 600000 WAIT 0", "2"), "rlock.max-tickets");
    assert_eq!(ann.cancel("1"), list([Reply::Int(1)]));
    ann.wait_for("RLOCK.MACQUIRE 4 a b c d ann 600000 WAIT 0", "2");
    refused(&ann.ask("RLOCK.ACQUIRE a bob 600000 WAIT 0", "3"), "rlock.max-tickets");
    client.say("RLOCK.RELEASE a holder");
    assert_eq!(ann.fetch("").len(), 1);
    refused(&ann.ask("RLOCK.ACQUIRE a bob 600000 WAIT 0", "3"), "rlock.max-tickets");
    assert_eq!(ann.fetch("ACK 1"), []);
    ann.wait_for("RLOCK.MACQUIRE 3 a b c bob 600000 WAIT 20", "3");
    wait_until("the time is up", || client.figure("events_unacknowledged") == 1);
    refused(&ann.ask("RLOCK.MACQUIRE 2 a b cid 600000 WAIT 0", "4"), "rlock.max-tickets");
    ann.wait_for("RLOCK.ACQUIRE a cid 600000 WAIT 0", "4");
}

#[test]
fn one_user_has_no_more_tickets_than_one_may_have() {
    let (server, mut client) = Server::with_client();
    let rights = "~* +rlock.events +rlock.acquire +rlock.macquire +rlock.cancel";
    let mut users = ["ann", "bob", "ann"].map(|name| server.user(name, rights));
    let sessions = [0, 1, 2].map(|number| format!("the-session-number-{number}"));
    client.say_all(["CONFIG SET rlock.max-tickets 20", "RLOCK.ACQUIRE k holder 600000"]);
    let mut tickets = 0;
    let mut ask = |user: usize, command: &str| {
        tickets += 1;
        users[user].say(&format!("RLOCK.EVENTS {} TTL 600000", sessions[user]));
        users[user].say(&format!("{command} h{tickets} 600000 WAIT 0 SESSION {} {tickets}", sessions[user]))
    };
    for user in [0, 2] {
        assert_eq!(ask(user, "RLOCK.MACQUIRE 9 k a b c d e f g h"), text("WAITING"));
    }
    for user in [0, 2] {
        refused(&ask(user, "RLOCK.ACQUIRE k"), "rlock.max-tickets-per-user");
    }
    refused(&ask(1, "RLOCK.MACQUIRE 3 k a b"), "rlock.max-tickets is");
    assert_eq!(ask(1, "RLOCK.MACQUIRE 2 k a"), text("WAITING"), "the last tenth is for others");
    refused(&ask(1, "RLOCK.ACQUIRE k"), "rlock.max-tickets is");
    client.say("CONFIG SET rlock.max-tickets 40");
    client.say("CONFIG SET rlock.max-tickets-per-user 3");
    refused(&ask(1, "RLOCK.MACQUIRE 2 k a"), "rlock.max-tickets-per-user");
    assert_eq!(ask(1, "RLOCK.ACQUIRE k"), text("WAITING"));
    refused(&ask(1, "RLOCK.ACQUIRE k"), "rlock.max-tickets-per-user");
    // The end of a session makes room for other tickets of its user.
    client.say("CONFIG SET rlock.max-tickets-per-user 10");
    refused(&ask(2, "RLOCK.ACQUIRE k"), "rlock.max-tickets-per-user");
    let mut ann = server.user("ann", rights);
    assert_eq!(ann.say("RLOCK.CANCEL the-session-number-0"), Reply::Int(1));
    assert_eq!(ask(2, "RLOCK.ACQUIRE k"), text("WAITING"));
    refused(&ask(2, "RLOCK.ACQUIRE k"), "rlock.max-tickets-per-user");
}

#[test]
fn a_server_that_is_full_of_sessions_opens_no_more() {
    let server = Server::start();
    let (mut client, mut ann, _bob) = (server.client(), Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("CONFIG SET rlock.max-sessions 2");
    for options in ["", "WAIT 0", "TTL 1000", "ACK 0"] {
        refused(&client.say(&format!("RLOCK.EVENTS the-session-of-cid {options}")), "rlock.max-sessions");
        assert_eq!(kept(&mut client), [2, 0, 0, 0]);
    }
    let reply = client.say("RLOCK.EVENTS the-session-of-cid ACK 1");
    assert!(reply.as_error().starts_with("NOSESSION "), "{reply:?}");
    // Open sessions still work.
    client.say("CONFIG SET rlock.max-sessions 1");
    assert_eq!(ann.fetch(""), []);
    assert_eq!(ann.cancel(""), Reply::Int(0));
    refused(&client.say("RLOCK.EVENTS the-session-of-cid"), "rlock.max-sessions");
    client.say("CONFIG SET rlock.max-sessions 2");
    assert_eq!(client.say("RLOCK.EVENTS the-session-of-cid").events(), []);
}

/// Opens sessions until one is refused. Returns how many, and the refusal.
fn open_all(user: &mut Client, prefix: &str) -> (usize, Reply) {
    for number in 0.. {
        let reply = user.say(&format!("RLOCK.EVENTS the-session-of-{prefix}-{number} TTL 600000"));
        if reply != list([]) {
            return (number, reply);
        }
    }
    unreachable!()
}

#[test]
fn one_user_has_no_more_sessions_than_one_may_have() {
    let (server, mut client) = Server::with_client();
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| server.user(name, "+rlock.events +rlock.cancel"));
    client.say("CONFIG SET rlock.max-sessions-per-user 3");
    for user in [(&mut ann, "ann"), (&mut bob, "bob")] {
        let (opened, refusal) = open_all(user.0, user.1);
        assert_eq!(opened, 3);
        refused(&refusal, "rlock.max-sessions-per-user");
    }
    assert_eq!(ann.say("RLOCK.EVENTS the-session-of-ann-0"), list([]), "those that are open are there as ever");
    client.say("CONFIG SET rlock.max-sessions 6");
    refused(&client.say("RLOCK.EVENTS the-session-of-cid"), "rlock.max-sessions");
    // One that has ended makes room for its user alone.
    assert_eq!(ann.say("RLOCK.CANCEL the-session-of-ann-0"), Reply::Int(0));
    refused(&bob.say("RLOCK.EVENTS the-session-of-bob-3"), "rlock.max-sessions-per-user");
    assert_eq!(ann.say("RLOCK.EVENTS the-session-of-ann-0"), list([]));
}

/// Whether other users are connected or not.
#[test]
fn the_last_tenth_of_the_sessions_is_never_one_users() {
    let (server, mut client) = Server::with_client();
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| server.user(name, "+rlock.events +rlock.cancel"));
    client.say("CONFIG SET rlock.max-sessions 20");
    let (opened, refusal) = open_all(&mut ann, "ann");
    assert_eq!(opened, 18);
    refused(&refusal, "rlock.max-sessions-per-user");
    let (opened, refusal) = open_all(&mut bob, "bob");
    assert_eq!(opened, 2);
    refused(&refusal, "rlock.max-sessions is");
}
