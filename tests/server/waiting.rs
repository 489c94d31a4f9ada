//! Waiting in the server: who gets a lock next, what moves the queue on, and how a waiter leaves it.

use crate::support::{Client, LeaseCheck, Reply, Server, ServerVersion, Tap, list, text, wait_until};

/// The number that INFO tells under this name.
fn info(client: &mut Client, name: &str) -> i64 {
    let info = client.say("INFO rlock");
    let line = info.as_text().lines().find_map(|line| line.strip_prefix(&format!("rlock_{name}:")));
    line.unwrap_or_else(|| panic!("INFO has no {name}: {info:?}")).parse().unwrap()
}

/// Sends a command that will wait, and returns once it does.
fn start_waiting(server: &Server, command: &str) -> Client {
    let (mut client, mut watch) = (server.client(), server.client());
    let before = info(&mut watch, "waits");
    client.send(&command.split(' ').collect::<Vec<_>>());
    wait_until("the client waits", || info(&mut watch, "waits") == before + 1);
    client
}

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
    assert_eq!(info(&mut ann, "waiters"), 0);
}

#[test]
fn a_lock_that_is_free_is_granted_without_waiting() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 WAIT 0"), Reply::Nil);
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 WAIT 1000"), Reply::Nil, "nor is it when it is one's own");
    assert_eq!(info(&mut client, "waits"), 0);
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
        tap.drain(&server).into_iter().map(without_time).collect()
    };
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0 FENCED");
    stream(&mut tap);
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(stream(&mut tap), ["MULTI", "HINCRBY k bob 1", "PEXPIREAT k <end>", "HDEL k ann", "EXEC"]);
    bob.receive();
    client.say("RLOCK.RELEASE k bob");
    let expected =
        ["MULTI", "HINCRBY k cid 1", "PEXPIREAT k <end>", "HDEL k bob", "INCR redisson_lock_token:{k}", "EXEC"];
    assert_eq!(stream(&mut tap), expected);
    cid.receive();
    client.say("RLOCK.RELEASE k cid");

    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.RACQUIRE k cid 600000 WAIT 0");
    let mut dan = start_waiting(&server, "RLOCK.RACQUIRE k dan 600000 WAIT 0");
    stream(&mut tap);
    client.say("RLOCK.RELEASE k ann");
    let expected = [
        "MULTI",
        "HSET k mode write bob:write 1",
        "PEXPIREAT k <end>",
        "HDEL k ann",
        "DEL {k}:ann:rwlock_timeout:1",
        "EXEC",
    ];
    assert_eq!(stream(&mut tap), expected);
    bob.receive();
    client.say("RLOCK.RELEASE k bob");
    let expected = [
        "MULTI",
        "HSET k mode read cid 1",
        "PEXPIREAT k <end>",
        "HDEL k bob:write",
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
    assert_eq!(actual[..7], expected[..7]);
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
    let wait = |client: &mut Client, round: usize, number: usize| {
        client.send(&["RLOCK.ACQUIRE", "k", &format!("h{round}:{number}"), "600000", "WAIT", "0", "FENCED"]);
    };
    for (number, client) in clients.iter_mut().enumerate() {
        wait(client, 1, number);
        wait_until("it waits", || info(&mut watch, "waiters") == i64::try_from(number).unwrap() + 1);
    }
    assert_eq!(info(&mut watch, "longest_queue"), 2_000);
    holder.say("RLOCK.RELEASE k holder");
    let mut token = 0;
    for round in 1..=ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            token += 1;
            assert_eq!(client.receive(), list([Reply::Nil, Reply::Int(token)]), "round {round}, client {number}");
            // Behind everyone else again, and only then is the lock given on.
            let mut second = server.client();
            if round < ROUNDS {
                wait(&mut second, round + 1, number);
                wait_until("it waits again", || info(&mut watch, "waiters") == 2_000);
            }
            assert_eq!(client.run(&["RLOCK.RELEASE", "k", &format!("h{round}:{number}")]), Reply::Int(1));
            *client = second;
        }
    }
    assert_eq!(info(&mut watch, "waiters"), 0);
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
    assert_eq!(info(&mut client, "waiters"), 2, "the writer and the reader behind it");
    assert!(client.say("RLOCK.RACQUIRE k new 600000").as_int() > 0, "a waiting writer stops new readers");
    assert_eq!(client.say("RLOCK.RACQUIRE k r0 600000"), Reply::Nil, "but not those inside");
    client.say("RLOCK.RELEASE k r0 ALL");
    client.say("RLOCK.RELEASE k r1");
    client.say("RLOCK.RELEASE k r2");
    assert_eq!(writer.receive(), Reply::Nil);
    assert_eq!(info(&mut client, "waiters"), 1);
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

#[test]
fn a_wait_ends_at_its_deadline() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let begin = client.time_ms();
    assert!((1..=600_000).contains(&client.say("RLOCK.ACQUIRE k bob 1000 WAIT 50").as_int()));
    assert!(client.time_ms() >= begin + 50);
    let reply = client.say("RLOCK.ACQUIRE k bob 1000 WAIT 20 FENCED");
    assert!((1..=600_000).contains(&reply.as_list()[0].as_int()));
    assert_eq!(reply.as_list()[1], Reply::Nil);
    assert_eq!((info(&mut client, "waiters"), info(&mut client, "timeouts")), (0, 2));
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0], "who no longer waits is not granted");
}

#[test]
fn a_lease_that_ends_moves_the_queue_on_within_5_ms() {
    let server = Server::start();
    let mut client = server.client();
    // The server's own sweep would come too late.
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    client.say("RLOCK.ACQUIRE k ann 300");
    let end = client.expiry("k");
    let mut first = start_waiting(&server, "RLOCK.ACQUIRE k h0 600000 WAIT 0");
    let others: Vec<_> =
        (1..100).map(|number| start_waiting(&server, &format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    assert_eq!(first.receive(), Reply::Nil);
    let granted = client.expiry("k") - 600_000;
    assert!((end..=end + 5).contains(&granted), "ended at {end}, granted at {granted}");
    assert_eq!(info(&mut client, "waiters"), 99);
    drop(others);
    wait_until("all have left", || info(&mut client, "waiters") == 0);
}

#[test]
fn whatever_removes_the_lock_moves_the_queue_on() {
    for removal in [
        &["DEL k"][..],
        &["UNLINK k"],
        &["HDEL k ann"],
        &["RENAME k elsewhere"],
        &["MOVE k 5"],
        &["PEXPIREAT k 1"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["FLUSHALL ASYNC"],
        &["SWAPDB 0 7"],
        &["MULTI", "DEL k", "SET x 1", "EXEC"],
        &["SUNIONSTORE k none"],
    ] {
        let server = Server::start();
        let mut client = server.client();
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        for command in removal {
            client.say(command);
        }
        assert_eq!(bob.receive(), Reply::Nil, "{removal:?}");
        assert_eq!(client.hash("k"), [("bob".into(), "1".into())], "{removal:?}");
        assert_eq!(info(&mut client, "waiters"), 0);
    }
}

#[test]
fn a_script_that_unlocks_as_redissons_does_moves_the_queue_on() {
    let server = Server::start();
    let mut client = server.client();
    client.say("HINCRBY k java:1 1");
    client.say("PEXPIRE k 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let script = "redis.call('del', KEYS[1]) redis.call('publish', 'redisson_lock__channel:{k}', 0) return 1";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn nobody_gets_between_a_removal_and_the_grant() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..100 {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        client.send(&["DEL", "k"]);
        client.send(&["RLOCK.ACQUIRE", "k", "thief", "600000"]);
        assert_eq!(client.receive(), Reply::Int(1));
        assert!(client.receive().as_int() > 0, "an RLOCK command respects the queue on every server");
        assert_eq!(bob.receive(), Reply::Nil);
        client.say("RLOCK.RELEASE k bob");
    }
}

#[test]
fn what_becomes_of_a_lock_that_is_no_lock_any_more() {
    for overwriting in ["SET k text", "RENAME text k", "COPY text k REPLACE"] {
        let server = Server::start();
        let mut client = server.client();
        client.say("SET text hello");
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        client.say(overwriting);
        assert!(bob.receive().as_error().starts_with("WRONGTYPE"), "{overwriting}");
        assert_eq!(info(&mut client, "waiters"), 0);
    }
}

#[test]
fn a_client_that_goes_leaves_the_queue() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let gone = start_waiting(&server, "RLOCK.ACQUIRE k gone 600000 WAIT 0");
    let mut killed = server.client();
    let id = killed.say("CLIENT ID").as_int();
    killed.send(&["RLOCK.ACQUIRE", "k", "killed", "600000", "WAIT", "0"]);
    wait_until("both wait", || info(&mut client, "waiters") == 2);
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    drop(gone);
    wait_until("the first has left", || info(&mut client, "waiters") == 2);
    assert_eq!(client.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
    wait_until("the second has left", || info(&mut client, "waiters") == 1);
    assert_eq!(info(&mut client, "cancelled"), 2);
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn a_grant_that_meets_a_dead_client_goes_on_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..50 {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let dying = start_waiting(&server, "RLOCK.ACQUIRE k dying 600000 WAIT 0");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let mut killer = server.client();
        let id = client_waiting_first(&mut killer);
        // In one go, so that the client is killed before it can be told.
        client.say("MULTI");
        client.say("RLOCK.RELEASE k ann");
        client.say(&format!("CLIENT KILL ID {id}"));
        client.say("EXEC");
        assert_eq!(bob.receive(), Reply::Nil);
        assert_eq!(client.hash("k"), [("bob".into(), "1".into())]);
        client.say("RLOCK.RELEASE k bob");
        drop(dying);
    }
}

/// The id of the client that has waited longest.
fn client_waiting_first(client: &mut Client) -> i64 {
    let clients = client.say("CLIENT LIST");
    let waiting = clients.as_text().lines().filter(|line| line.contains("cmd=rlock.") && line.contains("flags=b"));
    let ids = waiting.map(|line| line.split(['=', ' ']).nth(1).unwrap().parse().unwrap());
    ids.min().expect("someone waits")
}

#[test]
fn client_unblock_ends_a_wait_both_ways() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let id = client_waiting_first(&mut client);
    assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} TIMEOUT")), Reply::Int(1));
    assert!((1..=600_000).contains(&bob.receive().as_int()));
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED");
    let id = client_waiting_first(&mut client);
    assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} TIMEOUT")), Reply::Int(1));
    assert_eq!(bob.receive().as_list()[1], Reply::Nil);
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let id = client_waiting_first(&mut client);
    assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} ERROR")), Reply::Int(1));
    assert!(bob.receive().as_error().starts_with("UNBLOCKED"));
    assert_eq!(bob.say("PING"), text("PONG"));
    assert_eq!(info(&mut client, "waiters"), 0);
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn nothing_waits_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("MULTI");
    client.say("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    assert!(client.say("EXEC").as_list()[0].as_int() > 0);
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'bob', '600000', 'WAIT', '0')";
    assert!(client.run(&["EVAL", script, "1", "k"]).as_int() > 0);
    assert_eq!(info(&mut client, "waits"), 0);
}

#[test]
fn a_full_queue_turns_clients_away() {
    let server = Server::start();
    let mut client = server.client();
    client.say("CONFIG SET rlock.max-waiters 2");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE l ann 600000");
    let first = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let _second = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    assert!(client.say("RLOCK.ACQUIRE k cid 600000 WAIT 0").as_error().starts_with("QUEUEFULL"));
    assert_eq!(info(&mut client, "waiters"), 2);
    drop(first);
    wait_until("one has left", || info(&mut client, "waiters") == 1);
    let _third = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
}

#[test]
fn no_grant_while_writes_are_paused() {
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 100");
    let end = client.expiry("k");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CLIENT PAUSE 100000 WRITE");
    wait_until("the lease has ended for a while", || watch.time_ms() > end + 100);
    assert_eq!(info(&mut watch, "waiters"), 1);
    client.say("CLIENT UNPAUSE");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn no_grant_without_memory() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET maxmemory 1");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    client.say("DEL other");
    assert_eq!((info(&mut watch, "waiters"), watch.expiry("k")), (1, -2));
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn no_grant_without_enough_replicas() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 100");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET min-replicas-to-write 1");
    wait_until("the lease has ended", || watch.expiry("k") == -2);
    assert_eq!(info(&mut watch, "waiters"), 1);
    client.say("CONFIG SET min-replicas-to-write 0");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn a_server_that_becomes_a_replica_lets_its_waiters_go() {
    let (server, master) = (Server::start(), Server::start());
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
    // Told, or cut off.
    if let Some(reply) = bob.try_receive() {
        assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}");
    }
    assert_eq!(info(&mut client, "waiters"), 0);
}

#[test]
fn a_replica_agrees_after_every_kind_of_grant() {
    let master = Server::start();
    let replica = Server::prepare().without_module().start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    theirs.say(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
    wait_until("the replica follows", || theirs.say("INFO replication").as_text().contains("master_link_status:up"));
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
fn the_module_unloads_when_nobody_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 100000");
    assert!(matches!(client.say("MODULE UNLOAD rlock"), Reply::Error(_)));
    drop(waiter);
    wait_until("the module is unloaded", || client.say("MODULE UNLOAD rlock") == text("OK"));
}

#[test]
fn a_slot_that_moves_away_sends_its_waiters_away() {
    let nodes: Vec<_> = (0..3).map(|_| Server::prepare().in_cluster().start()).collect();
    let mut clients: Vec<_> = nodes.iter().map(Server::client).collect();
    for node in &nodes[1..] {
        clients[0].say(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), node.cluster_port()));
    }
    for (client, slots) in clients.iter_mut().zip(["0 5000", "5001 10000", "10001 16383"]) {
        client.say(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for client in &mut clients {
        wait_until("the nodes know each other", || {
            let info = client.say("CLUSTER INFO");
            info.as_text().contains("cluster_state:ok") && info.as_text().contains("cluster_known_nodes:3")
        });
    }
    // Its slot is the second node's, and goes to the first.
    let [there, here, _] = &mut clients[..] else { unreachable!("three nodes") };
    assert_eq!(here.say("CLUSTER KEYSLOT k"), Reply::Int(7_629));
    assert_eq!(here.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    let mut waiters: Vec<_> =
        (0..5).map(|number| start_waiting(&nodes[1], &format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    let (from, to) = (here.say("CLUSTER MYID"), there.say("CLUSTER MYID"));
    there.say(&format!("CLUSTER SETSLOT 7629 IMPORTING {}", from.as_text()));
    here.say(&format!("CLUSTER SETSLOT 7629 MIGRATING {}", to.as_text()));
    assert_eq!(here.say(&format!("MIGRATE 127.0.0.1 {} k 0 10000", nodes[0].port())), text("OK"));
    there.say(&format!("CLUSTER SETSLOT 7629 NODE {}", to.as_text()));
    here.say(&format!("CLUSTER SETSLOT 7629 NODE {}", to.as_text()));
    for waiter in &mut waiters {
        let reply = waiter.receive();
        assert!(reply.as_error().starts_with("TRYAGAIN"), "{reply:?} on {:?}", ServerVersion::under_test());
        let again = waiter.say("RLOCK.ACQUIRE k again 600000 WAIT 0");
        assert!(again.as_error().starts_with("MOVED 7629"), "{again:?}");
    }
    assert_eq!(there.hash("k"), [("ann".into(), "1".into())], "nobody was granted a second lock");
    assert_eq!(info(here, "waiters"), 0);
}

#[test]
fn a_failover_sends_the_waiters_away_and_grants_nobody() {
    let (old, new) = (Server::start(), Server::start());
    let (mut on_old, mut on_new) = (old.client(), new.client());
    on_new.say(&format!("REPLICAOF 127.0.0.1 {}", old.port()));
    wait_until("the replica follows", || on_new.say("INFO replication").as_text().contains("master_link_status:up"));
    on_old.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiters: Vec<_> =
        (0..5).map(|number| start_waiting(&old, &format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"))).collect();
    wait_until("the replica has the lock", || on_new.expiry("k") > 0);
    assert_eq!(on_old.say("FAILOVER"), text("OK"));
    for waiter in &mut waiters {
        // Told, or cut off.
        if let Some(reply) = waiter.try_receive() {
            assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}");
        }
    }
    wait_until("the replica is the master", || on_new.say("ROLE").words().first() == Some(&"master"));
    let mut on_old = old.client();
    assert_eq!(info(&mut on_old, "waiters"), 0);
    assert_eq!(on_new.hash("k"), [("ann".into(), "1".into())]);
    assert_eq!(on_new.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(on_new.keys(), [""; 0], "the new master grants nobody by itself");
    assert_eq!(on_new.say("RLOCK.ACQUIRE k h0 600000 WAIT 0"), Reply::Nil, "who asks again is served");
}

#[test]
fn killed_processes_hold_nobody_up() {
    let server = Server::start();
    let mut watch = server.client();
    let socket = server.socket();
    let process = |command: &str| {
        let mut cli = std::process::Command::new("redis-cli");
        cli.arg("-s").arg(&socket).args(command.split(' ')).stdout(std::process::Stdio::piped());
        cli.spawn().expect("redis-cli is there")
    };
    watch.say("RLOCK.ACQUIRE k first 600000");
    // The one who will have the lock, and dies with it: its lease frees the lock.
    let mut holder = process("RLOCK.ACQUIRE k holder 300 WAIT 0");
    wait_until("it waits", || info(&mut watch, "waiters") == 1);
    let mut waiters: Vec<_> = (0..30)
        .map(|number| {
            let waiter = process(&format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"));
            wait_until("it waits", || info(&mut watch, "waiters") == number + 2);
            waiter
        })
        .collect();
    watch.say("RLOCK.RELEASE k first");
    wait_until("the holder has the lock", || watch.hash("k") == [("holder".into(), "1".into())]);
    // On unix, this is SIGKILL.
    holder.kill().unwrap();
    for waiter in waiters.iter_mut().step_by(3) {
        waiter.kill().unwrap();
    }
    wait_until("the killed have left", || info(&mut watch, "waiters") <= 20);
    for number in (0..30).filter(|number| number % 3 != 0) {
        wait_until("the next one has the lock", || watch.hash("k") == [(format!("h{number}"), "1".to_owned())]);
        assert_eq!(watch.say(&format!("RLOCK.RELEASE k h{number}")), Reply::Int(1));
    }
    assert_eq!((info(&mut watch, "waiters"), watch.keys().len()), (0, 0));
    for mut process in waiters.into_iter().chain([holder]) {
        process.wait().unwrap();
    }
}

#[test]
fn an_evicted_lock_goes_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    client.say("CONFIG SET maxmemory 1");
    wait_until("the lock is evicted", || {
        client.say("SET x 1");
        client.say("INFO stats").as_text().contains("evicted_keys:1")
    });
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.hash("k"), [("bob".into(), "1".into())]);
}

#[test]
fn a_lease_that_gets_shorter_is_noticed() {
    let server = Server::start();
    let mut client = server.client();
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    for shortening in ["RLOCK.RENEW k ann 50", "RLOCK.ACQUIRE k ann 50", "PEXPIRE k 50", "RLOCK.RELEASE k ann LEASE 50"]
    {
        client.say("RLOCK.ACQUIRE k ann 600000");
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        client.say(shortening);
        let end = client.expiry("k");
        assert_eq!(bob.receive(), Reply::Nil);
        let granted = client.expiry("k") - 600_000;
        assert!((end..=end + 5).contains(&granted), "{shortening}: ended at {end}, granted at {granted}");
        client.say("RLOCK.RELEASE k bob");
    }
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
        assert_eq!(info(&mut client, name), expected, "{name}");
    }
    drop(gone);
    wait_until("one has left", || info(&mut client, "cancelled") == 1);
    client.say("RLOCK.RELEASE k ann");
    bob.receive();
    for (name, expected) in [("grants", 3), ("hand_offs", 1), ("waiters", 1), ("locks_with_waiters", 1)] {
        assert_eq!(info(&mut client, name), expected, "{name}");
    }
}
