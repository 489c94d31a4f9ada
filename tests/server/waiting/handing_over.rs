//! Who gets a lock next when it is released, and in what step.

use rlock_testing::{Client, LeaseCheck, Reply, Server, Tap, list, start_waiting, wait_until};

#[test]
fn a_release_hands_the_lock_to_the_first_who_waits() {
    let server = Server::start();
    let mut ann = server.client();
    ann.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 300000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 200000 WAIT 0 FENCED");
    let lease = LeaseCheck::begin(&mut ann);
    assert_eq!(ann.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(bob.receive(), Reply::Nil);
    lease.lease_is(&mut ann, "k", 300_000);
    assert_eq!(ann.hash("k"), [("bob".into(), "1".into())]);
    assert_eq!(bob.say("RLOCK.RELEASE k bob"), Reply::Int(1));
    assert_eq!(cid.receive(), list([Reply::Nil, Reply::Int(1)]));
    assert_eq!(cid.say("RLOCK.RELEASE k cid"), Reply::Int(1));
    assert_eq!(ann.keys(), ["redisson_lock_token:{k}"]);
    assert_eq!(ann.figure("waiters"), 0);
}

#[test]
fn a_lock_that_is_free_is_granted_without_waiting() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 WAIT 0"), Reply::Nil);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 WAIT 1000"), Reply::Nil, "nor is it when it is one's own");
    assert_eq!(client.figure("waits"), 0);
}

#[test]
fn the_hand_over_replicates_in_one_step_without_the_key_going() {
    let server = Server::start();
    let mut client = server.client();
    let mut tap = Tap::on(&server);
    let stream = |tap: &mut Tap| -> Vec<String> {
        let without_time = |command: String| {
            let words: Vec<_> = command.split(' ').map(|word| if word.len() == 13 { "<end>" } else { word }).collect();
            words.join(" ")
        };
        tap.drain().into_iter().map(without_time).collect()
    };
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0 FENCED");
    stream(&mut tap);
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(stream(&mut tap), ["RESTORE k <end> {bob:1} ABSTTL REPLACE"]);
    bob.receive();
    client.say("RLOCK.RELEASE k bob");
    let expected = ["MULTI", "RESTORE k <end> {cid:1} ABSTTL REPLACE", "INCR redisson_lock_token:{k}", "EXEC"];
    assert_eq!(stream(&mut tap), expected);
    cid.receive();
    client.say("RLOCK.RELEASE k cid");

    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.RACQUIRE k cid 600000 WAIT 0");
    let mut dan = start_waiting(&server, "RLOCK.RACQUIRE k dan 600000 WAIT 0");
    stream(&mut tap);
    client.say("RLOCK.RELEASE k ann");
    let expected =
        ["MULTI", "RESTORE k <end> {mode:write,bob:write:1} ABSTTL REPLACE", "DEL {k}:ann:rwlock_timeout:1", "EXEC"];
    assert_eq!(stream(&mut tap), expected);
    bob.receive();
    client.say("RLOCK.RELEASE k bob");
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
    let actual = stream(&mut tap);
    // Whether the second reader's lease is the longer one depends on the ms in between.
    assert!(actual.len() == expected.len() || actual.len() == expected.len() - 1, "{actual:?}");
    assert_eq!(actual[..5], expected[..5]);
    assert_eq!((cid.receive(), dan.receive()), (Reply::Nil, Reply::Nil));
}

#[test]
fn dead_readers_go_when_the_lock_is_handed_over() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k dead 20");
    let mut bob = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    wait_until("the read hold has ended", || client.expiry("{k}:dead:rwlock_timeout:1") == -2);
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.hash("k"), [("bob:write".into(), "1".into()), ("mode".into(), "write".into())]);
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
        // The server has read it when it answers what was sent later.
        assert!(watch.is_served());
    };
    for (number, client) in clients.iter_mut().enumerate() {
        wait(client, 1, number, &mut watch);
    }
    assert_eq!(watch.figure("longest_queue"), 2_000);
    holder.say("RLOCK.RELEASE k holder");
    let mut token = 0;
    for round in 1..=ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            token += 1;
            assert_eq!(client.receive(), list([Reply::Nil, Reply::Int(token)]), "round {round}, client {number}");
            // Behind everyone else again, and only then is the lock given on.
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

#[test]
fn readers_are_let_in_together_up_to_the_next_writer() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    let mut readers: Vec<_> =
        (0..3).map(|number| start_waiting(&server, &format!("RLOCK.RACQUIRE k r{number} 600000 WAIT 0"))).collect();
    let mut writer = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut late = start_waiting(&server, "RLOCK.RACQUIRE k late 600000 WAIT 0");
    client.say("RLOCK.RELEASE k ann");
    for reader in &mut readers {
        assert_eq!(reader.receive(), Reply::Nil);
    }
    assert_eq!(client.figure("waiters"), 2, "the writer and the reader behind it");
    assert!(client.say("RLOCK.RACQUIRE k new 600000").as_int() > 0, "a waiting writer stops new readers");
    assert_eq!(client.say("RLOCK.RACQUIRE k r0 600000"), Reply::Nil, "but not those inside");
    client.say("RLOCK.RELEASE k r0 ALL");
    client.say("RLOCK.RELEASE k r1");
    client.say("RLOCK.RELEASE k r2");
    assert_eq!(writer.receive(), Reply::Nil);
    assert_eq!(client.figure("waiters"), 1);
    client.say("RLOCK.RELEASE k bob");
    assert_eq!(late.receive(), Reply::Nil);
}

#[test]
fn readers_go_on_when_the_writer_before_them_leaves() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    let writer = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut reader = start_waiting(&server, "RLOCK.RACQUIRE k cid 600000 WAIT 0");
    drop(writer);
    assert_eq!(reader.receive(), Reply::Nil);
    let mut writer = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 60");
    let mut reader = start_waiting(&server, "RLOCK.RACQUIRE k dan 600000 WAIT 0");
    assert!(writer.receive().as_int() > 0);
    assert_eq!(reader.receive(), Reply::Nil);
}

#[test]
fn a_downgrade_lets_readers_in() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut reader = start_waiting(&server, "RLOCK.RACQUIRE k bob 600000 WAIT 0");
    assert_eq!(client.say("RLOCK.RELEASE k ann WRITE"), Reply::Int(1));
    assert_eq!(reader.receive(), Reply::Nil);
    assert_eq!(
        client.hash("k"),
        [("ann".into(), "1".into()), ("bob".into(), "1".into()), ("mode".into(), "read".into())]
    );
}

#[test]
fn who_is_inside_is_never_queued() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    let mut waiter = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    assert_eq!(client.say("RLOCK.WACQUIRE k ann 600000 WAIT 0"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RACQUIRE k ann 600000 WAIT 0"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RELEASE k ann ALL"), Reply::Int(1));
    assert_eq!(waiter.receive(), Reply::Nil);
    // The same holder waits twice: with the first grant it is inside.
    let mut first = start_waiting(&server, "RLOCK.WACQUIRE k cid 600000 WAIT 0");
    let mut other = start_waiting(&server, "RLOCK.WACQUIRE k dan 600000 WAIT 0");
    let mut second = start_waiting(&server, "RLOCK.WACQUIRE k cid 600000 WAIT 0");
    client.say("RLOCK.RELEASE k bob");
    assert_eq!((first.receive(), second.receive()), (Reply::Nil, Reply::Nil));
    assert_eq!(client.say("RLOCK.RELEASE k cid ALL"), Reply::Int(1));
    assert_eq!(other.receive(), Reply::Nil);
}
