//! What AOF files get of sessions: nothing but the locks that their tickets are granted. Replicas are in waiting/followers.rs.

use rlock_testing::{Reply, Server, Session, Tap, list};

#[test]
fn an_aof_file_has_the_locks_and_no_session() {
    let server = Server::prepare().append_only_file().start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    for (key, (take, ask)) in [("", ""), ("W", "R"), ("R", "W")].into_iter().enumerate() {
        client.say(&format!("RLOCK.{take}ACQUIRE k{key} holder 600000"));
        ann.wait_for(&format!("RLOCK.{ask}ACQUIRE k{key} ann 600000 WAIT 0 FENCED"), &key.to_string());
        client.say(&format!("RLOCK.RELEASE k{key} holder"));
    }
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
    // What was granted stays until its lease ends.
    assert_eq!(client.say(&format!("RLOCK.EVENTS {name}")).events(), []);
    assert_eq!(client.everything(), expected);
}

#[test]
fn what_changes_no_lock_is_not_replicated() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    let mut tap = Tap::on(&server);
    for ticket in ["1", "2"] {
        for _ in 0..2 {
            ann.wait_for(&format!("RLOCK.ACQUIRE k ann{ticket} 600000 WAIT 0"), ticket);
        }
    }
    ann.wait_for("RLOCK.ACQUIRE k ann2 600000 WAIT 0", "3");
    ann.wait_for("RLOCK.ACQUIRE k ann4 600000 WAIT 1", "4");
    let outcomes: Vec<_> = ann.until_fetched(2).into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, ["error", "timeout"], "that of the place that was taken, and that of the time that is up");
    assert_eq!(ann.cancel("1 none"), list([1, 0].map(Reply::Int)));
    assert_eq!(ann.cancel(""), Reply::Int(1));
    assert_eq!(tap.drain(), [""; 0]);
}
