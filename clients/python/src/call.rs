//! Calls that are under way. A thread waits for one, or an event loop goes on with those that can go on.

use crate::asked::time;
use crate::ending::Inside;
use crate::hold::{Hold, HoldObject};
use crate::{Failure, Open, locked};
use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use rlock_bindings::Held;
use rlock_client::{Begun, block_on, block_on_for};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{mem, process};
use tokio::sync::Semaphore;

/// The longest time until a signal, such as Ctrl-C, is noticed.
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);

pub(crate) type Outcome = Result<Answer, Failure>;
pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The result of a call.
pub(crate) enum Answer {
    Done,
    /// A hold, and its fencing tokens.
    Granted(Hold, Vec<u64>),
    Value(Vec<u8>),
    Is(bool),
    Text(String),
}

impl From<Held> for Answer {
    fn from(held: Held) -> Self {
        Self::Granted(Hold::Guarded(held.guard), held.tokens)
    }
}

impl From<Begun> for Answer {
    fn from(begun: Begun) -> Self {
        match begun {
            Begun::Answer(value) => Self::Value(value),
            Begun::Lead(lead) => Self::Granted(Hold::Leads(lead), Vec::new()),
        }
    }
}

/// Does the work until it ends or the client is closed.
pub(crate) async fn unless_closed(
    about: String,
    closing: Arc<Semaphore>,
    work: impl Future<Output = Outcome>,
) -> Outcome {
    let (mut closed, mut work) = (pin!(closing.acquire()), pin!(work));
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(Err(Failure::closed(&about))),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await
}

/// A call. It begins when a thread waits for it, or when it is started in an event loop.
#[pyclass(frozen, module = "rlock_client._native")]
pub(crate) struct Call(Arc<Task>);

pub(crate) struct Task {
    process: u32,
    about: String,
    /// Where the hold that it gets is noted.
    home: Option<Arc<Mutex<Open>>>,
    work: Mutex<Option<Work>>,
    /// The loop in which it goes on, and the function that gets its outcome.
    told: Mutex<Option<(Arc<Queue>, Py<PyAny>)>>,
    is_queued: AtomicBool,
}

#[pymethods]
impl Call {
    /// Blocks this thread until the call ends. After the limit it fails; if `stop.is_set()`, it returns None. Both give it up.
    #[pyo3(signature = (limit=None, stop=None))]
    fn wait(&self, py: Python<'_>, limit: Option<f64>, stop: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let limit = time("limit", limit)?.and_then(|limit| Instant::now().checked_add(limit));
        let Some(mut work) = locked(&self.0.work).take() else {
            return Err(PyRuntimeError::new_err("it has been waited for"));
        };
        loop {
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SIGNALS, |left| left.min(SIGNALS));
            let (outcome, _inside) = py.detach(|| (block_on_for(Pin::new(&mut work), slice), Inside::enter_or_rest()));
            if let Some(outcome) = outcome {
                return self.0.result(py, outcome);
            }
            // Each return below drops the work, so its waiter leaves the queue.
            py.check_signals()?;
            if stop.map(|stop| stop.call_method0("is_set")?.is_truthy()).transpose()? == Some(true) {
                return Ok(py.None());
            }
            if left == Some(Duration::ZERO) {
                return Err(Failure::new("unavailable", &self.0.about, "no server answers in time").into());
            }
        }
    }

    /// Begins it in an event loop, which calls `done` with two arguments: the result or None, and an exception or None.
    fn start(&self, py: Python<'_>, turns: &Turns, done: Py<PyAny>) {
        let Some(_inside) = Inside::enter() else { return };
        *locked(&self.0.told) = Some((turns.0.clone(), done));
        self.0.step(py);
    }

    /// Gives the call up.
    fn drop(&self) {
        // In a forked process, an event loop of the parent may have been about to read the call.
        if self.0.process == process::id() {
            let (work, told) = (locked(&self.0.work).take(), locked(&self.0.told).take());
            drop((work, told));
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.told.try_lock().ok().as_deref() {
            Some(Some((_, done))) => visit.call(done),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        self.drop();
    }
}

impl Call {
    pub(crate) fn new(
        about: String,
        home: Option<Arc<Mutex<Open>>>,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) -> Self {
        let (work, told) = (Mutex::new(Some(Box::pin(work) as Work)), Mutex::default());
        Self(Arc::new(Task { process: process::id(), about, home, work, told, is_queued: AtomicBool::new(false) }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        Self::drop(self);
        if self.0.process != process::id() {
            mem::forget(self.0.clone());
        }
    }
}

impl Task {
    fn queue(&self) -> Option<Arc<Queue>> {
        locked(&self.told).as_ref().map(|(queue, _)| queue.clone())
    }

    /// Goes on with the call as far as it can now.
    fn step(self: &Arc<Self>, py: Python<'_>) {
        if locked(&self.told).is_none() {
            return;
        }
        let outcome = {
            let (mut work, waker) = (locked(&self.work), Waker::from(self.clone()));
            // `block_on`: during a blocking call, the client trusts wakers to be harmless, and calls them directly.
            let polled = work
                .as_mut()
                .map(|work| block_on(poll_fn(|_| Poll::Ready(work.as_mut().poll(&mut Context::from_waker(&waker))))));
            let Some(Poll::Ready(outcome)) = polled else { return };
            *work = None;
            outcome
        };
        let told = locked(&self.told).take();
        if let Some((_, done)) = told {
            let told = match self.result(py, outcome) {
                Ok(value) => done.call1(py, (value, py.None())),
                Err(error) => done.call1(py, (py.None(), error.into_value(py))),
            };
            told.map_or_else(|error| error.write_unraisable(py, None), |_| ());
        }
    }

    fn result(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
        match (outcome?, &self.home) {
            (Answer::Granted(hold, tokens), Some(home)) => Ok(Py::new(py, self.noted(hold, tokens, home)?)?.into_any()),
            (Answer::Value(value), _) => Ok(PyBytes::new(py, &value).into_any().unbind()),
            (Answer::Text(text), _) => Ok(PyString::new(py, &text).into_any().unbind()),
            (Answer::Is(it), _) => Ok(PyBool::new(py, it).to_owned().into_any().unbind()),
            _ => Ok(py.None()),
        }
    }

    /// Notes the hold, unless the client was closed meanwhile. Called with the GIL.
    fn noted(&self, hold: Hold, tokens: Vec<u64>, home: &Mutex<Open>) -> Result<HoldObject, Failure> {
        let mut open = locked(home);
        if open.closing.is_closed() {
            return Err(Failure::closed(&self.about));
        }
        let holder = hold.guard().map(|guard| guard.holder().into_owned()).unwrap_or_default();
        let (about, hold) = (self.about.clone(), Arc::new(Mutex::new(hold)));
        if open.holds.len() == open.holds.capacity() {
            open.holds.retain(|hold| hold.strong_count() > 0);
        }
        open.holds.push(Arc::downgrade(&hold));
        let closing = open.closing.clone();
        Ok(HoldObject { process: self.process, about, holder, tokens, hold, closing })
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.is_queued.swap(true, AcqRel) {
            return;
        }
        let Some(queue) = self.queue() else { return };
        let is_first = {
            let mut ready = locked(&queue.ready);
            ready.push(self);
            ready.len() == 1
        };
        // The loop will take all calls that are ready. If its socket is full, it has enough to read.
        if is_first {
            _ = (&queue.told).write(&[0]);
        }
    }
}

/// The calls of an event loop that can go on. Calling this object goes on with them.
#[pyclass(frozen, module = "rlock_client._native")]
pub(crate) struct Turns(Arc<Queue>);

/// When a call can go on, the client's own thread writes a byte to one of two sockets, and the event loop reads it from the
/// other. That thread needs no GIL: one thread less to wake for each answer.
pub(crate) struct Queue {
    read: UnixStream,
    told: UnixStream,
    ready: Mutex<Vec<Arc<Task>>>,
}

#[pymethods]
impl Turns {
    #[new]
    fn new() -> PyResult<Self> {
        let (read, told) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        told.set_nonblocking(true)?;
        Ok(Self(Arc::new(Queue { read, told, ready: Mutex::default() })))
    }

    #[getter]
    fn fileno(&self) -> RawFd {
        self.0.read.as_raw_fd()
    }

    fn __call__(&self, py: Python<'_>) {
        let Some(_inside) = Inside::enter() else { return };
        _ = (&self.0.read).read(&mut [0; 64]);
        let ready = mem::take(&mut *locked(&self.0.ready));
        for task in ready {
            task.is_queued.store(false, Release);
            task.step(py);
        }
    }
}
