//! What the server and its tools are told of EVENTS and CANCEL, and of the SESSION block of the commands that acquire.

use rlock_testing::{Client, Reply, Server, ServerVersion, list, text};

const COMMANDS: [&str; 2] = ["rlock.events", "rlock.cancel"];

fn info(client: &mut Client, command: &str) -> Vec<Reply> {
    let Reply::List(infos) = client.run(&["COMMAND", "INFO", command]) else { panic!("a list") };
    infos[0].as_list().to_vec()
}

#[test]
fn flags_arity_and_no_key() {
    let (_server, mut client) = Server::with_client();
    // Taking back may release locks. Events are told by a server that is a replica by now, and knows no better.
    for (command, expected) in [("rlock.events", ["stale"].as_slice()), ("rlock.cancel", &["write"])] {
        let info = info(&mut client, command);
        assert_eq!(info[1], Reply::Int(-2), "{command}");
        let flags: Vec<_> = info[2].words().into_iter().filter(|flag| *flag != "module").collect();
        assert_eq!(flags, expected, "{command}");
        assert_eq!(info[3..6], [Reply::Int(0), Reply::Int(0), Reply::Int(0)], "{command}");
        assert_eq!(info[8], list([]), "{command} has no key");
    }
}

#[test]
fn services_may_use_them_where_servers_let_modules_choose() {
    let server = Server::start();
    let (mut client, mut user) = (server.client(), server.client());
    let version = ServerVersion::under_test();
    for (category, since) in [("@write", (7, 2)), ("@rlock", (7, 4))] {
        let expected = version.has_what_redis_has(since.0, since.1);
        for command in COMMANDS {
            let categories = info(&mut client, command)[6].clone();
            assert_eq!(categories.words().contains(&category), expected, "{command} {category}: {categories:?}");
        }
        if expected {
            client.say(&format!("ACL SETUSER ann reset on >secret +{category}"));
            user.say("AUTH ann secret");
            assert_eq!(user.say("RLOCK.EVENTS the-session-of-ann"), list([]), "{category}");
            assert_eq!(user.say("RLOCK.CANCEL the-session-of-ann"), Reply::Int(0), "{category}");
        }
    }
}

#[test]
fn they_document_themselves() {
    let (_server, mut client) = Server::with_client();
    for (command, arguments) in
        [("rlock.events", ["session", "ACK", "WAIT", "TTL"].as_slice()), ("rlock.cancel", &["session", "ticket"])]
    {
        let docs = client.run(&["COMMAND", "DOCS", command]);
        let words = docs.words();
        for expected in ["summary", "since", "0.1.0", "complexity", "arguments"].iter().chain(arguments) {
            assert!(words.contains(expected), "{command} lacks {expected}: {words:?}");
        }
    }
    let docs = client.run(&["COMMAND", "DOCS", "rlock.cancel"]);
    assert!(docs.words().contains(&"multiple"), "any number of tickets: {docs:?}");
}

/// The value behind a name, of a map that is told as a flat list.
fn of<'a>(map: &'a Reply, name: &str) -> Option<&'a Reply> {
    map.as_list().chunks(2).find(|pair| pair[0] == text(name)).map(|pair| &pair[1])
}

#[test]
fn what_acquires_documents_the_session_with_its_two_names() {
    let (_server, mut client) = Server::with_client();
    for command in ["rlock.acquire", "rlock.racquire", "rlock.wacquire"] {
        let docs = client.run(&["COMMAND", "DOCS", command]);
        let arguments = of(&docs.as_list()[1], "arguments").unwrap().as_list();
        let block = arguments.iter().find(|argument| of(argument, "token") == Some(&text("SESSION"))).unwrap();
        assert_eq!(of(block, "type"), Some(&text("block")), "{command}");
        assert_eq!(of(block, "flags"), Some(&list([text("optional")])), "{command}");
        let names: Vec<_> = of(block, "arguments").unwrap().as_list().iter().map(|name| of(name, "name")).collect();
        assert_eq!(names, [Some(&text("session")), Some(&text("ticket"))], "{command}");
    }
}

#[test]
fn limits_are_read_and_changed_at_run_time() {
    let (_server, mut client) = Server::with_client();
    for (setting, default, most) in [
        ("rlock.max-tickets", "1000000", 100_000_000_i64),
        ("rlock.max-sessions", "10000", 1_000_000),
        ("rlock.max-sessions-per-user", "0", 1_000_000),
    ] {
        let get = format!("CONFIG GET {setting}");
        assert_eq!(client.say(&get), list([text(setting), text(default)]));
        for value in [0, most, 5] {
            assert_eq!(client.say(&format!("CONFIG SET {setting} {value}")), text("OK"));
        }
        for wrong in ["-1".to_owned(), (most + 1).to_string(), "many".to_owned()] {
            assert!(client.say(&format!("CONFIG SET {setting} {wrong}")).as_error().starts_with("ERR"), "{wrong}");
        }
        assert_eq!(client.say(&get), list([text(setting), text("5")]));
    }
    let server = Server::prepare().load_arguments(&["max-tickets", "7", "max-sessions", "8"]).start();
    let mut client = server.client();
    assert_eq!(client.say("CONFIG GET rlock.max-tickets"), list([text("rlock.max-tickets"), text("7")]));
    assert_eq!(client.say("CONFIG GET rlock.max-sessions"), list([text("rlock.max-sessions"), text("8")]));
}
