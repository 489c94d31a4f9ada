//! The page's servers and sentinels, from its own configuration, through a failover with a lock.
//!
//! Only what differs between machines is replaced: addresses, ports, directories, the module's path. And the times, as
//! a test would rather not wait: they are a fifth and less.

use super::{INSTALLED, PAGE};
use rlock_testing::{free_port, module, wait_for_as_long_as, wait_until};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Sentinels do nothing for half a minute after a busy machine has kept them waiting, which is not what this is about.
const PACE: &str = "SENTINEL DEBUG info-period 500 publish-period 500 tilt-trigger 20000 tilt-period 100";

/// A master waits for further replicas for five seconds before it sends what it has.
const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// Sentinels look every now and then, agree, wait for each other's news; and a replica stores what it gets on a disk that
/// other tests keep busy. So this takes seconds, and on a busy machine many.
const PATIENCE_WITH_SENTINELS: Duration = Duration::from_secs(90);

/// Each look starts a process, which must not keep sentinels and servers from the processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

fn wait_long_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_as_long_as(PATIENCE_WITH_SENTINELS, what, || {
        let holds = condition();
        if !holds {
            sleep(BETWEEN_LOOKS);
        }
        holds
    });
}

struct Process {
    process: Child,
    port: u16,
    password: &'static str,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Process {
    /// A server, from this text as its configuration.
    fn start(configuration: &str, port: u16, directory: &Path, more: &[&str], password: &'static str) -> Self {
        let path = directory.join(format!("{port}.conf"));
        std::fs::write(&path, configuration).unwrap();
        let binary = std::env::var("RLOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(binary);
        command.arg(&path).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { process: command.spawn().unwrap(), port, password };
        wait_until("it answers", || server.says("PING") == "PONG");
        server
    }

    fn says(&self, line: &str) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(line.split(' ')).env("REDISCLI_AUTH", self.password);
        String::from_utf8_lossy(&command.output().unwrap().stdout).trim().to_owned()
    }
}

/// The page's machines.
struct Machines {
    directory: TempDir,
    ports: [u16; 2],
}

impl Machines {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), ports: [free_port(), free_port()] }
    }

    /// This block of the page, as it is on a machine that has this port and directory.
    fn here(&self, block: &str, port: u16) -> String {
        let [text] = PAGE.blocks(&format!("conf {block}"))[..] else { panic!("one {block}") };
        let data = self.directory.path().join(port.to_string());
        std::fs::create_dir_all(&data).unwrap();
        let first = format!("127.0.0.1 {}", self.ports[0]);
        text.replace("bind * -::*", "bind 127.0.0.1")
            .replace("port 6379\n", &format!("port {port}\n"))
            .replace("port 26379\n", &format!("port {port}\n"))
            .replace("10.0.0.1 6379", &first)
            .replace("/var/lib/redis", data.to_str().unwrap())
            .replace(INSTALLED, module().to_str().unwrap())
            .replace("down-after-milliseconds locks 5000", "down-after-milliseconds locks 1000")
            .replace("failover-timeout locks 60000", "failover-timeout locks 5000")
    }

    fn server(&self, which: usize) -> Process {
        let port = self.ports[which];
        let mut configuration = self.here("redis.conf", port);
        if which == 1 {
            configuration += &self.here("replica", port);
        }
        Process::start(&configuration, port, self.directory.path(), &AT_ONCE, "change-me")
    }

    fn sentinel(&self) -> Process {
        let port = free_port();
        let mut configuration = self.here("sentinel.conf", port);
        configuration += &format!("dir {}\n", self.directory.path().display());
        let sentinel = Process::start(&configuration, port, self.directory.path(), &["--sentinel"], "");
        assert_eq!(sentinel.says(PACE), "OK");
        sentinel
    }
}

/// What a command of the page prints, asked of this sentinel.
fn asked(sentinel: &Process, words: &str) -> String {
    let command = PAGE.shown(words);
    let line = command.strip_prefix("redis-cli -p 26379 ").expect("a command to a sentinel");
    sentinel.says(line)
}

fn master(sentinel: &Process) -> String {
    asked(sentinel, "GET-MASTER-ADDR-BY-NAME")
}

/// The value behind this name in what the sentinel says.
fn asked_of(sentinel: &Process, command: &str, name: &str) -> Option<String> {
    let said = sentinel.says(command);
    let mut lines = said.lines().skip_while(|line| *line != name);
    lines.nth(1).map(str::to_owned)
}

#[test]
fn the_configuration_fails_over_and_keeps_the_lock() {
    let machines = Machines::new();
    let (old, new) = (machines.server(0), machines.server(1));
    wait_long_until("the replica follows", || new.says("INFO replication").contains("master_link_status:up"));
    let sentinels = [(); 3].map(|()| machines.sentinel());
    for sentinel in &sentinels {
        wait_long_until("the sentinels agree", || asked(sentinel, "CKQUORUM").starts_with("OK 3 usable"));
        wait_long_until("they know the replica", || sentinel.says("SENTINEL REPLICAS locks").contains("127.0.0.1"));
        assert_eq!(master(sentinel), format!("127.0.0.1\n{}", machines.ports[0]));
    }

    assert_eq!(old.says("RLOCK.ACQUIRE orders:42 ann 600000"), "");
    wait_long_until("the replica has the lock", || new.says("EXISTS orders:42") == "1");
    drop(old);
    for sentinel in &sentinels {
        wait_long_until("the replica is promoted", || master(sentinel) == format!("127.0.0.1\n{}", machines.ports[1]));
    }
    wait_long_until("it knows that itself", || new.says("ROLE").starts_with("master"));
    assert!(new.says("RLOCK.ACQUIRE orders:42 bob 600000").parse::<i64>().unwrap() > 0, "it is still ann's");
    assert_eq!(new.says("RLOCK.RENEW orders:42 ann 600000"), "1");

    let back = machines.server(0);
    wait_long_until("a sentinel sees that it is there", || {
        let flags = |sentinel| asked_of(sentinel, "SENTINEL REPLICAS locks", "flags");
        sentinels.iter().any(|sentinel| flags(sentinel).is_some_and(|flags| !flags.contains("down")))
    });
    wait_long_until("the old master is told to follow", || back.says("ROLE").starts_with("slave"));
    wait_long_until("the old master follows", || back.says("INFO replication").contains("master_link_status:up"));
    assert_eq!(new.says("RLOCK.RELEASE orders:42 ann"), "1");
    wait_long_until("the old master has heard of it", || back.says("EXISTS orders:42") == "0");
}
