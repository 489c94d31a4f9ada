//! Which waiter gets a lock next when it is released, and in what step.

use super::for_all_waiters;
use super::scene::{Scene, Waiter};
use rlock_testing::{Client, LeaseCheck, Reply, Server, Tap, wait_until};

for_all_waiters!(
    waiters_are_served_in_the_order_of_coming,
    a_waiter_of_each_side_is_granted_its_lease_and_token,
    the_hand_over_replicates_in_one_step_without_the_key_going,
    dead_readers_go_when_the_lock_is_handed_over,
    readers_are_granted_together_up_to_the_next_writer,
);

fn waiters_are_served_in_the_order_of_coming(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k h0 600000");
    let lease = |number: i64| 600_000 - number * 20_000;
    let mut line: Vec<_> = (1..=12)
        .map(|number| scene.wait(&format!("RLOCK.ACQUIRE k h{number} {} WAIT 0 FENCED", lease(number))))
        .collect();
    let mut last = 0;
    for (number, waiter) in (1..).zip(&mut line) {
        let check = LeaseCheck::begin(scene);
        assert_eq!(scene.say(&format!("RLOCK.RELEASE k h{}", number - 1)), Reply::Int(1));
        check.lease_is(scene, "k", lease(number));
        assert_eq!(scene.fields("k"), format!("{{h{number}:1}}"));
        let token = waiter.outcome().token();
        assert!(last < token, "{token} after {last}");
        last = token;
    }
    assert_eq!(scene.say("RLOCK.RELEASE k h12"), Reply::Int(1));
    assert_eq!(scene.keys(), ["redisson_lock_token:{k}"]);
    assert_eq!((scene.figure("waiters"), scene.figure("hand_offs")), (0, 12));
}

fn a_waiter_of_each_side_is_granted_its_lease_and_token(scene: &mut Scene) {
    let mut last = 0;
    for (take, ask, free, granted) in [
        ("RLOCK.ACQUIRE", "RLOCK.ACQUIRE", "RLOCK.RELEASE k ann", "{bob:1}"),
        ("RLOCK.WACQUIRE", "RLOCK.RACQUIRE", "RLOCK.RELEASE k ann", "{bob:1,mode:read}"),
        ("RLOCK.RACQUIRE", "RLOCK.WACQUIRE", "RLOCK.RELEASE k ann", "{bob:write:1,mode:write}"),
        ("RLOCK.WACQUIRE", "RLOCK.WACQUIRE", "RLOCK.BREAK k", "{bob:write:1,mode:write}"),
    ] {
        scene.say(&format!("{take} k ann 600000"));
        let mut bob = scene.wait(&format!("{ask} k bob 300000 WAIT 600000 FENCED"));
        let lease = LeaseCheck::begin(scene);
        assert_eq!(scene.say(free), Reply::Int(1));
        let token = bob.outcome().token();
        assert!(last < token, "{ask}: {token} after {last}");
        last = token;
        lease.lease_is(scene, "k", 300_000);
        assert_eq!(scene.fields("k"), granted, "{ask}");
        assert_eq!(scene.say("RLOCK.RELEASE k bob"), Reply::Int(1));
    }
}

fn the_hand_over_replicates_in_one_step_without_the_key_going(scene: &mut Scene) {
    let mut tap = Tap::on(scene.server);
    let mut stream = || -> Vec<String> {
        let without_time = |command: String| {
            let words: Vec<_> = command.split(' ').map(|word| if word.len() == 13 { "<end>" } else { word }).collect();
            words.join(" ")
        };
        tap.drain().into_iter().map(without_time).collect()
    };
    scene.say("RLOCK.ACQUIRE k ann 600000");
    stream();
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut cid = scene.wait("RLOCK.ACQUIRE k cid 600000 WAIT 0 FENCED");
    assert_eq!(stream(), [""; 0], "the queue is not replicated");
    scene.say("RLOCK.RELEASE k ann");
    assert_eq!(stream(), ["RESTORE k <end> {bob:1} ABSTTL REPLACE"]);
    bob.is_granted();
    scene.say("RLOCK.RELEASE k bob");
    let counter = format!("SET redisson_lock_token:{{k}} {} KEEPTTL", cid.outcome().token());
    assert_eq!(stream(), ["MULTI", "RESTORE k <end> {cid:1} ABSTTL REPLACE", &counter, "EXEC"]);
    scene.say("RLOCK.RELEASE k cid");

    scene.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut readers = ["cid", "dan"].map(|name| scene.wait(&format!("RLOCK.RACQUIRE k {name} 600000 WAIT 0")));
    stream();
    scene.say("RLOCK.RELEASE k ann");
    let expected =
        ["MULTI", "RESTORE k <end> {mode:write,bob:write:1} ABSTTL REPLACE", "DEL {k}:ann:rwlock_timeout:1", "EXEC"];
    assert_eq!(stream(), expected);
    bob.is_granted();
    scene.say("RLOCK.RELEASE k bob");
    let expected = [
        "MULTI",
        "RESTORE k <end> {mode:read,cid:1} ABSTTL REPLACE",
        "PUBLISH redisson_rwlock:{k} 1",
        "SET {k}:cid:rwlock_timeout:1 1 PXAT <end>",
        "HINCRBY k dan 1",
        "PEXPIREAT k <end>",
        "SET {k}:dan:rwlock_timeout:1 1 PXAT <end>",
        "EXEC",
    ];
    let actual = stream();
    // Whether the second reader's lease is the longer one depends on the ms in between.
    assert!(actual.len() == expected.len() || actual.len() == expected.len() - 1, "{actual:?}");
    assert_eq!(actual[..5], expected[..5]);
    readers.iter_mut().for_each(Waiter::is_granted);
    assert_eq!(stream(), [""; 0], "nor is it replicated which client was notified");

    scene.say("RLOCK.ACQUIRE l ann 600000");
    let mut bob = scene.wait("RLOCK.MACQUIRE 2 m l bob 600000 WAIT 0");
    stream();
    scene.say("RLOCK.RELEASE l ann");
    bob.is_granted();
    let grants = ["m", "l"].map(|key| format!("RESTORE {key} <end> {{bob:1}} ABSTTL REPLACE"));
    let released = ["MULTI", "DEL l", "PUBLISH redisson_lock__channel:{l} 0"].map(str::to_owned);
    assert_eq!(stream(), [&released[..], &grants, &["EXEC".to_owned()]].concat());
}

fn dead_readers_go_when_the_lock_is_handed_over(scene: &mut Scene) {
    scene.say("RLOCK.RACQUIRE k ann 600000");
    scene.say("RLOCK.RACQUIRE k dead 20");
    let mut bob = scene.wait("RLOCK.WACQUIRE k bob 600000 WAIT 0");
    wait_until("the read hold has ended", || scene.expiry("{k}:dead:rwlock_timeout:1") == -2);
    assert_eq!(scene.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    bob.is_granted();
    assert_eq!(scene.fields("k"), "{bob:write:1,mode:write}");
}

#[test]
fn two_thousand_clients_are_served_in_order() {
    const CLIENTS: usize = 2_000;
    const ROUNDS: usize = 3;
    let server = Server::prepare().options(&["--maxclients", "5000"]).start();
    let mut holder = server.client();
    holder.say("RLOCK.ACQUIRE k holder 600000");
    let mut watch = server.client();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    let wait = |client: &mut Client, round: usize, number: usize, watch: &mut Client| {
        client.send(&["RLOCK.ACQUIRE", "k", &format!("h{round}:{number}"), "600000", "WAIT", "0", "FENCED"]);
        // Once the server answers a later command, it has read this one.
        assert!(watch.is_served());
    };
    for (number, client) in clients.iter_mut().enumerate() {
        wait(client, 1, number, &mut watch);
    }
    assert_eq!(watch.figure("longest_queue"), 2_000);
    holder.say("RLOCK.RELEASE k holder");
    let mut last = 0;
    for round in 1..=ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            let token = client.receive().token();
            assert!(last < token, "round {round}, client {number}: {token} after {last}");
            last = token;
            // The next request goes behind all others, and only then does this holder release the lock.
            let mut second = server.client();
            if round < ROUNDS {
                wait(&mut second, round + 1, number, &mut watch);
            }
            assert_eq!(client.run(&["RLOCK.RELEASE", "k", &format!("h{round}:{number}")]), Reply::Int(1));
            *client = second;
        }
    }
    assert_eq!(watch.figure("waiters"), 0);
    assert_eq!(watch.keys(), ["redisson_lock_token:{k}"]);
}

/// The release of a writer grants all readers up to the next waiting writer, which stops new readers.
fn readers_are_granted_together_up_to_the_next_writer(scene: &mut Scene) {
    scene.say("RLOCK.WACQUIRE k ann 600000");
    let mut readers: Vec<_> =
        (0..3).map(|number| scene.wait(&format!("RLOCK.RACQUIRE k r{number} 600000 WAIT 0"))).collect();
    let mut writer = scene.wait("RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut behind = scene.wait("RLOCK.RACQUIRE k cid 600000 WAIT 0");
    let mut next = scene.wait("RLOCK.WACQUIRE k dan 600000 WAIT 0");
    let mut last = scene.wait("RLOCK.RACQUIRE k eve 600000 WAIT 0");
    scene.say("RLOCK.RELEASE k ann");
    readers.iter_mut().for_each(Waiter::is_granted);
    assert!(scene.say("RLOCK.RACQUIRE k new 600000").as_int() > 0, "a waiting writer stops new readers");
    assert_eq!(scene.ask("RLOCK.RACQUIRE k r0 600000 WAIT 0"), Reply::Nil, "but not those inside");
    for reader in ["r0 ALL", "r1", "r2"] {
        assert_eq!(scene.figure("waiters"), 4, "the writers, and the readers behind them");
        scene.say(&format!("RLOCK.RELEASE k {reader}"));
    }
    for (waiter, holder) in [(&mut writer, "bob"), (&mut behind, "cid"), (&mut next, "dan"), (&mut last, "eve")] {
        waiter.is_granted();
        scene.say(&format!("RLOCK.RELEASE k {holder}"));
    }
    assert_eq!(scene.figure("waiters"), 0);
}
