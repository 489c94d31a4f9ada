//! Fencing tokens: one counter a lock, which grows at each fenced grant of any kind and never goes back.

use rlock_testing::{Event, Reply, Server, Session, Tap, list, start_waiting};

fn granted(token: i64) -> Reply {
    list([Reply::Nil, Reply::Int(token)])
}

#[test]
fn every_fenced_grant_counts_whatever_its_kind() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(1));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(2));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil, "an unfenced grant does not count");
    client.say("RLOCK.RELEASE k ann ALL");
    assert_eq!(client.say("RLOCK.RACQUIRE k ann 600000 FENCED"), granted(3));
    assert_eq!(client.say("RLOCK.RACQUIRE k bob 600000 FENCED"), granted(4));
    client.say("RLOCK.RELEASE k ann");
    client.say("RLOCK.RELEASE k bob");
    assert_eq!(client.say("RLOCK.WACQUIRE k ann 600000 FENCED"), granted(5));
    assert_eq!(client.say("RLOCK.WACQUIRE k ann 600000 FENCED"), granted(6));
    assert_eq!(client.say("RLOCK.RACQUIRE k ann 600000 FENCED"), granted(7));
}

/// The counter is not there before, and the server is not to be asked of it as of a key that is.
#[test]
fn the_first_token_may_be_that_of_a_grant_of_any_kind() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), Session::open(&server, "session"));
    for (number, free) in (1..).zip(["RLOCK.RELEASE k holder", "RLOCK.BREAK k", "DEL k", "PEXPIRE k 20"]) {
        client.say("RLOCK.ACQUIRE k holder 600000");
        let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k waiter 600000 WAIT 0 FENCED");
        client.say(free);
        assert_eq!(waiter.receive(), granted(1), "{free}: to a client that is blocked");
        client.say("DEL k redisson_lock_token:{k}");
        client.say("RLOCK.ACQUIRE k holder 600000");
        session.wait_for("RLOCK.ACQUIRE k waiter 600000 WAIT 0 FENCED", "ticket");
        client.say(free);
        let told = session.until_told(1);
        assert_eq!(told, [Event::granted(number, "ticket", Some(1))], "{free}: to a ticket");
        client.say("DEL k redisson_lock_token:{k}");
    }
}

#[test]
fn a_refusal_does_not_count() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000 FENCED");
    client.say("PERSIST k");
    assert_eq!(client.say("RLOCK.ACQUIRE k bob 600000 FENCED"), list([Reply::Int(-1), Reply::Nil]));
    assert_eq!(client.say("GET redisson_lock_token:{k}"), Reply::Text("1".into()));
}

#[test]
fn the_counter_goes_on_from_redissons() {
    let (_server, mut client) = Server::with_client();
    for _ in 0..41 {
        client.say("INCR redisson_lock_token:{k}");
    }
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(42));
    assert_eq!(client.say("INCR redisson_lock_token:{k}"), Reply::Int(43));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(44));
}

#[test]
fn a_counter_with_an_expiry_keeps_it_as_incr_does() {
    let (_server, mut client) = Server::with_client();
    client.say("SET redisson_lock_token:{k} 7 PXAT 9999999999999");
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(8));
    assert_eq!(client.expiry("redisson_lock_token:{k}"), 9_999_999_999_999);
}

#[test]
fn a_counter_that_cannot_count_refuses_the_grant_whole() {
    let (server, mut client) = Server::with_client();
    let mut tap = Tap::on(&server);
    for value in ["9223372036854775807", "many", "1.5", "007", "-"] {
        client.run(&["SET", "redisson_lock_token:{k}", value]);
        tap.drain();
        for name in ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"] {
            let reply = client.run(&[name, "k", "ann", "600000", "FENCED"]);
            assert!(reply.as_error().starts_with("ERR fencing counter"), "{value}: {reply:?}");
            assert_eq!(client.keys(), ["redisson_lock_token:{k}"], "{value}");
        }
        assert_eq!(tap.drain(), [""; 0]);
    }
    client.say("DEL redisson_lock_token:{k}");
    client.say("RPUSH redisson_lock_token:{k} a");
    assert!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED").as_error().starts_with("ERR fencing counter"));
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil, "without a token it does not matter");
}

#[test]
fn a_counter_from_below_zero_counts_upwards() {
    let (_server, mut client) = Server::with_client();
    client.say("SET redisson_lock_token:{k} -3");
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(-2));
}
