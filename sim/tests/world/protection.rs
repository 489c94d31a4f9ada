//! What keeps a lock to one holder through a failover, each half on a switch of its own: docs/proof/failover.md.

use crate::histories::{ROUGH, Style, many, one_breaks};
use crate::world::Topology;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// `rlock.grace`: a new or restarted master grants nothing for this time.
    pub grace: Duration,
    /// The protection is complete, except for what a test has switched off: no lock may have two holders.
    pub promises_one_holder: bool,
    /// `min-replicas-max-lag`, together with `min-replicas-to-write 1`. None: a master needs no replica.
    pub lag: Option<Duration>,
    /// A replica takes over only when no server has heard of the master for this time.
    pub failover: Duration,
    pub start_begins_grace: bool,
    /// A master that was suspended holds everything back until it knows its replicas again.
    pub standstill_is_noticed: bool,
    /// No replica stays with a master that was replaced.
    pub replicas_move: bool,
    pub tokens_by_clock: bool,
    /// A replica of a cluster names its master.
    pub is_cluster: bool,
}

impl Protection {
    pub const NONE: Self = Self {
        grace: Duration::ZERO,
        promises_one_holder: false,
        lag: None,
        failover: Duration::ZERO,
        start_begins_grace: true,
        standstill_is_noticed: true,
        replicas_move: true,
        tokens_by_clock: true,
        is_cluster: false,
    };

    /// For leases of up to 6 s by clocks that differ as much as they may.
    pub const WHOLE: Self = Self {
        grace: Duration::from_secs(6),
        promises_one_holder: true,
        lag: Some(Duration::from_secs(2)),
        failover: Duration::from_millis(3_050),
        ..Self::NONE
    };
}

/// Promotions, partitions with two masters, restarts without data, suspended servers.
pub fn failovers(topology: Topology) -> Style {
    let name = match topology {
        Topology::Single => "protected, one name",
        Topology::Sentinels => "protected, sentinels",
        Topology::Cluster => "protected, cluster",
    };
    Style {
        name,
        topology,
        programs: 5,
        servers: 3,
        faults: 6,
        server_faults: 14,
        protection: Protection::WHOLE,
        moves: 300,
        leases_ms: &[700, 6_000, 6_000, 6_000],
        ..ROUGH
    }
}

const ONE_HOLDER: &[&str] = &["has two holders", "has the token"];
const TOKENS_GROW: &[&str] = &["has the token"];

const TOPOLOGIES: [Topology; 3] = [Topology::Single, Topology::Sentinels, Topology::Cluster];

#[test]
fn one_holds_the_lock_through_any_failover() {
    TOPOLOGIES.into_iter().for_each(|topology| many(failovers(topology), 200));
}

/// An owner enters its lock again, also through a failover.
#[test]
fn an_owner_holds_its_lock_alone_through_any_failover() {
    let style = failovers(Topology::Sentinels);
    many(Style { name: "protected, owners", owners: true, late: false, ..style }, 300);
}

/// Some callers want an answer, and the others want the lock alone.
#[test]
fn one_leads_through_any_failover() {
    for topology in TOPOLOGIES {
        many(Style { name: "protected, once", once: 60, ..failovers(topology) }, 100);
    }
}

/// If each lock is confirmed at the grant and at each renewal, and servers lose nothing when they start again, the grace
/// alone is enough.
#[test]
fn confirmed_locks_need_the_grace_alone() {
    for topology in TOPOLOGIES {
        let style = failovers(topology);
        let protection = Protection { lag: None, failover: Duration::ZERO, ..style.protection };
        many(Style { name: "confirmed, with a grace alone", confirmed: 100, protection, ..style }, 300);
    }
}

fn breaks(promises: &[&str], change: impl Fn(&mut Protection)) {
    breaks_from([0; 3], promises, change);
}

/// From these seeds on, one for each topology.
fn breaks_from(first: [u64; 3], promises: &[&str], change: impl Fn(&mut Protection)) {
    for (topology, first) in TOPOLOGIES.into_iter().zip(first) {
        let mut style = failovers(topology);
        change(&mut style.protection);
        one_breaks(style, promises, first..first + 3_000);
    }
}

#[test]
fn breaks_without_a_grace() {
    breaks(ONE_HOLDER, |protection| protection.grace = Duration::ZERO);
}

#[test]
fn breaks_if_the_old_master_goes_on() {
    breaks(ONE_HOLDER, |protection| protection.lag = None);
}

#[test]
fn breaks_if_the_failover_comes_before_the_old_master_stops() {
    // No earlier seed breaks it, and to try them all takes half a minute.
    breaks_from([1_000, 2_400, 2_400], ONE_HOLDER, |protection| {
        (protection.lag, protection.failover) = (Some(Duration::from_secs(5)), Duration::from_millis(1));
    });
}

#[test]
fn breaks_if_a_start_begins_no_grace() {
    breaks(ONE_HOLDER, |protection| protection.start_begins_grace = false);
}

#[test]
fn breaks_if_a_standstill_is_not_noticed() {
    breaks(ONE_HOLDER, |protection| protection.standstill_is_noticed = false);
}

#[test]
fn breaks_if_another_replica_stays_with_the_old_master() {
    breaks(ONE_HOLDER, |protection| protection.replicas_move = false);
}

#[test]
fn breaks_if_tokens_are_counted() {
    breaks(TOKENS_GROW, |protection| protection.tokens_by_clock = false);
}
