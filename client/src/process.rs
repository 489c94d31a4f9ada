//! The process in which something was created. A forked process has its memory and its connections, but none of its
//! threads.

use std::io;

#[derive(Clone, Debug)]
pub(crate) struct Process(forkguard::Guard);

impl Process {
    /// # Errors
    /// The system has no memory to count forks.
    pub(crate) fn new() -> io::Result<Self> {
        forkguard::Guard::try_new().map(Self).map_err(|error| io::Error::other(error.to_string()))
    }

    /// Costs no system call.
    pub(crate) fn is_current(&self) -> bool {
        !self.0.clone().detected_fork()
    }
}
