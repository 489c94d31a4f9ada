//! Work that a guard runs: it takes no step once the guard can know that the lock is lost, and the lock is released
//! only when the work is over.
//!
//! A step checks at its end whether the loss is known. If it is, there must be no next step. A check at the beginning
//! would be a race: the loss may become known between the guard's check and the step's.

use crate::support::{exists, locks_on, until, until_nothing_is_left, url};
use futures_util::FutureExt;
use rlock_client::{Error, Guard, Locks, Loss};
use rlock_testing::{Client, PATIENCE, Server};
use std::cell::Cell;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use tokio::time::sleep;

const STEPS: usize = 1_000;

/// A lease so short that the tests can wait for its end.
const SHORT: Duration = Duration::from_millis(150);

/// What the work has done. The work cannot be sent to another thread, and the guard does not require that.
#[derive(Default)]
struct Record {
    taken: Cell<usize>,
    too_many: Cell<usize>,
}

/// Takes this many steps, with a pause after each, until it is stopped.
async fn run(
    guard: Guard,
    steps: usize,
    pause: Duration,
    record: &Record,
    mut step: impl FnMut(usize),
) -> Result<(), Error> {
    // One future for each check: on its first poll a future has no earlier result to repeat.
    let looks: Vec<_> = (0..steps).map(|_| guard.lost()).collect();
    let work = async {
        let mut is_known = false;
        for (number, lost) in looks.into_iter().enumerate() {
            record.too_many.set(record.too_many.get() + usize::from(is_known));
            record.taken.set(record.taken.get() + 1);
            step(number);
            is_known = lost.now_or_never().is_some();
            match pause {
                Duration::ZERO => yield_now().await,
                pause => sleep(pause).await,
            }
        }
    };
    guard.run(work).await
}

/// The lock is taken away, and the next renewal finds that.
#[tokio::test]
async fn no_step_is_taken_once_a_renewal_has_found_the_lock_gone() {
    const BEFORE: usize = 20;
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(SHORT * 5).connect_to(url(&server)).await.unwrap();
    for (removal, reason) in [("DEL a", "not-held"), ("RLOCK.BREAK a", "not-held"), ("SET a text", "overwritten")] {
        let (guard, record) = (locks.lock("a").acquire().await.unwrap(), Record::default());
        let removes = |number| {
            if number == BEFORE {
                client.say(removal);
            }
        };
        let error = run(guard, STEPS, Duration::from_millis(1), &record, removes).await.unwrap_err();
        assert_eq!(error.loss().map(|loss| loss.word()), Some(reason), "{removal}: {error}");
        assert_eq!(record.too_many.get(), 0, "{removal}: of {} steps", record.taken.get());
        assert!((BEFORE + 1..STEPS).contains(&record.taken.get()), "{removal}: {} steps", record.taken.get());
        client.say("DEL a");
    }
}

/// The thread stalls once at each step, for longer than a lease without renewals.
#[tokio::test]
async fn no_step_is_taken_after_a_stall_that_was_longer_than_the_lease() {
    const RUNS: usize = 25;
    let server = Server::start();
    let locks = locks_on(&server).await;
    for stalls_at in 0..RUNS {
        let lock = locks.lock(format!("a{stalls_at}")).fixed_lease(SHORT);
        let (guard, record) = (lock.acquire().await.unwrap(), Record::default());
        let stalls = |number| {
            if number == stalls_at {
                thread::sleep(SHORT + SHORT / 10);
            }
        };
        let error = run(guard, STEPS / RUNS, Duration::ZERO, &record, stalls).await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        assert_eq!(record.too_many.get(), 0, "it stalled at step {stalls_at}");
        assert!(record.taken.get() <= stalls_at + 1, "{} steps, and it stalled at {stalls_at}", record.taken.get());
    }
}

/// The work's result is then worth nothing: another client may have had the lock in the meantime.
#[tokio::test]
async fn work_that_ends_after_the_loss_is_a_loss() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let guard = locks.lock("a").fixed_lease(SHORT).acquire().await.unwrap();
    let worked = guard.run(async { thread::sleep(SHORT + SHORT / 10) }).await;
    assert_eq!(worked.unwrap_err().loss(), Some(Loss::Ended));
    let guard = locks.lock("b").acquire().await.unwrap();
    let worked = guard.run(async { server.client().say("DEL b") }).await;
    assert_eq!(worked.unwrap_err().loss(), Some(Loss::NotHeld), "the release has shown it");
}

/// The work may borrow, need not be sendable to another thread, and may have any result.
#[tokio::test]
async fn the_result_of_the_work_is_returned_and_the_lock_is_free() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let (text, count) = (String::from("done"), Cell::new(0));
    let guard = locks.lock("a").acquire().await.unwrap();
    let result = guard.run(async {
        yield_now().await;
        count.set(count.get() + 1);
        text.as_str()
    });
    assert_eq!(result.await.unwrap(), "done");
    assert_eq!(count.get(), 1);
    assert!(!exists(&mut client, "a"));
    // The work's own error is a result like any other.
    let guard = locks.lock("a").acquire().await.unwrap();
    let result: Result<Result<(), &str>, Error> = guard.run(async { Err("out of stock") }).await;
    assert_eq!(result.unwrap(), Err("out of stock"));
    assert!(!exists(&mut client, "a"));
}

/// When dropped, waits long enough for the lock to be released, and reports whether the lock is still held.
struct Last {
    client: Client,
    was_held: Arc<AtomicBool>,
}

impl Drop for Last {
    fn drop(&mut self) {
        thread::sleep(SHORT / 5);
        self.was_held.store(exists(&mut self.client, "a"), SeqCst);
    }
}

/// The work's cleanup when it is dropped, for example a rollback, is still done under the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_work_ends_before_the_lock_is_released() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for _ in 0..5 {
        let (has_begun, was_held) = (AtomicBool::new(false), Arc::<AtomicBool>::default());
        let last = Last { client: server.client(), was_held: was_held.clone() };
        let guard = locks.lock("a").acquire().await.unwrap();
        let works = guard.run(async {
            let _last = last;
            has_begun.store(true, SeqCst);
            pending::<()>().await;
        });
        tokio::select! {
            ended = works => panic!("it has no end: {ended:?}"),
            () = until("it works", || has_begun.load(SeqCst)) => {}
        }
        assert!(was_held.load(SeqCst), "the lock was released before");
        until_nothing_is_left(&mut client, "a").await;
    }
}

/// The same for work that is dropped because the lock is lost: another client may have the lock then, and keeps it.
#[tokio::test]
async fn work_is_dropped_before_its_loss_is_reported() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let has_ended = Arc::new(());
    let ends = has_ended.clone();
    let guard = locks.lock("a").fixed_lease(SHORT).acquire().await.unwrap();
    let worked = guard.run(async move {
        let _ends = ends;
        pending::<()>().await;
    });
    assert!(worked.await.unwrap_err().is_lost());
    assert_eq!(Arc::strong_count(&has_ended), 1, "the work is still there");
}

/// The server stalls as the work ends, for longer than a reply may take: the client waits for one reply, not for its
/// whole patience. The release goes on.
#[tokio::test]
async fn finished_work_returns_although_the_server_stalls() {
    let server = Server::start();
    let mut client = server.client();
    let patience = PATIENCE / 2;
    let options = Locks::options().answer_timeout(SHORT).patience(patience);
    let locks = options.connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("a").acquire().await.unwrap();
    let ended = Cell::new(None);
    let worked = guard.run(async {
        server.freeze();
        ended.set(Some(Instant::now()));
        "done"
    });
    assert_eq!(worked.await.unwrap(), "done");
    let late = ended.get().unwrap().elapsed();
    assert!(late < patience / 2, "{late:?}");
    server.thaw();
    until_nothing_is_left(&mut client, "a").await;
}

#[tokio::test]
async fn work_that_panics_releases_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    let guard = locks_on(&server).await.lock("a").acquire().await.unwrap();
    let work = tokio::spawn(guard.run(async { panic!("as this test wants it") }));
    let ended: Result<Result<(), Error>, _> = work.await;
    assert!(ended.unwrap_err().is_panic());
    until("it is released", || !exists(&mut client, "a")).await;
}
