//! How many locks a command on many locks looks at, while many requests for the same locks wait.

use super::world::{World, holder, new_world};
use rlock_core::lock::{Lease, Release, Side, Wish};
use rlock_core::waiting::Engine;
use rlock_core::waiting::commands::{Acquiring, Waiting};
use rlock_sim::Client;

/// The maximum number of locks in one request.
const LOCKS: usize = 64;

/// How many waiting requests are asked at each check.
const ASKED: usize = rlock_core::waiting::CHECKED_MAX;

fn locks() -> Vec<Vec<u8>> {
    (0..LOCKS).map(|number| number.to_string().into_bytes()).collect()
}

/// Asks for all of these locks. Returns whether they are granted at once.
fn ask(engine: &mut Engine<Client>, world: &World, locks: &[Vec<u8>], holder: &str, waits: bool) -> bool {
    world.begin_turn();
    let keys: Vec<_> = locks.iter().map(Vec::as_slice).collect();
    let lease = Lease::from_ms(1_000).unwrap();
    let wish = Wish { holder: holder.as_bytes(), side: Side::Plain, lease, fenced: false };
    let waiting = waits.then_some(Waiting { limit_ms: 0, max: None, ticket: None });
    match engine.acquire_all(world, &keys, &wish, waiting).unwrap() {
        Acquiring::GrantedAll { .. } => true,
        Acquiring::Done(_) | Acquiring::Blocked(_) => false,
        other => panic!("{other:?}"),
    }
}

/// A world in which `holder` has all locks of the requests that wait.
fn with_waiting(requests: usize) -> (Engine<Client>, World) {
    let (mut engine, world) = (Engine::default(), new_world(usize::MAX));
    assert!(ask(&mut engine, &world, &locks(), "holder", false));
    (0..requests).for_each(|number| assert!(!ask(&mut engine, &world, &locks(), &format!("waiter {number}"), true)));
    (engine, world)
}

#[test]
fn a_release_asks_each_request_only_for_what_it_lacked() {
    for order in [locks(), locks().into_iter().rev().collect()] {
        let (mut engine, world) = with_waiting(ASKED);
        world.watcher.looks.set(0);
        for lock in order {
            world.begin_turn();
            let want = Release { side: None, lease: None, all: false };
            engine.release(&world, &lock, b"holder", want).unwrap();
        }
        // At each release what is released, what that request lacked, and the next one that it lacks.
        let looks = world.watcher.looks.get();
        assert!(locks().iter().all(|lock| holder(&world, lock).as_deref() == Some("waiter 0")));
        assert!(looks < 4 * ASKED * LOCKS, "{looks} looks");
    }
}

#[test]
fn a_newcomer_asks_the_requests_before_it_once() {
    let (mut engine, world) = with_waiting(ASKED + 4);
    let want = Release { side: None, lease: None, all: false };
    for lock in locks().iter().skip(1) {
        engine.release(&world, lock, b"holder", want).unwrap();
    }
    let mut newcomers = locks();
    newcomers.rotate_left(1);
    for waits in [false, true] {
        world.watcher.looks.set(0);
        assert!(!ask(&mut engine, &world, &newcomers, "newcomer", waits), "{} are before it", ASKED + 4);
        engine.catch_up(&world);
        let looks = world.watcher.looks.get();
        assert!(looks < 2 * (LOCKS + ASKED), "{looks} looks");
    }
}
