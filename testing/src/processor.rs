//! How long a process wanted a processor and had none.
//!
//! If other processes have the processors, an answer is late through no fault of the server. The bounds are on what the server
//! does with the time it has, so the wait for a processor is measured and subtracted; on a quiet machine it is almost zero.

use crate::unix_ms;
use std::time::Duration;

/// How long a process waited for a processor, sampled from time to time.
pub struct Wanted {
    process: u32,
    /// The samples: the Unix ms, and the total wait up to that moment.
    looks: Vec<(i64, Duration)>,
}

impl Wanted {
    /// Samples this process from now on.
    pub fn by(process: u32) -> Self {
        let mut wanted = Self { process, looks: Vec::new() };
        wanted.look();
        wanted
    }

    /// Takes a sample, and returns the total wait so far.
    pub fn look(&mut self) -> Duration {
        let before = self.looks.last().map_or(Duration::ZERO, |look| look.1);
        // A process that has died wants nothing any more.
        let wanted = was_wanted(&format!("/proc/{}/schedstat", self.process)).max(before);
        self.looks.push((unix_ms(), wanted));
        wanted
    }

    /// How many ms the process waited between these moments, as far as the samples show it.
    pub fn ms_between(&self, from: i64, to: i64) -> i64 {
        let first = self.looks.partition_point(|look| look.0 <= from).saturating_sub(1);
        let last = self.looks.partition_point(|look| look.0 < to).min(self.looks.len() - 1);
        let wanted = self.looks[last.max(first)].1 - self.looks[first].1;
        i64::try_from(wanted.as_millis()).expect("it is not that long")
    }
}

/// The wait of this thread since it began.
pub fn was_wanted_here() -> Duration {
    was_wanted("/proc/thread-self/schedstat")
}

/// The wait of all current threads of a process since they began.
pub fn was_wanted_by(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.map(|thread| was_wanted(&thread.path().join("schedstat").to_string_lossy())).sum()
}

/// The wait of a thread; of a process's first thread if the file is a process's. In a server, the first one does
/// everything. If the system does not report the wait, it counts as zero.
fn was_wanted(file: &str) -> Duration {
    let statistics = std::fs::read_to_string(file).unwrap_or_default();
    let waited_ns = statistics.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(waited_ns.unwrap_or(0))
}
