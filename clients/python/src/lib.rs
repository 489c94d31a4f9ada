//! What Python asks of rlock-client, in five classes that its package wraps: a client, a call that is under way, what is
//! held, whose turn it is in an event loop, and the lines for its logs.
//!
//! **The interpreter's lock (GIL)** is let go wherever a thread is blocked. The client's own thread never wants it: a call
//! of an event loop that can go on is put into a list, and the loop is told of the list, once for all that is in it. So
//! leases are renewed whoever has the GIL.
//!
//! **A process that was forked** has none of the client's threads, and perhaps a mutex that is locked for ever. So nothing
//! of its parent's is looked into there, or even dropped: it is forgotten, and a client is opened anew by its settings.
//! The mutexes of this file that are looked into before that are locked by those who have the GIL, as has who forks.

mod ending;
mod logs;

use ending::Inside;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use rlock_bindings::{Held, Place, Settings, Terms, Wanted, acquire, adopt, detach, is_locked, once, word};
use rlock_client::{Address, Begun, Error, Guard, Lead, Locks, block_on, block_on_for};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore, mpsc};

/// How long a signal, such as Ctrl-C, waits to be seen at most.
const SIGNALS: Duration = Duration::from_millis(50);

const CLOSED: &str = "the client was closed";

type Outcome = Result<Answer, Failure>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What a call came to.
enum Answer {
    Done,
    /// With its tokens.
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

/// What becomes an exception.
struct Failure {
    word: &'static str,
    text: String,
    code: Option<String>,
    /// Why a lock was lost.
    reason: Option<&'static str>,
}

impl Failure {
    fn new(word: &'static str, about: &str, why: &str) -> Self {
        Self { word, text: format!("{about}: {why}"), code: None, reason: None }
    }

    fn closed(about: &str) -> Self {
        Self::new("closed", about, CLOSED)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, reason) = (error.code().map(str::to_owned), error.loss().map(|loss| loss.word()));
        Self { word: word(&error), text: error.to_string(), code, reason }
    }
}

impl From<Failure> for PyErr {
    fn from(Failure { word, text, code, reason }: Failure) -> Self {
        Python::attach(|py| {
            let of = py.import("rlock_client.errors").and_then(|it| it.getattr("of"));
            let raised = of.and_then(|of| of.call1((word, text, code, reason)));
            raised.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A time that Python gives in seconds. None: for ever.
fn time(about: &str, seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    seconds.filter(|it| *it != f64::INFINITY).map(|it| span(about, it)).transpose()
}

fn lease(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    seconds.map(|it| span("lease", it)).transpose()
}

fn span(about: &str, seconds: f64) -> Result<Duration, Failure> {
    let refused = |_| Failure::new("configuration", about, &format!("{seconds} is not a time in seconds, at least 0"));
    Duration::try_from_secs_f64(seconds).map_err(refused)
}

fn count(about: &str, number: i64) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| Failure::new("configuration", about, &format!("{number} is out of range")))
}

/// The settings of a client, and what was opened by them in this process.
#[pyclass(frozen, module = "rlock_client._native")]
struct Client {
    place: Place,
    settings: Settings,
    open: Arc<Mutex<Open>>,
}

struct Open {
    process: u32,
    locks: Arc<OnceCell<Locks>>,
    /// Closed when nobody is to wait any more: who waits is woken by it.
    waiting: Arc<Semaphore>,
    /// Closed with the client.
    closing: Arc<Semaphore>,
    /// Each wait has one of the first, so that the second ends with the last wait.
    waits: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
    /// All that is held, and some that is not any more.
    holds: Vec<Weak<Mutex<Hold>>>,
}

impl Open {
    fn new() -> Self {
        let [waiting, closing] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let (locks, waits, holds) = (Arc::default(), mpsc::channel(1), Vec::new());
        Self { process: process::id(), locks, waiting, closing, waits, holds }
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (kind, addresses, master, user, password, db, tls, name, lease, patience, connect_timeout,
                        answer_timeout, ca, cert, key))]
    #[expect(clippy::too_many_arguments, reason = "each is a setting, and Python's side names them")]
    fn new(
        kind: &str,
        addresses: Vec<String>,
        master: String,
        user: Option<String>,
        password: Option<String>,
        db: u64,
        tls: bool,
        name: Option<String>,
        lease: Option<f64>,
        patience: Option<f64>,
        connect_timeout: Option<f64>,
        answer_timeout: Option<f64>,
        ca: Option<Vec<u8>>,
        cert: Option<Vec<u8>>,
        key: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        for address in &addresses {
            address.parse::<Address>().map_err(Failure::from)?;
        }
        let place = match kind {
            "cluster" => Place::Cluster(addresses),
            "sentinels" => Place::Sentinels { addresses, master, user, password, database: db, tls },
            _ => Place::Server(addresses.into_iter().next().unwrap_or_default()),
        };
        let settings = Settings {
            name,
            lease: self::lease(lease)?,
            patience: time("patience", patience)?,
            connect_timeout: time("connect_timeout", connect_timeout)?,
            answer_timeout: time("answer_timeout", answer_timeout)?,
            authorities: ca,
            certificate: cert,
            key,
            lazily: true,
        };
        Ok(Self { place, settings, open: Arc::new(Mutex::new(Open::new())) })
    }

    fn connect(&self) -> Call {
        let (locks, waiting) = self.opening(Settings { lazily: false, ..self.settings.clone() });
        let locks = async move { locks.await.map(|_| Answer::Done).map_err(Failure::from) };
        Call::new("connecting".into(), None, unless_closed("connecting".into(), waiting, locks))
    }

    /// Acquires what this object of Python's describes.
    fn acquire(&self, lock: Asked, wait: Option<f64>) -> PyResult<Call> {
        let (about, (wanted, terms)) = (lock.about(), lock.read(wait)?);
        Ok(self.waiting(about, |locks| acquire(locks, wanted, terms)))
    }

    /// The value of that name, or the lead.
    fn once(&self, lock: Asked, keep: f64, wait: Option<f64>) -> PyResult<Call> {
        let about = lock.about();
        let asked = rlock_bindings::Asked {
            keep: span("keep", keep)?,
            wait: time("wait", wait)?,
            lease: lease(lock.lease)?,
            max_waiters: lock.max_waiters.map(|it| count("max_waiters", it)).transpose()?,
            key: lock.names.into_iter().next().map(Name::bytes).unwrap_or_default(),
        };
        Ok(self.waiting(about, |locks| once(locks, asked)))
    }

    /// Removes the value of that name.
    fn forget(&self, lock: Asked) -> Call {
        let about = lock.about();
        let key = lock.names.into_iter().next().map(Name::bytes).unwrap_or_default();
        let (locks, waiting) = self.opening(self.settings.clone());
        let forgotten = async move { Ok(locks.await?.forget(key).await.map(|()| Answer::Done)?) };
        Call::new(about.clone(), None, unless_closed(about, waiting, forgotten))
    }

    /// Goes on with what another process has detached.
    fn adopt(&self, about: String, text: String) -> Call {
        self.waiting(about, |locks| adopt(locks, text.into_bytes()))
    }

    /// Whether any client holds what this Python object describes.
    fn locked(&self, lock: Asked) -> PyResult<Call> {
        let (about, (wanted, _)) = (lock.about(), lock.read(None)?);
        let (locks, waiting) = self.opening(self.settings.clone());
        let asked = async move { Ok(Answer::Is(is_locked(locks.await?, wanted).await?)) };
        Ok(Call::new(about.clone(), None, unless_closed(about, waiting, asked)))
    }

    /// Ends all waits, and refuses new ones.
    fn stop(&self) {
        self.here().waiting.close();
    }

    /// The same, and gives back all that is held. The call ends when the servers have said so.
    fn close(&self) -> Call {
        let mut open = self.here();
        open.waiting.close();
        open.closing.close();
        let close = |hold: Arc<Mutex<Hold>>| {
            let mut hold = locked(&hold);
            hold.guard().is_some().then(|| mem::replace(&mut *hold, Hold::Closed))
        };
        let held: Vec<_> = mem::take(&mut open.holds).iter().filter_map(Weak::upgrade).filter_map(close).collect();
        let (locks, waits) = (mem::take(&mut open.locks), mem::replace(&mut open.waits, mpsc::channel(1)));
        let settled = async move {
            // Else those who wait would be granted what is given back.
            let (wait, mut waits) = waits;
            drop(wait);
            waits.recv().await;
            drop(held);
            if let Some(locks) = locks.get() {
                locks.settle().await;
            }
            Ok(Answer::Done)
        };
        Call::new("closing".into(), None, settled)
    }
}

impl Client {
    /// A call that comes to what is then held.
    fn waiting<F, T>(&self, about: String, granted: impl FnOnce(Locks) -> F + Send + 'static) -> Call
    where
        F: Future<Output = Result<T, Error>> + Send,
        T: Into<Answer>,
    {
        let (locks, waiting) = self.opening(self.settings.clone());
        let wait = self.here().waits.0.clone();
        let granted = async move { Ok(granted(locks.await?).await?.into()) };
        let granted = unless_closed(about.clone(), waiting, granted);
        let granted = async move {
            let granted = granted.await;
            drop(wait);
            granted
        };
        Call::new(about, Some(self.open.clone()), granted)
    }

    fn here(&self) -> MutexGuard<'_, Open> {
        let mut open = locked(&self.open);
        if open.process != process::id() {
            let parents = mem::replace(&mut *open, Open::new());
            if parents.waiting.is_closed() {
                open.waiting.close();
            }
            mem::forget(parents);
        }
        open
    }

    /// The client, which the first call opens for all.
    fn opening(&self, settings: Settings) -> (impl Future<Output = Result<Locks, Error>> + use<>, Arc<Semaphore>) {
        let (locks, waiting) = {
            let open = self.here();
            (open.locks.clone(), open.waiting.clone())
        };
        let place = self.place.clone();
        (async move { locks.get_or_try_init(|| settings.connect(place)).await.cloned() }, waiting)
    }
}

/// A name or an owner, as Python gives it.
#[derive(FromPyObject)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The attributes of a lock of Python's.
#[derive(FromPyObject)]
struct Asked {
    kind: String,
    names: Vec<Name>,
    limit: i64,
    lease: Option<f64>,
    fixed: bool,
    fenced: bool,
    owner: Option<Name>,
    max_waiters: Option<i64>,
    replicas: Option<(i64, f64)>,
}

impl Asked {
    fn about(&self) -> String {
        self.names.iter().map(Name::shown).collect::<Vec<_>>().join(", ")
    }

    fn read(self, wait: Option<f64>) -> Result<(Wanted, Terms), Failure> {
        let mut names = self.names.into_iter().map(Name::bytes);
        let wanted = match self.kind.as_str() {
            "all" => Wanted::All(names.collect()),
            kind => match (kind, names.next().unwrap_or_default()) {
                ("read", name) => Wanted::Read(name),
                ("write", name) => Wanted::Write(name),
                ("permit", name) => Wanted::Permit { name, limit: count("limit", self.limit)? },
                (_, name) => Wanted::Lock(name),
            },
        };
        let replicas = match self.replicas {
            None => None,
            Some((wanted, within)) => {
                let within = time("replicas", Some(within))?.unwrap_or(Duration::MAX);
                Some((count("replicas", wanted)? as usize, within))
            }
        };
        let terms = Terms {
            wait: time("wait", wait)?,
            lease: lease(self.lease)?,
            fixed: self.fixed,
            fenced: self.fenced,
            owner: self.owner.map(Name::bytes),
            max_waiters: self.max_waiters.map(|it| count("max_waiters", it)).transpose()?,
            replicas,
        };
        Ok((wanted, terms))
    }
}

/// Does the work for as long as the client is not closed.
async fn unless_closed(about: String, closing: Arc<Semaphore>, work: impl Future<Output = Outcome>) -> Outcome {
    let (mut closed, mut work) = (pin!(closing.acquire()), pin!(work));
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(Err(Failure::closed(&about))),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await
}

/// A call that is under way, or will be: it begins when it is waited for, or started in an event loop.
#[pyclass(frozen, module = "rlock_client._native")]
struct Call(Arc<Task>);

struct Task {
    process: u32,
    about: String,
    /// Where what it acquires is kept note of.
    home: Option<Arc<Mutex<Open>>>,
    work: Mutex<Option<Work>>,
    /// In which loop it goes on, and who is told what came of it.
    told: Mutex<Option<(Arc<Queue>, Py<PyAny>)>>,
    is_queued: AtomicBool,
}

#[pymethods]
impl Call {
    /// Blocks this thread. Beyond the limit it is given up, and so it is when `stop.is_set()`; then this is None.
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
            // Dropped with the work, it leaves the queue.
            py.check_signals()?;
            if stop.map(|stop| stop.call_method0("is_set")?.is_truthy()).transpose()? == Some(true) {
                return Ok(py.None());
            }
            if left == Some(Duration::ZERO) {
                return Err(Failure::new("unavailable", &self.0.about, "no server answers in time").into());
            }
        }
    }

    /// Begins it in an event loop, which calls `done` with what it came to, or None, and an exception, or None.
    fn start(&self, py: Python<'_>, turns: &Turns, done: Py<PyAny>) {
        let Some(_inside) = Inside::enter() else { return };
        *locked(&self.0.told) = Some((turns.0.clone(), done));
        self.0.step(py);
    }

    /// Gives it up.
    fn drop(&self) {
        // An event loop of the parent's may have been about to look into it.
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
    fn new(
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

    /// Goes on with it, as far as that can be done now.
    fn step(self: &Arc<Self>, py: Python<'_>) {
        if locked(&self.told).is_none() {
            return;
        }
        let outcome = {
            let (mut work, waker) = (locked(&self.work), Waker::from(self.clone()));
            // In a call that blocks, the client trusts a waker to be harmless, and wakes it where it is.
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

    /// With the GIL: notes what is held, unless the client was closed meanwhile.
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
        // The loop takes all that have come by then. If what it reads is full, it has enough to read.
        if is_first {
            _ = (&queue.told).write(&[0]);
        }
    }
}

/// Those calls of an event loop that can go on. Called, it goes on with them.
#[pyclass(frozen, module = "rlock_client._native")]
struct Turns(Arc<Queue>);

/// An event loop reads from the first socket what is written to the second, when a call can go on. The writer needs no GIL,
/// so it is the client's own thread: that is one thread less to be woken for each answer.
struct Queue {
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

enum Hold {
    Guarded(Guard),
    /// For the work of `once`.
    Leads(Lead),
    GivenBack,
    Closed,
}

impl Hold {
    fn guard(&self) -> Option<&Guard> {
        match self {
            Self::Guarded(guard) => Some(guard),
            Self::Leads(lead) => Some(lead.guard()),
            Self::GivenBack | Self::Closed => None,
        }
    }
}

/// What is held. Dropped, it is given back in the background.
#[pyclass(frozen, name = "Hold", module = "rlock_client._native")]
struct HoldObject {
    process: u32,
    #[pyo3(get)]
    about: String,
    #[pyo3(get)]
    holder: String,
    #[pyo3(get)]
    tokens: Vec<u64>,
    hold: Arc<Mutex<Hold>>,
    closing: Arc<Semaphore>,
}

#[pymethods]
impl HoldObject {
    /// For how many seconds it can be vouched for. Zero if it is not held.
    #[getter]
    fn remaining(&self) -> f64 {
        locked(&self.hold).guard().map_or(0.0, |guard| guard.remaining().as_secs_f64())
    }

    /// Why it is lost, if it is: in a word, and in words. What was released is not lost.
    #[getter]
    fn loss(&self) -> Option<(Option<&'static str>, String)> {
        let hold = locked(&self.hold);
        match (&*hold, hold.guard()) {
            _ if self.process != process::id() => {
                Some((None, "this process was forked from the one that holds it".into()))
            }
            (Hold::Closed, _) => Some((None, CLOSED.into())),
            (_, guard) => guard?.loss().map(|loss| (Some(loss.word()), loss.to_string())),
        }
    }

    /// Gives it back; not before the call is waited for or started.
    fn release(&self) -> Call {
        let hold = mem::replace(&mut *locked(&self.hold), Hold::GivenBack);
        let about = self.about.clone();
        let released = async move {
            match hold {
                Hold::Guarded(guard) => guard.release().await.map(|()| Answer::Done).map_err(Failure::from),
                Hold::Leads(lead) => {
                    lead.give_up().await;
                    Ok(Answer::Done)
                }
                Hold::GivenBack => Err(Failure::new("lost", &about, "it was given back before")),
                Hold::Closed => Err(Failure::closed(&about)),
            }
        };
        Call::new(self.about.clone(), None, released)
    }

    /// Ends the work of `once` with its value, and gives the lock back; not before the call is waited for or started.
    fn answer(&self, value: Vec<u8>) -> Call {
        let hold = mem::replace(&mut *locked(&self.hold), Hold::GivenBack);
        let about = self.about.clone();
        let answered = async move {
            match hold {
                Hold::Leads(lead) => lead.answer(value).await.map(|()| Answer::Done).map_err(Failure::from),
                Hold::Closed => Err(Failure::closed(&about)),
                Hold::Guarded(_) | Hold::GivenBack => Err(Failure::new("lost", &about, "it was given back before")),
            }
        };
        Call::new(self.about.clone(), None, answered)
    }

    /// Hands it on, with so many seconds for that; not before the call is waited for or started. If it fails, it stays here.
    fn detach(&self, within: Option<f64>) -> PyResult<Call> {
        let (about, within) = (self.about.clone(), within.map(|it| span("within", it)).transpose()?);
        let detaching = match &*locked(&self.hold) {
            Hold::Guarded(guard) => Ok(detach(guard, within)),
            Hold::Leads(_) => Err(Failure::new("configuration", &about, "the work of `once` cannot be detached")),
            Hold::GivenBack => Err(Failure::new("lost", &about, "it was given back before")),
            Hold::Closed => Err(Failure::closed(&about)),
        };
        let hold = self.hold.clone();
        let detached = async move {
            let text = detaching?.await?;
            drop(mem::replace(&mut *locked(&hold), Hold::GivenBack));
            Ok(Answer::Text(text))
        };
        Ok(Call::new(about, None, detached))
    }

    /// Ends when it is lost, with an error when the client is closed, and never once it was given back.
    fn until_lost(&self) -> Call {
        let lost = locked(&self.hold).guard().map(Guard::lost);
        let lost = async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
            Ok(Answer::Done)
        };
        Call::new(self.about.clone(), None, unless_closed(self.about.clone(), self.closing.clone(), lost))
    }

    /// Gives it back in the background.
    fn drop(&self) {
        if self.process == process::id() {
            *locked(&self.hold) = Hold::GivenBack;
        }
    }
}

impl Drop for HoldObject {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.hold.clone());
        }
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ending::begin();
    logs::hand_on();
    module.add_function(wrap_pyfunction!(ending::end, module)?)?;
    module.add_class::<Client>()?;
    module.add_class::<Call>()?;
    module.add_class::<Turns>()?;
    module.add_class::<HoldObject>()
}
