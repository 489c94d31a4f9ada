//! When the server is in no state to grant, or no longer the one to do it.

use super::for_all_waiters;
use super::scene::{First, Outcome, Scene, Waiter};
use rlock_testing::{Cluster, Reply, Server, text, wait_until};

for_all_waiters!(
    no_grant_while_writes_are_paused,
    a_transaction_that_pauses_writes_frees_and_hands_nothing_over,
    loading_grants_nothing,
    no_grant_without_memory_or_enough_replicas,
    a_server_that_becomes_a_replica_dismisses_its_waiters,
);

fn no_grant_while_writes_are_paused(scene: &mut Scene) {
    let server = Server::prepare().append_only_file().start();
    let mut scene = scene.moved_to(&server);
    for (kind, ms) in [("WRITE", 100_000), ("ALL", 1_000)] {
        scene.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let paused = scene.time_ms();
        // Sent together, so that the lease cannot end before the pause.
        scene.say_all(["RLOCK.RENEW k ann 100".to_owned(), format!("CLIENT PAUSE {ms} {kind}")]);
        if kind == "WRITE" {
            let end = scene.expiry("k");
            wait_until("the lease has ended for a while", || scene.time_ms() > end + 100);
            assert_eq!(scene.figure("waiters"), 1);
            scene.say("CLIENT UNPAUSE");
        }
        bob.is_granted();
        assert!(kind == "WRITE" || scene.expiry("k") >= paused + ms + 600_000, "granted in the pause");
        scene.say("RLOCK.RELEASE k bob");
    }
}

fn a_transaction_that_pauses_writes_frees_and_hands_nothing_over(scene: &mut Scene) {
    for free in ["RLOCK.RELEASE k ann", "RLOCK.BREAK k"] {
        scene.say("RLOCK.RACQUIRE k ann 600000");
        let mut bob = scene.wait("RLOCK.WACQUIRE k bob 600000 WAIT 0");
        assert_eq!(scene.transaction(["CLIENT PAUSE 100000 WRITE", free])[1], Reply::Int(1));
        assert_eq!((scene.figure("waiters"), scene.keys()), (1, vec![]));
        scene.say("CLIENT UNPAUSE");
        bob.is_granted();
        scene.say("RLOCK.RELEASE k bob");
    }
}

fn loading_grants_nothing(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // Everything goes, and comes back from disk.
    assert_eq!(scene.say("DEBUG RELOAD"), text("OK"));
    assert_eq!(scene.fields("k"), "{ann:1}");
    assert_eq!(scene.figure("waiters"), 1);
    assert_eq!(scene.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    bob.is_granted();
}

/// Locks of a full server can still be released.
fn no_grant_without_memory_or_enough_replicas(scene: &mut Scene) {
    for (setting, free) in [
        ("maxmemory", "RLOCK.RELEASE k ann"),
        ("maxmemory", "RLOCK.BREAK k"),
        ("maxmemory", "its lease ends"),
        ("min-replicas-to-write", "its lease ends"),
    ] {
        let ends = free == "its lease ends";
        scene.say(&format!("RLOCK.RACQUIRE k ann {}", if ends { 300 } else { 600_000 }));
        let mut bob = scene.wait("RLOCK.WACQUIRE k bob 600000 WAIT 0");
        scene.say(&format!("CONFIG SET {setting} 1"));
        assert!(ends || scene.say(free) == Reply::Int(1), "{free}");
        wait_until("the lock is free", || scene.keys().is_empty());
        scene.say("DEL other");
        assert_eq!(scene.figure("waiters"), 1, "{setting}: {free}");
        assert_eq!(scene.keys(), [""; 0], "{setting}: {free}");
        scene.say(&format!("CONFIG SET {setting} 0"));
        bob.is_granted();
        scene.say("RLOCK.RELEASE k bob");
    }
}

/// They get an error, or are cut off.
fn are_sent_away<'a>(waiters: impl IntoIterator<Item = &'a mut Waiter>) {
    for waiter in waiters {
        let outcome = waiter.outcome();
        assert!(outcome == Outcome::CutOff || outcome.is_error("UNBLOCKED"), "{outcome:?}");
    }
}

fn a_server_that_becomes_a_replica_dismisses_its_waiters(scene: &mut Scene) {
    let master = Server::start();
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiters = ["bob", "cid"].map(|name| scene.wait(&format!("RLOCK.ACQUIRE k {name} 600000 WAIT 0")));
    // Valkey 9 leaves it to the module to answer a client that can be redirected. Other servers do not know CAPA.
    let mut redirected = scene.server.client();
    redirected.say("CLIENT CAPA redirect");
    redirected.send(&["RLOCK.ACQUIRE", "k", "dan", "600000", "WAIT", "0"]);
    scene.until_waiting(3);
    scene.server.begin_to_follow(&master);
    assert_eq!(scene.figure("waiters"), 0, "at once");
    are_sent_away(&mut waiters);
    assert!(redirected.try_receive().is_none_or(|reply| reply.as_error().starts_with("UNBLOCKED")));
}

#[test]
fn a_failover_sends_the_waiters_away_and_grants_nothing() {
    let (old, new) = (Server::start(), Server::start());
    let (mut scene, mut on_new) = (Scene::at(&old, First::Client), new.client());
    new.follow(&old);
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiters: Vec<_> =
        (0..5).map(|number| scene.wait(&format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    wait_until("the replica has the lock", || on_new.expiry("k") > 0);
    assert_eq!(scene.say("FAILOVER"), text("OK"));
    wait_until("the replica is the master", || on_new.say("ROLE").words().first() == Some(&"master"));
    are_sent_away(&mut waiters);
    assert_eq!(old.client().figure("waiters"), 0);
    assert_eq!(on_new.fields("k"), "{ann:1}");
    assert_eq!(on_new.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(on_new.keys(), [""; 0], "the new master grants nobody by itself");
    for of_the_old in ["RLOCK.ACQUIRE k h0 600000 WAIT 0 SESSION NAME 1", "RLOCK.EVENTS NAME ACK 2"] {
        let reply = on_new.say(&of_the_old.replace("NAME", &scene.session_name()));
        assert!(reply.as_error().starts_with("NOSESSION "), "{of_the_old}: {reply:?}");
    }
    assert_eq!(scene.moved_to(&new).ask("RLOCK.ACQUIRE k h0 600000 WAIT 0"), Reply::Nil, "who asks again is served");
}

/// Waiters of all kinds. Of a set's two locks, one has moved ahead when the other becomes free here.
#[test]
fn a_slot_that_moves_away_sends_its_waiters_away() {
    let cluster = Cluster::start();
    let (tag, nodes) = (cluster.key_on(0), &cluster.masters);
    let [mut here, mut there] = [0, 1].map(|node| Scene::at(&nodes[node], First::Client));
    let lock = |holder: &str, more: &str| format!("RLOCK.ACQUIRE {{{tag}}} {holder} 600000 {more}");
    let permit = |holder: &str, more: &str| format!("RLOCK.PACQUIRE {{{tag}}}p {holder} 600000 LIMIT 1 {more}");
    let set = |holder: &str, more: &str| format!("RLOCK.MACQUIRE 2 {{{tag}}}a {{{tag}}}b {holder} 600000 {more}");
    here.say_all([lock("ann", ""), permit("ann", ""), set("ann", "")]);
    let mut waiters: Vec<_> = ["bob", "cid"]
        .iter()
        .flat_map(|holder| [lock(holder, "WAIT 0"), permit(holder, "WAIT 0")])
        .map(|ask| here.wait(&ask))
        .collect();
    let mut sets = ["bob", "cid"].map(|holder| here.wait(&set(holder, "WAIT 0")));
    let mut slot = cluster.begin_to_move(&tag, 0, 1);
    slot.move_key(&format!("{{{tag}}}a"));
    let split = here.say(&set("dan", ""));
    assert!(split.as_error().starts_with("TRYAGAIN"), "{split:?}");
    assert_eq!(here.say(&format!("RLOCK.RELEASE {{{tag}}}b ann")), Reply::Int(1));
    are_to_try_again(&mut sets);
    slot.move_keys();
    slot.finish();
    are_to_try_again(&mut waiters);
    assert_eq!(here.figure("waiters"), 0);
    let again = here.ask(&lock("again", "WAIT 0"));
    assert!(again.as_error().starts_with("MOVED "), "{again:?}");
    wait_until("the new owner serves the lock", || !matches!(there.say(&format!("HLEN {{{tag}}}")), Reply::Error(_)));
    assert_eq!(there.fields(&format!("{{{tag}}}")), "{ann:1}", "no waiter was granted a second lock");
    for (key, ask) in [("", lock("bob", "WAIT 0")), ("p", permit("bob", "WAIT 0")), ("a", set("bob", "WAIT 0"))] {
        let mut bob = there.wait(&ask);
        assert_eq!(there.say(&format!("RLOCK.RELEASE {{{tag}}}{key} ann")), Reply::Int(1));
        bob.is_granted();
    }
}

fn are_to_try_again<'a>(waiters: impl IntoIterator<Item = &'a mut Waiter>) {
    for waiter in waiters {
        let outcome = waiter.outcome();
        assert!(outcome.is_error("TRYAGAIN"), "{outcome:?}");
    }
}
