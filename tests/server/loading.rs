//! Loading, with settings and without, and unloading.

use rlock_testing::{Reply, Server, list, text, wait_until};

#[test]
fn load_arguments_set_the_settings() {
    for arguments in [&["notify", "both", "max-waiters", "7"], &["RLOCK.MAX-WAITERS", "7", "rlock.notify", "BOTH"]] {
        let server = Server::prepare().load_arguments(arguments).start();
        let mut client = server.client();
        assert_eq!(client.say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text("both")]));
        assert_eq!(client.say("CONFIG GET rlock.max-waiters"), list([text("rlock.max-waiters"), text("7")]));
    }
}

#[test]
fn the_configuration_comes_after_the_load_arguments() {
    let server = Server::prepare().options(&["--rlock.notify", "off"]).load_arguments(&["notify", "both"]).start();
    assert_eq!(server.client().say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text("off")]));
}

#[test]
fn loadex_sets_the_settings() {
    let server = Server::start();
    let mut client = server.client();
    let modules = client.say("MODULE LIST");
    let path = modules.words().into_iter().find(|word| word.ends_with(".so")).unwrap().to_owned();
    assert_eq!(client.say("MODULE UNLOAD rlock"), text("OK"));
    let command = ["MODULE", "LOADEX", &path, "CONFIG", "rlock.notify", "spublish", "ARGS", "max-waiters", "3"];
    assert_eq!(client.run(&command), text("OK"));
    assert_eq!(client.say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text("spublish")]));
    assert_eq!(client.say("CONFIG GET rlock.max-waiters"), list([text("rlock.max-waiters"), text("3")]));
}

#[test]
fn a_wrong_load_argument_stops_the_load_and_says_why() {
    for (arguments, reason) in [
        (&["notify", "loud"][..], "auto, publish, spublish, both or off"),
        (&["notify"], "auto, publish, spublish, both or off"),
        (&["max-waiters", "-1"], "from 0 to 1000000"),
        (&["%s%n", "x"], "is not a setting"),
    ] {
        let log = Server::prepare().load_arguments(arguments).try_start().err().expect("the server does not start");
        assert!(log.contains("rlock is not loaded") && log.contains(reason), "{log}");
    }
}

#[test]
fn a_renamed_command_that_replicas_need_stops_the_load_and_says_why() {
    for name in
        ["HINCRBY", "HSET", "HDEL", "PEXPIREAT", "DEL", "SET", "INCR", "PUBLISH", "SPUBLISH", "MULTI", "SETRANGE"]
    {
        let start = Server::prepare().options(&["--rename-command", name, "hidden"]);
        let log = start.try_start().err().expect("the server does not start");
        assert!(log.contains(&format!("{name} must be there under its own name")), "{log}");
    }
    let server = Server::prepare().options(&["--rename-command", "FLUSHALL", "hidden"]).start();
    assert_eq!(server.client().say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
}

/// Some servers would end: a rule must not name a command that goes, nor must a command wait in a pause for its turn.
#[test]
fn it_is_not_unloaded_where_that_would_end_the_server() {
    let server = Server::start();
    let (mut client, mut postponed) = (server.client(), server.client());
    for (rule, way_back) in [("+rlock.acquire", "-@all"), ("+@all -rlock.break", "+@all")] {
        client.say(&format!("ACL SETUSER service on nopass ~app:* {rule}"));
        assert!(matches!(client.say("MODULE UNLOAD rlock"), Reply::Error(_)), "{rule}");
        client.say(&format!("ACL SETUSER service {way_back}"));
    }
    client.say("CLIENT PAUSE 600000 WRITE");
    postponed.send(&["RLOCK.ACQUIRE", "k", "ann", "600000"]);
    assert!(matches!(client.say("MODULE UNLOAD rlock"), Reply::Error(_)));
    wait_until("it is said why", || server.log().contains("rlock is not unloaded: writes are paused"));
    client.say("CLIENT UNPAUSE");
    assert_eq!(postponed.receive(), Reply::Nil);
    assert_eq!(client.say("MODULE UNLOAD rlock"), text("OK"));
    assert_eq!(client.say("PING"), text("PONG"));
}

#[test]
fn unloading_takes_the_commands_away_and_leaves_the_locks() {
    let server = Server::start();
    let mut client = server.client();
    let modules = client.say("MODULE LIST");
    let path = modules.words().into_iter().find(|word| word.ends_with(".so")).unwrap().to_owned();
    for count in 1..=3_i64 {
        assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
        assert_eq!(client.say("MODULE UNLOAD rlock"), text("OK"));
        assert!(client.say("RLOCK.ACQUIRE k ann 600000").as_error().contains("unknown command"));
        assert_eq!(client.hash("k"), [("ann".to_owned(), count.to_string())]);
        assert_eq!(client.run(&["MODULE", "LOAD", &path]), text("OK"));
    }
    assert_eq!(client.say("RLOCK.RELEASE k ann ALL"), Reply::Int(1));
}

#[test]
fn the_example_configuration_works_as_it_is() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("redis.conf.example")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis.conf");
    let lines = example.lines().filter(|line| !line.starts_with("loadmodule "));
    assert!(example.lines().any(|line| line.starts_with("loadmodule ")), "the example loads the module");
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let server = Server::prepare().configuration(&path).start();
    let mut client = server.client();
    assert_eq!(client.say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
    assert_eq!(
        client.say("CONFIG GET maxmemory-policy"),
        list([text("maxmemory-policy"), text("noeviction")]),
        "an evicted lock would be a lock with two holders"
    );
}

#[test]
fn slots_may_move_although_the_module_is_loaded() {
    // Valkey 9 refuses to move any slot while a module is loaded that does not say it can take it.
    let server = Server::prepare().in_cluster().start();
    let mut client = server.client();
    client.say("CLUSTER ADDSLOTSRANGE 0 16383");
    let reply = client.run(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", "1", "NODE", &"0".repeat(40)]);
    assert!(!reply.as_error().to_ascii_lowercase().contains("module"), "{reply:?}");
}
