//! RLOCK.CANCEL: after it, nothing of a ticket is held, queued or told.

use super::kept;
use rlock_testing::{Client, Event, Reply, Server, Session, Tap, start_waiting, text, wait_until};

#[test]
fn a_ticket_that_waits_leaves_the_queue() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    for ticket in ["1", "2", "3"] {
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0"), ticket);
    }
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut tap = Tap::on(&server);
    assert_eq!(ann.cancel("2 2 none 1"), Reply::Int(2), "those that were found, each once");
    assert_eq!(kept(&mut client), [1, 1, 0, 2]);
    assert_eq!(tap.drain(), [""; 0]);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.told(""), [Event::granted(1, "3", None)]);
    client.say("RLOCK.RELEASE k ann3");
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.figure("cancelled"), 2);
    // Its name is free for another wait.
    ann.wait_for("RLOCK.ACQUIRE k other 600000 WAIT 0", "2");
}

#[test]
fn a_grant_that_nobody_knows_of_is_given_back_to_the_next() {
    let (server, mut client, mut ann) = Server::with_session();
    for (take, told) in [("RLOCK.ACQUIRE", false), ("RLOCK.WACQUIRE", true), ("RLOCK.RACQUIRE", false)] {
        let holds = if take == "RLOCK.RACQUIRE" { "RLOCK.WACQUIRE" } else { take };
        client.say(&format!("{holds} k holder 600000"));
        ann.wait_for(&format!("{take} k ann 600000 WAIT 0"), "1");
        let mut bob = start_waiting(&server, &format!("{holds} k bob 600000 WAIT 0"));
        client.say("RLOCK.RELEASE k holder");
        assert!(!told || ann.told("").len() == 1);
        assert_eq!(ann.cancel("1"), Reply::Int(1), "{take}");
        assert_eq!(bob.receive(), Reply::Nil, "{take}");
        assert_eq!(ann.told(""), [], "{take}");
        ann.reconnect(&server);
        assert_eq!(ann.told(""), [], "{take}: not on the next connection either");
        assert_eq!(kept(&mut client), [1, 0, 0, 0]);
        client.say("RLOCK.RELEASE k bob");
        assert_eq!(client.keys(), [""; 0], "{take}");
    }
}

/// Only the last of a holder's read holds is told apart: so they are given back from the last to the first, in whatever
/// order they are named.
#[test]
fn all_read_holds_of_one_holder_are_given_back() {
    let (_server, mut client, mut ann) = Server::with_session();
    for named in ["1 2 3", "3 1 2"] {
        client.say("RLOCK.WACQUIRE k holder 600000");
        for (ticket, lease) in [("1", 600_000), ("2", 500_000), ("3", 550_000)] {
            ann.wait_for(&format!("RLOCK.RACQUIRE k ann {lease} WAIT 0"), ticket);
        }
        client.say("RLOCK.RELEASE k holder");
        assert_eq!(ann.cancel(named), Reply::Int(3));
        assert_eq!((client.keys(), kept(&mut client)), (vec![], [1, 0, 0, 0]), "{named}");
    }
}

#[test]
fn without_tickets_the_session_ends() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE l ann 600000 WAIT 0", "granted");
    for ticket in ["1", "2"] {
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", ticket);
    }
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    client.say("RLOCK.RELEASE l holder");
    assert_eq!(ann.cancel(""), Reply::Int(3), "those that wait, and the one that was not acknowledged");
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(kept(&mut client), [0, 0, 0, 0]);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.keys(), ["l"]);
    assert!(ann.cancel("").as_error().starts_with("NOSESSION "));
    // One of the same name is another session.
    let mut ann = Session::open(&server, "ann");
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.told(""), [Event::granted(1, "1", None)], "its numbers begin anew");
}

/// With more names than one turn of the server has time for the client is blocked; where it cannot be, they are refused.
#[test]
fn very_many_tickets_are_taken_back_in_one_command() {
    let server = Server::start();
    let (mut client, _ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    let many: Vec<_> = (0..4_000).map(|number| number.to_string()).collect();
    let asks = |many: &[String]| -> Vec<_> {
        many.iter().map(|name| format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION the-session-of-ann {name}")).collect()
    };
    let cancel_of = |names: &[String]| format!("RLOCK.CANCEL the-session-of-ann {}", names.join(" "));
    let cancel = format!("{} none 7 7", cancel_of(&many));
    let all = Reply::Int(4_000);
    let words: Vec<_> = cancel.split(' ').collect();
    let in_transaction = |client: &mut Client, cancel: &str| client.transaction([cancel])[0].clone();
    let in_script = |client: &mut Client, cancel: &str| {
        client.run(
            &["EVAL", "return redis.call(unpack(ARGV))", "0"].into_iter().chain(cancel.split(' ')).collect::<Vec<_>>(),
        )
    };
    for way in ["alone", "transaction", "script", "TIMEOUT", "ERROR", "gone"] {
        assert!(client.say_all(asks(&many)).iter().all(|reply| *reply == text("WAITING")), "{way}");
        let mut other = server.client();
        let id = other.say("CLIENT ID").as_int();
        match way {
            "alone" => assert_eq!(other.say(&cancel), all),
            "transaction" | "script" => {
                let run = if way == "script" { in_script } else { in_transaction };
                let refused = run(&mut other, &cancel_of(&many[..1_001]));
                assert!(refused.as_error().starts_with("ERR too many tickets"), "{way}: {refused:?}");
                assert_eq!(client.figure("tickets"), 4_000, "{way}: none of them is taken back");
                for part in many.chunks(1_000) {
                    assert_eq!(run(&mut other, &cancel_of(part)), Reply::Int(1_000), "{way}");
                }
            }
            "gone" => {
                other.send(&words);
                wait_until("it has begun", || client.figure("tickets") < 4_000);
            }
            _ => {
                other.send(&words);
                wait_until("it has begun", || client.figure("tickets") < 4_000);
                let is_unblocked = client.say(&format!("CLIENT UNBLOCK {id} {way}")) == Reply::Int(1);
                let reply = other.receive();
                assert!(
                    reply == all && !is_unblocked || reply.as_error().starts_with("UNBLOCKED "),
                    "{way}: {reply:?}"
                );
                assert!(other.is_served(), "{way}");
            }
        }
        drop(other);
        wait_until("all are taken back", || client.figure("tickets") == 0);
        assert_eq!(kept(&mut client), [1, 0, 0, 0], "{way}");
    }
}

#[test]
fn what_is_given_back_is_replicated_as_a_release() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    let mut tap = Tap::on(&server);
    assert_eq!(ann.cancel("1"), Reply::Int(1));
    assert_eq!(tap.drain(), ["MULTI", "DEL k", "PUBLISH redisson_lock__channel:{k} 0", "EXEC"]);
}

/// The lock goes with its database, and so does the hold; who asks for the lock of that name next asks in another one.
#[test]
fn what_was_granted_is_given_back_wherever_its_database_is_now() {
    let (server, mut client) = Server::with_client();
    for ends in ["1", ""] {
        let mut ann = Session::open(&server, "ann");
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
        client.say("RLOCK.RELEASE k holder");
        for swap in ["SWAPDB 0 7", "SWAPDB 7 3", "SWAPDB 0 3", "SWAPDB 0 5"] {
            client.say(swap);
        }
        // One of the same name and holder, in the database that has the number now.
        client.say("RLOCK.ACQUIRE k ann 600000");
        assert_eq!(ann.cancel(ends), Reply::Int(1));
        assert_eq!(client.fields("k"), "{ann:1}", "another lock than the one that was granted");
        wait_until("the hold is given back", || {
            client.say("SELECT 5");
            let is_gone = client.keys().is_empty();
            client.say("SELECT 0");
            is_gone
        });
        client.say("FLUSHALL");
    }
}
