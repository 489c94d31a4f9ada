//! `rlock drill` on real servers, with the settings of docs/deploy.md and without its protection.
//!
//! The master that is cut off goes on, and its clients still reach it, as if a firewall were between the servers.
//! Servers reach each other only through proxies, and the address that a server connects from decides what a proxy
//! loses. Clients connect through the same proxies.

use crate::pages::hosts::{Hosts, PATIENCE_WITH_SERVERS};
use crate::pages::{fence, sets};
use crate::support::{Ended, Place, bare, run, start};
use rlock_testing::network::{Order, Proxy, Sender};
use rlock_testing::{Client, Reply, Server, free_port, text, wait_for_as_long_as, wait_until};
use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const PAGE: &str = "docs/drill.md";
const PROTECTED: &str = "console protected";
const UNPROTECTED: &str = "console unprotected";
const DEPLOY: &str = "docs/deploy.md";

/// Failovers take long, and each step of a drill has its own time limit.
const UNTIL_THE_END: Duration = Duration::from_secs(120);

const LOCKS: usize = 20;

/// Servers and clients find a server at this address, whatever address it connects from.
const SELF: &str = "replica-announce-ip 127.0.0.1\n";

/// The addresses that servers connect from: the master that is cut off, and all other servers and sentinels.
const MASTER: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
const OTHERS: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 2);

struct Set {
    hosts: Hosts,
    /// For each host the proxy through which the others reach it, and in a cluster the one to its bus.
    doors: Vec<Vec<Proxy>>,
    url: String,
    /// Under this prefix the first server is the master of all locks.
    prefix: String,
}

fn until(what: &str, condition: impl FnMut() -> bool) {
    wait_for_as_long_as(PATIENCE_WITH_SERVERS, what, condition);
}

fn client(hosts: &Hosts, place: usize) -> Client {
    let mut client = hosts.all[place].server().client();
    assert_eq!(client.say("AUTH change-me"), text("OK"));
    client
}

/// The page's settings, with a grace that a test can wait for; or unprotected: a failover does not stop the old master.
fn settings(lines: &str, is_protected: bool) -> String {
    if is_protected {
        return lines.replace("grace 30000", "grace 15000");
    }
    let without = lines.replace("grace 30000", "grace 0").replace("to-write 1", "to-write 0");
    without
        // The replica's data never counts as too old, however long the votes take on a busy machine.
        .replace("node-timeout 6000", "node-timeout 2000\ncluster-replica-validity-factor 0")
        .replace("milliseconds locks 6000", "milliseconds locks 2000")
}

impl Set {
    fn of_sentinels(is_protected: bool) -> Self {
        let (mut hosts, door) = (Hosts::new(), Proxy::start().unwrap());
        let through_door = |lines: &str| lines.replace("10.0.0.1 6379", &format!("127.0.0.1 {}", door.port));
        let lines = settings(&fence(DEPLOY, "conf redis.conf"), is_protected);
        hosts.add("10.0.0.1", &format!("{lines}replica-announce-port {}\n{}{SELF}", door.port, from(0)));
        door.obey(Order::Lead(hosts.all[0].port));
        for (place, address) in [(1, "10.0.0.2"), (2, "10.0.0.3")] {
            hosts
                .add(address, &format!("{lines}{}{SELF}{}", from(place), through_door(&fence(DEPLOY, "conf replica"))));
        }
        let sentinel = through_door(&settings(&fence(DEPLOY, "conf sentinel.conf"), is_protected))
            + &from(3)
            + "sentinel announce-ip 127.0.0.1\n";
        hosts.sentinels = (0..3).map(|_| Server::prepare().sentinel(&sentinel).start()).collect();
        for sentinel in &hosts.sentinels {
            let mut client = sentinel.client();
            sets::PACE.iter().for_each(|command| assert_eq!(client.say(command), text("OK"), "{command}"));
            until("the sentinel knows all servers", || {
                let master = client.say("SENTINEL MASTER locks");
                let says = |pair: [&str; 2]| master.words().chunks(2).any(|it| it == pair);
                says(["num-slaves", "2"]) && says(["num-other-sentinels", "2"])
            });
        }
        let ports = hosts.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect::<Vec<_>>();
        let url = format!("redis+sentinel://{}/locks", ports.join(","));
        Self { hosts, doors: vec![vec![door]], url, prefix: "rlock-drill".to_owned() }.ready()
    }

    fn of_cluster(is_protected: bool) -> Self {
        let (mut hosts, mut doors) = (Hosts::new(), Vec::new());
        let lines = settings(&fence(DEPLOY, "conf cluster.conf"), is_protected);
        for address in (7_001..=7_003).flat_map(|port| (1..=3).map(move |host| format!("10.0.0.{host}:{port}"))) {
            let (door, bus, bus_port) = (Proxy::start().unwrap(), Proxy::start().unwrap(), free_port());
            let announced = format!(
                "cluster-port {bus_port}\ncluster-announce-ip 127.0.0.1\ncluster-announce-port {}\n\
                 cluster-announce-bus-port {}\n{}",
                door.port,
                bus.port,
                from(doors.len())
            );
            hosts.add(&address, &format!("{lines}{announced}"));
            door.obey(Order::Lead(hosts.all[doors.len()].port));
            bus.obey(Order::Lead(bus_port));
            doors.push(vec![door, bus]);
        }
        let create = fence(DEPLOY, "sh cluster-set");
        let create: String =
            create.lines().filter(|line| !line.contains("doctor")).map(|it| format!("{it}\n")).collect();
        hosts.follow(&create);
        let mut first = client(&hosts, 0);
        // Before that, it refuses every key without naming an owner.
        until("the first server sees the cluster", || first.say("CLUSTER INFO").as_text().contains("cluster_state:ok"));
        let mut is_its_own =
            |prefix: &String| !matches!(first.say(&format!("RLOCK.INSPECT {{{prefix}}}")), Reply::Error(_));
        let mut prefixes = (0..1_000).map(|number| format!("rlock-drill-{number}"));
        let prefix = prefixes.find(|it| is_its_own(it)).expect("the first server is a master");
        let ports = doors.iter().map(|it| format!("127.0.0.1:{}", it[0].port)).collect::<Vec<_>>();
        let url = format!("redis+cluster://{}", ports.join(","));
        Self { hosts, doors, url, prefix }.ready()
    }

    /// Waits until the replicas follow, and no grace runs any more.
    fn ready(self) -> Self {
        for place in 0..self.hosts.all.len() {
            let mut client = client(&self.hosts, place);
            if client.say("INFO replication").as_text().contains("role:master") {
                until("two replicas follow", || {
                    let info = client.say("INFO replication");
                    info.as_text().contains("connected_slaves:2") && info.as_text().matches("state=online").count() == 2
                });
            }
            let grace = client.say("CONFIG GET rlock.grace").words()[1].to_owned();
            for ms in ["0", &grace] {
                assert_eq!(client.say(&format!("CONFIG SET rlock.grace {ms}")), text("OK"));
            }
        }
        self
    }

    /// Cuts off the master: only its clients still reach it.
    fn cut(&self) {
        for (place, doors) in self.doors.iter().enumerate() {
            let lost = if place == 0 { OTHERS } else { MASTER };
            doors.iter().for_each(|door| door.obey(Order::LoseOf(lost.into())));
        }
    }

    /// Runs the page's command. Its scripts `cut` and `heal` only signal that it is time: this test cuts and heals.
    fn drill(&self, lease: &str) -> Ended {
        let place = &self.hosts.place;
        for name in ["cut", "heal"] {
            let script = format!("#!/bin/sh\ntouch {name}-now; until [ -e {name}-done ]; do sleep 0.02; done\n");
            std::fs::write(place.file(name), script).unwrap();
            std::fs::set_permissions(place.file(name), Permissions::from_mode(0o755)).unwrap();
        }
        let shown = fence(PAGE, PROTECTED);
        let words = shown.lines().next().and_then(|line| line.strip_prefix("$ rlock ")).expect("the command");
        let mut command = bare(&words.split(' ').collect::<Vec<_>>());
        command.args(["--locks", &LOCKS.to_string(), "--lease", lease, "--prefix", &self.prefix]);
        command.env("RLOCK_URL", &self.url).env("RLOCK_PASSWORD", "change-me");
        let mut running = start(place.of(command));
        for name in ["cut", "heal"] {
            wait_for_as_long_as(UNTIL_THE_END, name, || {
                place.file(&format!("{name}-now")).exists() || !running.is_running()
            });
            if name == "cut" {
                self.cut();
            } else {
                self.doors.iter().flatten().for_each(|door| door.obey(Order::Heal));
            }
            place.mark(&format!("{name}-done"));
        }
        wait_for_as_long_as(UNTIL_THE_END, "the drill is over", || !running.is_running());
        let ended = running.end();
        eprintln!("{}{}", ended.output, ended.errors);
        ended
    }
}

/// The master is the first one.
fn source(place: usize) -> Ipv4Addr {
    if place == 0 { MASTER } else { OTHERS }
}

fn from(place: usize) -> String {
    format!("bind-source-addr {}\n", source(place))
}

/// The lines of the page or of the output, with `#` for each word with digits: times, counts and names.
fn shape(lines: &str) -> Vec<String> {
    let word =
        |word: &str| if word.contains(|it: char| it.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    lines.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")).collect()
}

fn is_as_shown(ended: &Ended, kind: &str) {
    let shown = fence(PAGE, kind);
    let (_, shown) = shown.split_once('\n').expect("a command and its output");
    assert_eq!(shape(&ended.output), shape(shown));
}

/// The table's value in this row.
fn row<'a>(ended: &'a Ended, name: &str) -> &'a str {
    let line = ended.output.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}: {ended:?}")).trim()
}

fn nothing_is_held_twice(ended: &Ended) {
    assert_eq!((ended.code(), row(ended, "held twice")), (0, "0"), "{ended:?}");
    assert_eq!(row(ended, "lost by their holders on the cut-off side"), "10 of 10");
    is_as_shown(ended, PROTECTED);
}

fn much_is_held_twice(ended: &Ended) {
    assert_eq!(ended.code(), 1, "{ended:?}");
    let count: usize = row(ended, "held twice").parse().unwrap();
    assert!(count > 0, "{ended:?}");
    is_as_shown(ended, UNPROTECTED);
}

#[test]
fn with_the_settings_of_the_page_sentinels_let_no_lock_have_two_holders() {
    nothing_is_held_twice(&Set::of_sentinels(true).drill("15s"));
}

#[test]
fn without_them_the_drill_on_sentinels_sees_two_holders() {
    much_is_held_twice(&Set::of_sentinels(false).drill("6s"));
}

#[test]
fn with_the_settings_of_the_page_a_cluster_lets_no_lock_have_two_holders() {
    nothing_is_held_twice(&Set::of_cluster(true).drill("15s"));
}

#[test]
fn without_them_the_drill_on_a_cluster_sees_two_holders() {
    much_is_held_twice(&Set::of_cluster(false).drill("6s"));
}

/// A drill on a server without replicas, which is never replaced.
fn alone(server: &Server, options: &[&str]) -> Command {
    let near = format!("127.0.0.1:{}", server.port());
    let fixed = ["drill", "--locks", "4", "--lease", "2s", "--near", &near];
    let mut command = bare(&[&fixed, options].concat());
    command.env("RLOCK_URL", format!("redis://127.0.0.1:{}", server.port()));
    command
}

#[test]
fn what_was_not_tried_is_no_success() {
    let (server, mut client) = Server::with_client();
    let ended = run(alone(&server, &["--within", "500ms", "--cut", "true", "--heal", "true"]));
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert_eq!(row(&ended, "not known: no other master"), "took over within 500ms");
    assert_eq!(row(&ended, "held twice"), "0");
    assert!(ended.output.ends_with("no lock was seen with two holders, but not all could be tried\n"), "{ended:?}");
    assert_eq!(client.say("KEYS *").words(), Vec::<&str>::new());
}

/// With so slow a server a request is nearly always under way.
#[test]
fn a_request_that_is_answered_soon_after_the_drill_is_no_wait() {
    let (server, slow) = (Server::start(), Proxy::start().unwrap());
    slow.obey(Order::Lead(server.port()));
    slow.obey(Order::Delay(Sender::Server, Duration::from_secs(1)));
    let mut command = alone(&server, &["--within", "500ms", "--cut", "true", "--heal", "true"]);
    command.env("RLOCK_URL", format!("redis://127.0.0.1:{}", slow.port));
    let mut running = start(command);
    wait_for_as_long_as(UNTIL_THE_END, "the drill is over", || !running.is_running());
    let ended = running.end();
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(!row(&ended, "longest wait for a free lock").contains("so far"), "{ended:?}");
}

#[test]
fn a_drill_that_is_interrupted_heals_the_cut_and_releases_its_locks() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let mut running = start(place.of(alone(&server, &["--cut", "touch cut", "--heal", "touch healed"])));
    wait_until("the cut", || place.file("cut").exists() || !running.is_running());
    running.signal("TERM");
    assert_eq!(running.end().code(), 143);
    assert!(place.file("healed").exists());
    assert_eq!(client.say("KEYS *").words(), Vec::<&str>::new());
}

#[test]
fn a_drill_that_cannot_begin_says_why() {
    let (server, other) = (Server::start(), Server::start());
    let elsewhere = format!("127.0.0.1:{}", other.port());
    let mut command = bare(&["drill", "--near", &elsewhere]);
    command.env("RLOCK_URL", format!("redis://127.0.0.1:{}", server.port()));
    run(command).failed(64, &[&elsewhere, "is not the master"]);
    server.client().say("CONFIG SET rlock.grace 1000");
    run(alone(&server, &[])).failed(78, &["lease"]);
}
