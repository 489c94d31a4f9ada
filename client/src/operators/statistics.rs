//! The module's section of INFO.

use super::ask;
use super::fields::read;
use crate::error::Error;
use crate::link::Fault;
use crate::locks::Locks;
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

impl Locks {
    /// The module's section of `INFO`, of each master.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if a master does not answer.
    pub async fn statistics(&self) -> Result<Vec<Statistics>, Error> {
        let about = |fault: Fault| fault.into_error(b"statistics");
        let command = redis::cmd("INFO").arg("rlock").clone();
        let answers = ask::read_from_masters(&self.shared, &command).await.map_err(about)?;
        let read = answers.into_iter().map(|(node, answer)| Statistics::read(node.name(), answer));
        read.collect::<Result<_, _>>().map_err(about)
    }
}

impl Statistics {
    fn read(server: &str, answer: Value) -> Result<Self, Fault> {
        let lines: String = read(answer)?;
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
