//! The one who looks at locks while others use them: who holds them, who waits for them and in which order, as the servers
//! say it themselves; and for how long servers say nothing.

mod reading;
#[cfg(test)]
mod tests;
mod watch;

use crate::history::{Journal, Moment, Reach, Record, Trouble};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watch::{Seen, Watch};

/// If it was to sleep for a moment and woke up as late as this, nothing on this machine ran meanwhile, no server either.
const STANDSTILL: Duration = Duration::from_millis(500);

/// A server's name in the run, and its socket.
type Target = (String, PathBuf);

pub struct Observer {
    /// Nothing is ever sent: it ends when this is dropped.
    until: Sender<()>,
    thread: JoinHandle<Observed>,
}

#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub samples: u64,
}

impl Observer {
    /// Looks at those locks about so often, and now and then at all others that are waited for, on each of the servers that
    /// `targets` names. Servers may come and go, and those that are there need not answer.
    pub fn start(
        journal: Journal,
        targets: impl Fn() -> Vec<(String, PathBuf)> + Send + 'static,
        locks: Vec<String>,
        every: Duration,
    ) -> Self {
        let (until, ended) = mpsc::channel();
        let watches = Watches { journal, locks, every, running: HashMap::new(), ended: Vec::new() };
        let thread = thread::spawn(move || watches.run(targets, &ended));
        Self { until, thread }
    }

    /// Says what was seen, and writes the longest silence of each server and of any.
    ///
    /// # Panics
    /// If the observer did.
    pub fn stop(self) -> Observed {
        drop(self.until);
        self.thread.join().expect("the observer does its work until the end")
    }
}

/// The servers that are looked at, and those that were.
struct Watches {
    journal: Journal,
    locks: Vec<String>,
    every: Duration,
    running: HashMap<Target, Running>,
    ended: Vec<(String, JoinHandle<Seen>)>,
}

struct Running {
    _until: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watches {
    fn run(mut self, targets: impl Fn() -> Vec<Target>, ended: &Receiver<()>) -> Observed {
        loop {
            self.follow(targets());
            let slept = Moment::now();
            if ended.recv_timeout(self.every) == Err(RecvTimeoutError::Disconnected) {
                return self.finish();
            }
            self.note_standstill(slept, Moment::now());
        }
    }

    /// What a machine that stands still does to a wait is not the server's doing.
    fn note_standstill(&self, began: Moment, ended: Moment) {
        if ended.since(began) < self.every + STANDSTILL {
            return;
        }
        for (server, _) in self.running.keys() {
            let (what, reach) = ("the machine stands still".to_owned(), Reach::NoWrites { server: server.clone() });
            self.journal.write(&Record::Troubled(Trouble { began, ended, what, reach }));
        }
    }

    fn follow(&mut self, targets: Vec<Target>) {
        let gone: Vec<Target> = self.running.keys().filter(|it| !targets.contains(it)).cloned().collect();
        for target in gone {
            self.end(&target);
        }
        for target in targets {
            if !self.running.contains_key(&target) {
                let running = self.begin(&target);
                self.running.insert(target, running);
            }
        }
    }

    fn begin(&self, (server, socket): &Target) -> Running {
        let (until, ended) = mpsc::channel();
        let watch = Watch::new(self.journal.clone(), server.clone(), socket.clone(), self.locks.clone());
        let every = self.every;
        Running { _until: until, thread: thread::spawn(move || watch.run(every, &ended)) }
    }

    /// It is told so, and joined at the end: a server that is silent holds its thread up.
    fn end(&mut self, target: &Target) {
        if let Some(running) = self.running.remove(target) {
            self.ended.push((target.0.clone(), running.thread));
        }
    }

    fn finish(mut self) -> Observed {
        self.follow(Vec::new());
        let mut samples = 0;
        let mut silences: BTreeMap<String, Duration> = BTreeMap::new();
        for (server, thread) in self.ended {
            let seen = thread.join().expect("it looks at its server until the end");
            samples += seen.samples;
            let longest = silences.entry(server).or_default();
            *longest = seen.longest_silence.max(*longest);
        }
        for (server, silence) in &silences {
            self.journal.measured(&format!("longest silence of server {server}, ms"), silence.as_secs_f64() * 1_000.0);
        }
        let longest_silence = silences.into_values().max().unwrap_or_default();
        self.journal.measured("longest silence of a server, ms", longest_silence.as_secs_f64() * 1_000.0);
        Observed { samples }
    }
}
