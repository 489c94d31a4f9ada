//! Four permits that change hands: by the commands, and by scripts that do what Redisson's do.

use super::Record;
use crate::contenders::{LONG_LEASE, PERMIT_END, PERMIT_TIME};
use crate::line::{Line, packed};
use redis::Script;
use rlock_testing::{Client, Reply, scripts};
use std::path::PathBuf;
use std::rc::Rc;

/// Who has the permits before all others.
const FIRST: [&str; 4] = ["first:0000000001", "first:0000000002", "first:0000000003", "first:0000000004"];

/// Redisson's keys of a semaphore named `lock`.
const ENDS: &str = "{lock}:timeout";
const CHANNEL: &str = "redisson_sc:{lock}";

/// What asks for a permit, and what gives it back.
pub fn commands(holder: &str) -> [Vec<u8>; 2] {
    let acquire = ["RLOCK.PACQUIRE", "lock", holder, LONG_LEASE, "LIMIT", "4", "WAIT", "0"];
    [packed(&acquire), packed(&["RLOCK.RELEASE", "lock", holder])]
}

pub fn take_all(first: &mut Client) {
    for holder in FIRST {
        assert_eq!(first.say(&format!("RLOCK.PACQUIRE lock {holder} {LONG_LEASE} LIMIT 4")), Reply::Nil);
    }
}

pub fn give_all(first: &mut Client) {
    for holder in FIRST {
        assert_eq!(first.say(&format!("RLOCK.RELEASE lock {holder}")), Reply::Int(1));
    }
}

pub fn take_all_by_script(first: &mut Client) {
    for script in [scripts::PERMIT_ACQUIRE, scripts::PERMIT_RELEASE] {
        first.run(&["SCRIPT", "LOAD", script]);
    }
    first.say("SET lock 4");
    for permit in FIRST {
        assert_eq!(first.run(&acquire_script(permit)).as_text(), "OK");
    }
}

pub fn give_all_by_script(first: &mut Client) {
    for permit in FIRST {
        assert_eq!(first.run(&release_script(permit)), Reply::Int(1));
    }
}

pub async fn by_messages(socket: PathBuf, number: usize, record: Rc<Record>) {
    // As long as Redisson's names of permits.
    let permit = format!("permit:{number:09}");
    let [acquire, release] = [acquire_script(&permit), release_script(&permit)];
    let words = |script: &[String]| packed(&script.iter().map(String::as_str).collect::<Vec<_>>());
    let [acquire, release] = [words(&acquire), words(&release)];
    let (mut line, mut messages) = (Line::connect(&socket).await, Line::subscribed(&socket, CHANNEL).await);
    loop {
        line.send(&acquire).await;
        // OK, or when the first permit ends.
        line.next().await;
        if line.next().await.starts_with("OK") {
            record.grants.give(number);
            line.send(&release).await;
            line.skip(1).await;
        } else {
            record.refused.set(record.refused.get() + 1);
            messages.anything().await;
        }
    }
}

fn acquire_script(permit: &str) -> Vec<String> {
    let hash = Script::new(scripts::PERMIT_ACQUIRE).get_hash().to_owned();
    ["EVALSHA", &hash, "3", "lock", ENDS, CHANNEL, PERMIT_END, PERMIT_TIME, permit].map(str::to_owned).to_vec()
}

fn release_script(permit: &str) -> Vec<String> {
    let hash = Script::new(scripts::PERMIT_RELEASE).get_hash().to_owned();
    ["EVALSHA", &hash, "3", "lock", CHANNEL, ENDS, permit, PERMIT_TIME].map(str::to_owned).to_vec()
}
