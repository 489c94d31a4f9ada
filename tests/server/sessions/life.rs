//! When a session is attended, what becomes of it when its process stops, dies or comes back, and how it ends.

use rlock_testing::{Event, PATIENCE, Reply, Server, Session, Signal, send_signal, start_waiting, wait_until};
use std::process::{Child, Command, Stdio};

/// A process of its own that calls for events on one connection, again and again.
struct Poller(Child);

impl Poller {
    fn start(server: &Server, session: &Session, options: &str) -> Self {
        let mut cli = Command::new("redis-cli");
        cli.arg("-s").arg(server.socket()).args(["-r", "-1", "RLOCK.EVENTS", &session.name]);
        cli.args(options.split_ascii_whitespace()).stdout(Stdio::null());
        let poller = Self(cli.spawn().expect("redis-cli is there"));
        let mut client = server.client();
        wait_until("it waits for events", || {
            let clients = client.say("CLIENT LIST");
            clients.as_text().lines().any(|line| line.contains("cmd=rlock.events") && line.contains(" flags=b"))
        });
        poller
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.0.id(), signal).expect("the process is there");
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // On unix, this is SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its tickets keep their places until then, and are passed over meanwhile.
#[test]
fn a_process_that_is_killed_is_passed_over_at_once_and_gone_after_its_ttl() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 3_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann1 600000 WAIT 0", "1");
    let mut first = start_waiting(&server, "RLOCK.ACQUIRE k first 600000 WAIT 0");
    ann.wait_for("RLOCK.ACQUIRE k ann2 600000 WAIT 0", "2");
    let mut second = start_waiting(&server, "RLOCK.ACQUIRE k second 600000 WAIT 0");
    let (mut killed, mut noticed) = (0, Vec::new());
    for _ in 0..5 {
        let poller = Poller::start(&server, &ann, "WAIT 0");
        assert_eq!(client.figure("sessions_unattended"), 0);
        killed = client.time_ms();
        drop(poller);
        wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
        noticed.push(client.time_ms() - killed);
    }
    noticed.sort_unstable();
    assert!(noticed[2] < 100, "mostly noticed after {noticed:?} ms");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(first.receive(), Reply::Nil);
    client.say("RLOCK.RELEASE k first");
    assert_eq!(second.receive(), Reply::Nil);
    assert_eq!((client.figure("tickets"), client.figure("sessions")), (2, 1), "their places are kept");
    client.say("RLOCK.RELEASE k second");
    assert_eq!(client.say("EXISTS k"), Reply::Int(0), "nobody is there to be granted it");
    wait_until("the session has ended", || client.figure("sessions") == 0);
    let ended = client.time_ms() - killed;
    // The last sign of life was a call that began a while before.
    assert!((1_500..5_000).contains(&ended), "ended after {ended} ms");
    wait_until("and its tickets have left", || client.figure("waiters") == 0);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann1 600000"), Reply::Nil);
}

/// It is told, since a call of its waits; and nobody reads that. The lock is its own until the lease ends.
#[test]
fn what_is_granted_to_a_process_that_is_stopped_goes_with_its_lease() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 3_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 5000 WAIT 0", "1");
    ann.wait_for("RLOCK.ACQUIRE l ann 600000 WAIT 0", "2");
    let poller = Poller::start(&server, &ann, "WAIT 0");
    poller.signal(Signal::SIGSTOP);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.fields("k"), "{ann:1}", "nobody could know that it is stopped");
    wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    client.say("RLOCK.RELEASE l holder");
    assert_eq!(bob.receive(), Reply::Nil, "it is passed over");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    wait_until("the session has ended", || client.figure("sessions") == 0);
    assert_eq!(client.fields("k"), "{ann:1}", "the process may have read of it");
    assert_eq!(cid.receive(), Reply::Nil, "its lease has ended");
    // What goes on then finds out.
    assert!(ann.call("ACK 1").as_error().starts_with("NOSESSION "));
}

#[test]
fn a_process_that_goes_on_in_time_keeps_its_places() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 4_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let poller = Poller::start(&server, &ann, "WAIT 0");
    poller.signal(Signal::SIGSTOP);
    wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
    poller.signal(Signal::SIGCONT);
    wait_until("it is back", || client.figure("sessions_unattended") == 0);
    assert_eq!(client.figure("tickets"), 1);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.fields("k"), "{ann:1}");
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(bob.receive(), Reply::Nil);
}

/// What it was passed over for is remembered: it is served when it is back, though nothing happens to the lock then.
#[test]
fn a_session_that_comes_back_is_served_what_it_was_passed_over_for() {
    let (server, mut client, mut ann) = Server::with_session();
    for key in ["free", "taken"] {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), key);
    }
    client.say("RLOCK.ACQUIRE untouched holder 600000");
    ann.wait_for("RLOCK.ACQUIRE untouched ann 600000 WAIT 0", "untouched");
    // It stays open, and its connection is closed.
    ann.hang_up(&server);
    for key in ["free", "taken"] {
        client.say(&format!("RLOCK.RELEASE {key} holder"));
        assert_eq!(client.expiry(key), -2);
    }
    // A client that comes now does not wait for a session that nobody attends.
    assert_eq!(client.say("RLOCK.ACQUIRE taken bob 600000 WAIT 0"), Reply::Nil);
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE taken cid 600000 WAIT 0");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "free", None)]);
    // And it has its place before a client that came later.
    client.say("RLOCK.RELEASE taken bob");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(2, "taken", None)]);
    client.say("RLOCK.RELEASE taken ann");
    assert_eq!(cid.receive(), Reply::Nil);
    client.say("RLOCK.RELEASE untouched holder");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(3, "untouched", None)]);
}

/// Passed over again and again, it keeps its place before those who came later, and behind those who came before.
#[test]
fn places_are_kept_through_any_number_of_absences() {
    let (server, mut client) = Server::with_client();
    let (mut ann, mut bob) = (Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    for number in 0..3 {
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{number} 600000 WAIT 0"), &number.to_string());
        bob.wait_for(&format!("RLOCK.ACQUIRE k bob{number} 600000 WAIT 0"), &number.to_string());
    }
    let mut next = start_waiting(&server, "RLOCK.ACQUIRE k next 600000 WAIT 0");
    for session in [&mut ann, &mut bob] {
        session.hang_up(&server);
    }
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(next.receive(), Reply::Nil);
    // The second one comes back first, goes, and comes back after the first.
    assert_eq!(bob.told(""), []);
    bob.hang_up(&server);
    assert_eq!((ann.told(""), bob.told("")), (vec![], vec![]));
    let mut holder = "next".to_owned();
    for number in 0..3 {
        for (session, name) in [(&mut ann, "ann"), (&mut bob, "bob")] {
            client.say(&format!("RLOCK.RELEASE k {holder}"));
            assert_eq!(session.told("WAIT 10000"), [Event::granted(number + 1, &number.to_string(), None)], "{name}");
            holder = format!("{name}{number}");
            assert_eq!(client.fields("k"), format!("{{{holder}:1}}"));
        }
    }
}

/// From when it is attended again, whatever comes in the same turn, and for however many locks it waits.
#[test]
fn nobody_overtakes_a_session_that_is_back() {
    let (server, mut client, mut ann) = Server::with_session();
    for locks in [1, 50] {
        let mut bobs = Vec::new();
        for key in 0..locks {
            client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
            ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), &key.to_string());
            bobs.push(start_waiting(&server, &format!("RLOCK.ACQUIRE {key} bob 600000 WAIT 0")));
        }
        let last = (locks - 1).to_string();
        let mut cid = start_waiting(&server, &format!("RLOCK.ACQUIRE {last} cid 600000 WAIT 0"));
        ann.hang_up(&server);
        for (key, bob) in bobs.iter_mut().enumerate() {
            client.say(&format!("RLOCK.RELEASE {key} holder"));
            assert_eq!(bob.receive(), Reply::Nil, "ann is passed over");
        }
        let call: &[&str] = &["RLOCK.EVENTS", &ann.name];
        client.send_together(&[call, &["RLOCK.RELEASE", &last, "bob"], call]);
        assert_eq!((client.receive().events(), client.receive()), (vec![], Reply::Int(1)), "{locks}");
        let told = client.receive().events();
        assert_eq!((told.len(), &told[0].ticket), (1, &last), "{locks}");
        client.say(&format!("RLOCK.RELEASE {last} ann"));
        assert_eq!(cid.receive(), Reply::Nil, "{locks}");
        assert!(matches!(ann.cancel(""), Reply::Int(_)));
        client.say("FLUSHALL");
        assert_eq!(ann.told("TTL 600000"), []);
    }
}

/// Readers behind a writer that nobody attends do not wait for it.
#[test]
fn readers_do_not_wait_for_a_writer_that_nobody_attends() {
    let (server, mut client) = Server::with_client();
    let (mut ann, mut bob) = (Session::open(&server, "ann"), Session::open(&server, "bob"));
    client.say("RLOCK.RACQUIRE k holder 600000");
    ann.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 0", "write");
    bob.wait_for("RLOCK.RACQUIRE k bob 600000 WAIT 0", "read");
    let mut blocked = start_waiting(&server, "RLOCK.RACQUIRE k cid 600000 WAIT 0");
    assert_eq!(bob.told(""), []);
    ann.reconnect(&server);
    assert_eq!(bob.told("WAIT 10000"), [Event::granted(1, "read", None)]);
    assert_eq!(blocked.receive(), Reply::Nil);
    assert_eq!(client.say("RLOCK.RACQUIRE k dan 600000"), Reply::Nil, "nor does a reader that comes now");
    // Back again, it stops new readers, and has its turn when those that are inside have left.
    assert_eq!(ann.told(""), []);
    assert!(client.say("RLOCK.RACQUIRE k eve 600000").as_int() > 0);
    for reader in ["holder", "bob", "cid", "dan"] {
        client.say(&format!("RLOCK.RELEASE k {reader}"));
    }
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "write", None)]);
}

/// A holder is granted its own lock at once: so is a session that comes back and waits under that name. If the holder
/// has left again by then, the session has its turn.
#[test]
fn a_session_that_comes_back_is_let_in_with_its_holder() {
    let (server, mut client, mut ann) = Server::with_session();
    for (seq, has_left) in [(1, false), (2, true)] {
        client.say("RLOCK.ACQUIRE k holder 600000");
        let mut first = start_waiting(&server, "RLOCK.ACQUIRE k same 600000 WAIT 0");
        let mut other = start_waiting(&server, "RLOCK.ACQUIRE k other 600000 WAIT 0");
        ann.wait_for("RLOCK.ACQUIRE k same 600000 WAIT 0", "1");
        let mut last = start_waiting(&server, "RLOCK.ACQUIRE k last 600000 WAIT 0");
        ann.hang_up(&server);
        client.say("RLOCK.RELEASE k holder");
        assert_eq!(first.receive(), Reply::Nil);
        assert_eq!((&*client.fields("k"), client.figure("tickets")), ("{same:1}", 1));
        if has_left {
            client.say("RLOCK.RELEASE k same");
            assert_eq!(other.receive(), Reply::Nil);
            assert_eq!(ann.told("WAIT 100"), [], "its holder has left");
            client.say("RLOCK.RELEASE k other");
            assert_eq!(ann.told("WAIT 10000"), [Event::granted(seq, "1", None)]);
        } else {
            assert_eq!(ann.told("WAIT 10000"), [Event::granted(seq, "1", None)]);
            assert_eq!(client.fields("k"), "{same:2}");
            client.say("RLOCK.RELEASE k same ALL");
            assert_eq!(other.receive(), Reply::Nil);
            client.say("RLOCK.RELEASE k other");
        }
        assert_eq!(ann.told(&format!("ACK {seq}")), []);
        client.say("RLOCK.RELEASE k same ALL");
        assert_eq!(last.receive(), Reply::Nil);
        client.say("RLOCK.RELEASE k last");
    }
}

/// Also where only tickets wait that nobody attends: a lease that ends is noticed at once, and not when the lock is next
/// looked at anyway.
#[test]
fn a_client_behind_tickets_that_nobody_attends_gets_the_lock_when_its_lease_ends() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    ann.hang_up(&server);
    client.say("RLOCK.RELEASE k holder");
    let late = (0..11).map(|_| {
        assert_eq!(client.say("RLOCK.ACQUIRE k bob 30"), Reply::Nil, "past the ticket");
        let end = client.expiry("k");
        let mut cid = server.client();
        assert_eq!(cid.say("RLOCK.ACQUIRE k cid 600000 WAIT 0"), Reply::Nil);
        let granted = client.expiry("k") - 600_000;
        client.say("RLOCK.RELEASE k cid");
        granted - end
    });
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    assert!(late[late.len() / 2] < 20, "mostly late by {late:?} ms");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "1", None)], "and the ticket has kept its place");
}

/// A session without a call that waits is attended for a tenth of its TTL after the last answer.
#[test]
fn a_session_is_attended_for_a_tenth_of_its_ttl_after_an_answer() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 10_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    let answered = client.time_ms();
    wait_until("nobody attends it", || client.figure("sessions_unattended") == 1);
    let ms = client.time_ms() - answered;
    assert!((900..2_000).contains(&ms), "after {ms} ms");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.expiry("k"), -2, "it is passed over");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "1", None)]);
    // While a call waits it is attended for as long as that.
    ann.arm("ACK 1 WAIT 2500");
    let armed = client.time_ms();
    while client.time_ms() < armed + 2_000 {
        assert_eq!(client.figure("sessions_unattended"), 0);
    }
    assert_eq!(ann.connection.receive().events(), []);
}

/// Nothing but EVENTS is a sign of life.
#[test]
fn a_session_ends_a_ttl_after_its_last_call_whatever_else_it_does() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 1_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    let opened = client.time_ms();
    let mut number = 0;
    let refused = loop {
        number += 1;
        ann.connection.say("PING");
        let reply = ann.ask("RLOCK.ACQUIRE k ann 600000 WAIT 0", &number.to_string());
        if let Reply::Error(line) = reply {
            break line;
        }
        assert!(opened + i64::try_from(PATIENCE.as_millis()).unwrap() > client.time_ms(), "it does not end");
    };
    assert!(refused.starts_with("NOSESSION "), "{refused}");
    let ms = client.time_ms() - opened;
    assert!((900..2_000).contains(&ms), "ended after {ms} ms");
    wait_until("its tickets have left", || client.figure("waiters") == 0);
    assert_eq!((client.figure("sessions"), client.figure("events_unacknowledged")), (0, 0));
    // A call that waits is one sign of life, when it comes; the TTL counts from then, and may be said anew.
    let mut bob = Session::open_for(&server, "bob", 1_000);
    let said = client.time_ms();
    assert_eq!(bob.told("TTL 3000"), []);
    wait_until("it has ended", || client.figure("sessions") == 0);
    let ms = client.time_ms() - said;
    assert!((2_900..4_500).contains(&ms), "ended after {ms} ms");
}

/// The connection was killed before anyone could read the answer, if it was written.
#[test]
fn a_grant_that_nobody_read_is_told_again_or_goes_with_its_lease() {
    let (server, mut client) = Server::with_client();
    for comes_back in [true, false] {
        let mut ann = Session::open_for(&server, "ann", 4_000);
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 5000 WAIT 0", "1");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let id = ann.connection.say("CLIENT ID").as_int().to_string();
        ann.arm("WAIT 0");
        // In one piece: some servers write the answer first, others close the connection.
        client.send_together(&[&["RLOCK.RELEASE", "k", "holder"][..], &["CLIENT", "KILL", "ID", &id]]);
        assert_eq!((client.receive(), client.receive()), (Reply::Int(1), Reply::Int(1)));
        assert_eq!(client.fields("k"), "{ann:1}");
        if comes_back {
            ann.reconnect(&server);
            assert_eq!(ann.told(""), [Event::granted(1, "1", None)]);
            assert_eq!(ann.told("ACK 1"), []);
            client.say("RLOCK.RELEASE k ann");
        }
        assert_eq!(bob.receive(), Reply::Nil, "comes back: {comes_back}");
        assert_eq!(client.fields("k"), "{bob:1}");
        client.say("RLOCK.RELEASE k bob");
        ann.cancel("");
    }
}

/// What was in a reply belongs to whoever may have read it. What was in none goes with the session, unless its holder
/// has done something to it.
#[test]
fn only_what_was_in_no_reply_is_given_back_when_a_session_ends() {
    let (server, mut client) = Server::with_client();
    for by_cancel in [true, false] {
        let mut ann = Session::open(&server, "ann");
        // The order of the events: one acknowledgement is for all before it.
        let (told, untold) = (["acknowledged", "told", "released"], ["renewed", "untold"]);
        for key in told.iter().chain(&untold) {
            client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
            ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), key);
        }
        let free = |client: &mut rlock_testing::Client, key: &str| client.say(&format!("RLOCK.RELEASE {key} holder"));
        told.iter().for_each(|key| drop(free(&mut client, key)));
        assert_eq!(ann.told("").len(), 3);
        // It is attended for half a second more.
        assert_eq!(ann.told("ACK 1 TTL 5000"), []);
        untold.iter().for_each(|key| drop(free(&mut client, key)));
        assert_eq!(client.say("RLOCK.RENEW renewed ann 500000"), Reply::Int(1));
        assert_eq!(client.say("RLOCK.RELEASE released ann"), Reply::Int(1));
        if by_cancel {
            assert_eq!(ann.cancel(""), Reply::Int(4), "the events that were not acknowledged");
        }
        wait_until("the session has ended", || client.figure("sessions") == 0);
        wait_until("what was in no reply is given back", || client.keys().len() == 3);
        assert_eq!(client.keys(), ["acknowledged", "renewed", "told"]);
        assert_eq!(client.figure("events_unacknowledged"), 0);
        client.say("FLUSHALL");
    }
}

/// Another grant to the same holder is not given back with the first, nor a lock that others have touched.
#[test]
fn a_hold_is_given_back_only_if_it_is_as_it_was_granted() {
    let (_server, mut client, mut ann) = Server::with_session();
    let touched = [
        ("longer", "PEXPIRE longer 500000"),
        ("endless", "PERSIST endless"),
        ("again", "RLOCK.ACQUIRE again ann 500000"),
        ("deleted", "DEL deleted"),
        ("other-kind", "RLOCK.BREAK other-kind"),
    ];
    for (key, _) in touched {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), key);
        client.say(&format!("RLOCK.RELEASE {key} holder"));
    }
    for (_, touch) in touched {
        assert!(!matches!(client.say(touch), Reply::Error(_)), "{touch}");
    }
    client.say("RLOCK.ACQUIRE deleted ann 500000");
    client.say("RLOCK.WACQUIRE other-kind ann 500000");
    let before = client.everything();
    assert_eq!(ann.cancel("").as_int(), 5);
    client.say("RLOCK.ACQUIRE other holder 600000");
    assert!(client.say("RLOCK.ACQUIRE other bob 10 WAIT 50").as_int() > 0, "everything is caught up with");
    client.say("DEL other");
    assert_eq!(client.everything(), before);
}

/// Several holds of one holder, reads among them, each with a lease of its own.
#[test]
fn all_grants_of_one_holder_are_given_back() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE plain holder 600000");
    client.say("RLOCK.WACQUIRE k holder 600000");
    for (number, lease) in [300_000, 600_000, 500_000].into_iter().enumerate() {
        ann.wait_for(&format!("RLOCK.ACQUIRE plain ann {lease} WAIT 0"), &format!("plain{number}"));
        ann.wait_for(&format!("RLOCK.RACQUIRE k ann {lease} WAIT 0"), &format!("read{number}"));
    }
    client.say("RLOCK.RELEASE plain holder");
    client.say("RLOCK.RELEASE k holder");
    client.say("RLOCK.RACQUIRE k bob 400000");
    assert_eq!(client.fields("plain"), "{ann:3}");
    assert_eq!(client.fields("k"), "{ann:3,bob:1,mode:read}");
    assert_eq!(ann.cancel("").as_int(), 6);
    wait_until("all is given back", || client.fields("k") == "{bob:1,mode:read}" && client.expiry("plain") == -2);
    assert_eq!(client.keys(), ["k", "{k}:bob:rwlock_timeout:1"]);
}

/// One that does not read is passed over until it does, and loses nothing.
#[test]
fn a_session_that_leaves_a_thousand_events_is_passed_over_until_it_reads() {
    const UNREAD_MAX: usize = 1_000;
    let (_server, mut client, mut ann) = Server::with_session();
    client.say_all((0..1_200).map(|number| format!("RLOCK.ACQUIRE k:{number} holder 600000")));
    client.say_all(
        (0..1_200)
            .map(|number| format!("RLOCK.ACQUIRE k:{number} ann 600000 WAIT 0 SESSION the-session-of-ann {number}")),
    );
    client.say_all((0..UNREAD_MAX).map(|number| format!("RLOCK.RELEASE k:{number} holder")));
    assert_eq!((client.figure("events_unacknowledged"), client.figure("sessions_unattended")), (1_000, 0));
    client.say("RLOCK.RELEASE k:1000 holder");
    assert_eq!(client.figure("sessions_unattended"), 1, "one too many");
    for number in 1_001..1_200 {
        client.say(&format!("RLOCK.RELEASE k:{number} holder"));
        assert_eq!(client.say(&format!("EXISTS k:{number}")), Reply::Int(0), "it is passed over");
    }
    assert_eq!(client.say("RLOCK.ACQUIRE k:1100 bob 600000"), Reply::Nil, "others are not");
    client.say("RLOCK.RELEASE k:1100 bob");
    // To be told is not to acknowledge.
    assert_eq!(ann.told("").len(), UNREAD_MAX + 1);
    assert_eq!(ann.told("WAIT 0"), []);
    assert_eq!((client.figure("sessions_unattended"), client.figure("tickets")), (1, 199));
    // With one fewer it is served what there is room for; then again.
    assert_eq!(ann.told("ACK 1"), []);
    let mut last = UNREAD_MAX + 1;
    let mut told = Vec::new();
    wait_until("it was told of everything", || {
        let events = ann.told(&format!("ACK {last} WAIT 50"));
        last = events.last().map_or(last, |event| usize::try_from(event.seq).unwrap());
        told.extend(events.into_iter().map(|event| event.seq));
        last == 1_200
    });
    assert_eq!(told, (1_002..=1_200).collect::<Vec<_>>(), "each once, in order");
    assert_eq!((client.figure("tickets"), client.figure("sessions_unattended")), (0, 0));
}

/// While too much is unread, calls do not wait for long: the acknowledgement may be behind them.
#[test]
fn a_call_behind_which_an_acknowledgement_comes_does_not_keep_it_waiting() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say_all((0..1_001).map(|number| format!("RLOCK.ACQUIRE k:{number} holder 600000")));
    client.say_all(
        (0..1_001)
            .map(|number| format!("RLOCK.ACQUIRE k:{number} ann 600000 WAIT 0 SESSION the-session-of-ann {number}")),
    );
    let name = ann.name.clone();
    ann.arm("WAIT 0");
    // Behind the call that waits is another one, and only the third acknowledges what the first tells.
    ann.connection.send_together(&[
        &["RLOCK.EVENTS", &name, "WAIT", "0"][..],
        &["RLOCK.EVENTS", &name, "ACK", "1001", "WAIT", "1"],
    ]);
    client.transaction((0..1_001).map(|number| format!("RLOCK.RELEASE k:{number} holder")));
    assert_eq!(ann.connection.receive().events().len(), 1_001);
    let before = client.time_ms();
    assert_eq!((ann.connection.receive().events(), ann.connection.receive().events()), (vec![], vec![]));
    let ms = client.time_ms() - before;
    assert!(ms < 5_000, "the second call kept the acknowledgement waiting for {ms} ms");
    assert_eq!(client.figure("events_unacknowledged"), 0);
}

/// The server itself was silent: no process could give a sign of life. Those whose call waited are still there.
#[test]
fn a_server_that_stood_still_ends_no_session_whose_call_waits() {
    let server = Server::prepare().options(&["--enable-debug-command", "yes"]).start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 1_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    ann.arm("WAIT 0");
    client.say("DEBUG SLEEP 1.5");
    assert_eq!(ann.connection.receive().events(), []);
    ann.arm("ACK 0 WAIT 0");
    assert_eq!((client.figure("sessions"), client.figure("tickets")), (1, 1));
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.connection.receive().events(), [Event::granted(1, "1", None)]);
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(bob.receive(), Reply::Nil);
}

/// While all clients are paused, nobody can give a sign of life.
#[test]
fn a_pause_of_all_clients_ends_no_session() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 1_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    ann.arm("WAIT 0");
    client.say("CLIENT PAUSE 2500 ALL");
    assert_eq!(ann.connection.receive().events(), [], "a third of the TTL is over");
    ann.arm("ACK 0 WAIT 0");
    // Answered once the pause is over.
    assert_eq!((client.figure("sessions"), client.figure("tickets")), (1, 1));
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.connection.receive().events(), [Event::granted(1, "1", None)]);
}

/// A wait ends when its time is up, whoever is there.
#[test]
fn the_time_of_a_ticket_is_up_though_nobody_attends_it() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 1500", "1");
    ann.hang_up(&server);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.figure("tickets"), 1, "it is passed over");
    wait_until("the time is up", || client.figure("timeouts") == 1);
    let told = ann.until_told(1);
    assert_eq!((told[0].outcome.as_str(), told[0].value.as_int()), ("timeout", 0), "nobody has it: {told:?}");
}
