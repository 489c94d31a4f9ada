//! Malicious input: the server answers, survives, and keeps what it had. `tests/wire` has random input.

use rlock_testing::{Client, PATIENCE, Reply, Server, text, wait_until};

#[test]
fn any_bytes_may_name_a_lock_and_its_holder() {
    let (_server, mut client) = Server::with_client();
    let nasty: [&[u8]; 8] =
        [b"\0", b"a\0b", b"\xff\xfe\xfd", b"%s%n%x%p", b"\r\n$5\r\n", b"", b"{", "\u{1f512}".as_bytes()];
    for key in nasty {
        for holder in nasty.into_iter().filter(|holder| !holder.is_empty()) {
            for name in ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"] {
                let acquire: [&[u8]; 5] = [name.as_bytes(), key, holder, b"600000", b"FENCED"];
                assert_eq!(client.run(&acquire).as_list()[0], Reply::Nil, "{name} {key:?} {holder:?}");
                assert_eq!(client.run(&[&b"RLOCK.RENEW"[..], key, holder, b"600000"]), Reply::Int(1));
                let seen = client.run(&[&b"RLOCK.INSPECT"[..], key]);
                assert!(seen.words().contains(&&*String::from_utf8_lossy(holder)), "{seen:?}");
                assert_eq!(client.run(&[&b"RLOCK.RELEASE"[..], key, holder]), Reply::Int(1));
                assert_eq!(client.run(&acquire).as_list()[0], Reply::Nil);
                assert_eq!(client.run(&[&b"RLOCK.BREAK"[..], key]), Reply::Int(1));
            }
        }
    }
    client.say("FLUSHALL");
    assert_eq!(client.run(&[&b"RLOCK.ACQUIRE"[..], b"a\0b", b"h\0\xff", b"600000"]), Reply::Nil);
    assert_eq!(client.run(&[&b"HGET"[..], b"a\0b", b"h\0\xff"]), text("1"));
    assert_eq!(client.run(&[&b"HEXISTS"[..], b"a\0b", b"h\0"]), Reply::Int(0));
}

#[test]
fn arguments_of_512_mb() {
    let server = Server::start();
    // Moving so much takes its time on a busy machine.
    let mut client = Client::connect_for(&server.socket(), 6 * PATIENCE).unwrap();
    let huge = vec![b'x'; 512 * 1024 * 1024];
    let reply = client.run(&[&b"RLOCK.ACQUIRE"[..], b"k", &huge, b"1000"]);
    assert!(reply.as_error().starts_with("ERR holder must be"), "{reply:?}");
    let reply = client.run(&[&b"RLOCK.ACQUIRE"[..], b"k", b"h", &huge]);
    assert!(reply.as_error().starts_with("ERR lease must be"), "{reply:?}");
    assert_eq!(client.keys(), [""; 0]);
    // A name may be as long as any key's.
    assert_eq!(client.run(&[&b"RLOCK.RACQUIRE"[..], &huge, b"h", b"600000"]), Reply::Nil);
    assert_eq!(client.run(&[&b"RLOCK.BREAK"[..], &huge]), Reply::Int(1));
    assert_eq!(client.say("DBSIZE"), Reply::Int(0));
}

#[test]
fn a_key_that_ended_while_writes_are_paused_is_not_written_over() {
    // The server hides such a key but cannot remove it, and aborts if the key is created again.
    let mut server = Server::start();
    let (mut client, mut clock) = (server.client(), server.client());
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    for setup in [
        "RLOCK.ACQUIRE k ann 20",
        "RLOCK.RACQUIRE rw ann 20",
        "SET redisson_lock_token:{t} 5 PX 20",
        "RLOCK.RACQUIRE dead ann 600000",
        "PEXPIRE {dead}:ann:rwlock_timeout:1 20",
        "RLOCK.ACQUIRE held ann 600000",
    ] {
        client.say(setup);
    }
    let commands = [
        "RLOCK.ACQUIRE k bob 600000",
        "RLOCK.WACQUIRE rw bob 600000",
        "RLOCK.RACQUIRE rw bob 600000",
        "RLOCK.ACQUIRE t bob 600000 FENCED",
        "RLOCK.RENEW dead ann 600000",
    ];
    let end = clock.time_ms() + 20;
    wait_until("the leases have ended", || clock.time_ms() > end);
    let others = ["RLOCK.ACQUIRE held ann 600000", "RLOCK.RELEASE held ann"];
    let replies = client.transaction(["CLIENT PAUSE 100000 WRITE"].iter().chain(&commands).chain(&others));
    let [_, refused @ .., again, released] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((again, released), (&Reply::Nil, &Reply::Int(0)), "what creates no key goes on");
    for (command, reply) in commands.iter().zip(refused) {
        assert!(reply.as_error().starts_with("TRYAGAIN"), "{command}: {replies:?}");
    }
    client.say("CLIENT UNPAUSE");
    assert!(server.is_running());
    assert_eq!(client.say(commands[0]), Reply::Nil);
}
