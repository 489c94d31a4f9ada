//! RLOCK.INSPECT: what people on call see of a lock, and that looking changes nothing.

use rlock_testing::resp::Protocol;
use rlock_testing::{Client, Reply, Server, Tap, list, start_waiting, text, wait_until};
use std::io::Write;
use std::net::TcpStream;

/// The value of a name, in a map that is written as a flat list.
pub fn of<'a>(map: &'a Reply, name: &str) -> &'a Reply {
    let pairs = map.as_list().chunks(2);
    let mut named = pairs.filter(|pair| pair[0] == text(name)).map(|pair| &pair[1]);
    named.next().unwrap_or_else(|| panic!("there is no {name} in {map:?}"))
}

/// What a list of maps says under one name.
fn each<'a>(maps: &'a Reply, name: &str) -> Vec<&'a Reply> {
    maps.as_list().iter().map(|map| of(map, name)).collect()
}

fn texts<'a>(maps: &'a Reply, name: &str) -> Vec<&'a str> {
    each(maps, name).into_iter().map(Reply::as_text).collect()
}

/// Holder, side and count of each holder, in order of their names.
fn holders(seen: &Reply) -> Vec<(String, String, i64)> {
    let holder = |map: &Reply| {
        let words = ["holder", "side"].map(|name| of(map, name).as_text().to_owned());
        let [holder, side] = words;
        (holder, side, of(map, "count").as_int())
    };
    let mut holders: Vec<_> = of(seen, "holders").as_list().iter().map(holder).collect();
    holders.sort();
    holders
}

fn held(holders: &[(&str, &str, i64)]) -> Vec<(String, String, i64)> {
    holders.iter().map(|(holder, side, count)| ((*holder).to_owned(), (*side).to_owned(), *count)).collect()
}

/// The time left of one side of a holder.
fn left_ms<'a>(seen: &'a Reply, holder: &str, side: &str) -> &'a Reply {
    let holders = of(seen, "holders").as_list();
    let mut found = holders.iter().filter(|map| (of(map, "holder"), of(map, "side")) == (&text(holder), &text(side)));
    of(found.next().unwrap_or_else(|| panic!("{holder} does not {side}: {seen:?}")), "ttl-ms")
}

#[test]
fn a_lock_without_a_holder() {
    let (_server, mut client) = Server::with_client();
    let nothing = |token| {
        list([
            text("kind"),
            text("none"),
            text("ttl-ms"),
            Reply::Int(-2),
            text("holder-count"),
            Reply::Int(0),
            text("holders"),
            list([]),
            text("fencing-token"),
            token,
            text("answer-bytes"),
            Reply::Nil,
            text("answer-ttl-ms"),
            Reply::Nil,
            text("waiter-count"),
            Reply::Int(0),
            text("waiters"),
            list([]),
            text("grace-left-ms"),
            Reply::Int(0),
        ])
    };
    assert_eq!(client.say("RLOCK.INSPECT k"), nothing(Reply::Nil));
    let token = client.say("RLOCK.ACQUIRE k ann 600000 FENCED").token();
    client.say("RLOCK.RELEASE k ann");
    assert_eq!(client.say("RLOCK.INSPECT k"), nothing(Reply::Int(token)), "the counter outlives the lock");
}

#[test]
fn a_plain_lock() {
    let (_server, mut client) = Server::with_client();
    let [_, _, token] = [(); 3].map(|()| client.say("RLOCK.ACQUIRE k ann:1 600000 FENCED").token());
    let end = client.expiry("k");
    let before = client.time_ms();
    let seen = client.say("RLOCK.INSPECT k");
    let after = client.time_ms();
    assert_eq!(of(&seen, "kind"), &text("plain"));
    assert_eq!(of(&seen, "holder-count"), &Reply::Int(1));
    assert_eq!(holders(&seen), held(&[("ann:1", "exclusive", 3)]));
    assert_eq!(of(&seen, "fencing-token"), &Reply::Int(token));
    let left = of(&seen, "ttl-ms").as_int();
    assert!((end - after..=end - before).contains(&left), "{left}");
    assert_eq!(left_ms(&seen, "ann:1", "exclusive").as_int(), left, "the holder's lease is the lock's");
    client.say("PERSIST k");
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!((of(&seen, "ttl-ms"), left_ms(&seen, "ann:1", "exclusive")), (&Reply::Int(-1), &Reply::Int(-1)));
}

#[test]
fn a_read_write_lock() {
    let (_server, mut client) = Server::with_client();
    for command in [
        "RLOCK.WACQUIRE k ann 600000",
        "RLOCK.WACQUIRE k ann 600000",
        "RLOCK.RACQUIRE k ann 300000",
        "RLOCK.RACQUIRE k ann 100000",
    ] {
        client.say(command);
    }
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(of(&seen, "kind"), &text("read-write"));
    assert_eq!(of(&seen, "holder-count"), &Reply::Int(2), "one for each side");
    assert_eq!(holders(&seen), held(&[("ann", "read", 2), ("ann", "write", 2)]));
    assert_eq!(left_ms(&seen, "ann", "write"), of(&seen, "ttl-ms"));
    let left = left_ms(&seen, "ann", "read").as_int();
    assert!((200_000..=300_000).contains(&left), "the longest of its own: {left}");
    assert_eq!(of(&seen, "fencing-token"), &Reply::Nil);
}

#[test]
fn readers_each_with_their_own_lease() {
    let (_server, mut client) = Server::with_client();
    for command in [
        "RLOCK.RACQUIRE k ann 600000",
        "RLOCK.RACQUIRE k bob 300000",
        "RLOCK.RACQUIRE k cid 600000",
        "PERSIST {k}:cid:rwlock_timeout:1",
        "RLOCK.RACQUIRE k dead 20",
    ] {
        client.say(command);
    }
    wait_until("the read hold has ended", || client.expiry("{k}:dead:rwlock_timeout:1") == -2);
    let seen = client.say("RLOCK.INSPECT k");
    let names = ["ann", "bob", "cid", "dead"];
    assert_eq!(holders(&seen), held(&names.map(|name| (name, "read", 1))));
    assert_eq!(of(&seen, "holder-count"), &Reply::Int(4));
    let left = names.map(|name| left_ms(&seen, name, "read").as_int());
    assert!((500_000..=600_000).contains(&left[0]) && (200_000..=300_000).contains(&left[1]), "{left:?}");
    assert_eq!(left[2..], [-1, -2]);
}

#[test]
fn waiters_in_their_order() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    let mut waiters = [
        start_waiting(&server, "RLOCK.RACQUIRE k bob 600000 WAIT 0"),
        start_waiting(&server, "RLOCK.WACQUIRE k cid 600000 WAIT 300000"),
        start_waiting(&server, "RLOCK.RACQUIRE k dan 600000 WAIT 0"),
    ];
    wait_until("they have waited a little", || {
        let seen = client.say("RLOCK.INSPECT k");
        each(of(&seen, "waiters"), "waited-ms").iter().all(|waited| waited.as_int() >= 5)
    });
    let seen = client.say("RLOCK.INSPECT k");
    let line = of(&seen, "waiters");
    assert_eq!(of(&seen, "waiter-count"), &Reply::Int(3));
    assert_eq!(texts(line, "holder"), ["bob", "cid", "dan"]);
    assert_eq!(texts(line, "side"), ["read", "write", "read"]);
    let waited: Vec<_> = each(line, "waited-ms").into_iter().map(Reply::as_int).collect();
    assert!(waited.is_sorted_by(|first, second| first >= second), "who is first came first: {waited:?}");
    let deadlines = each(line, "deadline-in-ms");
    assert_eq!((deadlines[0], deadlines[2]), (&Reply::Nil, &Reply::Nil), "they wait forever");
    assert!((200_000..=300_000 - waited[1]).contains(&deadlines[1].as_int()), "{deadlines:?}");
    // Each is found by its id, as CLIENT LIST and CLIENT KILL know it.
    let socket = format!("{}:0", server.socket().display());
    assert_eq!(texts(line, "address"), [&socket; 3]);
    for (id, waiter) in each(line, "client-id").into_iter().zip(&mut waiters) {
        assert_eq!(client.say(&format!("CLIENT KILL ID {}", id.as_int())), Reply::Int(1));
        assert_eq!(waiter.try_receive(), None);
    }
    client.until_waiting(0);
    assert_eq!(of(&client.say("RLOCK.INSPECT k"), "waiters"), &list([]));
}

#[test]
fn a_waiter_on_the_network_has_an_address() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut far = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let address = far.local_addr().unwrap().to_string();
    far.write_all(b"RLOCK.ACQUIRE k bob 600000 WAIT 0\r\n").unwrap();
    client.until_waiting(1);
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(texts(of(&seen, "waiters"), "address"), [&*address]);
    assert_eq!(texts(of(&seen, "waiters"), "side"), ["exclusive"]);
    assert!(client.say("CLIENT LIST").as_text().contains(&format!("addr={address} ")));
}

#[test]
fn a_count_bounds_the_lists_and_not_the_figures() {
    let (server, mut client) = Server::with_client();
    for number in 0..120 {
        client.say(&format!("RLOCK.RACQUIRE k reader{number} 600000"));
    }
    let _waiters: Vec<_> =
        (0..101).map(|number| start_waiting(&server, &format!("RLOCK.WACQUIRE k w{number} 600000 WAIT 0"))).collect();
    for (command, shown) in [
        ("RLOCK.INSPECT k", (100, 100)),
        ("RLOCK.INSPECT k COUNT 1", (1, 1)),
        ("RLOCK.INSPECT k count 110", (110, 101)),
        ("RLOCK.INSPECT k COUNT 10000", (120, 101)),
    ] {
        let seen = client.say(command);
        assert_eq!((of(&seen, "holder-count"), of(&seen, "waiter-count")), (&Reply::Int(120), &Reply::Int(101)));
        let lengths = ["holders", "waiters"].map(|name| of(&seen, name).as_list().len());
        assert_eq!(lengths, [shown.0, shown.1], "{command}");
        assert_eq!(of(&of(&seen, "waiters").as_list()[0], "holder"), &text("w0"), "from the first on");
    }
}

#[test]
fn more_read_holds_than_are_looked_at() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 600000");
    client.say("HSET k foreign 9223372036854775807 other 9999");
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(left_ms(&seen, "foreign", "read"), &Reply::Nil, "no look was taken");
    assert!(left_ms(&seen, "ann", "read").as_int() > 0);
    assert_eq!(left_ms(&seen, "other", "read"), &Reply::Int(-2));
    client.say("HSET k other 10000");
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(left_ms(&seen, "other", "read"), &Reply::Nil, "one more than may be looked at, with ann's");
}

#[test]
fn a_lock_that_scripts_have_corrupted() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    // Redisson's scripts do this if a plain lock is requested under the name of a read-write lock, and the reverse.
    client.say("HINCRBY k bob 1");
    let seen = client.say("RLOCK.INSPECT k");
    assert_eq!(of(&seen, "kind"), &text("read-write"));
    assert_eq!(holders(&seen), held(&[("ann", "write", 1), ("bob", "read", 1)]));
    assert_eq!(left_ms(&seen, "bob", "read"), &Reply::Int(-2), "a read without a lease of its own gives it away");
    client.say("RLOCK.ACQUIRE p ann 600000");
    client.say("HINCRBY p bob 1");
    assert_eq!(holders(&client.say("RLOCK.INSPECT p")), held(&[("ann", "exclusive", 1), ("bob", "exclusive", 1)]));
}

#[test]
fn looking_changes_nothing() {
    // With this policy each use of a key would show.
    let server = Server::prepare().options(&["--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0"]).start();
    let mut client = server.client();
    client.say("RLOCK.RACQUIRE k ann 600000 FENCED");
    client.say("RLOCK.RACQUIRE k ann 600000");
    let keys = ["k", "{k}:ann:rwlock_timeout:1", "{k}:ann:rwlock_timeout:2", "redisson_lock_token:{k}"];
    let uses = |client: &mut Client| keys.map(|key| client.run(&["OBJECT", "FREQ", key]).as_int());
    let mut tap = Tap::on(&server);
    let before = (uses(&mut client), client.digest());
    for _ in 0..20 {
        client.say("RLOCK.INSPECT k");
    }
    assert_eq!((uses(&mut client), client.digest()), before);
    assert_eq!(tap.drain(), [""; 0]);
    client.say("HGETALL k");
    assert_ne!(uses(&mut client), before.0, "a use would have shown");
}

#[test]
fn in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let script = "return redis.call('RLOCK.INSPECT', KEYS[1])[2]";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), text("plain"));
    let replies = client.transaction(["RLOCK.BREAK k", "RLOCK.INSPECT k"]);
    assert_eq!((&replies[0], of(&replies[1], "kind")), (&Reply::Int(1), &text("none")));
}

#[test]
fn on_a_replica_the_holders_are_seen() {
    let (master, replica) = (Server::start(), Server::start());
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    let token = ours.say("RLOCK.WACQUIRE k ann 600000 FENCED").token();
    let _bob = start_waiting(&master, "RLOCK.WACQUIRE k bob 600000 WAIT 0");
    wait_until("the replica has the token", || theirs.say("GET redisson_lock_token:{k}") == text(&token.to_string()));
    let seen = theirs.say("RLOCK.INSPECT k");
    assert_eq!(holders(&seen), held(&[("ann", "write", 1)]));
    assert_eq!(of(&seen, "fencing-token"), &Reply::Int(token));
    assert_eq!(of(&seen, "waiter-count"), &Reply::Int(0), "waiters are known only where they wait");
    assert_eq!(theirs.say("RLOCK.QUEUES"), list([]));
}

#[test]
fn maps_in_one_protocol_and_flat_arrays_in_the_other() {
    let (server, mut client) = Server::with_client();
    client.run(&[&b"RLOCK.ACQUIRE"[..], b"k\0\xff", b"ann\0\xfe", b"600000"]);
    client.run(&[&b"PERSIST"[..], b"k\0\xff"]);
    let seen = |protocol, command: &[&[u8]]| {
        let mut asker = server.client();
        asker.say(if protocol == Protocol::Resp3 { "HELLO 3" } else { "HELLO 2" });
        asker.send(command);
        asker.receive_in(protocol)
    };
    let flat = |map: &str| map.replace('{', "[").replace('}', "]").replace("\": ", "\", ");
    let inspect: &[&[u8]] = &[b"RLOCK.INSPECT", b"k\0\xff"];
    let map = r#"{"kind": "plain", "ttl-ms": -1, "holder-count": 1, "holders": [{"holder": "ann\x00\xfe", "#.to_owned()
        + r#""side": "exclusive", "count": 1, "ttl-ms": -1}], "fencing-token": nil, "answer-bytes": nil, "answer-ttl-ms": nil, "waiter-count": 0, "waiters": [], "grace-left-ms": 0}"#;
    assert_eq!(seen(Protocol::Resp3, inspect), map);
    assert_eq!(seen(Protocol::Resp2, inspect), flat(&map));
    // The same with waiters, and for all queues.
    let mut bob = server.client();
    bob.send(&[&b"RLOCK.ACQUIRE"[..], b"k\0\xff", b"bob\xfd", b"600000", b"WAIT", b"0"]);
    client.until_waiting(1);
    for (command, has) in [
        (inspect, r#", "waiters": [{"holder": "bob\xfd", "side": "exclusive", "#),
        (&[b"RLOCK.QUEUES"], r#"[{"key": "k\x00\xff", "waiters": 1, "#),
    ] {
        for (protocol, has) in [(Protocol::Resp3, has.to_owned()), (Protocol::Resp2, flat(has))] {
            let seen = seen(protocol, command);
            assert!(seen.contains(&has), "{seen} has no {has}");
        }
    }
}
