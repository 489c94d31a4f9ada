//! A process that was forked from one with a client has neither the client's thread nor its locks, and its calls fail
//! at once; it can open a client of its own.

use crate::support::{exists, url};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rlock_client::{ErrorKind, Guard, Locks};
use rlock_testing::{Server, wait_until};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Longer than an immediate failure takes, and shorter than any time limit.
const SOON: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Does the work in a forked process, and waits until the child reports whether it succeeded.
///
/// # Panics
/// If the work fails or does not end.
fn in_a_child(work: impl FnOnce() -> bool) {
    // SAFETY: the child only does what is allowed in a forked process with no other thread, and ends without returning.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let went_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: none of the parent's destructors runs.
            unsafe { nix::libc::_exit(i32::from(!went_well)) }
        }
        ForkResult::Parent { child } => assert!(is_well(child), "the child says that it did not go well, or nothing"),
    }
}

/// Whether the child has succeeded. Kills a child that does not end.
fn is_well(child: Pid) -> bool {
    let deadline = Instant::now() + rlock_testing::PATIENCE;
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            WaitStatus::StillAlive => {
                kill(child, Signal::SIGKILL).unwrap();
                waitpid(child, None).unwrap();
                return false;
            }
            end => return matches!(end, WaitStatus::Exited(_, 0)),
        }
    }
}

fn held(server: &Server) -> (Locks, Guard) {
    let locks = runtime().block_on(Locks::connect(url(server))).unwrap();
    let guard = runtime().block_on(locks.lock("a").acquire()).unwrap();
    (locks, guard)
}

/// A child has neither its parent's locks nor new ones: calls fail at once.
#[test]
fn a_child_has_nothing_of_its_parents() {
    let server = Server::start();
    let mut client = server.client();
    let (locks, guard) = held(&server);
    let mut guard = Some(guard);
    in_a_child(|| {
        let (here, guard, began) = (runtime(), guard.take().unwrap(), Instant::now());
        assert!(guard.is_lost() && guard.remaining().is_zero());
        here.block_on(guard.lost());
        let errors = here.block_on(async {
            [
                locks.lock("b").acquire().await.map(drop).unwrap_err(),
                locks.lock("b").try_acquire().await.map(drop).unwrap_err(),
                locks.all(["b", "c"]).acquire().await.map(drop).unwrap_err(),
            ]
        });
        for error in errors {
            assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains("fork"), "{error}");
        }
        here.block_on(locks.settle());
        assert!(here.block_on(guard.release()).unwrap_err().is_lost());
        began.elapsed() < SOON
    });
    // Nothing has changed in the parent's memory.
    let guard = guard.unwrap();
    assert!(!guard.is_lost() && exists(&mut client, "a"));
    runtime().block_on(guard.release()).unwrap();
}

/// No living process has the lock until another one adopts it.
#[test]
fn what_a_process_detached_that_ended_is_adopted() {
    let server = Server::start();
    let (address, directory) = (url(&server), tempfile::tempdir().unwrap());
    let file = directory.path().join("text");
    in_a_child(|| {
        let text = runtime().block_on(async {
            let locks = Locks::connect(address).await?;
            locks.lock("a").acquire().await?.detach().await
        });
        std::fs::write(&file, text.unwrap()).is_ok()
    });
    let text = std::fs::read(&file).unwrap();
    let here = runtime();
    here.block_on(async {
        let locks = Locks::connect(url(&server)).await.unwrap();
        assert!(locks.lock("a").try_acquire().await.unwrap().is_none());
        let guard = locks.adopt(text).await.unwrap();
        guard.release().await.unwrap();
        assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn a_child_can_hand_nothing_on_and_ask_nothing_of_its_parents() {
    let server = Server::start();
    let (locks, guard) = held(&server);
    let other = runtime().block_on(async { locks.lock("b").acquire().await.unwrap().detach().await }).unwrap();
    in_a_child(|| {
        let here = runtime();
        let detached = here.block_on(guard.detach());
        let adopted = here.block_on(locks.adopt(&other)).unwrap_err();
        let begun = here.block_on(locks.once("c", SOON).begin()).unwrap_err();
        detached.unwrap_err().is_lost() && [adopted, begun].iter().all(|it| it.kind() == ErrorKind::Configuration)
    });
    let text = runtime().block_on(guard.detach()).unwrap();
    for text in [text, other] {
        runtime().block_on(async { locks.adopt(text).await?.release().await }).unwrap();
    }
}

#[test]
fn a_child_may_have_a_client_of_its_own() {
    let server = Server::start();
    let mut client = server.client();
    let (_locks, guard) = held(&server);
    let address = url(&server);
    in_a_child(|| {
        let works = async {
            let locks = Locks::options().lease(SOON).connect_to(address).await?;
            let theirs = locks.lock("a").try_acquire().await?;
            let guard = locks.lock("b").acquire().await?;
            guard.release().await?;
            Ok::<_, rlock_client::Error>(theirs.is_none())
        };
        runtime().block_on(async { tokio::time::timeout(SOON * 5, works).await }).is_ok_and(|it| it.unwrap_or(false))
    });
    wait_until("the child has released it", || !exists(&mut client, "b"));
    runtime().block_on(guard.release()).unwrap();
}

/// To the system, the sockets that the parent's runtime reads are the child's, too.
#[test]
fn a_child_that_drops_a_runtime_of_its_parents_breaks_no_connection() {
    let server = Server::start();
    let mut client = server.client();
    let mut here = Some(runtime());
    let in_it = here.as_ref().unwrap();
    let locks = in_it.block_on(Locks::connect(url(&server))).unwrap();
    let cycle = || in_it.block_on(async { locks.lock("a").acquire().await.unwrap().release().await });
    (0..40).for_each(|_| cycle().unwrap());
    let connections = client.say("CLIENT LIST").as_text().lines().count();
    in_a_child(|| {
        drop(here.take());
        true
    });
    let in_it = here.as_ref().unwrap();
    in_it.block_on(async { locks.lock("a").acquire().await.unwrap().release().await }).unwrap();
    assert_eq!(client.say("CLIENT LIST").as_text().lines().count(), connections);
}
