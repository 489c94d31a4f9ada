//! What replicas and AOF files get of grants to those who waited.

use super::for_all_waiters;
use super::scene::{Outcome, Scene};
use rlock_testing::{Server, wait_until};

for_all_waiters!(followers_agree_after_every_kind_of_grant);

fn followers_agree_after_every_kind_of_grant(scene: &mut Scene) {
    let (master, replica) = (Server::prepare().append_only_file().start(), Server::prepare().without_module().start());
    replica.follow(&master);
    let (mut scene, mut theirs) = (scene.moved_to(&master), replica.client());
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
    ]
    .into_iter()
    .enumerate()
    {
        // Every case on a key of its own.
        let on = |command: &str| command.replace(" k", &format!(" k{number}"));
        scene.say(&on(take));
        let mut bob = scene.wait(&on(ask));
        scene.say(&on(free));
        assert!(matches!(bob.outcome(), Outcome::Granted(_)), "{ask} after {free}");
        let expected = scene.everything();
        assert!(!expected.is_empty());
        wait_until("the replica has it", || theirs.everything() == expected);
    }
    // Keys whose time is over are in it until the master removes them.
    wait_until("they are the same to the last byte", || scene.digest() == theirs.digest());
    let expected = scene.everything();
    drop(scene);
    let restarted = master.crash().append_only_file().without_module().start();
    assert_eq!(restarted.client().everything(), expected);
}
