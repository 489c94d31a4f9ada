//! Code of the program that the client calls: a log subscriber, and wakers. It may panic or block for as long as it likes;
//! leases are renewed all the same. This is a separate test program, because a program has one subscriber.
#![allow(clippy::unwrap_used)]

use rlock_client::{Guard, Locks};
use rlock_testing::{Client, Server, wait_until};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A stall of the machine must not end it.
const LEASE: Duration = Duration::from_millis(1_500);

/// What the subscriber does in threads other than the test's.
static MOOD: Mutex<Mood> = Mutex::new(Mood::Well);
static CHANGED: Condvar = Condvar::new();
static HAS_LOGGED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// It blocks until the mood is `Well`.
    Blocks,
    Panics,
}

struct Hostile;

impl Subscriber for Hostile {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rlock_client")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let mut mood = MOOD.lock().unwrap();
        if *mood == Mood::Well {
            return;
        }
        HAS_LOGGED.store(true, SeqCst);
        if *mood == Mood::Panics {
            drop(mood);
            panic!("as this test wants it");
        }
        while *mood == Mood::Blocks {
            mood = CHANGED.wait(mood).unwrap();
        }
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn set(mood: Mood) {
    *MOOD.lock().unwrap() = mood;
    CHANGED.notify_all();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn locks_on(server: &Server) -> Locks {
    let address = format!("redis+unix://{}", server.socket().display());
    runtime().block_on(Locks::options().lease(LEASE).connect_to(address)).unwrap()
}

/// Waits until the server has kept the lock for three leases, or the guard is lost. Returns whether it was kept.
fn is_kept(client: &mut Client, key: &str, guard: &Guard) -> bool {
    let end = client.time_ms() + i64::try_from(LEASE.as_millis()).unwrap() * 4;
    wait_until("it is renewed again and again", || guard.is_lost() || client.expiry(key) >= end);
    !guard.is_lost()
}

#[test]
fn a_subscriber_that_blocks_or_panics_costs_no_guard() {
    let _ = tracing::subscriber::set_global_default(Hostile);
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server);
    for mood in [Mood::Panics, Mood::Blocks] {
        let guard = runtime().block_on(locks.lock("a").acquire()).unwrap();
        HAS_LOGGED.store(false, SeqCst);
        set(mood);
        let is_kept_meanwhile = is_kept(&mut client, "a", &guard);
        // Guards that are acquired later are kept, too.
        let next = runtime().block_on(locks.lock("b").acquire()).unwrap();
        let is_next_kept = is_kept(&mut client, "b", &next);
        set(Mood::Well);
        assert!(HAS_LOGGED.load(SeqCst), "no line was logged, which shows nothing");
        assert!(is_kept_meanwhile && is_next_kept, "{mood:?}: {is_kept_meanwhile}, {is_next_kept}");
        for guard in [guard, next] {
            runtime().block_on(guard.release()).unwrap();
        }
    }
}

/// Blocks the thread that wakes it until it may continue.
#[derive(Default)]
struct Blocking {
    may_go_on: Mutex<bool>,
    changed: Condvar,
    was_woken: AtomicBool,
}

impl Wake for Blocking {
    fn wake(self: Arc<Self>) {
        self.was_woken.store(true, SeqCst);
        let mut may_go_on = self.may_go_on.lock().unwrap();
        while !*may_go_on {
            may_go_on = self.changed.wait(may_go_on).unwrap();
        }
    }
}

#[test]
fn a_waker_that_blocks_costs_no_guard() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server);
    let guard = runtime().block_on(locks.lock("a").acquire()).unwrap();
    let waker = Arc::<Blocking>::default();
    let lock = locks.lock("b");
    client.say("RLOCK.ACQUIRE b somebody-else 60000");
    let mut acquiring = pin!(lock.acquire());
    assert!(acquiring.as_mut().poll(&mut Context::from_waker(&Waker::from(waker.clone()))).is_pending());
    client.say("RLOCK.RELEASE b somebody-else");
    wait_until("it is woken", || waker.was_woken.load(SeqCst));
    let is_kept = is_kept(&mut client, "a", &guard);
    *waker.may_go_on.lock().unwrap() = true;
    waker.changed.notify_all();
    assert!(is_kept);
    for guard in [guard, runtime().block_on(acquiring).unwrap()] {
        runtime().block_on(guard.release()).unwrap();
    }
}
