//! Read-write locks: leases that end or were taken away, and very many readers. `differential.rs` compares with Redisson's
//! scripts which sides share the lock, and what an acquire, a release and a renewal leave.

use rlock_testing::{Client, LeaseCheck, Reply, Server, wait_until};

/// No client leaves such a key. It counts as a read-write lock if it has no expiry, and otherwise as a plain lock.
#[test]
fn a_mode_without_holds_is_no_plain_lock() {
    let (_server, mut client) = Server::with_client();
    for mode in ["read", "write"] {
        client.run(&["HSET", "k", "mode", mode]);
        for wait in ["", " WAIT 0"] {
            let reply = client.say(&format!("RLOCK.ACQUIRE k ann 600000{wait}"));
            assert!(reply.as_error().starts_with("WRONGKIND"), "{reply:?}");
        }
        assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Nil);
        assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(0));
        assert_eq!(client.say("RLOCK.WACQUIRE k ann 600000"), Reply::Int(-1));
        assert_eq!(client.fields("k"), format!("{{mode:{mode}}}"));
    }
    client.say("PEXPIRE k 600000");
    assert!((1..=600_000).contains(&client.say("RLOCK.ACQUIRE k ann 600000").as_int()));
    client.say("HSET k mode read");
    assert_eq!(client.say("RLOCK.RACQUIRE k ann 600000"), Reply::Nil);
    assert_eq!(client.fields("k"), "{ann:1,mode:read}");
    assert!(client.say("RLOCK.ACQUIRE k bob 600000").as_error().starts_with("WRONGKIND"));
    client.say("DEL k");
    client.say("HSET k mode odd");
    assert!(client.say("RLOCK.ACQUIRE k ann 600000").as_error().starts_with("WRONGTYPE"));
}

#[test]
fn dead_readers_do_not_keep_the_lock_alive() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    client.say_all(["RLOCK.RACQUIRE k dead 30", "RLOCK.RACQUIRE k dead 20"]);
    wait_until("the read holds have ended", || client.keys() == ["k", "{k}:ann:rwlock_timeout:1"]);
    assert_eq!(client.fields("k"), "{ann:1,dead:2,mode:read}");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn a_dead_reader_that_releases_leaves_the_others_alone() {
    let (_server, mut client) = Server::with_client();
    let lease = LeaseCheck::begin(&mut client);
    client.say("RLOCK.RACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k dead 30");
    wait_until("the read hold has ended", || client.expiry("{k}:dead:rwlock_timeout:1") == -2);
    assert_eq!(client.say("RLOCK.RELEASE k dead"), Reply::Int(0));
    lease.lease_is(&mut client, "k", 600_000);
    assert_eq!(client.fields("k"), "{ann:1,mode:read}");
}

#[test]
fn an_expiry_that_was_taken_away_stays_away_until_the_lease_restarts() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    client.say("PERSIST k");
    client.say("RLOCK.WACQUIRE k ann 600000");
    assert_eq!(client.expiry("k"), -1);
    client.say("RLOCK.RACQUIRE k ann 600000");
    assert_eq!(client.expiry("k"), -1);
    assert_eq!(client.say("RLOCK.RACQUIRE k bob 600000"), Reply::Int(-1));
    let lease = LeaseCheck::begin(&mut client);
    client.say("RLOCK.RENEW k ann 600000");
    lease.lease_is(&mut client, "k", 600_000);
}

#[test]
fn more_read_holds_than_may_be_looked_at_leave_the_lease_alone() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k bob 900000");
    // A foreign client's count: each of these holds would have to be checked.
    client.say("HSET k other 9223372036854775807");
    let end = client.expiry("k");
    assert_eq!(client.say("RLOCK.RELEASE k bob"), Reply::Int(0));
    assert_eq!(client.expiry("k"), end);
    assert_eq!(client.say("RLOCK.RENEW k ann 100000"), Reply::Int(1));
    assert_eq!(client.expiry("k"), end);
    // ALL releases all holds of the holder, however many the hash claims.
    assert_eq!(client.say("RLOCK.RELEASE k other ALL"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE k ann ALL"), Reply::Int(1));
    // More holders than may be checked.
    client.say("RLOCK.RACQUIRE k ann 600000");
    for batch in 0..11 {
        let mut command = vec!["HSET".to_owned(), "k".to_owned()];
        command.extend((0..1_000).flat_map(|number| [format!("r{batch}:{number}"), "1".to_owned()]));
        client.run(&command);
    }
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(0));
    assert_eq!(client.say("HLEN k"), Reply::Int(11_001));
}

/// Readers come, go, renew and die, by our commands or by Redisson's scripts. If other clients have made the lock's lease
/// longer than all of its holds, or a hold's longer than the lock's, that stays so until fewer readers are left. Our
/// commands never end the lock before one of its holds.
#[test]
fn among_many_readers_the_lock_ends_with_the_longest_hold() {
    let (_server, mut client) = Server::with_client();
    for seed in 0..15_u64 {
        client.say("FLUSHALL");
        let foreign_percent = [0, 2, 10][usize::try_from(seed % 3).unwrap()];
        let mut state = seed;
        let mut random = |below: usize| {
            // A linear congruence: a seed always gives the same history.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        // The latest reader mostly has the longest lease, and is often the first to go.
        let mut latest = Vec::new();
        for step in 0..300 {
            let (anyone, lease) = (random(40), 600_000 + (step + random(20)) * 10_000);
            if step > 60 && random(100) < foreign_percent {
                match random(5) {
                    0 => drop(client.say(&format!("DEL {{k}}:r{anyone}:rwlock_timeout:1"))),
                    1 => drop(client.say(&format!("PEXPIRE k {lease}"))),
                    4 => drop(client.say(&format!("PEXPIRE {{k}}:r{anyone}:rwlock_timeout:1 {lease}"))),
                    // A lease that is slightly shorter than the lock's: the longest once the longest reader has left.
                    2 => {
                        let left = client.say("PTTL k").as_int() - 1_000;
                        join_as_redisson(&mut client, anyone, usize::try_from(left.max(1_000)).unwrap());
                    }
                    _ => join_as_redisson(&mut client, anyone, lease),
                }
                continue;
            }
            match random(if step < 60 { 4 } else { 10 }) {
                0..=3 => {
                    latest.push(anyone);
                    client.say(&format!("RLOCK.RACQUIRE k r{anyone} {lease}"));
                }
                4 => drop(client.say(&format!("RLOCK.RENEW k r{anyone} {lease}"))),
                _ => {
                    let leaver = if random(3) > 0 { latest.pop() } else { None }.unwrap_or(anyone);
                    let before = client.expiry("k");
                    if matches!(client.say(&format!("RLOCK.RELEASE k r{leaver}")), Reply::Int(_)) {
                        let (end, longest) = (client.expiry("k"), longest_hold(&mut client));
                        let is_exact = foreign_percent == 0 || client.say("HLEN k").as_int() < 16;
                        let is_right = if is_exact { end == longest } else { end >= longest.min(before) };
                        assert!(is_right, "seed {seed}, step {step}: {end}, and the longest hold {longest}");
                    }
                }
            }
        }
    }
}

/// When the last of all read holds of `k` ends; -2 if there is none.
fn longest_hold(client: &mut Client) -> i64 {
    let holds: Vec<_> = client.say("KEYS {k}:*").words().into_iter().map(str::to_owned).collect();
    holds.iter().map(|hold| client.expiry(hold)).max().unwrap_or(-2)
}

/// Adds a hold for a reader of `k`, and extends the lock's lease if the hold's ends later.
fn join_as_redisson(client: &mut Client, reader: usize, lease: usize) {
    if client.fields("k") == "{}" {
        return;
    }
    let before = client.expiry("k");
    let count = client.say(&format!("HINCRBY k r{reader} 1")).as_int();
    let hold = format!("{{k}}:r{reader}:rwlock_timeout:{count}");
    client.say(&format!("SET {hold} 1 PX {lease}"));
    let ends = client.expiry(&hold).max(before);
    client.say(&format!("PEXPIREAT k {ends}"));
}

#[test]
fn readers_in_a_large_hash_are_all_looked_at() {
    let (_server, mut client) = Server::with_client();
    // With names this long the server makes a table instead of a list.
    let reader = |number: i64| format!("{}:{number}", "r".repeat(70));
    let lease = LeaseCheck::begin(&mut client);
    for number in 0..200 {
        client.say(&format!("RLOCK.RACQUIRE k {} {}", reader(number), 600_000 + number * 1_000));
    }
    for number in (1..200).rev() {
        assert_eq!(client.say(&format!("RLOCK.RELEASE k {}", reader(number))), Reply::Int(0));
        lease.lease_is(&mut client, "k", 600_000 + (number - 1) * 1_000);
    }
}

/// A check of all holds of more readers would hold the server up. So a lease may stay too long, but never ends too soon.
#[test]
fn among_more_readers_than_are_looked_at_the_lease_stays_until_they_are_few() {
    let (_server, mut client) = Server::with_client();
    let lease = LeaseCheck::begin(&mut client);
    for number in 0..300 {
        client.say(&format!("RLOCK.RACQUIRE k r{number} {}", 600_000 + number * 1_000));
    }
    for number in (20..300).rev() {
        assert_eq!(client.say(&format!("RLOCK.RELEASE k r{number}")), Reply::Int(0));
        lease.lease_is(&mut client, "k", 600_000 + 299_000);
    }
    for number in (1..20).rev() {
        assert_eq!(client.say(&format!("RLOCK.RELEASE k r{number}")), Reply::Int(0));
    }
    lease.lease_is(&mut client, "k", 600_000);
    assert_eq!(client.say("RLOCK.RELEASE k r0"), Reply::Int(1));
}
