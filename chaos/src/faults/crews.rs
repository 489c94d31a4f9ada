//! The processes that clients live in, as something that can be stopped and killed.
//!
//! Clients in other languages are processes beside that of their crew. They die with it at once: one that saw its crew end
//! would give back its locks in order, and a lock of the dead would be free before its lease is over.

use super::{AT_ONCE, Begun, Class, Kind, Outcome, Scene, kind};
use crate::history::{Journal, Reach};
use rlock_testing::{Signal, send_signal, send_signal_to_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub const KINDS: &[Kind] =
    &[kind("freeze a crew", Class::Crew, 8, (100, 2_000), freeze), kind("kill a crew", Class::Crew, 1, AT_ONCE, kill)];

fn one_that_runs(scene: &mut Scene) -> Result<usize, String> {
    let running = scene.crews.running();
    if running.is_empty() {
        Err("there is no process of clients".to_owned())
    } else {
        Ok(scene.random.one_of(&running))
    }
}

/// Its leases end by time, as they were promised to.
fn freeze(scene: &mut Scene) -> Outcome {
    let crew = one_that_runs(scene)?;
    scene.crews.signal(crew, Signal::SIGSTOP)?;
    let effects = vec![(format!("the process of crew {crew} stands still"), Reach::Clients)];
    Ok(Begun::undone_by(effects, move |scene| {
        // One that has ended meanwhile needs nothing.
        let _ = scene.crews.signal(crew, Signal::SIGCONT);
    }))
}

fn kill(scene: &mut Scene) -> Outcome {
    let crew = one_that_runs(scene)?;
    // Who is to have been there at the end?
    if scene.crews.killed >= scene.crews.members.len() / 2 {
        return Err("half of the processes of clients were killed already".to_owned());
    }
    scene.crews.kill(crew)?;
    Ok(Begun::done(vec![(format!("kill -9 of the process of crew {crew}"), Reach::Clients)]))
}

pub struct Crews {
    members: Vec<Child>,
    /// How many were killed here; others have ended by themselves.
    pub killed: usize,
}

impl Crews {
    pub fn start(commands: impl IntoIterator<Item = Command>) -> io::Result<Self> {
        let start = |mut crew: Command| crew.process_group(0).spawn();
        Ok(Self { members: commands.into_iter().map(start).collect::<io::Result<_>>()?, killed: 0 })
    }

    pub fn running(&mut self) -> Vec<usize> {
        let is_running = |crew: &mut Child| matches!(crew.try_wait(), Ok(None));
        (0..self.members.len()).filter(|place| is_running(&mut self.members[*place])).collect()
    }

    /// Kills it without a warning.
    fn kill(&mut self, place: usize) -> Result<(), String> {
        end(&mut self.members[place]).map_err(|error| error.to_string())?;
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
            let _ = end(crew);
        }
    }
}

fn end(crew: &mut Child) -> io::Result<()> {
    // Its id, once it was waited for, may be that of another group.
    if crew.try_wait()?.is_none() {
        send_signal_to_group(crew.id(), Signal::SIGKILL)?;
        crew.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Record, read_all};
    use rlock_testing::wait_until;

    /// What is broken if the crew is this.
    fn broken(program: &str, argument: &str) -> usize {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), "crews").unwrap();
        let mut crew = Command::new(program);
        crew.arg(argument);
        let patience = if program == "sleep" { Duration::ZERO } else { Duration::from_secs(20) };
        Crews::start([crew]).unwrap().wait_for_all(patience, &journal);
        read_all(directory.path()).unwrap().iter().filter(|it| matches!(it, Record::Broken { .. })).count()
    }

    #[test]
    fn clients_that_do_not_end_or_end_in_disorder_are_told_of() {
        assert_eq!(broken("true", ""), 0);
        assert_eq!(broken("false", ""), 1);
        assert_eq!(broken("sleep", "600"), 1);
    }

    #[test]
    fn what_a_crew_has_started_dies_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut crew = Command::new("sh");
        crew.args(["-c", "sleep 600 | { echo $$ >started; cat; }"]).current_dir(&directory);
        let mut crews = Crews::start([crew]).unwrap();
        wait_until("it has started", || directory.path().join("started").exists());
        crews.kill(0).unwrap();
        let group = crews.members[0].id();
        wait_until("nobody of it is left", || send_signal_to_group(group, Signal::SIGCONT).is_err());
    }
}
