//! The client's own thread: all connections, renewals and attempts to acquire live on it, for all clients of the program.
//!
//! A program whose own tasks hold up its runtime keeps its locks all the same; one that goes from one runtime to another,
//! as tests do, takes its client along; and what goes on in the background does not end with the caller's runtime.
//!
//! Work goes there by a channel: to wake that thread takes a system call each time, and whoever finds it awake needs
//! none.
//!
//! **A process that is forked from this one has no such thread**, so what it has of a client is good for nothing, and it is
//! told so. What is opened there has a thread of its own.

use crate::alarms::{Alarm, Alarms};
use crate::error::{Error, ErrorKind};
use crate::foreign::{self, heard};
use futures_util::future::BoxFuture;
use std::io;
use std::pin::Pin;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use tokio::runtime::Builder;
#[cfg(feature = "blocking")]
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// So that a server that comes back is not flooded, nor the thread busy with nothing but handshakes.
const OPENING_MAX: usize = 8;

/// For as long as the program runs, once a client was opened.
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

#[derive(Clone)]
pub(crate) struct Thread {
    #[cfg(feature = "blocking")]
    runtime: Handle,
    work: UnboundedSender<BoxFuture<'static, ()>>,
    alarms: Arc<Alarms>,
    /// For those that open a connection there.
    pub(crate) opening: Arc<Semaphore>,
    /// In which it runs.
    process: u32,
}

/// It will never be done: it has panicked.
#[derive(Debug)]
pub(crate) struct Ended;

impl Ended {
    pub(crate) fn into_error(self, about: &[u8]) -> Error {
        Error::because(ErrorKind::Unavailable, about, io::Error::other("the client's thread does not answer").into())
    }
}

impl Thread {
    /// # Errors
    /// The system has no thread for it, or no file descriptors.
    pub(crate) fn start() -> Result<Self, Error> {
        let mut present = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
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
        let (work, arriving) = unbounded_channel();
        let thread = Self {
            #[cfg(feature = "blocking")]
            runtime: runtime.handle().clone(),
            work,
            alarms: Alarms::begin()?,
            opening: Arc::new(Semaphore::new(OPENING_MAX)),
            process: process::id(),
        };
        let all = move || {
            foreign::learn(&runtime);
            runtime.block_on(begin_all(arriving));
        };
        thread::Builder::new().name("rlock-client".to_owned()).spawn(all)?;
        Ok(thread)
    }

    /// Whether it is there: it belongs to this process, and not to the one that this was forked from.
    pub(crate) fn is_here(&self) -> bool {
        self.process == process::id()
    }

    /// # Errors
    /// It is not there.
    pub(crate) fn check(&self, about: &[u8]) -> Result<(), Error> {
        let why = "this process was forked from the one that opened the client, and has to open one of its own";
        if self.is_here() { Ok(()) } else { Err(Error::configuration(about, why)) }
    }

    /// Resolves at that time, also if this thread is late.
    pub(crate) fn alarm(&self, time: Instant) -> Alarm {
        self.alarms.at(time)
    }

    /// Does the work there for a caller.
    ///
    /// # Errors
    /// It is not there; and the work's own.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        about: &[u8],
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.check(about)?;
        heard(self.spawn(work)).await.unwrap_or_else(|ended| Err(ended.into_error(about)))
    }

    /// Does the work there, until it is done or what this returns is dropped.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let ((tell, done), (cancel, mut cancelled)) = (oneshot::channel(), oneshot::channel());
        self.detach(async move {
            let done = {
                tokio::pin!(work);
                tokio::select! {
                    biased;
                    last = &mut cancelled => Err(last),
                    done = &mut work => Ok(done),
                }
            };
            match done {
                // If it has been dropped in this moment, so is what was done.
                Ok(done) => drop(tell.send(done)),
                // Now that nothing is left of the work.
                Err(last) => drop(last),
            }
            // With the last of one that was cancelled in this moment.
            drop(cancelled);
        });
        Task { done, cancel: Some(cancel) }
    }

    /// Does the work there, whoever waits for it.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Never an error, as the thread never ends.
        let _ = self.work.send(Box::pin(work));
    }

    /// Does the work here.
    #[cfg(feature = "blocking")]
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

async fn begin_all(mut arriving: UnboundedReceiver<BoxFuture<'static, ()>>) {
    while let Some(work) = arriving.recv().await {
        tokio::spawn(work);
    }
}

/// What goes on in that thread for somebody, until this is dropped.
pub(crate) struct Task<T> {
    done: oneshot::Receiver<T>,
    cancel: Option<oneshot::Sender<Last>>,
}

/// Dropped as the last of what is cancelled.
type Last = Box<dyn Send>;

impl<T> Task<T> {
    /// Drops the work there, and then `last`. If it is done already, `last` is dropped at once.
    pub(crate) fn cancel(&mut self, last: impl Send + 'static) {
        let _ = self.cancel.take().map(|cancel| cancel.send(Box::new(last)));
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(context).map_err(|_| Ended)
    }
}
