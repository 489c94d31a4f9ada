//! A server under callgrind, which counts the instructions that the server executes.
//!
//! `ECHO` is the mark between two runs: callgrind writes down what it has counted, and starts again from zero, whenever the
//! server enters that command. So one server serves all runs, and no signal or debugger is needed.

use crate::plan::Plan;
use crate::servers::{self, Module};
use rlock_testing::{Client, Server};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const UNIT: &str = "instructions";

pub struct Counted {
    pub server: Server,
    control: Client,
    counts: PathBuf,
    marks: usize,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole server.
    Everything,
    /// Only what the module does, in commands, in timers and for blocked clients: with ten thousand connections the server's
    /// own work for them would hide it.
    Module,
}

impl Counted {
    /// # Panics
    /// If valgrind is not there.
    pub fn start(module: Module, scope: Scope, options: &[&str]) -> Self {
        let version = Command::new("valgrind").arg("--version").output();
        assert!(version.is_ok(), "valgrind is not there; type: scripts/setup.sh bench");
        let start = servers::prepare(module).options(options);
        let launcher = valgrind(scope, start.directory());
        // The server's own clock ticks as rarely as it can.
        let start = start.options(&["--hz", "1", "--dynamic-hz", "no"]).launched_by(&launcher);
        let server = servers::settled(start.patience(Duration::from_secs(240)).start());
        let counts = server.socket().with_file_name("counts");
        let control = server.client();
        Self { server, control, counts, marks: 0 }
    }

    /// Instructions of a piece of work.
    pub fn count(&mut self, work: impl FnOnce()) -> f64 {
        self.mark();
        work();
        self.mark()
    }

    /// Instructions of one of many equal steps, as often as the plan says: the slope between a short run and a long one. What
    /// a run costs at its ends is in both, so it cancels out.
    pub fn slopes(&mut self, plan: &Plan, [short, long]: [usize; 2], mut run: impl FnMut(usize)) -> Vec<f64> {
        let mut slope = || {
            let [few, many] = [short, long].map(|steps| self.count(|| run(steps)));
            (many - few) / (long - short) as f64
        };
        (0..plan.counts).map(|_| slope()).collect()
    }

    /// Instructions since the last mark.
    fn mark(&mut self) -> f64 {
        self.control.say("ECHO mark");
        self.marks += 1;
        let path = self.counts.with_extension(self.marks.to_string());
        let profile = std::fs::read_to_string(&path)
            .expect("callgrind knows the server's functions by name: is this a server without symbols?");
        let _ = std::fs::remove_file(path);
        let total = profile.lines().rev().find_map(|line| line.strip_prefix("totals: ")).expect("a total");
        total.trim().parse().expect("a number")
    }
}

fn valgrind(scope: Scope, directory: &Path) -> Vec<String> {
    let mut words = vec![
        "valgrind".to_owned(),
        "--tool=callgrind".to_owned(),
        format!("--log-file={}", directory.join("valgrind").display()),
        format!("--callgrind-out-file={}", directory.join("counts").display()),
        "--dump-before=echoCommand".to_owned(),
        // No debugger is used, so valgrind need not leave pipes for one behind.
        "--vgdb=no".to_owned(),
    ];
    if scope == Scope::Module {
        words.push("--collect-atstart=no".to_owned());
        // Redis' name, and Valkey's.
        for function in [
            "RedisModuleCommandDispatcher",
            "ValkeyModuleCommandDispatcher",
            "moduleHandleBlockedClients",
            "moduleTimerHandler",
        ] {
            words.push(format!("--toggle-collect={function}"));
        }
    }
    words
}
