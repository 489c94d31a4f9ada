//! However many owners hold locks, it takes as long to find one of them.
//!
//! The server is one that grants everything, in this process: what is measured is the client alone.

use rlock_client::redis::aio::ConnectionLike;
use rlock_client::redis::{Cmd, Pipeline, RedisFuture, Value};
use rlock_client::{Guard, Lock, Locks};
use std::time::{Duration, Instant};

/// A power of two, and a number that is no such thing.
const MANY: usize = 32_768;
const FEWER: usize = 24_000;

const LOOKS: usize = 200;

/// By how much the fastest look among many may take longer than the fastest among fewer.
const RATIO: u32 = 3;

#[derive(Clone)]
struct GrantsAll;

impl ConnectionLike for GrantsAll {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let is = |name: &str| command.get_packed_command().windows(name.len()).any(|word| word == name.as_bytes());
        let answer = if is("RLOCK.ACQUIRE") { Value::Nil } else { Value::Int(1) };
        Box::pin(async { Ok(answer) })
    }

    fn req_packed_commands<'a>(&'a mut self, _: &'a Pipeline, _: usize, count: usize) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move { Ok(vec![Value::Int(1); count]) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Of one lock, and with leases that nobody has to renew meanwhile.
fn owned(locks: &Locks, owner: usize) -> Lock {
    locks.lock("orders:42").owner(owner.to_string()).fixed_lease(Duration::from_secs(600))
}

/// The least time that it takes an owner who has the lock to acquire it again, and to give that back.
async fn fastest_look(locks: &Locks) -> Duration {
    let mut fastest = Duration::MAX;
    for owner in 0..LOOKS {
        let lock = owned(locks, owner);
        let began = Instant::now();
        let guard = lock.try_acquire().await.unwrap().expect("it grants all");
        fastest = fastest.min(began.elapsed());
        guard.release().await.unwrap();
    }
    fastest
}

async fn until_so_many_hold(guards: &mut Vec<Guard>, count: usize, locks: &Locks) {
    while guards.len() < count {
        guards.push(owned(locks, guards.len()).acquire().await.unwrap());
    }
}

#[tokio::test]
async fn an_owner_is_found_as_fast_among_many() {
    let locks = Locks::options().over(GrantsAll);
    let mut guards = Vec::new();
    until_so_many_hold(&mut guards, FEWER, &locks).await;
    let among_fewer = fastest_look(&locks).await;
    until_so_many_hold(&mut guards, MANY, &locks).await;
    let among_many = fastest_look(&locks).await;
    assert!(among_many < among_fewer * RATIO, "{among_many:?} among {MANY}, {among_fewer:?} among {FEWER}");
}
