//! Clients that die while they wait, or are unblocked, or cannot be kept waiting.

use rlock_testing::{Client, Reply, Server, ServerVersion, start_waiting, text, wait_until};

#[test]
fn a_grant_that_meets_a_dead_client_goes_on_to_the_next() {
    let (server, mut client) = Server::with_client();
    for _ in 0..50 {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let dying = start_waiting(&server, "RLOCK.ACQUIRE k dying 600000 WAIT 0");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let mut killer = server.client();
        let id = client_waiting_first(&mut killer);
        // In one step, so that the client is killed before it can get the grant.
        client.transaction(["RLOCK.RELEASE k ann", &format!("CLIENT KILL ID {id}")]);
        assert_eq!(bob.receive(), Reply::Nil);
        assert_eq!(client.fields("k"), "{bob:1}");
        client.say("RLOCK.RELEASE k bob");
        drop(dying);
    }
}

/// One hold is released, on the side that the client waited for, whatever has happened meanwhile; of several locks, one each.
#[test]
fn what_a_dead_client_was_granted_is_released_though_it_was_renewed() {
    let (server, mut client) = Server::with_client();
    for (take, ask, meanwhile, left) in [
        ("ACQUIRE k ann", "ACQUIRE k dying", "RENEW k dying 700000", "{}"),
        ("ACQUIRE k ann", "ACQUIRE k dying", "ACQUIRE k dying 700000", "{dying:1}"),
        ("WACQUIRE k ann", "WACQUIRE k dying", "RENEW k dying 700000", "{}"),
        ("WACQUIRE k ann", "WACQUIRE k dying", "RACQUIRE k dying 700000", "{dying:1,mode:read}"),
        ("WACQUIRE k ann", "RACQUIRE k dying", "RENEW k dying 700000", "{}"),
        ("WACQUIRE k ann", "RACQUIRE k dying", "RACQUIRE k dying 700000", "{dying:1,mode:read}"),
        ("PACQUIRE k ann", "PACQUIRE k dying", "RENEW k dying 700000", "{}"),
        ("MACQUIRE 2 k l ann", "MACQUIRE 2 l k dying", "RENEW k dying 700000", "{}"),
        ("MACQUIRE 2 k l ann", "MACQUIRE 2 l k dying", "ACQUIRE k dying 700000", "{dying:1}"),
    ] {
        let limit = if take.starts_with('P') { " LIMIT 1" } else { "" };
        client.say(&format!("RLOCK.{take} 600000{limit}"));
        let dying = start_waiting(&server, &format!("RLOCK.{ask} 600000{limit} WAIT 0"));
        let id = client_waiting_first(&mut client);
        let meanwhile = format!("RLOCK.{meanwhile}");
        let replies = client.transaction([
            "RLOCK.RELEASE k ann",
            "RLOCK.RELEASE l ann",
            &meanwhile,
            &format!("CLIENT KILL ID {id}"),
        ]);
        assert!(matches!(replies[2], Reply::Nil | Reply::Int(1)), "{ask} has the lock: {replies:?}");
        drop(dying);
        wait_until("its hold is released", || client.figure("revocations_due") == 0);
        assert_eq!((&*client.fields("k"), client.expiry("l")), (left, -2), "{ask}, {meanwhile}");
        client.say("FLUSHALL");
    }
}

/// A full server still releases the lock, and grants it to no waiter.
#[test]
fn what_a_dead_client_was_granted_is_released_when_the_server_may_write() {
    let (server, mut client) = Server::with_client();
    for (unfit, fit) in [
        ("CLIENT PAUSE 600000 WRITE", "CLIENT UNPAUSE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ] {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let dying = start_waiting(&server, "RLOCK.ACQUIRE k dying 600000 WAIT 0");
        let id = client_waiting_first(&mut client).to_string();
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let words: Vec<_> = unfit.split(' ').collect();
        client.send_together(&[&["RLOCK.RELEASE", "k", "ann"], &["CLIENT", "KILL", "ID", &id], &words]);
        assert_eq!(client.receive(), Reply::Int(1));
        assert_eq!((client.receive(), client.receive()), (Reply::Int(1), text("OK")));
        drop(dying);
        let is_paused = fit == "CLIENT UNPAUSE";
        wait_until("it is released, or due", || client.figure("revocations_due") == i64::from(is_paused));
        let begun = client.time_ms();
        wait_until("it has been tried for a while", || client.time_ms() > begun + 100);
        assert_eq!((client.expiry("k") == -2, client.figure("waiters")), (!is_paused, 1), "{unfit}");
        client.say(fit);
        assert_eq!(bob.receive(), Reply::Nil, "{unfit}");
        assert_eq!((&*client.fields("k"), client.figure("revocations_due")), ("{bob:1}", 0), "{unfit}");
        client.say("RLOCK.RELEASE k bob");
    }
}

/// Another server decides by now, or the lock of this name is another one.
#[test]
fn what_a_dead_client_was_granted_stays_after_a_change_of_roles_or_of_databases() {
    let (server, mut client) = Server::with_client();
    let role: &[&[&str]] = &[&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]];
    for changes in [role, &[&["SWAPDB", "0", "1"]]] {
        client.say_all(["SELECT 1", "RLOCK.ACQUIRE k dying 600000", "SELECT 0", "RLOCK.ACQUIRE k ann 600000"]);
        let dying = start_waiting(&server, "RLOCK.ACQUIRE k dying 600000 WAIT 0");
        let id = client_waiting_first(&mut client).to_string();
        // All in one turn of the server.
        let before: &[&[&str]] = &[&["RLOCK.RELEASE", "k", "ann"], &["CLIENT", "KILL", "ID", &id]];
        client.send_together(&[before, changes].concat());
        assert!((0..2 + changes.len()).all(|_| !matches!(client.receive(), Reply::Error(_))), "{changes:?}");
        drop(dying);
        client.say("RLOCK.ACQUIRE other ann 600000");
        assert!(client.say("RLOCK.ACQUIRE other bob 10 WAIT 20").as_int() > 0, "everything is caught up with");
        assert_eq!(client.figure("revocations_due"), 0, "{changes:?}");
        for database in ["SELECT 1", "SELECT 0"] {
            client.say(database);
            assert_eq!(client.fields("k"), "{dying:1}", "{changes:?}, {database}");
        }
        client.say("FLUSHALL");
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
    let (server, mut client) = Server::with_client();
    client.say_all(["RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE l ann 300000"]);
    for (ask, how) in [
        ("RLOCK.ACQUIRE k bob 600000 WAIT 0", "TIMEOUT"),
        ("RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED", "TIMEOUT"),
        ("RLOCK.MACQUIRE 3 l k free bob 600000 WAIT 0", "TIMEOUT"),
        ("RLOCK.ACQUIRE k bob 600000 WAIT 0", "ERROR"),
        ("RLOCK.MACQUIRE 3 l k free bob 600000 WAIT 0", "ERROR"),
    ] {
        let mut bob = start_waiting(&server, ask);
        let id = client_waiting_first(&mut client);
        assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} {how}")), Reply::Int(1));
        match bob.receive() {
            Reply::Int(left) => assert!(how == "TIMEOUT" && (590_000..=600_000).contains(&left), "{ask}: {left}"),
            Reply::List(pair) => assert_eq!((how, &pair[1]), ("TIMEOUT", &Reply::Nil)),
            reply => assert!(how == "ERROR" && reply.as_error().starts_with("UNBLOCKED"), "{ask}: {reply:?}"),
        }
        assert_eq!(bob.say("PING"), text("PONG"));
        assert_eq!(client.figure("waiters"), 0);
    }
    client.say_all(["RLOCK.RELEASE k ann", "RLOCK.RELEASE l ann"]);
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn nothing_waits_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client();
    client.say_all(["RLOCK.ACQUIRE k ann 600000", "RLOCK.PACQUIRE p ann 600000 LIMIT 1"]);
    for ask in [
        "RLOCK.ACQUIRE k bob 600000 WAIT 0",
        "RLOCK.PACQUIRE p bob 600000 LIMIT 1 WAIT 0",
        "RLOCK.MACQUIRE 2 l k bob 600000 WAIT 0",
    ] {
        assert!(client.transaction([ask])[0].as_int() > 0, "{ask}");
        let script = ["EVAL", "return redis.call(unpack(ARGV))", "3", "k", "l", "p"];
        assert!(client.run(&script.into_iter().chain(ask.split(' ')).collect::<Vec<_>>()).as_int() > 0, "{ask}");
    }
    assert_eq!(client.figure("waits"), 0);
}

/// Some servers then lose the reply. Such a client is closed: it would take the next reply for the lost one.
#[test]
fn a_grant_that_meets_client_unblock_leaves_no_client_without_an_answer() {
    let (server, mut client) = Server::with_client();
    for how in ["TIMEOUT", "ERROR"] {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let id = client_waiting_first(&mut client);
        client.transaction(["RLOCK.RELEASE k ann", &format!("CLIENT UNBLOCK {id} {how}")]);
        match bob.try_receive() {
            Some(Reply::Nil) => assert_eq!(client.say("RLOCK.RELEASE k bob"), Reply::Int(1)),
            Some(reply) => assert!(reply.as_error().starts_with("UNBLOCKED"), "{how}: {reply:?}"),
            None => {
                assert!(!ServerVersion::under_test().has_what_redis_has(7, 4), "{how}: no reply");
                assert!(!bob.is_served(), "{how}: no reply, and yet the next command gets one");
            }
        }
        wait_until("nobody has the lock", || client.keys().is_empty());
        assert_eq!(client.figure("waiters"), 0);
    }
}

/// Some servers do not block a client that has subscriptions: it is answered as if it did not wait. Others block it.
#[test]
fn a_subscribed_client_waits_or_is_answered() {
    for subscribe in ["SUBSCRIBE c", "PSUBSCRIBE c*", "SSUBSCRIBE c"] {
        let server = Server::start();
        let (mut client, mut bob) = (server.client(), server.client());
        client.say("RLOCK.ACQUIRE k ann 600000");
        bob.say("HELLO 3");
        bob.say(subscribe);
        let reply = bob.say("RLOCK.ACQUIRE k bob 600000 WAIT 20");
        assert!((1..=600_000).contains(&reply.as_int()), "{subscribe}");
        let reply = bob.say("RLOCK.ACQUIRE k bob 600000 WAIT 20 FENCED");
        assert_eq!(reply.as_list()[1], Reply::Nil, "{subscribe}");
        assert_eq!(client.figure("waiters"), 0);
        assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
        assert_eq!(bob.say("RLOCK.ACQUIRE k bob 600000 WAIT 0"), Reply::Nil);
    }
}

#[test]
fn killed_processes_delay_no_waiter() {
    let server = Server::start();
    let mut watch = server.client();
    let socket = server.socket();
    let process = |command: &str| {
        let mut cli = std::process::Command::new("redis-cli");
        cli.arg("-s").arg(&socket).args(command.split(' ')).stdout(std::process::Stdio::piped());
        cli.spawn().expect("redis-cli is there")
    };
    watch.say("RLOCK.ACQUIRE k first 600000");
    // The future holder, which dies while it has the lock: the end of its lease frees it.
    let mut holder = process("RLOCK.ACQUIRE k holder 300 WAIT 0");
    watch.until_waiting(1);
    let mut waiters: Vec<_> = (0..30)
        .map(|number| {
            let waiter = process(&format!("RLOCK.ACQUIRE k h{number} 600000 WAIT 0"));
            watch.until_waiting(number + 2);
            waiter
        })
        .collect();
    watch.say("RLOCK.RELEASE k first");
    wait_until("the holder has the lock", || watch.fields("k") == "{holder:1}");
    // On unix, this is SIGKILL.
    holder.kill().unwrap();
    for waiter in waiters.iter_mut().step_by(3) {
        waiter.kill().unwrap();
    }
    wait_until("the killed have left", || watch.figure("waiters") <= 20);
    for number in (0..30).filter(|number| number % 3 != 0) {
        wait_until("the next one has the lock", || watch.fields("k") == format!("{{h{number}:1}}"));
        assert_eq!(watch.say(&format!("RLOCK.RELEASE k h{number}")), Reply::Int(1));
    }
    assert_eq!((watch.figure("waiters"), watch.keys().len()), (0, 0));
    for mut process in waiters.into_iter().chain([holder]) {
        process.wait().unwrap();
    }
}
