//! One queue for blocked clients and tickets: first come, first served, in one step with the release.

use rlock_testing::{Client, Event, Reply, Server, Session, Tap, start_waiting, text};

fn tickets(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.ticket.as_str()).collect()
}

/// The commands that were replicated, with the times of leases left out.
fn stream(tap: &mut Tap) -> Vec<String> {
    let without_time = |command: String| {
        let words: Vec<_> = command.split(' ').map(|word| if word.len() == 13 { "<end>" } else { word }).collect();
        words.join(" ")
    };
    tap.drain().into_iter().map(without_time).collect()
}

#[test]
fn the_hand_over_replicates_in_one_step_without_the_key_going() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    let mut tap = Tap::on(&server);
    client.say("RLOCK.ACQUIRE k holder 600000");
    stream(&mut tap);
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    ann.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED", "2");
    ann.arm("WAIT 0");
    assert_eq!(stream(&mut tap), [""; 0], "the queue is not replicated");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(stream(&mut tap), ["RESTORE k <end> {ann:1} ABSTTL REPLACE"]);
    ann.connection.receive();
    client.say("RLOCK.RELEASE k ann");
    let expected = ["MULTI", "RESTORE k <end> {bob:1} ABSTTL REPLACE", "INCR redisson_lock_token:{k}", "EXEC"];
    assert_eq!(stream(&mut tap), expected);
    ann.told("ACK 1");
    ann.reconnect(&server);
    ann.told("ACK 2");
    assert_eq!(ann.cancel(""), Reply::Int(0));
    assert_eq!(stream(&mut tap), [""; 0], "nor that it is told, and that the session ends");
}

/// A listener to what becomes of one key.
fn listener(server: &Server) -> Client {
    let mut listener = server.client();
    listener.say("CONFIG SET notify-keyspace-events KA");
    listener.say("SUBSCRIBE __keyspace@0__:k mark");
    listener.receive();
    listener
}

#[test]
fn the_key_is_heard_as_released_and_acquired_and_never_as_absent_in_between() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    let mut listener = listener(&server);
    // A client that looks right behind the release sees the next holder.
    client.send_together(&[&["RLOCK.RELEASE", "k", "holder"][..], &["HKEYS", "k"], &["PUBLISH", "mark", "end"]]);
    assert_eq!((client.receive(), client.receive().words()), (Reply::Int(1), vec!["ann"]));
    let mut heard = Vec::new();
    loop {
        let message = listener.receive();
        let words: Vec<_> = message.words().into_iter().map(str::to_owned).collect();
        if words[1] == "mark" {
            break;
        }
        heard.push(words[2].clone());
    }
    // As a blocked client's hand-over: see `notifications.rs`.
    let last_del = heard.iter().rposition(|event| event == "del");
    let grant = heard.iter().rposition(|event| event == "hincrby" || event == "hset");
    assert!(last_del < grant, "{heard:?}");
}

/// Twelve in a queue, every other one a blocked client, of two sessions and on three connections.
#[test]
fn blocked_clients_and_tickets_are_served_in_the_order_of_coming() {
    let server = Server::start();
    let mut client = server.client();
    let (mut ann, mut bob) = (Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    let mut blocked = Vec::new();
    for number in 0..12 {
        let command = format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0 FENCED");
        match number % 4 {
            0 => ann.wait_for(&command, &format!("t{number}")),
            2 => bob.wait_for(&command, &format!("t{number}")),
            _ => blocked.push(start_waiting(&server, &command)),
        }
    }
    let mut holder = "holder".to_owned();
    for number in 0..12 {
        assert_eq!(client.say(&format!("RLOCK.RELEASE k {holder}")), Reply::Int(1));
        holder = format!("h{number}");
        assert_eq!(client.hash("k"), [(holder.clone(), "1".into())]);
        let token = i64::from(number) + 1;
        let (session, other) = if number % 4 == 0 { (&mut ann, &mut bob) } else { (&mut bob, &mut ann) };
        if number % 2 == 0 {
            let told = session.told("");
            assert_eq!((told.len(), &told[0].value), (1, &Reply::Int(token)), "{number}: {told:?}");
            assert_eq!(told[0].ticket, format!("t{number}"));
        } else {
            assert_eq!(blocked.remove(0).receive().as_list()[1], Reply::Int(token), "{number}");
            assert_eq!(session.told(""), []);
        }
        assert_eq!(other.told(""), []);
    }
    assert_eq!(client.figure("waiters"), 0);
    assert_eq!(client.figure("hand_offs"), 12);
}

#[test]
fn nobody_overtakes_a_ticket() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    // In one piece: the newcomers ask as soon as the lock could be free.
    client.send_together(&[
        &["DEL", "k"][..],
        &["RLOCK.ACQUIRE", "k", "thief", "600000"],
        &["RLOCK.ACQUIRE", "k", "thief", "600000", "WAIT", "0", "SESSION", &ann.name, "2"],
    ]);
    assert_eq!(client.receive(), Reply::Int(1));
    assert!(client.receive().as_int() > 0);
    assert_eq!(client.receive(), text("WAITING"));
    assert_eq!(ann.told("WAIT 1000"), [Event::granted(1, "1", None)]);
    assert_eq!(client.hash("k"), [("ann".into(), "1".into())]);
}

/// A released writer lets in all readers up to the next writer that waits; that one stops new readers.
#[test]
fn readers_are_let_in_up_to_the_next_writer_whoever_waits() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.WACQUIRE k holder 600000");
    ann.wait_for("RLOCK.RACQUIRE k r1 600000 WAIT 0", "r1");
    let mut blocked_reader = start_waiting(&server, "RLOCK.RACQUIRE k r2 600000 WAIT 0");
    ann.wait_for("RLOCK.RACQUIRE k r3 600000 WAIT 0", "r3");
    ann.wait_for("RLOCK.WACQUIRE k w1 600000 WAIT 0", "w1");
    ann.wait_for("RLOCK.RACQUIRE k r4 600000 WAIT 0", "r4");
    let mut blocked_writer = start_waiting(&server, "RLOCK.WACQUIRE k w2 600000 WAIT 0");
    ann.wait_for("RLOCK.RACQUIRE k r5 600000 WAIT 0", "r5");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(tickets(&ann.told("")), ["r1", "r3"]);
    assert_eq!(blocked_reader.receive(), Reply::Nil);
    // A new reader waits behind the writer; one that is inside is let in again.
    assert!(client.say("RLOCK.RACQUIRE k late 600000").as_int() > 0);
    ann.wait_for("RLOCK.RACQUIRE k late 600000 WAIT 0", "late");
    assert_eq!(ann.ask("RLOCK.RACQUIRE k r1 600000 WAIT 0", "again"), Reply::Nil);
    for reader in ["r1 ALL", "r2", "r3"] {
        assert_eq!(ann.told(""), []);
        client.say(&format!("RLOCK.RELEASE k {reader}"));
    }
    assert_eq!(tickets(&ann.told("")), ["w1"]);
    client.say("RLOCK.RELEASE k w1");
    assert_eq!(tickets(&ann.told("")), ["r4"]);
    client.say("RLOCK.RELEASE k r4");
    assert_eq!((blocked_writer.receive(), ann.told("")), (Reply::Nil, vec![]));
    client.say("RLOCK.RELEASE k w2");
    assert_eq!(tickets(&ann.told("")), ["r5", "late"]);
}

#[test]
fn readers_behind_a_writer_that_gives_up_are_let_in() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.RACQUIRE k holder 600000");
    for (seq, gives_up) in [(1, "cancelled"), (2, "its time is up")] {
        let wait = if seq == 1 { 0 } else { 500 };
        ann.wait_for(&format!("RLOCK.WACQUIRE k w 600000 WAIT {wait}"), "w");
        ann.wait_for("RLOCK.RACQUIRE k r 600000 WAIT 0", "r");
        let mut blocked = start_waiting(&server, "RLOCK.RACQUIRE k b 600000 WAIT 0");
        if seq == 1 {
            assert_eq!(ann.cancel("w"), Reply::Int(1));
            assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
            assert_eq!(tickets(&ann.until_told(1)), ["r"], "{gives_up}");
        } else {
            assert_eq!(tickets(&ann.until_told(2)), ["w", "r"], "{gives_up}");
        }
        assert_eq!(blocked.receive(), Reply::Nil, "{gives_up}");
        client.say("RLOCK.RELEASE k r");
        client.say("RLOCK.RELEASE k b");
    }
}

#[test]
fn a_downgrade_lets_tickets_in() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.WACQUIRE k holder 600000");
    client.say("RLOCK.RACQUIRE k holder 600000");
    ann.wait_for("RLOCK.RACQUIRE k ann 600000 WAIT 0", "1");
    assert_eq!(client.say("RLOCK.RELEASE k holder WRITE"), Reply::Int(1));
    assert_eq!(ann.told(""), [Event::granted(1, "1", None)]);
}

/// A holder is granted its own lock at once, so when one of its waits is over all are: whether it waits by tickets, of
/// one session or two, or by blocked clients.
#[test]
fn all_waiters_under_the_name_of_a_holder_are_let_in_with_it() {
    let server = Server::start();
    let mut client = server.client();
    let (mut ann, mut bob) = (Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k same 600000 WAIT 0", "1");
    ann.wait_for("RLOCK.ACQUIRE k other 600000 WAIT 0", "2");
    let mut blocked = start_waiting(&server, "RLOCK.ACQUIRE k same 600000 WAIT 0");
    bob.wait_for("RLOCK.ACQUIRE k same 600000 WAIT 0", "3");
    ann.wait_for("RLOCK.ACQUIRE k same 600000 WAIT 0", "4");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(tickets(&ann.told("")), ["1", "4"]);
    assert_eq!((blocked.receive(), tickets(&bob.told(""))), (Reply::Nil, vec!["3"]));
    assert_eq!(client.hash("k"), [("same".into(), "4".into())]);
    // Its holder asks again, and is inside.
    assert_eq!(ann.ask("RLOCK.ACQUIRE k same 600000 WAIT 0", "5"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RELEASE k same ALL"), Reply::Int(1));
    assert_eq!(tickets(&ann.told("")), ["2"]);
}

/// The holder may be let in through another command than a wait: the other waiters under its name are let in with it.
#[test]
fn tickets_of_a_holder_that_gets_the_lock_otherwise() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.WACQUIRE k holder 600000");
    ann.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 0", "write");
    ann.wait_for("RLOCK.RACQUIRE k ann 600000 WAIT 0", "read");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(tickets(&ann.told("")), ["write", "read"], "a writer may read");
    assert_eq!(
        client.hash("k"),
        [("ann".into(), "1".into()), ("ann:write".into(), "1".into()), ("mode".into(), "write".into())]
    );
}
