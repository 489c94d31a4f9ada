//! The pages' hosts, `10.0.0.1` and so on, on this machine: with other addresses, ports and paths.

use super::steps;
use crate::support::{Ended, Place, program, run};
use rlock_testing::{Server, Signal, free_port, module, send_signal, wait_for_as_long_as, wait_until};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The path of the module on the pages.
const INSTALLED: &str = "/usr/lib/redis/modules/librlock.so";

/// Sentinels and servers check at intervals, and wait for each other to agree: on a busy machine this takes long.
pub const PATIENCE_WITH_SERVERS: Duration = Duration::from_secs(90);

/// Each check starts a process, which must not keep the servers from the processor.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);

/// A server with a configuration file, so that it can restart from it.
pub struct Host {
    pub address: String,
    configuration: PathBuf,
    pub port: u16,
    server: Option<Server>,
}

impl Host {
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Stops it as `systemctl stop` does, unless it has ended already, and starts it again.
    pub fn restart(&mut self) {
        let mut server = self.server.take().unwrap();
        if server.is_running() {
            // It may be ending already.
            let _ = send_signal(server.id(), Signal::SIGTERM);
        }
        wait_until("the server has ended", || !server.is_running());
        self.server = Some(start(server.crash(), &self.configuration, self.port));
    }

    pub fn kill(&mut self) {
        self.server.as_mut().unwrap().kill();
    }
}

/// A master does not wait some seconds for further replicas before it sends what it has.
fn start(prepared: rlock_testing::Start, configuration: &Path, port: u16) -> Server {
    let prepared = prepared.without_module().options(&["--repl-diskless-sync-delay", "0"]);
    prepared.configuration(configuration).port(port).start()
}

pub struct Hosts {
    pub place: Place,
    pub all: Vec<Host>,
    pub sentinels: Vec<Server>,
}

impl Hosts {
    pub fn new() -> Self {
        let place = Place::new();
        let file = place.file("librlock.so");
        std::fs::copy(module(), &file).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        Self { place, all: Vec::new(), sentinels: Vec::new() }
    }

    /// Starts a server with these lines of a page.
    pub fn add(&mut self, address: &str, lines: &str) {
        let prepared = Server::prepare();
        let configuration = prepared.directory().join("redis.conf");
        std::fs::write(&configuration, self.here(lines)).unwrap();
        let port = free_port();
        let server = Some(start(prepared, &configuration, port));
        self.all.push(Host { address: address.to_owned(), configuration, port, server });
    }

    pub fn host(&mut self, address: &str) -> &mut Host {
        self.all.iter_mut().find(|host| host.address == address).unwrap_or_else(|| panic!("no host {address}"))
    }

    /// A page's words with this machine's values.
    pub fn here(&self, words: &str) -> String {
        let installed = self.place.file("librlock.so").display().to_string();
        let mut words = words.replace("target/release/librlock.so", module().to_str().unwrap());
        words = words.replace(INSTALLED, &installed).replace("sudo ", "").replace("dir /var", "# dir /var");
        words = words.replace("/usr/local/bin/report", "true");
        for (number, sentinel) in (1..).zip(&self.sentinels) {
            let port = sentinel.port();
            words = words.replace(&format!("-h 10.0.0.{number} -p 26379"), &format!("-p {port}"));
            words = words.replace(&format!("10.0.0.{number}:26379"), &format!("127.0.0.1:{port}"));
            words = words.replace("-p 26379", &format!("-p {port}"));
        }
        for Host { address, port, .. } in &self.all {
            words = words.replace(&format!("-h {address}"), &format!("-p {port}"));
            words = words.replace(&format!("{address} 6379"), &format!("127.0.0.1 {port}"));
            words = words.replace(&format!("{address}:6379"), &format!("127.0.0.1:{port}"));
            if address.contains(':') {
                words = words.replace(address, &format!("127.0.0.1:{port}"));
            }
        }
        words
    }

    /// Runs a line of a page. A line without an address is about the first host.
    pub fn typed(&self, line: &str) -> Ended {
        let first = self.all[0].port;
        let line = self.here(line).replace("redis-cli ", &format!("redis-cli -e -p {first} "));
        let mut command = program("sh", &["-c", &line]);
        let bin = Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap().display().to_string();
        command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()));
        run(self.place.of(command))
    }

    /// Repeats a line until its result is right.
    pub fn until(&self, line: &str, mut is_right: impl FnMut(&Ended) -> bool) -> Ended {
        let mut ended = None;
        wait_for_as_long_as(PATIENCE_WITH_SERVERS, line, || {
            let is_it = is_right(ended.insert(self.typed(line)));
            if !is_it {
                sleep(BETWEEN_CHECKS);
            }
            is_it
        });
        ended.unwrap()
    }

    /// Runs a fence. A line that checks the set is repeated until it succeeds.
    pub fn follow(&self, fence: &str) {
        let mut exports = String::new();
        for (line, _) in steps(fence) {
            if line.starts_with("export ") {
                exports += &format!("{line}; ");
            } else if ["doctor", "CKQUORUM"].iter().any(|word| line.contains(word)) {
                self.until(&format!("{exports}{line}"), |ended| ended.status.success());
            } else {
                let ended = self.typed(&format!("{exports}{line}"));
                assert!(ended.status.success(), "{line}: {ended:?}");
            }
        }
    }
}
