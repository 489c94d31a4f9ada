//! What the commands of sessions take, and what they say to anything else: an error that names the argument and what is
//! allowed. Nothing is changed by it, and nothing replicated.

use rlock_testing::{Client, Reply, Server, Session, Tap, list, text};

const OPEN: &str = "the-session-of-ann";

const ACQUIRES: [&str; 3] = ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"];

/// A server with an open session, and a ticket in its queue, which nothing that is refused may change.
struct Refusals {
    client: Client,
    tap: Tap,
    before: (String, [i64; 4]),
    session: Session,
    server: Server,
}

impl Refusals {
    fn prepare() -> Self {
        let server = Server::start();
        let (mut client, mut session) = (server.client(), Session::open(&server, "ann"));
        client.say("RLOCK.WACQUIRE k holder 600000");
        session.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 0", "waiting");
        session.wait_for("RLOCK.RACQUIRE k ann 600000 WAIT 1", "told");
        assert_eq!(session.told("WAIT 10000")[0].outcome, "timeout");
        Self { tap: Tap::on(&server), before: state(&mut client), client, session, server }
    }

    /// Each call must fail with an error that starts with the code and names what is wrong, and change nothing.
    fn all(&mut self, calls: &[(&[&[u8]], &str, &str)]) {
        for (call, code, named) in calls {
            let shown: Vec<_> = call.iter().map(|argument| String::from_utf8_lossy(argument)).collect();
            let reply = self.client.run(call);
            let Reply::Error(line) = &reply else { panic!("{shown:?} was answered {reply:?}") };
            assert!(line.starts_with(&format!("{code} ")), "{shown:?}: {line}");
            assert!(line.contains(named), "{shown:?}: {line}");
            assert_eq!(state(&mut self.client), self.before, "{shown:?} changed something");
        }
        assert_eq!(self.tap.drain(), [""; 0], "errors replicate nothing");
        assert_eq!(self.session.told(""), [], "nor is the session told of them");
    }
}

/// All keys, and what is in the module's memory.
fn state(client: &mut Client) -> (String, [i64; 4]) {
    let figures = ["sessions", "tickets", "events_unacknowledged", "waiters"].map(|name| client.figure(name));
    (client.digest(), figures)
}

fn all_refused(calls: &[(&[&[u8]], &str, &str)]) {
    Refusals::prepare().all(calls);
}

#[test]
fn arity_is_checked() {
    all_refused(&[
        (&[b"RLOCK.EVENTS"], "ERR", "wrong number of arguments"),
        (&[b"RLOCK.CANCEL"], "ERR", "wrong number of arguments"),
    ]);
}

#[test]
fn a_session_has_a_name_of_16_to_64_bytes() {
    let mut refused = Refusals::prepare();
    let long = [b's'; 65];
    for name in [&b""[..], b"s", b"fifteen-bytes!!", &long] {
        refused.all(&[
            (&[b"RLOCK.EVENTS", name], "ERR", "session must be 16 to 64 bytes"),
            (&[b"RLOCK.CANCEL", name], "ERR", "session must be 16 to 64 bytes"),
            (&[b"RLOCK.CANCEL", name, b"t"], "ERR", "session must be 16 to 64 bytes"),
        ]);
        for acquire in ACQUIRES {
            let call: [&[u8]; 9] = [acquire.as_bytes(), b"k", b"h", b"1", b"WAIT", b"0", b"SESSION", name, b"t"];
            refused.all(&[(&call, "ERR", "session must be 16 to 64 bytes")]);
        }
    }
    for name in [&b"sixteen-bytes-16"[..], &long[..64], b"any\0bytes\xff\r\n%s%n there are"] {
        assert_eq!(refused.client.run(&[b"RLOCK.EVENTS", name]), list([]));
        assert_eq!(refused.client.run(&[b"RLOCK.CANCEL", name]), Reply::Int(0));
    }
}

#[test]
fn a_ticket_has_a_name_of_1_to_64_bytes() {
    let (mut refused, long) = (Refusals::prepare(), [b't'; 65]);
    let session = OPEN.as_bytes();
    for name in [&b""[..], &long] {
        // One that is wrong among others that are not: those are not taken back either.
        refused.all(&[(&[b"RLOCK.CANCEL", session, b"waiting", name], "ERR", "ticket must be 1 to 64 bytes")]);
        for acquire in ACQUIRES {
            let call: [&[u8]; 9] = [acquire.as_bytes(), b"k", b"h", b"1", b"WAIT", b"0", b"SESSION", session, name];
            refused.all(&[(&call, "ERR", "ticket must be 1 to 64 bytes")]);
        }
    }
    for name in [&b"t"[..], &long[..64], b"\0", b"\xff\r\n"] {
        let call: [&[u8]; 9] = [b"RLOCK.RACQUIRE", b"k", b"h", b"1", b"WAIT", b"0", b"SESSION", session, name];
        assert_eq!(refused.client.run(&call), text("WAITING"));
        assert_eq!(refused.client.run(&[b"RLOCK.CANCEL", session, name]), Reply::Int(1));
    }
}

#[test]
fn what_is_missing_or_doubled_is_named() {
    let mut refused = Refusals::prepare();
    let session = OPEN.as_bytes();
    for acquire in ACQUIRES {
        let call = |options: &[&'static [u8]]| [&[acquire.as_bytes(), b"k", b"h", b"1"], options].concat();
        let calls = [
            (call(&[b"SESSION", b"the-session-of-ann", b"t"]), "SESSION needs WAIT ms"),
            (call(&[b"FENCED", b"session", b"the-session-of-ann", b"t"]), "SESSION needs WAIT ms"),
            (call(&[b"WAIT", b"0", b"SESSION"]), "session must be"),
            (call(&[b"WAIT", b"0", b"SESSION", b"the-session-of-ann"]), "ticket must be"),
            (call(&[b"SESSION", b"the-session-of-ann", b"t", b"WAIT"]), "WAIT must be"),
            (call(&[b"SESSION", b"the-session-of-ann", b"t", b"WAIT", b"-1"]), "WAIT must be"),
            (call(&[b"WAIT", b"0", b"SESSION", b"the-session-of-ann", b"t", b"u"]), "option unknown"),
            (
                call(&[
                    b"WAIT",
                    b"0",
                    b"SESSION",
                    b"the-session-of-ann",
                    b"t",
                    b"SESSION",
                    b"the-session-of-ann",
                    b"t",
                ]),
                "SESSION given twice",
            ),
        ];
        for (call, named) in &calls {
            refused.all(&[(call, "ERR", named)]);
        }
    }
    refused.all(&[
        (&[b"RLOCK.EVENTS", session, b"COUNT", b"1"], "ERR", "option unknown"),
        (&[b"RLOCK.EVENTS", session, b"ACK", b"1", b"ACK", b"1"], "ERR", "ACK given twice"),
        (&[b"RLOCK.EVENTS", session, b"WAIT", b"1", b"wait", b"1"], "ERR", "WAIT given twice"),
        (&[b"RLOCK.EVENTS", session, b"TTL", b"1000", b"TTL", b"1000"], "ERR", "TTL given twice"),
        (&[b"RLOCK.EVENTS", session, b"ACK"], "ERR", "ACK must be"),
        (&[b"RLOCK.EVENTS", session, b"WAIT"], "ERR", "WAIT must be"),
        (&[b"RLOCK.EVENTS", session, b"TTL"], "ERR", "TTL must be"),
    ]);
}

#[test]
fn a_ttl_is_from_1000_to_600000_ms() {
    let mut refused = Refusals::prepare();
    for ttl in ["", "0", "999", "600001", "-1000", "1e3", "1000.0", "01000", "9223372036854775808"] {
        refused.all(&[(&[b"RLOCK.EVENTS", OPEN.as_bytes(), b"TTL", ttl.as_bytes()], "ERR", "TTL must be")]);
        refused.all(&[(&[b"RLOCK.EVENTS", b"one-that-is-not-open", b"TTL", ttl.as_bytes()], "ERR", "1000 to 600000")]);
    }
    for ttl in ["TTL 1000", "ttl 600000"] {
        assert_eq!(refused.session.told(ttl), []);
    }
}

#[test]
fn a_wait_for_events_is_from_0_to_9223372036854775807_ms() {
    let mut refused = Refusals::prepare();
    for wait in ["", "-1", "1.5", "+1", "01", "9223372036854775808", "for ever"] {
        refused.all(&[(&[b"RLOCK.EVENTS", OPEN.as_bytes(), b"WAIT", wait.as_bytes()], "ERR", "WAIT must be")]);
    }
    // A third of the TTL is the most that it waits for.
    refused.session.told("TTL 1000");
    assert_eq!(refused.session.told("WAIT 9223372036854775807"), []);
}

/// What was never told cannot be done with.
#[test]
fn an_acknowledgement_is_of_what_was_told() {
    let mut refused = Refusals::prepare();
    for seq in ["", "-1", "x", "01", "9223372036854775808"] {
        refused.all(&[(&[b"RLOCK.EVENTS", OPEN.as_bytes(), b"ACK", seq.as_bytes()], "ERR", "ACK must be")]);
    }
    // One event was told; one more there is, and the session was not told of it.
    refused.client.say("RLOCK.RACQUIRE l holder 600000");
    refused.session.wait_for("RLOCK.WACQUIRE l ann 600000 WAIT 0", "second");
    refused.client.say("DEL l");
    refused.before = state(&mut refused.client);
    for seq in ["2", "3", "9223372036854775807"] {
        let call: [&[u8]; 4] = [b"RLOCK.EVENTS", OPEN.as_bytes(), b"ACK", seq.as_bytes()];
        let reply = refused.client.run(&call);
        assert!(reply.as_error().starts_with("ERR ACK must be at most"), "{seq}: {reply:?}");
        assert_eq!(state(&mut refused.client), refused.before, "{seq}");
    }
    assert_eq!(refused.session.told("ACK 1").len(), 1);
    assert_eq!(refused.session.told("ACK 2"), []);
    assert_eq!(refused.client.figure("events_unacknowledged"), 0);
    // Once more is no error: the answer may have been lost.
    assert_eq!(refused.session.told("ACK 2"), []);
    assert_eq!(refused.session.told("ACK 1"), []);
}

#[test]
fn a_session_that_is_not_open_is_named() {
    let mut refused = Refusals::prepare();
    let none = b"the-session-of-nobody";
    for acquire in ACQUIRES {
        // Nor is a lock acquired that is free.
        for key in [b"k", b"l"] {
            let call: [&[u8]; 9] = [acquire.as_bytes(), key, b"h", b"1", b"WAIT", b"0", b"SESSION", none, b"t"];
            refused.all(&[(&call, "NOSESSION", "no session of this name is open")]);
        }
    }
    refused.all(&[
        (&[b"RLOCK.CANCEL", none], "NOSESSION", "no session of this name is open"),
        (&[b"RLOCK.CANCEL", none, b"waiting"], "NOSESSION", "no session of this name is open"),
        (&[b"RLOCK.EVENTS", none, b"ACK", b"1"], "NOSESSION", "no session of this name is open"),
    ]);
    // An acknowledgement of nothing opens it, as clients may begin with that.
    assert_eq!(refused.client.run(&[b"RLOCK.EVENTS", &none[..], b"ACK", b"0"]), list([]));
    assert_eq!(refused.client.figure("sessions"), 2);
}

#[test]
fn a_ticket_that_is_in_use_is_for_nothing_else() {
    let mut refused = Refusals::prepare();
    refused.client.say("RLOCK.RACQUIRE other holder 600000");
    refused.before = state(&mut refused.client);
    refused.tap.drain();
    // One waits to write k, and the event of the other, which waited to read k, is not acknowledged.
    for (ticket, same) in [("waiting", "RLOCK.WACQUIRE k ann"), ("told", "RLOCK.RACQUIRE k ann")] {
        let other_side = if same.starts_with("RLOCK.W") { "RLOCK.RACQUIRE k ann" } else { "RLOCK.WACQUIRE k ann" };
        let kind = same.split(' ').next().unwrap();
        for other in [
            &format!("{kind} k bob"),
            other_side,
            &format!("{kind} other ann"),
            &format!("{kind} free ann"),
            "RLOCK.ACQUIRE k ann",
            // A token is part of what is waited for: who asks for one must not be told without.
            &format!("{same} 600000 FENCED WAIT 0"),
        ] {
            let lease = if other.contains("600000") { "" } else { "600000 WAIT 0 " };
            let call = format!("{other} {lease}SESSION {OPEN} {ticket}");
            let call: Vec<_> = call.split(' ').map(str::as_bytes).collect();
            refused.all(&[(&call, "ERR", "ticket is in use for another wait")]);
        }
        // The same key of another database is another lock.
        refused.session.other.say("SELECT 7");
        let reply = refused.session.ask(&format!("{same} 600000 WAIT 0"), ticket);
        assert!(reply.as_error().starts_with("ERR ticket is in use for another wait"), "{reply:?}");
        refused.session.other.say("SELECT 0");
        assert_eq!(state(&mut refused.client), refused.before);
        // The same wait, with another lease or another time limit, is the same one.
        for options in ["600000 WAIT 0", "1000 WAIT 0", "600000 WAIT 5"] {
            assert_eq!(refused.session.ask(&format!("{same} {options}"), ticket), text("WAITING"));
            assert_eq!(state(&mut refused.client), refused.before, "nothing is queued twice");
        }
    }
    // A ticket of the same name of another session is another ticket.
    let mut bob = Session::open(&refused.server, "bob");
    bob.wait_for("RLOCK.RACQUIRE k bob 600000 WAIT 0", "waiting");
    // And one that is done with is free again.
    assert_eq!(refused.session.told("ACK 1"), []);
    refused.session.wait_for("RLOCK.WACQUIRE k bob 600000 WAIT 0", "told");
}
