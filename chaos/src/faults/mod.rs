//! What is done to servers, processes, keys and connections.
//!
//! Each fault is begun, lasts for a while, and is then taken back, so that several can be in force at a time. Whatever
//! is begun is written down with a moment before its first effect and one after its last, and with what it takes away
//! from what clients were promised.

mod clients;
mod cluster;
mod crews;
mod keys;
mod moved_clocks;
mod networks;
mod play;
mod processes;
mod replicated;
mod schedule;
mod sentinel;
mod servers;
mod settings;
mod storm;
#[cfg(test)]
mod tests;

pub use crews::Crews;
#[cfg(test)]
pub use play::{Troubles, carry_out};
pub use play::{play, tell_changes};
pub use schedule::schedule;

use crate::history::{Moment, Reach};
use crate::worlds::{Refusal, World};
use rlock_testing::Random;
use std::time::Duration;

/// A fault, with all that chance decides about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub what: What,
    /// For how long at least, where it has a duration.
    pub lasts: Duration,
    /// Which server, which key, which clients.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    FreezeCrew,
    KillCrew,

    FreezeServer,
    KillServer,
    KillReplica,
    Pause {
        writes_only: bool,
    },
    Sleep,
    BusyScript,
    Save {
        aof: bool,
    },

    FullMemory,
    MissingReplicas,
    Hz,

    KillWaitingClients,
    KillClients,
    KillAllClients,
    Unblock {
        error: bool,
    },

    Delete,
    Unlink,
    Shorten,
    Persist,
    RenameAway,
    Overwrite,
    Break,
    FlushAll {
        later: bool,
    },
    SwapDatabases,

    Storm,

    Cut,
    Refuse,
    Delay,
    SlowThenGone,
    DropRequests,
    DropAnswers,
    HalfOpen {
        client_gone: bool,
    },
    CutMidReply,
    /// Some connections that are there carry in one direction only, and new ones are whole.
    OneWay {
        requests_arrive: bool,
    },

    StepClock,

    /// By the command, with nothing lost, except by sentinels.
    FailOver,
    KillMaster,
    FreezeMaster,
    Partition,
    MoveSlot,
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
    Storm,
    Network,
    OneWay,
    Clock,
    Save,
    /// Who is a master changes.
    Topology,
}

impl What {
    fn class(self) -> Class {
        match self {
            Self::FreezeCrew | Self::KillCrew => Class::Crew,
            Self::FreezeServer | Self::KillServer | Self::Sleep | Self::BusyScript => Class::Still,
            Self::Pause { .. } => Class::Pause,
            Self::Save { .. } => Class::Save,
            Self::FullMemory | Self::MissingReplicas | Self::Hz => Class::Setting,
            Self::KillWaitingClients | Self::KillClients | Self::KillAllClients => Class::Clients,
            Self::Unblock { .. } => Class::Unblock,
            Self::Delete | Self::Unlink | Self::Shorten | Self::Persist => Class::Keys,
            Self::RenameAway | Self::Overwrite | Self::Break => Class::Keys,
            Self::FlushAll { .. } | Self::SwapDatabases => Class::AllKeys,
            Self::Storm => Class::Storm,
            Self::Cut | Self::Refuse | Self::Delay | Self::SlowThenGone | Self::DropRequests | Self::DropAnswers => {
                Class::Network
            }
            Self::HalfOpen { .. } | Self::CutMidReply => Class::Network,
            Self::OneWay { .. } => Class::OneWay,
            Self::StepClock => Class::Clock,
            Self::FailOver | Self::KillMaster | Self::FreezeMaster | Self::Partition => Class::Topology,
            Self::MoveSlot | Self::KillReplica => Class::Topology,
        }
    }
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
            Self::Pause => other != Self::Pause,
            // A server may abort if a client that a pause has put off is unblocked.
            Self::Unblock => !matches!(other, Self::Pause | Self::Topology | Self::Still),
            // Its waiters have a promise to be served in time, which others end.
            Self::Storm => {
                let is_of_clients = matches!(other, Self::Crew | Self::Network | Self::OneWay | Self::Unblock);
                is_of_clients || matches!(other, Self::Keys | Self::Save)
            }
            // What heals one would heal the other.
            Self::Network => other != Self::Network,
            Self::OneWay => other != Self::OneWay,
            Self::Setting => other != Self::Setting,
            // Databases that are exchanged twice must be exchanged back twice.
            Self::AllKeys => other != Self::AllKeys,
            _ => true,
        }
    }
}

/// What a fault finds.
pub struct Scene<'a> {
    pub world: &'a mut World,
    pub crews: &'a mut Crews,
}

/// A fault that is in force.
pub struct Begun {
    effects: Vec<(String, Reach)>,
    ending: Box<dyn Ending>,
}

pub trait Ending {
    /// Takes the fault back, as far as that can be done now; called again until it is over, and after an error.
    fn end(&mut self, scene: &mut Scene) -> Result<Progress, String>;
}

#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    NotYet,
    /// It takes nothing away any more, but not all is as before yet.
    Harmless,
    Over,
    /// As `Over`, and between these moments the server could certainly not write.
    Forbade {
        from: Moment,
        until: Moment,
        server: String,
    },
    /// As `Over`, with a figure that it brought.
    Measured(&'static str, f64),
    /// As `Over`, but it has not come to what was meant.
    Disturbed(String),
    /// As `Over`, and this was seen to be broken: the promise, and how.
    Broken(&'static str, String),
}

impl Begun {
    /// Nothing has happened: there was nothing that it could have happened to.
    fn nothing() -> Self {
        Self::done(Vec::new())
    }

    /// It is over already.
    fn done(effects: Vec<(String, Reach)>) -> Self {
        Self::until(effects, |_: &mut Scene| Ok(Progress::Over))
    }

    fn until(effects: Vec<(String, Reach)>, end: impl FnMut(&mut Scene) -> Result<Progress, String> + 'static) -> Self {
        Self { effects, ending: Box::new(Stepwise(end)) }
    }
}

struct Stepwise<F>(F);

impl<F: FnMut(&mut Scene) -> Result<Progress, String>> Ending for Stepwise<F> {
    fn end(&mut self, scene: &mut Scene) -> Result<Progress, String> {
        (self.0)(scene)
    }
}

impl Fault {
    /// # Errors
    /// Why it could not be made; nothing has happened then.
    fn begin(&self, scene: &mut Scene) -> Result<Begun, String> {
        let mut random = Random::from(self.seed);
        let random = &mut random;
        match self.what {
            What::FreezeCrew | What::KillCrew => processes::begin(self.what, scene, random),
            What::FreezeServer | What::KillServer | What::KillReplica | What::Pause { .. } => {
                servers::begin(self, scene, random)
            }
            What::Sleep | What::BusyScript | What::Save { .. } => servers::begin(self, scene, random),
            What::FullMemory | What::MissingReplicas | What::Hz => settings::begin(self.what, scene, random),
            What::KillWaitingClients | What::KillClients | What::KillAllClients | What::Unblock { .. } => {
                clients::begin(self.what, scene, random)
            }
            What::Delete | What::Unlink | What::Shorten | What::Persist | What::RenameAway => {
                keys::begin(self.what, scene, random)
            }
            What::Overwrite | What::Break | What::FlushAll { .. } | What::SwapDatabases => {
                keys::begin(self.what, scene, random)
            }
            What::Storm => storm::begin(scene, random),
            What::Cut | What::Refuse | What::Delay | What::SlowThenGone | What::DropRequests | What::DropAnswers => {
                networks::begin(self.what, scene, random)
            }
            What::HalfOpen { .. } | What::CutMidReply | What::OneWay { .. } => {
                networks::begin(self.what, scene, random)
            }
            What::StepClock => moved_clocks::begin(scene, random),
            What::FailOver | What::KillMaster | What::FreezeMaster | What::Partition | What::MoveSlot => {
                topology(self.what, scene, random)
            }
        }
    }
}

fn topology(what: What, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    use crate::worlds::WorldKind;
    match scene.world.kind {
        WorldKind::Replicated => replicated::begin(what, scene),
        WorldKind::Sentinel => sentinel::begin(what, scene),
        WorldKind::Cluster => cluster::begin(what, scene, random),
        kind => Err(format!("nobody takes over in a world of kind {}", kind.name())),
    }
}

/// One of the masters.
fn a_master(scene: &Scene, random: &mut Random) -> usize {
    random.one_of(scene.world.masters())
}

/// Runs a command that has effects, even if it is not known whether it was run.
fn with_effects(outcome: Result<bool, Refusal>, place: usize, effects: Vec<(String, Reach)>) -> Result<Begun, String> {
    match outcome {
        Ok(true) => Ok(Begun::done(effects)),
        Ok(false) => Ok(Begun::nothing()),
        Err(Refusal::Plain(why)) => Err(why),
        Err(Refusal::Silence(_)) => Ok(Begun::until(effects, answers_twice(place))),
    }
}

/// A server that has answered two questions one after the other has done all that it was sent before.
fn answers_twice(place: usize) -> impl FnMut(&mut Scene) -> Result<Progress, String> + 'static {
    move |scene| {
        let node = &scene.world.nodes[place];
        // One that was killed has forgotten what it was sent.
        let is_done = !node.is_up() || (node.answers() && node.answers());
        Ok(if is_done { Progress::Over } else { Progress::NotYet })
    }
}
