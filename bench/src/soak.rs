//! Hours of mixed load on one server, at a constant and moderate rate: does its memory grow, does it leave anything behind,
//! and how long does a client wait that has nothing to do with locks? `make soak` runs one of these for each server.
//!
//! A sample is written every few seconds, so a run that is killed still has its figures. The page is made of the samples
//! alone.

mod bystander;
mod load;
mod page;
mod samples;

use crate::environment::Environment;
use crate::many_tasks::{used_by, used_here};
use crate::servers::{self, Module};
use bystander::Bystander;
use load::Load;
use rlock_testing::Client;
use samples::{End, Samples};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

const BETWEEN_SAMPLES: Duration = Duration::from_secs(5);

/// A file of this name in the directory ends the run early.
const STOP: &str = "stop";

/// How long all leases, sessions and answers of the load may take to end.
const AFTER_THE_LOAD: Duration = Duration::from_secs(30);

/// The numbers of INFO rlock in a sample. Those of [`samples::LEFT`] must be 0 after the load.
const OF_RLOCK: [&str; 11] = [
    "waiters",
    "tickets",
    "sessions",
    "locks_with_waiters",
    "events_unacknowledged",
    "grants",
    "hand_offs",
    "timeouts",
    "cancelled",
    "lease_expiries",
    "answers_given",
];

/// `soak DIRECTORY NAME HOURS [leak]`: puts the samples of a run into DIRECTORY/NAME.tsv.
pub fn measure(directory: &Path, name: &str, hours: &str, leaks: bool) -> ExitCode {
    let Some(hours) = hours.parse().ok().filter(|&hours: &f64| hours > 0.0 && hours < 10_000.0) else {
        eprintln!("soak: {hours} is not a number of hours: use 4, or 0.05");
        return ExitCode::from(2);
    };
    outcome(run(directory, name, Duration::from_secs_f64(hours * 3_600.0), leaks).map(|()| Vec::new()))
}

/// `soak-page DIRECTORY TO`: makes the page of all runs in the directory, and its picture.
pub fn publish(directory: &Path, to: &Path) -> ExitCode {
    outcome(samples::read_all(directory).and_then(|runs| {
        page::write(&runs, to)?;
        Ok(runs.iter().flat_map(Samples::faults).collect())
    }))
}

fn outcome(faults: io::Result<Vec<String>>) -> ExitCode {
    let faults = faults.unwrap_or_else(|error| vec![error.to_string()]);
    faults.iter().for_each(|fault| eprintln!("soak: {fault}"));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(directory: &Path, name: &str, length: Duration, leaks: bool) -> io::Result<()> {
    let mut file = File::create(directory.join(format!("{name}.tsv")))?;
    let environment = Environment::look();
    writeln!(file, "# {}\t{}", environment.server, environment.commit)?;

    let server = servers::start(Module::Rlock);
    let mut watch = server.client();
    let load = Load::begin(&server, leaks);
    let mut bystander = Bystander::of(&server);
    let start = Instant::now();
    let mut has_names = false;
    while start.elapsed() < length && !directory.join(STOP).exists() {
        sleep(BETWEEN_SAMPLES.min(length));
        let mut sample = vec![("seconds", start.elapsed().as_secs())];
        sample.extend(figures(&mut watch));
        sample.extend(bystander.figures());
        sample.push(("unavailable", load.unavailable()));
        sample.push(("unexpected", load.unexpected()));
        if !has_names {
            writeln!(file, "{}", sample.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("\t"))?;
            has_names = true;
        }
        writeln!(file, "{}", sample.iter().map(|(_, number)| number.to_string()).collect::<Vec<_>>().join("\t"))?;
    }
    drop(bystander);
    let unexpected = load.end();
    let end = End { left: left_over(&mut watch), unexpected };
    writeln!(file, "{}", end.line())
}

fn figures(watch: &mut Client) -> Vec<(&'static str, u64)> {
    let memory = watch.info("memory");
    let commands = watch.info("stats").number("total_commands_processed");
    let fragmentation = memory.find("allocator_frag_ratio").and_then(|ratio| ratio.parse().ok()).unwrap_or(0.0);
    let mut figures = vec![
        ("used_memory", count(memory.number("used_memory"))),
        ("rss", count(memory.number("used_memory_rss"))),
        ("fragmentation_permille", thousandths(fragmentation)),
        ("keys", count(watch.say("DBSIZE").as_int())),
        ("commands", count(commands)),
        ("cpu_ms", thousandths(used_by(watch))),
        ("cpu_of_clients_ms", thousandths(used_here())),
    ];
    figures.extend(OF_RLOCK.into_iter().zip(watch.figures(OF_RLOCK).map(count)));
    figures
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn thousandths(number: f64) -> u64 {
    (number * 1_000.0) as u64
}

/// What the server still has after the load: numbers of INFO rlock, and the keys that are not fencing counters.
fn left_over(watch: &mut Client) -> Vec<(String, u64)> {
    let deadline = Instant::now() + AFTER_THE_LOAD;
    loop {
        let mut left: Vec<_> =
            samples::LEFT.iter().zip(watch.figures(samples::LEFT)).map(|(name, it)| (*name, count(it))).collect();
        let keys = watch.keys().into_iter().filter(|key| !key.starts_with("redisson_lock_token:")).count();
        left.push(("keys", keys as u64));
        left.retain(|(_, number)| *number > 0);
        if left.is_empty() || Instant::now() > deadline {
            return left.into_iter().map(|(name, number)| (name.to_owned(), number)).collect();
        }
        sleep(Duration::from_millis(100));
    }
}
