//! What Python needs of rlock-client, in classes that the Python package wraps: a client, a call that is under way, a hold,
//! and the turns of an event loop; and the lines for its logs.
//!
//! **The interpreter's lock (GIL)** is released wherever a thread is blocked. The client's own thread never takes it:
//! when a call of an event loop can go on, that thread puts the call into a list, and notifies the loop once for the whole
//! list. So leases are renewed whichever thread has the GIL.
//!
//! **A forked process** has none of the client's threads, and perhaps a mutex that stays locked forever. So it neither reads
//! nor drops anything of its parent: it forgets that, and opens a client again by its settings. Before that it reads only
//! those mutexes of this crate that are locked by threads with the GIL, and the forking thread had the GIL.

mod asked;
mod call;
mod ending;
mod hold;
mod logs;

use asked::{Asked, Name, count, lease, span, time};
use call::{Answer, Call, Turns, unless_closed};
use hold::{Hold, HoldObject};
use pyo3::prelude::*;
use rlock_bindings::{Place, Settings, acquire, adopt, is_locked, once, word};
use rlock_client::{Address, Error, Locks};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{mem, process};
use tokio::sync::{OnceCell, Semaphore, mpsc};

const CLOSED: &str = "the client was closed";

/// A failure, which becomes an exception.
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

/// The settings of a client, and the client that was opened with them in this process.
#[pyclass(frozen, module = "rlock_client._native")]
struct Client {
    place: Place,
    settings: Settings,
    open: Arc<Mutex<Open>>,
}

struct Open {
    process: u32,
    locks: Arc<OnceCell<Locks>>,
    /// Closed to end all waits: it wakes them.
    waiting: Arc<Semaphore>,
    /// Closed with the client.
    closing: Arc<Semaphore>,
    /// Each wait has a clone of the sender, so the receiver ends with the last wait.
    waits: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
    /// All holds, and some that have ended.
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
            lease: asked::lease(lease)?,
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

    /// Acquires what this Python object describes.
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

    /// Adopts a hold that another process has detached.
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

    /// The same, and releases everything that is held. The call ends when the servers have replied.
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
            // The waits end first: otherwise they would be granted the locks that are released here.
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
    /// A call that waits for a hold or an answer.
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
