//! Anything that clients may send, over real connections, from a seed: our commands with hostile arguments, cut at any
//! byte, in pipelines, transactions and scripts, while others change the same keys and the server's settings.
//!
//! The server stays alive, answers each command once and in good form, and forgets clients that are gone; a refused
//! command changes nothing; and a follower has what the server has. On a lock without other clients, each reply is that
//! of the naive model of the lock.
//!
//! A seed that fails is kept in `failing-seeds.txt` next to this file, and tried first from then on. The clients send
//! the same each time; the server may read it in another order, so that a seed may have to be tried several times.
//!
//! - `RLOCK_WIRE_SECONDS`: how long to go on with new seeds
//! - `RLOCK_WIRE_SEED`: this one only; with seconds, this one and those that follow
#![allow(clippy::unwrap_used)]

mod connection;
mod contents;
mod contract;
mod hostile;
mod judged;
mod noise;
mod player;
mod random;
mod trial;

use random::Random;
use rlock_testing::PATIENCE;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trial::Arena;

/// How long to go on by default.
const SECONDS: u64 = 10;

/// After this many trials a server has allocated what it allocates once and keeps.
const WARM_UP: usize = 20;

/// How much more the server's memory may be after any number of further trials.
const GROWTH: i64 = 4 << 20;

#[test]
fn a_server_that_is_followed_keeps_its_word() {
    whatever_is_sent(true);
}

#[test]
fn a_server_without_followers_keeps_its_word() {
    whatever_is_sent(false);
}

fn whatever_is_sent(is_followed: bool) {
    let mut arena = Arena::prepare(is_followed);
    let (seconds, seed) = (number_from("RLOCK_WIRE_SECONDS"), number_from("RLOCK_WIRE_SEED"));
    let kept = if seed.is_some() { Vec::new() } else { kept_seeds() };
    let first = seed.unwrap_or_else(|| any_seed() ^ u64::from(is_followed));
    let least = if seed.is_some() && seconds.is_none() { 1 } else { kept.len() + WARM_UP };
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(if seed.is_some() { 0 } else { SECONDS }));
    let seeds = kept.iter().copied().chain((0..).map(|number| first.wrapping_add(number)));
    let (mut trials, mut memory) = (0, 0);
    for seed in seeds {
        if trials >= least && Instant::now() >= deadline {
            break;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| arena.trial(seed))) {
            eprintln!("--- trial {trials} from {first} on fails: RLOCK_WIRE_SEED={seed} ---");
            keep(seed, &kept);
            resume_unwind(panic);
        }
        trials += 1;
        if trials <= WARM_UP {
            memory = arena.used_memory().max(memory);
        }
    }
    println!("{trials} trials from {first} on, used_memory {memory}");
    // Some servers free a connection's buffers only after a while.
    let deadline = Instant::now() + PATIENCE;
    while arena.used_memory() > memory + GROWTH {
        let used = arena.used_memory();
        let has_patience = Instant::now() < deadline;
        assert!(has_patience, "{memory} bytes at first, {used} after {trials} trials:\n{}", arena.memory());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

/// Another one each time.
fn any_seed() -> u64 {
    Random::from(u64::try_from(rlock_testing::unix_ms()).unwrap() ^ u64::from(std::process::id()) << 44).draw()
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire/failing-seeds.txt")
}

/// The seed that begins each line; the rest of a line is a remark.
fn kept_seeds() -> Vec<u64> {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split(' ').next().unwrap().parse().expect("a seed")).collect()
}

fn keep(seed: u64, kept: &[u64]) {
    if kept.contains(&seed) || number_from("RLOCK_WIRE_SEED").is_some() {
        return;
    }
    // If it cannot be written, it is at least printed.
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(file()) {
        let _ = writeln!(file, "{seed}");
    }
}
