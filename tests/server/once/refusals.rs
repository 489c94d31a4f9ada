//! Rights, limits and wrong words; and servers that are full, paused or in a grace.

use super::{KEPT, gets};
use crate::grace::{LONG_MS, begin, end};
use crate::waiting::for_all_waiters;
use crate::waiting::scene::Scene;
use rlock_testing::{Client, Reply, Server, Tap, start_waiting, text, wait_until};

for_all_waiters!(
    a_full_server_grants_no_lead,
    a_pause_of_writes_puts_an_answer_off,
    a_grace_grants_no_lead_and_returns_answers,
);

/// Rights to the commands and to the lock's key are enough. Other commands still need a right to the answer's key.
#[test]
fn a_user_needs_a_right_to_the_locks_key_only() {
    let server = Server::start();
    let mut client = server.client();
    let rights = "~app:* +rlock.once +rlock.answer +get";
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| server.user(name, rights));
    assert_eq!(ann.say("RLOCK.ONCE app:k ann 600000"), Reply::Nil);
    bob.send(&["RLOCK.ONCE", "app:k", "bob", "600000", "WAIT", "0"]);
    client.until_waiting(1);
    assert_eq!(ann.say("RLOCK.ANSWER app:k ann 42 KEEP 600000"), Reply::Int(1));
    assert_eq!((bob.receive(), ann.say("RLOCK.ONCE app:k ann 600000")), (text("42"), text("42")));
    let mut is_refused = |user: &mut Client, command: &str| {
        let reply = user.say(command);
        assert!(reply.as_error().starts_with("NOPERM"), "{command}: {reply:?}");
        assert_eq!(client.say("RLOCK.INSPECT other:k").words()[..2], ["kind", "none"], "{command}");
    };
    is_refused(&mut ann, "GET rlock_answer:{app:k}");
    is_refused(&mut ann, "RLOCK.ONCE other:k ann 600000");
    is_refused(&mut ann, "RLOCK.ANSWER other:k ann 42 KEEP 600000");
    let by_half = "%R~app:* +rlock.once +rlock.answer";
    let mut reader = server.user("reader", by_half);
    is_refused(&mut reader, "RLOCK.ONCE app:k reader 600000");
    is_refused(&mut reader, "RLOCK.ANSWER app:k ann 42 KEEP 600000");
    let mut other = server.user("other", "~* +rlock.acquire");
    is_refused(&mut other, "RLOCK.ONCE other:k ann 600000");
    is_refused(&mut other, "RLOCK.ANSWER other:k ann 42 KEEP 600000");
}

#[test]
fn a_wrong_request_is_refused_and_changes_nothing() {
    let (server, mut client) = Server::with_client();
    client.say_all([
        "RLOCK.ONCE k ann 600000",
        "RLOCK.RACQUIRE rw ann 600000",
        "SET text 1",
        "RLOCK.ONCE h ann 600000",
    ]);
    client.say_all(["RLOCK.PACQUIRE p ann 600000 LIMIT 1", "HSET rlock_answer:{h} f v", "HSET rlock_answer:{i} f v"]);
    let mut tap = Tap::on(&server);
    let before = client.digest();
    for (command, error) in [
        ("RLOCK.ONCE k", "ERR wrong number of arguments"),
        ("RLOCK.ONCE k ann", "ERR wrong number of arguments"),
        ("RLOCK.ONCE k ann 0", "ERR lease must be"),
        ("RLOCK.ONCE k mode 1000", "ERR holder must be"),
        ("RLOCK.ONCE k ann 1000 FENCED", "ERR option unknown"),
        ("RLOCK.ONCE k ann 1000 KEEP 5", "ERR option unknown"),
        ("RLOCK.ONCE k bob 1000 WAIT -1", "ERR WAIT must be"),
        ("RLOCK.ONCE k bob 1000 WAIT 0 MAX 0", "ERR MAX must be"),
        ("RLOCK.ONCE k bob 1000 WAIT 0 SESSION the-session-of-nobody 1", "NOSESSION"),
        ("RLOCK.ONCE rw ann 1000", "WRONGKIND key is a read-write lock"),
        ("RLOCK.ONCE p ann 1000", "WRONGKIND key holds permits"),
        ("RLOCK.ONCE text ann 1000", "WRONGTYPE"),
        ("RLOCK.ONCE h ann 1000", "WRONGTYPE"),
        ("RLOCK.ONCE i ann 1000 WAIT 0", "WRONGTYPE"),
        ("RLOCK.ANSWER k ann 42", "ERR wrong number of arguments"),
        ("RLOCK.ANSWER k ann KEEP 5", "ERR wrong number of arguments"),
        ("RLOCK.ANSWER k ann 42 KEEP", "ERR wrong number of arguments"),
        ("RLOCK.ANSWER k ann 42 KEEP 0", "ERR KEEP must be"),
        ("RLOCK.ANSWER k ann 42 KEEP -1", "ERR KEEP must be"),
        ("RLOCK.ANSWER k ann 42 KEEP 9223372036854775807", "ERR KEEP must be"),
        ("RLOCK.ANSWER k ann 42 KEEP 5 KEEP 5", "ERR wrong number of arguments"),
        ("RLOCK.ANSWER k ann 42 WAIT 5", "ERR option unknown"),
        ("RLOCK.ANSWER k mode 42 KEEP 5", "ERR holder must be"),
        ("RLOCK.ANSWER rw ann 42 KEEP 5", "WRONGKIND key is a read-write lock"),
        ("RLOCK.ANSWER p ann 42 KEEP 5", "WRONGKIND key holds permits"),
        ("RLOCK.ANSWER text ann 42 KEEP 5", "WRONGTYPE"),
        ("RLOCK.ANSWER h ann 42 KEEP 5", "WRONGTYPE"),
    ] {
        let reply = client.say(command);
        assert!(reply.as_error().starts_with(error), "{command}: {reply:?}");
    }
    assert_eq!((tap.drain(), client.digest()), (vec![], before));
    assert_eq!(client.say("rlock.answer k ann 42 keep 5000"), Reply::Int(1), "in any case of letters");
}

#[test]
fn an_answer_may_be_as_long_as_the_setting_says_from_now_on() {
    const DEFAULT: usize = 64 * 1024;
    const MOST: usize = 8 * 1024 * 1024;
    let (server, mut client) = Server::with_client();
    let answer = |client: &mut Client, length: usize| {
        client.run(&[&b"RLOCK.ANSWER"[..], b"k", b"ann", &vec![0xff; length], b"KEEP", b"600000"])
    };
    for (setting, longest) in [(None, DEFAULT), (Some(MOST), MOST), (Some(0), 0), (Some(1), 1), (Some(100), 100)] {
        if let Some(setting) = setting {
            assert_eq!(client.say(&format!("CONFIG SET rlock.max-answer {setting}")), text("OK"));
        }
        assert_eq!(client.say("RLOCK.ONCE k ann 600000"), Reply::Nil);
        let mut tap = Tap::on(&server);
        let refused = answer(&mut client, longest + 1);
        assert!(refused.as_error().starts_with("ERR value is longer than rlock.max-answer"), "{longest}: {refused:?}");
        assert_eq!((tap.drain(), client.keys()), (vec![], vec!["k".to_owned()]), "{longest}");
        drop(tap);
        let mut bob = start_waiting(&server, "RLOCK.ONCE k bob 600000 WAIT 0");
        assert_eq!(answer(&mut client, longest), Reply::Int(1), "{longest}");
        let is_whole = |reply: &Reply| reply.as_text().chars().count() == longest;
        assert!(is_whole(&bob.receive()) && is_whole(&client.say("RLOCK.ONCE k eva 600000")), "{longest}");
        assert_eq!(client.say("STRLEN rlock_answer:{k}"), Reply::Int(i64::try_from(longest).unwrap()));
        client.say("DEL rlock_answer:{k}");
    }
    for value in ["-1", "8388609", "many"] {
        assert!(matches!(client.say(&format!("CONFIG SET rlock.max-answer {value}")), Reply::Error(_)), "{value}");
    }
    // The setting does not limit what is stored already.
    client.run(&["SET", "rlock_answer:{k}", &"x".repeat(1_000)]);
    assert_eq!(client.say("RLOCK.ONCE k bob 600000"), text(&"x".repeat(1_000)));
}

fn a_full_server_grants_no_lead(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    let mut cid = scene.wait("RLOCK.ONCE k cid 600000 WAIT 0");
    scene.say("SET rlock_answer:{other} 42");
    scene.say("CONFIG SET maxmemory 1");
    for command in [KEPT, "RLOCK.ONCE k ann 600000", "RLOCK.ONCE other ann 600000", "RLOCK.ONCE l ann 600000 WAIT 0"] {
        assert!(scene.say(command).as_error().starts_with("OOM"), "{command}");
    }
    assert_eq!(scene.say("RLOCK.RENEW k ann 600000"), Reply::Int(1), "the leader can go on");
    assert_eq!(scene.say("RLOCK.RELEASE k ann"), Reply::Int(1), "and give up");
    assert_eq!((scene.figure("waiters"), scene.expiry("k")), (2, -2), "no caller is granted the lead");
    scene.say("CONFIG SET maxmemory 0");
    bob.is_granted();
    assert_eq!(scene.say("RLOCK.ANSWER k bob 42 KEEP 600000"), Reply::Int(1));
    gets(scene, &mut cid, "42");
}

fn a_pause_of_writes_puts_an_answer_off(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
    let replies = scene.transaction(["CLIENT PAUSE 600000 WRITE", KEPT, "RLOCK.ONCE k cid 600000"]);
    assert!(replies[1].as_error().starts_with("TRYAGAIN writes are paused"), "{replies:?}");
    assert!((1..=600_000).contains(&replies[2].as_int()), "nothing has changed: {replies:?}");
    let mut leader = scene.server.client();
    let id = leader.say("CLIENT ID").as_int();
    leader.send(&KEPT.split(' ').collect::<Vec<_>>());
    wait_until("the server puts it off", || scene.say(&format!("CLIENT LIST ID {id}")).as_text().contains(" flags=b"));
    assert_eq!((scene.figure("waiters"), scene.keys()), (1, vec!["k".to_owned()]));
    scene.say("CLIENT UNPAUSE");
    assert_eq!(leader.receive(), Reply::Int(1));
    gets(scene, &mut bob, "42");
}

fn a_grace_grants_no_lead_and_returns_answers(scene: &mut Scene) {
    scene.say("RLOCK.ONCE k ann 600000");
    begin(scene, LONG_MS);
    let mut bob = scene.wait("RLOCK.ONCE k bob 600 WAIT 0");
    assert!((1..=LONG_MS).contains(&scene.say("RLOCK.ONCE free cid 600").as_int()));
    let mut cid = scene.wait("RLOCK.ONCE free cid 600 WAIT 0");
    assert_eq!(scene.say(KEPT), Reply::Int(1));
    gets(scene, &mut bob, "42");
    assert_eq!(scene.ask("RLOCK.ONCE k eva 600 WAIT 0"), text("42"));
    assert_eq!(scene.expiry("free"), -2);
    end(scene);
    cid.is_granted();
}
