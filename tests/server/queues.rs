//! RLOCK.QUEUES: which locks are waited for, as far as the user may know.

use crate::inspect::of;
use rlock_testing::{Client, Reply, Server, list, start_waiting, text, wait_until};

/// Starts this many waits for a lock that has a holder.
fn queue(server: &Server, key: &str, length: usize) -> Vec<Client> {
    server.client().say(&format!("RLOCK.ACQUIRE {key} holder 600000"));
    (0..length).map(|number| start_waiting(server, &format!("RLOCK.ACQUIRE {key} h{number} 600000 WAIT 0"))).collect()
}

/// Key and length of each queue.
fn shown(queues: &Reply) -> Vec<(&str, i64)> {
    queues.as_list().iter().map(|queue| (of(queue, "key").as_text(), of(queue, "waiters").as_int())).collect()
}

#[test]
fn the_longest_first_and_of_two_alike_the_older() {
    let (server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.QUEUES"), list([]));
    let _a = queue(&server, "a", 1);
    let _b = queue(&server, "b", 3);
    let mut later = |key| {
        let before = client.time_ms();
        wait_until("the clock has moved on", || client.time_ms() > before);
        queue(&server, key, 1)
    };
    let (_c, _d) = (later("c"), later("d"));
    let queues = client.say("RLOCK.QUEUES");
    assert_eq!(shown(&queues), [("b", 3), ("a", 1), ("c", 1), ("d", 1)]);
    assert_eq!(shown(&client.say("RLOCK.QUEUES COUNT 2")), [("b", 3), ("a", 1)]);
    assert_eq!(shown(&client.say("RLOCK.QUEUES count 10000")).len(), 4);
    let waits: Vec<_> = queues.as_list().iter().map(|queue| of(queue, "oldest-wait-ms").as_int()).collect();
    assert!(waits[1] >= waits[0] && waits[0] > waits[2] && waits[2] > waits[3], "{waits:?}");
}

#[test]
fn a_hundred_if_no_count_is_given() {
    let server = Server::start();
    let _waiters: Vec<_> = (0..102).map(|number| queue(&server, &format!("k{number}"), 1)).collect();
    assert_eq!(server.client().say("RLOCK.QUEUES").as_list().len(), 100);
    assert_eq!(server.client().say("RLOCK.QUEUES COUNT 101").as_list().len(), 101);
}

#[test]
fn served_counts_since_the_queue_was_empty() {
    let (server, mut client) = Server::with_client();
    let _waiters = queue(&server, "k", 4);
    let served = |client: &mut Client| of(&client.say("RLOCK.QUEUES").as_list()[0], "served").as_int();
    assert_eq!(served(&mut client), 0);
    client.say("RLOCK.RELEASE k holder");
    client.say("RLOCK.RELEASE k h0");
    assert_eq!(served(&mut client), 2);
    // A wait that is given up is not served.
    let line = client.say("RLOCK.INSPECT k");
    let id = of(&of(&line, "waiters").as_list()[0], "client-id").as_int();
    client.say(&format!("CLIENT KILL ID {id}"));
    assert_eq!(served(&mut client), 2);
    client.say("RLOCK.RELEASE k h1");
    assert_eq!(client.say("RLOCK.QUEUES"), list([]));
    let _next = start_waiting(&server, "RLOCK.ACQUIRE k again 600000 WAIT 0");
    assert_eq!(served(&mut client), 0, "a new queue");
}

#[test]
fn the_oldest_is_the_first_that_still_waits() {
    let (server, mut client) = Server::with_client();
    let mut waiters = queue(&server, "k", 1);
    let before = client.time_ms();
    wait_until("the clock has moved on by far", || client.time_ms() >= before + 50);
    waiters.push(start_waiting(&server, "RLOCK.ACQUIRE k late 600000 WAIT 0"));
    let oldest = |client: &mut Client| of(&client.say("RLOCK.QUEUES").as_list()[0], "oldest-wait-ms").as_int();
    assert!(oldest(&mut client) >= 50);
    client.say("RLOCK.RELEASE k holder");
    let waited = oldest(&mut client);
    let now = client.time_ms();
    assert!(waited <= now - before - 50, "{waited}");
    assert_eq!(shown(&client.say("RLOCK.QUEUES")), [("k", 1)]);
}

#[test]
fn only_of_the_selected_database() {
    let server = Server::start();
    let (mut client, mut waiter) = (server.client(), server.client());
    let _here = queue(&server, "here", 1);
    for command in ["SELECT 1", "RLOCK.ACQUIRE there ann 600000"] {
        waiter.say(command);
    }
    waiter.say("SELECT 1");
    waiter.send(&["RLOCK.ACQUIRE", "there", "bob", "600000", "WAIT", "0"]);
    client.until_waiting(2);
    assert_eq!(shown(&client.say("RLOCK.QUEUES")), [("here", 1)]);
    client.say("SELECT 1");
    assert_eq!(shown(&client.say("RLOCK.QUEUES")), [("there", 1)]);
    client.say("SELECT 2");
    assert_eq!(client.say("RLOCK.QUEUES"), list([]));
}

#[test]
fn only_what_the_user_may_read() {
    let server = Server::start();
    let _long = queue(&server, "secret:1", 3);
    let _short = queue(&server, "app:1", 1);
    let _middle = queue(&server, "app:2", 2);
    let as_user = |rights: &str, command: &str| server.user("ann", &format!("+@all {rights}")).say(command);
    assert_eq!(shown(&as_user("~app:*", "RLOCK.QUEUES")), [("app:2", 2), ("app:1", 1)]);
    assert_eq!(shown(&as_user("~app:*", "RLOCK.QUEUES COUNT 1")), [("app:2", 2)], "what is hidden takes no place");
    assert_eq!(shown(&as_user("%R~app:1", "RLOCK.QUEUES")), [("app:1", 1)]);
    assert_eq!(as_user("%W~app:*", "RLOCK.QUEUES"), list([]), "to write is not to read");
    assert_eq!(shown(&as_user("~secret:* (%R~app:1 +get)", "RLOCK.QUEUES")), [("secret:1", 3), ("app:1", 1)]);
    assert_eq!(as_user("", "RLOCK.QUEUES"), list([]));
    assert_eq!(shown(&as_user("allkeys", "RLOCK.QUEUES")).len(), 3);
    for (rights, command) in [
        ("~app:* -rlock.queues", "RLOCK.QUEUES"),
        ("~app:*", "RLOCK.INSPECT secret:1"),
        ("%W~app:*", "RLOCK.INSPECT app:1"),
    ] {
        assert!(as_user(rights, command).as_error().starts_with("NOPERM"), "{command} with {rights}");
    }
}

#[test]
fn rights_are_those_of_the_moment_and_of_the_caller() {
    let mut server = Server::start();
    let (mut admin, mut user) = (server.client(), server.user("ann", "+@all ~*"));
    let _waiters = queue(&server, "k", 1);
    let replies = user.transaction(["RLOCK.QUEUES", "ACL SETUSER ann resetkeys", "RLOCK.QUEUES"]);
    assert_eq!(shown(&replies[0]), [("k", 1)]);
    assert_eq!(replies[2], list([]));
    // A user that deletes itself has no rights any more.
    for command in ["MULTI", "ACL DELUSER ann", "RLOCK.QUEUES"] {
        user.say(command);
    }
    user.send(&["EXEC"]);
    assert!(user.try_receive().is_none_or(|reply| !reply.words().contains(&"k")));
    assert!(server.is_running());
    assert_eq!(shown(&admin.say("RLOCK.QUEUES")), [("k", 1)], "the others are asked as before");
}

#[test]
fn not_in_scripts() {
    let server = Server::start();
    let _waiters = queue(&server, "k", 1);
    let reply = server.client().run(&["EVAL", "return redis.call('RLOCK.QUEUES')", "0"]);
    assert!(matches!(&reply, Reply::Error(line) if line.contains("not allowed from script")), "{reply:?}");
}

#[test]
fn a_server_that_is_full_can_be_looked_at() {
    let server = Server::start();
    let _waiters = queue(&server, "k", 1);
    let mut client = server.client();
    client.say("CONFIG SET maxmemory 1");
    assert_eq!(shown(&client.say("RLOCK.QUEUES")), [("k", 1)]);
    assert_eq!(of(&client.say("RLOCK.INSPECT k"), "kind"), &text("plain"));
}
