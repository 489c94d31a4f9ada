//! Loading, with settings and without; and that there is no unloading.

use rlock_testing::{Client, Reply, Server, list, text, wait_until};

#[test]
fn load_arguments_set_the_settings() {
    for arguments in [
        &["notify", "both", "max-waiters", "7", "max-tickets", "8", "max-sessions", "9"][..],
        &["RLOCK.MAX-WAITERS", "7", "rlock.notify", "BOTH"],
    ] {
        let server = Server::prepare().load_arguments(arguments).start();
        for pair in arguments.chunks(2) {
            let [setting, value] = [pair[0], pair[1]].map(str::to_lowercase);
            let setting = format!("rlock.{}", setting.trim_start_matches("rlock."));
            let get = format!("CONFIG GET {setting}");
            assert_eq!(server.client().say(&get), list([text(&setting), text(&value)]));
        }
    }
}

#[test]
fn the_configuration_comes_after_the_load_arguments() {
    let server = Server::prepare().options(&["--rlock.notify", "off"]).load_arguments(&["notify", "both"]).start();
    assert_eq!(server.client().say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text("off")]));
}

#[test]
fn loadex_sets_the_settings() {
    let server = Server::prepare().without_module().start();
    let mut client = server.client();
    let path = rlock_testing::module();
    let command =
        ["MODULE", "LOADEX", path.to_str().unwrap(), "CONFIG", "rlock.notify", "spublish", "ARGS", "max-waiters", "3"];
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
        "HINCRBY HSET HDEL PEXPIREAT DEL SET INCR PUBLISH SPUBLISH MULTI SETRANGE ZADD ZREM ZREMRANGEBYRANK".split(' ')
    {
        let start = Server::prepare().options(&["--rename-command", name, "hidden"]);
        let log = start.try_start().err().expect("the server does not start");
        assert!(log.contains(&format!("{name} must be there under its own name")), "{log}");
    }
    let server = Server::prepare().options(&["--rename-command", "FLUSHALL", "hidden"]).start();
    assert_eq!(server.client().say("RLOCK.ACQUIRE k ann 600000"), Reply::Nil);
}

/// Sentinel leaves such a file after a failover, if the module comes from the command line.
#[test]
fn a_second_load_says_what_to_remove() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis.conf");
    std::fs::write(&path, format!("loadmodule {}\n", rlock_testing::module().display())).unwrap();
    let log = Server::prepare().configuration(&path).try_start().err().expect("the server does not start");
    let line = "rlock is loaded already: remove loadmodule from the file or the command line";
    assert_eq!(log.matches(line).count(), 1, "{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}

/// Some servers would crash: if an ACL rule names a removed command, or if a pause has postponed a command. Others may crash
/// in other ways.
#[test]
fn it_is_never_unloaded() {
    let server = Server::start();
    let (mut client, mut postponed) = (server.client(), server.client());
    let mut refusals = 0;
    let mut is_refused = |client: &mut Client| {
        assert!(matches!(client.say("MODULE UNLOAD rlock"), Reply::Error(_)));
        refusals += 1;
        // While an ACL rule names a command of the module, Valkey from 9.1 on refuses by itself.
        let said =
            |log: &str| ["rlock is not unloaded: ", "rlock unload blocked: "].map(|why| log.matches(why).count());
        wait_until("it is said why", || said(&server.log()).iter().sum::<usize>() == refusals);
    };
    is_refused(&mut client);
    client.say("ACL SETUSER service on nopass ~app:* +rlock.acquire");
    is_refused(&mut client);
    client.say("CLIENT PAUSE 600000 WRITE");
    postponed.send(&["RLOCK.ACQUIRE", "k", "ann", "600000"]);
    is_refused(&mut client);
    client.say("CLIENT UNPAUSE");
    assert_eq!(postponed.receive(), Reply::Nil);
    assert!(matches!(client.say("RLOCK.ACQUIRE k bob 600000"), Reply::Int(_)), "it goes on as before");
}

/// This is how an upgrade goes.
#[test]
fn a_restart_without_the_module_leaves_the_locks_and_one_with_it_goes_on_with_them() {
    let (server, mut client) = Server::with_client();
    let before = client.say("RLOCK.ACQUIRE k ann 600000 FENCED").token();
    client.say("SAVE");
    let server = server.crash().without_module().start();
    let mut client = server.client();
    assert!(client.say("RLOCK.ACQUIRE k ann 600000").as_error().contains("unknown command"));
    assert_eq!(client.fields("k"), "{ann:1}");
    client.say("SAVE");
    let server = server.crash().start();
    let mut client = server.client();
    let after = client.say("RLOCK.ACQUIRE k ann 600000 FENCED").token();
    assert!(before < after, "{after} after {before}");
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
    // Valkey 9 moves no slot while a module is loaded that does not declare that it can take it.
    let server = Server::prepare().in_cluster().start();
    let mut client = server.client();
    client.say("CLUSTER ADDSLOTSRANGE 0 16383");
    let reply = client.run(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", "1", "NODE", &"0".repeat(40)]);
    assert!(!reply.as_error().to_ascii_lowercase().contains("module"), "{reply:?}");
}
