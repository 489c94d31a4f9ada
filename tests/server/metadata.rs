//! What the server and its tools are told of the commands: flags, arity, keys, documentation, access rights.

use rlock_testing::{Client, Reply, Server, ServerVersion, list, text};

const COMMANDS: [&str; 5] = ["rlock.acquire", "rlock.racquire", "rlock.wacquire", "rlock.release", "rlock.renew"];

fn info(client: &mut Client, command: &str) -> Vec<Reply> {
    let Reply::List(infos) = client.run(&["COMMAND", "INFO", command]) else { panic!("a list") };
    infos[0].as_list().to_vec()
}

#[test]
fn flags_and_arity() {
    let server = Server::start();
    let mut client = server.client();
    for (command, arity, deny_oom) in [
        ("rlock.acquire", -4, true),
        ("rlock.racquire", -4, true),
        ("rlock.wacquire", -4, true),
        ("rlock.release", -3, false),
        ("rlock.renew", 4, false),
    ] {
        let info = info(&mut client, command);
        assert_eq!(info[1], Reply::Int(arity), "{command}");
        let flags = info[2].words();
        assert!(flags.contains(&"write"), "{command}: {flags:?}");
        assert_eq!(flags.contains(&"denyoom"), deny_oom, "{command}: {flags:?}");
        assert!(!flags.contains(&"readonly"), "{command}: {flags:?}");
    }
}

#[test]
fn the_key_is_the_first_argument() {
    let server = Server::start();
    let mut client = server.client();
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
fn every_command_documents_itself() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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
