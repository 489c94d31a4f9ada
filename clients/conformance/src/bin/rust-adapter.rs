//! The adapter of Rust's client.
//!
//! The adapter runs in one thread, as a program's own code would: `block` holds up all of it. The code that reads the input
//! is not the program's, and has a thread of its own.

use rlock_bindings::{Held, Place, Settings, Terms, Wanted, acquire, adopt, word};
use rlock_client::{Error, Guard, Locks};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// A word of the protocol, the client's text, and why a lock is lost.
type Failure = (&'static str, String, Option<&'static str>);
type Outcome = Result<Value, Failure>;

#[derive(Default)]
struct Adapter {
    locks: RefCell<Option<Locks>>,
    held: RefCell<HashMap<String, Guard>>,
    /// By the number of the request.
    going_on: RefCell<HashMap<u64, GoingOn>>,
    /// Ends work that goes on: with this value, or without one.
    work: RefCell<HashMap<u64, oneshot::Sender<Option<String>>>>,
}

/// Why work under a lock has no result.
enum Failed {
    Client(Error),
    Itself,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// Work that goes on.
struct Working {
    adapter: Rc<Adapter>,
    id: u64,
    finished: oneshot::Receiver<Option<String>>,
}

impl Working {
    fn begin(adapter: &Rc<Adapter>, id: u64) -> Self {
        let (finish, finished) = oneshot::channel();
        adapter.work.borrow_mut().insert(id, finish);
        Self { adapter: Rc::clone(adapter), id, finished }
    }

    async fn end(&mut self) -> Result<String, Failed> {
        (&mut self.finished).await.ok().flatten().ok_or(Failed::Itself)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.adapter.work.borrow_mut().remove(&self.id);
    }
}

struct GoingOn {
    /// Ends the task with this word.
    end: Option<oneshot::Sender<&'static str>>,
    task: JoinHandle<()>,
}

fn main() {
    let (tell, mut requests) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
        // Even if locks are still held or waited for.
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let adapter = Rc::<Adapter>::default();
        while let Some(line) = requests.recv().await {
            let request: Value = serde_json::from_str(&line).expect("requests are JSON");
            adapter.begin(request);
        }
    });
}

fn say(line: &Value) {
    println!("{line}");
}

fn answer(id: u64, outcome: Outcome) {
    say(&match outcome {
        Ok(ok) => json!({"id": id, "ok": ok}),
        Err((word, text, Some(reason))) => json!({"id": id, "error": word, "text": text, "reason": reason}),
        Err((word, text, None)) => json!({"id": id, "error": word, "text": text}),
    });
}

impl Adapter {
    fn begin(self: &Rc<Self>, request: Value) {
        let id = request["id"].as_u64().expect("requests have numbers");
        let (adapter, (end, ended)) = (Rc::clone(self), oneshot::channel());
        let can_end = matches!(request["do"].as_str(), Some("acquire" | "run" | "once" | "lead"));
        let task = spawn_local(async move {
            let outcome = adapter.until_ended(id, &request, ended).await;
            if can_end {
                adapter.going_on.borrow_mut().remove(&id);
            }
            answer(id, outcome);
        });
        if can_end {
            self.going_on.borrow_mut().insert(id, GoingOn { end: Some(end), task });
        }
    }

    /// If the request is done in the moment in which its end is asked for, its own outcome counts.
    async fn until_ended(self: &Rc<Self>, id: u64, request: &Value, ended: oneshot::Receiver<&'static str>) -> Outcome {
        let ended = async {
            match ended.await {
                Ok(word) => word,
                Err(_) => pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = self.does(id, request) => outcome,
            word = ended => Err((word, "as it was asked for".to_owned(), None)),
        }
    }

    async fn does(self: &Rc<Self>, id: u64, request: &Value) -> Outcome {
        match text(request, "do")?.as_str() {
            "open" => self.open(request).await,
            "acquire" => self.acquire(request).await,
            "cancel" => self.end(&number(request, "of")?, "cancelled"),
            "detach" => self.detach(request).await,
            "adopt" => self.adopt(request).await,
            "release" => self.guard(request)?.release().await.map(|()| json!({})).map_err(failure),
            "look" => self.look(request),
            "run" => self.run(id, request).await,
            "once" => self.once(id, request).await,
            "forget" => self.locks()?.forget(text(request, "once")?).await.map(|()| json!({})).map_err(failure),
            "lead" => self.lead(id, request).await,
            "finish" => self.finish(&number(request, "of")?, Some(text(request, "value").unwrap_or_default())),
            "fail" => self.finish(&number(request, "of")?, None),
            "block" => {
                std::thread::sleep(Duration::from_millis(number(request, "for")?));
                Ok(json!({}))
            }
            "close" => self.close().await,
            _ => Err(mistake(request, "do")),
        }
    }

    async fn open(&self, request: &Value) -> Outcome {
        let place = if let Some(nodes) = texts(request, "cluster") {
            Place::Cluster(nodes)
        } else if let Some(addresses) = texts(request, "sentinels") {
            let master = text(request, "master")?;
            Place::Sentinels { addresses, master, user: None, password: None, database: 0, tls: false }
        } else {
            Place::Server(text(request, "url")?)
        };
        let settings = Settings {
            name: text(request, "name").ok(),
            lease: time(request, "lease")?,
            patience: time(request, "patience")?,
            answer_timeout: time(request, "answer")?,
            ..Settings::default()
        };
        *self.locks.borrow_mut() = Some(settings.connect(place).await.map_err(failure)?);
        Ok(json!({"without": []}))
    }

    fn locks(&self) -> Result<Locks, Failure> {
        self.locks.borrow().clone().ok_or_else(|| ("closed", "there is no client".to_owned(), None))
    }

    async fn acquired(&self, request: &Value) -> Result<Held, Failure> {
        acquire(self.locks()?, wanted(request)?, terms(request)?).await.map_err(failure)
    }

    async fn acquire(self: &Rc<Self>, request: &Value) -> Outcome {
        let held = self.acquired(request).await?;
        self.keep(request, held, request.get("all").is_some())
    }

    async fn detach(&self, request: &Value) -> Outcome {
        let (name, within) = (text(request, "held")?, time(request, "within")?);
        let detaching: Pin<Box<dyn Future<Output = _>>> = {
            let held = self.held.borrow();
            let guard = held.get(&name).ok_or_else(|| mistake(request, "held"))?;
            match within {
                Some(within) => Box::pin(guard.detach_within(within)),
                None => Box::pin(guard.detach()),
            }
        };
        let text = detaching.await.map_err(failure)?;
        self.held.borrow_mut().remove(&name);
        Ok(json!({"text": text}))
    }

    async fn adopt(self: &Rc<Self>, request: &Value) -> Outcome {
        let text = text(request, "text")?;
        let held = adopt(self.locks()?, text.clone().into_bytes()).await.map_err(failure)?;
        self.keep(request, held, text.starts_with("rlock1/several/"))
    }

    fn keep(self: &Rc<Self>, request: &Value, held: Held, is_several: bool) -> Outcome {
        let (name, Held { guard, tokens }) = (text(request, "held")?, held);
        let mut description = json!({"holder": guard.holder()});
        if is_several {
            description["tokens"] = json!(tokens);
        } else if let Some(token) = tokens.first() {
            description["token"] = json!(token);
        }
        let (adapter, lost, held) = (Rc::clone(self), guard.lost(), name.clone());
        spawn_local(async move {
            lost.await;
            if let Some(loss) = adapter.held.borrow().get(&held).and_then(Guard::loss) {
                say(&json!({"lost": held, "reason": loss.word(), "why": loss.to_string()}));
            }
        });
        self.held.borrow_mut().insert(name, guard);
        Ok(description)
    }

    fn guard(&self, request: &Value) -> Result<Guard, Failure> {
        self.held.borrow_mut().remove(&text(request, "held")?).ok_or_else(|| mistake(request, "held"))
    }

    fn look(&self, request: &Value) -> Outcome {
        let held = self.held.borrow();
        let guard = held.get(&text(request, "held")?).ok_or_else(|| mistake(request, "held"))?;
        let remaining = guard.remaining();
        Ok(json!({"lost": remaining.is_zero(), "remaining": millis(remaining)}))
    }

    async fn run(self: &Rc<Self>, id: u64, request: &Value) -> Outcome {
        let Held { guard, tokens } = self.acquired(request).await?;
        let mut working = Working::begin(self, id);
        let work = async {
            say(&json!({"began": id, "token": tokens.first()}));
            let _ = working.end().await;
        };
        guard.run(work).await.map(|()| json!({})).map_err(failure)
    }

    async fn once(self: &Rc<Self>, id: u64, request: &Value) -> Outcome {
        let keep = Duration::from_millis(number(request, "keep")?);
        let mut once = self.locks()?.once(text(request, "once")?, keep);
        if let Some(limit) = time(request, "wait")? {
            once = once.wait(limit);
        }
        if let Some(lease) = time(request, "lease")? {
            once = once.lease(lease);
        }
        if let Some(count) = small(request, "max_waiters")? {
            once = once.max_waiters(count);
        }
        let work = async {
            let mut working = Working::begin(self, id);
            say(&json!({"began": id}));
            working.end().await.map(String::into_bytes)
        };
        let value = once.run(work).await.map_err(failed)?;
        Ok(json!({"value": String::from_utf8_lossy(&value)}))
    }

    async fn lead(self: &Rc<Self>, id: u64, request: &Value) -> Outcome {
        struct Turn(Working);
        impl Drop for Turn {
            fn drop(&mut self) {
                say(&json!({"ended": self.0.id}));
            }
        }
        let lock = self.locks()?.lock(text(request, "lock")?);
        let lock = match time(request, "lease")? {
            Some(lease) => lock.lease(lease),
            None => lock,
        };
        let led = lock.lead(|_| {
            let mut turn = Turn(Working::begin(self, id));
            say(&json!({"began": id}));
            async move { turn.0.end().await.map(drop) }
        });
        match led.await {
            Ok(never) => match never {},
            Err(error) => Err(failed(error)),
        }
    }

    fn finish(&self, of: &u64, value: Option<String>) -> Outcome {
        if let Some(finish) = self.work.borrow_mut().remove(of) {
            let _ = finish.send(value);
        }
        Ok(json!({}))
    }

    fn end(&self, of: &u64, word: &'static str) -> Outcome {
        if let Some(it) = self.going_on.borrow_mut().get_mut(of) {
            let _ = it.end.take().map(|end| end.send(word));
        }
        Ok(json!({}))
    }

    async fn close(&self) -> Outcome {
        let Some(locks) = self.locks.borrow_mut().take() else { return Ok(json!({})) };
        let going_on = std::mem::take(&mut *self.going_on.borrow_mut());
        for GoingOn { end, task } in going_on.into_values() {
            let _ = end.map(|end| end.send("closed"));
            let _ = task.await;
        }
        // Dropping a guard releases its lock, and `settle` waits for that.
        self.held.borrow_mut().clear();
        locks.settle().await;
        Ok(json!({}))
    }
}

fn failure(error: Error) -> Failure {
    (word(&error), error.to_string(), error.loss().map(|loss| loss.word()))
}

fn failed(failed: Failed) -> Failure {
    match failed {
        Failed::Client(error) => failure(error),
        Failed::Itself => ("failed", "as it was asked for".to_owned(), None),
    }
}

fn mistake(request: &Value, field: &str) -> Failure {
    ("configuration", format!("{field} makes no sense: {request}"), None)
}

fn text(request: &Value, field: &str) -> Result<String, Failure> {
    request[field].as_str().map(str::to_owned).ok_or_else(|| mistake(request, field))
}

fn texts(request: &Value, field: &str) -> Option<Vec<String>> {
    request[field].as_array().map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn number(request: &Value, field: &str) -> Result<u64, Failure> {
    request[field].as_u64().ok_or_else(|| mistake(request, field))
}

fn small<N: TryFrom<u64>>(request: &Value, field: &str) -> Result<Option<N>, Failure> {
    let number = request[field].as_u64().map(N::try_from);
    number.transpose().map_err(|_| mistake(request, field))
}

/// A negative time is refused here, since no `Duration` is negative.
fn time(request: &Value, field: &str) -> Result<Option<Duration>, Failure> {
    let is_given = request.get(field).is_some();
    is_given.then(|| number(request, field).map(Duration::from_millis)).transpose()
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn wanted(request: &Value) -> Result<Wanted, Failure> {
    let name = |field| text(request, field).map(String::into_bytes);
    if let Some(names) = texts(request, "all") {
        return Ok(Wanted::All(names.into_iter().map(String::into_bytes).collect()));
    }
    if let Ok(name) = name("permit") {
        let limit = small(request, "limit")?.ok_or_else(|| mistake(request, "limit"))?;
        return Ok(Wanted::Permit { name, limit });
    }
    name("lock")
        .map(Wanted::Lock)
        .or_else(|_| name("read").map(Wanted::Read))
        .or_else(|_| name("write").map(Wanted::Write))
        .map_err(|_| mistake(request, "the lock"))
}

fn terms(request: &Value) -> Result<Terms, Failure> {
    // Permits and several locks have no method for an owner.
    let can_have_owner = ["lock", "read", "write"].iter().any(|kind| request.get(kind).is_some());
    if request.get("owner").is_some() && !can_have_owner {
        return Err(mistake(request, "owner"));
    }
    let fixed = time(request, "fixed")?;
    let within = time(request, "within")?.unwrap_or_default();
    Ok(Terms {
        wait: time(request, "wait")?,
        lease: fixed.or(time(request, "lease")?),
        fixed: fixed.is_some(),
        fenced: request["fenced"].as_bool().unwrap_or_default(),
        owner: text(request, "owner").ok().map(String::into_bytes),
        max_waiters: small(request, "max_waiters")?,
        replicas: small(request, "replicas")?.map(|count| (count, within)),
    })
}
