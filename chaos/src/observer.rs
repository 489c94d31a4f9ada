//! The one who looks at locks.

use crate::history::Journal;
use std::path::PathBuf;
use std::time::Duration;

pub struct Observer {}

pub struct Observed {
    pub samples: u64,
    pub longest_silence: Duration,
}

impl Observer {
    pub fn start(
        _journal: Journal,
        _targets: impl Fn() -> Vec<(String, PathBuf)> + Send + 'static,
        _locks: Vec<String>,
        _every: Duration,
    ) -> Self {
        todo!()
    }

    pub fn stop(self) -> Observed {
        todo!()
    }
}
