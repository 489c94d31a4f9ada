//! A session belongs to the user that opened it. For every other user it does not exist.

use rlock_testing::{Client, Reply, Server, Session, list, start_waiting, text, wait_until};

/// Two users with the same rights, each with the other's secrets. These are also the minimal rights of a service.
fn users(server: &Server) -> [Client; 2] {
    let rights = "~* +rlock.acquire +rlock.release +rlock.renew +rlock.events +rlock.cancel";
    ["ann", "bob"].map(|name| server.user(name, rights))
}

const ANNS: &str = "the-session-of-ann";

#[test]
fn another_users_session_is_as_one_that_is_not_there() {
    let server = Server::start();
    let [mut ann, mut bob] = users(&server);
    let mut client = server.client();
    assert_eq!(ann.say(&format!("RLOCK.EVENTS {ANNS} TTL 600000")).events(), []);
    client.say("RLOCK.ACQUIRE k holder 600000");
    assert_eq!(ann.say(&format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {ANNS} t")), text("WAITING"));
    let expected = [1, 1, 0];
    let figures = |client: &mut Client| client.figures(["sessions", "tickets", "events_unacknowledged"]);
    for command in [
        "RLOCK.ACQUIRE k bob 600000 WAIT 0 SESSION NAME t2",
        "RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION NAME t",
        "RLOCK.ACQUIRE free bob 600000 WAIT 0 SESSION NAME t2",
        "RLOCK.CANCEL NAME",
        "RLOCK.CANCEL NAME t",
        "RLOCK.EVENTS NAME ACK 1",
    ] {
        let there = bob.say(&command.replace("NAME", ANNS));
        let not_there = bob.say(&command.replace("NAME", "the-session-of-nobody"));
        assert!(there.as_error().starts_with("NOSESSION "), "{command}: {there:?}");
        assert_eq!(there, not_there, "{command}");
        assert_eq!(figures(&mut client), expected, "{command}");
    }
    // Opening a session of that name could reveal more, but it is refused in the same words, and ann's goes on.
    for options in ["", "WAIT 0", "ACK 0", "TTL 1000"] {
        let there = bob.say(&format!("RLOCK.EVENTS {ANNS} {options}"));
        assert_eq!(there, bob.say("RLOCK.CANCEL the-session-of-nobody"), "{options}");
    }
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(figures(&mut client), [1, 0, 1]);
    assert!(bob.say(&format!("RLOCK.EVENTS {ANNS}")).as_error().starts_with("NOSESSION "), "nor is bob notified");
    assert_eq!(ann.say(&format!("RLOCK.EVENTS {ANNS} WAIT 0")).events().len(), 1);
    assert_eq!(client.keys(), ["k"], "what was free is free");
}

/// The user of the call counts, not the user at the connection's start; and a script acts for its user.
#[test]
fn the_user_is_that_of_the_call() {
    let server = Server::start();
    let [mut ann, _bob] = users(&server);
    ann.say(&format!("RLOCK.EVENTS {ANNS} TTL 600000"));
    ann.say("AUTH bob secret");
    assert!(ann.say(&format!("RLOCK.CANCEL {ANNS}")).as_error().starts_with("NOSESSION "));
    ann.say("AUTH ann secret");
    server.client().say("ACL SETUSER ann +eval");
    server.client().say("ACL SETUSER bob +eval");
    let script = "return redis.call('RLOCK.CANCEL', ARGV[1], 't')";
    assert_eq!(ann.run(&["EVAL", script, "0", ANNS]), list([Reply::Int(0)]));
    ann.say("AUTH bob secret");
    assert!(ann.run(&["EVAL", script, "0", ANNS]).as_error().starts_with("NOSESSION "));
}

/// The server sends nothing more to a client that it is about to close: what the client was granted in that turn goes to the
/// next waiter, whether its user was deleted just before the grant or just behind it.
#[test]
fn what_is_granted_while_its_user_is_deleted_goes_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    for deleted_first in [false, true] {
        let [_ann, mut bob] = users(&server);
        client.say("RLOCK.ACQUIRE k holder 600000");
        bob.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
        client.until_waiting(1);
        let mut dan = start_waiting(&server, "RLOCK.ACQUIRE k dan 600000 WAIT 0");
        let mut commands = ["ACL DELUSER bob", "RLOCK.RELEASE k holder"];
        if !deleted_first {
            commands.reverse();
        }
        client.transaction(commands);
        assert_eq!(dan.receive(), Reply::Nil, "deleted first: {deleted_first}");
        assert_eq!(client.fields("k"), "{dan:1}");
        assert_eq!(client.figures(["waiters", "revocations_due"]), [0; 2]);
        client.say("RLOCK.RELEASE k dan");
    }
}

#[test]
fn a_user_needs_the_rights_to_the_commands_and_the_key() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), Session::open(&server, "default"));
    client.say("RLOCK.ACQUIRE other:1 holder 600000");
    client.say("ACL SETUSER ann on >secret ~app:* +rlock.acquire");
    session.connection.say("AUTH ann secret");
    for command in ["RLOCK.EVENTS the-session-of-ann", "RLOCK.CANCEL the-session-of-ann"] {
        assert!(session.connection.say(command).as_error().starts_with("NOPERM"), "{command}");
    }
    client.say("ACL SETUSER ann +rlock.events");
    assert_eq!(session.connection.say("RLOCK.EVENTS the-session-of-ann").events(), []);
    let reply = session.connection.say("RLOCK.ACQUIRE other:1 ann 600000 WAIT 0 SESSION the-session-of-ann t");
    assert!(reply.as_error().starts_with("NOPERM"), "{reply:?}");
    assert_eq!(client.figure("tickets"), 0);
}

/// Granted locks stay with their holders. No event reports that a user is gone, so this takes a while for sessions that are
/// not connected.
#[test]
fn a_users_sessions_end_with_the_user() {
    let server = Server::start();
    let [mut ann, mut bob] = users(&server);
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    for key in ["k", "l"] {
        ann.say(&format!("RLOCK.EVENTS {ANNS} TTL 600000"));
        assert_eq!(ann.say(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0 SESSION {ANNS} {key}")), text("WAITING"));
    }
    client.say("RLOCK.RELEASE k holder");
    // A user that is changed or disabled is the same one. This session is checked before the next one, which opens
    // later.
    bob.say("RLOCK.EVENTS the-session-of-bob TTL 600000");
    client.say("ACL SETUSER bob off");
    // A session with a connection of its own, which is then closed.
    let mut closed = server.client();
    closed.say("AUTH ann secret");
    closed.say("RLOCK.EVENTS another-session-of-ann TTL 600000");
    drop(closed);
    wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
    assert_eq!(client.figure("sessions"), 3);
    let before = client.time_ms();
    assert_eq!(client.say("ACL DELUSER ann"), Reply::Int(1));
    wait_until("that of the open connection has ended", || client.figure("sessions") <= 2);
    wait_until("and its ticket has left", || client.figure("tickets") == 0);
    assert_eq!(client.fields("k"), "{ann:1}");
    wait_until("so has the other one", || client.figure("sessions") == 1);
    let ms = client.time_ms() - before;
    assert!(ms < 60_000, "not at the end of its time, {ms} ms");
    // A new user of that name gets nothing of the old session.
    let mut ann = server.user("ann", "~* +rlock.events");
    assert!(ann.say(&format!("RLOCK.EVENTS {ANNS} ACK 1")).as_error().starts_with("NOSESSION "));
    assert_eq!(client.figure("sessions"), 1, "bob's goes on");
}
