//! What replicas and AOF files get of grants to waiters.

use super::scene::{First, Outcome, Scene};
use rlock_testing::{Client, Server, wait_until};

#[test]
fn followers_agree_after_every_kind_of_grant() {
    let (master, replica) = (Server::prepare().append_only_file().start(), Server::prepare().without_module().start());
    replica.follow(&master);
    let mut scene = Scene::at(&master, First::Client);
    // The number of grants is odd: in the second round, those to clients are to tickets, and the reverse.
    for round in 0..2 {
        follow(&mut scene, &mut replica.client(), round);
    }
    drop(scene);
    let expected = master.client().everything();
    let restarted = master.crash().append_only_file().without_module().start();
    assert_eq!(restarted.client().everything(), expected);
}

/// Each grant on a key of its own: to a client and to a ticket in turn.
fn follow(scene: &mut Scene, theirs: &mut Client, round: usize) {
    for (number, (take, ask, free)) in [
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "FLUSHALL"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0 FENCED", "RLOCK.RELEASE k ann"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "DEL k"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.ACQUIRE k bob 600000 WAIT 0", "RLOCK.RENEW k ann 30"),
        ("RLOCK.WACQUIRE k ann 600000", "RLOCK.RACQUIRE k bob 600000 WAIT 0 FENCED", "RLOCK.RELEASE k ann"),
        ("RLOCK.RACQUIRE k ann 600000", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "RLOCK.RELEASE k ann"),
        ("RLOCK.RACQUIRE k ann 600000", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "RLOCK.RENEW k ann 30"),
        ("RLOCK.WACQUIRE k ann 600000", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "RLOCK.BREAK k"),
        ("RLOCK.RACQUIRE k ann 600000", "RLOCK.WACQUIRE k bob 600000 WAIT 0", "UNLINK k"),
        ("RLOCK.PACQUIRE k ann 600000 LIMIT 1", "RLOCK.PACQUIRE k bob 700000 LIMIT 1 WAIT 0", "RLOCK.RELEASE k ann"),
        ("RLOCK.ACQUIRE k ann 600000", "RLOCK.MACQUIRE 2 l k bob 600000 WAIT 0", "RLOCK.RELEASE k ann"),
    ]
    .into_iter()
    .enumerate()
    {
        let on = |command: &str| {
            [" k", " l"]
                .iter()
                .fold(command.to_owned(), |line, key| line.replace(key, &format!("{key}{round}-{number}")))
        };
        scene.say(&on(take));
        let mut bob = scene.wait(&on(ask));
        scene.say(&on(free));
        assert!(matches!(bob.outcome(), Outcome::Granted(_)), "{ask} after {free}");
        let expected = scene.everything();
        assert!(!expected.is_empty());
        wait_until("the replica has it", || theirs.everything() == expected);
    }
    // The digest includes expired keys until the master removes them.
    wait_until("they are the same to the last byte", || scene.digest() == theirs.digest());
}
