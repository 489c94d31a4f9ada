//! No command, event or timer changes the database that a client has selected: its next commands would go to another
//! one, without a word.

use rlock_testing::{Client, Reply, Server, ServerVersion, Session, start_waiting, wait_until};

fn selected(client: &mut Client) -> String {
    let info = client.say("CLIENT INFO");
    let database = info.as_text().split(' ').find_map(|field| field.strip_prefix("db="));
    database.expect("the server tells the database").to_owned()
}

/// A ticket of a lock in database 1, cancelled by a client of database 0: the waiters behind it are granted.
#[test]
fn a_ticket_of_another_database_is_cancelled_from_here() {
    let server = Server::start();
    let mut there = server.client();
    there.say("SELECT 1");
    let ways: [&[&str]; 3] = [
        &["RLOCK.CANCEL the-session-of-ann 1"],
        &["MULTI", "RLOCK.CANCEL the-session-of-ann 1", "SET here 1", "EXEC"],
        &["EVAL"],
    ];
    for way in ways {
        let mut ann = Session::open(&server, "ann");
        there.say("RLOCK.RACQUIRE k holder 600000");
        ann.other.say("SELECT 1");
        ann.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 0", "1");
        let mut bob = server.client();
        bob.say("SELECT 1");
        bob.send(&["RLOCK.RACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
        there.until_waiting(2);
        let mut here = server.client();
        if way == ["EVAL"] {
            let script = "redis.call('RLOCK.CANCEL', 'the-session-of-ann', '1') redis.call('SET', 'here', '1')";
            here.run(&["EVAL", script, "0"]);
        } else {
            here.say_all(way);
        }
        assert_eq!(selected(&mut here), "0", "{way:?}");
        assert_eq!(bob.receive(), Reply::Nil, "{way:?}");
        here.say("SET here 1");
        assert_eq!(here.keys(), ["here"], "{way:?}");
        assert_eq!(there.fields("k"), "{bob:1,holder:1,mode:read}", "{way:?}");
        here.say("FLUSHALL");
        ann.cancel("");
    }
}

/// On servers that have jobs, a job serves the waiter; on some of them in the name of the client that freed the lock.
#[test]
fn a_lock_of_another_database_is_freed_from_here() {
    let server = Server::start();
    let mut there = server.client();
    there.say("SELECT 1");
    let ways: [&[&str]; 3] =
        [&["MULTI", "SELECT 1", "DEL k", "SELECT 0", "EXEC"], &["EVAL"], &["SELECT 1", "DEL k", "SELECT 0"]];
    for way in ways {
        there.say("RLOCK.ACQUIRE k holder 600000");
        let mut bob = server.client();
        bob.say("SELECT 1");
        bob.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
        wait_until("bob waits", || there.figure("waiters") == 1);
        let mut here = server.client();
        if way == ["EVAL"] {
            here.run(&["EVAL", "redis.call('SELECT', 1) redis.call('DEL', 'k') redis.call('SELECT', 0)", "0"]);
        } else {
            here.say_all(way);
        }
        bob.receive();
        assert_eq!(selected(&mut here), "0", "{way:?}");
        here.say("SET here 1");
        assert_eq!(here.keys(), ["here"], "{way:?}");
        assert_eq!(there.keys(), ["k"], "{way:?}");
        here.say("FLUSHALL");
    }
}

/// Valkey 8.1 and 9.0 themselves leave a client in the database to which it has copied or moved a key, while any module
/// listens to key events; so the test shows nothing there.
#[test]
fn a_key_is_put_over_a_lock_of_another_database() {
    if ServerVersion::under_test().moves_clients() {
        return;
    }
    let server = Server::start();
    let (mut there, mut here) = (server.client(), server.client());
    there.say("SELECT 1");
    for way in ["COPY text k DB 1 REPLACE", "MOVE text 1"] {
        there.say("RLOCK.ACQUIRE k holder 600000");
        let mut bob = server.client();
        bob.say("SELECT 1");
        bob.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
        wait_until("bob waits", || there.figure("waiters") == 1);
        here.say("SET text 1");
        here.say(way);
        assert_eq!(selected(&mut here), "0", "{way}");
        there.say("DEL k");
        bob.receive();
        here.say("FLUSHALL");
    }
}

/// A timer for another database serves waits and leases that end in this one.
#[test]
fn timers_leave_every_client_where_it_is() {
    let server = Server::start();
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(&format!("SELECT {number}"));
        client.say("RLOCK.ACQUIRE k holder 20");
    }
    let mut waiting: Vec<_> = (0..4)
        .map(|number| {
            let mut waits = server.client();
            waits.say(&format!("SELECT {number}"));
            waits.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
            waits
        })
        .collect();
    let mut ended = start_waiting(&server, "RLOCK.ACQUIRE k ann 600000 WAIT 60");
    for (number, waits) in waiting.iter_mut().enumerate() {
        waits.receive();
        assert_eq!(selected(waits), number.to_string());
    }
    assert!(ended.receive().as_int() > 0);
    assert_eq!(selected(&mut ended), "0");
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(selected(client), number.to_string());
    }
}
