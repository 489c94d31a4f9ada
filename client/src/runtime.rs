//! The client's own thread: all connections, renewals and attempts to acquire live on it, for all clients of the program.
//!
//! A program whose own tasks hold up its runtime keeps its locks all the same; one that goes from one runtime to another,
//! as tests do, takes its client along; and what goes on in the background does not end with the caller's runtime.

use crate::error::{Error, ErrorKind};
use std::future::pending;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// For as long as the program runs, once a client was opened.
static THREAD: Mutex<Option<Handle>> = Mutex::new(None);

/// # Errors
/// The system has no thread for it, or no file descriptors.
pub(crate) fn start() -> Result<Handle, Error> {
    begin().map_err(|error| Error::because(ErrorKind::Unavailable, "the client's thread", error.into()))
}

fn begin() -> io::Result<Handle> {
    let mut present = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*present {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("rlock-client".to_owned()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(present.insert(handle).clone())
}

/// What goes on in that thread for somebody: until it is done, or until this is dropped.
pub(crate) struct Task<T>(JoinHandle<T>);

pub(crate) fn spawn<T: Send + 'static>(thread: &Handle, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task(thread.spawn(work))
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(done) => Poll::Ready(done),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // Only by the end of the program.
            Err(_) => Poll::Pending,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
