//! Plain locks: ACQUIRE, RELEASE and RENEW by one holder and another, with their replies and what they leave behind.

use rlock_testing::{LeaseCheck, Reply, Server, wait_until};

#[test]
fn a_free_lock_is_granted_with_its_lease() {
    let (_server, mut client) = Server::with_client();
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    lease.lease_is(&mut client, "k", 600_000);
    assert_eq!(client.fields("k"), "{ann:1}");
}

#[test]
fn the_holder_takes_it_again_and_the_lease_restarts() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 300000"), Reply::Nil);
    lease.lease_is(&mut client, "k", 300_000);
    assert_eq!(client.fields("k"), "{ann:2}");
}

#[test]
fn anyone_else_is_told_how_long_it_is_still_held() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let end = client.expiry("k");
    let before = client.time_ms();
    let left = client.say("RLOCK.ACQUIRE k bob 600000").as_int();
    let after = client.time_ms();
    assert!((end - after..=end - before).contains(&left), "{left}");
    assert_eq!(client.fields("k"), "{ann:1}");
    assert_eq!(client.expiry("k"), end);
}

#[test]
fn a_lock_without_an_expiry_is_held_for_minus_one() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("PERSIST k");
    assert_eq!(client.say("RLOCK.ACQUIRE k bob 600000"), Reply::Int(-1));
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.RENEW k ann 1000000"), Reply::Int(1));
    lease.lease_is(&mut client, "k", 1_000_000);
}

#[test]
fn a_lease_that_ends_frees_the_lock() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 30"), Reply::Nil);
    wait_until("the lease has ended", || client.say("RLOCK.ACQUIRE k bob 600000") == Reply::Nil);
    assert_eq!(client.fields("k"), "{bob:1}");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW k ann 1000"), Reply::Int(0));
    assert_eq!(client.fields("k"), "{bob:1}");
}

#[test]
fn each_release_gives_one_hold_back_and_the_last_one_frees() {
    let (_server, mut client) = Server::with_client();
    for _ in 0..3 {
        client.say("RLOCK.ACQUIRE k ann 600000");
    }
    let end = client.expiry("k");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(0));
    assert_eq!(client.fields("k"), "{ann:2}");
    assert_eq!(client.expiry("k"), end, "without LEASE the lease stays");
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.RELEASE k ann LEASE 100000"), Reply::Int(0));
    lease.lease_is(&mut client, "k", 100_000);
    assert_eq!(client.say("RLOCK.RELEASE k ann LEASE 100000"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn only_the_holder_releases_and_renews() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let before = client.digest();
    assert_eq!(client.say("RLOCK.RELEASE k bob"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RELEASE k bob ALL"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW k bob 1000"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE absent ann"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW absent ann 1000"), Reply::Int(0));
    assert_eq!(client.digest(), before);
}

#[test]
fn all_drops_every_hold_and_can_be_said_again() {
    let (_server, mut client) = Server::with_client();
    for _ in 0..5 {
        client.say("RLOCK.ACQUIRE k ann 600000");
    }
    assert_eq!(client.say("RLOCK.RELEASE k ann ALL"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE k ann ALL"), Reply::Nil);
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn renew_restarts_the_lease_longer_or_shorter() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    for lease_ms in [900_000, 100_000] {
        let lease = LeaseCheck::begin(&mut client);
        assert_eq!(client.say(&format!("RLOCK.RENEW k ann {lease_ms}")), Reply::Int(1));
        lease.lease_is(&mut client, "k", lease_ms);
    }
    assert_eq!(client.fields("k"), "{ann:1}");
}

#[test]
fn a_full_server_still_unlocks_and_renews() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("CONFIG SET maxmemory 1");
    assert!(client.say("RLOCK.ACQUIRE free ann 600000").as_error().starts_with("OOM"));
    assert!(client.say("RLOCK.RACQUIRE free ann 600000").as_error().starts_with("OOM"));
    assert!(client.say("RLOCK.WACQUIRE free ann 600000").as_error().starts_with("OOM"));
    assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
}

#[test]
fn commands_work_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client();
    let replies =
        client.transaction(["RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000", "RLOCK.RELEASE k ann"]);
    assert_eq!((&replies[0], &replies[2]), (&Reply::Nil, &Reply::Int(1)));
    assert!(replies[1].as_int() > 0);
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann', '600000', 'FENCED')[2]";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    let script = "return redis.call('RLOCK.RELEASE', KEYS[1], 'ann')";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
}

#[test]
fn each_database_has_locks_of_its_own() {
    let server = Server::start();
    let (mut first, mut second) = (server.client(), server.client());
    second.say("SELECT 9");
    assert_eq!(first.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    assert_eq!(second.say("RLOCK.ACQUIRE k bob 600000"), Reply::Nil);
    assert_eq!(first.say("RLOCK.RELEASE k bob"), Reply::Nil);
    assert_eq!(second.say("RLOCK.RELEASE k bob"), Reply::Int(1));
    assert_eq!(first.fields("k"), "{ann:1}");
}
