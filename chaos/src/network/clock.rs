//! The clock that a server goes by.

use std::io;
use std::path::Path;

pub struct ServerClock {}

impl ServerClock {
    pub fn new(_directory: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub fn environment(&self) -> Vec<(&'static str, String)> {
        todo!()
    }

    pub fn step(&self, _by_ms: i64) {
        todo!()
    }

    pub fn offset_ms(&self) -> i64 {
        todo!()
    }
}
