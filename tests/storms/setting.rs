//! Settings of a server: they change what it does between commands, and that is when a storm is served.

use std::fmt;

#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// As on the server's command line.
    pub options: &'static str,
    /// The server does not search for expired keys: only an access finds them.
    pub without_active_expiry: bool,
    /// There is a replica, which must agree afterwards.
    pub has_replica: bool,
}

/// The server's chores at the lowest rate that it allows.
pub const SLOW_CHORES: &str = "--hz 10 --dynamic-hz no";

/// The server's chores at the highest rate that it allows.
pub const FAST_CHORES: &str = "--hz 500 --dynamic-hz no";

pub const AOF: &str = "--appendonly yes --appendfsync everysec";

pub const AS_IT_COMES: Setting = Setting { options: "", without_active_expiry: false, has_replica: false };

pub const WITH_REPLICA: Setting = Setting { has_replica: true, ..AS_IT_COMES };

pub const WITH_AOF: Setting = Setting { options: AOF, ..AS_IT_COMES };

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replica = if self.has_replica { " --replica" } else { "" };
        let expiry = if self.without_active_expiry { " --no-active-expiry" } else { "" };
        write!(formatter, "{}{replica}{expiry}", self.options)
    }
}
