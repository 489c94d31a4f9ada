//! What is done to servers, processes, keys and connections.
//!
//! Each fault is begun, lasts for a while, and is then taken back, so that several can be in force at a time. Whatever
//! is begun is written down with a moment before its first effect and one after its last, and with what it takes away
//! from what clients were promised. Each family of faults has a file, with a table of what may happen.

mod clients;
mod cluster;
mod crews;
mod failovers;
mod keys;
mod networks;
mod play;
mod replicated;
mod schedule;
mod sentinel;
mod servers;
#[cfg(test)]
mod tests;

pub use crews::Crews;
pub use failovers::{PLANNED, lacks};
pub use play::{play, tell_changes};
pub use schedule::schedule;

use crate::history::{Journal, Reach};
use crate::worlds::{Node, Refusal, World};
use rlock_testing::{Random, Reply};
use std::time::Duration;

/// Something that may happen, with all that is left to chance.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    class: Class,
    /// How often it comes beside the others.
    weight: u32,
    /// For how long at least, from and to, in ms.
    lasts: (u64, u64),
    begin: Begin,
}

/// Begins it, or says why it could not be made: nothing has happened then.
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
    /// For how long at least, where it has a duration.
    lasts: Duration,
    /// Which server, which key, which clients.
    seed: u64,
}

/// Which may be in force beside which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Crew,
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
    /// Who is a master changes.
    Topology,
}

impl Class {
    fn may_be_beside(self, other: Self) -> bool {
        self.bears(other) && other.bears(self)
    }

    fn bears(self, other: Self) -> bool {
        match self {
            // A failover waits for servers, and pauses writes itself; our end of a pause would end its own.
            Self::Topology => !matches!(other, Self::Topology | Self::Still | Self::Pause),
            Self::Still => !matches!(other, Self::Still | Self::Pause),
            // A server may abort if a client that a pause has put off is unblocked.
            Self::Unblock => !matches!(other, Self::Pause | Self::Topology | Self::Still),
            // What ends one would end the other; and databases that are exchanged twice must be exchanged back twice.
            Self::Pause | Self::Network | Self::OneWay | Self::Setting | Self::AllKeys => other != self,
            Self::Crew | Self::Clients | Self::Keys | Self::Clock | Self::Save => true,
        }
    }
}

/// What a fault finds.
pub struct Scene<'a> {
    pub world: &'a mut World,
    pub crews: &'a mut Crews,
    pub journal: &'a Journal,
    /// What decides what the fault that begins leaves to chance.
    pub random: Random,
}

impl Scene<'_> {
    /// One of the masters.
    fn a_master(&mut self) -> usize {
        self.random.one_of(&self.world.masters)
    }

    /// Why a fault has come to nothing, or to something else than was meant.
    fn not_made(&self, what: &str, why: &str) {
        self.journal.measured(&format!("faults that could not be made: {what}: {why}"), 1.0);
    }
}

/// A fault that is in force.
pub struct Begun {
    effects: Effects,
    /// Takes the fault back, as far as that can be done now; called again until it is over, and after an error.
    end: Box<Ending>,
}

/// What was done, in words, and what that takes away.
type Effects = Vec<(String, Reach)>;

type Ending = dyn FnMut(&mut Scene) -> Result<Progress, String>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    NotYet,
    /// It takes nothing away any more, but not all is as before yet.
    Harmless,
    Over,
}

impl Progress {
    fn over_if(it_is: bool) -> Self {
        if it_is { Self::Over } else { Self::NotYet }
    }
}

impl Begun {
    /// It is over already.
    fn done(effects: Effects) -> Self {
        Self::undone_by(effects, |_| {})
    }

    /// It is over with this, which cannot fail.
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

/// Whether a command may have changed something. A server that does not answer may have done it, or do so yet.
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

/// A server that has answered two questions one after the other has done all that it was sent before.
fn answers_twice(place: usize) -> impl FnMut(&mut Scene) -> Result<Progress, String> + 'static {
    move |scene| {
        let node = &scene.world.nodes[place];
        // One that was killed has forgotten what it was sent.
        let is_done = !node.is_up() || (node.answers() && node.answers());
        Ok(Progress::over_if(is_done))
    }
}
