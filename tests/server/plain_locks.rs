//! Plain locks: what ACQUIRE, RELEASE and RENEW reply and leave behind where Redisson's scripts have no counterpart.
//! `differential.rs` compares the rest with the scripts.

use rlock_testing::{LeaseCheck, Reply, Server, wait_until};

#[test]
fn another_holder_gets_the_remaining_lease() {
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
fn a_full_server_still_unlocks_and_renews() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.PACQUIRE p ann 600000 LIMIT 2");
    client.say("CONFIG SET maxmemory 1");
    for acquire in ["ACQUIRE free", "RACQUIRE free", "WACQUIRE free", "PACQUIRE p", "MACQUIRE 2 free other"] {
        let limit = if acquire == "PACQUIRE p" { "LIMIT 2" } else { "" };
        let refused = client.say(&format!("RLOCK.{acquire} bob 600000 {limit}"));
        assert!(refused.as_error().starts_with("OOM"), "{acquire}: {refused:?}");
    }
    assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RENEW p ann 600000"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE p ann"), Reply::Int(1));
}

#[test]
fn commands_work_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client();
    let replies =
        client.transaction(["RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000", "RLOCK.RELEASE k ann"]);
    assert_eq!((&replies[0], &replies[2]), (&Reply::Nil, &Reply::Int(1)));
    assert!(replies[1].as_int() > 0);
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann', '600000', 'FENCED')[2]";
    assert!(client.run(&["EVAL", script, "1", "k"]).as_int() > 0);
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
