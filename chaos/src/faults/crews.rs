//! The processes that clients live in, as something that can be stopped and killed.

use crate::history::Journal;
use rlock_testing::{Signal, send_signal};
use std::process::Child;
use std::time::{Duration, Instant};

pub struct Crews {
    members: Vec<Child>,
    killed: usize,
}

impl Crews {
    pub fn of(members: Vec<Child>) -> Self {
        Self { members, killed: 0 }
    }

    pub fn members(&mut self) -> &mut [Child] {
        &mut self.members
    }

    /// How many were killed here; others have ended by themselves.
    pub fn killed(&self) -> usize {
        self.killed
    }

    pub fn running(&mut self) -> Vec<usize> {
        let is_running = |crew: &mut Child| matches!(crew.try_wait(), Ok(None));
        (0..self.members.len()).filter(|place| is_running(&mut self.members[*place])).collect()
    }

    pub fn freeze(&mut self, place: usize) -> Result<(), String> {
        self.signal(place, Signal::SIGSTOP)
    }

    /// One that has ended meanwhile needs nothing.
    pub fn thaw(&mut self, place: usize) {
        let _ = self.signal(place, Signal::SIGCONT);
    }

    /// Kills it without a warning.
    pub fn kill(&mut self, place: usize) -> Result<(), String> {
        let crew = &mut self.members[place];
        crew.kill().and_then(|()| crew.wait()).map_err(|error| error.to_string())?;
        self.killed += 1;
        Ok(())
    }

    /// Waits until all have brought to an end what they had begun. Those that were killed have.
    pub fn wait_for_all(&mut self, patience: Duration, journal: &Journal) {
        let deadline = Instant::now() + patience;
        while !self.running().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        for place in self.running() {
            journal.broken("clients come to an end", format!("crew {place} is still at work after {patience:?}"));
            let _ = self.kill(place);
        }
        for (place, crew) in self.members.iter_mut().enumerate() {
            let status = crew.wait();
            // A panic of a client's task must not look like a client that did nothing.
            if status.as_ref().is_ok_and(|it| it.code().is_some_and(|code| code != 0)) {
                journal.broken("clients come to an end", format!("crew {place} ended with {status:?}"));
            }
        }
    }

    fn signal(&mut self, place: usize, signal: Signal) -> Result<(), String> {
        // The id of one that was waited for may be another process's by now.
        if !matches!(self.members[place].try_wait(), Ok(None)) {
            return Err("the process has ended".to_owned());
        }
        send_signal(self.members[place].id(), signal).map_err(|error| error.to_string())
    }
}

impl Drop for Crews {
    /// However a round ends, nobody of it goes on.
    fn drop(&mut self) {
        for crew in &mut self.members {
            // One that has ended already needs no end.
            let _ = crew.kill().and_then(|()| crew.wait());
        }
    }
}
