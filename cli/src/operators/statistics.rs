//! The module's section of INFO.

use super::ask;
use super::fields::bytes;
use super::unanswered::Unanswered;
use rlock_client::Master;
use std::collections::BTreeMap;
use std::time::Duration;

/// One server's counters, from `INFO rlock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Its address.
    pub server: String,
    /// Each line by its name, without `rlock_` before it: `grants`, `waiters` …
    figures: BTreeMap<String, String>,
}

pub async fn statistics(masters: &[Master]) -> Result<Vec<Statistics>, Unanswered> {
    let answers = ask::of_each(masters, &["INFO", "replication", "rlock"]).await?;
    let read = |(master, answer): (Master, _)| {
        let info = bytes(answer).ok_or(Unanswered::Nonsense)?;
        match info.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"role:slave")) {
            true => Err(Unanswered::OfAReplica),
            false => Ok(Statistics::read(master.address(), &info)),
        }
    };
    answers.into_iter().map(read).collect()
}

/// The longest remaining grace of these servers. `None`: each grants locks, or one does not answer.
pub async fn grace_left(masters: &[Master]) -> Option<Duration> {
    let left = statistics(masters).await.ok()?.iter().filter_map(|statistics| statistics.number("grace_left_ms")).max();
    left.filter(|left| *left > 0).map(Duration::from_millis)
}

impl Statistics {
    fn read(server: &str, lines: &[u8]) -> Self {
        let lines = String::from_utf8_lossy(lines);
        let pairs = lines.lines().filter_map(|line| line.trim_end().strip_prefix("rlock_")?.split_once(':'));
        let figures = pairs.map(|(name, figure)| (name.to_owned(), figure.to_owned())).collect();
        Self { server: server.to_owned(), figures }
    }

    /// One figure, if it is reported and is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.figures.get(name)?.parse().ok()
    }
}
