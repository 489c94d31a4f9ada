//! The steps of docs/operations.md that change a running system, followed line by line with locks under way: one that the
//! client holds and one that `rlock run` holds, with a waiter of either kind for each; and one that goes around, so that at
//! any moment something has just been granted.
//!
//! No holder loses its lock by any step, no waiter has it beside the holder or beside another waiter, and each gets it.

use crate::support::{Ended, Place, Running, bare, program, run, start};
use rlock_client::{Access, Guard, Lock, Locks};
use rlock_testing::{Client, Cluster, Reply, Server, Signal, Watched, free_port, module, send_signal};
use rlock_testing::{wait_for_as_long_as, wait_until};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The hosts of the page: a master, and the replica that takes over.
const MASTER: &str = "10.0.0.1";
const SUCCESSOR: &str = "10.0.0.2";

/// Where the page says that the module lies.
const INSTALLED: &str = "/usr/lib/redis/modules/librlock.so";

/// Sentinels and servers look every now and then, agree, and wait for each other's news: on a busy machine long.
const PATIENCE_WITH_SERVERS: Duration = Duration::from_secs(90);

/// Each look starts a process, which must not keep the servers from the processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How the page says that a line may have to be typed once more, and when.
const AGAIN: (&str, Duration) = ("; after 6 s the line above again", Duration::from_secs(6));

/// As that of `rlock run`. It is renewed after a third of it.
const LEASE: Duration = Duration::from_secs(30);

/// The blocks of the page that this file follows, as they are fenced.
const BLOCKS: [&str; 6] = ["install", "alone", "replica", "sentinels", "cluster", "failover"];

fn block(name: &str) -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("\n```sh {name}\n")).unwrap_or_else(|| panic!("no block {name}"));
    rest.split("```").next().unwrap().lines().collect()
}

#[test]
fn every_step_of_the_page_is_followed() {
    let fences: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("```sh ")).collect();
    assert_eq!(fences, BLOCKS);
}

/// A host of the page, all on this machine: a server whose configuration is in a file, as it has to come back from it.
struct Host {
    address: String,
    configuration: PathBuf,
    port: u16,
    server: Option<Server>,
}

impl Host {
    /// `10.0.0.` this number.
    fn start(number: usize, module: &str, lines: &str) -> Self {
        let prepared = Server::prepare().without_module();
        let configuration = prepared.directory().join("redis.conf");
        std::fs::write(&configuration, format!("loadmodule {module}\n{lines}")).unwrap();
        let port = free_port();
        let server = prepared.configuration(&configuration).port(port).start();
        // Without the seconds in which a master waits for further replicas.
        server.client().say("CONFIG SET repl-diskless-sync-delay 0");
        Self { address: format!("10.0.0.{number}"), configuration, port, server: Some(server) }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// As `systemctl stop` and `start` do it.
    fn restart(&mut self) {
        let mut server = self.server.take().unwrap();
        // It is gone already, if it was told to go.
        let _ = send_signal(server.id(), Signal::SIGTERM);
        wait_until("the server has ended", || !server.is_running());
        let prepared = server.crash().without_module().configuration(&self.configuration).port(self.port);
        self.server = Some(prepared.start());
    }
}

/// How clients find the locks.
enum Way {
    /// By a name that can be made to lead elsewhere.
    Name(PathBuf),
    Sentinels(Vec<Server>),
    Cluster(Vec<u16>),
}

impl Way {
    fn url(&self) -> String {
        let hosts = |ports: &mut dyn Iterator<Item = u16>| {
            ports.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
        };
        match self {
            Self::Name(socket) => format!("redis+unix://{}", socket.display()),
            Self::Sentinels(them) => {
                format!("redis+sentinel://{}/{}", hosts(&mut them.iter().map(Server::port)), Watched::NAME)
            }
            Self::Cluster(ports) => format!("redis+cluster://{}", hosts(&mut ports.iter().copied())),
        }
    }

    async fn connect(&self) -> Locks {
        // As long as nothing is lost, a wait may take as long as it likes.
        let options = Locks::options().lease(LEASE).patience(PATIENCE_WITH_SERVERS);
        let address = |port: u16| format!("redis://127.0.0.1:{port}");
        match self {
            Self::Name(_) => options.connect_to(self.url()).await,
            Self::Sentinels(them) => {
                let them = them.iter().map(|it| address(it.port()));
                options.connect_to_sentinels(them, Watched::NAME, Access::default()).await
            }
            Self::Cluster(ports) => options.connect_to_cluster(ports.iter().copied().map(address)).await,
        }
        .unwrap()
    }
}

/// The clients. Each writes into a file that is called like the lock when it has got it, and before it gives it back.
struct Clients {
    keys: [String; 2],
    guard: Guard,
    holder: Running,
    waiters: Vec<Running>,
    threads: Vec<JoinHandle<()>>,
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn note(path: &PathBuf, line: &str) {
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Long enough for another one to be seen beside it.
const STAY: Duration = Duration::from_millis(100);

impl Clients {
    /// On these locks of the server, which has no others.
    fn start(way: &Way, place: &Place, keys: [String; 2], server: &mut Client) -> Self {
        let rlock = |key: &str, script: &str| {
            let script = format!("echo run in >>{key}; {script}; echo run out >>{key}");
            let mut command = bare(&["run", key, "--", "sh", "-c", &script]);
            command.env("RLOCK_URL", way.url());
            start(place.of(command))
        };
        let guard = block_on(async { way.connect().await.lock(&keys[0]).acquire().await }).unwrap();
        note(&place.file(&keys[0]), "client in");
        let holder = rlock(&keys[1], "while [ -e here ] && ! [ -e end ]; do sleep 0.05; done");
        place.wait_for(&keys[1], "run in");
        let mut clients = Self { keys, guard, holder, waiters: Vec::new(), threads: Vec::new() };
        for (count, key) in [1, 3].into_iter().zip(&clients.keys) {
            clients.waiters.push(rlock(key, &format!("sleep {}", STAY.as_secs_f32())));
            server.until_waiting(count);
            let (locks, file) = (block_on(way.connect()), place.file(key));
            let lock = locks.lock(key);
            clients.threads.push(std::thread::spawn(move || {
                block_on(async {
                    let guard = lock.acquire().await.unwrap();
                    note(&file, "client in");
                    tokio::time::sleep(STAY).await;
                    note(&file, "client out");
                    guard.release().await.unwrap();
                });
            }));
            server.until_waiting(count + 1);
        }
        clients
    }

    /// Both have what they had, and nobody else has.
    fn go_on(&mut self, place: &Place) {
        assert!(!self.guard.is_lost() && self.holder.is_running(), "a lock was lost");
        assert_eq!(self.keys.each_ref().map(|key| place.lines(key)), [["client in"], ["run in"]]);
    }

    /// They hold their locks at this server, give them back, and the others get them: in the order in which they asked, or in
    /// any other.
    fn end(mut self, place: &Place, server: &mut Client, in_order: bool) {
        self.go_on(place);
        let holders = self.keys.each_ref().map(|key| server.hash(key));
        assert_eq!(holders[0], [(self.guard.holder().into_owned(), "1".to_owned())]);
        assert!(holders[1].len() == 1, "{holders:?}");
        note(&place.file(&self.keys[0]), "client out");
        block_on(self.guard.release()).unwrap();
        place.mark("end");
        self.holder.end().succeeded();
        for waiter in self.waiters {
            waiter.end().succeeded();
        }
        for thread in self.threads {
            thread.join().unwrap();
        }
        for (key, holder) in self.keys.iter().zip(["client", "run"]) {
            let turns = |who: [&str; 3]| who.map(|it| format!("{it} in,{it} out")).join(",");
            let lines = place.lines(key).join(",");
            let asked = turns([holder, "run", "client"]);
            assert!(lines == asked || !in_order && lines == turns([holder, "client", "run"]), "{lines}");
        }
    }
}

/// A lock that two take in turns, for a moment each time.
#[derive(Default)]
struct Turns {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    inside: AtomicUsize,
    turns: AtomicUsize,
    /// Times that a lock was lost, or that two had it.
    faults: AtomicUsize,
}

impl Turns {
    fn start(way: &Way, key: &str) -> Self {
        let mut turns = Self::default();
        for _ in 0..2 {
            let (lock, seen) = (block_on(way.connect()).lock(key), turns.seen.clone());
            turns.threads.push(std::thread::spawn(move || block_on(seen.take(lock))));
        }
        turns
    }

    fn go_on(&self) {
        assert_eq!(self.seen.faults.load(SeqCst), 0, "a lock was lost, or two had it");
    }

    fn go_around(&self) {
        let before = self.seen.turns.load(SeqCst);
        let goes_around = || self.seen.turns.load(SeqCst) > before + 2;
        wait_for_as_long_as(PATIENCE_WITH_SERVERS, "the lock goes around", goes_around);
    }

    fn end(self) {
        self.seen.is_over.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        assert_eq!(self.seen.faults.load(SeqCst), 0, "a lock was lost, or two had it");
    }
}

impl Seen {
    async fn take(&self, lock: Lock) {
        while !self.is_over.load(SeqCst) {
            let guard = lock.acquire().await.unwrap();
            let others = self.inside.fetch_add(1, SeqCst);
            tokio::time::sleep(STAY / 10).await;
            self.inside.fetch_sub(1, SeqCst);
            self.faults.fetch_add(others + usize::from(guard.is_lost()), SeqCst);
            self.turns.fetch_add(1, SeqCst);
            // The answer may get lost with a connection, and then nobody knows.
            let _ = guard.release().await;
        }
    }
}

/// Hosts with locks under way, and somebody who follows the page.
struct Scene {
    place: Place,
    hosts: Vec<Host>,
    way: Way,
    clients: Option<(Clients, Turns)>,
}

/// A file that the servers load, as the page says that it is.
fn installed(place: &Place) -> String {
    let path = place.file("librlock.so");
    std::fs::copy(module(), &path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Scene {
    fn new(place: Place, hosts: Vec<Host>, way: Way) -> Self {
        let mut scene = Self { place, hosts, way, clients: None };
        scene.cli();
        scene.program("sudo", "#!/bin/sh\nexec \"$@\"\n");
        let mut first = scene.hosts[0].server().client();
        let [one, other, third] = keys(&mut first);
        let clients = Clients::start(&scene.way, &scene.place, [one, other], &mut first);
        scene.clients = Some((clients, Turns::start(&scene.way, &third)));
        scene.go_on();
        scene
    }

    fn program(&self, name: &str, script: &str) {
        std::fs::create_dir_all(self.place.file("bin")).unwrap();
        let path = self.place.file("bin").join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A `redis-cli` for which the page's addresses are the servers' and the first sentinel's.
    fn cli(&self) {
        let found = run(program("sh", &["-c", "command -v redis-cli"]));
        let mut cases: String =
            self.hosts.iter().map(|host| format!("{}:6379) port={} ;;\n", host.address, host.port)).collect();
        if let Way::Sentinels(them) = &self.way {
            cases += &format!("10.0.0.1:26379) port={} ;;\n", them[0].port());
        }
        let script = format!(
            "#!/bin/sh\nat=10.0.0.1 port=6379\n\
             [ \"$1\" != -h ] || {{ at=$2 && shift 2; }}\n\
             [ \"$1\" != -p ] || {{ port=$2 && shift 2; }}\n\
             case $at:$port in\n{cases}*) exit 64 ;;\nesac\n\
             exec {} -e -p $port \"$@\"\n",
            found.succeeded().trim()
        );
        self.program("redis-cli", &script);
    }

    fn typed(&self, line: &str) -> Ended {
        let line = line.replace("target/release/librlock.so", module().to_str().unwrap());
        let mut line = line.replace(INSTALLED, self.place.file("librlock.so").to_str().unwrap());
        for Host { address, port, .. } in &self.hosts {
            line = line.replace(&format!("{address} 6379"), &format!("127.0.0.1 {port}"));
        }
        let mut command = program("sh", &["-c", &line]);
        let path = format!("{}:{}", self.place.file("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        run(self.place.of(command))
    }

    fn host(&mut self, address: &str) -> &mut Host {
        self.hosts.iter_mut().find(|host| host.address == address).unwrap_or_else(|| panic!("no host {address}"))
    }

    /// All steps of this block, and after each one everybody has what he had.
    fn follow(&mut self, name: &str) {
        let mut above = "";
        for line in block(name) {
            self.step(line, above);
            self.go_on();
            above = line;
        }
        self.clients.as_ref().unwrap().1.go_around();
    }

    fn go_on(&mut self) {
        let (clients, turns) = self.clients.as_mut().unwrap();
        clients.go_on(&self.place);
        turns.go_on();
    }

    fn step(&mut self, line: &str, above: &str) {
        let (command, remark) = line.split_once("  #").map_or((line, ""), |(it, remark)| (it.trim(), remark.trim()));
        if command.starts_with("sudo systemctl ") {
            let address = remark.strip_prefix("on ").unwrap_or(MASTER);
            self.host(address).restart();
        } else if let Some(order) = command.strip_prefix("# Now have the address that clients use lead to ") {
            let (Way::Name(name), address) = (&self.way, order.trim_end_matches('.')) else { panic!("{line}") };
            let name = name.clone();
            let socket = self.host(address).server().socket();
            std::fs::remove_file(&name).unwrap();
            symlink(socket, name).unwrap();
        } else if remark == format!("until: {SUCCESSOR}") {
            let named = self.repeated(command, |output| self.named(output).is_some());
            self.has_taken_over(self.named(&named).unwrap());
        } else if let Some(words) = remark.strip_prefix("until: ").and_then(|words| words.strip_suffix(AGAIN.0)) {
            let mut typed = Instant::now();
            self.repeated(command, |output| {
                let is_there = output.contains(words);
                if !is_there && typed.elapsed() > AGAIN.1 {
                    self.typed(above);
                    typed = Instant::now();
                }
                is_there
            });
        } else if let Some(words) = remark.strip_prefix("until: ") {
            self.repeated(command, |output| output.contains(words));
        } else {
            let ended = self.typed(command);
            assert_eq!((ended.code(), remark), (0, ""), "{line}: {ended:?}");
        }
    }

    /// What it printed at last.
    fn repeated(&self, command: &str, mut is_there: impl FnMut(&str) -> bool) -> String {
        let mut output = String::new();
        wait_for_as_long_as(PATIENCE_WITH_SERVERS, command, || {
            output = self.typed(command).output;
            let is_there = is_there(&output);
            if !is_there {
                sleep(BETWEEN_LOOKS);
            }
            is_there
        });
        output
    }

    /// Which of the replicas a sentinel has named, by its port here.
    fn named(&self, output: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.address != MASTER && output.contains(&host.port.to_string()))
    }

    /// The sentinels choose among the replicas. What the page says of its second host is said of the one that they name.
    fn has_taken_over(&mut self, chosen: usize) {
        let address = self.hosts[chosen].address.clone();
        self.host(SUCCESSOR).address = address;
        self.hosts[chosen].address = SUCCESSOR.to_owned();
        self.cli();
    }

    /// The locks are on this host by now.
    fn end(&mut self, address: &str, in_order: bool) {
        let mut client = self.host(address).server().client();
        let (clients, turns) = self.clients.take().unwrap();
        turns.end();
        clients.end(&self.place, &mut client, in_order);
    }
}

/// Locks of the first shard, if it is one of a cluster.
fn keys(client: &mut Client) -> [String; 3] {
    let mut slot = |name: &String| client.run(&["CLUSTER", "KEYSLOT", name]);
    let names = (0..).map(|number| format!("orders:{number}"));
    let mut of_the_first = names.filter(|name| match slot(name) {
        Reply::Int(slot) => slot <= 5_460,
        _ => true,
    });
    [(); 3].map(|()| of_the_first.next().unwrap())
}

/// One server that clients reach by its name, with so many replicas.
fn by_name(replicas: usize, lines: &str) -> Scene {
    let place = Place::new();
    let hosts = replicated(&place, replicas, lines);
    let name = place.file("name");
    symlink(hosts[0].server().socket(), &name).unwrap();
    Scene::new(place, hosts, Way::Name(name))
}

fn replicated(place: &Place, replicas: usize, lines: &str) -> Vec<Host> {
    let module = installed(place);
    let mut hosts = vec![Host::start(1, &module, lines)];
    let follows = format!("{lines}replicaof 127.0.0.1 {}\n", hosts[0].port);
    for number in 2..2 + replicas {
        hosts.push(Host::start(number, &module, &follows));
    }
    hosts[1..].iter().for_each(|replica| replica.server().until_linked());
    hosts
}

#[test]
fn a_server_alone_is_upgraded() {
    for lines in ["", "appendonly yes\n"] {
        let mut scene = by_name(0, lines);
        scene.follow("install");
        scene.follow("alone");
        scene.end(MASTER, false);
    }
}

#[test]
fn a_server_and_its_replica_are_upgraded() {
    let mut scene = by_name(1, "");
    for name in ["install", "replica", "failover"] {
        scene.follow(name);
    }
    scene.end(SUCCESSOR, false);
    // What it was before is forgotten.
    scene.hosts[1].restart();
    let role = |host: &Host| host.server().client().info("replication").find("role").unwrap().to_owned();
    assert_eq!(scene.hosts.iter().map(role).collect::<Vec<_>>(), ["slave", "master"]);
}

/// Nothing is decided here but by the page: a server that a busy machine has kept waiting is not taken for dead, and what
/// it has said of itself holds for longer.
const CALM: [&str; 3] = [
    "SENTINEL SET locks down-after-milliseconds 60000",
    "SENTINEL SET locks failover-timeout 60000",
    "SENTINEL DEBUG info-period 2000",
];

#[test]
fn a_set_that_sentinels_watch_is_upgraded() {
    upgrade_what_sentinels_watch("min-replicas-to-write 1\nmin-replicas-max-lag 10\n");
}

/// Its new master lets nobody in for a while; whoever holds a lock goes on.
#[test]
fn a_set_that_sentinels_watch_is_upgraded_with_a_grace() {
    let grace_ms = LEASE.as_millis();
    upgrade_what_sentinels_watch(&format!(
        "min-replicas-to-write 1\nmin-replicas-max-lag 10\nrlock.grace {grace_ms}\n"
    ));
}

fn upgrade_what_sentinels_watch(lines: &str) {
    let place = Place::new();
    let hosts = replicated(&place, 2, lines);
    let sentinels = Watched::sentinels_over(hosts[0].port, 2);
    for (sentinel, command) in sentinels.iter().flat_map(|it| CALM.map(|command| (it, command))) {
        assert_eq!(sentinel.client().say(command).words(), ["OK"], "{command}");
    }
    let mut scene = Scene::new(place, hosts, Way::Sentinels(sentinels));
    for name in ["install", "replica", "sentinels"] {
        scene.follow(name);
    }
    scene.end(SUCCESSOR, false);
}

#[test]
fn a_cluster_is_upgraded() {
    let place = Place::new();
    let module = installed(&place);
    let lines = || {
        let port = free_port();
        format!(
            "cluster-enabled yes\ncluster-port {port}\ncluster-node-timeout 15000\ncluster-replica-validity-factor 0\n"
        )
    };
    // The shard of the page comes first.
    let hosts: Vec<_> = [1, 3, 5, 2, 4, 6].map(|number| Host::start(number, &module, &lines())).into();
    let servers: Vec<_> = hosts.iter().map(Host::server).collect();
    Cluster::join(&servers[..3], &servers[3..]);
    let ports = hosts.iter().map(|host| host.port).collect();
    let mut scene = Scene::new(place, hosts, Way::Cluster(ports));
    for name in ["install", "replica", "cluster"] {
        scene.follow(name);
    }
    scene.end(SUCCESSOR, false);
}

/// What the page shows besides, which changes a server or ends a session. None of it loses a lock, or a place in line.
#[test]
fn settings_are_changed() {
    let mut scene = by_name(0, "");
    let blocks = PAGE.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines: Vec<_> = blocks.flat_map(str::lines).filter(|line| line.contains(" CONFIG ")).collect();
    assert!(lines.len() > 6, "{lines:?}");
    for line in lines {
        scene.step(line, "");
        scene.go_on();
    }
    scene.end(MASTER, true);
}

/// All at once: whose session ends asks again, and nobody stays out.
#[test]
fn sessions_are_ended() {
    let mut scene = by_name(0, "");
    let mut client = scene.hosts[0].server().client();
    let command = PAGE.lines().find(|line| line.contains("RLOCK.SESSIONS END 4711")).unwrap();
    let (command, _) = command.split_once("  #").unwrap();
    let sessions = client.say("RLOCK.SESSIONS COUNT 10");
    let ids: Vec<_> = sessions.as_list().iter().map(|it| it.as_list()[1].as_int()).collect();
    assert!(ids.len() >= 4, "{sessions:?}");
    for id in ids {
        scene.step(&command.replace("4711", &id.to_string()), "");
        scene.go_on();
    }
    scene.end(MASTER, false);
}
