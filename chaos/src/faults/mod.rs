//! Faults of servers, processes, keys and connections.
//!
//! Each fault begins, lasts for a while, and is then undone, so that several can be in force at a time. Each is
//! recorded with a moment before its first effect, a moment after its last one, and the promises that it suspends. Each
//! family of faults has a file, with a table of its kinds.

mod clients;
mod cluster;
mod failovers;
mod keys;
mod networks;
mod play;
mod processes;
mod replicated;
mod schedule;
mod sentinel;
mod servers;
#[cfg(test)]
mod tests;

pub use failovers::{PLANNED, lacks};
pub use play::{play, record_changes};
pub use processes::ProcessGroups;
pub use schedule::schedule;

use crate::history::{Journal, Reach};
use crate::worlds::{Node, Refusal, World};
use rlock_testing::{Random, Reply};
use std::time::Duration;

/// A kind of fault; chance decides the rest.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    class: Class,
    /// How often it comes, relative to the others.
    weight: u32,
    /// Its minimum duration, from and to, in ms.
    lasts: (u64, u64),
    begin: Begin,
}

/// Begins the fault, or returns why it could not be made; then nothing has happened.
type Begin = fn(&mut Scene) -> Outcome;

type Outcome = Result<Begun, String>;

const fn kind(name: &'static str, class: Class, weight: u32, lasts: (u64, u64), begin: Begin) -> Kind {
    Kind { name, class, weight, lasts, begin }
}

const AT_ONCE: (u64, u64) = (0, 0);
const WHILE: (u64, u64) = (50, 800);

/// A fault, with what chance has decided about it.
#[derive(Clone, Copy)]
pub struct Fault {
    kind: Kind,
    /// Its minimum duration, if it has one.
    lasts: Duration,
    /// Decides which server, which key or which clients the fault is for.
    seed: u64,
}

/// Decides which faults may be in force at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Processes,
    /// A server does nothing.
    Still,
    Pause,
    Setting,
    Clients,
    Unblock,
    Keys,
    AllKeys,
    Network,
    OneWay,
    Clock,
    Save,
    /// The set of masters changes.
    Topology,
}

impl Class {
    fn may_overlap(self, other: Self) -> bool {
        self.bears(other) && other.bears(self)
    }

    fn bears(self, other: Self) -> bool {
        match self {
            // A failover waits for servers, and pauses writes itself; the end of our pause would end its own.
            Self::Topology => !matches!(other, Self::Topology | Self::Still | Self::Pause),
            Self::Still => !matches!(other, Self::Still | Self::Pause),
            // A server may abort if a client that a pause has postponed is unblocked.
            Self::Unblock => !matches!(other, Self::Pause | Self::Topology | Self::Still),
            // The end of one would end the other; and databases that are swapped twice must be swapped back twice.
            Self::Pause | Self::Network | Self::OneWay | Self::Setting | Self::AllKeys => other != self,
            Self::Processes | Self::Clients | Self::Keys | Self::Clock | Self::Save => true,
        }
    }
}

/// What a fault acts on.
pub struct Scene<'a> {
    pub world: &'a mut World,
    pub groups: &'a mut ProcessGroups,
    pub journal: &'a Journal,
    /// Decides what the fault leaves to chance.
    pub random: Random,
}

impl Scene<'_> {
    /// One of the masters.
    fn a_master(&mut self) -> usize {
        self.random.one_of(&self.world.masters)
    }

    /// Records why a fault had no effect, or another one than intended.
    fn not_made(&self, what: &str, why: &str) {
        self.journal.measured(&format!("faults that could not be made: {what}: {why}"), 1.0);
    }
}

/// A fault that is in force.
pub struct Begun {
    effects: Effects,
    /// Undoes the fault, as far as that can be done now; called again until it is over, and after an error.
    end: Box<Ending>,
}

/// What was done, in words, and what that affects.
type Effects = Vec<(String, Reach)>;

type Ending = dyn FnMut(&mut Scene) -> Result<Progress, String>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    NotYet,
    /// The fault affects nothing any more, but not everything is restored yet.
    Harmless,
    Over,
}

impl Progress {
    fn over_if(it_is: bool) -> Self {
        if it_is { Self::Over } else { Self::NotYet }
    }
}

impl Begun {
    /// A fault that is over already.
    fn done(effects: Effects) -> Self {
        Self::undone_by(effects, |_| {})
    }

    /// A fault that ends with this call, which cannot fail.
    fn undone_by(effects: Effects, mut end: impl FnMut(&mut Scene) + 'static) -> Self {
        Self::until(effects, move |scene| {
            end(scene);
            Ok(Progress::Over)
        })
    }

    fn until(effects: Effects, end: impl FnMut(&mut Scene) -> Result<Progress, String> + 'static) -> Self {
        Self { effects, end: Box::new(end) }
    }
}

/// Whether a command may have changed something. A server that does not answer may have done it, or may still do it.
fn may_have_changed(outcome: Result<Reply, Refusal>) -> Result<bool, String> {
    match outcome {
        Err(Refusal::Plain(why)) if why.contains("no such key") => Ok(false),
        Err(Refusal::Plain(why)) => Err(why),
        Ok(Reply::Int(0)) => Ok(false),
        Ok(_) | Err(Refusal::Silence(_)) => Ok(true),
    }
}

/// Runs a command that has this effect.
fn with_effect(scene: &Scene, place: usize, command: &str, reach: Reach) -> Outcome {
    let node = &scene.world.nodes[place];
    let effects = vec![(format!("{command} at server {}", node.name), reach)];
    changing(node, command, effects, answers_twice(place))
}

/// Runs a command, which has these effects if it changes something.
fn changing(
    node: &Node,
    command: &str,
    effects: Effects,
    end: impl FnMut(&mut Scene) -> Result<Progress, String> + 'static,
) -> Outcome {
    let has_changed = may_have_changed(node.say(command))?;
    Ok(if has_changed { Begun::until(effects, end) } else { Begun::done(Vec::new()) })
}

/// A server that has answered two questions in a row has done everything that was sent to it before.
fn answers_twice(place: usize) -> impl FnMut(&mut Scene) -> Result<Progress, String> + 'static {
    move |scene| {
        let node = &scene.world.nodes[place];
        // A killed server has forgotten its commands.
        let is_done = !node.is_up() || (node.answers() && node.answers());
        Ok(Progress::over_if(is_done))
    }
}
