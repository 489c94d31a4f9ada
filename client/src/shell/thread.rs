//! The client's own thread, one for all clients of the program: it makes connections, and reads those that no caller
//! waits on.
//!
//! So a program keeps its locks even if its own tasks block its runtime; a client can move from one runtime to another,
//! as in tests; and background work does not end with the caller's runtime.
//!
//! **A forked process has no such thread**, so its copy of a client cannot work, and calls fail with an error. A client
//! that is opened there has its own thread.

use crate::alarms::Alarms;
use crate::callbacks;
use crate::mutex::lock;
use crate::process::Process;
use rlock_client_core::{Error, ErrorKind};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;

/// How many connections are opened at a time: more would flood a restarted server, or the thread, with handshakes.
const OPENING_MAX: usize = 8;

/// It runs until the program ends, once a client was opened.
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) runtime: Handle,
    pub(crate) alarms: Arc<Alarms>,
    /// Limits how many tasks open a connection at a time.
    pub(super) opening: Arc<Semaphore>,
    pub(crate) process: Process,
}

impl Thread {
    /// # Errors
    /// The system has no thread or no file descriptors for it.
    pub(crate) fn start() -> Result<Self, Error> {
        let mut present = lock(&THREAD);
        if let Some(thread) = present.as_ref().filter(|thread| thread.is_in_this_process()) {
            return Ok(thread.clone());
        }
        // The thread of another process is left alone.
        std::mem::forget(present.take());
        let thread = Self::begin();
        let thread =
            thread.map_err(|error| Error::because(ErrorKind::Unavailable, "the client's thread", error.into()));
        Ok(present.insert(thread?).clone())
    }

    fn begin() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (opening, process) = (Arc::new(Semaphore::new(OPENING_MAX)), Process::new()?);
        let thread = Self { runtime: runtime.handle().clone(), alarms: Alarms::begin()?, opening, process };
        let all = move || {
            callbacks::mark_internal_thread();
            callbacks::learn_wakers(&runtime);
            runtime.block_on(std::future::pending::<()>());
        };
        thread::Builder::new().name("rlock-client".to_owned()).spawn(all)?;
        Ok(thread)
    }

    /// Whether it runs in this process, rather than in the parent of a fork.
    pub(crate) fn is_in_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// # Errors
    /// The thread does not run in this process.
    pub(crate) fn check(&self, about: &[u8]) -> Result<(), Error> {
        let why = "this process was forked from the one that opened the client, and has to open one of its own";
        if self.is_in_this_process() { Ok(()) } else { Err(Error::configuration(about, why)) }
    }
}
