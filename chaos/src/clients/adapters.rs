//! Clients for other languages, by the adapters of the conformance suite (clients/conformance/README.md describes their
//! protocol). The checker treats them as guards of `rlock-client`: what they report is recorded.
//!
//! An adapter is a process in the process group of its client process. It ends at the end of its input, so it ends in
//! order after its client process, and it is killed together with that process.

use super::wish::Wish;
use crate::history::Side;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

/// The outcome of a request: the adapter's reply, or the name of its error.
pub type Answer = Result<Value, String>;

/// The error for a request that will get no answer.
const SILENT: &str = "unavailable";

/// A client of one language, shared by all guards of a process.
pub struct Adapter {
    lines: mpsc::UnboundedSender<String>,
    asked: AtomicU64,
    open: Arc<Mutex<Open>>,
    /// Killed when it is dropped.
    _process: Child,
}

#[derive(Default)]
struct Open {
    requests: HashMap<u64, oneshot::Sender<Answer>>,
    held: HashMap<String, watch::Sender<bool>>,
}

/// A lock that an adapter holds. Dropping it releases the lock.
pub struct Held {
    adapter: Arc<Adapter>,
    name: String,
    lost: watch::Receiver<bool>,
    is_released: bool,
}

/// The held lock, and its token if it is fenced.
pub type Granted = (Held, Option<u64>);

impl Adapter {
    /// Starts the adapter by its command, as a shell reads it, and opens its client.
    pub async fn open(command: &str, place: Value) -> Option<Arc<Self>> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).kill_on_drop(true);
        let streams = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = streams.spawn().unwrap_or_else(|error| panic!("{command}: {error}"));
        let (mut input, output) = (process.stdin.take()?, process.stdout.take()?);
        let (lines, mut to_write) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(line) = to_write.recv().await {
                if input.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let open = Arc::<Mutex<Open>>::default();
        tokio::spawn(listen(output, open.clone()));
        let adapter = Arc::new(Self { lines, asked: AtomicU64::default(), open, _process: process });
        adapter.ask(place).1.await.ok()?.ok().map(|_| adapter)
    }

    /// Acquires in the name of this holder; permits have no owner. None: not granted by `until`, so the request is cancelled.
    pub async fn acquire(
        self: &Arc<Self>,
        holder: &str,
        lock: Value,
        until: Instant,
    ) -> Option<Result<Granted, String>> {
        // A repeated acquire gets another name here.
        let name = format!("{holder}/{}", self.asked.load(Ordering::Relaxed));
        let (sender, lost) = watch::channel(false);
        let mut request = lock;
        (request["do"], request["held"]) = (json!("acquire"), json!(name));
        if request["permit"].is_null() {
            request["owner"] = json!(holder);
        }
        locked(&self.open).held.insert(name.clone(), sender);
        let mut held = Held { adapter: self.clone(), name, lost, is_released: true };
        let (id, mut answer) = self.ask(request);
        let Ok(answer) = timeout_at(until, &mut answer).await else {
            drop(self.ask(json!({"do": "cancel", "of": id})));
            // What was granted meanwhile is released.
            tokio::spawn(async move {
                if let Ok(Ok(_)) = answer.await {
                    drop(held.ask_to_release());
                }
            });
            return None;
        };
        let granted = answer.unwrap_or_else(|_| Err(SILENT.to_owned()));
        held.is_released = granted.is_err();
        Some(granted.map(|granted| (held, granted["token"].as_u64())))
    }

    /// Releases everything.
    pub async fn close(&self) {
        let _ = self.ask(json!({"do": "close"})).1.await;
    }

    fn ask(&self, mut request: Value) -> (u64, oneshot::Receiver<Answer>) {
        let id = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        locked(&self.open).requests.insert(id, sender);
        request["id"] = json!(id);
        let _ = self.lines.send(format!("{request}\n"));
        (id, answer)
    }
}

impl Held {
    /// How long the lock was guaranteed when the request was sent, at most.
    pub async fn remaining(&self) -> Duration {
        let looked = self.adapter.ask(json!({"do": "look", "held": self.name})).1.await;
        let ms = looked.ok().and_then(Result::ok).and_then(|look| look["remaining"].as_u64());
        Duration::from_millis(ms.unwrap_or(0))
    }

    pub fn lost(&self) -> impl Future<Output = ()> + use<> {
        let mut lost = self.lost.clone();
        async move {
            // An adapter that is gone reports nothing.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending().await
            }
        }
    }

    pub async fn release(mut self) -> Answer {
        self.is_released = true;
        self.ask_to_release().await.unwrap_or_else(|_| Err(SILENT.to_owned()))
    }

    fn ask_to_release(&self) -> oneshot::Receiver<Answer> {
        self.adapter.ask(json!({"do": "release", "held": self.name})).1
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_released {
            drop(self.ask_to_release());
        }
        locked(&self.adapter.open).held.remove(&self.name);
    }
}

/// The wish in the adapters' protocol.
pub fn lock(wish: &Wish, is_fixed: bool) -> Value {
    let mut lock = json!({ (if is_fixed { "fixed" } else { "lease" }): wish.lease_ms, "fenced": wish.fenced });
    let side = match wish.side {
        Side::Plain => "lock",
        Side::Read => "read",
        Side::Write => "write",
        Side::Permit => "permit",
    };
    lock[side] = json!(wish.lock);
    if wish.side == Side::Permit {
        lock["limit"] = json!(wish.limit);
    }
    lock
}

async fn listen(output: ChildStdout, open: Arc<Mutex<Open>>) {
    let mut output = BufReader::new(output).lines();
    while let Ok(Some(line)) = output.next_line().await {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut open = locked(&open);
        if let Some(name) = said["lost"].as_str() {
            open.held.get(name).map(|lost| lost.send_replace(true));
            continue;
        }
        let Some(id) = said["id"].as_u64() else { continue };
        let answer = match said["error"].as_str() {
            Some(word) => Err(word.to_owned()),
            None => Ok(said["ok"].clone()),
        };
        if let Some(sender) = open.requests.remove(&id) {
            let _ = sender.send(answer);
        }
    }
    // Drops the requests, so that their callers stop waiting.
    locked(&open).requests.clear();
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
