//! What listeners see of a change: the keyspace events that the same change made by plain commands would fire; and
//! WATCH and client tracking, which see exactly the real changes.

use crate::waiting::for_all_waiters;
use crate::waiting::scene::Scene;
use rlock_testing::{Client, Reply, Server, Tap, list, text};

for_all_waiters!(a_hand_over_is_heard_as_a_release_and_an_acquire);

/// A listener to all keyspace events of a server.
struct Listener(Client);

impl Listener {
    fn on(server: &Server) -> Self {
        server.client().say("CONFIG SET notify-keyspace-events KA");
        let mut client = server.client();
        client.say("PSUBSCRIBE __keyspace@0__:* mark");
        client.receive();
        Self(client)
    }

    /// The events since the last call: `event key`.
    fn drain(&mut self, server: &Server) -> Vec<String> {
        server.client().say("PUBLISH mark end");
        let mut events = Vec::new();
        loop {
            let message = self.0.receive();
            let [_, _, Reply::Text(channel), Reply::Text(event)] = message.as_list() else { panic!("{message:?}") };
            if channel == "mark" {
                return events;
            }
            events.push(format!("{event} {}", channel.trim_start_matches("__keyspace@0__:")));
        }
    }
}

const HISTORY: &[&str] = &[
    "RLOCK.ACQUIRE k ann 600000 FENCED",
    "RLOCK.ACQUIRE k ann 600000",
    "RLOCK.RENEW k ann 700000",
    "RLOCK.RELEASE k ann LEASE 600000",
    "RLOCK.RELEASE k ann",
    "RLOCK.RACQUIRE k ann 600000",
    "RLOCK.RACQUIRE k bob 700000 FENCED",
    "RLOCK.RACQUIRE k bob 100000",
    "RLOCK.RENEW k bob 800000",
    "DEL {k}:bob:rwlock_timeout:2",
    "RLOCK.RENEW k bob 900000",
    "RLOCK.RELEASE k bob",
    "RLOCK.RELEASE k bob",
    "RLOCK.RELEASE k ann",
    "RLOCK.WACQUIRE k ann 600000",
    "RLOCK.WACQUIRE k ann 600000",
    "RLOCK.RACQUIRE k ann 600000",
    "RLOCK.RELEASE k ann WRITE",
    "RLOCK.RELEASE k ann WRITE",
    "RLOCK.RELEASE k ann ALL",
    "RLOCK.ACQUIRE k ann 600000",
    "RLOCK.INSPECT k",
    "RLOCK.QUEUES",
    "RLOCK.BREAK k",
    "RLOCK.BREAK k",
    "RLOCK.RACQUIRE k ann 600000",
    "RLOCK.RACQUIRE k ann 600000",
    "RLOCK.RACQUIRE k bob 600000",
    "RLOCK.INSPECT k",
    "RLOCK.BREAK k",
    "RLOCK.PACQUIRE k ann 600000 LIMIT 3 FENCED",
    "RLOCK.PACQUIRE k bob 500000 LIMIT 3",
    "RLOCK.PACQUIRE k cid 700000 LIMIT 3",
    "RLOCK.PACQUIRE k dan 700000 LIMIT 3",
    "RLOCK.PACQUIRE k bob 400000 LIMIT 3",
    "RLOCK.RENEW k bob 800000",
    "RLOCK.RELEASE k ann",
    "RLOCK.RELEASE k ann",
    "RLOCK.RELEASE k bob",
    "RLOCK.RELEASE k cid",
    "RLOCK.PACQUIRE k ann 600000 LIMIT 1",
    "RLOCK.BREAK k",
    "RLOCK.MACQUIRE 2 k l ann 600000",
    "RLOCK.MACQUIRE 3 m l k ann 700000 FENCED",
    "RLOCK.MACQUIRE 2 n k bob 600000",
    "RLOCK.RELEASE k ann ALL",
    "RLOCK.RELEASE l ann",
    "RLOCK.ONCE o ann 600000",
    "RLOCK.ONCE o bob 600000",
    "RLOCK.ANSWER o bob 42 KEEP 600000",
    "RLOCK.ANSWER o ann 42 KEEP 600000",
    "RLOCK.ONCE o bob 600000",
];

#[test]
fn events_are_those_of_the_plain_commands() {
    // Without RESTORE, the stream has the plain commands, one by one.
    let one_by_one = ["--rename-command", "RESTORE", "hidden"];
    let (server, plain) = (Server::prepare().options(&one_by_one).start(), Server::prepare().without_module().start());
    let (mut client, mut plain_client) = (server.client(), plain.client());
    let mut tap = Tap::on(&server);
    let (mut ours, mut theirs) = (Listener::on(&server), Listener::on(&plain));
    for command in HISTORY {
        client.say(command);
        for replicated in tap.drain() {
            plain_client.say(&replicated);
        }
        assert_eq!(ours.drain(&server), theirs.drain(&plain), "{command}");
    }
}

#[test]
fn events_are_those_that_redissons_listeners_wait_for() {
    let (server, mut client) = Server::with_client();
    let mut events = Listener::on(&server);
    for (command, expected) in [
        ("RLOCK.ACQUIRE k ann 600000", &["hincrby k", "expire k"][..]),
        ("RLOCK.ACQUIRE k bob 600000", &[]),
        ("RLOCK.RENEW k ann 600000", &["expire k"]),
        ("RLOCK.RELEASE k bob", &[]),
        ("RLOCK.RELEASE k ann", &["del k"]),
        ("RLOCK.RELEASE k ann", &[]),
        (
            "RLOCK.RACQUIRE k ann 600000",
            &["hset k", "expire k", "set {k}:ann:rwlock_timeout:1", "expire {k}:ann:rwlock_timeout:1"],
        ),
        ("RLOCK.RELEASE k ann", &["del k", "del {k}:ann:rwlock_timeout:1"]),
        (
            "RLOCK.RACQUIRE k ann 600000",
            &["hset k", "expire k", "set {k}:ann:rwlock_timeout:1", "expire {k}:ann:rwlock_timeout:1"],
        ),
        ("RLOCK.INSPECT k", &[]),
        ("RLOCK.BREAK k", &["del k", "del {k}:ann:rwlock_timeout:1"]),
        ("RLOCK.BREAK k", &[]),
        ("RLOCK.WACQUIRE k ann 600000 FENCED", &["hset k", "expire k", "set redisson_lock_token:{k}"]),
        ("RLOCK.RELEASE k ann", &["del k"]),
        ("RLOCK.PACQUIRE k ann 600000 LIMIT 2", &["zadd k", "expire k"]),
        ("RLOCK.PACQUIRE k bob 500000 LIMIT 2", &["zadd k"]),
        ("RLOCK.PACQUIRE k cid 500000 LIMIT 2", &[]),
        ("RLOCK.RENEW k bob 600001", &["zadd k", "expire k"]),
        ("RLOCK.RELEASE k ann", &["zrem k"]),
        ("RLOCK.RELEASE k bob", &["del k"]),
        ("RLOCK.MACQUIRE 2 k l ann 600000", &["hincrby k", "expire k", "hincrby l", "expire l"]),
        ("RLOCK.MACQUIRE 2 m l bob 600000", &[]),
        ("RLOCK.ONCE o ann 600000", &["hincrby o", "expire o"]),
        ("RLOCK.ANSWER o bob 42 KEEP 600000", &[]),
        ("RLOCK.ANSWER o ann 42 KEEP 600000", &["set rlock_answer:{o}", "expire rlock_answer:{o}", "del o"]),
        ("RLOCK.ONCE o bob 600000", &[]),
    ] {
        client.say(command);
        assert_eq!(events.drain(&server), expected, "{command}");
    }
}

/// Without a moment in between: a read right after the release sees the next holder. After a break, too, the lock
/// belongs to the next holder alone.
fn a_hand_over_is_heard_as_a_release_and_an_acquire(scene: &mut Scene) {
    let mut events = Listener::on(scene.server);
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let _bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    events.drain(scene.server);
    scene.send_together(&[&["RLOCK.RELEASE", "k", "ann"][..], &["HKEYS", "k"]]);
    assert_eq!((scene.receive(), scene.receive().words()), (Reply::Int(1), vec!["bob"]));
    assert_eq!(events.drain(scene.server), ["del k", "hincrby k", "expire k"]);

    let hold = "{rw}:cid:rwlock_timeout:1";
    scene.say("RLOCK.RACQUIRE rw cid 600000");
    let _dan = scene.wait("RLOCK.WACQUIRE rw dan 600000 WAIT 600000");
    scene.say("RLOCK.BREAK rw");
    assert_eq!(scene.fields("rw"), "{dan:write:1,mode:write}");
    let _cid = scene.wait("RLOCK.RACQUIRE rw cid 600000 WAIT 0");
    events.drain(scene.server);
    scene.say("RLOCK.RELEASE rw dan");
    let expected = ["del rw", "hset rw", "expire rw", &format!("set {hold}"), &format!("expire {hold}")];
    assert_eq!(events.drain(scene.server), expected);
    assert!(scene.expiry(hold) > 0);
}

/// It does not see what changes nothing: see `replication.rs`.
#[test]
fn watch_sees_changes() {
    let (server, mut client) = Server::with_client();
    let mut watcher = server.client();
    client.say("RLOCK.ACQUIRE plain ann 600000");
    client.say("RLOCK.RACQUIRE rw ann 600000");
    let mut watched_transaction = |watched: &str, command: &str| {
        watcher.say(&format!("WATCH {watched}"));
        client.say(command);
        watcher.say_all(["MULTI", "PING", "EXEC"]).remove(2)
    };
    let beside = watched_transaction("redisson_lock_token:{plain}", "RLOCK.ACQUIRE plain ann 600000");
    assert_eq!(beside, list([text("PONG")]), "nor of what is beside a change");
    for (watched, command) in [
        ("plain", "RLOCK.ACQUIRE plain ann 600000"),
        ("plain", "RLOCK.RENEW plain ann 600000"),
        ("plain", "RLOCK.RELEASE plain ann"),
        ("plain", "RLOCK.RELEASE plain ann ALL"),
        ("plain", "RLOCK.ACQUIRE plain ann 600000"),
        ("redisson_lock_token:{plain}", "RLOCK.ACQUIRE plain ann 600000 FENCED"),
        ("rw", "RLOCK.RACQUIRE rw bob 600000"),
        ("{rw}:bob:rwlock_timeout:2", "RLOCK.RACQUIRE rw bob 600000"),
        ("{rw}:bob:rwlock_timeout:2", "RLOCK.RENEW rw bob 600000"),
        ("{rw}:bob:rwlock_timeout:2", "RLOCK.RELEASE rw bob"),
        ("rw", "RLOCK.RELEASE rw bob"),
        ("{rw}:ann:rwlock_timeout:1", "RLOCK.BREAK rw"),
        ("plain", "RLOCK.BREAK plain"),
        ("permits", "RLOCK.PACQUIRE permits ann 600000 LIMIT 2"),
        ("permits", "RLOCK.PACQUIRE permits bob 600000 LIMIT 2"),
        ("permits", "RLOCK.RENEW permits ann 700000"),
        ("permits", "RLOCK.RELEASE permits ann"),
        ("second", "RLOCK.MACQUIRE 2 first second ann 600000"),
        ("first", "RLOCK.MACQUIRE 2 second first ann 600000"),
        ("once", "RLOCK.ONCE once ann 600000"),
        ("rlock_answer:{once}", "RLOCK.ANSWER once ann 42 KEEP 600000"),
        ("once", "RLOCK.ACQUIRE once ann 600000"),
        ("once", "RLOCK.ANSWER once ann 42 KEEP 600000"),
    ] {
        assert_eq!(watched_transaction(watched, command), Reply::Nil, "{command} changed {watched}");
    }
}

#[test]
fn client_tracking_sees_changes_and_not_refusals() {
    let server = Server::start();
    let (mut cache, mut invalidations, mut client) = (server.client(), server.client(), server.client());
    let id = invalidations.say("CLIENT ID").as_int();
    invalidations.say("SUBSCRIBE __redis__:invalidate mark");
    invalidations.receive();
    cache.say(&format!("CLIENT TRACKING ON REDIRECT {id} BCAST"));
    let mut invalidated_by = |command: &str| {
        client.say(command);
        client.say("PUBLISH mark end");
        let mut keys = Vec::new();
        loop {
            let message = invalidations.receive();
            match message.as_list() {
                [_, Reply::Text(channel), _] if channel == "mark" => return keys,
                [_, _, Reply::List(invalid)] => keys.extend(invalid.iter().map(|key| key.as_text().to_owned())),
                _ => panic!("{message:?}"),
            }
        }
    };
    assert_eq!(invalidated_by("RLOCK.ACQUIRE k ann 600000"), ["k"]);
    assert_eq!(invalidated_by("RLOCK.ACQUIRE k bob 600000"), [""; 0]);
    assert_eq!(invalidated_by("RLOCK.RENEW k bob 600000"), [""; 0]);
    assert_eq!(invalidated_by("RLOCK.RELEASE k bob"), [""; 0]);
    assert_eq!(invalidated_by("RLOCK.RENEW k ann 600000"), ["k"]);
    assert_eq!(invalidated_by("RLOCK.RELEASE k ann"), ["k"]);
    assert_eq!(invalidated_by("RLOCK.ONCE k ann 600000"), ["k"]);
    assert_eq!(invalidated_by("RLOCK.ANSWER k bob 42 KEEP 600000"), [""; 0]);
    assert_eq!(invalidated_by("RLOCK.ANSWER k ann 42 KEEP 600000"), ["k", "rlock_answer:{k}"]);
    assert_eq!(invalidated_by("RLOCK.ONCE k bob 600000"), [""; 0]);
}
