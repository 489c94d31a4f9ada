//! INFO and LATENCY: what monitoring sees of a server's locks.

use rlock_testing::{Client, Reply, Server, start_waiting, wait_until};

/// `pages.rs` checks the names of the fields.
#[test]
fn every_field_begins_with_nothing() {
    let (_server, mut client) = Server::with_client();
    let of_the_server = ["rlock_followed", "rlock_followed_by_replicas", "rlock_keyspace_subscriptions"];
    let fields = client.info("rlock");
    for (name, value) in fields.lines().filter(|(name, _)| !of_the_server.contains(name)) {
        assert_eq!(value, "0", "{name}");
    }
}

#[test]
fn each_grant_is_counted_by_how_it_came() {
    let (server, mut client) = Server::with_client();
    let mut counted = |commands: &[&str]| {
        for command in commands {
            client.say(command);
        }
        client.figures(["grants", "refusals", "grants_after_wait", "hand_offs", "lease_expiries", "breaks"])
    };
    assert_eq!(counted(&["RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k ann 600000"]), [2, 0, 0, 0, 0, 0]);
    assert_eq!(counted(&["RLOCK.ACQUIRE k bob 600000", "RLOCK.RELEASE k ann"]), [2, 1, 0, 0, 0, 0]);
    // By a release, by a break, by a foreign DEL, and by the end of a lease.
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    let mut dan = start_waiting(&server, "RLOCK.ACQUIRE k dan 100 WAIT 0");
    let mut eve = start_waiting(&server, "RLOCK.ACQUIRE k eve 600000 WAIT 0");
    assert_eq!(counted(&["RLOCK.RELEASE k ann"]), [3, 1, 1, 1, 0, 0]);
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(counted(&["RLOCK.BREAK k"]), [4, 1, 2, 2, 0, 1]);
    assert_eq!(cid.receive(), Reply::Nil);
    counted(&["DEL k"]);
    assert_eq!((dan.receive(), eve.receive()), (Reply::Nil, Reply::Nil));
    assert_eq!(counted(&[]), [6, 1, 4, 2, 1, 1]);
}

#[test]
fn a_lease_that_ends_without_waiters_is_not_counted() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE other ann 600000");
    let _waits = start_waiting(&server, "RLOCK.ACQUIRE other bob 600000 WAIT 0");
    client.say("RLOCK.ACQUIRE k ann 20");
    wait_until("the lease has ended", || client.expiry("k") == -2);
    assert_eq!(client.figure("lease_expiries"), 0);
}

#[test]
fn waits_are_counted_by_their_length() {
    let (server, mut client) = Server::with_client();
    let histogram = |client: &mut Client| {
        client.figures([
            "wait_ms_le_1",
            "wait_ms_le_10",
            "wait_ms_le_100",
            "wait_ms_le_1000",
            "wait_ms_le_10000",
            "wait_ms_le_inf",
        ])
    };
    let mut wait_for = |ms: i64| {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let before = client.time_ms();
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let kept_by = client.time_ms();
        wait_until("it has waited long enough", || client.time_ms() >= kept_by + ms);
        let sum = client.figure("wait_ms_sum");
        let asked = client.time_ms();
        client.say("RLOCK.RELEASE k ann");
        assert_eq!(bob.receive(), Reply::Nil);
        let waited = client.figure("wait_ms_sum") - sum;
        assert!((asked - kept_by..=client.time_ms() - before).contains(&waited), "{waited}");
        client.say("RLOCK.RELEASE k bob");
        (waited, histogram(&mut client))
    };
    let mut waits = Vec::new();
    for ms in [0, 15, 150, 0] {
        let (waited, counts) = wait_for(ms);
        waits.push(waited);
        let up_to = |most: i64| i64::try_from(waits.iter().filter(|waited| **waited <= most).count()).unwrap();
        assert_eq!(counts, [1, 10, 100, 1_000, 10_000, i64::MAX].map(up_to), "{waits:?}");
    }
}

#[test]
fn a_wait_that_is_given_up_is_in_no_histogram() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    assert!(client.say("RLOCK.ACQUIRE k bob 600000 WAIT 20").as_int() > 0);
    drop(start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0"));
    wait_until("it is gone", || client.figure("cancelled") == 1);
    let names = ["timeouts", "cancelled", "waits", "wait_ms_le_inf", "wait_ms_sum", "waiters"];
    assert_eq!(client.figures(names), [1, 1, 2, 0, 0, 0]);
}

#[test]
fn the_oldest_of_all_waiters() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE a ann 600000");
    client.say("RLOCK.ACQUIRE b ann 600000");
    let before = client.time_ms();
    let _first = start_waiting(&server, "RLOCK.ACQUIRE b bob 600000 WAIT 0");
    let kept_by = client.time_ms();
    wait_until("it has waited a while", || client.time_ms() >= kept_by + 100);
    let _second = start_waiting(&server, "RLOCK.ACQUIRE a bob 600000 WAIT 0");
    let oldest = client.figure("oldest_wait_ms");
    assert!((100..=client.time_ms() - before).contains(&oldest), "{oldest}");
    assert_eq!((client.figure("locks_with_waiters"), client.figure("longest_queue")), (2, 1));
    client.say("RLOCK.RELEASE b ann");
    let oldest = client.figure("oldest_wait_ms");
    assert!(oldest <= client.time_ms() - kept_by - 100, "the first one waits no longer: {oldest}");
    client.say("RLOCK.RELEASE a ann");
    assert_eq!(client.figure("oldest_wait_ms"), 0);
}

/// The names of the slow events that the server knows of.
fn slow(client: &mut Client) -> Vec<String> {
    let latest = client.say("LATENCY LATEST");
    let names = latest.as_list().iter().map(|event| event.as_list()[0].as_text());
    names.filter(|name| name.starts_with("rlock-")).map(str::to_owned).collect()
}

/// Enough work for each event to take some ms on any machine.
fn long_work(server: &Server, client: &mut Client) {
    let readers = "for reader = 1, 9000 do redis.call('RLOCK.RACQUIRE', KEYS[1], 'reader' .. reader, '600000') end";
    client.run(&["EVAL", readers, "1", "k"]);
    client.say("RLOCK.INSPECT k COUNT 10000");
    client.say("RLOCK.BREAK k");
    let holds = "for hold = 1, 9000 do redis.call('RLOCK.RACQUIRE', KEYS[1], 'reader', '600000') end";
    client.run(&["EVAL", holds, "1", "k"]);
    client.say("RLOCK.RELEASE k reader ALL");
    client.say("RLOCK.WACQUIRE k ann 600000");
    let mut readers: Vec<_> = (0..1_000).map(|_| server.client()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.send(&["RLOCK.RACQUIRE", "k", &format!("r{number}"), "600000", "WAIT", "0"]);
    }
    client.until_waiting(1_000);
    client.say("RLOCK.RELEASE k ann");
    client.until_waiting(0);
}

#[test]
fn what_takes_long_is_an_event_of_the_latency_monitor() {
    let server = Server::prepare().options(&["--latency-monitor-threshold", "1"]).start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE other ann 600000");
    client.say("RLOCK.RELEASE other ann");
    assert_eq!(slow(&mut client), [""; 0], "what is short is none");
    long_work(&server, &mut client);
    let mut events = slow(&mut client);
    events.sort();
    assert_eq!(events, ["rlock-break", "rlock-inspect", "rlock-read-holds", "rlock-serve"]);
}

#[test]
fn a_monitor_that_is_off_or_patient_records_nothing() {
    for threshold in ["0", "1000000"] {
        let server = Server::prepare().options(&["--latency-monitor-threshold", threshold]).start();
        let mut client = server.client();
        long_work(&server, &mut client);
        assert_eq!(slow(&mut client), [""; 0], "{threshold}");
    }
}
