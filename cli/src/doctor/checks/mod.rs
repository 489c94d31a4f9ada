//! The checks: each is a function of the readings, and sends no request. Missing readings cause no finding, except in
//! `unknown`, which reports them.

mod address;
mod clocks;
mod cluster;
#[cfg(test)]
pub mod example;
mod failover;
mod grace;
mod memory;
mod module;
mod persistence;
mod replicas;
mod rights;
mod sentinels;
mod unknown;

pub use grace::RUNNING as GRACE;
pub use unknown::SILENT;

use super::finding::{Finding, gathered};
use super::reading::Reading;

pub fn all(reading: &Reading) -> Vec<Finding> {
    let misdirected = address::look(reading);
    // Other findings would not be about the servers that have the locks.
    if !misdirected.is_empty() {
        return misdirected;
    }
    let checks = [
        module::look,
        sentinels::look,
        cluster::look,
        replicas::look,
        failover::look,
        grace::look,
        persistence::look,
        memory::look,
        clocks::look,
        rights::look,
        unknown::look,
    ];
    gathered(checks.iter().flat_map(|look| look(reading)).collect())
}
