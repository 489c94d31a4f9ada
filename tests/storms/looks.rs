//! What it costs to keep an eye on many locks that nothing happens to.

use crate::alone;
use crate::many_locks::ManyLocks;
use crate::setting::AS_IT_COMES;
use rlock_testing::Reply;
use std::thread;
use std::time::{Duration, Instant};

/// How much of a processor the server may take for these locks, in percent.
const MOST_PERCENT: f64 = 3.0;

/// Long enough that the server's occasional chores hardly count.
const LOOKED_ON: Duration = Duration::from_secs(3);

#[test]
fn ten_thousand_locks_that_are_waited_for_and_never_end() {
    let _alone = alone();
    let mut locks = ManyLocks::with(AS_IT_COMES);
    locks.hold();
    assert!(locks.say_for_each(|key| format!("PERSIST {key}")).iter().all(|reply| *reply == Reply::Int(1)));
    // The same locks and the same connections, but no waiters.
    let idle = percent_of_a_processor(&mut locks);
    locks.wait();
    let waited_for = percent_of_a_processor(&mut locks);
    let count = locks.keys.len();
    println!(
        "{count} locks without an end: {idle:.2} % of a processor if nobody waits, {waited_for:.2} % if one waits for each"
    );
    assert_eq!(locks.scene.batch.answered(), 0, "all wait");
    assert_eq!(locks.scene.client.figure("waiters"), i64::try_from(count).unwrap());
    assert!(waited_for <= idle + MOST_PERCENT, "{waited_for:.2} % beside {idle:.2} %");
}

/// What the server takes while no client asks it for anything.
fn percent_of_a_processor(locks: &mut ManyLocks) -> f64 {
    let (before, since) = (used_seconds(locks), Instant::now());
    // There is no condition to wait for: time itself is measured.
    thread::sleep(LOOKED_ON);
    let used = used_seconds(locks) - before;
    used / since.elapsed().as_secs_f64() * 100.0
}

fn used_seconds(locks: &mut ManyLocks) -> f64 {
    let info = locks.scene.client.info("cpu");
    let used = |name: &str| -> f64 { info.find(name).unwrap().parse().unwrap() };
    used("used_cpu_user") + used("used_cpu_sys")
}
