//! The page's machines, all on this one: servers from its own configurations, of which only what differs between
//! machines is replaced: addresses, ports, directories, the module's path.

use super::{INSTALLED, PAGE};
use rlock_testing::{Signal, free_port, module, send_signal, wait_for_as_long_as, wait_until};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A master waits for further replicas for five seconds before it sends what it has.
const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// Servers and sentinels look every now and then, agree, wait for each other's news; and a replica stores what it gets
/// on a disk that other tests keep busy. So this takes seconds, and on a busy machine many.
const PATIENCE_WITH_MACHINES: Duration = Duration::from_secs(90);

/// Each look starts a process, which must not keep the servers from the processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The password of the page.
const PASSWORD: &str = "change-me";

pub fn wait_long_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_as_long_as(PATIENCE_WITH_MACHINES, what, || {
        let holds = condition();
        if !holds {
            sleep(BETWEEN_LOOKS);
        }
        holds
    });
}

/// The one block of the page that is called so.
pub fn block(name: &str) -> &'static str {
    let [text] = PAGE.blocks(&format!("conf {name}"))[..] else { panic!("one {name}") };
    text
}

/// What stands behind this name in a configuration.
pub fn value<'a>(configuration: &'a str, name: &str) -> &'a str {
    let found = configuration.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name}"))
}

pub fn number(configuration: &str, name: &str) -> u64 {
    value(configuration, name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}

/// The old master stops before the new one begins, which comes after so many ms; and whoever it granted a lock has
/// ended when the grace ends.
pub fn fit_together(configuration: &str, failover_after_ms: u64) {
    assert_eq!(value(configuration, "min-replicas-to-write"), "1");
    let stops_ms = (number(configuration, "min-replicas-max-lag") + 4) * 1_000;
    assert!(stops_ms <= failover_after_ms, "{stops_ms} > {failover_after_ms}");
    assert!(number(configuration, "rlock.grace") >= 30_000, "the lease that most clients ask for");
}

pub struct Process {
    process: Child,
    pub port: u16,
    password: &'static str,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Process {
    /// What redis-cli prints for this line.
    pub fn says(&self, line: &str) -> String {
        String::from_utf8_lossy(&self.cli(line).output().unwrap().stdout).trim().to_owned()
    }

    /// A client that has sent this line and waits for the answer.
    pub fn asked(&self, line: &str) -> Waiting {
        Waiting(self.cli(line).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn cli(&self, line: &str) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(line.split(' ')).env("REDISCLI_AUTH", self.password);
        command
    }

    pub fn freeze(&self) {
        send_signal(self.process.id(), Signal::SIGSTOP).unwrap();
    }

    pub fn thaw(&self) {
        send_signal(self.process.id(), Signal::SIGCONT).unwrap();
    }

    pub fn follows(&self) -> bool {
        self.says("INFO replication").contains("master_link_status:up")
    }
}

/// One that was asked something and may have no answer yet.
pub struct Waiting(Child);

impl Waiting {
    pub fn is_waiting(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// The answer, once it is there.
    pub fn answer(mut self) -> String {
        wait_long_until("it is answered", || !self.is_waiting());
        let mut answer = String::new();
        std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut answer).unwrap();
        answer.trim().to_owned()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// So many of them.
pub struct Machines {
    directory: TempDir,
    pub ports: Vec<u16>,
}

impl Machines {
    pub fn new(count: usize) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), ports: (0..count).map(|_| free_port()).collect() }
    }

    /// This text of the page, as it is on the machine that has this port.
    fn here(&self, text: &str, port: u16) -> String {
        let data = self.directory.path().join(port.to_string());
        std::fs::create_dir_all(&data).unwrap();
        let lines = text.lines().map(|line| match line.split_once(' ') {
            Some(("bind", _)) => "bind 127.0.0.1".to_owned(),
            Some(("port", _)) => format!("port {port}"),
            Some(("dir", _)) => format!("dir {}", data.display()),
            _ => line.replace("10.0.0.1 6379", &format!("127.0.0.1 {}", self.ports[0])),
        });
        let text = lines.collect::<Vec<_>>().join("\n").replace(INSTALLED, module().to_str().unwrap());
        assert!(!text.contains("10.0.0.") && !text.contains("/lib/redis"), "{text}");
        text + "\n"
    }

    /// A server with this configuration.
    pub fn server(&self, port: u16, configuration: &str, more: &[&str]) -> Process {
        self.start(port, configuration, &[&AT_ONCE, more].concat(), PASSWORD)
    }

    /// A sentinel with this configuration.
    pub fn sentinel(&self, configuration: &str) -> Process {
        let port = free_port();
        let configuration = format!("{configuration}dir {}\n", self.directory.path().display());
        self.start(port, &configuration, &["--sentinel"], "")
    }

    fn start(&self, port: u16, configuration: &str, more: &[&str], password: &'static str) -> Process {
        let path = self.directory.path().join(format!("{port}.conf"));
        std::fs::write(&path, self.here(configuration, port)).unwrap();
        let binary = std::env::var("RLOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(binary);
        command.arg(&path).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Process { process: command.spawn().unwrap(), port, password };
        wait_until("it answers", || server.says("PING") == "PONG");
        server
    }
}
