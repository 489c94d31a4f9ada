//! What the server and its tools are told of the commands: flags, arity, keys, documentation, access rights.

use rlock_testing::{Client, Reply, Server, ServerVersion, list, text};

/// What services need.
const COMMANDS: [&str; 5] = ["rlock.acquire", "rlock.racquire", "rlock.wacquire", "rlock.release", "rlock.renew"];

fn info(client: &mut Client, command: &str) -> Vec<Reply> {
    let Reply::List(infos) = client.run(&["COMMAND", "INFO", command]) else { panic!("a list") };
    infos[0].as_list().to_vec()
}

#[test]
fn flags_and_arity() {
    let (_server, mut client) = Server::with_client();
    for (command, arity, deny_oom) in [
        ("rlock.acquire", -4, true),
        ("rlock.racquire", -4, true),
        ("rlock.wacquire", -4, true),
        ("rlock.release", -3, false),
        ("rlock.renew", 4, false),
        ("rlock.break", 2, false),
    ] {
        let info = info(&mut client, command);
        assert_eq!(info[1], Reply::Int(arity), "{command}");
        let flags = info[2].words();
        assert!(flags.contains(&"write"), "{command}: {flags:?}");
        assert_eq!(flags.contains(&"denyoom"), deny_oom, "{command}: {flags:?}");
        assert!(!flags.contains(&"readonly"), "{command}: {flags:?}");
        assert_eq!(flags.contains(&"admin"), command == "rlock.break", "{command}: {flags:?}");
    }
    for (command, arity, in_scripts) in [("rlock.inspect", -2, true), ("rlock.queues", -1, false)] {
        let info = info(&mut client, command);
        assert_eq!(info[1], Reply::Int(arity), "{command}");
        let flags = info[2].words();
        assert!(flags.contains(&"readonly"), "{command}: {flags:?}");
        assert!(!flags.contains(&"write") && !flags.contains(&"admin"), "{command}: {flags:?}");
        assert_eq!(flags.contains(&"noscript"), !in_scripts, "{command}: {flags:?}");
    }
    let sessions = info(&mut client, "rlock.sessions");
    let flags: Vec<_> = sessions[2].words().into_iter().filter(|flag| *flag != "module").collect();
    assert_eq!((&sessions[1], flags), (&Reply::Int(-1), vec!["admin", "noscript", "stale"]));
}

#[test]
fn the_key_is_the_first_argument() {
    let (_server, mut client) = Server::with_client();
    for command in COMMANDS {
        let info = info(&mut client, command);
        assert_eq!(info[3..6], [Reply::Int(1), Reply::Int(1), Reply::Int(1)], "{command}");
        let key_spec = info[8].words();
        assert!(key_spec.contains(&"RW") && key_spec.contains(&"access"), "{command}: {key_spec:?}");
        let change = if command == "rlock.release" { "delete" } else { "update" };
        assert!(key_spec.contains(&change), "{command}: {key_spec:?}");
        let keys = client.run(&["COMMAND", "GETKEYS", command, "the-key", "h", "1000"]);
        let expected = if command == "rlock.release" {
            client.run(&["COMMAND", "GETKEYS", command, "the-key", "h"])
        } else {
            list([text("the-key")])
        };
        assert_eq!(keys, expected, "{command}");
    }
}

#[test]
fn the_commands_of_people_on_call_say_what_they_do_to_keys() {
    let (_server, mut client) = Server::with_client();
    for (command, flags) in
        [("rlock.inspect", ["RO", "access"].as_slice()), ("rlock.break", &["RW", "access", "delete"])]
    {
        let info = info(&mut client, command);
        assert_eq!(info[3..6], [Reply::Int(1), Reply::Int(1), Reply::Int(1)], "{command}");
        assert_eq!(info[8].words()[1..=flags.len()], *flags, "{command}");
        assert_eq!(client.run(&["COMMAND", "GETKEYS", command, "the-key"]), list([text("the-key")]), "{command}");
    }
    for command in ["rlock.queues", "rlock.sessions"] {
        let info = info(&mut client, command);
        assert_eq!(info[3..6], [Reply::Int(0), Reply::Int(0), Reply::Int(0)], "{command}");
        assert_eq!(info[8], list([]), "{command} has no key");
    }
}

#[test]
fn the_commands_of_people_on_call_document_themselves_and_their_bounds() {
    let (_server, mut client) = Server::with_client();
    let count = "1 to 10000, 100 by default";
    let bounds: [(&str, &[&str], &str); 5] = [
        ("rlock.inspect", &["at most at 10000", count], "COUNT"),
        ("rlock.queues", &["at most at 2000", count], "COUNT"),
        ("rlock.sessions", &[count], "COUNT"),
        ("rlock.sessions", &[], "END"),
        ("rlock.break", &["at most at 100000"], "key"),
    ];
    for (command, bounds, argument) in bounds {
        let docs = client.run(&["COMMAND", "DOCS", command]);
        let words = docs.words();
        for expected in ["summary", "since", "0.1.0", "complexity", "arguments", argument] {
            assert!(words.contains(&expected), "{command} lacks {expected}: {words:?}");
        }
        for bound in bounds {
            assert!(words.iter().any(|word| word.contains(bound)), "{command} does not tell {bound}: {words:?}");
        }
    }
}

#[test]
fn every_command_documents_itself() {
    let (_server, mut client) = Server::with_client();
    for command in COMMANDS {
        let docs = client.run(&["COMMAND", "DOCS", command]);
        let words = docs.words();
        for expected in ["summary", "since", "0.1.0", "complexity", "arguments", "key", "holder"] {
            assert!(words.contains(&expected), "{command} lacks {expected}: {words:?}");
        }
        let options: &[&str] = match command {
            "rlock.release" => &["READ", "WRITE", "LEASE", "ALL"],
            "rlock.renew" => &[],
            _ => &["WAIT", "FENCED"],
        };
        for option in options {
            assert!(words.contains(option), "{command} lacks {option}: {words:?}");
        }
    }
}

#[test]
fn a_user_is_held_to_commands_and_keys() {
    let server = Server::start();
    let mut admin = server.client();
    let mut user = server.client();
    admin.say("ACL SETUSER ann on >secret ~app:* resetchannels +rlock.acquire");
    user.say("AUTH ann secret");
    assert_eq!(user.say("RLOCK.ACQUIRE app:1 h 600000"), Reply::Nil);
    assert!(user.say("RLOCK.ACQUIRE other:1 h 600000").as_error().starts_with("NOPERM"));
    assert!(user.say("RLOCK.RELEASE app:1 h").as_error().starts_with("NOPERM"));
    admin.say("ACL SETUSER ann +rlock.release");
    assert_eq!(user.say("RLOCK.RELEASE app:1 h"), Reply::Int(1), "unlocking needs no right to the channel");
}

#[test]
fn commands_are_in_acl_categories_where_servers_let_modules_choose() {
    let (_server, mut client) = Server::with_client();
    let version = ServerVersion::under_test();
    for (category, since) in [("@write", (7, 2)), ("@rlock", (7, 4))] {
        for command in COMMANDS {
            let categories = info(&mut client, command)[6].clone();
            let expected = version.has_what_redis_has(since.0, since.1);
            assert_eq!(categories.words().contains(&category), expected, "{command} {category}: {categories:?}");
        }
    }
}

#[test]
fn breaking_is_for_operators_and_looking_for_readers() {
    let server = Server::start();
    let (mut client, mut user) = (server.client(), server.client());
    // Before Redis 7.2 modules' commands are in no category.
    let has_categories = ServerVersion::under_test().has_what_redis_has(7, 2);
    for (command, expected) in [
        ("rlock.inspect", ["@read"].as_slice()),
        ("rlock.queues", &["@read"]),
        ("rlock.break", &["@admin", "@dangerous"]),
        ("rlock.sessions", &["@admin", "@dangerous"]),
    ] {
        let categories = info(&mut client, command)[6].clone();
        assert_eq!(categories.words(), if has_categories { expected } else { &[] }, "{command}");
        for category in expected.iter().filter(|_| has_categories) {
            client.say(&format!("ACL SETUSER ann reset on >secret ~* +{category}"));
            user.say("AUTH ann secret");
            let has_key = !["rlock.queues", "rlock.sessions"].contains(&command);
            let arguments: &[&str] = if has_key { &["k"] } else { &[] };
            let reply = user.run(&[&[command], arguments].concat());
            assert!(!matches!(reply, Reply::Error(_)), "{category} lacks {command}: {reply:?}");
        }
    }
}

#[test]
fn what_services_are_given_does_not_break_locks() {
    let server = Server::start();
    let (mut admin, mut user) = (server.client(), server.client());
    let version = ServerVersion::under_test();
    admin.say("RLOCK.ACQUIRE app:1 h 600000");
    let mut break_as = |rights: &str| {
        admin.say(&format!("ACL SETUSER ann reset on >secret ~app:* {rights}"));
        user.say("AUTH ann secret");
        let reply = user.say("RLOCK.BREAK app:1");
        admin.say("RLOCK.ACQUIRE app:1 h 600000");
        reply
    };
    let refused = |reply: &Reply| reply.as_error().starts_with("NOPERM");
    assert_eq!(break_as("+rlock.break"), Reply::Int(1));
    assert!(refused(&break_as("+rlock.acquire +rlock.release")));
    for (rights, since) in
        [("+@write", (7, 2)), ("+@write +@read", (7, 2)), ("+@rlock", (7, 4)), ("+@all -@dangerous", (7, 2))]
    {
        if version.has_what_redis_has(since.0, since.1) {
            assert!(refused(&break_as(rights)), "{rights}");
        }
    }
    for rights in ["+@admin", "+@dangerous"] {
        if version.has_what_redis_has(7, 2) {
            assert_eq!(break_as(rights), Reply::Int(1), "{rights}");
        }
    }
    assert!(refused(&user.say("RLOCK.BREAK other")), "nor a key that is not theirs");
}

#[test]
fn a_category_lets_its_users_lock() {
    let server = Server::start();
    let (mut admin, mut user) = (server.client(), server.client());
    let version = ServerVersion::under_test();
    for (category, since) in [("@write", (7, 2)), ("@rlock", (7, 4))] {
        if version.has_what_redis_has(since.0, since.1) {
            admin.say(&format!("ACL SETUSER ann reset on >secret ~app:* +{category}"));
            user.say("AUTH ann secret");
            assert_eq!(user.say("RLOCK.ACQUIRE app:1 h 600000"), Reply::Nil, "{category}");
            assert_eq!(user.say("RLOCK.RELEASE app:1 h"), Reply::Int(1), "{category}");
        }
    }
}

#[test]
fn settings_are_read_and_changed_at_run_time() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text("auto")]));
    assert_eq!(client.say("CONFIG GET rlock.max-waiters"), list([text("rlock.max-waiters"), text("10000")]));
    for value in ["publish", "spublish", "both", "off", "auto"] {
        assert_eq!(client.say(&format!("CONFIG SET rlock.notify {value}")), text("OK"));
        assert_eq!(client.say("CONFIG GET rlock.notify"), list([text("rlock.notify"), text(value)]));
    }
    for value in ["0", "1000000", "5"] {
        assert_eq!(client.say(&format!("CONFIG SET rlock.max-waiters {value}")), text("OK"));
    }
    for wrong in ["rlock.notify loud", "rlock.max-waiters -1", "rlock.max-waiters 1000001", "rlock.max-waiters many"] {
        assert!(client.say(&format!("CONFIG SET {wrong}")).as_error().starts_with("ERR"), "{wrong}");
    }
    assert_eq!(client.say("CONFIG GET rlock.max-waiters"), list([text("rlock.max-waiters"), text("5")]));
}
