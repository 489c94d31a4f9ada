//! The sets of docs/deploy.md, with servers and sentinels from the page's configurations: they grant locks,
//! `rlock doctor` finds nothing wrong, and the loss of the master gives no lock a second holder.

use super::fence;
use super::hosts::{Host, Hosts, PATIENCE_WITH_SERVERS};
use rlock_testing::{Client, Reply, Server, free_port, text, unix_ms, wait_for_as_long_as};

/// The fences of the page that this file uses.
pub const BLOCKS: [&str; 7] =
    ["redis.conf", "replica", "sentinel.conf", "sentinel-set", "sentinel-clients", "cluster.conf", "cluster-set"];

const PAGE: &str = "docs/deploy.md";

/// After a busy machine has kept sentinels waiting, they do nothing for half a minute: this test is not about that. Nor
/// does it need to wait a minute for a second failover.
pub const PACE: [&str; 2] = [
    "SENTINEL DEBUG info-period 500 publish-period 500 tilt-trigger 20000 tilt-period 100",
    "SENTINEL SET locks failover-timeout 3000",
];

/// As long as the grace: shorter than the page's, as the test waits for its end.
const LEASE_MS: i64 = 20_000;

/// More than the sockets between a master and a replica take in.
const FLOOD: [&str; 4] = ["EVAL", "return redis.call('set', KEYS[1], string.rep('x', 16777216))", "1", "flood"];

fn until(what: &str, condition: impl FnMut() -> bool) {
    wait_for_as_long_as(PATIENCE_WITH_SERVERS, what, condition);
}

/// With the password of the page.
fn client(host: &Host) -> Client {
    let mut client = host.server().client();
    assert_eq!(client.say("AUTH change-me"), text("OK"));
    client
}

/// What a host replies: nothing, if a sentinel has just closed all its connections.
fn asked(host: &Host, command: &str) -> Option<Reply> {
    let mut client = host.server().client();
    client.try_run(&["AUTH", "change-me"]).ok()?;
    client.try_run(&command.split(' ').collect::<Vec<_>>()).ok()
}

fn is(host: &Host, line: &str) -> bool {
    asked(host, "INFO replication").is_some_and(|info| info.as_text().lines().any(|it| it == line))
}

fn set_grace(host: &Host, ms: i64) {
    assert_eq!(asked(host, &format!("CONFIG SET rlock.grace {ms}")), Some(text("OK")));
}

/// Ends the grace that runs since the start, as the page does it.
fn end_grace(host: &Host) {
    set_grace(host, 0);
    set_grace(host, 30_000);
}

/// The time in ms at which the lock was granted: a fencing token is never below the server's clock in µs.
fn granted_at(reply: &Reply) -> i64 {
    assert_eq!(reply.as_list()[0], Reply::Nil);
    reply.as_list()[1].as_int() / 1_000
}

#[test]
fn the_configuration_of_the_cluster_becomes_one_that_grants_locks() {
    let mut hosts = Hosts::new();
    for address in (7_001..=7_003).flat_map(|port| (1..=3).map(move |host| format!("10.0.0.{host}:{port}"))) {
        // The default is the port plus 10,000, which may not be free.
        let lines = format!("{}cluster-port {}\n", fence(PAGE, "conf cluster.conf"), free_port());
        hosts.add(&address, &lines);
    }
    hosts.follow(&fence(PAGE, "sh cluster-set"));
    let masters: Vec<_> = hosts.all.iter().filter(|host| is(host, "role:master")).collect();
    assert_eq!(masters.len(), 3);
    for master in masters {
        until("two replicas are in touch", || is(master, "min_slaves_good_slaves:2"));
        end_grace(master);
    }
    let acquire = |words: &str| hosts.typed(&format!("REDISCLI_AUTH=change-me redis-cli -c RLOCK.ACQUIRE {words}"));
    assert_eq!(acquire("orders:42 ann 30000").succeeded(), "\n");
    assert!(acquire("orders:42 bob 30000").succeeded().trim().parse::<i64>().unwrap() > 0, "it is ann's");
    assert!(format!("{:?}", acquire("orders:43 ann 30001")).contains("ERR lease must be at most"));
}

#[test]
fn a_failover_keeps_the_locks_that_it_knows_and_waits_for_those_that_it_does_not() {
    let mut hosts = Hosts::new();
    let configuration = fence(PAGE, "conf redis.conf");
    hosts.add("10.0.0.1", &configuration);
    for address in ["10.0.0.2", "10.0.0.3"] {
        hosts.add(address, &format!("{configuration}{}", fence(PAGE, "conf replica")));
    }
    let sentinel = hosts.here(&fence(PAGE, "conf sentinel.conf"));
    hosts.sentinels = (0..3).map(|_| Server::prepare().sentinel(&sentinel).start()).collect();
    for (sentinel, command) in hosts.sentinels.iter().flat_map(|it| PACE.map(|command| (it, command))) {
        assert_eq!(sentinel.client().say(command), text("OK"), "{command}");
    }
    hosts.all.iter().for_each(end_grace);
    hosts.follow(&fence(PAGE, "sh sentinel-set"));
    hosts.follow(&fence(PAGE, "sh sentinel-clients"));
    hosts.all.iter().for_each(|host| set_grace(host, LEASE_MS));

    let acquire = |key, holder, more: &str| format!("RLOCK.ACQUIRE {key} {holder} {LEASE_MS} FENCED{more}");
    let renew = format!("RLOCK.RENEW known ann {LEASE_MS}");
    let mut old = client(&hosts.all[0]);
    let anns = granted_at(&old.say(&acquire("known", "ann", "")));
    let replicas = &hosts.all[1..];
    for replica in replicas {
        until("the replica has the lock", || asked(replica, "EXISTS known") == Some(Reply::Int(1)));
    }
    // Writes after the flood stay on the master, and are lost with it. The page's time without a replica must not run
    // out before they are sent, even on a busy machine.
    let set_lag =
        |old: &mut Client, s| assert_eq!(old.say(&format!("CONFIG SET min-replicas-max-lag {s}")), text("OK"));
    set_lag(&mut old, 600);
    replicas.iter().for_each(|it| it.server().freeze());
    assert_eq!(old.say("MULTI"), text("OK"));
    assert_eq!(old.run(&FLOOD), text("QUEUED"));
    for command in [&acquire("unheard-of", "cyd", ""), &renew] {
        assert_eq!(old.say(command), text("QUEUED"));
    }
    let cyds_until = unix_ms() + LEASE_MS;
    let replies = old.say("EXEC");
    granted_at(&replies.as_list()[1]);
    assert_eq!(replies.as_list()[2], Reply::Int(1));
    set_lag(&mut old, 2);
    until(
        "a master that no replica hears of grants nothing",
        || matches!(old.say(&acquire("late", "dan", "")), Reply::Error(line) if line.starts_with("NOREPLICAS")),
    );
    hosts.all[0].kill();
    let replicas = &hosts.all[1..];
    replicas.iter().for_each(|it| it.server().thaw());

    let is_master = |host: &&Host| is(host, "role:master");
    until("a replica is promoted", || replicas.iter().any(|it| is_master(&it)));
    let (new, other) =
        if is_master(&&replicas[0]) { (&replicas[0], &replicas[1]) } else { (&replicas[1], &replicas[0]) };
    let keys = ["EXISTS known", "EXISTS unheard-of"].map(|command| asked(new, command));
    assert_eq!(keys, [1, 0].map(|count| Some(Reply::Int(count))));
    let port = new.port.to_string();
    until("the other one follows it", || is(other, &format!("master_port:{port}")));
    for sentinel in &hosts.sentinels {
        let asks = "SENTINEL GET-MASTER-ADDR-BY-NAME locks";
        until("the sentinels know it", || sentinel.client().say(asks).words() == ["127.0.0.1", &port]);
    }
    let goes_on = || asked(new, &renew) == Some(Reply::Int(1));
    until("it can write, and ann renews", goes_on);
    let [mut look, mut bob, mut dora] = [(); 3].map(|()| client(new));
    assert!(look.figure("grace_left_ms") > 0);
    bob.send(&acquire("known", "bob", " WAIT 0").split(' ').collect::<Vec<_>>());
    dora.send(&acquire("unheard-of", "dora", " WAIT 0").split(' ').collect::<Vec<_>>());
    look.until_waiting(2);
    until("the grace is over", || {
        assert!(goes_on(), "ann goes on");
        look.figure("waiters") == 1
    });
    let doras = granted_at(&dora.receive());
    assert!(doras >= cyds_until, "{} ms before cyd had stopped", cyds_until - doras);

    hosts.host("10.0.0.1").restart();
    until("the old master follows", || {
        assert_eq!(look.say(&renew), Reply::Int(1), "ann goes on");
        is(&hosts.all[0], "master_link_status:up")
    });
    let released = unix_ms();
    assert_eq!(look.say("RLOCK.RELEASE known ann"), Reply::Int(1));
    let bobs = granted_at(&bob.receive());
    assert!(anns < released && released <= bobs, "{anns} {released} {bobs}");
    assert_eq!(look.fields("known"), "{bob:1}");
}
