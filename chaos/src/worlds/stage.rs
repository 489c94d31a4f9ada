//! The faults and the worlds. In five worlds all kinds of faults happen. The worlds with replicas also play failovers
//! alone, to a replica that lacks the last grants. Each of these plays twice: with the servers' defaults, where such a
//! failover makes two holders of one lock, and with the settings under which it must not.

use super::WorldKind;
use std::time::Duration;

/// The longest lease, if failovers are played alone; under the protection it is the grace, too. It is longer than
/// sentinels and nodes take to replace a silent master: so a lock that no replica knows of is still held when one takes
/// over.
pub const LONGEST_LEASE_MS: u64 = 10_000;

/// How long servers may be silent before they are replaced. Without the protection, any time will do. With it, a master
/// has to stop before another one begins: after the lag, 1 s, plus 4 s, as the pages say.
const SILENT_MS: u64 = 1_000;
const SILENT_UNDER_PROTECTION_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Play {
    /// Every kind of fault.
    #[default]
    Everything,
    /// Failovers alone, and nothing that keeps a second holder out.
    Unprotected,
    /// The same failovers, with a grace as long as the longest lease, and masters that stop without a replica.
    Protected,
}

impl Play {
    const WITH_FAILOVERS_ALONE: [Self; 2] = [Self::Unprotected, Self::Protected];

    pub fn is_failovers_alone(self) -> bool {
        self != Self::Everything
    }

    /// The length of a round, from and to.
    pub fn round(self) -> (Duration, Duration) {
        match self.each_failover() {
            Some(each) => (each * 2, each * 6),
            // A shorter round has hardly begun; a longer one makes a history that takes longer to read than to repeat.
            None => (Duration::from_secs(4), Duration::from_secs(8)),
        }
    }

    /// The time from one failover to the next, if they are played alone: it lasts until the servers are restored, and locks
    /// are granted again.
    pub fn each_failover(self) -> Option<Duration> {
        match self {
            Self::Everything => None,
            Self::Unprotected => Some(Duration::from_secs(8)),
            Self::Protected => Some(Duration::from_secs(20)),
        }
    }

    /// How many replicas a server needs to write when all is calm.
    pub fn min_replicas(self) -> &'static str {
        if self == Self::Protected { "1" } else { "0" }
    }

    pub fn server_options(self) -> &'static [&'static str] {
        match self {
            Self::Everything | Self::Unprotected => &[],
            Self::Protected => &["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"],
        }
    }

    /// The settings of the module that are not the defaults.
    pub fn settings(self) -> Vec<String> {
        match self {
            Self::Everything | Self::Unprotected => Vec::new(),
            Self::Protected => vec!["grace".to_owned(), LONGEST_LEASE_MS.to_string()],
        }
    }

    /// How long a server has to be silent until others replace it, if the harness sets that.
    pub fn silent_ms(self) -> Option<u64> {
        match self {
            Self::Everything => None,
            Self::Unprotected => Some(SILENT_MS),
            Self::Protected => Some(SILENT_UNDER_PROTECTION_MS),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    pub kind: WorldKind,
    pub play: Play,
}

impl Stage {
    /// The default of a run.
    pub fn of_a_run() -> Vec<Self> {
        WorldKind::ALL.map(|kind| Self { kind, play: Play::Everything }).to_vec()
    }

    /// The stage of that name, or all of `failovers`; none if the name is unknown.
    pub fn by_name(name: &str) -> Vec<Self> {
        let failovers = WorldKind::WITH_REPLICAS.into_iter().flat_map(Self::with_failovers_alone);
        if name == "failovers" {
            return failovers.collect();
        }
        let everything = WorldKind::ALL.into_iter().map(|kind| Self { kind, play: Play::Everything });
        everything.chain(failovers).filter(|stage| stage.name() == name).collect()
    }

    fn with_failovers_alone(kind: WorldKind) -> [Self; 2] {
        Play::WITH_FAILOVERS_ALONE.map(|play| Self { kind, play })
    }

    pub fn name(self) -> String {
        let world = format!("{:?}", self.kind).to_lowercase();
        match self.play {
            Play::Everything => world,
            Play::Unprotected => format!("{world}-unprotected"),
            Play::Protected => format!("{world}-protected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        let failovers = Stage::by_name("failovers");
        assert_eq!(failovers.len(), 6);
        let everything = WorldKind::ALL.map(|kind| Stage { kind, play: Play::Everything });
        for stage in failovers.into_iter().chain(everything) {
            assert_eq!(Stage::by_name(&stage.name()), [stage]);
        }
        assert_eq!(Stage::by_name("paradise"), []);
        assert_eq!(Stage::by_name("single-protected"), []);
    }
}
