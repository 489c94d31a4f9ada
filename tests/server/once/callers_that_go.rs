//! Callers that disconnect, are killed or unblocked before they have their answer.

use super::{KEPT, gets};
use crate::waiting::for_all_waiters;
use crate::waiting::scene::{First, Scene};
use rlock_testing::{Client, Reply, Server, Session, list, start_waiting, text, wait_until};

for_all_waiters!(a_caller_that_leaves_holds_up_no_other);

fn a_caller_that_leaves_holds_up_no_other(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    let [first, mut bob, second, mut cid] =
        ["first", "bob", "second", "cid"].map(|name| scene.wait(&format!("RLOCK.ONCE k {name} 600000 WAIT 0")));
    for gone in [first, second] {
        gone.leave(scene);
    }
    assert_eq!(scene.say(KEPT), Reply::Int(1));
    gets(scene, &mut bob, "42");
    gets(scene, &mut cid, "42");
    assert_eq!((scene.figures(["waiters", "cancelled"]), scene.keys()), ([0, 2], vec!["rlock_answer:{k}".to_owned()]));
}

/// The kill is in one transaction with the answer, so that the reply is never sent. The other caller gets it.
#[test]
fn a_caller_that_is_killed_right_at_the_answer_leaves_nothing() {
    let (server, mut client) = Server::with_client();
    for kill_first in [false, true] {
        for number in 0..20 {
            client.say("RLOCK.ONCE k ann 600000");
            let mut dying = server.client();
            let id = dying.say("CLIENT ID").as_int();
            dying.send(&["RLOCK.ONCE", "k", "dying", "600000", "WAIT", "0"]);
            client.until_waiting(1);
            let mut bob = start_waiting(&server, "RLOCK.ONCE k bob 600000 WAIT 0");
            let kill = format!("CLIENT KILL ID {id}");
            let mut commands = [KEPT, &kill, "DEL rlock_answer:{k}"];
            if kill_first {
                commands.swap(0, 1);
            }
            client.transaction(commands);
            assert_eq!(bob.receive(), text("42"), "{number}");
            assert_eq!(dying.try_receive(), None, "{number}");
            assert_eq!((client.figures(["waiters", "revocations_due"]), client.keys()), ([0; 2], vec![]), "{number}");
        }
    }
}

#[test]
fn a_next_leader_that_is_killed_leaves_the_lead_to_the_next() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ONCE k ann 600000");
    let mut dying = server.client();
    let id = dying.say("CLIENT ID").as_int();
    dying.send(&["RLOCK.ONCE", "k", "dying", "600000", "WAIT", "0"]);
    client.until_waiting(1);
    let mut bob = start_waiting(&server, "RLOCK.ONCE k bob 600000 WAIT 0");
    client.transaction(["RLOCK.RELEASE k ann", &format!("CLIENT KILL ID {id}")]);
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.fields("k"), "{bob:1}");
}

#[test]
fn a_caller_that_is_unblocked_gets_the_reply_of_a_timeout_or_an_error() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ONCE k ann 600000");
    for how in ["TIMEOUT", "ERROR"] {
        let mut bob = server.client();
        let id = bob.say("CLIENT ID").as_int();
        bob.send(&["RLOCK.ONCE", "k", "bob", "600000", "WAIT", "0"]);
        client.until_waiting(1);
        assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} {how}")), Reply::Int(1));
        let reply = bob.receive();
        match how {
            "TIMEOUT" => assert!((1..=600_000).contains(&reply.as_int()), "{reply:?}"),
            _ => assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}"),
        }
        assert_eq!(client.figure("waiters"), 0);
        assert_eq!(bob.say("PING"), text("PONG"), "{how}: one reply");
    }
    assert_eq!(client.say(KEPT), Reply::Int(1));
}

/// The unblock is in one transaction with the answer, before it or after it.
#[test]
fn a_caller_that_is_unblocked_right_at_the_answer_gets_one_reply() {
    let (server, mut client) = Server::with_client();
    for (number, unblock_first) in (0..40).map(|number| (number, number % 2 == 0)) {
        client.say("RLOCK.ONCE k ann 600000");
        let mut bob = server.client();
        let id = bob.say("CLIENT ID").as_int();
        bob.send(&["RLOCK.ONCE", "k", "bob", "600000", "WAIT", "0"]);
        client.until_waiting(1);
        let unblock = format!("CLIENT UNBLOCK {id} TIMEOUT");
        let mut commands = [KEPT, &unblock];
        if unblock_first {
            commands.swap(0, 1);
        }
        client.transaction(commands);
        // A server that loses the reply closes the connection.
        let reply = bob.try_receive();
        let is_one = match &reply {
            None => !unblock_first,
            Some(Reply::Int(0..)) => true,
            Some(Reply::Error(line)) => line.starts_with("UNBLOCKED"),
            Some(reply) => *reply == text("42"),
        };
        assert!(is_one, "{number}: {reply:?}");
        assert!(reply.is_none() || bob.say("PING") == text("PONG"), "{number}: one reply");
        assert_eq!(client.figures(["waiters", "revocations_due"]), [0; 2], "{number}");
        client.say("FLUSHALL");
    }
}

#[test]
fn a_session_that_comes_back_learns_of_the_answer() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ONCE k ann 600000");
    ann.wait_for("RLOCK.ONCE k ann1 600000 WAIT 0", "1");
    ann.wait_for("RLOCK.ONCE k ann2 600000 WAIT 0", "2");
    ann.hang_up(&server);
    assert_eq!(client.say(KEPT), Reply::Int(1));
    wait_until("no ticket waits", || client.figure("tickets") == 0);
    let received: Vec<_> =
        ann.until_fetched(2).into_iter().map(|event| (event.ticket, event.outcome, event.value)).collect();
    assert_eq!(received, ["1", "2"].map(|ticket| (ticket.to_owned(), "answered".to_owned(), Reply::Nil)));
    assert_eq!(ann.ask("RLOCK.ONCE k ann1 600000 WAIT 0", "3"), text("42"), "by a ticket, too, at once");
    assert_eq!(ann.cancel("1 3"), list([Reply::Int(0), Reply::Int(0)]), "no ticket is left");
    client.say("DEL rlock_answer:{k}");
    assert_eq!(ann.ask("RLOCK.ONCE k ann1 600000 WAIT 0", "1"), Reply::Nil, "the answer is gone: it leads");
    assert_eq!(client.fields("k"), "{ann1:1}");
}

/// A ticket names one request, including its command.
#[test]
fn a_ticket_of_once_is_none_of_acquire() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k leader 600000");
    ann.wait_for("RLOCK.ONCE k ann 600000 WAIT 0", "1");
    ann.wait_for("RLOCK.ONCE k ann 600000 WAIT 0", "1");
    let in_use = |ann: &mut Session, command: &str| {
        let reply = ann.ask(command, "1");
        assert!(reply.as_error().starts_with("ERR ticket is in use"), "{command}: {reply:?}");
    };
    in_use(&mut ann, "RLOCK.ACQUIRE k ann 600000 WAIT 0");
    client.say("RLOCK.ANSWER k leader 42 KEEP 600000");
    client.say("DEL rlock_answer:{k}");
    in_use(&mut ann, "RLOCK.ACQUIRE k ann 600000 WAIT 0");
    assert_eq!(ann.until_fetched(1)[0].outcome, "answered");
    assert_eq!(client.figure("events_unacknowledged"), 0);
}

#[test]
fn a_user_that_is_deleted_right_at_the_answer_gets_none() {
    let server = Server::start();
    let mut scene = Scene::at(&server, First::Client);
    for deleted_first in [false, true] {
        scene.say("RLOCK.ONCE k ann 600000");
        let mut bob: Client = server.user("bob", "~* +rlock.once");
        bob.send(&["RLOCK.ONCE", "k", "bob", "600000", "WAIT", "0"]);
        scene.until_waiting(1);
        let mut cid = scene.wait("RLOCK.ONCE k cid 600000 WAIT 0");
        let mut commands = ["ACL DELUSER bob", KEPT];
        if !deleted_first {
            commands.reverse();
        }
        scene.transaction(commands);
        gets(&mut scene, &mut cid, "42");
        assert_eq!(bob.try_receive(), None, "deleted first: {deleted_first}");
        assert_eq!(scene.figures(["waiters", "revocations_due"]), [0; 2]);
        scene.say("FLUSHALL");
    }
}
