//! A deploy hands a lock over at once: the program of each language that gets SIGTERM releases what it holds, and the program
//! that waits for the lock has it within 100 ms.
//!
//! - `RLOCK_DEPLOYS`: the programs, as `name=command`, one on each line or with semicolons between them
//! - `RLOCK_DEPLOY_ROUNDS`: how many deploys of each; 100 if it is not set
//!
//! A program is run as `command URL KEY`. It prints `held` once it holds the lock, works until SIGTERM, releases the lock by
//! the documented way of its language, and exits with 0.
#![allow(clippy::unwrap_used)]

use libtest_mimic::{Arguments, Trial};
use rlock_testing::{Client, PATIENCE, Server, Signal, send_signal, wait_until, was_wanted_by};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(100);
const LOOKS: Duration = Duration::from_millis(2);
const KEY: &str = "reports";

fn main() {
    let mut arguments = Arguments::from_args();
    // One at a time, since delays are measured.
    arguments.test_threads = Some(1);
    let rounds = std::env::var("RLOCK_DEPLOY_ROUNDS").map_or(100, |rounds| rounds.parse().expect("a number of rounds"));
    let given = std::env::var("RLOCK_DEPLOYS").unwrap_or_default();
    let lines = given.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
    let trials = lines.map(|line| {
        let (name, command) = line.split_once('=').unwrap_or_else(|| panic!("not name=command: {line}"));
        let (name, command) = (name.to_owned(), command.to_owned());
        Trial::test(format!("{name}::a_deploy_hands_the_lock_over"), move || {
            deploys(&name, &command, rounds);
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Each program that waited holds the lock in the next round, until it is replaced.
fn deploys(name: &str, command: &str, rounds: usize) {
    let (server, mut eye) = Server::with_client();
    let mut holder = Program::start(command, &server);
    holder.until_held(|| ());
    let (mut delays, mut late) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let next = Program::start(command, &server);
        until_it_waits(&mut eye);
        let processes = [holder.process.id(), next.process.id(), server.id()];
        let mut waits = processes.map(Waits::of);
        let sent = Instant::now();
        holder.terminate();
        let held = next.until_held(|| waits.iter_mut().for_each(Waits::look));
        let delay = held.saturating_duration_since(sent);
        delays.push(delay);
        let allowed = LIMIT + waits.iter().map(Waits::time).sum::<Duration>();
        if delay > allowed {
            late.push((delay, allowed));
        }
        holder.until_ended();
        holder = next;
    }
    holder.terminate();
    holder.until_ended();
    assert_eq!(eye.run(&["EXISTS", KEY]).as_int(), 0, "the last one has released it");
    delays.sort_unstable();
    let (median, maximum) = (delays[rounds / 2], delays[rounds - 1]);
    println!("{name}: {rounds} deploys, handed over after {median:.1?} (median), {maximum:.1?} (maximum)");
    assert!(late.is_empty(), "handed over too late, as (delay, allowed): {late:.1?}");
}

/// How long a process waited for a processor, which is not its fault. It may end meanwhile.
struct Waits {
    process: u32,
    before: Duration,
    now: Duration,
}

impl Waits {
    fn of(process: u32) -> Self {
        let before = was_wanted_by(process);
        Self { process, before, now: before }
    }

    fn look(&mut self) {
        self.now = self.now.max(was_wanted_by(self.process));
    }

    fn time(&self) -> Duration {
        self.now - self.before
    }
}

fn until_it_waits(eye: &mut Client) {
    eye.until_waiting(1);
    wait_until("its session is attended", || eye.figure("sessions_unattended") == 0);
}

/// Killed when it is dropped.
struct Program {
    process: Child,
    held: mpsc::Receiver<Instant>,
}

impl Program {
    fn start(command: &str, server: &Server) -> Self {
        let line = format!("exec {command} redis://127.0.0.1:{} {KEY}", server.port());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut process = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a shell");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let (tell, held) = mpsc::channel();
        thread::spawn(move || {
            for _ in output.lines().map_while(Result::ok).filter(|line| line == "held") {
                let _ = tell.send(Instant::now());
            }
        });
        Self { process, held }
    }

    /// Calls `look` all the while.
    fn until_held(&self, mut look: impl FnMut()) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        loop {
            look();
            match self.held.recv_timeout(LOOKS) {
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                held => return held.expect("it prints held"),
            }
        }
    }

    fn terminate(&self) {
        send_signal(self.process.id(), Signal::SIGTERM).expect("its process is there");
    }

    fn until_ended(&mut self) {
        let mut status = None;
        wait_until("it ends", || {
            status = self.process.try_wait().expect("a process of ours");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.code()), Some(0), "how it ended");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
