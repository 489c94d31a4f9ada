//! On a cluster node: keys of another slot than the lock's must not be touched, since the server does not check what a
//! module does; so a name that derives such keys is refused, where one is needed.

use rlock_testing::{Client, Reply, Server, wait_until};

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
            assert!(reply.as_error().starts_with("ERR key must carry its hash slot"), "{command:?}: {reply:?}");
            assert_eq!(client.keys(), [""; 0]);
        }
        // Nothing derived is needed for these.
        assert_eq!(client.run(&["RLOCK.ACQUIRE", name, "ann", "600000"]), Reply::Nil);
        assert_eq!(client.run(&["RLOCK.RENEW", name, "ann", "600000"]), Reply::Int(1));
        assert_eq!(client.run(&["RLOCK.RELEASE", name, "ann"]), Reply::Int(1));
        assert_eq!(client.run(&["RLOCK.WACQUIRE", name, "ann", "600000"]), Reply::Nil);
        assert_eq!(client.run(&["RLOCK.RENEW", name, "ann", "600000"]), Reply::Int(1));
        // A read hold that somebody else put there.
        client.run(&["HSET", name, "ann", "1"]);
        for command in [
            &["RLOCK.RACQUIRE", name, "ann", "600000"][..],
            &["RLOCK.RELEASE", name, "ann", "READ"],
            &["RLOCK.RELEASE", name, "ann", "ALL"],
            &["RLOCK.RENEW", name, "ann", "600000"],
        ] {
            let reply = client.run(command);
            assert!(reply.as_error().starts_with("ERR key must carry its hash slot"), "{command:?}: {reply:?}");
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
