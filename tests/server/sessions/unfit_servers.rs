//! A server that cannot grant now, or is a replica by now: tickets wait, or get an event.

use rlock_testing::{Cluster, Event, Reply, Server, Session, list, text, wait_until};

/// An earlier grant is still delivered and acknowledged; a new request gets the server's own error.
#[test]
fn a_server_that_may_not_grant_delivers_earlier_grants() {
    for setting in ["maxmemory", "min-replicas-to-write"] {
        let (_server, mut client, mut ann) = Server::with_session();
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
        client.say("RLOCK.RELEASE k holder");
        client.say(&format!("CONFIG SET {setting} 1"));
        assert_eq!(ann.fetch("WAIT 200"), [Event::granted(1, "1", None)], "{setting}");
        assert_eq!(ann.fetch("ACK 1"), [], "{setting}");
        let asked = ann.ask("RLOCK.ACQUIRE k bob 600000 WAIT 0", "2");
        assert!(matches!(asked, Reply::Error(_)), "{setting}: {asked:?}");
    }
}

/// A full server takes no new locks. Open sessions go on, otherwise holders would not get their events.
#[test]
fn a_full_server_opens_no_session() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("CONFIG SET maxmemory 1");
    let refused = ann.other.say("RLOCK.EVENTS the-session-of-bob");
    assert!(refused.as_error().starts_with("OOM "), "{refused:?}");
    assert_eq!((ann.fetch(""), client.figure("sessions")), (vec![], 1));
}

/// Each ticket gets one event, from the server that is a replica now. Once that is a master again, the session works
/// on.
#[test]
fn a_server_that_becomes_a_replica_ends_its_tickets() {
    let (server, master) = (Server::start(), Server::start());
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE l granted 600000 WAIT 0", "granted");
    client.say("RLOCK.RELEASE l holder");
    for ticket in ["1", "2", "3"] {
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0"), ticket);
    }
    server.begin_to_follow(&master);
    assert_eq!(client.figure("waiters"), 0, "at once");
    let received = ann.fetch("WAIT 0");
    assert_eq!(received[0], Event::granted(1, "granted", None), "what was granted before was granted");
    let tickets: Vec<_> = received[1..].iter().map(|event| event.ticket.as_str()).collect();
    assert_eq!(tickets, ["1", "2", "3"]);
    assert!(received[1..].iter().all(|event| event.is_error("UNBLOCKED")), "{received:?}");
    // On a replica nothing is acquired, but events can be acknowledged.
    assert!(ann.ask("RLOCK.ACQUIRE k ann 600000 WAIT 0", "4").as_error().starts_with("READONLY"));
    assert_eq!(ann.fetch("ACK 4"), []);
    assert!(ann.cancel("1").as_error().starts_with("READONLY"));
    assert_eq!(client.say("REPLICAOF NO ONE"), text("OK"));
    client.say("FLUSHALL");
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.fetch("WAIT 1000"), [Event::granted(5, "1", None)]);
}

/// A waiting call gets the event when the server becomes a replica. Or the server cuts it off, and the next connection
/// gets it.
#[test]
fn a_call_that_waits_through_a_change_of_roles() {
    for capability in ["", "redirect"] {
        let (server, master) = (Server::start(), Server::start());
        let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
        // Valkey 9 leaves it to the module to answer a client that can be redirected. Other servers do not know CAPA.
        if !capability.is_empty() {
            ann.connection.say(&format!("CLIENT CAPA {capability}"));
        }
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
        ann.arm("WAIT 0");
        server.begin_to_follow(&master);
        let received = match ann.connection.try_receive() {
            Some(Reply::List(events)) if !events.is_empty() => Reply::List(events).events(),
            answer => {
                assert!(!matches!(answer, Some(Reply::List(_))), "answered without an event: {answer:?}");
                ann.reconnect(&server);
                ann.fetch("WAIT 0")
            }
        };
        assert_eq!(received.len(), 1, "{received:?}");
        assert!(received[0].is_error("UNBLOCKED"), "{received:?}");
    }
}

/// In this case, some servers leave it to the module to unblock clients.
#[test]
fn a_node_that_becomes_a_replica_sends_an_event_to_its_tickets() {
    let cluster = Cluster::start_with_replicas();
    let (key, server) = (cluster.key_on(0), &cluster.masters[0]);
    let (mut client, mut replica) = (server.client(), cluster.replicas[0].client());
    let mut ann = Session::open(server, "ann");
    client.run(&["RLOCK.ACQUIRE", &key, "holder", "600000"]);
    for ticket in ["1", "2"] {
        ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann{ticket} 600000 WAIT 0"), ticket);
    }
    ann.arm("WAIT 0");
    assert_eq!(replica.say("CLUSTER FAILOVER"), text("OK"));
    wait_until("the replica is the master", || replica.say("ROLE").words().first() == Some(&"master"));
    let mut received = match ann.connection.try_receive() {
        Some(Reply::List(events)) => Reply::List(events).events(),
        _ => {
            ann.reconnect(server);
            Vec::new()
        }
    };
    wait_until("all are notified", || {
        received.extend(ann.fetch("WAIT 100"));
        received.len() >= 2
    });
    assert!(received.len() == 2 && received.iter().all(|event| event.is_error("UNBLOCKED")), "{received:?}");
    assert_eq!(client.figure("waiters"), 0);
    assert_eq!(replica.run(&["RLOCK.RELEASE", &key, "holder"]), Reply::Int(1));
    assert_eq!(replica.run(&["EXISTS", &key]), Reply::Int(0), "the new master grants nobody by itself");
}

#[test]
fn a_grant_goes_with_its_slot() {
    let cluster = Cluster::start();
    let (key, server) = (cluster.key_on(0), &cluster.masters[0]);
    let (mut client, mut ann) = (server.client(), Session::open(server, "ann"));
    client.run(&["RLOCK.ACQUIRE", &key, "holder", "600000"]);
    ann.wait_for(&format!("RLOCK.ACQUIRE {key} ann 600000 WAIT 0"), "1");
    client.run(&["RLOCK.RELEASE", &key, "holder"]);
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    slot.move_keys();
    slot.finish();
    assert_eq!(ann.fetch(""), [Event::granted(1, "1", None)]);
    assert_eq!(ann.cancel("1"), list([Reply::Int(2)]));
    wait_until("the new owner serves the lock", || !matches!(slot.target.run(&["HLEN", &key]), Reply::Error(_)));
    assert_eq!(slot.target.fields(&key), "{ann:1}");
    assert_eq!(client.say("DBSIZE"), Reply::Int(0));
}
