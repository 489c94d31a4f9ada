//! The users that the page shows: each may do what is said of it, and nothing else.

use super::PAGE;
use rlock_testing::{Client, Reply, Server, start_waiting};

fn user_line(name: &str) -> &'static str {
    let lines = PAGE.blocks("acl").into_iter().flat_map(str::lines);
    lines.filter_map(|line| line.strip_prefix("user ")).find(|line| line.starts_with(&format!("{name} "))).unwrap()
}

/// A connection as this user of the page.
fn client_as(server: &Server, name: &str) -> Client {
    let made = server.client().say(&format!("ACL SETUSER {}", user_line(name)));
    assert_eq!(made.words(), ["OK"], "{made:?}");
    let mut client = server.client();
    assert_eq!(client.say(&format!("AUTH {name} change-me")).words(), ["OK"]);
    client
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(line) if line.starts_with("NOPERM"))
}

fn may(client: &mut Client, command: &str) {
    let reply = client.say(command);
    assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
}

fn may_not(client: &mut Client, commands: &[&str]) {
    for command in commands {
        let reply = client.say(command);
        assert!(is_refused(&reply), "{command}: {reply:?}");
    }
}

/// What none but an operator may do.
const OF_OPERATORS: [&str; 7] = [
    "RLOCK.BREAK app:1",
    "RLOCK.SESSIONS",
    "CLIENT KILL ID 1",
    "CONFIG GET maxmemory",
    "FLUSHALL",
    "SHUTDOWN NOSAVE",
    "ACL LIST",
];

#[test]
fn every_user_that_is_shown_is_tried_here() {
    let names: Vec<_> = PAGE.blocks("acl")[0].lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(names, ["orders-service", "watcher", "operator", "metrics", "orders-redisson"]);
}

#[test]
fn a_service_locks_its_own_keys_and_nothing_else() {
    let server = Server::start();
    let mut service = client_as(&server, "orders-service");
    for command in [
        "PING",
        "RLOCK.ACQUIRE app:1 h 600000 FENCED",
        "RLOCK.RENEW app:1 h 600000",
        "RLOCK.RELEASE app:1 h",
        "RLOCK.RACQUIRE app:2 h 600000 FENCED",
        "RLOCK.RENEW app:2 h 600000",
        "RLOCK.RELEASE app:2 h ALL",
        "RLOCK.WACQUIRE app:{3} h 600000 WAIT 0",
        "RLOCK.RELEASE app:{3} h WRITE",
        "RLOCK.EVENTS the-session-of-orders",
        "RLOCK.ACQUIRE app:4 h 600000 WAIT 0 SESSION the-session-of-orders 1",
        "RLOCK.CANCEL the-session-of-orders 1",
        "CLIENT SETNAME rlock:web-3:4711",
    ] {
        may(&mut service, command);
    }
    for command in ["RLOCK.CANCEL the-session-of-orders", "RLOCK.EVENTS the-session-of-orders"] {
        let of_another = server.client().say(command);
        assert!(of_another.as_error().starts_with("NOSESSION"), "{command}: {of_another:?}");
    }
    may(&mut service, "RLOCK.CANCEL the-session-of-orders");
    may_not(&mut service, &OF_OPERATORS);
    may_not(&mut service, &["RLOCK.ACQUIRE other h 600000", "RLOCK.ACQUIRE {app:1} h 600000", "RLOCK.RELEASE other h"]);
    may_not(
        &mut service,
        &["RLOCK.INSPECT app:1", "RLOCK.QUEUES", "INFO", "DEL app:1", "HGETALL app:1", "EVAL return 0"],
    );
    may_not(&mut service, &["GET redisson_lock_token:{app:1}", "SUBSCRIBE redisson_lock__channel:{app:1}"]);
}

#[test]
fn who_watches_sees_its_own_keys_and_changes_nothing() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE app:1 h 600000");
    client.say("RLOCK.ACQUIRE other h 600000");
    let _waiters =
        ["app:1", "other"].map(|key| start_waiting(&server, &format!("RLOCK.ACQUIRE {key} w 600000 WAIT 0")));
    let mut watcher = client_as(&server, "watcher");
    assert!(watcher.say("RLOCK.INSPECT app:1").words().contains(&"h"));
    let queues = watcher.say("RLOCK.QUEUES");
    assert!(queues.words().contains(&"app:1") && !queues.words().contains(&"other"), "{queues:?}");
    may(&mut watcher, "INFO rlock");
    may_not(&mut watcher, &OF_OPERATORS);
    may_not(&mut watcher, &["RLOCK.INSPECT other", "RLOCK.ACQUIRE app:1 w 600000", "DEL app:1"]);
}

#[test]
fn an_operator_looks_breaks_and_sends_clients_away() {
    let server = Server::start();
    server.client().say("RLOCK.ACQUIRE app:1 h 600000");
    let mut operator = client_as(&server, "operator");
    for command in
        ["HGETALL app:1", "PTTL app:1", "RLOCK.INSPECT app:1", "RLOCK.QUEUES", "INFO rlock", "LATENCY LATEST"]
    {
        may(&mut operator, command);
    }
    for command in ["CLIENT LIST", "CLIENT UNBLOCK 812", "CLIENT KILL ID 812", "SCAN 0"] {
        may(&mut operator, command);
    }
    assert_eq!(operator.say("RLOCK.BREAK app:1"), Reply::Int(1));
    may_not(&mut operator, &["RLOCK.SESSIONS", "RLOCK.SESSIONS END 1"]);
    server.client().say("ACL SETUSER operator allkeys");
    may(&mut operator, "RLOCK.SESSIONS");
    assert_eq!(operator.say("RLOCK.SESSIONS END 1"), Reply::Int(0));
    server.client().say("ACL SETUSER operator resetkeys ~app:*");
    may_not(
        &mut operator,
        &["RLOCK.BREAK other", "RLOCK.ACQUIRE app:1 h 600000", "DEL app:1", "FLUSHALL", "CONFIG GET *"],
    );
}

/// What this page asks for and an operator may not do is said to be somebody else's.
#[test]
fn who_may_do_what_an_operator_may_not_is_said() {
    let (_server, mut client) = Server::with_client();
    client.say(&format!("ACL SETUSER {}", user_line("operator")));
    let said = PAGE.0.lines().skip_while(|line| !line.starts_with("- **operator**"));
    let said: String = said.take_while(|line| !line.starts_with("- **metrics**")).collect();
    let mut refused = Vec::new();
    for command in PAGE.commands() {
        let command = command.replace("orders:42", "app:1");
        let words: Vec<_> = command.split_whitespace().skip(1).map(|word| word.trim_matches(['"', '\''])).collect();
        if client.run(&[&["ACL", "DRYRUN", "operator"], &words[..]].concat()).words() != ["OK"] {
            refused.push(words[0].to_owned());
        }
    }
    assert!(refused.contains(&"DEL".to_owned()) && !refused.contains(&"RLOCK.BREAK".to_owned()), "{refused:?}");
    for name in refused {
        assert!(said.contains(&format!("`{name}`")), "nobody is said to have the right to {name}");
    }
}

#[test]
fn an_operator_of_all_locks_has_one_pattern_in_place_of_the_other() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE other h 600000");
    let mut operator = client_as(&server, "operator");
    client.say(&format!("ACL SETUSER {}", user_line("operator").replace("~app:*", "~*")));
    assert_eq!(operator.say("RLOCK.BREAK other"), Reply::Int(1));
}

#[test]
fn an_exporter_asks_for_numbers_and_touches_no_key() {
    let server = Server::start();
    server.client().say("RLOCK.ACQUIRE app:1 h 600000");
    let mut exporter = client_as(&server, "metrics");
    for command in ["INFO ALL", "CLIENT SETNAME redis_exporter", "SLOWLOG LEN", "LATENCY LATEST", "LATENCY HISTOGRAM"] {
        may(&mut exporter, command);
    }
    for command in ["EVAL", "EVAL_RO"] {
        let reply = exporter.run(&[command, crate::monitoring::SCRIPT, "0", "0"]);
        assert!(reply.words().contains(&"rlock_grants"), "{command}: {reply:?}");
    }
    may_not(&mut exporter, &OF_OPERATORS);
    may_not(&mut exporter, &["RLOCK.INSPECT app:1", "DEL app:1", "GET app:1"]);
    let by_script = exporter.run(&["EVAL", "return redis.call('DEL', 'app:1')", "0"]);
    // Servers say it in words of their own.
    assert!(matches!(by_script, Reply::Error(_)), "{by_script:?}");
    assert_eq!(server.client().keys(), ["app:1"]);
}

/// The keys, channels and commands of Redisson's scripts, as the real ones name them; `tests/redisson` has these.
#[test]
fn a_java_service_reaches_the_keys_and_channels_of_its_locks() {
    let server = Server::start();
    let mut java = client_as(&server, "orders-redisson");
    let touch = "for i, key in ipairs(KEYS) do redis.call('exists', key) end
        redis.call('hincrby', KEYS[1], 'uuid:1', 1) redis.call('pexpire', KEYS[1], 30000)
        redis.call('publish', KEYS[2], 0) redis.call('set', KEYS[3], 1, 'px', 1000) redis.call('incr', KEYS[4])
        return redis.call('del', KEYS[1])";
    let keys_of = |name: &str| {
        let of = |prefix: &str| format!("{prefix}:{{{name}}}");
        let [plain, both] = ["redisson_lock__channel", "redisson_rwlock"].map(of);
        let latch = format!("{}:0f", of("redisson_unlock_latch"));
        let holds = format!("{{{name}}}:uuid:1:rwlock_timeout");
        [name.to_owned(), plain, latch, of("redisson_lock_token"), both, holds, format!("{{{name}}}")]
    };
    let mut eval = |name: &str| {
        let keys = keys_of(name);
        java.run(&[&["EVAL", touch, "7"], keys.each_ref().map(String::as_str).as_slice()].concat())
    };
    assert_eq!(eval("app:1"), Reply::Int(1));
    assert!(is_refused(&eval("other")));
    may(&mut java, "SUBSCRIBE redisson_lock__channel:{app:1}");
    may(&mut java, "SUBSCRIBE redisson_rwlock:{app:1}");
    may_not(&mut client_as(&server, "orders-redisson"), &OF_OPERATORS);
    may_not(&mut client_as(&server, "orders-redisson"), &["SUBSCRIBE redisson_lock__channel:{other}", "DEL other"]);
}

#[test]
fn a_server_whose_acl_file_names_the_commands_starts_with_the_module_only() {
    let file = PAGE.blocks("acl")[0];
    let with_file = || {
        let start = Server::prepare();
        let path = start.directory().join("users.acl");
        std::fs::write(&path, file).unwrap();
        start.options(&["--aclfile", path.to_str().unwrap()])
    };
    let server = with_file().start();
    assert_eq!(server.client().say("AUTH orders-service change-me").words(), ["OK"]);
    let log = with_file().without_module().try_start().err().expect("it must not start");
    assert!(log.to_lowercase().contains("acl"), "{log}");
}
