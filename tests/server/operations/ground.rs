//! What the page says of servers: restarts, suspension, replicas, connections, memory.

use super::PAGE;
use rlock_testing::{Client, Reply, Server, Start, start_waiting, text, unix_ms, wait_until};

fn has_kept_the_locks(start: Start, ends: [i64; 2]) {
    let server = start.start();
    let mut client = server.client();
    assert_eq!(client.fields("k"), "{ann:1}");
    assert_eq!(["k", "renewed"].map(|key| client.expiry(key)), ends, "not a ms longer");
    assert_eq!(client.say("GET redisson_lock_token:{k}"), text("1"));
    assert_eq!((client.figure("waiters"), client.figure("grants")), (0, 0));
    assert_eq!(client.expiry("short"), -2, "the time that the server is down counts");
    assert_eq!(client.say("RLOCK.ACQUIRE short bob 600000"), Reply::Nil);
}

fn restart_keeps(with: fn(Start) -> Start, before: &str) {
    let server = with(Server::prepare()).start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000 FENCED");
    client.say("RLOCK.ACQUIRE renewed ann 600000");
    client.say("RLOCK.RENEW renewed ann 700000");
    let ends = ["k", "renewed"].map(|key| client.expiry(key));
    client.say("RLOCK.ACQUIRE short ann 100");
    let short = client.expiry("short");
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say(before);
    let start = server.crash();
    assert_eq!(waiter.try_receive(), None, "who waits is cut off");
    wait_until("the short lease is over", || unix_ms() > short);
    has_kept_the_locks(with(start), ends);
}

#[test]
fn an_aof_file_keeps_locks_and_their_ends_and_not_who_waits() {
    restart_keeps(Start::append_only_file, "PING");
}

#[test]
fn a_snapshot_keeps_locks_and_their_ends_and_not_who_waits() {
    restart_keeps(|start| start, "SAVE");
}

#[test]
fn a_suspended_server_goes_on_with_the_clock() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("RLOCK.RENEW k ann 500");
    let end = unix_ms() + 500;
    server.freeze();
    wait_until("the lease is over", || unix_ms() > end);
    server.thaw();
    assert_eq!(waiter.receive(), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(0));
}

#[test]
fn wait_tells_how_many_replicas_have_the_lock() {
    let (master, replica) = (Server::start(), Server::prepare().without_module().start());
    let (mut client, mut on_replica) = (master.client(), replica.client());
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    assert_eq!(client.say("WAIT 1 1"), Reply::Int(0), "nobody has it");
    replica.follow(&master);
    client.say("RLOCK.ACQUIRE l ann 600000");
    assert_eq!(client.say("WAIT 1 10000"), Reply::Int(1));
    assert_eq!(on_replica.fields("l"), "{ann:1}");
    // Promoted, it has the locks and not the commands.
    on_replica.say("REPLICAOF NO ONE");
    assert!(on_replica.say("RLOCK.RELEASE l ann").as_error().contains("unknown command"));
}

/// As one whose machine died without a word: nobody reads the grant.
#[test]
fn a_waiter_that_is_gone_costs_the_next_one_lease() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let _gone = start_waiting(&server, "RLOCK.ACQUIRE k bob 200 WAIT 0");
    let mut next = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    let released = client.time_ms();
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(next.receive(), Reply::Nil);
    assert!(client.time_ms() - released >= 200);
}

#[test]
fn waiters_take_all_connections_unless_they_may_be_fewer() {
    for (max_waiters, gets_in) in [(1_000, false), (10, true)] {
        let server = Server::prepare().options(&["--maxclients", "30"]).start();
        let mut client = server.client();
        wait_until("it is alone", || client.info("clients").number("connected_clients") == 1);
        client.say(&format!("CONFIG SET rlock.max-waiters {max_waiters}"));
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut waiters = Vec::new();
        // One connection is ours already.
        for _ in 1..30 {
            let mut waiter = server.client();
            waiter.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
            if waiters.len() < max_waiters {
                waiters.push(waiter);
            } else {
                assert!(waiter.receive().as_error().starts_with("QUEUEFULL"));
            }
            wait_until("it waits", || client.figure("waiters") == i64::try_from(waiters.len()).unwrap());
        }
        assert_eq!(server.client().is_served(), gets_in, "{max_waiters}");
    }
}

#[test]
fn idle_connections_are_closed_and_waiters_never() {
    let server = Server::prepare().options(&["--timeout", "1"]).start();
    server.client().say("RLOCK.ACQUIRE k ann 600000");
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // It is idle for less long than the other waits.
    assert_eq!(server.client().try_receive(), None, "idle");
    assert_eq!(server.client().say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(waiter.receive(), Reply::Nil);
}

#[test]
fn a_counter_that_was_deleted_begins_again_only_if_tokens_are_counted() {
    let (_server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.tokens count");
    let mut token = || client.say("RLOCK.ACQUIRE k ann 600000 FENCED").as_list()[1].as_int();
    assert_eq!((token(), token()), (1, 2));
    client.say("RLOCK.RELEASE k ann ALL");
    client.say("DEL redisson_lock_token:{k}");
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED").as_list()[1], Reply::Int(1));
}

fn used_memory(client: &mut Client) -> i64 {
    client.info("memory").number("used_memory")
}

/// Redis's figure, which is the larger one, in the row of the page's table that begins so.
fn figure(row: &str) -> i64 {
    let row = PAGE.0.lines().find(|line| line.starts_with(&format!("| {row}"))).expect("a row");
    row.split('|').nth(2).unwrap().trim().replace(',', "").parse().unwrap()
}

#[test]
fn locks_take_no_more_memory_than_is_said() {
    // The server's table of keys, which is part of the measure, is as full as with 100,000.
    const LOCKS: i64 = 25_000;
    let of_each = |command: &str, more: &str| {
        let server = Server::prepare().default_settings().start();
        let mut client = server.client();
        let before = used_memory(&mut client);
        let holder = "b983c153-7421-469a-addb-44fb92259a1b:1";
        let script =
            format!("for i = 1, {LOCKS} do redis.call('{command}', 'orders:' .. i, '{holder}', '600000'{more}) end");
        client.run(&["EVAL", &script, "0"]);
        (used_memory(&mut client) - before) / LOCKS
    };
    let plain = of_each("RLOCK.ACQUIRE", "");
    let token = of_each("RLOCK.ACQUIRE", ", 'FENCED'") - plain;
    let reader = of_each("RLOCK.RACQUIRE", "");
    for (measured, row) in [(plain, "a held lock"), (token, "its fencing counter"), (reader, "a read lock")] {
        let said = figure(row);
        assert!((said / 2..=said + said / 10).contains(&measured), "{row}: {measured} and not {said}");
    }
}

#[test]
fn tickets_take_no_more_memory_than_is_said() {
    const TICKETS: i64 = 25_000;
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.EVENTS the-session-of-orders TTL 600000");
    let mut of_each = |lock: &str| {
        for number in 0..=TICKETS {
            client.send(&["RLOCK.ACQUIRE", &lock.replace('#', &number.to_string()), "ann", "600000"]);
        }
        (0..=TICKETS).for_each(|_| _ = client.receive());
        let before = used_memory(&mut client);
        let acquire = |number| {
            let (lock, holder) = (lock.replace('#', &format!("{number}")), "b983c153-7421-469a-addb-44fb92259a1b");
            format!(
                "RLOCK.ACQUIRE {lock} {holder}:{number} 600000 WAIT 600000 SESSION the-session-of-orders {lock}{number}"
            )
        };
        let waiting = client.say_all((0..TICKETS).map(acquire));
        assert!(waiting.iter().all(|reply| *reply == rlock_testing::text("WAITING")));
        (used_memory(&mut client) - before) / TICKETS
    };
    for (lock, row) in [("orders", "a ticket that waits behind"), ("orders:#", "a ticket that waits alone")] {
        let (measured, said) = (of_each(lock), figure(row));
        assert!((said / 2..=said + said / 10).contains(&measured), "{row}: {measured} and not {said}");
    }
}

#[test]
fn waiters_take_no_more_memory_than_is_said() {
    const WAITERS: i64 = 500;
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE orders:1 ann 600000");
    let before = used_memory(&mut client);
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| server.client()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let holder = format!("b983c153-7421-469a-addb-44fb92259a1b:{number}");
        waiter.send(&["RLOCK.ACQUIRE", "orders:1", &holder, "600000", "WAIT", "0"]);
    }
    client.until_waiting(WAITERS);
    let measured = (used_memory(&mut client) - before) / WAITERS;
    let (settled, most) = (figure("a client that waits"), figure("the same in its first seconds"));
    assert!((settled - settled / 10..=most + most / 10).contains(&measured), "{measured}, not {settled} to {most}");
}
