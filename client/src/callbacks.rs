//! Code of the program that the client calls: log subscribers and wakers. It may block or panic, so it runs in threads
//! where nothing else waits, never where leases are renewed.
//!
//! Tokio's own wakers only queue a task, so they are called directly. Other wakers are called in a caller's thread,
//! where they can delay only callers; from the client's threads they are called in a separate thread. A separate thread
//! for tokio's wakers would double the cost of a lock.

use crate::mutex::lock;
use crate::process::Process;
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

static LOGS: JobThread = JobThread::new("rlock-logs", 1_000);
static WAKERS: JobThread = JobThread::new("rlock-wakers", usize::MAX);

/// Logs the line later, if a subscriber listens to this level. If a thousand lines wait already, it is lost.
pub(crate) fn log<L: FnOnce() + Send + 'static>(level: Level, line: impl FnOnce() -> L) {
    if level <= LevelFilter::current() {
        LOGS.run(Box::new(line()));
    }
}

/// Does work for a caller, and wakes it only from threads that may block.
pub(crate) async fn woken_safely<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut known: Option<(Waker, Waker)> = None;
    poll_fn(move |context| {
        let theirs = context.waker();
        if is_tokio_waker(theirs) || is_blocking() {
            return work.as_mut().poll(context);
        }
        let known = match &mut known {
            Some(known) if known.0.will_wake(theirs) => known,
            known => known.insert((theirs.clone(), Waker::from(Arc::new(ForeignWaker(Some(theirs.clone())))))),
        };
        work.as_mut().poll(&mut Context::from_waker(&known.1))
    })
    .await
}

thread_local! {
    static IS_BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread blocks for a call, whatever runtime it belongs to.
pub(crate) fn is_blocking() -> bool {
    IS_BLOCKING.get()
}

/// Blocks this thread until the work is done, or the time is over.
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
    static IS_INTERNAL: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that renews leases, or that wakes such threads.
pub(crate) fn mark_internal_thread() {
    IS_INTERNAL.set(true);
}

/// Calls the program's code.
fn call(job: impl FnOnce() + Send + 'static) {
    if IS_INTERNAL.get() {
        WAKERS.run(Box::new(job));
    } else {
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// The waker of another executor.
struct ForeignWaker(Option<Waker>);

impl Wake for ForeignWaker {
    fn wake(self: Arc<Self>) {
        call(move || self.0.iter().for_each(Waker::wake_by_ref));
    }
}

impl Drop for ForeignWaker {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            call(move || drop(waker));
        }
    }
}

/// The vtables of tokio's wakers: of a task, and of its two ways to block a thread.
static TOKIO_VTABLES: OnceLock<[&'static RawWakerVTable; 3]> = OnceLock::new();

/// Finds these vtables, in a thread that may be blocked.
pub(crate) fn learn_wakers(runtime: &Runtime) {
    TOKIO_VTABLES.get_or_init(|| {
        let parked = runtime.handle().block_on(kind_of_waker());
        let (blocked, spawned) =
            runtime.block_on(async { (kind_of_waker().await, tokio::spawn(kind_of_waker()).await) });
        [parked, blocked, spawned.unwrap_or(blocked)]
    });
}

async fn kind_of_waker() -> &'static RawWakerVTable {
    poll_fn(|context| Poll::Ready(context.waker().vtable())).await
}

fn is_tokio_waker(waker: &Waker) -> bool {
    TOKIO_VTABLES.get().is_some_and(|known| known.iter().any(|known| std::ptr::eq(*known, waker.vtable())))
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs in order. It starts with the first one.
struct JobThread {
    name: &'static str,
    waiting_max: usize,
    queue: Mutex<Queue>,
    has_more: Condvar,
}

struct Queue {
    /// The process of the thread: a fork of it has no such thread.
    process: Option<Process>,
    jobs: VecDeque<Job>,
}

impl JobThread {
    const fn new(name: &'static str, waiting_max: usize) -> Self {
        let queue = Mutex::new(Queue { process: None, jobs: VecDeque::new() });
        Self { name, waiting_max, queue, has_more: Condvar::new() }
    }

    fn run(&'static self, job: Job) {
        let mut queue = lock(&self.queue);
        if !queue.process.as_ref().is_some_and(Process::is_current) {
            let begun = thread::Builder::new().name(self.name.to_owned()).spawn(|| self.work());
            // If there is no thread, the next job tries again.
            queue.process = begun.and_then(|_| Process::new()).ok();
            // Jobs from before a fork belong to the parent: they are neither run nor dropped here.
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

    /// No other test would show the cost of mistaking tokio's waker for another one.
    #[test]
    fn wakers_of_tokio_are_known() {
        let (one, many) = (Builder::new_current_thread(), Builder::new_multi_thread());
        learn_wakers(&Builder::new_current_thread().build().unwrap());
        for mut builder in [one, many] {
            let runtime = builder.build().unwrap();
            let is_known = || poll_fn(|context| Poll::Ready(is_tokio_waker(context.waker())));
            assert!(runtime.block_on(is_known()));
            assert!(runtime.block_on(runtime.spawn(is_known())).unwrap());
            assert!(runtime.handle().block_on(is_known()));
        }
        assert!(!is_tokio_waker(Waker::noop()));
    }
}
