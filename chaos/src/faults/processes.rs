//! The processes of clients, which can be stopped and killed.
//!
//! Clients in other languages are processes in the process group of their client process. They die with it at once: if
//! one saw only that process end, it would release its locks in order, and a lock of a dead client would be free before
//! its lease is over.

use super::{AT_ONCE, Begun, Class, Kind, Outcome, Scene, kind};
use crate::history::{Journal, Reach};
use rlock_testing::{Signal, send_signal, send_signal_to_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub const KINDS: &[Kind] = &[
    kind("freeze a process of clients", Class::Processes, 8, (100, 2_000), freeze),
    kind("kill a process of clients", Class::Processes, 1, AT_ONCE, kill),
];

fn one_that_runs(scene: &mut Scene) -> Result<usize, String> {
    let running = scene.groups.running();
    if running.is_empty() {
        Err("there is no process of clients".to_owned())
    } else {
        Ok(scene.random.one_of(&running))
    }
}

/// Its leases must still last as long as promised.
fn freeze(scene: &mut Scene) -> Outcome {
    let group = one_that_runs(scene)?;
    scene.groups.signal(group, Signal::SIGSTOP)?;
    let effects = vec![(format!("process {group} of clients is stalled"), Reach::Clients)];
    Ok(Begun::undone_by(effects, move |scene| {
        // A process that has ended meanwhile needs nothing.
        let _ = scene.groups.signal(group, Signal::SIGCONT);
    }))
}

fn kill(scene: &mut Scene) -> Outcome {
    let group = one_that_runs(scene)?;
    // Half of the processes have to survive, so that clients are left at the end.
    if scene.groups.killed >= scene.groups.members.len() / 2 {
        return Err("half of the processes of clients were killed already".to_owned());
    }
    scene.groups.kill(group)?;
    Ok(Begun::done(vec![(format!("kill -9 of process {group}"), Reach::Clients)]))
}

pub struct ProcessGroups {
    members: Vec<Child>,
    /// How many were killed here; others have ended by themselves.
    pub killed: usize,
}

impl ProcessGroups {
    pub fn start(commands: impl IntoIterator<Item = Command>) -> io::Result<Self> {
        let start = |mut group: Command| group.process_group(0).spawn();
        Ok(Self { members: commands.into_iter().map(start).collect::<io::Result<_>>()?, killed: 0 })
    }

    pub fn running(&mut self) -> Vec<usize> {
        let is_running = |group: &mut Child| matches!(group.try_wait(), Ok(None));
        (0..self.members.len()).filter(|place| is_running(&mut self.members[*place])).collect()
    }

    /// Kills it without a warning.
    fn kill(&mut self, place: usize) -> Result<(), String> {
        end(&mut self.members[place]).map_err(|error| error.to_string())?;
        self.killed += 1;
        Ok(())
    }

    /// Waits until all processes have finished what they had begun. Killed ones have.
    pub fn wait_for_all(&mut self, patience: Duration, journal: &Journal) {
        let deadline = Instant::now() + patience;
        while !self.running().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        for place in self.running() {
            journal.broken("clients come to an end", format!("process {place} is still at work after {patience:?}"));
            let _ = self.kill(place);
        }
        for (place, group) in self.members.iter_mut().enumerate() {
            let status = group.wait();
            // A panic of a client's task must not look like a client that did nothing.
            if status.as_ref().is_ok_and(|it| it.code().is_some_and(|code| code != 0)) {
                journal.broken("clients come to an end", format!("process {place} ended with {status:?}"));
            }
        }
    }

    fn signal(&mut self, place: usize, signal: Signal) -> Result<(), String> {
        // After a wait the id may be another process's.
        if !matches!(self.members[place].try_wait(), Ok(None)) {
            return Err("the process has ended".to_owned());
        }
        send_signal(self.members[place].id(), signal).map_err(|error| error.to_string())
    }
}

impl Drop for ProcessGroups {
    /// No process survives its round, however the round ends.
    fn drop(&mut self) {
        for group in &mut self.members {
            // A process that has ended already needs no end.
            let _ = end(group);
        }
    }
}

fn end(group: &mut Child) -> io::Result<()> {
    // After a wait its id may be that of another group.
    if group.try_wait()?.is_none() {
        send_signal_to_group(group.id(), Signal::SIGKILL)?;
        group.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Record, read_all};
    use rlock_testing::wait_until;

    /// How many promises a process that runs this command breaks.
    fn broken(program: &str, argument: &str) -> usize {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), "groups").unwrap();
        let mut group = Command::new(program);
        group.arg(argument);
        let patience = if program == "sleep" { Duration::ZERO } else { Duration::from_secs(20) };
        ProcessGroups::start([group]).unwrap().wait_for_all(patience, &journal);
        read_all(directory.path()).unwrap().iter().filter(|it| matches!(it, Record::Broken { .. })).count()
    }

    #[test]
    fn clients_that_do_not_end_or_end_in_disorder_are_reported() {
        assert_eq!(broken("true", ""), 0);
        assert_eq!(broken("false", ""), 1);
        assert_eq!(broken("sleep", "600"), 1);
    }

    #[test]
    fn what_a_process_has_started_dies_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut group = Command::new("sh");
        group.args(["-c", "sleep 600 | { echo $$ >started; cat; }"]).current_dir(&directory);
        let mut groups = ProcessGroups::start([group]).unwrap();
        wait_until("it has started", || directory.path().join("started").exists());
        groups.kill(0).unwrap();
        let group = groups.members[0].id();
        wait_until("the process group is gone", || send_signal_to_group(group, Signal::SIGCONT).is_err());
    }
}
