//! What people on call see of sessions: INSPECT, QUEUES and INFO.

use crate::inspect::of;
use rlock_testing::{Client, Reply, Server, Session, list, start_waiting, text, wait_until};

fn waiters(client: &mut Client, key: &str) -> Vec<Reply> {
    of(&client.say(&format!("RLOCK.INSPECT {key}")), "waiters").as_list().to_vec()
}

#[test]
fn a_ticket_is_seen_with_its_session_and_whether_it_is_attended() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.WACQUIRE k holder 600000");
    ann.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 300000", "the-ticket");
    let blocked = start_waiting(&server, "RLOCK.RACQUIRE k bob 600000 WAIT 0");
    ann.wait_for("RLOCK.RACQUIRE k cid 600000 WAIT 0", "another");
    let id = ann.connection.say("CLIENT ID");
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(of(&seen, "waiter-count"), &Reply::Int(3));
    let names: Vec<_> = of(&seen, "waiters").as_list()[0].as_list().iter().step_by(2).map(Reply::as_text).collect();
    let expected =
        "holder side limit client-id address session ticket attended waited-ms deadline-in-ms keys".split(' ');
    assert_eq!(names, expected.collect::<Vec<_>>());
    let line = waiters(&mut client, "k");
    let each = |name: &str| line.iter().map(|waiter| of(waiter, name).clone()).collect::<Vec<_>>();
    assert_eq!(each("holder"), ["ann", "bob", "cid"].map(text));
    assert_eq!(each("side"), ["write", "read", "read"].map(text));
    // Not the whole: a process that knows it can cancel what waits.
    assert_eq!(each("session"), [text("the-sess"), Reply::Nil, text("the-sess")]);
    assert_eq!(each("ticket"), [text("the-ticket"), Reply::Nil, text("another")]);
    assert_eq!(each("attended"), [1, 1, 1].map(Reply::Int));
    let address = text(&format!("{}:0", server.socket().display()));
    assert_eq!((&each("client-id")[0], &each("address")[0]), (&id, &address));
    assert_eq!(each("client-id")[0], each("client-id")[2]);
    assert_ne!(each("client-id")[0], each("client-id")[1]);
    assert!((200_000..=300_000).contains(&each("deadline-in-ms")[0].as_int()));
    assert_eq!(each("deadline-in-ms")[2], Reply::Nil);
    // Its connection is closed, so no client is shown.
    ann.reconnect(&server);
    wait_until("it is noticed", || of(&waiters(&mut client, "k")[0], "attended") == &Reply::Int(0));
    let line = waiters(&mut client, "k");
    for name in ["client-id", "address"] {
        assert_eq!(of(&line[0], name), &Reply::Nil, "{name}");
    }
    assert_eq!(of(&line[0], "session"), &text("the-sess"));
    assert_eq!(of(&line[1], "attended"), &Reply::Int(1), "the blocked client is there");
    // The next connection is seen, and the order is that of coming, passed over or not.
    client.say("RLOCK.RELEASE k holder");
    ann.fetch("");
    let holders: Vec<_> = waiters(&mut client, "k").iter().map(|waiter| of(waiter, "holder").clone()).collect();
    assert_eq!(holders, ["ann", "cid"].map(text), "the blocked reader was granted, and the others wait again");
    let line = waiters(&mut client, "k");
    assert_eq!(of(&line[0], "client-id"), &ann.connection.say("CLIENT ID"));
    drop(blocked);
}

#[test]
fn queues_count_tickets_as_they_count_clients() {
    let (server, mut client, mut ann) = Server::with_session();
    for (key, count) in [("a", 1), ("b", 3), ("c", 2)] {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        for number in 0..count {
            ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann{number} 600000 WAIT 0"), &format!("{key}{number}"));
        }
    }
    let _blocked = start_waiting(&server, "RLOCK.ACQUIRE c bob 600000 WAIT 0");
    let shown = |client: &mut Client| -> Vec<(String, i64, i64)> {
        let queues = client.say("RLOCK.QUEUES");
        let shown = queues.as_list().iter().map(|queue| {
            let [waiters, served] = ["waiters", "served"].map(|name| of(queue, name).as_int());
            (of(queue, "key").as_text().to_owned(), waiters, served)
        });
        shown.collect()
    };
    assert_eq!(shown(&mut client), [("b".into(), 3, 0), ("c".into(), 3, 0), ("a".into(), 1, 0)]);
    client.say("RLOCK.RELEASE b holder");
    client.say("RLOCK.RELEASE b ann0");
    assert_eq!(shown(&mut client)[0], ("c".into(), 3, 0));
    assert!(shown(&mut client).contains(&("b".into(), 1, 2)));
    ann.cancel("a0");
    assert_eq!(shown(&mut client).len(), 2);
    // Unattended tickets are in the queue as well.
    ann.hang_up(&server);
    client.say("RLOCK.RELEASE b ann1");
    assert_eq!(shown(&mut client), [("c".into(), 3, 0), ("b".into(), 1, 2)]);
    ann.cancel("");
    assert_eq!(shown(&mut client), [("c".into(), 1, 0)]);
}

#[test]
fn info_counts_sessions_tickets_and_events() {
    let (server, mut client) = Server::with_client();
    let figures = |client: &mut Client| {
        client.figures(["sessions", "sessions_unattended", "tickets", "events_unacknowledged", "waiters"])
    };
    assert_eq!(figures(&mut client), [0; 5]);
    let (mut ann, mut bob) = (Session::open(&server, "ann"), Session::open(&server, "bob"));
    assert_eq!(figures(&mut client), [2, 0, 0, 0, 0]);
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    bob.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0", "1");
    bob.wait_for("RLOCK.ACQUIRE l bob 600000 WAIT 20", "2");
    let blocked = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    assert_eq!(
        (client.figure("waits"), client.figure("locks_with_waiters"), client.figure("longest_queue")),
        (4, 2, 3)
    );
    wait_until("one's time is up", || client.figure("timeouts") == 1);
    assert_eq!(figures(&mut client), [2, 0, 2, 1, 3]);
    ann.hang_up(&server);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(figures(&mut client), [2, 1, 1, 2, 2]);
    assert_eq!(client.figures(["hand_offs", "grants_after_wait", "grants"]), [1, 1, 3]);
    assert_eq!(bob.fetch("").len(), 2);
    assert_eq!(figures(&mut client)[3], 2, "delivered is not acknowledged");
    bob.fetch("ACK 2");
    assert_eq!(figures(&mut client), [2, 1, 1, 0, 2]);
    let before = client.figure("cancelled");
    bob.cancel("");
    assert_eq!(client.figure("cancelled"), before, "nothing of it waited");
    ann.cancel("");
    assert_eq!((client.figure("cancelled"), figures(&mut client)), (before + 1, [0, 0, 0, 0, 1]));
    drop(blocked);
    wait_until("no waiters are left", || client.figure("waiters") == 0);
    assert_eq!(client.say("RLOCK.QUEUES"), list([]));
}
