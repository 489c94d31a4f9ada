//! A real server for one test: on a unix socket in a directory of its own, gone when the test ends.

use crate::{Client, PATIENCE, Signal, leaks, send_signal, text};
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

pub struct Server {
    process: Child,
    directory: TempDir,
    port: u16,
}

/// How to start a server.
pub struct Start {
    options: Vec<String>,
    configuration: Option<PathBuf>,
    /// The module's file, if it is not [`module`], and its load arguments. `None`: no module.
    module: Option<(Option<PathBuf>, Vec<String>)>,
    directory: TempDir,
    environment: Vec<(&'static str, String)>,
    launcher: Vec<String>,
    patience: Duration,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    pub valkey: bool,
    pub major: u32,
    pub minor: u32,
}

impl ServerVersion {
    /// The one that the tests run on.
    pub fn under_test() -> Self {
        let output = Command::new(binary()).arg("--version").output().expect("the server tells its version");
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = line.split("v=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a version");
        let mut numbers = version.split('.').map(|number| number.parse().expect("a number"));
        Self {
            valkey: line.starts_with("Valkey"),
            major: numbers.next().expect("a major version"),
            minor: numbers.next().expect("a minor version"),
        }
    }

    /// Whether this is at least that version of Redis, or a Valkey, which always has the features of Redis 7.2.
    pub fn has_what_redis_has(self, major: u32, minor: u32) -> bool {
        self.valkey || (self.major, self.minor) >= (major, minor)
    }

    /// Whether the server moves a client to the database of an event that it causes, and leaves it there: after MOVE and
    /// COPY … DB if a module listens, and after whatever a module does behind the client's command.
    pub fn moves_clients(self) -> bool {
        self.valkey && [(8, 1), (9, 0)].contains(&(self.major, self.minor))
    }

    /// Whether a module can take back a subscription to keyspace events.
    pub fn ends_subscriptions(self) -> bool {
        !self.valkey && (self.major, self.minor) >= (8, 2)
    }

    /// Whether the module serves waiters right after the command of another client that has removed their lock.
    pub fn has_jobs(self) -> bool {
        self.has_what_redis_has(7, 2) && !self.moves_clients()
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}.{}", if self.valkey { "Valkey" } else { "Redis" }, self.major, self.minor)
    }
}

impl Server {
    /// A server with the module and its default settings.
    pub fn start() -> Self {
        Start::new().start()
    }

    /// The same, and a connection to it.
    pub fn with_client() -> (Self, Client) {
        let server = Self::start();
        let client = server.client();
        (server, client)
    }

    pub fn prepare() -> Start {
        Start::new()
    }

    /// A new connection to this server.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).expect("the server accepts connections")
    }

    /// A connection of a user with these rights and no others.
    pub fn user(&self, name: &str, rights: &str) -> Client {
        let mut user = self.client();
        assert_eq!(user.say(&format!("ACL SETUSER {name} reset on >secret {rights}")), text("OK"));
        assert_eq!(user.say(&format!("AUTH {name} secret")), text("OK"));
        user
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where a node of a cluster listens to the others.
    pub fn cluster_port(&self) -> u16 {
        let config = self.client().say("CONFIG GET cluster-port");
        config.as_list()[1].as_text().parse().expect("a port")
    }

    pub fn socket(&self) -> PathBuf {
        socket_in(self.directory.path())
    }

    pub fn log(&self) -> String {
        log_in(self.directory.path())
    }

    /// The contents of the append-only files.
    pub fn aof(&self) -> String {
        let directory = self.directory.path().join("appendonlydir");
        let files = std::fs::read_dir(directory).expect("a directory of append-only files");
        let contents = files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file that can be read"));
        String::from_utf8_lossy(&contents.flatten().collect::<Vec<_>>()).into_owned()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a process of ours").is_none()
    }

    /// Stops the server's process where it is: its connections stay, without an answer.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.process.id(), signal).expect("the server's process is there");
    }

    /// Kills the server without a warning. Returns what is needed to start another one on its files.
    pub fn crash(mut self) -> Start {
        self.end();
        let directory = std::mem::replace(&mut self.directory, new_directory());
        Start { directory, ..Start::new() }
    }

    /// Kills the server without a warning. Its log stays readable.
    pub fn kill(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if leaks::are_looked_for() {
            leaks::end_gracefully(&mut self.process);
        }
        self.end();
        if std::thread::panicking() {
            // A report of a crash lists all clients, which may be thousands.
            let log: String = self.log().split_inclusive('\n').filter(|line| !line.starts_with("id=")).collect();
            eprintln!("--- the server's log ---\n{log}");
        }
    }
}

impl Start {
    fn new() -> Self {
        Self {
            options: Vec::new(),
            configuration: None,
            module: Some((None, Vec::new())),
            directory: new_directory(),
            environment: Vec::new(),
            launcher: Vec::new(),
            patience: PATIENCE,
            port: None,
        }
    }

    /// Listens on this port instead of any free one: for a server that comes back to where others look for it.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Where the server will have its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A program that runs the server, with its arguments: valgrind, say.
    pub fn launched_by(mut self, launcher: &[String]) -> Self {
        self.launcher = launcher.to_vec();
        self
    }

    /// How long it may take until it answers, if it has much to load.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Options as on the server's command line.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// With an append-only file that has every answered change. By default, while a slow disk is busy, the server keeps
    /// changes in memory for up to 2 s, and a kill then loses changes that were answered.
    pub fn append_only_file(self) -> Self {
        self.options(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A configuration file, which options come after.
    pub fn configuration(mut self, path: &Path) -> Self {
        self.configuration = Some(path.to_owned());
        self
    }

    /// A cluster node that knows no others. It owns all slots once they are assigned to it.
    pub fn in_cluster(self) -> Self {
        let port = free_port().to_string();
        self.options(&["--cluster-enabled", "yes", "--cluster-port", &port])
    }

    /// A sentinel with these lines of configuration, to which it adds its own.
    pub fn sentinel(self, configuration: &str) -> Self {
        let path = self.directory.path().join("sentinel.conf");
        std::fs::write(&path, configuration).expect("a file in a directory of ours");
        self.configuration(&path).without_module().options(&["--sentinel"])
    }

    pub fn without_module(mut self) -> Self {
        self.module = None;
        self
    }

    pub fn module(mut self, path: PathBuf) -> Self {
        self.module = Some((Some(path), Vec::new()));
        self
    }

    /// With tokens 1, 2, 3, as Redisson counts them: for a test of the counting itself, or one that has to know the next
    /// token. By default tokens go by the clock.
    pub fn counted_tokens(self) -> Self {
        self.load_arguments(&["tokens", "count"])
    }

    pub fn load_arguments(mut self, arguments: &[&str]) -> Self {
        if let Some((_, present)) = &mut self.module {
            present.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        }
        self
    }

    pub fn environment(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// The server, or its log if it did not start.
    pub fn try_start(self) -> Result<Server, String> {
        let port = self.port.unwrap_or_else(free_port);
        let mut server = Server { process: self.spawn(port), directory: self.directory, port };
        let deadline = Instant::now() + self.patience;
        loop {
            let ready = Client::connect(&server.socket()).is_ok_and(|mut client| client.is_served());
            if ready {
                return Ok(server);
            }
            if !server.is_running() {
                return Err(server.log());
            }
            assert!(Instant::now() < deadline, "the server neither starts nor ends:\n{}", server.log());
            // The server needs the processor more than its waiting test.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `rlock dev` in place of a server with the module.
    fn spawn_dev(&self, program: &str, port: u16) -> Child {
        let directory = self.directory.path();
        let settings = self.module.iter().flat_map(|(_, arguments)| arguments.chunks(2)).map(|pair| pair.join("="));
        assert!(self.module.is_some() && self.options.is_empty(), "rlock dev is no server but one with the module");
        // A server that was killed has left its socket.
        let _ = std::fs::remove_file(socket_in(directory));
        let log = std::fs::File::create(directory.join("log")).expect("a file in a directory of ours");
        let mut command = Command::new(program);
        command.args(["dev", "--port", &port.to_string(), "--socket"]).arg(socket_in(directory));
        settings.for_each(|setting| _ = command.args(["--set", &setting]));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program that RLOCK_DEV names")
    }

    fn spawn(&self, port: u16) -> Child {
        let directory = self.directory.path();
        if let Some(program) = dev_program() {
            return self.spawn_dev(&program, port);
        }
        let words: Vec<_> = self.launcher.iter().cloned().chain([binary()]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(&self.configuration);
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--repl-diskless-sync", "no"])
            .args(["--enable-debug-command", "yes", "--enable-module-command", "yes", "--crash-memcheck-enabled", "no"])
            .arg("--unixsocket")
            .arg(socket_in(directory))
            .arg("--dir")
            .arg(directory)
            .args(["--logfile", "log"])
            .args(&self.options);
        if let Some((path, arguments)) = &self.module {
            let path = path.clone().unwrap_or_else(module);
            command.arg("--loadmodule").arg(path).args(arguments);
        }
        if leaks::are_looked_for() {
            command.args(leaks::OPTIONS);
        }
        command.envs(self.environment.iter().cloned()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the server's binary is there: set RLOCK_SERVER, or install redis-server")
    }
}

fn new_directory() -> TempDir {
    TempDir::with_prefix("rlock-test-").expect("a temporary directory")
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("socket")
}

fn log_in(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap_or_default()
}

fn binary() -> String {
    std::env::var("RLOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// The module that servers load in tests.
pub fn module() -> PathBuf {
    std::env::var_os("RLOCK_MODULE").map_or_else(debug_module, PathBuf::from)
}

/// The module that cargo built next to this test, with the same features; or another build with these features, which
/// `RLOCK_PROBES` names.
///
/// # Panics
/// If its sources are newer: a single test does not link it, so cargo does not build it then.
pub fn debug_module() -> PathBuf {
    static MODULE: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(module) = std::env::var_os("RLOCK_PROBES") {
            return module.into();
        }
        let test = std::env::current_exe().expect("this test has a path");
        let module = test.parent().expect("in a directory").join("librlock.so");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let newest = ["src", "core/src"].into_iter().filter_map(|sources| newest_in(&root.join(sources))).max();
        let built = module.metadata().and_then(|file| file.modified()).ok();
        let advice = "first: cargo build --workspace --all-features";
        assert!(built >= newest, "{} is older than its sources; {advice}", module.display());
        module
    });
    MODULE.clone()
}

/// The program `rlock`, if `rlock dev` is tested in place of a server.
pub fn dev_program() -> Option<String> {
    std::env::var("RLOCK_DEV").ok().filter(|program| !program.is_empty())
}

/// The time of the last change of any file in this directory.
fn newest_in(directory: &Path) -> Option<SystemTime> {
    let changed = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest_in(&entry.path()),
        _ => entry.metadata().and_then(|file| file.modified()).ok(),
    };
    std::fs::read_dir(directory).ok()?.flatten().filter_map(changed).max()
}

/// A port on which no process listens, and that this function has not returned before. It is not one of those that the
/// system itself gives to connections and listeners (32,768 and up): they could take it before its server does or while
/// that is down, and a connection to it could connect to itself. Concurrent processes begin at different places.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(7_919);
    loop {
        let place = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + place).expect("below 32,768");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
