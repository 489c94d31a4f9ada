//! The observers look at locks while clients use them: holders, waiters and their order, as the servers report them;
//! and how long servers are silent.

mod reading;
#[cfg(test)]
mod tests;
mod watch;

pub use reading::sample;

use crate::history::Journal;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watch::{Seen, Watch};

/// The name of the longest silence's figure.
pub const SILENCE: &str = "longest silence of a server, ms";

pub struct Observer {
    journal: Journal,
    /// Nothing is sent: the threads end when these are dropped.
    until: Vec<Sender<()>>,
    threads: Vec<(String, JoinHandle<Seen>)>,
}

impl Observer {
    /// Samples those locks about every `every`, and now and then all others with waiters, on each of these servers for
    /// as long as `targets` names it. Servers may be absent or silent.
    pub fn start(
        journal: &Journal,
        servers: Vec<(String, PathBuf)>,
        targets: &Arc<Mutex<Vec<String>>>,
        locks: &[String],
        every: Duration,
    ) -> Self {
        let mut observer = Self { journal: journal.clone(), until: Vec::new(), threads: Vec::new() };
        for (server, socket) in servers {
            let (until, ended) = mpsc::channel();
            let watch = Watch::new(journal.clone(), server.clone(), socket, locks.to_vec());
            let targets = Arc::clone(targets);
            observer.until.push(until);
            observer.threads.push((server, thread::spawn(move || watch.run(every, &targets, &ended))));
        }
        observer
    }

    /// Returns how many samples there are, and records the longest silence of each server and of all.
    ///
    /// # Panics
    /// If an observer's thread panicked.
    pub fn stop(self) -> u64 {
        drop(self.until);
        let (mut samples, mut longest) = (0, Duration::ZERO);
        for (server, thread) in self.threads {
            let seen = thread.join().expect("it looks at its server until the end");
            samples += seen.samples;
            longest = longest.max(seen.longest_silence);
            let what = format!("longest silence of server {server}, ms");
            self.journal.measured(&what, seen.longest_silence.as_secs_f64() * 1_000.0);
        }
        self.journal.measured(SILENCE, longest.as_secs_f64() * 1_000.0);
        samples
    }
}
