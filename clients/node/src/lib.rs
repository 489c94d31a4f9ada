//! rlock-client for Node.js: each call has a number, and one function gets the outcome of each call. JavaScript makes the
//! public API from that.
//!
//! **A call begins in JavaScript's own thread**, which writes the request at once, **and goes on in another thread**, one for
//! all workers of the process. That thread holds nothing of the workers: it puts an outcome into the worker's queue, and a
//! worker that has ended takes nothing from its queue any more.
//!
//! **Holds stay here** until JavaScript releases them or their worker ends. If they were in JavaScript objects, the garbage
//! collector would release the locks of a program that has forgotten the object and still does what they protect.

use napi::bindgen_prelude::{Buffer, FnArgs, Object};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode::NonBlocking};
use napi::{Error, Result, Status};
use napi_derive::napi;
use rlock_bindings::{Asked, Held, Place, Settings, Terms, Wanted, acquire, adopt, detach, once, word};
use rlock_client::{Begun, Guard, Lead, Locks};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

/// The call; the word for the failure, or none; the failure's text, or else the holder; the fencing tokens; the reason of a
/// loss; the answer of [`Client::once`].
type CallbackArguments = FnArgs<(i64, Option<&'static str>, String, Vec<f64>, Option<&'static str>, Option<Buffer>)>;

/// The callback does not keep the process alive.
type Callback = ThreadsafeFunction<CallbackArguments, (), CallbackArguments, Status, false, true>;

#[napi]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    locks: Option<Locks>,
    /// Dropped only in JavaScript's thread, which may end its own side of the callback at any time.
    callback: Option<Callback>,
    /// Calls that still wait, without a hold; and holds, each with the task that waits for its loss.
    calls: HashMap<i64, (JoinHandle<()>, Option<Kept>)>,
}

/// A hold that a call has got for JavaScript.
enum Kept {
    Guard(Guard),
    Lead(Lead),
}

/// What a call has got: a hold with its tokens, or an answer.
enum Obtained {
    Kept(Kept, Vec<u64>),
    Answer(Vec<u8>),
}

/// What JavaScript gets from a call that has succeeded.
#[derive(Default)]
struct News {
    text: String,
    tokens: Vec<u64>,
    answer: Option<Vec<u8>>,
}

#[napi]
impl Client {
    /// Begins to connect, which is call 0.
    #[napi(constructor, catch_unwind)]
    pub fn new(place: Object, settings: Object, callback: Callback) -> Result<Self> {
        let (client, place, settings) = (Self { shared: Arc::default() }, place_of(&place)?, settings_of(&settings)?);
        let shared = client.shared.clone();
        shared.inner().callback = Some(callback);
        thread()?.spawn(async move {
            let connected = settings.connect(place).await.map(|locks| {
                let identity = locks.identity().to_owned();
                shared.inner().locks = Some(locks);
                identity
            });
            shared.report(0, connected.map(News::from));
        });
        Ok(client)
    }

    /// Reports the grant or the failure; and after a grant, later, the loss.
    #[napi(catch_unwind)]
    pub fn acquire(&self, call: i64, kind: String, names: Vec<Buffer>, limit: u32, terms: Object) -> Result<()> {
        self.obtain(call, acquire(self.locks()?, wanted(&kind, names, limit), terms_of(&terms)?))
    }

    /// Adopts a hold that another client has detached. Reports as [`acquire`](Self::acquire) does.
    #[napi(catch_unwind)]
    pub fn adopt(&self, call: i64, text: String) -> Result<()> {
        self.obtain(call, adopt(self.locks()?, text.into_bytes()))
    }

    /// Reports the answer for that key, or, as [`acquire`](Self::acquire), that this call leads.
    #[napi(catch_unwind)]
    pub fn once(&self, call: i64, key: Buffer, terms: Object) -> Result<()> {
        let asked = Asked {
            key: key.into(),
            keep: time(&terms, "keep")?.unwrap_or_default(),
            wait: time(&terms, "wait")?,
            lease: time(&terms, "lease")?,
            max_waiters: terms.get("maxWaiters")?,
        };
        self.obtain(call, once(self.locks()?, asked))
    }

    /// Ends the lead of an earlier call with this answer.
    #[napi(catch_unwind)]
    pub fn answer(&self, call: i64, of: i64, value: Buffer) -> Result<()> {
        let (shared, led) = (self.shared.clone(), self.shared.inner().calls.remove(&of));
        let Some((task, Some(Kept::Lead(lead)))) = led else { return Err(Error::from_reason("it does not lead")) };
        task.abort();
        let value = Vec::from(value);
        let answered = begun(async move { lead.answer(value).await })?;
        thread()?.spawn(async move { shared.report(call, answered.await.map(|()| News::default())) });
        Ok(())
    }

    /// Removes the answer for that key.
    #[napi(catch_unwind)]
    pub fn remove_answer(&self, call: i64, key: Buffer) -> Result<()> {
        let (shared, locks, key) = (self.shared.clone(), self.locks()?, Vec::from(key));
        let removed = begun(async move { locks.forget(key).await })?;
        thread()?.spawn(async move { shared.report(call, removed.await.map(|()| News::default())) });
        Ok(())
    }

    /// Gives up the call, or drops its hold, without a report.
    #[napi(catch_unwind)]
    pub fn forget(&self, call: i64) {
        self.shared.forget(call);
    }

    /// Releases the hold of an earlier call. `worked`: as [`Guard::run`] does at its end.
    #[napi(catch_unwind)]
    pub fn release(&self, call: i64, of: i64, worked: bool) -> Result<()> {
        let (shared, held) = (self.shared.clone(), self.shared.inner().calls.remove(&of));
        let Some((task, Some(kept))) = held else { return Err(Error::from_reason("nothing is held")) };
        task.abort();
        let released = begun(async move {
            match kept {
                Kept::Guard(guard) if worked => guard.run(async {}).await,
                Kept::Guard(guard) => guard.release().await,
                Kept::Lead(lead) => {
                    lead.give_up().await;
                    Ok(())
                }
            }
        })?;
        thread()?.spawn(async move { shared.report(call, released.await.map(|()| News::default())) });
        Ok(())
    }

    /// Detaches the hold of an earlier call, and reports the text for [`adopt`](Self::adopt). If it fails, the hold goes on.
    #[napi(catch_unwind)]
    pub fn detach(&self, call: i64, of: i64, within: Option<f64>) -> Result<()> {
        let shared = self.shared.clone();
        let detached = shared.inner().guard(of).map(|guard| detach(guard, within.map(duration)));
        let detached = begun(detached.ok_or_else(|| Error::from_reason("nothing is held"))?)?;
        thread()?.spawn(async move {
            let detached = detached.await;
            if detached.is_ok() {
                shared.forget(of);
            }
            shared.report(call, detached.map(News::from));
        });
        Ok(())
    }

    /// For how many ms the hold of this call is guaranteed.
    #[napi(catch_unwind)]
    pub fn remaining(&self, call: i64) -> f64 {
        self.shared.inner().guard(call).map_or(0.0, |guard| guard.remaining().as_secs_f64() * 1e3)
    }

    /// Why the hold of this call is lost, if it is: the reason's word, and its text.
    #[napi(catch_unwind)]
    pub fn loss(&self, call: i64) -> Option<Vec<String>> {
        self.shared.inner().guard(call)?.loss().map(|why| vec![why.word().to_owned(), why.to_string()])
    }

    /// Gives up and releases everything. Reports when the servers have replied, or when the time `limit` is over.
    #[napi(catch_unwind)]
    pub fn close(&self, call: i64, limit: f64) -> Result<()> {
        let (shared, (locks, tasks)) = (self.shared.clone(), self.shared.inner().forget_all());
        thread()?.spawn(async move {
            let settled = async {
                for task in tasks {
                    _ = task.await;
                }
                if let Some(locks) = &locks {
                    locks.settle().await;
                }
            };
            _ = tokio::time::timeout(duration(limit), settled).await;
            shared.report(call, Ok(News::default()));
        });
        Ok(())
    }
}

impl Client {
    fn locks(&self) -> Result<Locks> {
        self.shared.inner().locks.clone().ok_or_else(|| Error::from_reason("the client is closed"))
    }

    fn obtain<T: Into<Obtained> + Send + 'static>(
        &self,
        call: i64,
        work: impl Future<Output = std::result::Result<T, rlock_client::Error>> + Send + 'static,
    ) -> Result<()> {
        let obtained = begun(work)?;
        let (shared, thread, mut inner) = (self.shared.clone(), thread()?, self.shared.inner());
        let task = thread.spawn(async move {
            let (kept, tokens) = match obtained.await.map(Into::into) {
                Ok(Obtained::Kept(kept, tokens)) => (kept, tokens),
                Ok(Obtained::Answer(value)) => {
                    return shared.end(call, Ok(News { answer: Some(value), ..News::default() }));
                }
                Err(error) => return shared.end(call, Err(error)),
            };
            let (holder, lost) = (kept.guard().holder().into_owned(), kept.guard().lost());
            match shared.inner().calls.get_mut(&call) {
                Some((_, place)) => *place = Some(kept),
                // The call was given up in this very moment.
                None => return,
            }
            shared.report(call, Ok(News { text: holder, tokens, answer: None }));
            lost.await;
            shared.report(call, Ok(News::default()));
        });
        inner.calls.insert(call, (task, None));
        Ok(())
    }
}

/// The client was closed, or its worker has ended.
impl Drop for Client {
    fn drop(&mut self) {
        let mut inner = self.shared.inner();
        inner.callback = None;
        inner.forget_all();
    }
}

impl Inner {
    fn guard(&self, call: i64) -> Option<&Guard> {
        self.calls.get(&call)?.1.as_ref().map(Kept::guard)
    }

    /// Drops all holds, which releases them.
    fn forget_all(&mut self) -> (Option<Locks>, Vec<JoinHandle<()>>) {
        let tasks: Vec<_> = self.calls.drain().map(|(_, (task, _))| task).collect();
        tasks.iter().for_each(JoinHandle::abort);
        (self.locks.take(), tasks)
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, call: i64) {
        if let Some((task, _held)) = self.inner().calls.remove(&call) {
            task.abort();
        }
    }

    /// Ends a call that holds nothing.
    fn end(&self, call: i64, outcome: std::result::Result<News, rlock_client::Error>) {
        self.inner().calls.remove(&call);
        self.report(call, outcome);
    }

    /// JavaScript gets the reports in the order of these calls.
    fn report(&self, call: i64, outcome: std::result::Result<News, rlock_client::Error>) {
        let reason = outcome.as_ref().err().and_then(rlock_client::Error::loss).map(|loss| loss.word());
        let (word, News { text, tokens, answer }) =
            outcome.map_or_else(|error| (Some(word(&error)), error.to_string().into()), |news| (None, news));
        // Tokens are in microseconds, far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let tokens = tokens.iter().map(|token| *token as f64).collect();
        if let Some(callback) = &self.inner().callback {
            callback.call((call, word, text, tokens, reason, answer.map(Buffer::from)).into(), NonBlocking);
        }
    }
}

impl Kept {
    fn guard(&self) -> &Guard {
        match self {
            Self::Guard(guard) => guard,
            Self::Lead(lead) => lead.guard(),
        }
    }
}

impl From<Held> for Obtained {
    fn from(Held { guard, tokens }: Held) -> Self {
        Self::Kept(Kept::Guard(guard), tokens)
    }
}

impl From<Begun> for Obtained {
    fn from(begun: Begun) -> Self {
        match begun {
            Begun::Answer(value) => Self::Answer(value),
            Begun::Lead(lead) => Self::Kept(Kept::Lead(lead), Vec::new()),
        }
    }
}

impl From<String> for News {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// The thread in which calls go on.
fn thread() -> Result<Handle> {
    static THREAD: Mutex<Option<Handle>> = Mutex::new(None);
    let mut present = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(thread) = &*present {
        return Ok(thread.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let thread = runtime.handle().clone();
    let all = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("rlock-node".to_owned()).spawn(all)?;
    Ok(present.insert(thread).clone())
}

/// Sends the request here and now: the process may be about to end, and no other thread has to be woken for it.
fn begun<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<impl Future<Output = T> + Send + 'static> {
    let mut work = Box::pin(work);
    let first = thread()?.block_on(poll_fn(|context| Poll::Ready(work.as_mut().poll(context))));
    Ok(async move { if let Poll::Ready(done) = first { done } else { work.await } })
}

fn wanted(kind: &str, names: Vec<Buffer>, limit: u32) -> Wanted {
    let mut names: Vec<Vec<u8>> = names.into_iter().map(Into::into).collect();
    if kind == "all" {
        return Wanted::All(names);
    }
    let name = names.pop().unwrap_or_default();
    match kind {
        "read" => Wanted::Read(name),
        "write" => Wanted::Write(name),
        "permit" => Wanted::Permit { name, limit },
        _ => Wanted::Lock(name),
    }
}

/// JavaScript has checked that this is a duration.
fn duration(milliseconds: f64) -> Duration {
    Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default()
}

fn time(given: &Object, name: &str) -> Result<Option<Duration>> {
    Ok(given.get(name)?.map(duration))
}

fn place_of(given: &Object) -> Result<Place> {
    if let Some(nodes) = given.get("cluster")? {
        return Ok(Place::Cluster(nodes));
    }
    let Some(addresses) = given.get("sentinels")? else {
        return Ok(Place::Server(given.get("server")?.unwrap_or_default()));
    };
    Ok(Place::Sentinels {
        addresses,
        master: given.get("master")?.unwrap_or_default(),
        user: given.get("user")?,
        password: given.get("password")?,
        database: given.get::<u32>("db")?.unwrap_or_default().into(),
        tls: given.get("tls")?.unwrap_or_default(),
    })
}

fn settings_of(given: &Object) -> Result<Settings> {
    let pem = |name| given.get(name).map(|text| text.map(String::into_bytes));
    Ok(Settings {
        name: given.get("name")?,
        lease: time(given, "lease")?,
        patience: time(given, "patience")?,
        connect_timeout: time(given, "connectTimeout")?,
        answer_timeout: time(given, "answerTimeout")?,
        authorities: pem("ca")?,
        certificate: pem("cert")?,
        key: pem("key")?,
        lazily: false,
    })
}

fn terms_of(given: &Object) -> Result<Terms> {
    let count = given.get::<u32>("replicas")?;
    Ok(Terms {
        wait: time(given, "wait")?,
        lease: time(given, "lease")?,
        fixed: given.get("fixed")?.unwrap_or_default(),
        fenced: given.get("fenced")?.unwrap_or_default(),
        owner: given.get::<Buffer>("owner")?.map(Into::into),
        max_waiters: given.get("maxWaiters")?,
        replicas: count.map(|count| count as usize).zip(time(given, "within")?),
    })
}
