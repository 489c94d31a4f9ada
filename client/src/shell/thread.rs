//! The client's own thread: connections are made there, and those live there that no caller waits on; for all clients of the
//! program.
//!
//! A program whose own tasks hold up its runtime keeps its locks all the same; one that goes from one runtime to another,
//! as tests do, takes its client along; and what goes on in the background does not end with the caller's runtime.
//!
//! **A process that is forked from this one has no such thread**, so what it has of a client is good for nothing, and it is
//! told so. What is opened there has a thread of its own.

use crate::alarms::Alarms;
use crate::foreign;
use crate::here::Here;
use crate::mutex::lock;
use rlock_client_core::{Error, ErrorKind};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;

/// So that a server that comes back is not flooded, nor the thread busy with nothing but handshakes.
const OPENING_MAX: usize = 8;

/// For as long as the program runs, once a client was opened.
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) runtime: Handle,
    pub(crate) alarms: Arc<Alarms>,
    /// For those that open a connection there.
    pub(super) opening: Arc<Semaphore>,
    pub(crate) here: Here,
}

impl Thread {
    /// # Errors
    /// The system has no thread for it, or no file descriptors.
    pub(crate) fn start() -> Result<Self, Error> {
        let mut present = lock(&THREAD);
        if let Some(thread) = present.as_ref().filter(|thread| thread.is_here()) {
            return Ok(thread.clone());
        }
        // What there is of another process's is left alone.
        std::mem::forget(present.take());
        let thread = Self::begin();
        let thread =
            thread.map_err(|error| Error::because(ErrorKind::Unavailable, "the client's thread", error.into()));
        Ok(present.insert(thread?).clone())
    }

    fn begin() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (opening, here) = (Arc::new(Semaphore::new(OPENING_MAX)), Here::new()?);
        let thread = Self { runtime: runtime.handle().clone(), alarms: Alarms::begin()?, opening, here };
        let all = move || {
            foreign::this_thread_is_ours();
            foreign::learn(&runtime);
            runtime.block_on(std::future::pending::<()>());
        };
        thread::Builder::new().name("rlock-client".to_owned()).spawn(all)?;
        Ok(thread)
    }

    /// Whether it is there: it belongs to this process, and not to the one that this was forked from.
    pub(crate) fn is_here(&self) -> bool {
        self.here.is_here()
    }

    /// # Errors
    /// It is not there.
    pub(crate) fn check(&self, about: &[u8]) -> Result<(), Error> {
        let why = "this process was forked from the one that opened the client, and has to open one of its own";
        if self.is_here() { Ok(()) } else { Err(Error::configuration(about, why)) }
    }
}
