//! The questions by themselves, on real servers. What becomes of the answers, the tests of the commands show.

use super::scan::Step;
use super::*;
use rlock_client::{Kind, Locks};
use rlock_testing::{Client, Cluster, Server};
use std::time::Duration;

async fn locks_on(server: &Server) -> Locks {
    Locks::connect(format!("redis+unix://{}", server.socket().display())).await.unwrap()
}

fn take(client: &mut Client, keys: &[&str]) {
    for key in keys {
        client.run(&["RLOCK.ACQUIRE", key, "somebody", "600000"]);
    }
}

async fn queued(locks: &Locks, count: usize) -> Vec<Vec<u8>> {
    let queues = queues(&locks.masters().await.unwrap(), count).await.unwrap();
    queues.into_iter().map(|queue| queue.key).collect()
}

async fn all_held(locks: &Locks, pattern: &str, limit: usize) -> Result<(Vec<Vec<u8>>, bool, usize), Unanswered> {
    let found = held(locks, &locks.masters().await?, pattern.as_bytes(), limit).await?;
    let mut keys: Vec<_> = found.locks.into_keys().collect();
    keys.sort();
    Ok((keys, found.limited, found.hidden))
}

#[tokio::test]
async fn a_read_write_lock_shows_both_sides_of_a_holder() {
    let server = Server::start();
    let (locks, key) = (locks_on(&server).await, b"pri\xffces");
    for command in ["RLOCK.WACQUIRE", "RLOCK.RACQUIRE"] {
        server.client().run(&[command.as_bytes(), key, b"\xfe", b"600000"]);
    }
    let seen = inspect(&locks, key, 10).await.unwrap();
    assert_eq!((seen.kind, seen.holder_count), (Some(Kind::ReadWrite), 2));
    let mut sides: Vec<_> = seen.holders.iter().map(|it| (it.side, it.holder.as_slice(), it.count)).collect();
    sides.sort_by_key(|(side, ..)| *side == HoldSide::Write);
    assert_eq!(sides, [(HoldSide::Read, &b"\xfe"[..], 1), (HoldSide::Write, &b"\xfe"[..], 1)]);
    assert!(seen.holders.iter().all(|it| it.time_left.is_some()), "{seen:?}");
}

/// Each answers for its own.
#[tokio::test]
async fn in_a_cluster_every_master_is_asked() {
    let cluster = Cluster::start();
    let addresses = cluster.masters.iter().map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let locks = Locks::options().connect_to_cluster(addresses).await.unwrap();
    let keys = [0, 1, 2].map(|master| cluster.key_on(master));
    let mut waiting = Vec::new();
    for ((key, node), count) in keys.iter().zip(&cluster.masters).zip([1, 3, 2]) {
        take(&mut node.client(), &[key]);
        for place in 1..=count {
            let mut waiter = node.client();
            waiter.send(&["RLOCK.ACQUIRE", key, &format!("waiter-{place}"), "600000", "WAIT", "0"]);
            node.client().until_waiting(place);
            waiting.push(waiter);
        }
        assert_eq!(inspect(&locks, key.as_bytes(), 10).await.unwrap().waiter_count as i64, count);
    }
    let expected = [1, 2, 0].map(|master: usize| keys[master].clone().into_bytes());
    assert_eq!(queued(&locks, 10).await, expected);
    assert_eq!(queued(&locks, 2).await, expected[..2]);
    let mut expected = keys.clone().map(String::into_bytes);
    expected.sort();
    assert_eq!(all_held(&locks, "*", 10).await.unwrap(), (expected.to_vec(), false, 0));
    let counted = statistics(&locks.masters().await.unwrap()).await.unwrap();
    assert_eq!((counted.len(), counted.iter().filter_map(|it| it.number("waiters")).sum()), (3, 6));
    assert_eq!(counted[0].number("nonsense"), None);
    for key in &keys {
        assert!(break_lock(&locks, key.as_bytes()).await.unwrap());
    }
}

#[tokio::test]
async fn held_locks_are_found_among_all_keys() {
    let server = Server::start();
    let (mut client, locks) = (server.client(), locks_on(&server).await);
    client.say_all((0..2_000).map(|number| format!("SET other:{number} 1")));
    client.say("HSET app:profile name bob");
    take(&mut client, &["app:1", "app:2", "web:1"]);
    let named = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(all_held(&locks, "*", 10).await.unwrap(), (named(&["app:1", "app:2", "web:1"]), false, 0));
    assert_eq!(all_held(&locks, "app:*", 2).await.unwrap(), (named(&["app:1", "app:2"]), false, 0));
    let (few, is_limited, _) = all_held(&locks, "app:*", 1).await.unwrap();
    assert_eq!((few.len(), is_limited), (1, true));
    client.say("ACL SETUSER app on >secret ~app:* +@all");
    let theirs = Locks::connect(format!("redis://app:secret@127.0.0.1:{}", server.port())).await.unwrap();
    let seen = all_held(&theirs, "*", 10).await.unwrap();
    assert_eq!(seen, (named(&["app:1", "app:2"]), false, 1), "of the others they may know that there are some");
    client.say("ACL SETUSER app -rlock.inspect");
    assert!(all_held(&theirs, "*", 10).await.unwrap_err().reason().starts_with("NOPERM"));
}

/// Whoever looks through a large server slowly asks for each step, and finds all in the end.
#[tokio::test]
async fn a_search_goes_on_only_when_it_is_asked_to() {
    let server = Server::start();
    let (mut client, locks) = (server.client(), locks_on(&server).await);
    client.say_all((0..5_000).map(|number| format!("SET other:{number} 1")));
    client.say("HSET profile name bob");
    take(&mut client, &["held"]);
    let mut search = Search::on(&locks, &locks.masters().await.unwrap(), b"*");
    assert_eq!(client.info("commandstats").find("cmdstat_scan"), None, "nothing is asked before the first step");
    let (mut steps, mut all) = (0, Step::default());
    while let Some(step) = search.step().await.unwrap() {
        steps += 1;
        all.looked_at += step.looked_at;
        all.locks.extend(step.locks);
    }
    assert!((3..=20).contains(&steps), "{steps} steps for 5,000 keys");
    assert_eq!((all.locks.len(), all.locks[0].0.as_slice(), all.looked_at), (1, &b"held"[..], 2));
    assert!(search.is_over() && search.step().await.unwrap().is_none());
}

/// A connection that was broken unnoticed says nothing about the server.
#[tokio::test]
async fn a_broken_connection_is_no_failure() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let masters = locks.masters().await.unwrap();
    for _ in 0..3 {
        server.client().say("CLIENT KILL TYPE normal SKIPME yes");
        inspect(&locks, b"key", 10).await.unwrap();
        server.client().say("CLIENT KILL TYPE normal SKIPME yes");
        queues(&masters, 10).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_holder_has_is_renewed_and_released_by_whoever_knows_its_name() {
    let server = Server::start();
    let (mut client, locks) = (server.client(), locks_on(&server).await);
    let hour = Duration::from_secs(3_600);
    for command in ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"] {
        client.say(&format!("{command} key ann 600000"));
        assert!(!renew_of(&locks, b"key", b"nobody", hour).await.unwrap());
        assert!(!release_of(&locks, b"key", b"nobody").await.unwrap());
        assert!(renew_of(&locks, b"key", b"ann", hour).await.unwrap());
        assert!(client.expiry("key") > client.time_ms() + 3_000_000);
        assert!(release_of(&locks, b"key", b"ann").await.unwrap());
        assert_eq!(client.keys(), [""; 0]);
        assert!(!release_of(&locks, b"key", b"ann").await.unwrap());
    }
    assert!(release_of(&locks, b"key", b"mode").await.unwrap_err().reason().contains("ERR holder must be"));
}
