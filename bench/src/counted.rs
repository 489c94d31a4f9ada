//! A server under callgrind, which counts the instructions that it executes.
//!
//! `ECHO` is the mark between two runs: callgrind writes down what it has counted, and begins anew, whenever the server
//! enters that command. So one server serves all runs, and no signal or debugger is needed.

use crate::contenders::Module;
use crate::interrupt::Guarded;
use crate::servers;
use rlock_testing::{Client, Server, Start};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Counted {
    server: Guarded,
    control: Client,
    counts: PathBuf,
    marks: usize,
}

/// What is counted.
#[derive(Clone, Copy)]
pub enum Scope {
    /// All that the server does.
    Everything,
    /// Only what the module does, in commands, in timers and for clients that it keeps: with ten thousand connections the
    /// server's own looking after them would hide it.
    Module,
}

impl Counted {
    pub fn start(module: Module, scope: Scope) -> Self {
        let prepare = || servers::prepare(module).options(&["--port", "0"]);
        Self::under_callgrind(scope, |launch| launch(prepare()).start())
    }

    pub fn start_with(module: Module, options: &[&str]) -> Self {
        let prepare = || servers::prepare(module).options(options);
        Self::under_callgrind(Scope::Everything, |launch| servers::on_free_port(|| launch(prepare())))
    }

    /// A server that begins with the data set of this file.
    pub fn start_from(module: Module, data: &Path) -> Self {
        let start = servers::prepare(module).options(&["--port", "0"]);
        std::fs::copy(data, start.directory().join("dump.rdb")).expect("room for a copy");
        Self::under_callgrind(Scope::Everything, |launch| launch(start).start())
    }

    fn under_callgrind(scope: Scope, start: impl FnOnce(&dyn Fn(Start) -> Start) -> Server) -> Self {
        let launch = |start: Start| {
            let arguments = valgrind(scope, start.directory());
            // The server's own clock ticks as rarely as it can.
            let options = ["--hz", "1", "--dynamic-hz", "no"];
            start.options(&options).launched_by(&arguments).patience(Duration::from_secs(240))
        };
        let server = Guarded::start(|| start(&launch));
        let counts = server.socket().with_file_name("counts");
        let control = server.client();
        Self { server, control, counts, marks: 0 }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Instructions since the last mark.
    pub fn mark(&mut self) -> f64 {
        let profile = self.profile();
        let total = profile.lines().rev().find_map(|line| line.strip_prefix("totals: ")).expect("a total");
        total.trim().parse().expect("a number")
    }

    /// What callgrind has written down since the last mark.
    pub fn profile(&mut self) -> String {
        self.control.say("ECHO mark");
        self.marks += 1;
        let path = self.counts.with_extension(self.marks.to_string());
        let profile = std::fs::read_to_string(&path)
            .expect("callgrind knows the server's functions by name: is this a server without symbols?");
        let _ = std::fs::remove_file(path);
        profile
    }

    /// Instructions of a piece of work.
    pub fn count(&mut self, work: impl FnOnce()) -> f64 {
        self.mark();
        work();
        self.mark()
    }
}

fn valgrind(scope: Scope, directory: &Path) -> Vec<String> {
    let mut words = vec!["valgrind".to_owned(), "--tool=callgrind".to_owned()];
    let mut add = |option: &str| words.push(option.to_owned());
    add(&format!("--log-file={}", directory.join("valgrind").display()));
    add(&format!("--callgrind-out-file={}", directory.join("counts").display()));
    add("--dump-before=echoCommand");
    // No debugger is to be let in, so no pipes for one are left behind.
    add("--vgdb=no");
    if let Scope::Module = scope {
        add("--collect-atstart=no");
        // Redis' name, and Valkey's.
        add("--toggle-collect=RedisModuleCommandDispatcher");
        add("--toggle-collect=ValkeyModuleCommandDispatcher");
        add("--toggle-collect=moduleHandleBlockedClients");
        add("--toggle-collect=moduleTimerHandler");
    }
    words
}
