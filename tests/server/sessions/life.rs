//! When a session is attended, what becomes of it when its process stops, dies or comes back, and how it ends.

use rlock_testing::{Event, PATIENCE, Reply, Server, Session, Signal, send_signal, start_waiting, wait_until};
use std::process::{Child, Command, Stdio};

/// A process of its own that calls for events on one connection, again and again.
struct Poller(Child);

impl Poller {
    fn start(server: &Server, session: &Session) -> Self {
        let mut cli = Command::new("redis-cli");
        cli.arg("-s").arg(server.socket()).args(["-r", "-1", "RLOCK.EVENTS", &session.name, "WAIT", "0"]);
        cli.stdout(Stdio::null());
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

/// Its tickets keep their places until the TTL is over, and are passed over meanwhile.
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
        let poller = Poller::start(&server, &ann);
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
    assert_eq!(client.say("EXISTS k"), Reply::Int(0), "no waiter is there to be granted it");
    wait_until("the session has ended", || client.figure("sessions") == 0);
    let ended = client.time_ms() - killed;
    // The last sign of life was a call that began a while before.
    assert!((1_500..5_000).contains(&ended), "ended after {ended} ms");
    wait_until("and its tickets have left", || client.figure("waiters") == 0);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann1 600000"), Reply::Nil);
}

/// The event is sent, since a call of the process waits; and the process does not read it. The lock belongs to it until
/// the lease ends.
#[test]
fn what_is_granted_to_a_process_that_is_stopped_goes_with_its_lease() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 3_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 5000 WAIT 0", "1");
    ann.wait_for("RLOCK.ACQUIRE l ann 600000 WAIT 0", "2");
    let poller = Poller::start(&server, &ann);
    poller.signal(Signal::SIGSTOP);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.fields("k"), "{ann:1}", "no client could know that it is stopped");
    wait_until("it is noticed", || client.figure("sessions_unattended") == 1);
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    client.say("RLOCK.RELEASE l holder");
    assert_eq!(bob.receive(), Reply::Nil, "it is passed over");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    wait_until("the session has ended", || client.figure("sessions") == 0);
    assert_eq!(client.fields("k"), "{ann:1}", "the process may have read of it");
    assert_eq!(cid.receive(), Reply::Nil, "its lease has ended");
    // If the process goes on then, it finds out.
    assert!(ann.call("ACK 1").as_error().starts_with("NOSESSION "));
}

#[test]
fn a_process_that_goes_on_in_time_keeps_its_places() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open_for(&server, "ann", 4_000));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let poller = Poller::start(&server, &ann);
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

/// The server remembers what a session was passed over for, and serves it when it is back, even if no lock changes then.
#[test]
fn a_session_that_comes_back_is_served_what_it_was_passed_over_for() {
    let (server, mut client, mut ann) = Server::with_session();
    for key in ["free", "taken"] {
        client.say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
        ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), key);
    }
    client.say("RLOCK.ACQUIRE untouched holder 600000");
    ann.wait_for("RLOCK.ACQUIRE untouched ann 600000 WAIT 0", "untouched");
    // The session stays open, and its connection is closed.
    ann.hang_up(&server);
    for key in ["free", "taken"] {
        client.say(&format!("RLOCK.RELEASE {key} holder"));
        assert_eq!(client.expiry(key), -2);
    }
    // A new client does not wait for an unattended session.
    assert_eq!(client.say("RLOCK.ACQUIRE taken bob 600000 WAIT 0"), Reply::Nil);
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE taken cid 600000 WAIT 0");
    assert_eq!(ann.fetch("WAIT 10000"), [Event::granted(1, "free", None)]);
    // The session keeps its place before a client that came later.
    client.say("RLOCK.RELEASE taken bob");
    assert_eq!(ann.fetch("WAIT 10000"), [Event::granted(2, "taken", None)]);
    client.say("RLOCK.RELEASE taken ann");
    assert_eq!(cid.receive(), Reply::Nil);
    client.say("RLOCK.RELEASE untouched holder");
    assert_eq!(ann.fetch("WAIT 10000"), [Event::granted(3, "untouched", None)]);
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
    assert_eq!(ann.fetch("WAIT 10000"), [Event::granted(1, "1", None)]);
    // While a call waits, the session is attended.
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
        let reply = ann.ask(&format!("RLOCK.ACQUIRE k ann{number} 600000 WAIT 0"), &number.to_string());
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
    // A waiting call is one sign of life, at the time when it comes. The TTL counts from then, and may be set again.
    let mut bob = Session::open_for(&server, "bob", 1_000);
    let said = client.time_ms();
    assert_eq!(bob.fetch("TTL 3000"), []);
    wait_until("it has ended", || client.figure("sessions") == 0);
    let ms = client.time_ms() - said;
    assert!((2_900..4_500).contains(&ms), "ended after {ms} ms");
}

/// The connection is killed before the answer can be read, if the answer was written at all.
#[test]
fn an_unread_grant_is_delivered_again_or_goes_with_its_lease() {
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
            assert_eq!(ann.fetch(""), [Event::granted(1, "1", None)]);
            assert_eq!(ann.fetch("ACK 1"), []);
            client.say("RLOCK.RELEASE k ann");
        }
        assert_eq!(bob.receive(), Reply::Nil, "comes back: {comes_back}");
        assert_eq!(client.fields("k"), "{bob:1}");
        client.say("RLOCK.RELEASE k bob");
        ann.cancel("");
    }
}

/// The server itself was silent: no process could give a sign of life. Sessions with a waiting call are still there.
#[test]
fn a_stalled_server_ends_no_session_with_a_waiting_call() {
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

/// While all clients are paused, no process can give a sign of life.
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
