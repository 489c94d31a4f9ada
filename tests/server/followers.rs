//! Replicas and AOF files that begin to follow at any time. Without followers nothing is replicated, and a later
//! follower sees no difference.

use rlock_testing::{Client, Reply, Server, start_waiting, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

fn is_followed(client: &mut Client) -> bool {
    client.figure("followed") == 1
}

fn until_unfollowed(client: &mut Client) {
    wait_until("the server knows that nobody follows", || !is_followed(client));
}

fn info(client: &mut Client, section: &str, field: &str) -> i64 {
    client.info(section).number(field)
}

/// Locks of all kinds, acquired and released without a pause until `stop`.
struct Traffic {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Traffic {
    fn on(server: &Server) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut client = server.client();
        let thread = std::thread::spawn({
            let (stop, rounds) = (stop.clone(), rounds.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    work(&mut client, rounds.fetch_add(1, Ordering::Relaxed));
                }
            }
        });
        let traffic = Self { stop, rounds, thread };
        traffic.goes_on();
        traffic
    }

    /// Waits until each lock has changed again.
    fn goes_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        wait_until("more locks change", || self.rounds.load(Ordering::Relaxed) > before + 50);
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the traffic goes well");
    }
}

/// Each round leaves something behind, so that a missing change shows later.
fn work(client: &mut Client, round: usize) {
    let (now, before) = (round % 50, (round + 25) % 50);
    client.say(&format!("RLOCK.ACQUIRE plain:{now} holder:{round} 600000 FENCED"));
    client.say(&format!("RLOCK.RACQUIRE shared:{now} holder:{round} 600000"));
    client.say(&format!("RLOCK.RENEW shared:{before} holder:{} 500000", round.saturating_sub(25)));
    client.say(&format!("RLOCK.RELEASE plain:{before} holder:{} ALL", round.saturating_sub(25)));
    client.say(&format!("RLOCK.RELEASE shared:{before} holder:{} READ", round.saturating_sub(25)));
}

/// Both have the same keys, values and leases.
fn until_alike(one: &mut Client, other: &mut Client) {
    wait_until("both have the same data", || one.everything() == other.everything());
}

/// A replica that would not understand an RLOCK command.
/// It loads a snapshot as it arrives: to store the snapshot first would be to wait for the disk.
fn replica() -> Server {
    Server::prepare().without_module().options(&["--repl-diskless-load", "on-empty-db"]).start()
}

/// Waits until the file has its base and takes further changes.
fn until_the_file_is_begun(client: &mut Client) {
    let mut is = |field, value| info(client, "persistence", field) == value;
    wait_until("the file is begun", || {
        is("aof_enabled", 1)
            && is("aof_rewrite_scheduled", 0)
            && is("aof_rewrite_in_progress", 0)
            && is("aof_rewrites", 1)
    });
}

#[test]
fn an_unreplicated_change_counts_as_a_change() {
    let (_server, mut client) = Server::with_client();
    until_unfollowed(&mut client);
    let mut changes = info(&mut client, "persistence", "rdb_changes_since_last_save");
    for command in [
        "RLOCK.ACQUIRE a me 60000",
        "RLOCK.RENEW a me 60000",
        "RLOCK.RELEASE a me",
        "RLOCK.WACQUIRE b me 60000 FENCED",
        "RLOCK.RACQUIRE b me 60000",
        "RLOCK.RELEASE b me ALL",
    ] {
        client.say(command);
        let after = info(&mut client, "persistence", "rdb_changes_since_last_save");
        assert!(after > changes, "{command}");
        changes = after;
    }
    // A command that changes nothing does not count.
    client.say("RLOCK.RELEASE a me");
    client.say("RLOCK.RENEW a me 60000");
    assert_eq!(info(&mut client, "persistence", "rdb_changes_since_last_save"), changes);
}

#[test]
fn a_replica_that_comes_while_locks_change_has_them_all() {
    let (master, replica) = (Server::start(), replica());
    let (mut ours, mut theirs) = (master.client(), replica.client());
    until_unfollowed(&mut ours);
    let traffic = Traffic::on(&master);
    replica.follow(&master);
    assert!(is_followed(&mut ours));
    traffic.goes_on();
    traffic.end();
    until_alike(&mut ours, &mut theirs);
}

/// A replica comes while the previous one's snapshot is on its way.
#[test]
fn replicas_may_come_one_after_the_other() {
    let master = Server::prepare().options(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "1"]).start();
    let replicas = [replica(), replica(), replica()];
    let mut ours = master.client();
    until_unfollowed(&mut ours);
    let traffic = Traffic::on(&master);
    for replica in &replicas {
        replica.begin_to_follow(&master);
    }
    for replica in &replicas {
        replica.until_linked();
    }
    traffic.goes_on();
    traffic.end();
    for replica in &replicas {
        until_alike(&mut ours, &mut replica.client());
    }
}

#[test]
fn a_replica_that_comes_back_gets_what_it_missed() {
    let (master, replica) = (Server::start(), replica());
    let (mut ours, mut theirs) = (master.client(), replica.client());
    until_unfollowed(&mut ours);
    replica.follow(&master);
    for round in 1..=3 {
        let traffic = Traffic::on(&master);
        ours.say("CLIENT KILL TYPE replica");
        wait_until("it has come back", || info(&mut ours, "stats", "sync_partial_ok") == round);
        assert!(is_followed(&mut ours), "who comes back reads on where it was");
        traffic.end();
        until_alike(&mut ours, &mut theirs);
    }
}

/// A master without followers becomes a replica, and a master again. Another replica of its former master then continues
/// the stream from it, without a snapshot, and so without a fork.
#[test]
fn a_promoted_replica_continues_the_stream_of_the_others() {
    let (first, master, other) = (Server::start(), Server::start(), replica());
    let (mut ours, mut theirs) = (first.client(), other.client());
    until_unfollowed(&mut ours);
    for follower in [&first, &other] {
        follower.follow(&master);
    }
    ours.say("REPLICAOF NO ONE");
    assert!(is_followed(&mut ours));
    other.follow(&first);
    assert_eq!(info(&mut ours, "stats", "sync_partial_ok"), 1, "it read on");
    Traffic::on(&first).end();
    until_alike(&mut ours, &mut theirs);
}

/// The backlog of a replica that never returns is freed in the end, and a new one then begins.
#[test]
fn nothing_is_replicated_after_the_last_follower_has_gone() {
    let master = Server::prepare().options(&["--repl-backlog-ttl", "1"]).start();
    let (first, second) = (replica(), replica());
    let mut ours = master.client();
    for replica in [&first, &second] {
        let mut theirs = replica.client();
        replica.follow(&master);
        assert!(is_followed(&mut ours));
        Traffic::on(&master).end();
        until_alike(&mut ours, &mut theirs);
        theirs.say("REPLICAOF NO ONE");
        until_unfollowed(&mut ours);
        Traffic::on(&master).end();
    }
}

#[test]
fn an_append_only_file_that_is_begun_while_locks_change_has_them_all() {
    let (server, mut client) = Server::with_client();
    until_unfollowed(&mut client);
    let traffic = Traffic::on(&server);
    client.say("CONFIG SET appendfsync always");
    client.say("CONFIG SET appendonly yes");
    assert!(is_followed(&mut client));
    until_the_file_is_begun(&mut client);
    traffic.goes_on();
    traffic.end();
    let all = client.everything();
    let again = server.crash().append_only_file().start();
    assert_eq!(again.client().everything(), all);
}

/// The fork comes between two commands of one transaction.
#[test]
fn an_append_only_file_that_is_begun_in_a_transaction() {
    let (server, mut client) = Server::with_client();
    until_unfollowed(&mut client);
    client.say("CONFIG SET appendfsync always");
    client.transaction(["RLOCK.ACQUIRE a me 600000", "CONFIG SET appendonly yes", "RLOCK.ACQUIRE b me 600000"]);
    until_the_file_is_begun(&mut client);
    let all = client.everything();
    let again = server.crash().append_only_file().start();
    let mut client = again.client();
    assert_eq!(client.everything(), all);
    assert_eq!(client.keys(), ["a", "b"]);
}

/// A file that was there from the beginning is followed from the first lock on, and always.
#[test]
fn an_append_only_file_that_was_there_already() {
    let server = Server::prepare().append_only_file().start();
    let mut client = server.client();
    wait_until("the server has asked itself", || info(&mut client, "server", "uptime_in_seconds") >= 3);
    assert!(is_followed(&mut client));
    Traffic::on(&server).end();
    let all = client.everything();
    let again = server.crash().append_only_file().start();
    assert_eq!(again.client().everything(), all);
}

/// A file has no subscribers, so unlock messages are not replicated to it; a later replica gets them.
#[test]
fn subscribers_of_a_replica_that_comes_to_a_file() {
    let server = Server::prepare().append_only_file().start();
    let mut client = server.client();
    wait_until("the server knows that there is no replica", || client.figure("followed_by_replicas") == 0);
    assert!(is_followed(&mut client), "the file is there all the same");
    let replica = Server::prepare().without_module().start();
    let mut theirs = replica.client();
    theirs.say("SUBSCRIBE redisson_lock__channel:{k}");
    replica.follow(&server);
    client.say("RLOCK.ACQUIRE k me 600000");
    client.say("RLOCK.RELEASE k me");
    assert_eq!(theirs.receive().words(), ["message", "redisson_lock__channel:{k}", "0"]);
}

/// Slots move in more ways than by a replica's snapshot.
#[test]
fn in_a_cluster_everything_is_replicated_always() {
    let server = Server::prepare().in_cluster().start();
    let mut client = server.client();
    wait_until("the server could have asked itself", || info(&mut client, "server", "uptime_in_seconds") >= 3);
    assert!(is_followed(&mut client));
}

/// Events serve waiters even if there are no followers.
#[test]
fn grants_by_events_are_made_without_followers() {
    let (server, mut client) = Server::with_client();
    until_unfollowed(&mut client);
    client.say("RLOCK.ACQUIRE a me 600000");
    let mut waiting = start_waiting(&server, "RLOCK.ACQUIRE a you 600000 WAIT 0");
    client.say("DEL a");
    assert_eq!(waiting.receive(), Reply::Nil);
    assert_eq!(client.fields("a"), "{you:1}");
}
