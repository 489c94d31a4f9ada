//! The one who looks at locks while others use them: who holds them, who waits for them and in which order, as the servers
//! say it themselves; and for how long servers say nothing.

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

/// What the longest of all silences is called.
pub const SILENCE: &str = "longest silence of a server, ms";

pub struct Observer {
    journal: Journal,
    /// Nothing is ever sent: they end when these are dropped.
    until: Vec<Sender<()>>,
    threads: Vec<(String, JoinHandle<Seen>)>,
}

impl Observer {
    /// Looks at those locks about so often, and now and then at all others that are waited for, on each of these servers
    /// for as long as it is among those that `targets` names. They need not be there, and those that are need not answer.
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

    /// Says how many samples there are, and writes the longest silence of each server and of any.
    ///
    /// # Panics
    /// If one that looked at a server did.
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
