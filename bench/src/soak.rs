//! Hours of mixed load on one server, at a constant and moderate rate: does its memory grow, does it leave anything behind,
//! and how long does a client wait that has nothing to do with locks? `make soak` runs one of these for each server.
//!
//! A sample is written every few seconds, so a run that is cut short still has its figures. The page is made of the samples
//! alone.

mod load;
mod page;
mod samples;

use crate::environment::Environment;
use crate::servers::{self, Module};
use load::Load;
use rlock_testing::{Client, Server, wait_until, was_wanted_by, was_wanted_here};
use samples::{End, Sample, Samples};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const BETWEEN_SAMPLES: Duration = Duration::from_secs(5);
const BETWEEN_PINGS: Duration = Duration::from_millis(10);

/// A file of this name in the directory ends the run early.
const STOP: &str = "stop";

/// Puts the samples of the run into DIRECTORY/NAME.tsv.
///
/// # Errors
/// If the file cannot be written.
pub fn run(directory: &Path, name: &str, hours: f64) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut file = File::create(directory.join(format!("{name}.tsv")))?;
    let environment = Environment::look();
    writeln!(file, "{}", samples::heading(&environment.server, &environment.commit))?;

    let server = servers::start(Module::Rlock);
    let mut watch = server.client();
    let load = Load::begin(&server);
    let (pings, bystander) = Bystander::of(&server);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < hours * 3_600.0 && !directory.join(STOP).exists() {
        sleep(BETWEEN_SAMPLES);
        let sample = look(&mut watch, &server, start, &pings, load.unexpected());
        writeln!(file, "{}", sample.line())?;
    }
    drop(bystander);
    let unexpected = load.end();
    writeln!(file, "{}", samples::end_line(&left_over(&mut watch), &unexpected))
}

/// Makes the page and its picture of all runs in the directory. Whether every run is as it should be.
pub fn publish(directory: &Path, to: &Path) -> ExitCode {
    let runs: io::Result<Vec<Samples>> = samples::read_all(directory);
    match runs.and_then(|runs| page::write(&runs, to).map(|()| runs)) {
        Ok(runs) => {
            let faults: Vec<_> = runs.iter().flat_map(Samples::faults).collect();
            faults.iter().for_each(|fault| eprintln!("soak: {fault}"));
            if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn look(watch: &mut Client, server: &Server, start: Instant, pings: &Receiver<u32>, unexpected: u64) -> Sample {
    let mut micros: Vec<u32> = pings.try_iter().collect();
    micros.sort_unstable();
    let p99 = micros.get(micros.len() * 99 / 100).or(micros.last()).copied().unwrap_or_default();
    let (memory, stats) = (watch.info("memory"), watch.info("stats"));
    let [waiters, tickets, sessions, grants] = watch.figures(["waiters", "tickets", "sessions", "grants"]);
    Sample([
        start.elapsed().as_secs(),
        count(memory.number("used_memory")),
        count(memory.number("used_memory_rss")),
        count(watch.say("DBSIZE").as_int()),
        count(waiters),
        count(tickets),
        count(sessions),
        count(grants),
        count(stats.number("total_commands_processed")),
        cpu_ms(server),
        micros.len() as u64,
        u64::from(p99),
        u64::from(micros.last().copied().unwrap_or_default()),
        unexpected,
    ])
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// What the server has left when its clients are gone, all leases have ended, and all answers have expired.
fn left_over(watch: &mut Client) -> End {
    let mut end = || {
        let [waiters, tickets, sessions] = watch.figures(["waiters", "tickets", "sessions"]).map(count);
        let keys = watch.keys();
        let counters = keys.iter().filter(|key| key.starts_with("redisson_lock_token:")).count();
        End([waiters, tickets, sessions, (keys.len() - counters) as u64])
    };
    // What stays longer than this is left over.
    let deadline = Instant::now() + Duration::from_secs(15);
    while end() != End::default() && Instant::now() < deadline {
        sleep(Duration::from_millis(100));
    }
    end()
}

fn cpu_ms(server: &Server) -> u64 {
    let statistics = std::fs::read_to_string(format!("/proc/{}/schedstat", server.id())).unwrap_or_default();
    statistics.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default() / 1_000_000
}

/// A client that sends PING and nothing else. The time in which it or the server had no processor does not count: other
/// programs cause that.
struct Bystander {
    is_over: Arc<AtomicBool>,
}

impl Bystander {
    fn of(server: &Server) -> (Receiver<u32>, Self) {
        let (mut client, process) = (server.client(), server.id());
        let (sender, receiver) = channel();
        let bystander = Self { is_over: Arc::default() };
        let is_over = Arc::clone(&bystander.is_over);
        spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let (asked, wanted) = (Instant::now(), was_wanted_by(process) + was_wanted_here());
                if !client.is_served() {
                    break;
                }
                let took = asked.elapsed();
                let without_processor = (was_wanted_by(process) + was_wanted_here()).saturating_sub(wanted);
                let micros = took.saturating_sub(without_processor).as_micros();
                if sender.send(u32::try_from(micros).unwrap_or(u32::MAX)).is_err() {
                    break;
                }
                sleep(BETWEEN_PINGS);
            }
        });
        (receiver, bystander)
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// For the load: a lock that is held for as long as the run lasts.
fn until_held(client: &mut Client, command: &str) {
    wait_until("the lock is held", || client.say(command) == rlock_testing::Reply::Nil);
}
