//! What replicas, AOF files and INFO get of grants to those who waited.

use rlock_testing::{Reply, Server, start_waiting, wait_until};

#[test]
fn a_replica_agrees_after_every_kind_of_grant() {
    let master = Server::start();
    let replica = Server::prepare().without_module().start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    for (number, (take, ask, free)) in [
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED", "RLOCK.RELEASE k ann"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "DEL k"),
        ("RLOCK.ACQUIRE k ann 30", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "PING"),
        ("RLOCK.WACQUIRE k ann 600000", "RLOCK.RACQUIRE k bob 600000 WAIT 0", "RLOCK.RELEASE k ann"),
        ("RLOCK.RACQUIRE k ann 600000", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "RLOCK.RELEASE k ann"),
        ("RLOCK.RACQUIRE k ann 30", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "PING"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "FLUSHALL"),
    ]
    .into_iter()
    .enumerate()
    {
        // Every case on a key of its own.
        let on = |command: &str| {
            let words = command.split(' ').map(|word| if word == "k" { format!("k{number}") } else { word.to_owned() });
            words.collect::<Vec<_>>().join(" ")
        };
        ours.say(&on(take));
        let mut bob = start_waiting(&master, &on(ask));
        ours.say(&on(free));
        assert!(!matches!(bob.receive(), Reply::Error(_)), "{take}");
        let expected = ours.everything();
        assert!(!expected.is_empty());
        wait_until("the replica has it", || theirs.everything() == expected);
    }
    assert_eq!(ours.digest(), theirs.digest());
}

#[test]
fn an_aof_file_agrees_after_grants() {
    let aof = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::prepare().options(&aof).start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED");
    client.say("RLOCK.ACQUIRE l ann 50");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE l cid 600000 WAIT 0");
    client.say("RLOCK.RACQUIRE m ann 600000");
    let mut dan = start_waiting(&server, "RLOCK.WACQUIRE m dan 600000 WAIT 0");
    client.say("RLOCK.RELEASE k ann");
    client.say("UNLINK m");
    assert_eq!((cid.receive(), dan.receive()), (Reply::Nil, Reply::Nil));
    bob.receive();
    let expected = client.everything();
    let restarted = server.crash().options(&aof).without_module().start();
    assert_eq!(restarted.client().everything(), expected);
}

#[test]
fn info_counts_what_happens() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE k bob 600000");
    client.say("RLOCK.ACQUIRE k bob 600000 WAIT 1");
    client.say("RLOCK.ACQUIRE l ann 600000");
    let gone = start_waiting(&server, "RLOCK.ACQUIRE k gone 600000 WAIT 0");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let _other = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    for (name, expected) in [
        ("grants", 2),
        ("refusals", 1),
        ("waits", 4),
        ("hand_offs", 0),
        ("timeouts", 1),
        ("cancelled", 0),
        ("waiters", 3),
        ("locks_with_waiters", 2),
        ("longest_queue", 2),
    ] {
        assert_eq!(client.figure(name), expected, "{name}");
    }
    drop(gone);
    wait_until("one has left", || client.figure("cancelled") == 1);
    client.say("RLOCK.RELEASE k ann");
    bob.receive();
    for (name, expected) in [("grants", 3), ("hand_offs", 1), ("waiters", 1), ("locks_with_waiters", 1)] {
        assert_eq!(client.figure(name), expected, "{name}");
    }
}
