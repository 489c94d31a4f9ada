//! What the commands of sessions take. Anything else is refused with an error that names the argument and what is allowed; a
//! refused command changes nothing and replicates nothing.

use crate::grammar::{ACQUIRES, Refusals};
use rlock_testing::{Reply, Session, list, text};

/// The session that is open.
const OPEN: &str = "the-session-of-ann";

#[test]
fn a_session_has_a_name_of_16_to_64_bytes() {
    let (mut refused, long) = (Refusals::prepare(), "s".repeat(65));
    for name in ["", "s", "fifteen-bytes!!", &long] {
        let named = "session must be 16 to 64 bytes";
        refused.all(&[
            (&["RLOCK.EVENTS", name], "ERR", named),
            (&["RLOCK.CANCEL", name], "ERR", named),
            (&["RLOCK.CANCEL", name, "t"], "ERR", named),
        ]);
        for acquire in ACQUIRES {
            refused.all(&[(&[acquire, "queued", "h", "1", "WAIT", "0", "SESSION", name, "t"], "ERR", named)]);
        }
    }
    for name in [&b"sixteen-bytes-16"[..], &long.as_bytes()[..64], b"any\0bytes\xff\r\n%s%n there are"] {
        assert_eq!(refused.client.run(&[&b"RLOCK.EVENTS"[..], name]), list([]));
        assert_eq!(refused.client.run(&[&b"RLOCK.CANCEL"[..], name]), Reply::Int(0));
    }
}

#[test]
fn a_ticket_has_a_name_of_1_to_64_bytes() {
    let (mut refused, long) = (Refusals::prepare(), "t".repeat(65));
    for name in ["", &long] {
        let named = "ticket must be 1 to 64 bytes";
        // If one of several tickets is wrong, the others are not taken back either.
        refused.all(&[(&["RLOCK.CANCEL", OPEN, "waiting", name], "ERR", named)]);
        for acquire in ACQUIRES {
            refused.all(&[(&[acquire, "queued", "h", "1", "WAIT", "0", "SESSION", OPEN, name], "ERR", named)]);
        }
    }
    let ask = ["RLOCK.RACQUIRE", "queued", "h", "1", "WAIT", "0", "SESSION", OPEN].map(str::as_bytes);
    for name in [&b"t"[..], &long.as_bytes()[..64], b"\0", b"\xff\r\n"] {
        assert_eq!(refused.client.run(&[&ask[..], &[name]].concat()), text("WAITING"));
        assert_eq!(refused.client.run(&[&b"RLOCK.CANCEL"[..], OPEN.as_bytes(), name]), list([Reply::Int(1)]));
    }
}

#[test]
fn what_is_missing_or_doubled_is_named() {
    let mut refused = Refusals::prepare();
    for (options, named) in [
        ("SESSION the-session-of-ann t", "SESSION needs WAIT ms"),
        ("FENCED session the-session-of-ann t", "SESSION needs WAIT ms"),
        ("MAX 1 SESSION the-session-of-ann t", "SESSION needs WAIT ms"),
        ("WAIT 0 MAX SESSION the-session-of-ann t", "MAX must be"),
        ("WAIT 0 SESSION", "session must be"),
        ("WAIT 0 SESSION the-session-of-ann", "ticket must be"),
        ("SESSION the-session-of-ann t WAIT", "WAIT must be"),
        ("SESSION the-session-of-ann t WAIT -1", "WAIT must be"),
        ("WAIT 0 SESSION the-session-of-ann t u", "option unknown"),
        ("WAIT 0 SESSION the-session-of-ann t SESSION the-session-of-ann t", "SESSION given twice"),
    ] {
        for acquire in ACQUIRES {
            refused.one(&format!("{acquire} queued h 1 {options}"), "ERR", named);
        }
    }
    for (options, named) in [
        ("COUNT 1", "option unknown"),
        ("ACK 1 ACK 1", "ACK given twice"),
        ("WAIT 1 wait 1", "WAIT given twice"),
        ("TTL 1000 TTL 1000", "TTL given twice"),
        ("ACK", "ACK must be"),
        ("WAIT", "WAIT must be"),
        ("TTL", "TTL must be"),
    ] {
        refused.one(&format!("RLOCK.EVENTS {OPEN} {options}"), "ERR", named);
    }
}

#[test]
fn a_ttl_is_from_1000_to_600000_ms() {
    let mut refused = Refusals::prepare();
    for ttl in ["", "0", "999", "600001", "-1000", "1e3", "1000.0", "01000", "9223372036854775808"] {
        for session in [OPEN, "one-that-is-not-open"] {
            refused.all(&[(
                &["RLOCK.EVENTS", session, "TTL", ttl],
                "ERR",
                "TTL must be an integer number of ms from 1000 to 600000",
            )]);
        }
    }
    for ttl in ["TTL 1000", "ttl 600000"] {
        assert_eq!(refused.session.fetch(ttl), []);
    }
}

#[test]
fn a_wait_for_events_is_from_0_to_9223372036854775807_ms() {
    let mut refused = Refusals::prepare();
    for wait in ["", "-1", "1.5", "+1", "01", "9223372036854775808", "for ever"] {
        refused.all(&[(&["RLOCK.EVENTS", OPEN, "WAIT", wait], "ERR", "WAIT must be")]);
    }
    // It waits for a third of the TTL at most.
    refused.session.fetch("TTL 1000");
    assert_eq!(refused.session.fetch("WAIT 9223372036854775807"), []);
}

/// An event that was never delivered cannot be acknowledged.
#[test]
fn an_acknowledgement_is_of_delivered_events() {
    let mut refused = Refusals::prepare();
    for seq in ["", "-1", "x", "01", "9223372036854775808"] {
        refused.all(&[(&["RLOCK.EVENTS", OPEN, "ACK", seq], "ERR", "ACK must be")]);
    }
    // One event was delivered; there is one more that was not.
    refused.client.say("RLOCK.RACQUIRE l holder 600000");
    refused.session.wait_for("RLOCK.WACQUIRE l ann 600000 WAIT 0", "second");
    refused.client.say("DEL l");
    refused.begin_again();
    for seq in ["2", "3", "9223372036854775807"] {
        let reply = refused.client.say(&format!("RLOCK.EVENTS {OPEN} ACK {seq}"));
        assert!(reply.as_error().starts_with("ERR ACK must be at most"), "{seq}: {reply:?}");
        refused.is_as_before();
    }
    assert_eq!(refused.session.fetch("ACK 1").len(), 1);
    // A repetition is no error: the answer may have been lost.
    for seq in [2, 2, 1] {
        assert_eq!(refused.session.fetch(&format!("ACK {seq}")), []);
        assert_eq!(refused.client.figure("events_unacknowledged"), 0);
    }
}

#[test]
fn a_session_that_is_not_open_is_named() {
    let mut refused = Refusals::prepare();
    let none = "the-session-of-nobody";
    for acquire in ACQUIRES {
        // A free lock is not acquired either.
        for key in ["queued", "free"] {
            let call = format!("{acquire} {key} h 1 WAIT 0 SESSION {none} t");
            refused.one(&call, "NOSESSION", "no session of this name is open");
        }
    }
    for call in ["RLOCK.CANCEL NAME", "RLOCK.CANCEL NAME waiting", "RLOCK.EVENTS NAME ACK 1"] {
        refused.one(&call.replace("NAME", none), "NOSESSION", "no session of this name is open");
    }
    // An acknowledgement of nothing opens the session, as clients may begin with that.
    assert_eq!(refused.client.say(&format!("RLOCK.EVENTS {none} ACK 0")), list([]));
    assert_eq!(refused.client.figure("sessions"), 2);
}

#[test]
fn a_ticket_that_is_in_use_is_for_nothing_else() {
    let mut refused = Refusals::prepare();
    // One ticket waits to write; the other waited to read, and its event is not acknowledged.
    for (ticket, holder, kind, other_kind) in [
        ("waiting", "ann", "RLOCK.WACQUIRE", "RLOCK.RACQUIRE"),
        ("received", "bob", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"),
    ] {
        for other in [
            &format!("{kind} queued cid 600000"),
            &format!("{other_kind} queued {holder} 600000"),
            &format!("{kind} read {holder} 600000"),
            &format!("{kind} free {holder} 600000"),
            &format!("RLOCK.ACQUIRE queued {holder} 600000"),
            // A token is part of the request: a client that asks for one must not get an event without.
            &format!("{kind} queued {holder} 600000 FENCED"),
        ] {
            let call = format!("{other} WAIT 0 SESSION {OPEN} {ticket}");
            refused.one(&call, "ERR", "ticket is in use for another wait");
        }
        // The same key of another database is another lock.
        refused.session.other.say("SELECT 7");
        let reply = refused.session.ask(&format!("{kind} queued {holder} 600000 WAIT 0"), ticket);
        assert!(reply.as_error().starts_with("ERR ticket is in use for another wait"), "{reply:?}");
        refused.session.other.say("SELECT 0");
        // The same wait with another lease, time limit or bound is the same wait: nothing is queued twice.
        for options in ["600000 WAIT 0", "1000 WAIT 0", "600000 WAIT 5", "600000 WAIT 0 MAX 1"] {
            assert_eq!(refused.session.ask(&format!("{kind} queued {holder} {options}"), ticket), text("WAITING"));
            refused.is_as_before();
        }
    }
    // A ticket of the same name of another session is another ticket.
    let mut cid = Session::open(&refused.server, "cid");
    cid.wait_for("RLOCK.RACQUIRE queued cid 600000 WAIT 0", "waiting");
    // A ticket that is over is free again.
    assert_eq!(refused.session.fetch("ACK 1"), []);
    refused.session.wait_for("RLOCK.WACQUIRE queued dan 600000 WAIT 0", "received");
}
