//! The steps of docs/running.md that change a running system, followed line by line with locks under way: one that is
//! held, with two waiters, and one that goes around, so that at any moment something has just been granted.
//!
//! No step ends a hold, or grants the lock to a waiter while another client has it; and each waiter gets the lock.

use crate::pages::fence;
use crate::pages::hosts::{Hosts, PATIENCE_WITH_SERVERS};
use crate::pages::steps;
use crate::support::{Running, bare, program, start};
use rlock_testing::{Client, Cluster, Reply, Server, Watched, free_port, wait_for_as_long_as};
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// The fences of the page that this file follows.
pub const BLOCKS: [&str; 6] = ["install", "alone", "replica", "sentinels", "cluster", "failover"];

const PAGE: &str = "docs/running.md";

/// The hosts of the page: a master, and the replica that takes over.
const MASTER: &str = "10.0.0.1";
const SUCCESSOR: &str = "10.0.0.2";

/// How the page says that the line above may have to be typed again, and when.
const AGAIN: (&str, Duration) = ("; after 6 s the line above again", Duration::from_secs(6));

/// A lock that goes around: two holders at once, or one that loses it, leave a line in `faults`.
const TURNS: &str = "while [ -e here ] && ! [ -e over ]; do \
    rlock run $TURNS -- sh -c 'mkdir inside && sleep 0.01 && rmdir inside && echo turn >>turns || echo two >>faults' \
    || [ $? != 76 ] || echo lost >>faults; done";

/// Hosts with locks under way, on which the steps of the page are followed.
struct Walk {
    hosts: Hosts,
    holder: Running,
    waiters: Vec<Running>,
    turns: Vec<Running>,
}

impl Walk {
    /// With clients that find the locks by this address.
    fn start(hosts: Hosts, url: &str) -> Self {
        let mut client = hosts.all[0].server().client();
        let [held, turns] = keys(&mut client);
        let job = |name: &str, work: &str| {
            let job = format!("echo {name} in >>held; {work}; echo {name} out >>held");
            let mut command = bare(&["run", &held, "--", "sh", "-c", &job]);
            command.env("RLOCK_URL", url);
            start(hosts.place.of(command))
        };
        let holder = job("holder", "while [ -e here ] && ! [ -e end ]; do sleep 0.05; done");
        // A grace may have to end first.
        wait_for_as_long_as(PATIENCE_WITH_SERVERS, "it holds the lock", || hosts.place.has("held"));
        let mut waiters = Vec::new();
        for (name, count) in [("first", 1), ("second", 2)] {
            // Long enough for a second holder to be noticed.
            waiters.push(job(name, "sleep 0.1"));
            client.until_waiting(count);
        }
        let takes_turns = || {
            let rlock = env!("CARGO_BIN_EXE_rlock");
            let mut command = program("sh", &["-c", &TURNS.replace("rlock run", &format!("{rlock} run"))]);
            command.env("RLOCK_URL", url).env("TURNS", &turns);
            start(hosts.place.of(command))
        };
        let turns = vec![takes_turns(), takes_turns()];
        Self { hosts, holder, waiters, turns }
    }

    /// Checks that the holder still has the lock, and no other client has it.
    fn go_on(&mut self) {
        assert!(self.holder.is_running(), "the lock was lost");
        let [held, faults] = ["held", "faults"].map(|file| self.hosts.place.lines(file).join(","));
        assert_eq!((held.as_str(), faults.as_str()), ("holder in", ""));
    }

    /// Follows all steps of this fence.
    fn follow(&mut self, name: &str) {
        let mut above = String::new();
        for (line, remark) in steps(&fence(PAGE, &format!("sh {name}"))) {
            self.step(&line, &remark, &above);
            self.go_on();
            above = line;
        }
        let before = self.hosts.place.lines("turns").len();
        wait_for_as_long_as(PATIENCE_WITH_SERVERS, "the lock goes around", || {
            self.hosts.place.lines("turns").len() > before + 2
        });
    }

    fn step(&mut self, line: &str, remark: &str, above: &str) {
        let hosts = &mut self.hosts;
        if line.starts_with("sudo systemctl ") {
            hosts.host(remark.strip_prefix("on ").unwrap_or(MASTER)).restart();
        } else if let Some(order) = line.strip_prefix("# Now point the address that clients use to ") {
            let socket = hosts.host(order.trim_end_matches('.')).server().socket();
            std::fs::remove_file(hosts.place.file("name")).unwrap();
            symlink(socket, hosts.place.file("name")).unwrap();
        } else if remark == format!("until: {SUCCESSOR}") {
            // The sentinels choose one of the replicas: from now on the page's second host is the one that they name.
            let mut named = None;
            hosts.until(line, |ended| {
                let is_named = |port: u16| ended.output.contains(&port.to_string());
                named = hosts.all.iter().position(|host| host.address != MASTER && is_named(host.port));
                named.is_some()
            });
            let address = hosts.all[named.unwrap()].address.clone();
            hosts.host(SUCCESSOR).address = address;
            hosts.all[named.unwrap()].address = SUCCESSOR.to_owned();
        } else if let Some(words) = remark.strip_prefix("until: ") {
            let mut typed = Instant::now();
            hosts.until(line, |ended| {
                if words.ends_with(AGAIN.0) && typed.elapsed() > AGAIN.1 {
                    hosts.typed(above);
                    typed = Instant::now();
                }
                ended.output.contains(words.trim_end_matches(AGAIN.0))
            });
        } else {
            let ended = hosts.typed(line);
            assert_eq!(ended.code(), 0, "{line}: {ended:?}");
        }
    }

    /// The lock is on this host by now. The holder releases it, and the waiters get it, in either order.
    fn end(mut self, address: &str) -> Hosts {
        self.go_on();
        let mut client = self.hosts.host(address).server().client();
        let [held, _] = keys(&mut client);
        assert_eq!(client.hash(&held).len(), 1);
        self.hosts.place.mark("end");
        self.holder.end().succeeded();
        for waiter in self.waiters {
            waiter.end().succeeded();
        }
        self.hosts.place.mark("over");
        for turns in self.turns {
            turns.end();
        }
        let turns = |names: [&str; 3]| names.map(|it| format!("{it} in,{it} out")).join(",");
        let held = self.hosts.place.lines("held").join(",");
        let orders = [["holder", "first", "second"], ["holder", "second", "first"]].map(turns);
        assert!(orders.contains(&held), "{held}");
        assert_eq!(self.hosts.place.lines("faults"), [""; 0]);
        self.hosts
    }
}

/// Names of two locks; in a cluster, of the first shard.
fn keys(client: &mut Client) -> [String; 2] {
    let mut slot = |name: &String| client.run(&["CLUSTER", "KEYSLOT", name]);
    let names = (0..).map(|number| format!("orders:{number}"));
    let mut of_the_first = names.filter(|name| match slot(name) {
        Reply::Int(slot) => slot <= 5_460,
        _ => true,
    });
    [(); 2].map(|()| of_the_first.next().unwrap())
}

fn replicated(replicas: usize, lines: &str) -> Hosts {
    let mut hosts = Hosts::new();
    let lines = format!("loadmodule /usr/lib/redis/modules/librlock.so\n{lines}");
    hosts.add(MASTER, &lines);
    for number in 2..2 + replicas {
        hosts.add(&format!("10.0.0.{number}"), &format!("{lines}replicaof {MASTER} 6379\n"));
    }
    hosts.all[1..].iter().for_each(|replica| replica.server().until_linked());
    hosts
}

/// A server with so many replicas. Clients reach it by a name that can be pointed at another server.
fn by_name(replicas: usize, lines: &str) -> Walk {
    let hosts = replicated(replicas, lines);
    let name = hosts.place.file("name");
    symlink(hosts.all[0].server().socket(), &name).unwrap();
    Walk::start(hosts, &format!("redis+unix://{}", name.display()))
}

fn addresses(ports: impl Iterator<Item = u16>) -> String {
    ports.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
}

#[test]
fn a_server_alone_is_upgraded() {
    for lines in ["", "appendonly yes\n"] {
        let mut walk = by_name(0, lines);
        walk.follow("install");
        walk.follow("alone");
        walk.end(MASTER);
    }
}

#[test]
fn a_server_and_its_replica_are_upgraded() {
    let mut walk = by_name(1, "");
    for name in ["install", "replica", "failover"] {
        walk.follow(name);
    }
    let mut hosts = walk.end(SUCCESSOR);
    // It must come back as the master, not as the replica that it was.
    hosts.all[1].restart();
    let role = |server: &Server| server.client().info("replication").find("role").unwrap().to_owned();
    assert_eq!(hosts.all.iter().map(|host| role(host.server())).collect::<Vec<_>>(), ["slave", "master"]);
}

/// Only the page's steps cause a failover: a server that a busy machine has kept waiting is not taken for dead, and its
/// last report stays valid for longer.
const CALM: [&str; 3] = [
    "SENTINEL SET locks down-after-milliseconds 60000",
    "SENTINEL SET locks failover-timeout 60000",
    "SENTINEL DEBUG info-period 2000",
];

#[test]
fn a_set_that_sentinels_watch_is_upgraded() {
    upgrade_what_sentinels_watch("");
}

/// Its new master grants no lock for a while; the holder goes on.
#[test]
fn a_set_that_sentinels_watch_is_upgraded_with_a_grace() {
    upgrade_what_sentinels_watch("rlock.grace 30000\n");
}

fn upgrade_what_sentinels_watch(grace: &str) {
    let mut hosts = replicated(2, &format!("min-replicas-to-write 1\nmin-replicas-max-lag 10\n{grace}"));
    hosts.sentinels = Watched::sentinels_over(hosts.all[0].port, 2);
    for (sentinel, command) in hosts.sentinels.iter().flat_map(|it| CALM.map(|command| (it, command))) {
        assert_eq!(sentinel.client().say(command).words(), ["OK"], "{command}");
    }
    let sentinels = addresses(hosts.sentinels.iter().map(Server::port));
    let mut walk = Walk::start(hosts, &format!("redis+sentinel://{sentinels}/{}", Watched::NAME));
    for name in ["install", "replica", "sentinels"] {
        walk.follow(name);
    }
    walk.end(SUCCESSOR);
}

#[test]
fn a_cluster_is_upgraded() {
    let mut hosts = Hosts::new();
    // The shard of the page comes first.
    for number in [1, 3, 5, 2, 4, 6] {
        let lines = "loadmodule /usr/lib/redis/modules/librlock.so\ncluster-enabled yes\ncluster-node-timeout 15000\n\
                     cluster-replica-validity-factor 0\n";
        hosts.add(&format!("10.0.0.{number}"), &format!("{lines}cluster-port {}\n", free_port()));
    }
    let servers: Vec<_> = hosts.all.iter().map(|host| host.server()).collect();
    Cluster::join(&servers[..3], &servers[3..]);
    let url = format!("redis+cluster://{}", addresses(hosts.all.iter().map(|host| host.port)));
    let mut walk = Walk::start(hosts, &url);
    for name in ["install", "replica", "cluster"] {
        walk.follow(name);
    }
    walk.end(SUCCESSOR);
}
