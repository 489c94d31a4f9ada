//! After a failover or a restart a server with a grace grants no lock to a new holder for as long as a lease may last:
//! it may not know which locks were granted before. `waiting/grace.rs` has what that means for waiters.

use rlock_testing::{
    Client, Cluster, Reply, Server, ServerVersion, Signal, list, send_signal, start_waiting, text, unix_ms, wait_until,
};
use std::time::{Duration, Instant};

/// Longer than any test lasts.
pub const LONG_MS: i64 = 7_000_000;

/// Demotes the server and promotes it again. As far as it can know, it replaces a failed master; it still has its locks.
pub fn begin(client: &mut Client, grace_ms: i64) {
    assert_eq!(client.say(&format!("CONFIG SET rlock.grace {grace_ms}")), text("OK"));
    assert_eq!(client.say("REPLICAOF 127.0.0.1 1"), text("OK"));
    assert_eq!(client.say("REPLICAOF NO ONE"), text("OK"));
    assert!(client.figure("grace_left_ms") > 0);
}

pub fn end(client: &mut Client) {
    assert_eq!(client.say("CONFIG SET rlock.grace 0"), text("OK"));
    assert_eq!(client.figure("grace_left_ms"), 0);
}

fn runs(client: &mut Client) -> bool {
    client.figure("grace_left_ms") > 0
}

fn started_with(grace: &str) -> (Server, Client) {
    let server = Server::prepare().load_arguments(&["grace", grace]).start();
    let client = server.client();
    (server, client)
}

#[test]
fn without_the_setting_there_is_none_and_leases_have_no_bound() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("CONFIG GET rlock.grace"), list([text("rlock.grace"), text("0")]));
    begin_without_one(&mut client);
    assert!(!runs(&mut client));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 9000000000"), Reply::Nil);
}

fn begin_without_one(client: &mut Client) {
    client.say("REPLICAOF 127.0.0.1 1");
    client.say("REPLICAOF NO ONE");
}

#[test]
fn holders_go_on_and_no_other_is_granted() {
    let (server, mut client) = Server::with_client();
    for (key, acquire) in [("plain", "RLOCK.ACQUIRE"), ("read", "RLOCK.RACQUIRE"), ("write", "RLOCK.WACQUIRE")] {
        assert_eq!(client.say(&format!("{acquire} {key} ann 600000")), Reply::Nil);
        assert_eq!(client.say(&format!("{acquire} {key} ann 600000")), Reply::Nil);
    }
    client.say("SAVE");
    let server = server.crash().load_arguments(&["grace", "7000000"]).start();
    let mut client = server.client();
    for (key, acquire) in [("plain", "RLOCK.ACQUIRE"), ("read", "RLOCK.RACQUIRE"), ("write", "RLOCK.WACQUIRE")] {
        for asks in
            [format!("{acquire} {key} ann 1000"), format!("{acquire} {key} bob 1000"), format!("{acquire} free x 1")]
        {
            let left = client.say(&asks).as_int();
            assert!((600_001..=LONG_MS).contains(&left), "{asks}: {left}");
        }
        assert_eq!(client.say(&format!("RLOCK.RENEW {key} ann 700000")), Reply::Int(1));
        assert_eq!(client.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Int(0));
        assert_eq!(client.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Int(1));
        assert_eq!(client.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Nil);
    }
    assert_eq!((client.keys(), client.figure("grants")), (vec![], 0));
    end(&mut client);
    assert_eq!(client.say("RLOCK.ACQUIRE plain bob 600000"), Reply::Nil);
}

#[test]
fn no_lease_is_longer_than_the_grace() {
    let (_server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.grace 10000");
    for acquire in ["RLOCK.ACQUIRE plain ann", "RLOCK.RACQUIRE read ann", "RLOCK.WACQUIRE write ann"] {
        for options in ["", " FENCED", " WAIT 0"] {
            is_too_long(&client.say(&format!("{acquire} 10001{options}")));
        }
        assert_eq!(client.say(&format!("{acquire} 10000")), Reply::Nil);
    }
    assert_eq!(client.say("RLOCK.ACQUIRE plain ann 10000"), Reply::Nil);
    for command in
        ["RLOCK.RENEW plain ann 10001", "RLOCK.RELEASE plain ann LEASE 10001", "RLOCK.RENEW absent ann 10001"]
    {
        is_too_long(&client.say(command));
    }
    assert_eq!(client.say("RLOCK.RELEASE plain ann LEASE 10000"), Reply::Int(0));
    // A writer's leases are added up.
    is_too_long(&client.say("RLOCK.WACQUIRE write ann 9000"));
    client.say("RLOCK.RENEW write ann 1000");
    assert_eq!(client.say("RLOCK.WACQUIRE write ann 5000"), Reply::Nil);
    is_too_long(&client.say("RLOCK.WACQUIRE write ann 5000"));
    end(&mut client);
    assert_eq!(client.say("RLOCK.WACQUIRE write ann 9000000"), Reply::Nil);
}

fn is_too_long(reply: &Reply) {
    assert!(reply.as_error().starts_with("ERR lease must be at most as long as rlock.grace"), "{reply:?}");
}

#[test]
fn each_promotion_and_each_start_begins_one() {
    let (server, mut client) = started_with("600000");
    let mut last = 0;
    let mut begins_anew = |client: &mut Client| {
        wait_until("some of it has passed", || client.figure("grace_left_ms") < 599_950);
        last = client.figure("grace_left_ms");
        client.say("REPLICAOF 127.0.0.1 1");
        assert!(!runs(client), "a replica has none");
        client.say("REPLICAOF NO ONE");
        assert!(client.figure("grace_left_ms") > last);
    };
    begins_anew(&mut client);
    begins_anew(&mut client);
    wait_until("some of it has passed", || client.figure("grace_left_ms") < 599_950);
    let last = client.figure("grace_left_ms");
    let server = server.crash().load_arguments(&["grace", "600000"]).start();
    assert!(server.client().figure("grace_left_ms") > last);
}

#[test]
fn a_replica_that_starts_has_none_until_it_is_promoted() {
    let (_master, replica) = (Server::start(), Server::prepare().load_arguments(&["grace", "600000"]));
    let replica = replica.options(&["--replicaof", "127.0.0.1 1"]).start();
    let mut client = replica.client();
    assert!(!runs(&mut client));
    client.say("REPLICAOF NO ONE");
    assert!(runs(&mut client));
}

#[test]
fn setting_it_to_nothing_ends_it_for_good() {
    let (_server, mut client) = started_with("600000");
    assert!(runs(&mut client));
    end(&mut client);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    client.say("CONFIG SET rlock.grace 600000");
    assert!(!runs(&mut client), "a setting is no failover");
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
}

#[test]
fn no_start_is_a_module_that_is_loaded_later_or_a_reload() {
    let server = Server::prepare().without_module().start();
    let mut client = server.client();
    let module = rlock_testing::module();
    client.run(&["MODULE", "LOAD", module.to_str().unwrap(), "grace", "600000"]);
    assert_eq!(client.say("CONFIG GET rlock.grace").as_list()[1], text("600000"));
    assert!(!runs(&mut client));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    assert_eq!(client.say("DEBUG RELOAD"), text("OK"));
    assert!(!runs(&mut client));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
}

/// The grace counts from when the server can serve.
#[test]
fn a_long_load_takes_nothing_off_it() {
    const KEYS: i64 = 1_000;
    const LOADING_MS: i64 = 2 * KEYS;
    let (server, mut client) = Server::with_client();
    client.run(&["EVAL", "for i = 1, ARGV[1] do redis.call('SET', i, i) end", "0", &KEYS.to_string()]);
    client.say("SAVE");
    let start = server.crash().load_arguments(&["grace", "600000"]).options(&["--key-load-delay", "2000"]);
    let began = unix_ms();
    let server = start.start();
    let left = server.client().figure("grace_left_ms");
    let passed = unix_ms() - began;
    assert!(passed >= LOADING_MS, "it loads for too short a time: {passed}");
    assert!(left > 600_000 - (passed - LOADING_MS), "{left} ms are left, {passed} ms after the start");
}

#[test]
fn inspect_shows_the_grace_of_a_free_lock_with_waiters() {
    let (server, mut client) = started_with("600000");
    let _bob = rlock_testing::start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let seen = client.say("RLOCK.INSPECT k");
    let field = |name: &str| {
        let at = seen.as_list().iter().position(|word| *word == text(name)).expect("the field is there");
        seen.as_list()[at + 1].clone()
    };
    assert_eq!((field("kind"), field("waiter-count")), (text("none"), Reply::Int(1)));
    assert!((1..=600_000).contains(&field("grace-left-ms").as_int()));
}

#[test]
fn the_log_says_when_it_begins_and_when_it_is_over() {
    let (server, mut client) = started_with("600000");
    let count = |line: &str| server.log().matches(line).count();
    let begins = "no lock gets a new holder for 600000 ms";
    wait_until("its begin is logged", || count(begins) == 1);
    assert_eq!(count("the grace is over"), 0);
    begin_without_one(&mut client);
    wait_until("its new begin is logged", || count(begins) == 2);
    // If the server had a turn while it was a replica, the log says that the first grace is over.
    let before = count("the grace is over");
    client.say("CONFIG SET rlock.grace 1");
    wait_until("its end is logged", || count("the grace is over") == before + 1);
}

#[test]
fn the_log_warns_if_a_master_goes_on_that_no_replica_hears_of() {
    let server = Server::prepare().load_arguments(&["grace", "600000"]);
    let server = server.options(&["--min-replicas-to-write", "1"]).start();
    let mut client = server.client();
    let warns = |setting: &str| server.log().matches(&format!("rlock.grace is set, but {setting} is 0")).count();
    for (change, writes, lags) in [
        ("min-replicas-max-lag 0", 0, 1),
        ("min-replicas-max-lag 10", 0, 1),
        ("min-replicas-to-write 0", 1, 1),
        ("rlock.grace 0", 1, 1),
        ("min-slaves-to-write 0", 1, 1),
        ("rlock.grace 1000", 2, 1),
    ] {
        client.say(&format!("CONFIG SET {change}"));
        wait_until("the change is known", || {
            (warns("min-replicas-to-write"), warns("min-replicas-max-lag")) == (writes, lags)
        });
    }
    begin_without_one(&mut client);
    wait_until("each begin warns", || warns("min-replicas-to-write") == 3);
}

/// After the stall it still finds old messages of its replica in its sockets, although the replica may have replaced it.
#[test]
fn a_stalled_master_grants_and_renews_nothing_until_it_knows_its_replicas() {
    // A lag of two: replicas report once a second, and the server rounds to seconds, so a lag of one is often exceeded.
    let fences = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
    let server = Server::prepare().options(&fences).start();
    let replica = Server::start();
    replica.follow(&server);
    let [mut client, mut late] = [server.client(), server.client()];
    client.say("CONFIG SET rlock.grace 60000");
    assert_eq!(client.say("RLOCK.ACQUIRE held ann 50000"), Reply::Nil);
    assert_eq!(client.say("RLOCK.ACQUIRE gone ann 50000"), Reply::Nil);
    late.send(&["RLOCK.ACQUIRE", "gone", "bob", "50000", "WAIT", "0"]);
    wait_until("one waits", || client.figure("waiters") == 1);
    server.freeze();
    let frozen = Instant::now();
    let commands = [
        "RLOCK.RELEASE gone ann",
        "RLOCK.ACQUIRE free ann 1000",
        "RLOCK.RENEW held ann 50000",
        "RLOCK.RELEASE held ann LEASE 50000",
    ];
    wait_until("it has stalled", || frozen.elapsed() > Duration::from_millis(2_100));
    for command in commands {
        client.send(&command.split(' ').collect::<Vec<_>>());
    }
    let thawed = Instant::now();
    server.thaw();
    assert_eq!(client.receive(), Reply::Int(1), "what is released is not kept");
    for _ in 0..3 {
        let refused = client.receive();
        assert!(refused.as_error().starts_with("NOREPLICAS this server stalled"), "{refused:?}");
    }
    assert_eq!(client.hash("gone"), [], "nor is it handed over");
    assert_eq!(late.receive(), Reply::Nil, "every waiter is served in the end");
    // One ms less: the server counts whole milliseconds, and the first one has begun.
    assert!(thawed.elapsed() > Duration::from_millis(3_999), "a lag of two seconds, and two");
    assert_eq!(client.say("RLOCK.RENEW held ann 50000"), Reply::Int(1));
    assert!(server.log().contains("stalled"), "{}", server.log());
}

#[test]
fn a_failover_of_a_cluster_begins_one_where_the_new_master_is() {
    let cluster = Cluster::start_with_replicas();
    let key = cluster.key_on(0);
    let (mut old, mut new) = (cluster.masters[0].client(), cluster.replicas[0].client());
    for client in [&mut old, &mut new] {
        client.say("CONFIG SET rlock.grace 600000");
        assert!(!runs(client));
    }
    assert_eq!(old.say(&format!("RLOCK.ACQUIRE {key} ann 600000")), Reply::Nil);
    assert_eq!(new.say("READONLY"), text("OK"));
    wait_until("the replica has the lock", || new.expiry(&key) > 0);
    assert_eq!(new.say("CLUSTER FAILOVER"), text("OK"));
    wait_until("the replica is the master", || new.say("ROLE").words().first() == Some(&"master"));
    wait_until("the master is a replica", || old.say("ROLE").words().first() == Some(&"slave"));
    assert!(runs(&mut new) && !runs(&mut old));
    let left = new.say(&format!("RLOCK.ACQUIRE {key} ann 1000")).as_int();
    assert!((1_001..=600_000).contains(&left), "{left}");
    assert_eq!(new.say(&format!("RLOCK.RENEW {key} ann 600000")), Reply::Int(1));
    assert_eq!(new.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Int(1));
}

/// How Valkey's operator rolls its pods. No lock is lost, and the new master begins a grace all the same.
#[test]
fn a_shutdown_that_fails_over_keeps_all_locks_and_begins_a_grace() {
    let version = ServerVersion::under_test();
    if !version.valkey || version.major < 9 {
        return;
    }
    for by_signal in [true, false] {
        let mut cluster = Cluster::start_with_replicas();
        let key = cluster.key_on(0);
        let (mut old, mut new, mut operator) =
            (cluster.masters[0].client(), cluster.replicas[0].client(), cluster.masters[0].client());
        assert_eq!(operator.say("CONFIG SET shutdown-on-sigterm failover"), text("OK"));
        for client in [&mut old, &mut new] {
            client.say("CONFIG SET rlock.grace 600000");
        }
        assert_eq!(old.say(&format!("RLOCK.ACQUIRE {key} ann 600000")), Reply::Nil);
        let mut waiter = start_waiting(&cluster.masters[0], &format!("RLOCK.ACQUIRE {key} bob 600000 WAIT 0"));
        if by_signal {
            send_signal(cluster.masters[0].id(), Signal::SIGTERM).unwrap();
        } else {
            operator.send(&["SHUTDOWN", "FAILOVER"]);
        }
        // The server pauses writes, hands over and closes the connection.
        let mut granted = vec![key.clone()];
        for number in 0.. {
            let name = format!("{{{key}}}:{number}");
            match old.try_run(&["RLOCK.ACQUIRE", &name, "ann", "600000"]) {
                Ok(Reply::Nil) => granted.push(name),
                Ok(other) => assert!(matches!(other, Reply::Error(_)), "{other:?}"),
                Err(_) => break,
            }
        }
        assert!(!matches!(waiter.try_receive(), Some(Reply::Nil)), "the waiter is not granted the lock");
        wait_until("the master has ended", || !cluster.masters[0].is_running());
        wait_until("the replica is the master", || new.say("ROLE").words().first() == Some(&"master"));
        for name in &granted {
            assert_eq!(new.say(&format!("RLOCK.RENEW {name} ann 600000")), Reply::Int(1), "{name}");
        }
        let other = format!("RLOCK.ACQUIRE {{{key}}}:other bob 1000");
        assert!(new.say(&other).as_int() > 1_000, "no lock gets a new holder in the grace");
        end(&mut new);
        assert_eq!(new.say(&other), Reply::Nil);
    }
}
