//! One server of a world. It keeps its name, its port and its files through crashes and restarts, so that clients find
//! it again. While it is gone or stalled, a request to it is an error and no panic.

use crate::server_clock::ServerClock;
use rlock_testing::{Client, Reply, Server, Start, free_port};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a server may take to answer. None of its faults lasts as long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a server may take to start on a busy machine.
const PATIENCE_TO_START: Duration = Duration::from_secs(60);

pub struct Node {
    pub name: String,
    pub port: u16,
    options: Vec<String>,
    /// The module's settings, other than the defaults.
    settings: Vec<String>,
    /// Another build of the module than the one under test.
    pub module: Option<PathBuf>,
    pub socket: PathBuf,
    pub clock: Option<ServerClock>,
    /// Some while it is up.
    pub server: Option<Server>,
    /// Some while it is down: what the next start continues with.
    start: Option<Start>,
    is_frozen: bool,
}

/// Why a server did not carry out a command.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// It refused, or cannot have received it: nothing has happened.
    Plain(String),
    /// It did not answer: the command may still happen.
    Silence(String),
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Plain(why) | Refusal::Silence(why) => why,
        }
    }
}

impl Node {
    pub fn start(
        name: &str,
        options: &[&str],
        settings: Vec<String>,
        module: Option<PathBuf>,
        clock: Option<ServerClock>,
    ) -> Self {
        let (port, start) = (free_port(), Server::prepare());
        let mut node = Self {
            name: name.to_owned(),
            port,
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            settings,
            module,
            socket: start.directory().join("socket"),
            clock,
            server: None,
            start: Some(start),
            is_frozen: false,
        };
        node.restart(&[]).unwrap_or_else(|why| panic!("{why}"));
        node
    }

    /// A new process has another id.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }

    pub fn is_up(&self) -> bool {
        self.server.is_some()
    }

    pub fn freeze(&mut self) {
        if let Some(server) = &self.server {
            server.freeze();
            self.is_frozen = true;
        }
    }

    pub fn thaw(&mut self) {
        if let (Some(server), true) = (&self.server, self.is_frozen) {
            server.thaw();
        }
        self.is_frozen = false;
    }

    /// Kills it without a warning.
    pub fn kill(&mut self) {
        self.is_frozen = false;
        if let Some(server) = self.server.take() {
            self.start = Some(server.crash());
        }
    }

    /// Sends a command after which it ends by itself, and waits until it has.
    pub fn shut_down(&mut self, command: &str) -> Result<(), String> {
        if let Err(Refusal::Plain(why)) = self.say(command) {
            return Err(why);
        }
        let deadline = Instant::now() + PATIENCE_TO_START;
        while self.server.as_mut().is_some_and(Server::is_running) {
            if Instant::now() > deadline {
                return Err(format!("server {} does not end", self.name));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        Ok(())
    }

    /// Whether its process has ended without a fault that killed it. From then on it counts as killed.
    pub fn has_died(&mut self) -> bool {
        let has_died = self.server.as_mut().is_some_and(|server| !server.is_running());
        if has_died {
            self.kill();
        }
        has_died
    }

    /// Starts it with its old files, and with these options in addition to its own.
    pub fn restart(&mut self, more: &[&str]) -> Result<(), String> {
        let start = self.start.take().ok_or_else(|| format!("server {} cannot be started", self.name))?;
        let own: Vec<_> = self.options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let settings: Vec<_> = self.settings.iter().map(String::as_str).collect();
        let mut start = start.port(self.port).patience(PATIENCE_TO_START).options(&own);
        if let Some(module) = self.module.clone() {
            start = start.module(module);
        }
        start = start.load_arguments(&settings);
        for (name, value) in self.clock.iter().flat_map(ServerClock::environment) {
            start = start.environment(name, value);
        }
        let server = start.try_start().map_err(|log| format!("server {} does not start:\n{log}", self.name))?;
        self.server = Some(server);
        Ok(())
    }

    /// Its log since the beginning of the world.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.socket.with_file_name("log")).unwrap_or_default()
    }

    /// A new connection to the server.
    pub fn connect(&self) -> Result<Client, Refusal> {
        let cannot = |why: &str| Err(Refusal::Plain(format!("server {} {why}", self.name)));
        match (self.is_up(), self.is_frozen) {
            (true, false) => {
                Client::connect_for(&self.socket, PATIENCE).or_else(|error| cannot(&format!("is not there: {error}")))
            }
            (true, true) => cannot("is stalled"),
            (false, _) => cannot("is down"),
        }
    }

    /// Runs one command. An error reply is a refusal.
    pub fn run<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Reply, Refusal> {
        run_on(&mut self.connect()?, command)
    }

    /// A command given as words with spaces between them.
    pub fn say(&self, command: &str) -> Result<Reply, Refusal> {
        self.run(&command.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// The number in its reply.
    pub fn count(&self, command: &str) -> Result<i64, Refusal> {
        match self.say(command)? {
            Reply::Int(number) => Ok(number),
            other => Err(Refusal::Plain(format!("{command}: {other:?}"))),
        }
    }

    /// The text in its reply.
    pub fn text(&self, command: &str) -> Result<String, Refusal> {
        match self.say(command)? {
            Reply::Text(text) => Ok(text),
            other => Err(Refusal::Plain(format!("{command}: {other:?}"))),
        }
    }

    /// One line of INFO.
    pub fn info(&self, section: &str, line: &str) -> Result<String, Refusal> {
        let info = self.text(&format!("INFO {section}"))?;
        let value = info.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
        value.map(str::to_owned).ok_or_else(|| Refusal::Plain(format!("INFO {section} has no {line}")))
    }

    /// Its own clock, in Unix ms.
    pub fn time_ms(&self) -> Result<i64, Refusal> {
        let reply = self.say("TIME")?;
        let [seconds, micros] = [0, 1].map(|place| reply.words().get(place).and_then(|it| it.parse::<i64>().ok()));
        seconds.zip(micros).map(|(s, us)| s * 1_000 + us / 1_000).ok_or_else(|| Refusal::Plain("no TIME".to_owned()))
    }

    pub fn answers(&self) -> bool {
        self.say("PING").is_ok()
    }

    /// Whether it reports that it is a master.
    pub fn is_master(&self) -> Result<bool, Refusal> {
        Ok(self.info("replication", "role")? == "master")
    }

    /// Whether it is a replica that has finished its first synchronization.
    pub fn follows(&self) -> bool {
        self.info("replication", "master_link_status").is_ok_and(|it| it == "up")
    }
}

pub fn run_on<A: AsRef<[u8]>>(client: &mut Client, command: &[A]) -> Result<Reply, Refusal> {
    match client.try_run(command) {
        Ok(Reply::Error(line)) => Err(Refusal::Plain(line)),
        Ok(reply) => Ok(reply),
        Err(error) => Err(Refusal::Silence(error.to_string())),
    }
}
