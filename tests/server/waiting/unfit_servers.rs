//! When the server is in no state to grant, or no longer the one to do it.

use rlock_testing::{Reply, Server, ServerVersion, start_waiting, text, wait_until};

#[test]
fn no_grant_while_writes_are_paused() {
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 100");
    let end = client.expiry("k");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CLIENT PAUSE 100000 WRITE");
    wait_until("the lease has ended for a while", || watch.time_ms() > end + 100);
    assert_eq!(watch.figure("waiters"), 1);
    client.say("CLIENT UNPAUSE");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn a_release_in_a_transaction_that_pauses_writes_hands_nothing_over() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("MULTI");
    client.say("CLIENT PAUSE 100000 WRITE");
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(client.say("EXEC").as_list()[1], Reply::Int(1));
    assert_eq!((watch.figure("waiters"), watch.expiry("k")), (1, -2));
    client.say("CLIENT UNPAUSE");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn loading_grants_nobody() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // Everything goes, and comes back from disk.
    assert_eq!(client.say("DEBUG RELOAD"), text("OK"));
    assert_eq!(client.hash("k"), [("ann".into(), "1".into())]);
    assert_eq!(client.figure("waiters"), 1);
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn no_grant_without_memory() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET maxmemory 1");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    client.say("DEL other");
    assert_eq!((watch.figure("waiters"), watch.expiry("k")), (1, -2));
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn no_grant_without_enough_replicas() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 100");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET min-replicas-to-write 1");
    wait_until("the lease has ended", || watch.expiry("k") == -2);
    assert_eq!(watch.figure("waiters"), 1);
    client.say("CONFIG SET min-replicas-to-write 0");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn a_server_that_becomes_a_replica_lets_its_waiters_go() {
    let (server, master) = (Server::start(), Server::start());
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // A client that can be redirected is one that Valkey 9 leaves to the module. Other servers do not know the word.
    let mut cid = server.client();
    cid.say("CLIENT CAPA redirect");
    cid.send(&["RLOCK.ACQUIRE", "k", "cid", "600000", "WAIT", "0"]);
    client.until_waiting(2);
    server.begin_to_follow(&master);
    assert_eq!(client.figure("waiters"), 0, "at once");
    for waiter in [&mut bob, &mut cid] {
        // Told, or cut off.
        if let Some(reply) = waiter.try_receive() {
            assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}");
        }
    }
}

#[test]
fn a_failover_sends_the_waiters_away_and_grants_nobody() {
    let (old, new) = (Server::start(), Server::start());
    let (mut on_old, mut on_new) = (old.client(), new.client());
    new.follow(&old);
    on_old.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiters: Vec<_> =
        (0..5).map(|number| start_waiting(&old, &format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    wait_until("the replica has the lock", || on_new.expiry("k") > 0);
    assert_eq!(on_old.say("FAILOVER"), text("OK"));
    for waiter in &mut waiters {
        // Told, or cut off.
        if let Some(reply) = waiter.try_receive() {
            assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}");
        }
    }
    wait_until("the replica is the master", || on_new.say("ROLE").words().first() == Some(&"master"));
    let mut on_old = old.client();
    assert_eq!(on_old.figure("waiters"), 0);
    assert_eq!(on_new.hash("k"), [("ann".into(), "1".into())]);
    assert_eq!(on_new.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(on_new.keys(), [""; 0], "the new master grants nobody by itself");
    assert_eq!(on_new.say("RLOCK.ACQUIRE k h0 600000 WAIT 0"), Reply::Nil, "who asks again is served");
}

#[test]
fn a_slot_that_moves_away_sends_its_waiters_away() {
    let nodes: Vec<_> = (0..3).map(|_| Server::prepare().in_cluster().start()).collect();
    let mut clients: Vec<_> = nodes.iter().map(Server::client).collect();
    for (client, epoch) in clients.iter_mut().zip(1..) {
        client.say(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    }
    for node in &nodes[1..] {
        clients[0].say(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), node.cluster_port()));
    }
    for (client, slots) in clients.iter_mut().zip(["0 5000", "5001 10000", "10001 16383"]) {
        client.say(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for client in &mut clients {
        wait_until("the nodes know each other", || {
            let info = client.say("CLUSTER INFO");
            info.as_text().contains("cluster_state:ok") && info.as_text().contains("cluster_known_nodes:3")
        });
    }
    // Its slot is the second node's, and goes to the first.
    let [there, here, _] = &mut clients[..] else { unreachable!("three nodes") };
    assert_eq!(here.say("CLUSTER KEYSLOT k"), Reply::Int(7_629));
    assert_eq!(here.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    let mut waiters: Vec<_> =
        (0..5).map(|number| start_waiting(&nodes[1], &format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    let (from, to) = (here.say("CLUSTER MYID"), there.say("CLUSTER MYID"));
    there.say(&format!("CLUSTER SETSLOT 7629 IMPORTING {}", from.as_text()));
    here.say(&format!("CLUSTER SETSLOT 7629 MIGRATING {}", to.as_text()));
    assert_eq!(here.say(&format!("MIGRATE 127.0.0.1 {} k 0 10000", nodes[0].port())), text("OK"));
    there.say(&format!("CLUSTER SETSLOT 7629 NODE {}", to.as_text()));
    here.say(&format!("CLUSTER SETSLOT 7629 NODE {}", to.as_text()));
    for waiter in &mut waiters {
        let reply = waiter.receive();
        assert!(reply.as_error().starts_with("TRYAGAIN"), "{reply:?} on {:?}", ServerVersion::under_test());
        let again = waiter.say("RLOCK.ACQUIRE k again 600000 WAIT 0");
        assert!(again.as_error().starts_with("MOVED 7629"), "{again:?}");
    }
    wait_until("the new owner serves the lock", || !matches!(there.say("HLEN k"), Reply::Error(_)));
    assert_eq!(there.hash("k"), [("ann".into(), "1".into())], "nobody was granted a second lock");
    assert_eq!(here.figure("waiters"), 0);
}
