//! RLOCK.CANCEL: after it, no ticket waits and no event comes, and the process knows whether its holder has the lock.

use super::kept;
use rlock_testing::{Client, Event, Reply, Server, Session, Tap, start_waiting, text, wait_until};

const UNKNOWN: i64 = 0;
const WITHDRAWN: i64 = 1;
const GRANTED: i64 = 2;

fn numbers<const N: usize>(numbers: [i64; N]) -> Reply {
    Reply::List(numbers.map(Reply::Int).to_vec())
}

#[test]
fn a_ticket_that_waits_leaves_the_queue() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    for ticket in ["1", "2", "3"] {
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0"), ticket);
    }
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut tap = Tap::on(&server);
    assert_eq!(ann.cancel("2 2 none 1"), numbers([WITHDRAWN, UNKNOWN, UNKNOWN, WITHDRAWN]), "in their order");
    assert_eq!(kept(&mut client), [1, 1, 0, 2]);
    assert_eq!(tap.drain(), [""; 0]);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.fetch(""), [Event::granted(1, "3", None)]);
    client.say("RLOCK.RELEASE k ann3");
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.figure("cancelled"), 2);
    // Its name is free for another wait.
    ann.wait_for("RLOCK.ACQUIRE k other 600000 WAIT 0", "2");
}

/// Whether the event was delivered or not, on any side, of one lock or of several: the event goes, and the holder releases.
#[test]
fn a_grant_stays_with_its_holder() {
    let (server, mut client, mut ann) = Server::with_session();
    for (take, keys, received) in [
        ("RLOCK.ACQUIRE", "k", false),
        ("RLOCK.WACQUIRE", "k", true),
        ("RLOCK.RACQUIRE", "k", false),
        ("RLOCK.MACQUIRE 2", "k l", true),
    ] {
        let holds = if take == "RLOCK.RACQUIRE" { "RLOCK.WACQUIRE" } else { take };
        client.say(&format!("{holds} {keys} holder 600000"));
        ann.wait_for(&format!("{take} {keys} ann 600000 WAIT 0"), "1");
        let mut bob = start_waiting(&server, &format!("{holds} {keys} bob 600000 WAIT 0"));
        keys.split(' ').for_each(|key| _ = client.say(&format!("RLOCK.RELEASE {key} holder")));
        assert!(!received || ann.fetch("").len() == 1, "{take}");
        let mut tap = Tap::on(&server);
        assert_eq!(ann.cancel("1"), numbers([GRANTED]), "{take}");
        assert_eq!(ann.cancel("1"), numbers([UNKNOWN]), "{take}");
        assert_eq!(tap.drain(), [""; 0], "{take}: nothing is written");
        assert_eq!(ann.fetch(""), [], "{take}");
        ann.reconnect(&server);
        assert_eq!(ann.fetch(""), [], "{take}: not on the next connection either");
        assert_eq!(kept(&mut client), [1, 0, 0, 1]);
        keys.split(' ').for_each(|key| assert_eq!(client.say(&format!("RLOCK.RELEASE {key} ann")), Reply::Int(1)));
        assert_eq!(bob.receive(), Reply::Nil, "{take}");
        keys.split(' ').for_each(|key| _ = client.say(&format!("RLOCK.RELEASE {key} bob")));
        assert_eq!(client.keys(), [""; 0], "{take}");
    }
}

/// A ticket without its lock is withdrawn, whatever its event says.
#[test]
fn a_ticket_that_was_not_granted_its_lock_is_withdrawn() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 1", "late");
    ann.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0", "former");
    ann.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0", "later");
    wait_until("its time is up", || client.figure("timeouts") == 1);
    assert_eq!(ann.cancel("late former later"), numbers([WITHDRAWN; 3]));
    assert_eq!((kept(&mut client), ann.fetch("")), ([1, 0, 0, 0], vec![]));
}

#[test]
fn without_tickets_the_session_ends() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    client.say("RLOCK.ACQUIRE l holder 600000");
    ann.wait_for("RLOCK.ACQUIRE l ann 600000 WAIT 0", "granted");
    for ticket in ["1", "2"] {
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0"), ticket);
    }
    client.say("RLOCK.RELEASE l holder");
    assert_eq!(ann.cancel(""), Reply::Int(2), "those that waited");
    assert_eq!(kept(&mut client), [0, 0, 0, 0]);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!((client.keys(), client.fields("l")), (vec!["l".to_owned()], "{ann:1}".to_owned()));
    assert!(ann.cancel("").as_error().starts_with("NOSESSION "));
    // One of the same name is another session.
    let mut ann = Session::open(&server, "ann");
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.fetch(""), [Event::granted(1, "1", None)], "its numbers restart");
}

/// If the names are too many for one turn of the server, the client is blocked; where it cannot be, they are refused.
#[test]
fn very_many_tickets_are_taken_back_in_one_command() {
    let server = Server::start();
    let (mut client, _ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    let many: Vec<_> = (0..4_000).map(|number| number.to_string()).collect();
    let asks = |many: &[String]| -> Vec<_> {
        let ask = |name| format!("RLOCK.ACQUIRE k ann{name} 600000 WAIT 0 SESSION the-session-of-ann {name}");
        many.iter().map(ask).collect()
    };
    let cancel_of = |names: &[String]| format!("RLOCK.CANCEL the-session-of-ann {}", names.join(" "));
    let cancel = format!("{} none 7 7", cancel_of(&many));
    let all = Reply::List([vec![WITHDRAWN; 4_000], vec![UNKNOWN; 3]].concat().into_iter().map(Reply::Int).collect());
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
                    assert_eq!(run(&mut other, &cancel_of(part)), numbers([WITHDRAWN; 1_000]), "{way}");
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
