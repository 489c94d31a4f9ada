//! Code that is not the client's: what listens to its logs, and what is woken when it has something to tell. It may block or
//! panic, so it runs in threads where nothing else waits: never where leases are renewed.
//!
//! Tokio's own wakers only put a task into a queue, so they are called where they are. Another waker is called in a caller's
//! thread, where it can hold up only callers; from the client's own threads it is called in a thread of its own. Another thread
//! would cost a task that takes a lock as much as all the rest.

use crate::here::Here;
use crate::mutex::lock;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "blocking")]
use std::pin::Pin;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};
use std::thread;
#[cfg(feature = "blocking")]
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::Level;
use tracing::level_filters::LevelFilter;

static LOGS: Aside = Aside::new("rlock-logs", 1_000);
static WAKERS: Aside = Aside::new("rlock-wakers", usize::MAX);

/// Tells it to whoever listens to logs of this level, later. What is behind a thousand lines that nobody has read is lost.
pub(crate) fn log<L: FnOnce() + Send + 'static>(level: Level, line: impl FnOnce() -> L) {
    if level <= LevelFilter::current() {
        LOGS.run(Box::new(line()));
    }
}

/// Does work for a caller, who is woken where he can do no harm.
pub(crate) async fn heard<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut known: Option<(Waker, Waker)> = None;
    poll_fn(move |context| {
        let theirs = context.waker();
        if is_tokios(theirs) || is_blocking() {
            return work.as_mut().poll(context);
        }
        let known = match &mut known {
            Some(known) if known.0.will_wake(theirs) => known,
            known => known.insert((theirs.clone(), Waker::from(Arc::new(Theirs(Some(theirs.clone())))))),
        };
        work.as_mut().poll(&mut Context::from_waker(&known.1))
    })
    .await
}

thread_local! {
    static IS_BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is held up until a call has come to its end, whatever runtime it is in.
pub(crate) fn is_blocking() -> bool {
    IS_BLOCKING.get()
}

/// Holds this thread up until the work is done, or that time has come.
#[cfg(feature = "blocking")]
pub(crate) fn block_until<T>(mut work: Pin<&mut impl Future<Output = T>>, time: Option<Instant>) -> Option<T> {
    struct Parked(thread::Thread);

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Parked(thread::current())));
    loop {
        let was_blocking = IS_BLOCKING.replace(true);
        let done = work.as_mut().poll(&mut Context::from_waker(&waker));
        IS_BLOCKING.set(was_blocking);
        if let Poll::Ready(done) = done {
            return Some(done);
        }
        match time.map(|time| time.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// This thread renews leases from now on, or wakes those that do.
pub(crate) fn this_thread_is_ours() {
    IS_OURS.set(true);
}

/// Calls code that is not the client's.
fn call(job: impl FnOnce() + Send + 'static) {
    if IS_OURS.get() {
        WAKERS.run(Box::new(job));
    } else {
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// A waker of another executor.
struct Theirs(Option<Waker>);

impl Wake for Theirs {
    fn wake(self: Arc<Self>) {
        call(move || self.0.iter().for_each(Waker::wake_by_ref));
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            call(move || drop(waker));
        }
    }
}

/// What makes a waker tokio's: of a task, and of each of the two ways to block a thread.
static TOKIOS: OnceLock<[&'static RawWakerVTable; 3]> = OnceLock::new();

/// Finds that out, in a thread that may be blocked.
pub(crate) fn learn(runtime: &Runtime) {
    TOKIOS.get_or_init(|| {
        let parked = runtime.handle().block_on(kind_of_waker());
        let (blocked, spawned) =
            runtime.block_on(async { (kind_of_waker().await, tokio::spawn(kind_of_waker()).await) });
        [parked, blocked, spawned.unwrap_or(blocked)]
    });
}

async fn kind_of_waker() -> &'static RawWakerVTable {
    poll_fn(|context| Poll::Ready(context.waker().vtable())).await
}

fn is_tokios(waker: &Waker) -> bool {
    TOKIOS.get().is_some_and(|known| known.iter().any(|known| std::ptr::eq(*known, waker.vtable())))
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one thing after the other, from the first one on.
struct Aside {
    name: &'static str,
    waiting_max: usize,
    queue: Mutex<Queue>,
    has_more: Condvar,
}

struct Queue {
    /// Whose thread it is: one that was forked from it has none.
    here: Option<Here>,
    jobs: VecDeque<Job>,
}

impl Aside {
    const fn new(name: &'static str, waiting_max: usize) -> Self {
        let queue = Mutex::new(Queue { here: None, jobs: VecDeque::new() });
        Self { name, waiting_max, queue, has_more: Condvar::new() }
    }

    fn run(&'static self, job: Job) {
        let mut queue = lock(&self.queue);
        if !queue.here.as_ref().is_some_and(Here::is_here) {
            let begun = thread::Builder::new().name(self.name.to_owned()).spawn(|| self.work());
            // Without a thread it is tried again with the next.
            queue.here = begun.and_then(|_| Here::new()).ok();
            // Another process's, if there are any.
            std::mem::forget(std::mem::take(&mut queue.jobs));
        }
        if queue.jobs.len() < self.waiting_max {
            queue.jobs.push_back(job);
            self.has_more.notify_one();
        }
    }

    fn work(&self) {
        loop {
            let queue = lock(&self.queue);
            let queue = self.has_more.wait_while(queue, |queue| queue.jobs.is_empty());
            let job = queue.unwrap_or_else(PoisonError::into_inner).jobs.pop_front();
            let _ = catch_unwind(AssertUnwindSafe(|| job.map(|job| job())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    /// What it would cost to take one for anybody's shows in no other test.
    #[test]
    fn wakers_of_tokio_are_known() {
        let (one, many) = (Builder::new_current_thread(), Builder::new_multi_thread());
        learn(&Builder::new_current_thread().build().unwrap());
        for mut builder in [one, many] {
            let runtime = builder.build().unwrap();
            let is_known = || poll_fn(|context| Poll::Ready(is_tokios(context.waker())));
            assert!(runtime.block_on(is_known()));
            assert!(runtime.block_on(runtime.spawn(is_known())).unwrap());
            assert!(runtime.handle().block_on(is_known()));
        }
        assert!(!is_tokios(Waker::noop()));
    }
}
