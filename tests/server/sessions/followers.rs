//! What replicas and AOF files get of grants to tickets and of what is given back. Of sessions they get nothing.

use rlock_testing::{Client, Reply, Server, Session, Tap, wait_until};

/// Grants of each kind, of which every other one is taken back, on keys of their own.
fn live(client: &mut Client, session: &mut Session) {
    for (number, (take, ask)) in
        [("", ""), ("W", "R"), ("R", "W")].into_iter().flat_map(|sides| [sides, sides]).enumerate()
    {
        let key = format!("k{number}");
        client.say(&format!("RLOCK.{take}ACQUIRE {key} holder 600000"));
        session.wait_for(&format!("RLOCK.{ask}ACQUIRE {key} ann 600000 WAIT 0 FENCED"), &key);
        client.say(&format!("RLOCK.RELEASE {key} holder"));
        if number % 2 == 0 {
            assert_eq!(session.cancel(&key), Reply::Int(1), "{ask}");
        }
    }
}

#[test]
fn a_replica_agrees_after_every_way_back() {
    let (master, replica) = (Server::start(), Server::prepare().without_module().start());
    let (mut ours, mut theirs, mut ann) = (master.client(), replica.client(), Session::open(&master, "ann"));
    replica.follow(&master);
    live(&mut ours, &mut ann);
    for holds in [3, 0] {
        wait_until("what was granted is given back", || ours.say("KEYS k*").as_list().len() == holds);
        let expected = ours.everything();
        wait_until("the replica has it", || theirs.everything() == expected);
        assert_eq!(ours.digest(), theirs.digest());
        if holds > 0 {
            assert_eq!(ann.cancel(""), Reply::Int(3));
        }
    }
}

#[test]
fn an_aof_file_has_the_locks_and_no_session() {
    let server = Server::prepare().append_only_file().start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    live(&mut client, &mut ann);
    let expected = client.everything();
    let name = ann.name.clone();
    let restarted = server.crash().append_only_file().start();
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
    let (server, mut client, mut ann) = Server::with_session();
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
