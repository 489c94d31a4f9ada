//! What followers get: plain commands with absolute times, in one MULTI/EXEC for each change, and nothing for anything
//! that changed nothing. Neither a replica nor an AOF file needs the module.

use rlock_testing::{Client, Reply, Server, Tap, start_waiting, text, wait_until};

/// Commands, and what the last of them replicates: several commands come as one transaction. `<N>` is the time N ms after the
/// command ran, `<token>` the time in µs.
const CASES: [&str; 43] = [
    "RLOCK.ACQUIRE k ann 1000000 => RESTORE k <1000000> {ann:1} ABSTTL REPLACE",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.ACQUIRE k ann 2000000 FENCED \
     => HINCRBY k ann 1; PEXPIREAT k <2000000>; SET redisson_lock_token:{k} <token> KEEPTTL",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.ACQUIRE k ann 1000000; RLOCK.RELEASE k ann => HINCRBY k ann -1",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.ACQUIRE k ann 1000000; RLOCK.RELEASE k ann LEASE 3000000 \
     => HINCRBY k ann -1; PEXPIREAT k <3000000>",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.RELEASE k ann => DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.ACQUIRE k ann 1000000; RLOCK.RELEASE k ann ALL \
     => DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.RENEW k ann 2000000 => PEXPIREAT k <2000000>",
    "RLOCK.RACQUIRE k ann 1000000 \
     => RESTORE k <1000000> {mode:read,ann:1} ABSTTL REPLACE; SET {k}:ann:rwlock_timeout:1 1 PXAT <1000000>",
    "RLOCK.RACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 2000000 FENCED \
     => HINCRBY k ann 1; PEXPIREAT k <2000000>; SET {k}:ann:rwlock_timeout:2 1 PXAT <2000000>; \
        SET redisson_lock_token:{k} <token> KEEPTTL",
    "RLOCK.RACQUIRE k ann 2000000; RLOCK.RACQUIRE k bob 1000000 \
     => HINCRBY k bob 1; SET {k}:bob:rwlock_timeout:1 1 PXAT <1000000>",
    "RLOCK.RACQUIRE k ann 2000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RACQUIRE k bob 1000000; RLOCK.RELEASE k ann \
     => HINCRBY k ann -1; PEXPIREAT k <2000000>; DEL {k}:ann:rwlock_timeout:2",
    "RLOCK.RACQUIRE k ann 2000000; RLOCK.RACQUIRE k bob 1000000; RLOCK.RELEASE k ann \
     => HDEL k ann; PEXPIREAT k <1000000>; DEL {k}:ann:rwlock_timeout:1",
    "RLOCK.RACQUIRE k ann 1000000; RLOCK.RELEASE k ann \
     => DEL k; DEL {k}:ann:rwlock_timeout:1; PUBLISH redisson_rwlock:{k} 0",
    "RLOCK.RACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RENEW k ann 2000000 \
     => PEXPIREAT k <2000000>; PEXPIREAT {k}:ann:rwlock_timeout:1 <2000000>; \
        PEXPIREAT {k}:ann:rwlock_timeout:2 <2000000>",
    "RLOCK.RACQUIRE k ann 1000000; DEL {k}:ann:rwlock_timeout:1; RLOCK.RENEW k ann 2000000 \
     => PEXPIREAT k <2000000>; SET {k}:ann:rwlock_timeout:1 1 PXAT <2000000>",
    "RLOCK.WACQUIRE k ann 1000000 => RESTORE k <1000000> {mode:write,ann:write:1} ABSTTL REPLACE",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.WACQUIRE k ann 2000000 => HINCRBY k ann:write 1; PEXPIREAT k <3000000>",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.WACQUIRE k ann 1000000; RLOCK.RELEASE k ann LEASE 2000000 \
     => HINCRBY k ann:write -1; PEXPIREAT k <2000000>",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RELEASE k ann => DEL k; PUBLISH redisson_rwlock:{k} 1",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RELEASE k ann WRITE \
     => HDEL k ann:write; HSET k mode read; PUBLISH redisson_rwlock:{k} 1",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RELEASE k ann READ \
     => HDEL k ann; DEL {k}:ann:rwlock_timeout:1",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RELEASE k ann ALL \
     => DEL k; DEL {k}:ann:rwlock_timeout:1; PUBLISH redisson_rwlock:{k} 1",
    // A hold next to a writer's, which only a foreign client can have put there, stays.
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; HSET k foreign 1; RLOCK.RELEASE k ann ALL \
     => HDEL k ann:write; HDEL k ann; HSET k mode read; DEL {k}:ann:rwlock_timeout:1; PUBLISH redisson_rwlock:{k} 1",
    "RLOCK.ACQUIRE k ann 1000000 FENCED; RLOCK.ACQUIRE k ann 1000000; RLOCK.BREAK k \
     => DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.WACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.RACQUIRE k ann 1000000; RLOCK.BREAK k \
     => DEL k; PUBLISH redisson_rwlock:{k} 1; DEL {k}:ann:rwlock_timeout:1; DEL {k}:ann:rwlock_timeout:2",
    "RLOCK.PACQUIRE k ann 1000000 LIMIT 2 => ZADD k <1000000> ann; PEXPIREAT k <1000000>",
    "RLOCK.PACQUIRE k ann 1000000 LIMIT 2; RLOCK.PACQUIRE k bob 2000000 LIMIT 2 \
     => ZADD k <2000000> bob; PEXPIREAT k <2000000>",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.PACQUIRE k bob 1000000 LIMIT 2 => ZADD k <1000000> bob",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.PACQUIRE k ann 1000000 LIMIT 1 FENCED \
     => ZADD k <1000000> ann; PEXPIREAT k <1000000>; SET redisson_lock_token:{k} <token> KEEPTTL",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.PACQUIRE k bob 1000000 LIMIT 2; RLOCK.RELEASE k bob => ZREM k bob",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.PACQUIRE k bob 1000000 LIMIT 2; RLOCK.RELEASE k ann \
     => ZREM k ann; PEXPIREAT k <1000000>",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.RELEASE k ann => DEL k",
    "RLOCK.PACQUIRE k ann 2000000 LIMIT 2; RLOCK.PACQUIRE k bob 1000000 LIMIT 2; RLOCK.RENEW k bob 3000000 \
     => ZADD k <3000000> bob; PEXPIREAT k <3000000>",
    "RLOCK.PACQUIRE k ann 1000000 LIMIT 2; RLOCK.PACQUIRE k bob 1000000 LIMIT 2; RLOCK.BREAK k => DEL k",
    "RLOCK.MACQUIRE 2 k l ann 1000000 => RESTORE k <1000000> {ann:1} ABSTTL REPLACE; RESTORE l <1000000> {ann:1} ABSTTL REPLACE",
    "RLOCK.MACQUIRE 1 k ann 1000000 => RESTORE k <1000000> {ann:1} ABSTTL REPLACE",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.MACQUIRE 2 l k ann 2000000 FENCED \
     => RESTORE l <2000000> {ann:1} ABSTTL REPLACE; HINCRBY k ann 1; PEXPIREAT k <2000000>; \
     SET redisson_lock_token:{l} <token> KEEPTTL; SET redisson_lock_token:{k} <token> KEEPTTL",
    "RLOCK.ONCE k ann 1000000 => RESTORE k <1000000> {ann:1} ABSTTL REPLACE",
    "RLOCK.ONCE k ann 1000000; RLOCK.ANSWER k ann 42 KEEP 2000000 \
     => SET rlock_answer:{k} 42 PXAT <2000000>; DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.ACQUIRE k ann 1000000; RLOCK.ACQUIRE k ann 1000000; RLOCK.ANSWER k ann 42 KEEP 2000000 \
     => SET rlock_answer:{k} 42 PXAT <2000000>; DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.ONCE k ann 1000000; RLOCK.ANSWER k ann 42 KEEP 2000000; RLOCK.ACQUIRE k ann 1000000; \
     RLOCK.ANSWER k ann 43 KEEP 1000000 \
     => SET rlock_answer:{k} 43 PXAT <1000000>; DEL k; PUBLISH redisson_lock__channel:{k} 0",
    "RLOCK.ONCE k ann 1000000; RLOCK.RELEASE k ann => DEL k; PUBLISH redisson_lock__channel:{k} 0",
    // A read hold that is gone already is not deleted.
    "RLOCK.RACQUIRE k ann 1000000; RLOCK.RACQUIRE k bob 1000000; DEL {k}:ann:rwlock_timeout:1; RLOCK.BREAK k \
     => DEL k; PUBLISH redisson_rwlock:{k} 1; DEL {k}:bob:rwlock_timeout:1",
];

/// The commands of a case, and the stream.
fn read(case: &str) -> (Vec<&str>, Vec<&str>) {
    let (commands, stream) = case.split_once(" => ").unwrap();
    let stream: Vec<_> = stream.split("; ").collect();
    let is_one = stream.len() == 1;
    (commands.split("; ").collect(), if is_one { stream } else { [&["MULTI"], &stream[..], &["EXEC"]].concat() })
}

#[test]
fn each_change_replicates_as_plain_commands() {
    let (server, mut client) = Server::with_client();
    let mut tap = Tap::on(&server);
    for case in CASES {
        let (commands, expected) = read(case);
        client.say("FLUSHALL");
        let mut start = 0;
        for command in commands {
            tap.drain();
            start = client.time_ms();
            assert!(!matches!(client.say(command), Reply::Error(_)), "{command}");
        }
        let stream: Vec<_> = tap.drain().iter().map(|command| relative_to(start, command)).collect();
        assert_eq!(stream, expected, "{case}");
    }
}

/// A configuration may take RESTORE away.
#[test]
fn without_restore_a_lock_is_replicated_as_the_commands_that_make_it() {
    let server = Server::prepare().options(&["--rename-command", "RESTORE", "hidden"]).start();
    let mut client = server.client();
    let mut tap = Tap::on(&server);
    for (command, expected) in [
        ("RLOCK.ACQUIRE k ann 1000000", &["MULTI", "HINCRBY k ann 1", "PEXPIREAT k <1000000>", "EXEC"][..]),
        ("RLOCK.WACQUIRE w ann 1000000", &["MULTI", "HSET w mode write ann:write 1", "PEXPIREAT w <1000000>", "EXEC"]),
    ] {
        let start = client.time_ms();
        client.say(command);
        let stream: Vec<_> = tap.drain().iter().map(|command| relative_to(start, command)).collect();
        assert_eq!(stream, expected);
    }
    let _bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 2000000 WAIT 0");
    let start = client.time_ms();
    client.say("RLOCK.RELEASE k ann");
    let stream: Vec<_> = tap.drain().iter().map(|command| relative_to(start, command)).collect();
    assert_eq!(stream, ["MULTI", "DEL k", "HINCRBY k bob 1", "PEXPIREAT k <2000000>", "EXEC"]);
}

/// The lengths of its fields take one byte or two, and its name can be anything.
#[test]
fn a_whole_lock_arrives_whatever_its_names() {
    let master = Server::start();
    let replica = Server::prepare().without_module().start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    for length in [1, 57, 58, 63, 64, 65, 255, 256, 511, 512] {
        let holder = vec![0xfe; length];
        for command in ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"] {
            let key = [command.as_bytes(), b"\0\xff", length.to_string().as_bytes()].concat();
            assert_eq!(ours.run(&[command.as_bytes(), &key, &holder, b"600000"]), Reply::Nil);
        }
    }
    let digest = ours.digest();
    wait_until("the replica has it all", || theirs.digest() == digest);
}

/// Writes absolute times as the ms since `start`, rounded to the multiples that the leases of the cases are: a lease
/// that was set earlier in the case is shorter by the time since.
fn relative_to(start: i64, command: &str) -> String {
    const MULTIPLE: i64 = 1_000_000;
    let word = |word: &str| match word.parse::<i64>() {
        Ok(token) if token >= start * 1_000 => "<token>".to_owned(),
        Ok(time) if time > start => format!("<{}>", (time - start + MULTIPLE / 2) / MULTIPLE * MULTIPLE),
        _ => word.to_owned(),
    };
    command.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// It does not break a WATCH either, or count as a change.
#[test]
fn what_changes_nothing_replicates_nothing() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE plain ann 600000");
    client.say("RLOCK.RACQUIRE read ann 600000");
    client.say("RLOCK.WACQUIRE write ann 600000");
    client.say("RLOCK.RACQUIRE write ann 600000");
    client.say("RLOCK.PACQUIRE permits ann 600000 LIMIT 1");
    client.say("SET rlock_answer:{answered} 42");
    let (mut watcher, mut tap) = (server.client(), Tap::on(&server));
    for command in [
        "RLOCK.ACQUIRE plain bob 1000",
        "RLOCK.ACQUIRE plain bob 1000 FENCED",
        "RLOCK.RACQUIRE write bob 1000",
        "RLOCK.RACQUIRE write bob 1000 FENCED",
        "RLOCK.WACQUIRE write bob 1000",
        "RLOCK.WACQUIRE read bob 1000",
        "RLOCK.WACQUIRE read ann 1000",
        "RLOCK.RELEASE plain bob",
        "RLOCK.RELEASE plain bob ALL",
        "RLOCK.RELEASE read bob READ",
        "RLOCK.RELEASE read ann WRITE",
        "RLOCK.RELEASE write ann",
        "RLOCK.RELEASE absent ann",
        "RLOCK.RENEW plain bob 1000",
        "RLOCK.RENEW read bob 1000",
        "RLOCK.RENEW absent ann 1000",
        "RLOCK.ACQUIRE read ann 1000",
        "RLOCK.RACQUIRE plain ann 1000",
        "RLOCK.ACQUIRE plain ann 0",
        "RLOCK.ACQUIRE absent ann 0",
        "RLOCK.PACQUIRE permits bob 1000 LIMIT 1",
        "RLOCK.PACQUIRE permits bob 1000 LIMIT 1 FENCED",
        "RLOCK.PACQUIRE plain ann 1000 LIMIT 1",
        "RLOCK.PACQUIRE absent ann 1000 LIMIT 0",
        "RLOCK.MACQUIRE 2 absent plain bob 1000",
        "RLOCK.MACQUIRE 2 absent plain bob 1000 FENCED",
        "RLOCK.MACQUIRE 2 absent write ann 1000",
        "RLOCK.MACQUIRE 2 absent plain ann 0",
        "RLOCK.MACQUIRE 2 absent absent ann 1000",
        "RLOCK.RELEASE permits bob",
        "RLOCK.RENEW permits bob 1000",
        "RLOCK.ACQUIRE permits ann 1000",
        "RLOCK.ONCE answered bob 1000",
        "RLOCK.ONCE answered bob 1000 WAIT 0",
        "RLOCK.ONCE plain bob 1000",
        "RLOCK.ONCE permits ann 1000",
        "RLOCK.ONCE absent ann 0",
        "RLOCK.ANSWER plain bob 42 KEEP 1000",
        "RLOCK.ANSWER plain ann 42 KEEP 0",
        "RLOCK.ANSWER write ann 42 KEEP 1000",
        "RLOCK.ANSWER permits ann 42 KEEP 1000",
        "RLOCK.ANSWER absent ann 42 KEEP 1000",
        "RLOCK.ANSWER answered ann 42 KEEP 1000",
        "RLOCK.INSPECT permits",
        "RLOCK.INSPECT answered",
        "RLOCK.BREAK absent",
        "RLOCK.INSPECT plain",
        "RLOCK.INSPECT write",
        "RLOCK.QUEUES",
        "RLOCK.SESSIONS",
        "RLOCK.SESSIONS END 1",
    ] {
        let changes = |client: &mut Client| client.info("persistence").number("rdb_changes_since_last_save");
        let before = changes(&mut client);
        watcher.say("WATCH plain read write permits absent redisson_lock_token:{plain} redisson_lock_token:{write}");
        watcher.say("WATCH rlock_answer:{plain} rlock_answer:{write} rlock_answer:{absent} rlock_answer:{answered}");
        client.say(command);
        assert_eq!(tap.drain(), [""; 0], "{command}");
        assert_eq!(watcher.transaction(["PING"]), [text("PONG")], "{command}");
        assert_eq!(changes(&mut client), before, "{command}");
    }
}

#[test]
fn a_transaction_replicates_as_one() {
    let (server, mut client) = Server::with_client();
    let mut tap = Tap::on(&server);
    client.transaction(["RLOCK.ACQUIRE k ann 600000", "SET x 1", "RLOCK.RELEASE k ann"]);
    let stream = tap.drain();
    assert_eq!(stream.first().map(String::as_str), Some("MULTI"));
    assert_eq!(stream.last().map(String::as_str), Some("EXEC"));
    assert_eq!(stream.iter().filter(|command| command.as_str() == "MULTI").count(), 1);
    assert_eq!(stream.len(), 6, "{stream:?}");
}

#[test]
fn a_script_replicates_what_its_commands_change() {
    let (server, mut client) = Server::with_client();
    let mut tap = Tap::on(&server);
    let script = "redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann', '600000')
                  redis.call('RLOCK.ACQUIRE', KEYS[1], 'bob', '600000')
                  return redis.call('RLOCK.RELEASE', KEYS[1], 'ann')";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    let stream = tap.drain();
    assert!(stream[1].starts_with("RESTORE k ") && stream[1].ends_with(" {ann:1} ABSTTL REPLACE"), "{stream:?}");
    assert_eq!(
        [&stream[..1], &stream[2..]].concat(),
        ["MULTI", "DEL k", "PUBLISH redisson_lock__channel:{k} 0", "EXEC"]
    );
}

/// A bit of everything, leases that end included.
fn live(client: &mut Client) {
    for (number, case) in CASES.iter().enumerate() {
        // Every case on a key of its own.
        for command in read(case).0 {
            client.say(&command.replace(" k ", &format!(" k{number} ")).replace("{k}", &format!("{{k{number}}}")));
        }
    }
    for command in [
        "RLOCK.ACQUIRE {brace} ann 600000 FENCED",
        "RLOCK.RACQUIRE {brace}rw ann 600000",
        "RLOCK.RACQUIRE {brace}rw bob 20",
        "RLOCK.ACQUIRE short ann 20",
        "RLOCK.RENEW {brace} ann 1000000",
    ] {
        client.say(command);
    }
    wait_until("the short leases have ended", || {
        client.expiry("short") == -2 && client.expiry("{brace}rw:bob:rwlock_timeout:1") == -2
    });
    client.say("RLOCK.RELEASE {brace}rw bob");
}

#[test]
fn a_replica_without_the_module_has_the_same_locks() {
    let master = Server::start();
    let replica = Server::prepare().without_module().start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    live(&mut ours);
    let expected = ours.everything();
    assert!(expected.len() > 10, "{expected:?}");
    wait_until("the replica has it all", || theirs.everything() == expected);
    wait_until("they are the same to the last byte", || ours.digest() == theirs.digest());
}

#[test]
fn a_replica_with_the_module_refuses_to_lock() {
    let master = Server::start();
    let replica = Server::start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    ours.say("RLOCK.ACQUIRE k ann 600000");
    wait_until("the replica has the lock", || theirs.expiry("k") > 0);
    let commands = [
        "RLOCK.ACQUIRE k ann 1000",
        "RLOCK.RELEASE k ann",
        "RLOCK.RENEW k ann 1000",
        "RLOCK.BREAK k",
        "RLOCK.ONCE k ann 1000",
        "RLOCK.ANSWER k ann 42 KEEP 1000",
    ];
    for command in commands {
        assert!(theirs.say(command).as_error().starts_with("READONLY"), "{command}");
    }
    // Promoted, it goes on with the locks that it got.
    theirs.say("REPLICAOF NO ONE");
    assert!(theirs.say("RLOCK.ACQUIRE k bob 1000").as_int() > 0);
    assert_eq!(theirs.say("RLOCK.RELEASE k ann"), Reply::Int(1));
}

#[test]
fn an_aof_restart_without_the_module_ends_in_the_same_state() {
    let server = Server::prepare().append_only_file().start();
    let mut client = server.client();
    live(&mut client);
    let (expected, digest) = (client.everything(), client.digest());
    assert!(expected.len() > 10, "{expected:?}");
    drop(client);
    let restarted = server.crash().append_only_file().without_module().start();
    let mut client = restarted.client();
    assert_eq!(client.everything(), expected);
    assert_eq!(client.digest(), digest);
}

#[test]
fn published_messages_stay_out_of_the_aof() {
    let server = Server::prepare().append_only_file().start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(client.say("RLOCK.ACQUIRE k bob 600000"), Reply::Nil);
    let aof = server.aof();
    assert!(aof.contains("RESTORE") && aof.contains("DEL"), "{aof}");
    assert!(!aof.to_ascii_uppercase().contains("PUBLISH"), "{aof}");
    assert!(!aof.to_ascii_uppercase().contains("RLOCK"), "{aof}");
}
