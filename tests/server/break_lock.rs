//! RLOCK.BREAK frees a lock from any holder, with everything that belongs to it, and grants it to its waiters.

use crate::cluster::node;
use crate::inspect::of;
use rlock_testing::{LeaseCheck, Reply, Server, Tap, start_waiting, text, wait_until};

#[test]
fn a_lock_of_either_kind_goes_with_all_its_keys() {
    let (_server, mut client) = Server::with_client();
    for setup in [
        ["RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k ann 600000", "PING"],
        ["RLOCK.WACQUIRE k ann 600000", "RLOCK.RACQUIRE k ann 600000", "RLOCK.RACQUIRE k ann 600000"],
        ["RLOCK.RACQUIRE k ann 600000", "RLOCK.RACQUIRE k bob 600000", "RLOCK.RACQUIRE k bob 600000"],
    ] {
        for command in setup {
            client.say(command);
        }
        assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1), "{setup:?}");
        assert_eq!(client.keys(), [""; 0], "{setup:?}");
        assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Nil, "who held it holds nothing any more");
        assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(0));
        assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(0), "there is no lock any more");
    }
    assert_eq!(client.figure("breaks"), 3);
}

#[test]
fn tokens_go_on_growing() {
    let (_server, mut client) = Server::with_client();
    let mut last = 0;
    for _ in 0..3 {
        let token = client.say("RLOCK.ACQUIRE k ann 600000 FENCED").token();
        assert!(last < token, "{token} after {last}");
        last = token;
        client.say("RLOCK.BREAK k");
        assert_eq!(client.keys(), ["redisson_lock_token:{k}"]);
    }
}

#[test]
fn a_lock_that_scripts_have_corrupted_is_broken() {
    let (_server, mut client) = Server::with_client();
    // Redisson's scripts do not check the kind: they put a plain lock on a read-write lock, and the reverse.
    for setup in [
        ["RLOCK.WACQUIRE k ann 600000", "HINCRBY k bob 1"],
        ["RLOCK.RACQUIRE k ann 600000", "HINCRBY k ann 1"],
        ["RLOCK.ACQUIRE k ann 600000", "HSET k mode write bob:write 1"],
        ["RLOCK.ACQUIRE k ann 600000", "HINCRBY k bob 2"],
        ["HSET k mode read", "PEXPIRE k 600000"],
    ] {
        for command in setup {
            client.say(command);
        }
        assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1), "{setup:?}");
        assert_eq!(client.keys(), [""; 0], "{setup:?}");
    }
}

#[test]
fn any_foreign_count_is_bounded_work() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    for number in 0..50 {
        client.say(&format!("HSET k foreign{number} 9223372036854775807"));
    }
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(client.say("EXISTS k"), Reply::Int(0));
}

#[test]
fn tens_of_thousands_of_readers_leave_nothing() {
    const READERS: usize = 300;
    const EACH: usize = 100;
    let (_server, mut client) = Server::with_client();
    let script = format!(
        "for reader = 1, {READERS} do for hold = 1, {EACH} do
             redis.call('RLOCK.RACQUIRE', KEYS[1], 'reader' .. reader, '600000') end end"
    );
    client.run(&["EVAL", &script, "1", "k"]);
    assert_eq!(client.say("DBSIZE"), Reply::Int(1 + i64::try_from(READERS * EACH).unwrap()));
    // A former reader is back before all of its read holds are deleted.
    let again = ["RLOCK.BREAK k", "RLOCK.RACQUIRE k reader7 600000", "RLOCK.RACQUIRE k reader7 600000"];
    assert_eq!(client.transaction(again), [Reply::Int(1), Reply::Nil, Reply::Nil]);
    let kept = ["k", "{k}:reader7:rwlock_timeout:1", "{k}:reader7:rwlock_timeout:2"];
    wait_until("only what it has acquired since is there", || client.say("DBSIZE") == Reply::Int(3));
    assert_eq!(client.keys(), kept);
    client.say("RLOCK.BREAK k");
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn its_read_holds_are_deleted_when_the_server_may_write() {
    let (_server, mut client) = Server::with_client();
    client.say_all((0..9_000).map(|hold| format!("RLOCK.RACQUIRE k reader{} 600000", hold % 900)));
    assert_eq!(client.transaction(["RLOCK.BREAK k", "CLIENT PAUSE 300 WRITE"]), [Reply::Int(1), text("OK")]);
    wait_until("all are gone", || client.say("DBSIZE") == Reply::Int(0));
}

#[test]
fn the_first_waiter_gets_it_in_the_same_step() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 300000 WAIT 0 FENCED");
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 200000 WAIT 0");
    let mut tap = Tap::on(&server);
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    let token = bob.receive().token();
    lease.lease_is(&mut client, "k", 300_000);
    let lock = format!("RESTORE k {} {{bob:1}} ABSTTL REPLACE", client.expiry("k"));
    // Published, as the new lease ends sooner than ann's.
    let publish = "PUBLISH redisson_lock__channel:{k} 0";
    let counter = format!("SET redisson_lock_token:{{k}} {token} KEEPTTL");
    assert_eq!(tap.drain(), ["MULTI", &lock, publish, &counter, "EXEC"]);
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(cid.receive(), Reply::Nil);
    assert_eq!(client.figures(["hand_offs", "breaks"]), [2, 2]);
}

#[test]
fn nothing_of_earlier_holders_is_left_to_the_granted_waiters() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut waiters = ["RACQUIRE k bob", "RACQUIRE k cid", "WACQUIRE k dan", "RACQUIRE k eve"]
        .map(|ask| start_waiting(&server, &format!("RLOCK.{ask} 600000 WAIT 0")));
    let [bob, cid, dan, eve] = &mut waiters;
    let mut tap = Tap::on(&server);
    for (let_in, keys) in [
        (vec![bob, cid], &["k", "{k}:bob:rwlock_timeout:1", "{k}:cid:rwlock_timeout:1"][..]),
        (vec![dan], &["k"]),
        (vec![eve], &["k", "{k}:eve:rwlock_timeout:1"]),
    ] {
        assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
        for waiter in let_in {
            assert_eq!(waiter.receive(), Reply::Nil);
        }
        assert_eq!(client.keys(), keys);
        let stream = tap.drain();
        assert_eq!(stream.iter().filter(|command| *command == "MULTI").count(), 1, "all in one step: {stream:?}");
        assert!(!stream.contains(&"DEL k".to_owned()), "the key never goes: {stream:?}");
        // Redisson's waiting readers may join the granted ones.
        let publish = "PUBLISH redisson_rwlock:{k} 1".to_owned();
        assert_eq!(stream.contains(&publish), keys.len() > 1, "{stream:?}");
    }
}

#[test]
fn a_waiter_may_be_among_its_holders() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k bob 600000");
    let mut ann = start_waiting(&server, "RLOCK.RACQUIRE k ann 600000 WAIT 0");
    // A client that runs scripts of its own adds read holds under the same name.
    client.say("SET {k}:ann:rwlock_timeout:1 1 PX 300000");
    client.say("SET {k}:ann:rwlock_timeout:2 1 PX 300000");
    client.say("HINCRBY k ann 2");
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(ann.receive(), Reply::Nil);
    assert_eq!(client.fields("k"), "{ann:1,mode:read}");
    assert_eq!(client.keys(), ["k", "{k}:ann:rwlock_timeout:1"]);
    assert!(client.expiry("{k}:ann:rwlock_timeout:1") > client.time_ms() + 400_000, "the new hold is whole");
}

#[test]
fn a_key_that_is_no_lock_is_left_as_it_is_and_so_are_its_waiters() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let _bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("HSET k name Ann");
    let mut tap = Tap::on(&server);
    let before = client.digest();
    for _ in 0..2 {
        let reply = client.say("RLOCK.BREAK k");
        assert!(reply.as_error().starts_with("WRONGTYPE key is not a lock"), "{reply:?}");
    }
    assert_eq!((client.digest(), client.figure("waiters"), client.figure("breaks")), (before, 1, 0));
    assert_eq!(tap.drain(), [""; 0]);
}

#[test]
fn in_transactions_and_scripts() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    let mut cid = start_waiting(&server, "RLOCK.WACQUIRE k cid 600000 WAIT 0");
    let mut tap = Tap::on(&server);
    assert_eq!(client.transaction(["RLOCK.BREAK k", "SET x 1"])[0], Reply::Int(1));
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.run(&["EVAL", "return redis.call('RLOCK.BREAK', KEYS[1])", "1", "k"]), Reply::Int(1));
    assert_eq!(cid.receive(), Reply::Nil);
    let stream = tap.drain();
    let is_grant = |command: &&String| command.starts_with("RESTORE k ");
    assert_eq!(stream.iter().filter(is_grant).count(), 2, "{stream:?}");
    // The read hold's key may be deleted later, after the turn.
    let end = stream.iter().position(|command| command == "EXEC").expect("a transaction");
    let is_set = |command: &String| command == "SET x 1";
    let within = &stream[1..end];
    assert!(stream[0] == "MULTI" && within.iter().filter(is_grant).count() == 1, "{stream:?}");
    assert!(within.iter().any(is_set), "the transaction is one: {stream:?}");
    assert_eq!(client.keys(), ["k", "x"]);
}

#[test]
fn while_writes_are_paused_it_waits_for_the_end_of_the_pause() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    client.say("RLOCK.ACQUIRE k ann 600000");
    watch.say("CLIENT PAUSE 100000 WRITE");
    client.send(&["RLOCK.BREAK", "k"]);
    wait_until("it is put off", || watch.info("clients").number("blocked_clients") == 1);
    assert_eq!(of(&watch.say("RLOCK.INSPECT k"), "kind"), &text("plain"), "who only looks is not put off");
    watch.say("CLIENT UNPAUSE");
    assert_eq!(client.receive(), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn a_break_of_a_free_lock_serves_its_waiters() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // BREAK runs before the server reports the DEL, which it does after the transaction.
    assert_eq!(client.transaction(["DEL k", "RLOCK.BREAK k", "HGET k bob"])[1..], [Reply::Int(0), text("1")]);
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn in_a_cluster_every_name_can_be_looked_at_and_broken() {
    let (_server, mut client) = node();
    client.say("RLOCK.RACQUIRE k ann 600000 FENCED");
    assert_eq!(client.say("RLOCK.BREAK k"), Reply::Int(1));
    assert_eq!(client.keys(), ["redisson_lock_token:{k}"]);
    client.say("FLUSHALL");
    // The keys derived from such names are in another slot, and are left alone.
    for name in ["foo{", "a{}b", "}{", "a}b", ""] {
        let braced = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        let beside = [format!("redisson_lock_token:{braced}"), format!("{braced}:ann:rwlock_timeout:1")];
        client.run(&["HSET", name, "mode", "read", "ann", "1"]);
        for key in &beside {
            client.run(&["SET", key, "1"]);
        }
        let seen = client.run(&["RLOCK.INSPECT", name]);
        assert_eq!(of(&seen, "fencing-token"), &Reply::Nil);
        assert_eq!(of(&of(&seen, "holders").as_list()[0], "ttl-ms"), &Reply::Nil);
        assert_eq!(client.run(&["RLOCK.BREAK", name]), Reply::Int(1), "{name}");
        let mut kept = beside.to_vec();
        kept.sort();
        assert_eq!(client.keys(), kept);
        client.say("FLUSHALL");
    }
}
