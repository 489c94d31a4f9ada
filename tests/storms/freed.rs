//! Locks that are all freed at one stroke, before their leases end.

use crate::many_locks::ManyLocks;
use crate::scene::Freed;
use crate::setting::{AS_IT_COMES, FAST_CHORES, SLOW_CHORES, Setting, WITH_AOF, WITH_REPLICA};
use crate::{alone, as_i64, is_ok};
use rlock_testing::{Reply, wait_until};

/// How long after the start of that stroke the last grant may come. The stroke itself takes a part of this time.
const LATE_MS: i64 = 500;

const FAST: Setting = Setting { options: FAST_CHORES, ..AS_IT_COMES };

const SLOW: Setting = Setting { options: SLOW_CHORES, without_active_expiry: true, ..AS_IT_COMES };

#[test]
fn by_flushall() {
    by("FLUSHALL", WITH_REPLICA, |locks| assert!(is_ok(&locks.scene.client.say("FLUSHALL"))));
}

#[test]
fn by_a_script_that_deletes_them() {
    by("a script", WITH_AOF, |locks| {
        let script = "for _, key in ipairs(KEYS) do redis.call('del', key) end return #KEYS";
        let count = locks.keys.len().to_string();
        let beginning = ["EVAL", script, &count];
        let command: Vec<_> = beginning.into_iter().chain(locks.keys.iter().map(String::as_str)).collect();
        assert_eq!(locks.scene.client.run(&command), Reply::Int(as_i64(locks.keys.len())));
    });
}

#[test]
fn by_unlink_in_a_transaction() {
    by("UNLINK in a transaction", SLOW, |locks| {
        let unlinks: Vec<_> = locks.keys.chunks(100).map(|keys| format!("UNLINK {}", keys.join(" "))).collect();
        let transaction = ["MULTI"].into_iter().chain(unlinks.iter().map(String::as_str)).chain(["EXEC"]);
        let replies = locks.scene.client.say_all(transaction);
        let unlinked = replies.last().unwrap().as_list().iter().map(Reply::as_int);
        assert_eq!(unlinked.sum::<i64>(), as_i64(locks.keys.len()));
    });
}

/// Each release hands over in its own step, so after the last reply no client waits.
#[test]
fn by_a_burst_of_releases() {
    by("a burst of releases", FAST, |locks| {
        let released = locks.say_for_each(|key| format!("RLOCK.RELEASE {key} holder"));
        assert!(released.iter().all(|reply| *reply == Reply::Int(1)));
        assert_eq!(locks.scene.client.figure("waiters"), 0);
    });
}

fn by(name: &str, setting: Setting, free: impl Fn(&mut ManyLocks)) {
    let _alone = alone();
    let mut locks = ManyLocks::with(setting);
    locks.hold_and_wait();
    locks.free(name, LATE_MS, |locks| {
        let before = locks.scene.client.time_ms();
        free(locks);
        vec![Freed::at(before); locks.keys.len()]
    });
}

/// A full server evicts locks, and grants none of them before there is memory again. Waiters of other locks go on
/// waiting.
#[test]
fn by_eviction() {
    let _alone = alone();
    let random = Setting { options: "--maxmemory-policy allkeys-random", has_replica: true, ..AS_IT_COMES };
    let mut locks = ManyLocks::with(random);
    locks.hold_and_wait();
    locks.free("eviction", LATE_MS, |locks| {
        let (all, half) = (locks.keys.len(), as_i64(locks.keys.len() / 2));
        let (client, batch) = (&mut locks.scene.client, &mut locks.scene.batch);
        client.say("CONFIG SET maxmemory 1");
        wait_until("half of the locks are evicted", || client.info("stats").number("evicted_keys") >= half);
        assert_eq!(batch.answered(), 0, "a full server grants nothing");
        let fit = client.time_ms();
        client.say("CONFIG SET maxmemory 0");
        let evicted = usize::try_from(client.info("stats").number("evicted_keys")).unwrap();
        assert_eq!(batch.collect(evicted), evicted, "each lock that was evicted is granted");
        assert_eq!(client.figure("waiters"), as_i64(all - evicted));
        println!("{evicted} locks of {all} are evicted");

        let is_granted: Vec<_> = batch.answers().map(|answer| answer.is_some()).collect();
        let holders = locks.say_for_each(|key| format!("HKEYS {key}"));
        for (holder, is_granted) in holders.iter().zip(&is_granted) {
            assert_eq!(holder.words(), [if *is_granted { "waiter" } else { "holder" }]);
        }
        let deleted = locks.scene.client.time_ms();
        let stayed = locks.keys.iter().zip(&is_granted).filter(|(_, is_granted)| !**is_granted);
        locks.scene.client.say_all(stayed.map(|(key, _)| format!("DEL {key}")));
        is_granted.iter().map(|is_granted| Freed::at(if *is_granted { fit } else { deleted })).collect()
    });
}
