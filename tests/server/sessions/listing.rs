//! RLOCK.SESSIONS lists the sessions for users with access to all keys, and ends one.

use crate::inspect::of;
use rlock_testing::{Client, Reply, Server, Session, list, start_waiting, text, wait_until};

fn listed(client: &mut Client, options: &str) -> Vec<Reply> {
    client.say(&format!("RLOCK.SESSIONS {options}")).as_list().to_vec()
}

/// What the list says under one name.
fn each(sessions: &[Reply], name: &str) -> Vec<Reply> {
    sessions.iter().map(|session| of(session, name).clone()).collect()
}

#[test]
fn a_session_is_seen_with_its_user_and_everything_it_keeps() {
    let (server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.SESSIONS"), list([]));
    client.say("ACL SETUSER bob on >secret ~* +@all");
    let mut ann = Session::open(&server, "ann");
    let mut bob = Session::open_for(&server, "bob", 60_000);
    // The listed user is the one that opened it.
    bob.cancel("");
    bob.connection.say("AUTH bob secret");
    bob.other.say("AUTH bob secret");
    assert_eq!(bob.fetch("TTL 60000"), []);
    for key in ["k", "l", "m"] {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        bob.wait_for(&format!("RLOCK.ACQUIRE {key} bob 600000 WAIT 0"), key);
    }
    client.say("RLOCK.RELEASE m holder");
    let seen = listed(&mut client, "");
    let names: Vec<_> = seen[0].as_list().iter().step_by(2).map(Reply::as_text).collect();
    let expected =
        ["id", "session", "user", "client-id", "address", "attended", "tickets", "events", "ends-in-ms", "bytes"];
    assert_eq!(names, expected);
    // The largest sessions come first. Only the beginning of each name is shown: with a whole name a client can cancel
    // its tickets.
    assert_eq!(each(&seen, "user"), ["bob", "default"].map(text));
    assert_eq!(each(&seen, "session"), ["the-sess", "the-sess"].map(text));
    assert_eq!(
        (each(&seen, "tickets"), each(&seen, "events")),
        ([2, 0].map(Reply::Int).to_vec(), [1, 0].map(Reply::Int).to_vec())
    );
    assert_eq!(each(&seen, "attended"), [1, 1].map(Reply::Int));
    assert_eq!(each(&seen, "client-id"), [bob.connection.say("CLIENT ID"), ann.connection.say("CLIENT ID")]);
    let address = text(&format!("{}:0", server.socket().display()));
    assert_eq!(each(&seen, "address"), [address.clone(), address]);
    let left: Vec<_> = each(&seen, "ends-in-ms").iter().map(Reply::as_int).collect();
    assert!((1..=60_000).contains(&left[0]) && (60_001..=600_000).contains(&left[1]), "{left:?}");
    let bytes: Vec<_> = each(&seen, "bytes").iter().map(Reply::as_int).collect();
    assert!(bytes[1] > 0 && (bytes[1] + 300..bytes[1] + 3_000).contains(&bytes[0]), "{bytes:?}");
    // A session without a connection has no address.
    ann.reconnect(&server);
    wait_until("it is noticed", || of(&listed(&mut client, "")[1], "attended") == &Reply::Int(0));
    let seen = listed(&mut client, "");
    assert_eq!((&each(&seen, "client-id")[1], &each(&seen, "address")[1]), (&Reply::Nil, &Reply::Nil));
}

#[test]
fn the_largest_first_and_of_two_alike_the_older() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k holder 600000");
    let mut sessions: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| Session::open(&server, name)).collect();
    for ((number, session), tickets) in sessions.iter_mut().enumerate().zip([1, 0, 3, 1]) {
        for ticket in 0..tickets {
            session.wait_for(&format!("RLOCK.ACQUIRE k h{number}:{ticket} 600000 WAIT 0"), &ticket.to_string());
        }
    }
    let tickets = |client: &mut Client, options: &str| each(&listed(client, options), "tickets");
    assert_eq!(tickets(&mut client, ""), [3, 1, 1, 0].map(Reply::Int));
    assert_eq!(tickets(&mut client, "COUNT 2"), [3, 1].map(Reply::Int));
    assert_eq!(tickets(&mut client, "count 10000").len(), 4);
    let ids: Vec<_> = each(&listed(&mut client, ""), "id").iter().map(Reply::as_int).collect();
    assert!(ids[1] < ids[2] && ids[1] < ids[3] && ids[3] < ids[0], "the order of opening: {ids:?}");
    for number in 0..100 {
        client.say(&format!("RLOCK.EVENTS the-session-of-another-{number}"));
    }
    assert_eq!(listed(&mut client, "").len(), 100);
}

/// The session ends as if its time were over: its tickets leave, and granted locks stay with their holders.
#[test]
fn a_session_is_ended_by_its_number() {
    let (server, mut client, mut ann) = Server::with_session();
    let _bob = Session::open(&server, "bob");
    for key in ["k", "l"] {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), key);
    }
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.fields("k"), "{ann:1}");
    let id = of(&listed(&mut client, "COUNT 1")[0], "id").as_int();
    assert_eq!(client.say(&format!("RLOCK.SESSIONS END {}", id + 1_000)), Reply::Int(0));
    assert_eq!(client.figure("sessions"), 2);
    assert_eq!(client.say(&format!("RLOCK.SESSIONS end {id}")), Reply::Int(1));
    wait_until("its ticket has left", || client.figure("tickets") == 0);
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(cid.receive(), Reply::Nil);
    assert_eq!((client.figure("sessions"), listed(&mut client, "").len()), (1, 1));
    assert!(ann.call("ACK 1").as_error().starts_with("NOSESSION "));
    assert_eq!(client.say(&format!("RLOCK.SESSIONS END {id}")), Reply::Int(0), "none is ever named so again");
    assert_eq!(ann.fetch(""), [], "its process may open one again");
    assert_ne!(of(&listed(&mut client, "")[1], "id").as_int(), id);
}

/// The process has no event so far, so it has nothing to acknowledge: without the error, its next call would open another
/// session of this name, without waits.
#[test]
fn a_waiting_call_gets_the_end_of_its_session() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    ann.arm("WAIT 0");
    let id = of(&listed(&mut client, "COUNT 1")[0], "id").as_int();
    assert_eq!(client.say(&format!("RLOCK.SESSIONS END {id}")), Reply::Int(1));
    assert!(ann.connection.receive().as_error().starts_with("NOSESSION "));
    wait_until("its ticket has left", || client.figure("tickets") == 0);
}

/// Sessions belong to no key, so a right to some keys is no right to sessions.
#[test]
fn only_users_with_access_to_all_keys_see_all_sessions() {
    let (server, mut admin) = Server::with_client();
    let _ann = Session::open(&server, "ann");
    let as_user = |rights: &str, command: &str| server.user("eve", &format!("+@all {rights}")).say(command);
    for rights in ["", "~app:*", "%W~*", "~a ~?* ~*)", "~app:* %W~*", "~*x %R~**y"] {
        for command in ["RLOCK.SESSIONS", "RLOCK.SESSIONS END 1"] {
            let reply = as_user(rights, command);
            assert!(reply.as_error().starts_with("NOPERM "), "{rights}: {reply:?}");
        }
    }
    for rights in ["~*", "allkeys", "%R~*", "%RW~*", "~app:* %R~*"] {
        assert_eq!(as_user(rights, "RLOCK.SESSIONS").as_list().len(), 1, "{rights}");
    }
    let reply = as_user("~* -rlock.sessions", "RLOCK.SESSIONS");
    assert!(reply.as_error().starts_with("NOPERM "), "{reply:?}");
    // In a script it is not known which user's rights count.
    let reply = admin.run(&["EVAL", "return redis.call('RLOCK.SESSIONS')", "0"]);
    assert!(reply.as_error().contains("not allowed from script"), "{reply:?}");
}

/// A server that becomes a replica keeps its sessions, so it has to show and end them as well.
#[test]
fn a_replica_shows_and_ends_its_sessions() {
    let (server, master) = (Server::start(), Server::start());
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    server.begin_to_follow(&master);
    let id = of(&listed(&mut client, "")[0], "id").as_int();
    assert_eq!(client.say(&format!("RLOCK.SESSIONS END {id}")), Reply::Int(1));
    assert_eq!(listed(&mut client, ""), []);
    assert_eq!(ann.fetch(""), []);
}
