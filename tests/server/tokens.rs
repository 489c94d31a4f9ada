//! Fencing tokens: one counter a lock, which grows at each fenced grant of any kind and never goes back. By default no token
//! is below the time, so tokens grow on even if the counter is gone.

use rlock_testing::{Client, Event, Reply, Server, Session, Tap, list, start_waiting, text, wait_until};

fn granted(token: i64) -> Reply {
    list([Reply::Nil, Reply::Int(token)])
}

fn counter(client: &mut Client) -> i64 {
    client.say("GET redisson_lock_token:{k}").as_text().parse().expect("a number")
}

/// The counter does not exist before, and the server must not be asked about it as about a key that exists.
#[test]
fn the_first_token_may_be_that_of_a_grant_of_any_kind() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), Session::open(&server, "session"));
    for (number, free) in (1..).zip(["RLOCK.RELEASE k holder", "RLOCK.BREAK k", "DEL k", "PEXPIRE k 20"]) {
        client.say("RLOCK.ACQUIRE k holder 600000");
        let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k waiter 600000 WAIT 0 FENCED");
        client.say(free);
        let given = waiter.receive().token();
        assert_eq!(given, counter(&mut client), "{free}: to a client that is blocked");
        client.say("DEL k redisson_lock_token:{k}");
        client.say("RLOCK.ACQUIRE k holder 600000");
        session.wait_for("RLOCK.ACQUIRE k waiter 600000 WAIT 0 FENCED", "ticket");
        client.say(free);
        let received = session.until_fetched(1);
        let next = counter(&mut client);
        assert_eq!(received, [Event::granted(number, "ticket", Some(next))], "{free}: to a ticket");
        assert!(given < next, "{free}: {next} after {given}");
        client.say("DEL k redisson_lock_token:{k}");
    }
}

/// RLOCK goes on from what Redisson counts with INCR; an expiry stays.
#[test]
fn a_counter_goes_on_from_what_is_there() {
    let server = Server::prepare().counted_tokens().start();
    let mut client = server.client();
    for (before, token) in [(41, 42), (-3, -2)] {
        client.say(&format!("SET redisson_lock_token:{{k}} {before} PXAT 9999999999999"));
        assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(token));
        assert_eq!(client.say("INCR redisson_lock_token:{k}"), Reply::Int(token + 1));
        assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED"), granted(token + 2));
        assert_eq!(client.expiry("redisson_lock_token:{k}"), 9_999_999_999_999);
    }
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

/// The largest number that is exact where numbers are floating point.
const EXACT_MAX: i64 = (1 << 53) - 1;

fn token(client: &mut Client) -> i64 {
    client.say("RLOCK.ACQUIRE k ann 600000 FENCED").token()
}

fn time_us(client: &mut Client) -> i64 {
    let time = client.say("TIME");
    let part = |index: usize| time.as_list()[index].as_text().parse::<i64>().expect("a number");
    part(0) * 1_000_000 + part(1)
}

#[test]
fn by_default_a_token_is_the_time() {
    let (_server, mut client) = Server::with_client();
    for acquire in ["RLOCK.ACQUIRE plain ann", "RLOCK.RACQUIRE read ann", "RLOCK.WACQUIRE write ann"] {
        let before = time_us(&mut client);
        let token = client.say(&format!("{acquire} 600000 FENCED")).as_list()[1].as_int();
        assert!((before..=time_us(&mut client)).contains(&token) && token < EXACT_MAX, "{acquire}: {token}");
        let again = client.say(&format!("{acquire} 600000 FENCED")).as_list()[1].as_int();
        assert!(token < again, "{acquire}: {again} after {token}");
    }
}

#[test]
fn tokens_grow_on_though_the_counter_is_gone() {
    let (_server, mut client) = Server::with_client();
    let mut last = 0;
    for loss in
        ["DEL redisson_lock_token:{k}", "FLUSHALL", "SET redisson_lock_token:{k} 7", "RENAME redisson_lock_token:{k} x"]
    {
        for _ in 0..20 {
            // Sent together, so that the grants come as close as possible: two cannot fall into one µs.
            let acquire = ["RLOCK.ACQUIRE", "k", "ann", "600000", "FENCED"];
            client.send(&acquire);
            client.send(&loss.split(' ').collect::<Vec<_>>());
            client.send(&acquire);
            let [first, _, second] = [(); 3].map(|()| client.receive());
            let [first, second] = [first, second].map(|reply| reply.as_list()[1].as_int());
            assert!(last < first && first < second, "{loss}: {last}, {first}, {second}");
            last = second;
        }
    }
}

#[test]
fn tokens_grow_on_over_a_restart_without_a_data_set_and_a_failover() {
    let (server, mut client) = Server::with_client();
    let before = token(&mut client);
    let server = server.crash().start();
    let mut client = server.client();
    let after = token(&mut client);
    assert!(before < after, "{after} after {before}");
    let replica = Server::start();
    let mut theirs = replica.client();
    // The replica has received nothing.
    theirs.say(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    theirs.say("REPLICAOF NO ONE");
    theirs.say("FLUSHALL");
    let promoted = token(&mut theirs);
    assert!(after < promoted, "{promoted} after {after}");
}

/// As on a server after its clock was set back.
#[test]
fn a_counter_ahead_of_the_time_goes_on_by_one() {
    let (_server, mut client) = Server::with_client();
    for ahead in [EXACT_MAX - 1, i64::MAX - 2] {
        client.say(&format!("SET redisson_lock_token:{{k}} {ahead}"));
        assert_eq!((token(&mut client), token(&mut client)), (ahead + 1, ahead + 2));
    }
    assert!(client.say("RLOCK.ACQUIRE k ann 600000 FENCED").as_error().starts_with("ERR fencing counter"));
}

#[test]
fn followers_get_the_token_itself() {
    let (server, mut client) = Server::with_client();
    let mut tap = Tap::on(&server);
    client.say("SET redisson_lock_token:{k} 7 PXAT 9999999999999");
    tap.drain();
    let first = token(&mut client);
    assert_eq!(tap.drain()[2], format!("SET redisson_lock_token:{{k}} {first} KEEPTTL"));
    assert_eq!(client.expiry("redisson_lock_token:{k}"), 9_999_999_999_999);
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED");
    client.say("RLOCK.RELEASE k ann");
    let second = waiter.receive().as_list()[1].as_int();
    assert!(first < second);
    assert_eq!(tap.drain()[2], format!("SET redisson_lock_token:{{k}} {second} KEEPTTL"));
    let replica = Server::start();
    let mut theirs = replica.client();
    theirs.say(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    let third = client.say("RLOCK.ACQUIRE k bob 600000 FENCED").as_list()[1].as_int();
    wait_until("the replica has the token", || {
        theirs.say("GET redisson_lock_token:{k}") == Reply::Text(third.to_string())
    });
}

#[test]
fn a_setting_has_them_counted_as_redisson_does() {
    let (server, mut client) = Server::with_client();
    assert_eq!(client.say("CONFIG GET rlock.tokens"), list([text("rlock.tokens"), text("clock")]));
    client.say("CONFIG SET rlock.tokens count");
    assert_eq!(token(&mut client), 1);
    let mut tap = Tap::on(&server);
    assert_eq!(token(&mut client), 2);
    assert_eq!(tap.drain()[3], "INCR redisson_lock_token:{k}");
    client.say("CONFIG SET rlock.tokens clock");
    assert!(token(&mut client) > 1_000_000_000_000_000);
    assert!(client.say("CONFIG SET rlock.tokens time").as_error().starts_with("ERR"));
}
