//! The keys and channels that a lock is made of, byte for byte as Redisson names them, whatever the names hold.

use rlock_testing::{Reply, Server};

/// Names without a brace are put in braces; names with a brace anywhere are used as they are.
#[test]
fn the_other_keys_of_a_lock_have_its_name_in_braces() {
    let (_server, mut client) = Server::with_client();
    let without = ["orders", "a:b", "a}b", "sp ace", "100%s%n"].map(|name| (name, format!("{{{name}}}")));
    let with = ["{orders}", "app:{orders}:1", "foo{", "a{}b", "{"].map(|name| (name, name.to_owned()));
    for (name, braced) in without.into_iter().chain(with) {
        client.run(&["FLUSHALL"]);
        client.run(&["RLOCK.RACQUIRE", name, "ann:1", "600000", "FENCED"]);
        let mut expected =
            [name.to_owned(), format!("{braced}:ann:1:rwlock_timeout:1"), format!("redisson_lock_token:{braced}")];
        expected.sort();
        assert_eq!(client.keys(), expected);
    }
}

#[test]
fn values_are_what_redisson_reads() {
    let (_server, mut client) = Server::with_client();
    let [_, token] = [(); 2].map(|()| client.say("RLOCK.ACQUIRE plain ann:1 600000 FENCED").token());
    client.say("RLOCK.WACQUIRE rw ann:1 600000");
    client.say("RLOCK.RACQUIRE rw ann:1 600000");
    assert_eq!(client.fields("plain"), "{ann:1:2}");
    assert_eq!(client.fields("rw"), "{ann:1:1,ann:1:write:1,mode:write}");
    assert_eq!(client.say("GET redisson_lock_token:{plain}"), Reply::Text(token.to_string()));
    assert_eq!(client.expiry("redisson_lock_token:{plain}"), -1);
    assert_eq!(client.say("GET {rw}:ann:1:rwlock_timeout:1"), Reply::Text("1".into()));
}

#[test]
fn a_held_lock_takes_the_memory_that_redissons_takes() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE ours b983c153-7421-469a-addb-44fb92259a1b:1 600000");
    client.say("HINCRBY hers b983c153-7421-469a-addb-44fb92259a1b:1 1");
    client.say("PEXPIRE hers 600000");
    assert_eq!(client.say("MEMORY USAGE ours"), client.say("MEMORY USAGE hers"));
    assert_eq!(client.say("OBJECT ENCODING ours"), client.say("OBJECT ENCODING hers"));
}

#[test]
fn a_lock_that_redisson_took_is_continued_and_finished() {
    let (_server, mut client) = Server::with_client();
    client.say("HINCRBY k java:1 1");
    client.say("PEXPIRE k 600000");
    assert!(client.say("RLOCK.ACQUIRE k native:1 600000").as_int() > 0);
    assert_eq!(client.say("RLOCK.ACQUIRE k java:1 600000"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RELEASE k java:1"), Reply::Int(0));
    assert_eq!(client.fields("k"), "{java:1:1}");
    assert_eq!(client.say("RLOCK.RELEASE k java:1"), Reply::Int(1));
}
