//! The message that wakes Redisson's waiters: on the right channel, with the right payload, by the command that the
//! settings name, to the subscribers of this server and of its replicas.

use crate::cluster::node;
use rlock_testing::{Client, Reply, Server, start_waiting};

/// Subscribed to a channel by both kinds of subscription.
struct Ear {
    plain: Client,
    sharded: Client,
}

impl Ear {
    fn on(server: &Server, channel: &str) -> Self {
        let (mut plain, mut sharded) = (server.client(), server.client());
        plain.run(&["SUBSCRIBE", channel]);
        sharded.run(&["SSUBSCRIBE", channel]);
        Self { plain, sharded }
    }

    /// The messages since the last call, by kind of subscription. The end marks are published on `server`.
    fn drain(&mut self, server: &Server, channel: &str) -> (Vec<String>, Vec<String>) {
        let mut client = server.client();
        client.run(&["PUBLISH", channel, "end"]);
        client.run(&["SPUBLISH", channel, "end"]);
        (messages_up_to_end(&mut self.plain), messages_up_to_end(&mut self.sharded))
    }
}

fn messages_up_to_end(client: &mut Client) -> Vec<String> {
    let messages = std::iter::repeat_with(|| client.receive().as_list()[2].as_text().to_owned());
    messages.take_while(|message| message != "end").collect()
}

fn heard(plain: &[&str], sharded: &[&str]) -> (Vec<String>, Vec<String>) {
    let owned = |messages: &[&str]| messages.iter().map(|message| (*message).to_owned()).collect();
    (owned(plain), owned(sharded))
}

#[test]
fn every_unlock_is_published_once_with_its_message() {
    let (server, mut client) = Server::with_client();
    for (channel, steps) in [
        (
            "redisson_lock__channel:{k}",
            &[
                ("RLOCK.ACQUIRE k ann 600000", None),
                ("RLOCK.ACQUIRE k ann 600000", None),
                ("RLOCK.RENEW k ann 600000", None),
                ("RLOCK.RELEASE k ann", None),
                ("RLOCK.RELEASE k bob", None),
                ("RLOCK.RELEASE k ann", Some("0")),
                ("RLOCK.RELEASE k ann", None),
                ("RLOCK.ACQUIRE k ann 600000", None),
                ("RLOCK.RELEASE k ann ALL", Some("0")),
                ("RLOCK.ONCE k ann 600000", None),
                ("RLOCK.ANSWER k bob 42 KEEP 600000", None),
                ("RLOCK.ANSWER k ann 42 KEEP 600000", Some("0")),
                ("RLOCK.ONCE k bob 600000", None),
            ][..],
        ),
        (
            "redisson_rwlock:{k}",
            &[
                ("RLOCK.RACQUIRE k ann 600000", None),
                ("RLOCK.RACQUIRE k bob 600000", None),
                ("RLOCK.RELEASE k ann", None),
                ("RLOCK.RELEASE k bob", Some("0")),
                ("RLOCK.RELEASE k bob", None),
                ("RLOCK.WACQUIRE k ann 600000", None),
                ("RLOCK.RACQUIRE k ann 600000", None),
                ("RLOCK.RELEASE k ann READ", None),
                ("RLOCK.RELEASE k ann", Some("1")),
                ("RLOCK.WACQUIRE k ann 600000", None),
                ("RLOCK.RACQUIRE k ann 600000", None),
                ("RLOCK.RELEASE k ann WRITE", Some("1")),
                ("RLOCK.RELEASE k ann", Some("0")),
                ("RLOCK.WACQUIRE k ann 600000", None),
                ("RLOCK.RACQUIRE k ann 600000", None),
                ("RLOCK.RELEASE k ann ALL", Some("1")),
                // A message wakes every client that can go on now.
                ("RLOCK.RACQUIRE k ann 600000", None),
                ("RLOCK.RACQUIRE k bob 600000", None),
                ("RLOCK.BREAK k", Some("1")),
                ("RLOCK.BREAK k", None),
                ("RLOCK.WACQUIRE k ann 600000", None),
                ("RLOCK.BREAK k", Some("1")),
            ],
        ),
    ] {
        let mut ear = Ear::on(&server, channel);
        for (command, message) in steps {
            client.say(command);
            let expected: Vec<&str> = message.iter().copied().collect();
            assert_eq!(ear.drain(&server, channel), heard(&expected, &[]), "{command}");
        }
    }
}

/// A lock that goes to a waiter is not free, so no message is published, except if the new lease ends before the old
/// one would have: clients that sleep elsewhere until that end have to know.
#[test]
fn a_hand_over_is_published_where_its_lease_ends_sooner() {
    let (server, mut client) = Server::with_client();
    for (command, channel, message) in
        [("RLOCK.ACQUIRE", "redisson_lock__channel:{k}", "0"), ("RLOCK.WACQUIRE", "redisson_rwlock:{k}", "1")]
    {
        for (lease, is_heard) in [("600000", true), ("6000000", false)] {
            let mut ear = Ear::on(&server, channel);
            client.run(&[command, "k", "ann", "3000000"]);
            let mut waiting = start_waiting(&server, &format!("{command} k bob {lease} WAIT 0"));
            client.say("RLOCK.RELEASE k ann");
            assert_eq!(waiting.receive(), Reply::Nil);
            assert_eq!(
                ear.drain(&server, channel),
                heard(is_heard.then_some(message).as_slice(), &[]),
                "{command} {lease}"
            );
            client.say("RLOCK.RELEASE k bob");
        }
    }
}

#[test]
fn the_setting_says_which_command() {
    let (server, mut client) = Server::with_client();
    let channel = "redisson_lock__channel:{k}";
    let mut ear = Ear::on(&server, channel);
    for (setting, expected) in [
        ("auto", heard(&["0"], &[])),
        ("publish", heard(&["0"], &[])),
        ("spublish", heard(&[], &["0"])),
        ("both", heard(&["0"], &["0"])),
        ("off", heard(&[], &[])),
    ] {
        client.say(&format!("CONFIG SET rlock.notify {setting}"));
        client.say("RLOCK.ACQUIRE k ann 600000");
        client.say("RLOCK.RELEASE k ann");
        assert_eq!(ear.drain(&server, channel), expected, "{setting}");
    }
}

#[test]
fn a_cluster_node_publishes_to_the_shard() {
    let (server, mut client) = node();
    let channel = "redisson_lock__channel:{k}";
    let mut ear = Ear::on(&server, channel);
    for (setting, expected) in
        [("auto", heard(&[], &["0"])), ("publish", heard(&["0"], &[])), ("both", heard(&["0"], &["0"]))]
    {
        client.say(&format!("CONFIG SET rlock.notify {setting}"));
        client.say("RLOCK.ACQUIRE k ann 600000");
        client.say("RLOCK.RELEASE k ann");
        assert_eq!(ear.drain(&server, channel), expected, "{setting}");
    }
}

#[test]
fn subscribers_on_a_replica_hear_it_too() {
    let master = Server::start();
    let replica = Server::prepare().without_module().start();
    let mut client = master.client();
    replica.follow(&master);
    let channel = "redisson_rwlock:{k}";
    let mut ear = Ear::on(&replica, channel);
    client.say("CONFIG SET rlock.notify both");
    client.say("RLOCK.WACQUIRE k ann 600000");
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(ear.drain(&master, channel), heard(&["1"], &["1"]));
}
