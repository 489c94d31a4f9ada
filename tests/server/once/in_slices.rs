//! An answer that reaches its waiters over several turns of the server, and what happens in between.

use crate::waiting::for_all_waiters;
use crate::waiting::scene::{Outcome, Scene, Waiter};
use rlock_testing::{Reply, ServerVersion, free_port, text};

for_all_waiters!(
    all_waiters_get_it_whatever_becomes_of_the_stored_one,
    a_second_answer_meets_the_first_on_its_way,
    a_full_or_paused_server_gives_answers_all_the_same,
    a_server_that_becomes_a_replica_leaves_no_waiter,
);

/// One turn copies the answer to fewer clients than these.
const CALLERS: usize = 64;

/// The default maximum.
const LENGTH: usize = 64 * 1024;

fn value() -> String {
    "x".repeat(LENGTH)
}

fn wait_all(scene: &mut Scene) -> Vec<Waiter> {
    assert_eq!(scene.say("RLOCK.ONCE k ann 600000"), Reply::Nil);
    (0..CALLERS).map(|number| scene.wait(&format!("RLOCK.ONCE k h{number} 600000 WAIT 0"))).collect()
}

/// Sends ANSWER and these commands in one piece, so that no turn comes in between.
fn answer_and(scene: &mut Scene, commands: &[&str]) {
    let (value, commands) = (value(), commands.iter().map(|command| command.split(' ').collect::<Vec<_>>()));
    let all: Vec<Vec<&str>> =
        [vec!["RLOCK.ANSWER", "k", "ann", &value, "KEEP", "600000"]].into_iter().chain(commands).collect();
    scene.send_together(&all.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!(scene.receive(), Reply::Int(1));
    for command in &all[1..] {
        let reply = scene.receive();
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }
}

/// Each blocked client has the value, and each ticket has its event.
fn all_get_it(waiters: &mut [Waiter]) {
    let value = value();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let outcome = waiter.outcome();
        let is_it = matches!(&outcome, Outcome::Answered(answer) if answer.as_ref().is_none_or(|it| *it == value));
        assert!(is_it, "caller {number} has no answer: {}", format!("{outcome:?}").get(..100).unwrap_or_default());
    }
}

fn all_waiters_get_it_whatever_becomes_of_the_stored_one(scene: &mut Scene) {
    for meanwhile in [
        &["DEL rlock_answer:{k}"][..],
        &["FLUSHALL"],
        &["FLUSHALL ASYNC"],
        &["SWAPDB 0 7"],
        &["PEXPIREAT rlock_answer:{k} 1"],
        &["RENAME rlock_answer:{k} elsewhere"],
        &["DEL rlock_answer:{k}", "HSET rlock_answer:{k} no text"],
        // Another client acquires the lock before all have their answers.
        &["DEL rlock_answer:{k}", "RLOCK.ACQUIRE k eva 600000 WAIT 0"],
        &["SET k text"],
    ] {
        let mut waiters = wait_all(scene);
        answer_and(scene, meanwhile);
        all_get_it(&mut waiters);
        scene.say("SELECT 0");
        assert_eq!(scene.figure("waiters"), 0, "{meanwhile:?}");
        scene.say("FLUSHALL");
    }
}

/// The lock goes to a plain waiter, which answers as well.
fn a_second_answer_meets_the_first_on_its_way(scene: &mut Scene) {
    assert_eq!(scene.say("RLOCK.ONCE k ann 600000"), Reply::Nil);
    let mut plain = scene.wait("RLOCK.ACQUIRE k plain 600000 WAIT 0");
    let mut waiters: Vec<_> =
        (0..CALLERS).map(|number| scene.wait(&format!("RLOCK.ONCE k h{number} 600000 WAIT 0"))).collect();
    answer_and(scene, &["RLOCK.ANSWER k plain second KEEP 600000"]);
    plain.is_granted();
    for waiter in &mut waiters {
        match waiter.outcome() {
            Outcome::Answered(answer) => {
                assert!(answer.is_none_or(|answer| answer == "second" || answer == value()));
            }
            other => panic!("no answer: {other:?}"),
        }
    }
    assert_eq!(scene.say("RLOCK.ONCE k later 600000"), text("second"));
}

fn a_full_or_paused_server_gives_answers_all_the_same(scene: &mut Scene) {
    for (unfit, fit) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        ("CLIENT PAUSE 600000 WRITE", "CLIENT UNPAUSE"),
    ] {
        let mut waiters = wait_all(scene);
        answer_and(scene, &[unfit]);
        scene.until_waiting(0);
        scene.say(fit);
        all_get_it(&mut waiters);
        scene.say("FLUSHALL");
    }
}

fn a_server_that_becomes_a_replica_leaves_no_waiter(scene: &mut Scene) {
    let mut waiters = wait_all(scene);
    let replica_of_nobody = format!("REPLICAOF 127.0.0.1 {}", free_port());
    answer_and(scene, &[&replica_of_nobody]);
    scene.until_waiting(0);
    let value = value();
    for waiter in &mut waiters {
        let has_answer = match waiter.outcome() {
            Outcome::Answered(answer) => answer.is_none_or(|answer| answer == value),
            Outcome::Error(line) => line.starts_with("UNBLOCKED "),
            Outcome::CutOff => true,
            Outcome::Granted(_) | Outcome::TimeIsUp(_) => false,
        };
        assert!(has_answer, "on {}", ServerVersion::under_test());
    }
    assert!(scene.say("RLOCK.ONCE k late 600000").as_error().starts_with("READONLY"));
    scene.say("REPLICAOF NO ONE");
    assert_eq!(scene.say("RLOCK.ONCE k late 600000"), text(&value), "the stored answer outlives the change of role");
}
