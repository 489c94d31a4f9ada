//! What replicas and AOF files get of grants to tickets and of what is given back. Of sessions they get nothing.

use rlock_testing::{Client, Reply, Server, Session, Tap, wait_until};

/// Grants of every kind, and every way back, on keys of their own.
fn live(client: &mut Client, session: &mut Session) {
    for (number, (take, ask, free)) in [
        ("RLOCK.ACQUIRE k holder 600000", "RLOCK.ACQUIRE k ann 600000 WAIT 0 FENCED", "RLOCK.RELEASE k holder"),
        ("RLOCK.ACQUIRE k holder 600000", "RLOCK.ACQUIRE k ann 600000 WAIT 0", "DEL k"),
        ("RLOCK.ACQUIRE k holder 600000", "RLOCK.ACQUIRE k ann 600000 WAIT 0", "RLOCK.RENEW k holder 30"),
        ("RLOCK.WACQUIRE k holder 600000", "RLOCK.RACQUIRE k ann 600000 WAIT 0 FENCED", "RLOCK.RELEASE k holder"),
        ("RLOCK.RACQUIRE k holder 600000", "RLOCK.WACQUIRE k ann 600000 WAIT 0", "RLOCK.RELEASE k holder"),
        ("RLOCK.RACQUIRE k holder 600000", "RLOCK.WACQUIRE k ann 600000 WAIT 0", "RLOCK.RENEW k holder 30"),
        ("RLOCK.WACQUIRE k holder 600000", "RLOCK.WACQUIRE k ann 600000 WAIT 0", "RLOCK.BREAK k"),
    ]
    .into_iter()
    .enumerate()
    {
        for suffix in ["stays", "cancelled"] {
            let key = format!("k{number}:{suffix}");
            let on = |command: &str| {
                let words = command.split(' ').map(|word| if word == "k" { &key } else { word });
                words.collect::<Vec<_>>().join(" ")
            };
            client.say(&on(take));
            session.wait_for(&on(ask), &key);
            client.say(&on(free));
            let granted = |client: &mut Client| client.figure("tickets") == 0;
            wait_until("it is granted", || granted(client));
            if suffix == "cancelled" {
                assert_eq!(session.cancel(&key), Reply::Int(1), "{ask}");
            }
        }
    }
}

#[test]
fn a_replica_agrees_after_every_kind_of_grant_and_every_way_back() {
    let (master, replica) = (Server::start(), Server::prepare().without_module().start());
    let (mut ours, mut theirs, mut ann) = (master.client(), replica.client(), Session::open(&master, "ann"));
    replica.follow(&master);
    live(&mut ours, &mut ann);
    let expected = ours.everything();
    assert!(!expected.is_empty());
    wait_until("the replica has it", || theirs.everything() == expected);
    assert_eq!(ours.digest(), theirs.digest());
    // And after its session has ended.
    assert_ne!(ann.cancel(""), Reply::Int(0));
    wait_until("what was granted is given back", || ours.say("KEYS k*") == Reply::List(vec![]));
    let expected = ours.everything();
    wait_until("the replica has it", || theirs.everything() == expected);
    assert_eq!(ours.digest(), theirs.digest());
}

#[test]
fn an_aof_file_has_the_locks_and_no_session() {
    let aof = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::prepare().options(&aof).start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    live(&mut client, &mut ann);
    let expected = client.everything();
    let name = ann.name.clone();
    let restarted = server.crash().options(&aof).start();
    let mut client = restarted.client();
    assert_eq!(client.everything(), expected);
    assert!(!restarted.aof().contains(&name), "its name is a secret");
    assert_eq!(client.figure("sessions"), 0);
    for command in [
        format!("RLOCK.EVENTS {name} ACK 1"),
        format!("RLOCK.CANCEL {name}"),
        format!("RLOCK.ACQUIRE free ann 600000 WAIT 0 SESSION {name} 1"),
    ] {
        assert!(client.say(&command).as_error().starts_with("NOSESSION "), "{command}");
    }
    // What was granted is its lease's business now.
    assert_eq!(client.say(&format!("RLOCK.EVENTS {name}")).events(), []);
    assert_eq!(client.everything(), expected);
}

#[test]
fn what_changes_no_lock_is_not_replicated() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    let mut tap = Tap::on(&server);
    for ticket in ["1", "2"] {
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", ticket);
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", ticket);
    }
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 1", "3");
    assert_eq!(ann.until_told(1)[0].outcome, "timeout");
    assert_eq!(ann.cancel("1 none"), Reply::Int(1));
    assert_eq!(ann.cancel(""), Reply::Int(1));
    assert_eq!(tap.drain(), [""; 0]);
}
