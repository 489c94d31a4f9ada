//! Leases that all end within a moment: a service with thousands of holders has died.

use crate::alone;
use crate::follower::contents;
use crate::many_locks::ManyLocks;
use crate::scene::Freed;
use crate::setting::{AOF, AS_IT_COMES, FAST_CHORES, SLOW_CHORES, Setting, WITH_AOF, WITH_REPLICA};
use rlock_testing::Reply;

/// How much later than its lease's end a grant may come, however many end with it. Waiters know the holder's lease and
/// count on it; a quarter of a second is the limit under the worst load, and 10,000 grants of some 20 µs each fit in.
const LATE_MS: i64 = 250;

/// The same with an append-only file or a replica: to write or send each lock's end and each grant takes the server about
/// as long as the grant. A quiet machine of two processors takes some 200 ms; a closer bound would be met only by chance.
const LATE_WITH_FOLLOWERS_MS: i64 = 400;

/// All leases end within this many ms.
const MOMENT_MS: i64 = 10;

/// How long it takes to set all leases.
const SETTING_MS: i64 = 1_000;

#[test]
fn ten_thousand_leases_that_end_together_five_times() {
    let _alone = alone();
    rounds(5, LATE_MS, &mut ManyLocks::with(AS_IT_COMES));
}

/// The server finds expired keys by an access or by its own chores: each has its own way into the module.
#[test]
fn however_eager_the_server_is_to_expire() {
    let _alone = alone();
    for (options, without_active_expiry) in [(SLOW_CHORES, true), (FAST_CHORES, false)] {
        rounds(1, LATE_MS, &mut ManyLocks::with(Setting { options, without_active_expiry, ..AS_IT_COMES }));
    }
}

#[test]
fn with_a_replica() {
    let _alone = alone();
    rounds(2, LATE_WITH_FOLLOWERS_MS, &mut ManyLocks::with(WITH_REPLICA));
}

#[test]
fn with_an_aof_from_which_the_server_comes_back() {
    let _alone = alone();
    let mut locks = ManyLocks::with(WITH_AOF);
    rounds(2, LATE_WITH_FOLLOWERS_MS, &mut locks);
    let before = contents(&mut locks.scene.client, &locks.keys);
    let options: Vec<_> = AOF.split(' ').collect();
    let restarted = locks.scene.server.crash().options(&options).without_module().start();
    assert_eq!(contents(&mut restarted.client(), &locks.keys), before);
}

fn rounds(rounds: usize, late_ms: i64, locks: &mut ManyLocks) {
    for round in 1..=rounds {
        if round > 1 {
            locks.clear();
        }
        locks.hold_and_wait();
        locks.free("leases end", late_ms, |locks| {
            let base = locks.scene.client.time_ms() + SETTING_MS;
            let ends: Vec<_> = (0..).map(|number| base + number % MOMENT_MS).take(locks.keys.len()).collect();
            let commands = locks.keys.iter().zip(&ends).map(|(key, end)| format!("PEXPIREAT {key} {end}"));
            let set = locks.scene.client.say_all(commands);
            assert!(set.iter().all(|reply| *reply == Reply::Int(1)), "all locks are held");
            // On a busy machine, this is after the end of the first leases.
            let all_are_set = locks.scene.client.time_ms();
            ends.into_iter().map(|end| Freed { at: end, counted_from: end.max(all_are_set) }).collect()
        });
    }
}
