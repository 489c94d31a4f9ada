//! The module's section of INFO.

use super::fields::read;
use crate::link::Fault;
use redis::Value;
use std::collections::BTreeMap;

/// What one server counts, as `INFO rlock` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Its address.
    pub server: String,
    /// Each line by its name, without `rlock_` before it: `grants`, `waiters` …
    pub figures: BTreeMap<String, String>,
}

impl Statistics {
    pub(super) fn read(server: &str, told: Value) -> Result<Self, Fault> {
        let lines: String = read(told)?;
        let pairs = lines.lines().filter_map(|line| line.trim_end().strip_prefix("rlock_")?.split_once(':'));
        let figures = pairs.map(|(name, figure)| (name.to_owned(), figure.to_owned())).collect();
        Ok(Self { server: server.to_owned(), figures })
    }

    /// One figure, if it is told and is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.figures.get(name)?.parse().ok()
    }
}
