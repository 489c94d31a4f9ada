//! What the server and its tools see of the commands: flags, arity, keys, documentation, access rights; and settings.

use rlock_testing::{Client, Reply, Server, ServerVersion, list, text};

/// Each command with its arity, its flags except `module`, and what it does to its key if it has one. CANCEL writes, as it may
/// release locks. EVENTS is `stale`, as a server that has become a replica still delivers events.
const COMMANDS: [(&str, i64, &str, &str); 15] = [
    ("rlock.acquire", -4, "write denyoom", "RW access update"),
    ("rlock.racquire", -4, "write denyoom", "RW access update"),
    ("rlock.wacquire", -4, "write denyoom", "RW access update"),
    ("rlock.pacquire", -6, "write denyoom", "RW access update"),
    ("rlock.macquire", -5, "write denyoom movablekeys", "RW access update"),
    ("rlock.once", -4, "write denyoom", "RW access update"),
    ("rlock.answer", 6, "write denyoom", "RW access update"),
    ("rlock.release", -3, "write", "RW access delete"),
    ("rlock.renew", 4, "write", "RW access update"),
    ("rlock.inspect", -2, "readonly", "RO access"),
    ("rlock.queues", -1, "readonly noscript", ""),
    ("rlock.sessions", -1, "admin noscript stale", ""),
    ("rlock.break", 2, "write admin", "RW access delete"),
    ("rlock.events", -2, "stale", ""),
    ("rlock.cancel", -2, "write", ""),
];

fn info(client: &mut Client, command: &str) -> Vec<Reply> {
    client.run(&["COMMAND", "INFO", command]).as_list()[0].as_list().to_vec()
}

#[test]
fn flags_arity_and_keys() {
    let (_server, mut client) = Server::with_client();
    for (command, arity, expected, to_key) in COMMANDS {
        let info = info(&mut client, command);
        assert_eq!(info[1], Reply::Int(arity), "{command}");
        let flags: Vec<_> = info[2].words().into_iter().filter(|flag| *flag != "module").collect();
        assert_eq!(flags.join(" "), expected, "{command}");
        let (has_key, has_several) = (!to_key.is_empty(), command == "rlock.macquire");
        let place = i64::from(has_key && !has_several);
        assert_eq!(info[3..6], [place; 3].map(Reply::Int), "{command}");
        if has_key {
            let documented: Vec<_> = info[8].words().into_iter().skip(1).take(to_key.split(' ').count()).collect();
            assert_eq!(documented.join(" "), to_key, "{command}");
            let words = ["COMMAND", "GETKEYS", command, "1", "the-key", "h", "1000", "LIMIT", "9"];
            let mut words: Vec<_> = words.into_iter().filter(|word| has_several || *word != "1").collect();
            words.truncate(2 + usize::try_from(arity.abs()).unwrap());
            assert_eq!(client.run(&words), list([text("the-key")]), "{command}");
        } else {
            assert_eq!(info[8], list([]), "{command} has no key");
        }
    }
}

#[test]
fn every_command_documents_itself_and_its_bounds() {
    let (_server, mut client) = Server::with_client();
    let count = "1 to 10000, 100 by default";
    // A bound on the queue, and the session and ticket as a block: all are optional.
    let acquires = " WAIT MAX max-waiters integer FENCED SESSION block session ticket optional";
    let documented: [(&str, &str, &[&str]); 15] = [
        ("rlock.acquire", "key holder", &[]),
        ("rlock.racquire", "key holder", &[]),
        ("rlock.wacquire", "key holder", &[]),
        ("rlock.pacquire", "key holder LIMIT limit", &["at most 1000"]),
        ("rlock.macquire", "numkeys key multiple holder", &[]),
        ("rlock.once", "key holder WAIT MAX max-waiters integer SESSION block session ticket optional", &[]),
        ("rlock.answer", "key holder value KEEP keep-ms", &[]),
        ("rlock.release", "key holder READ WRITE LEASE ALL", &[]),
        ("rlock.renew", "key holder", &[]),
        ("rlock.inspect", "COUNT", &["at most at 10000", count]),
        ("rlock.queues", "COUNT", &["at most at 2000", count]),
        ("rlock.sessions", "COUNT END", &[count]),
        ("rlock.break", "key", &["at most at 100000"]),
        ("rlock.events", "session ACK WAIT TTL", &[]),
        ("rlock.cancel", "session ticket multiple", &[]),
    ];
    for (command, arguments, bounds) in documented {
        let docs = client.run(&["COMMAND", "DOCS", command]);
        let words = docs.words();
        let arguments =
            if command.ends_with("acquire") { format!("{arguments}{acquires}") } else { arguments.to_owned() };
        for expected in "summary since 0.1.0 complexity arguments".split(' ').chain(arguments.split(' ')) {
            assert!(words.contains(&expected), "{command} lacks {expected}: {words:?}");
        }
        for bound in bounds {
            assert!(words.iter().any(|word| word.contains(bound)), "{command} does not tell {bound}: {words:?}");
        }
    }
}

/// Before Redis 7.2 modules' commands are in no category, and before 7.4 in none of their own.
#[test]
fn commands_are_in_acl_categories_where_servers_let_modules_choose() {
    let (server, mut client) = Server::with_client();
    let version = ServerVersion::under_test();
    let services = [
        "rlock.acquire k h 600000",
        "rlock.renew k h 600000",
        "rlock.release k h",
        "rlock.racquire k h 600000",
        "rlock.release k h ALL",
        "rlock.wacquire k h 600000",
        "rlock.pacquire p h 600000 LIMIT 1",
        "rlock.macquire 2 l m h 600000",
        "rlock.once o h 600000",
        "rlock.answer o h v KEEP 600000",
        "rlock.events the-session-of-ann",
        "rlock.cancel the-session-of-ann",
    ];
    let allowed: [(&[&str], [&str; 2]); 3] = [
        (&services, ["@write", "@rlock"]),
        (&["rlock.inspect k", "rlock.queues"], ["@read"; 2]),
        (&["rlock.break k", "rlock.sessions"], ["@admin", "@dangerous"]),
    ];
    for (category, (major, minor)) in
        [("@write", (7, 2)), ("@read", (7, 2)), ("@admin", (7, 2)), ("@dangerous", (7, 2)), ("@rlock", (7, 4))]
    {
        let has_any = version.has_what_redis_has(major, minor);
        let mut user = has_any.then(|| server.user("ann", &format!("~* +{category}")));
        for (commands, categories) in allowed {
            let is_in = has_any && categories.contains(&category);
            for command in commands {
                let documented = info(&mut client, command.split(' ').next().unwrap())[6].clone();
                assert_eq!(documented.words().contains(&category), is_in, "{command} {category}: {documented:?}");
                let reply = user.as_mut().map(|user| user.say(command));
                let is_denied = matches!(&reply, Some(Reply::Error(line)) if line.starts_with("NOPERM"));
                assert_eq!(is_denied, has_any && !is_in, "{category}, {command}: {reply:?}");
            }
        }
    }
}

#[test]
fn settings_are_read_and_changed_at_run_time() {
    let (_server, mut client) = Server::with_client();
    for (setting, default, right, wrong) in [
        ("rlock.notify", "auto", ["publish", "spublish", "both", "off", "auto"], ["loud", "0", "-"]),
        ("rlock.grace", "0", ["0", "1", "2", "86400000", "5"], ["-1", "86400001", "many"]),
        ("rlock.max-answer", "65536", ["0", "1", "2", "8388608", "5"], ["-1", "8388609", "many"]),
        ("rlock.max-waiters", "10000", ["0", "1", "2", "1000000", "5"], ["-1", "1000001", "many"]),
        ("rlock.max-tickets", "1000000", ["0", "1", "2", "100000000", "5"], ["-1", "100000001", "many"]),
        ("rlock.max-tickets-per-user", "0", ["0", "1", "2", "100000000", "5"], ["-1", "100000001", "many"]),
        ("rlock.max-sessions", "10000", ["0", "1", "2", "1000000", "5"], ["-1", "1000001", "many"]),
        ("rlock.max-sessions-per-user", "0", ["0", "1", "2", "1000000", "5"], ["-1", "1000001", "many"]),
    ] {
        let get = format!("CONFIG GET {setting}");
        assert_eq!(client.say(&get), list([text(setting), text(default)]));
        for value in right {
            assert_eq!(client.say(&format!("CONFIG SET {setting} {value}")), text("OK"));
            assert_eq!(client.say(&get), list([text(setting), text(value)]));
        }
        for value in wrong {
            assert!(client.say(&format!("CONFIG SET {setting} {value}")).as_error().starts_with("ERR"), "{value}");
        }
        assert_eq!(client.say(&get), list([text(setting), text(right[4])]));
    }
}
