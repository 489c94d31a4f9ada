//! On a cluster node, the module must not touch keys of another slot than the lock's, and the server does not check that. So
//! if a command needs a derived key and the name puts it into another slot, the name is refused.

use rlock_testing::{Client, Cluster, Reply, Server, Session, list, start_waiting, wait_until};

/// A cluster node that has all slots.
pub fn node() -> (Server, Client) {
    let server = Server::prepare().in_cluster().start();
    let mut client = server.client();
    client.say("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("the cluster is up", || client.say("CLUSTER INFO").as_text().contains("cluster_state:ok"));
    (server, client)
}

#[test]
fn names_that_keep_their_slot_work_whole() {
    let (_server, mut client) = node();
    for name in ["k", "{k}", "a{k}b", "orders:42", "{k}}", "a{k}{m}"] {
        assert_eq!(client.run(&["RLOCK.RACQUIRE", name, "ann", "600000", "FENCED"]).as_list()[0], Reply::Nil);
        assert_eq!(client.run(&["RLOCK.RENEW", name, "ann", "600000"]), Reply::Int(1));
        assert_eq!(client.run(&["RLOCK.RELEASE", name, "ann"]), Reply::Int(1));
        let slot = |client: &mut Client, key: &str| client.run(&["CLUSTER", "KEYSLOT", key]);
        let counter = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        assert_eq!(slot(&mut client, name), slot(&mut client, &format!("redisson_lock_token:{counter}")), "{name}");
    }
}

#[test]
fn names_that_lose_their_slot_are_refused_where_a_derived_key_is_needed() {
    let (_server, mut client) = node();
    for name in ["foo{", "a{}b", "}{", "a}b", ""] {
        for command in [
            &["RLOCK.ACQUIRE", name, "ann", "600000", "FENCED"][..],
            &["RLOCK.WACQUIRE", name, "ann", "600000", "FENCED"],
            &["RLOCK.RACQUIRE", name, "ann", "600000"],
        ] {
            let reply = client.run(command);
            assert!(reply.as_error().starts_with("ERR lock name and its derived keys"), "{command:?}: {reply:?}");
            assert_eq!(client.keys(), [""; 0]);
        }
        // These commands need no derived key.
        assert_eq!(client.run(&["RLOCK.ACQUIRE", name, "ann", "600000"]), Reply::Nil);
        assert_eq!(client.run(&["RLOCK.RENEW", name, "ann", "600000"]), Reply::Int(1));
        assert_eq!(client.run(&["RLOCK.RELEASE", name, "ann"]), Reply::Int(1));
        assert_eq!(client.run(&["RLOCK.WACQUIRE", name, "ann", "600000"]), Reply::Nil);
        assert_eq!(client.run(&["RLOCK.RENEW", name, "ann", "600000"]), Reply::Int(1));
        // A read hold that a foreign client put there.
        client.run(&["HSET", name, "ann", "1"]);
        for command in [
            &["RLOCK.RACQUIRE", name, "ann", "600000"][..],
            &["RLOCK.RELEASE", name, "ann", "READ"],
            &["RLOCK.RELEASE", name, "ann", "ALL"],
            &["RLOCK.RENEW", name, "ann", "600000"],
        ] {
            let reply = client.run(command);
            assert!(reply.as_error().starts_with("ERR lock name and its derived keys"), "{command:?}: {reply:?}");
        }
        client.run(&["HDEL", name, "ann"]);
        assert_eq!(client.run(&["RLOCK.RELEASE", name, "ann"]), Reply::Int(1));
    }
}

#[test]
fn a_slot_that_is_elsewhere_is_the_servers_own_error() {
    let server = Server::prepare().in_cluster().start();
    let mut client = server.client();
    client.say("CLUSTER ADDSLOTSRANGE 0 100");
    let reply = client.say("RLOCK.ACQUIRE k ann 600000");
    assert!(reply.as_error().starts_with("CLUSTERDOWN"), "{reply:?}");
}

/// A slot moves from one node to another key by key. A client that asks either node for a token while the counter is at
/// the other one must not get an old token. Counted tokens would show one; the clock that all nodes share would hide it.
#[test]
fn tokens_go_on_while_their_slot_moves() {
    ["clock", "count"].into_iter().for_each(tokens_go_on_by);
}

fn tokens_go_on_by(rule: &str) {
    let cluster = Cluster::start();
    for node in &cluster.masters {
        node.client().say(&format!("CONFIG SET rlock.tokens {rule}"));
    }
    let key = cluster.key_on(0);
    let take = |client: &mut Client, holder| client.run(&["RLOCK.ACQUIRE", &key, holder, "600000", "FENCED"]);
    let ask = |client: &mut Client, holder| {
        client.say("ASKING");
        take(client, holder)
    };
    let mut last = 0;
    let mut grows = |reply: Reply| {
        let token = reply.token();
        assert!(last < token, "{rule}: {token} after {last}");
        last = token;
    };
    let is_refused = |reply: Reply| reply.as_error().starts_with("TRYAGAIN the slot of this lock is moving");
    let mut other = cluster.masters[0].client();
    for _ in 0..3 {
        grows(take(&mut other, "ann"));
        assert_eq!(other.run(&["RLOCK.RELEASE", &key, "ann"]), Reply::Int(1));
    }
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    // A free lock has no key, so either node could have it; its counter is at the source.
    assert!(take(&mut slot.source, "ann").as_error().starts_with("ASK"));
    assert!(is_refused(ask(&mut slot.target, "ann")), "the target has no counter");
    // Without a token the counter does not matter.
    slot.target.say("ASKING");
    assert_eq!(slot.target.run(&["RLOCK.ACQUIRE", &key, "ann", "600000"]), Reply::Nil);
    slot.move_keys();
    grows(ask(&mut slot.target, "ann"));
    slot.finish();
    grows(take(&mut slot.target, "ann"));
}

/// The counter moves before the lock does.
#[test]
fn tokens_go_on_where_the_lock_is_left_behind() {
    let cluster = Cluster::start();
    let key = cluster.key_on(0);
    let counter = format!("redisson_lock_token:{{{key}}}");
    let mut first = cluster.masters[0].client();
    let before = first.run(&["RLOCK.ACQUIRE", &key, "ann", "600000", "FENCED"]).token();
    let mut waiting = cluster.masters[0].client();
    waiting.send(&["RLOCK.ACQUIRE", &key, "bob", "600000", "WAIT", "0", "FENCED"]);
    first.until_waiting(1);
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    slot.move_key(&counter);
    let again = first.run(&["RLOCK.ACQUIRE", &key, "ann", "600000", "FENCED"]);
    assert!(again.as_error().starts_with("TRYAGAIN the slot of this lock is moving"), "{again:?}");
    assert_eq!(first.run(&["RLOCK.RELEASE", &key, "ann"]), Reply::Int(1));
    let received = waiting.receive();
    assert!(received.as_error().starts_with("TRYAGAIN"), "{received:?}");
    slot.move_keys();
    slot.finish();
    let taken = slot.target.run(&["RLOCK.ACQUIRE", &key, "bob", "600000", "FENCED"]);
    assert!(before < taken.token(), "{taken:?} after {before}");
}

/// CANCEL has no key, so it may come with keys of any slot. While a transaction or a script runs, some servers look for all
/// keys in the slot of its own keys.
#[test]
fn waiters_behind_a_ticket_of_another_slot_are_granted_after_the_transaction() {
    let (server, mut client) = node();
    let slot = |client: &mut Client, key| client.say(&format!("CLUSTER KEYSLOT {key}"));
    assert_ne!(slot(&mut client, "k"), slot(&mut client, "other"));
    let script = "redis.call('SET', KEYS[1], 1) return redis.call('RLOCK.CANCEL', unpack(ARGV))";
    for (tickets, expected) in [(&["1"][..], list([Reply::Int(1)])), (&[], Reply::Int(1))] {
        for is_script in [false, true] {
            let mut ann = Session::open(&server, "ann");
            client.say("RLOCK.RACQUIRE k holder 600000");
            ann.wait_for("RLOCK.WACQUIRE k ann 600000 WAIT 0", "1");
            let mut bob = start_waiting(&server, "RLOCK.RACQUIRE k bob 600000 WAIT 0");
            let name = [&["the-session-of-ann"], tickets].concat();
            let cancelled = if is_script {
                client.run(&[&["EVAL", script, "1", "other"], &name[..]].concat())
            } else {
                client.say_all(["MULTI", "SET other 1"]);
                client.run(&[&["RLOCK.CANCEL"], &name[..]].concat());
                client.say("EXEC").as_list()[1].clone()
            };
            assert_eq!(cancelled, expected, "{tickets:?}, by a script: {is_script}");
            assert_eq!(bob.receive(), Reply::Nil, "{tickets:?}, by a script: {is_script}");
            client.say("FLUSHALL");
            ann.cancel("");
        }
    }
}
