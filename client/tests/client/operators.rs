//! What people on call ask for: who holds, who waits, and a lock that is broken by force.

use crate::support::{calls, exists, locks_on, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{ErrorKind, HoldSide, Kind, Locks};
use rlock_testing::{Cluster, Server};
use std::time::Duration;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(600);

/// Somebody who waits for the lock, in a place in the queue that is sure.
async fn waiting(server: &Server, locks: &Locks, name: &str, place: i64) -> JoinHandle<()> {
    let lock = locks.lock(name).lease(LONG);
    let waits = tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    until_waiting(&mut server.client(), place).await;
    waits
}

#[tokio::test]
async fn a_lock_shows_who_holds_it_and_who_waits() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let address = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
        let locks = Locks::options().lease(LONG).connect_to(address).await.unwrap();
        let nothing = locks.inspect("key", 10).await.unwrap();
        assert_eq!((nothing.kind, nothing.time_left, nothing.holder_count, nothing.waiter_count), (None, None, 0, 0));
        let lock = locks.lock("key").owner(protocol).fenced();
        let guards = [lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
        let patient = waiting(&server, &locks, "key", 1).await;
        let hasty = locks.lock("key").owner("hasty");
        let hasty = tokio::spawn(async move { hasty.acquire_timeout(LONG).await.unwrap().release().await });
        until_waiting(&mut server.client(), 2).await;
        let seen = locks.inspect("key", 10).await.unwrap();
        assert_eq!((seen.kind, seen.fencing_token), (Some(Kind::Plain), Some(guards[1].token())));
        assert!(seen.time_left.unwrap() <= LONG && seen.time_left.unwrap() > LONG / 2, "{seen:?}");
        let [holder] = &seen.holders[..] else { panic!("{seen:?}") };
        assert_eq!(
            (holder.holder.as_slice(), holder.side, holder.count),
            (protocol.as_bytes(), HoldSide::Exclusive, 2)
        );
        assert_eq!((seen.waiter_count, seen.waiters.len()), (2, 2));
        assert_eq!((seen.waiters[0].gives_up_in, seen.waiters[1].holder.as_slice()), (None, &b"hasty"[..]));
        let gives_up_in = seen.waiters[1].gives_up_in.unwrap();
        assert!(gives_up_in <= LONG && gives_up_in > LONG / 2 && seen.waiters[1].waited < LONG / 2, "{seen:?}");
        let clients = server.client().say(&format!("CLIENT LIST ID {}", seen.waiters[0].client_id.unwrap()));
        assert!(clients.as_text().contains(seen.waiters[0].address.as_ref().unwrap()), "{clients:?} {seen:?}");
        let few = locks.inspect("key", 1).await.unwrap();
        assert_eq!((few.waiter_count, few.waiters.len(), &few.waiters[0].holder), (2, 1, &seen.waiters[0].holder));
        for guard in guards {
            guard.release().await.unwrap();
        }
        patient.await.unwrap();
        hasty.await.unwrap().unwrap();
    }
}

/// Whether or not its process is there.
#[tokio::test]
async fn a_session_that_waits_is_shown_with_its_ticket() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE key ann 600000");
    let mut session = server.client();
    session.send(&["RLOCK.EVENTS", "\u{fe}-a-session-of-bob", "WAIT", "0", "TTL", "600000"]);
    until("it is open", || client.figure("sessions") == 1).await;
    client.run(&["RLOCK.ACQUIRE", "key", "bob", "600000", "WAIT", "0", "SESSION", "\u{fe}-a-session-of-bob", "7"]);
    for protocol in ["resp2", "resp3"] {
        let address = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
        let locks = Locks::connect(address).await.unwrap();
        let waiter = locks.inspect("key", 10).await.unwrap().waiters.remove(0);
        assert_eq!((waiter.holder.as_slice(), waiter.attended), (&b"bob"[..], true));
        assert_eq!(waiter.session.as_deref(), Some("\u{fe}-a-sess".as_bytes().get(..8).unwrap()));
        assert_eq!(waiter.ticket.as_deref(), Some(&b"7"[..]));
        let listed = client.say(&format!("CLIENT LIST ID {}", waiter.client_id.unwrap()));
        assert!(listed.as_text().contains("cmd=rlock.events"), "{listed:?}");
        assert!(listed.as_text().contains(waiter.address.as_ref().unwrap()), "{listed:?}");
    }
    drop(session);
    until("nobody attends to it", || client.figure("sessions_unattended") == 1).await;
    let waiter = locks_on(&server).await.inspect("key", 10).await.unwrap().waiters.remove(0);
    assert_eq!((waiter.client_id, waiter.address, waiter.attended), (None, None, false));
    assert_eq!(waiter.ticket.as_deref(), Some(&b"7"[..]), "it keeps its place");
}

#[tokio::test]
async fn a_read_write_lock_shows_its_sides() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let name = b"pri\xffces".to_vec();
    let both = locks.read_write(name.clone());
    let writing = both.write().owner(b"\xfe").acquire().await.unwrap();
    let reading = both.read().owner(b"\xfe").acquire().await.unwrap();
    let seen = locks.inspect(name, 10).await.unwrap();
    assert_eq!((seen.kind, seen.holder_count), (Some(Kind::ReadWrite), 2));
    let mut sides: Vec<_> = seen.holders.iter().map(|it| (it.side, it.holder.as_slice(), it.count)).collect();
    sides.sort_by_key(|(side, ..)| *side == HoldSide::Write);
    assert_eq!(sides, [(HoldSide::Read, &b"\xfe"[..], 1), (HoldSide::Write, &b"\xfe"[..], 1)]);
    assert!(seen.holders.iter().all(|it| it.time_left.is_some()), "{seen:?}");
    reading.release().await.unwrap();
    writing.release().await.unwrap();
}

#[tokio::test]
async fn what_is_no_lock_and_what_may_not_be_read_is_refused() {
    let server = Server::start();
    server.client().say("SET text 1");
    server.client().say("ACL SETUSER app on >secret ~app:* +@all");
    let locks = Locks::connect(format!("redis://app:secret@127.0.0.1:{}", server.port())).await.unwrap();
    let forbidden = locks.inspect("text", 10).await.unwrap_err();
    assert_eq!((forbidden.kind(), forbidden.code()), (ErrorKind::Refused, Some("NOPERM")));
    let locks = locks_on(&server).await;
    for error in [locks.inspect("text", 10).await.unwrap_err(), locks.break_lock("text").await.unwrap_err()] {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some("WRONGTYPE")), "{error}");
    }
    let server = Server::prepare().without_module().start();
    let locks = locks_on(&server).await;
    assert!(locks.inspect("key", 10).await.unwrap_err().is_module_missing());
    assert!(locks.queues(10).await.unwrap_err().is_module_missing());
}

#[tokio::test]
async fn queues_come_longest_first() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let held = [locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap()];
    let mut waits = Vec::new();
    for (place, name) in (1..).zip(["a", "b", "b"]) {
        waits.push(waiting(&server, &locks, name, place).await);
    }
    let queues = locks.queues(10).await.unwrap();
    let seen: Vec<_> = queues.iter().map(|it| (it.key.as_slice(), it.waiters, it.served)).collect();
    assert_eq!(seen, [(&b"b"[..], 2, 0), (&b"a"[..], 1, 0)]);
    assert_eq!(locks.queues(1).await.unwrap().len(), 1);
    let counted = locks.statistics().await.unwrap();
    assert_eq!((counted.len(), counted[0].number("waiters"), counted[0].number("nonsense")), (1, Some(3), None));
    for guard in held {
        guard.release().await.unwrap();
    }
    for waits in waits {
        waits.await.unwrap();
    }
    assert_eq!(locks.queues(10).await.unwrap(), []);
    let now = locks.statistics().await.unwrap();
    assert_eq!(now[0].number("grants").unwrap(), counted[0].number("grants").unwrap() + 3);
}

/// Each master answers for its own.
#[tokio::test]
async fn in_a_cluster_every_master_is_asked() {
    let cluster = Cluster::start();
    let addresses = cluster.masters.iter().map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let locks = Locks::options().connect_to_cluster(addresses).await.unwrap();
    let keys = [0, 1, 2].map(|master| cluster.key_on(master));
    let mut waits = Vec::new();
    for ((key, node), count) in keys.iter().zip(&cluster.masters).zip([1, 3, 2]) {
        let guard = locks.lock(key.as_str()).acquire().await.unwrap();
        let mut waiters = Vec::new();
        for place in 1..=count {
            waiters.push(waiting(node, &locks, key, place).await);
        }
        waits.push((guard, waiters));
        assert_eq!(locks.inspect(key.as_str(), 10).await.unwrap().waiter_count, waits.last().unwrap().1.len());
    }
    let seen: Vec<_> = locks.queues(10).await.unwrap().into_iter().map(|it| (it.key, it.waiters)).collect();
    let expected = [(1, 3), (2, 2), (0, 1)].map(|(master, waiters): (usize, _)| (keys[master].clone().into(), waiters));
    assert_eq!(seen, expected);
    assert_eq!(locks.queues(2).await.unwrap().len(), 2);
    let mut held: Vec<_> = locks.held("*", 10).await.unwrap().locks.into_iter().map(|(key, _)| key).collect();
    held.sort();
    let mut expected = keys.clone().map(String::into_bytes);
    expected.sort();
    assert_eq!(held, expected);
    let servers = locks.statistics().await.unwrap();
    assert_eq!((servers.len(), servers.iter().filter_map(|it| it.number("waiters")).sum()), (3, 6));
    for (address, master) in locks.masters().await.unwrap() {
        let number = cluster.masters.iter().position(|node| address == format!("127.0.0.1:{}", node.port())).unwrap();
        let queues: Vec<_> = master.queues(10).await.unwrap().into_iter().map(|it| it.key).collect();
        assert_eq!(queues, [keys[number].as_bytes()]);
    }
    for (key, (guard, waits)) in keys.iter().zip(waits) {
        assert!(locks.break_lock(key.as_str()).await.unwrap());
        for waits in waits {
            waits.await.unwrap();
        }
        assert!(guard.release().await.unwrap_err().is_lost());
    }
}

#[tokio::test]
async fn a_lock_that_is_broken_is_the_next_ones_and_its_holder_learns_of_it() {
    let server = Server::start();
    let locks = Locks::options().lease(Duration::from_secs(3)).connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("key").fenced().acquire().await.unwrap();
    let next = waiting(&server, &locks, "key", 1).await;
    assert!(locks.break_lock("key").await.unwrap());
    next.await.unwrap();
    guard.lost().await;
    assert!(guard.release().await.unwrap_err().is_lost());
    assert!(!locks.break_lock("key").await.unwrap(), "there is none any more");
    let again = locks.lock("key").fenced().acquire().await.unwrap();
    assert_eq!(again.token(), 2, "tokens go on growing");
    again.release().await.unwrap();
}

#[tokio::test]
async fn held_locks_are_found_among_all_keys() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for number in 0..2_000 {
        client.say(&format!("SET other:{number} 1"));
    }
    client.say("HSET app:profile name bob");
    let names = ["app:1", "app:2", "web:1"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(locks.read_write(name).read().acquire().await.unwrap());
    }
    let mut found = locks.held("*", 10).await.unwrap();
    found.locks.sort_by(|(one, _), (other, _)| one.cmp(other));
    let keys: Vec<_> = found.locks.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
    assert_eq!((keys.as_slice(), found.limited), (&names.map(Into::into)[..], false));
    assert!(found.locks.iter().all(|(_, lock)| lock.kind == Some(Kind::ReadWrite) && lock.holders.len() == 1));
    assert_eq!(locks.held("app:*", 10).await.unwrap().locks.len(), 2);
    let few = locks.held("app:*", 1).await.unwrap();
    assert_eq!((few.locks.len(), few.limited), (1, true));
    assert!(!locks.held("app:*", 2).await.unwrap().limited);
    client.say("ACL SETUSER app on >secret ~app:* +@all");
    let theirs = Locks::connect(format!("redis://app:secret@127.0.0.1:{}", server.port())).await.unwrap();
    let seen = theirs.held("*", 10).await.unwrap();
    assert_eq!((seen.locks.len(), seen.hidden), (2, 1), "of the others they may know nothing but that there are some");
    client.say("ACL SETUSER app -rlock.inspect");
    assert_eq!(theirs.held("*", 10).await.unwrap_err().code(), Some("NOPERM"));
    drop(guards);
}

/// Whoever looks through a large server slowly asks for each step, and finds all in the end.
#[tokio::test]
async fn a_search_goes_on_only_when_it_is_asked_to() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for number in 0..5_000 {
        client.say(&format!("SET other:{number} 1"));
    }
    client.say("HSET profile name bob");
    let guard = locks.lock("held").acquire().await.unwrap();
    let mut search = locks.search("*");
    assert_eq!(calls(&mut client, "scan"), 0, "nothing is asked before the first step");
    let (mut steps, mut found, mut looked_at) = (0, Vec::new(), 0);
    while let Some(step) = search.step().await.unwrap() {
        steps += 1;
        looked_at += step.looked_at;
        found.extend(step.locks.into_iter().map(|(key, _)| key));
    }
    assert!((3..=20).contains(&steps), "{steps} steps for 5,000 keys");
    assert_eq!((found, looked_at), (vec![b"held".to_vec()], 2));
    assert!(search.is_over() && search.step().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// A connection that was broken unnoticed says nothing about the server.
#[tokio::test]
async fn a_broken_connection_is_no_failure() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    for _ in 0..3 {
        server.client().say("CLIENT KILL TYPE normal SKIPME yes");
        locks.inspect("key", 10).await.unwrap();
        server.client().say("CLIENT KILL TYPE normal SKIPME yes");
        locks.queues(10).await.unwrap();
    }
}

/// For a program that is about to end.
#[tokio::test]
async fn what_is_given_back_in_the_background_can_be_waited_for() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(LONG).connect_to(url(&server)).await.unwrap();
    locks.settle().await;
    for _ in 0..20 {
        let guard = locks.lock("key").acquire().await.unwrap();
        assert!(exists(&mut client, "key"));
        drop(guard);
        locks.settle().await;
        assert!(!exists(&mut client, "key"));
    }
    let taken = locks.lock("key").acquire().await.unwrap();
    for _ in 0..20 {
        let waits = locks.lock("key");
        tokio::select! {
            biased;
            acquired = waits.acquire() => panic!("{acquired:?}"),
            () = until_waiting(&mut client, 1) => {}
        }
        locks.settle().await;
        assert_eq!(client.figure("waiters"), 0);
    }
    server.freeze();
    drop(taken);
    assert!(tokio::time::timeout(Duration::from_millis(100), locks.settle()).await.is_err(), "nobody has answered");
    server.thaw();
    locks.settle().await;
    until_nothing_is_left(&mut client, "key").await;
}

/// A program that is told to end while it waits drops its wait, lets things settle and is gone.
#[tokio::test]
async fn a_grant_that_comes_when_its_wait_is_dropped_can_be_waited_for_as_well() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(LONG).connect_to(url(&server)).await.unwrap();
    for after in (0..60).map(|step| Duration::from_micros(step * 25)) {
        client.say("RLOCK.ACQUIRE key other 600000");
        let lock = locks.lock("key");
        tokio::select! {
            biased;
            acquired = lock.acquire() => panic!("{acquired:?}"),
            () = until_waiting(&mut client, 1) => {
                client.say("RLOCK.RELEASE key other");
                // The client's thread goes on, and this future does not.
                std::thread::sleep(after);
            }
        }
        locks.settle().await;
        assert!(!exists(&mut client, "key") && client.figure("waiters") == 0, "dropped {after:?} after the grant");
    }
}

#[tokio::test]
async fn what_a_holder_has_is_renewed_and_released_by_whoever_knows_its_name() {
    let server = Server::start();
    let (mut client, locks, other) = (server.client(), locks_on(&server).await, locks_on(&server).await);
    let hour = Duration::from_secs(3_600);
    for lock in [locks.lock("a"), locks.read_write("a").read(), locks.read_write("a").write()] {
        let guard = lock.acquire().await.unwrap();
        assert!(!other.renew_of("a", "nobody", hour).await.unwrap());
        assert!(!other.release_of("a", "nobody").await.unwrap());
        assert!(other.renew_of("a", guard.holder().as_bytes(), hour).await.unwrap());
        assert!(client.expiry("a") > client.time_ms() + 3_000_000);
        assert!(other.release_of("a", guard.holder().as_bytes()).await.unwrap());
        assert!(!exists(&mut client, "a"));
        assert!(!other.release_of("a", guard.holder().as_bytes()).await.unwrap());
        assert!(guard.release().await.unwrap_err().is_lost());
    }
    assert!(other.release_of("a", "mode").await.unwrap_err().to_string().contains("ERR holder must be"));
}
