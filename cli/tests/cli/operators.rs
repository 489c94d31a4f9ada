//! `rlock ls`, `rlock inspect` and `rlock break`, for people and for programs.

use crate::support::{Ended, Running, bare, exists, looks, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Client, Cluster, Server, wait_until};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;

/// Starts this many waiters of the lock, after `others`.
fn waiting(server: &Server, key: &str, count: i64, others: i64) -> Vec<Running> {
    let mut client = server.client();
    let wait = |place| {
        let waits = start(rlock(server, &["run", "--wait", "10m", key, "--", "true"]));
        client.until_waiting(others + place);
        waits
    };
    (1..=count).map(wait).collect()
}

fn json_of(server: &Server, arguments: &[&str], code: i32) -> Value {
    let ended = run(rlock(server, arguments));
    assert_eq!((ended.code(), ended.errors.as_str()), (code, ""), "{ended:?}");
    serde_json::from_str(&ended.output).unwrap_or_else(|error| panic!("{error}: {}", ended.output))
}

/// The words of each line. Times of nearly ten minutes become `9m`, because a test takes an unknown time.
fn words(text: &str) -> Vec<Vec<&str>> {
    let rough = |word| if str::starts_with(word, "9m") { "9m" } else { word };
    text.lines().map(|line| line.split_whitespace().map(rough).collect()).collect()
}

#[test]
fn ls_lists_the_longest_queue_first() {
    let (server, mut client) = Server::with_client();
    assert_eq!(run(rlock(&server, &["ls"])).succeeded(), "");
    assert_eq!(json_of(&server, &["ls", "--json"], 0), json!([]));
    let _waits = busy(&server, &mut client);
    let listed = run(rlock(&server, &["ls"]));
    let lines = words(listed.succeeded());
    assert_eq!(lines[0], ["KEY", "WAITERS", "OLDEST", "WAIT", "SERVED"]);
    assert_eq!(
        lines[1..].iter().map(|line| [line[0], line[1], line[3]]).collect::<Vec<_>>(),
        [["web:b", "2", "0"], ["app:a", "1", "0"]]
    );
    assert_eq!(words(run(rlock(&server, &["ls", "[a-c]pp:*"])).succeeded())[1][0], "app:a");
    assert_eq!(run(rlock(&server, &["ls", "nothing*"])).succeeded(), "");
    let limited = run(rlock(&server, &["ls", "--limit", "1"]));
    limited.said(&["more than these 1", "--limit"]);
    assert_eq!((limited.code(), words(&limited.output).len()), (0, 2));
    let object = &json_of(&server, &["ls", "--json"], 0)[0];
    assert_eq!((&object["key"], &object["waiters"], &object["served"]), (&json!("web:b"), &json!(2), &json!(0)));
    assert!(object["oldest_wait_ms"].is_u64() && object.get("lock").is_none(), "{object}");
}

/// `app:a` with one waiter, and `web:b` with two.
fn busy(server: &Server, client: &mut Client) -> Vec<Running> {
    for key in ["app:a", "web:b"] {
        taken(client, key);
    }
    let mut waits = waiting(server, "app:a", 1, 0);
    waits.extend(waiting(server, "web:b", 2, 1));
    waits
}

#[test]
fn ls_finds_what_is_held() {
    let (server, mut client) = Server::with_client();
    client.say("HSET profile name bob");
    for holder in ["one", "two"] {
        client.say(&format!("RLOCK.RACQUIRE held {holder} 600000"));
    }
    let _waits = busy(&server, &mut client);
    let listed = run(rlock(&server, &["ls", "--held"]));
    let lines = words(listed.succeeded());
    assert_eq!(lines[0].join(" "), "KEY KIND HOLDER LEASE LEFT WAITERS OLDEST WAIT");
    assert_eq!(lines[1][..4], ["web:b", "plain", "somebody", "9m"]);
    assert_eq!(lines[2][..4], ["app:a", "plain", "somebody", "9m"]);
    assert_eq!((&lines[3][..3], lines[3][3]), (&["held", "read-write", lines[3][2]][..], "+1"));
    assert_eq!((lines.len(), &lines[3][5..]), (4, &["0", "-"][..]));
    let objects = json_of(&server, &["ls", "--held", "--json", "*e*"], 0);
    assert_eq!(objects[0]["lock"]["holders"][0]["holder"], "somebody");
    assert_eq!((&objects[1]["key"], &objects[1]["lock"]["holder_count"]), (&json!("held"), &json!(2)));
    assert_eq!(objects.as_array().unwrap().len(), 2);
    let limited = run(rlock(&server, &["ls", "--held", "--limit", "2"]));
    limited.said(&["more than these 2"]);
    // These have waiters, so their holders are shown even if the scan did not reach them.
    let rows: Vec<_> = words(&limited.output)[1..].iter().map(|line| line[..3].join(" ")).collect();
    assert_eq!(rows, ["web:b plain somebody", "app:a plain somebody"]);
}

/// What an empty list at a terminal says.
fn remark(server: &Server, variables: &[(&str, &str)], arguments: &str) -> String {
    let terminal = Terminal::open(server, variables);
    terminal.resize_at_the_prompt(160, 30);
    terminal.enter(&format!("clear; rlock ls {arguments}; echo code $?"));
    terminal.wait_for("\ncode 0");
    let screen = terminal.screen();
    let line = screen.lines().find(|line| line.starts_with("rlock: "));
    line.unwrap_or_else(|| panic!("it says nothing: {screen}")).to_owned()
}

const NOT_KNOWN: &str = "rlock: no lock has waiters; rlock ls --held lists held locks";

/// An empty list must not look as if no lock were held.
#[test]
fn ls_that_finds_no_queue_says_what_is_held() {
    let (server, mut client) = Server::with_client();
    client.say("HSET profile name bob");
    assert_eq!(remark(&server, &[], ""), "rlock: no lock has waiters, and none is held");
    assert_eq!(remark(&server, &[], "--held 'web:*'"), "rlock: no lock that matches is held");
    taken(&mut client, "web:1");
    client.say("CONFIG RESETSTAT");
    assert_eq!(run(rlock(&server, &["ls"])).succeeded(), "");
    assert_eq!(client.info("commandstats").find("cmdstat_scan"), None, "programs and mails are left alone");
    let one = remark(&server, &[], "");
    assert_eq!(one, "rlock: no lock has waiters; 1 is held: rlock ls --held lists held locks");
    client.say("RLOCK.RACQUIRE web:2 somebody 600000");
    assert!(remark(&server, &[], ">/dev/null").contains("; 2 are held"), "stderr is a terminal, too");
    assert!(remark(&server, &[], "'web:[2-9]'").contains("no lock that matches has waiters; 1 is held"));
    // What looks like a lock may be other data.
    client.say("DEL web:1 web:2");
    client.say("HSET user:1 visits 5");
    assert_eq!(remark(&server, &[], ""), NOT_KNOWN);
}

#[test]
fn ls_claims_nothing_of_keys_that_it_did_not_look_at() {
    let (server, mut client) = Server::with_client();
    client.say("ACL SETUSER queues on >secret ~* +@connection +rlock.queues");
    client.say("ACL SETUSER app on >secret ~app:* +@connection +rlock.queues +rlock.inspect +scan");
    taken(&mut client, "web:1");
    for user in ["queues", "app"] {
        let address = format!("redis://{user}@127.0.0.1:{}", server.port());
        let variables = [("RLOCK_URL", &address[..]), ("RLOCK_PASSWORD", "secret")];
        assert_eq!(remark(&server, &variables, ""), NOT_KNOWN, "{user}");
    }
    // More keys than a glance sees, and none of them matches.
    client.run(&["EVAL", "for n = 1, 40000 do redis.call('SET', 'other:' .. n, 1) end", "0"]);
    client.say("CONFIG RESETSTAT");
    assert_eq!(remark(&server, &[], "'app:*'"), NOT_KNOWN.replacen("no lock", "no lock that matches", 1));
    let statistics = client.info("commandstats");
    let scans = statistics.find("cmdstat_scan").and_then(|it| it.strip_prefix("calls=")?.split(',').next());
    assert!(scans.is_some_and(|it| (1..=10).contains(&it.parse().unwrap())), "{scans:?}");
}

fn tcp(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// A node that does not reply hides no other node's locks; a single node reports that it is not the whole cluster.
#[test]
fn ls_of_a_cluster_shows_what_the_living_nodes_have() {
    let mut cluster = Cluster::start();
    let keys: Vec<_> = (0..3).map(|master| cluster.key_on(master)).collect();
    let _waits: Vec<_> = cluster
        .masters
        .iter()
        .zip(&keys)
        .map(|(master, key)| {
            taken(&mut master.client(), key);
            let mut waiter = master.client();
            waiter.send(&["RLOCK.ACQUIRE", key, "waiter", "600000", "WAIT", "0"]);
            master.client().until_waiting(1);
            waiter
        })
        .collect();
    let hosts: Vec<_> = cluster.masters.iter().map(tcp).collect();
    let ls = |address: &str, more: &[&str]| run(bare(&[&["-u", address, "ls"], more].concat()));
    let shown = |ended: &Ended| keys.iter().map(|key| ended.output.contains(key.as_str())).collect::<Vec<_>>();
    for named in [&hosts[..1], &hosts[1..]] {
        for more in [&[][..], &["--held"], &["--json"]] {
            let whole = ls(&format!("redis+cluster://{}", named.join(",")), more);
            whole.succeeded();
            assert_eq!(shown(&whole), [true; 3], "{whole:?}");
        }
    }
    let one = ls(&format!("redis://{}", hosts[0]), &[]);
    assert_eq!(shown(&one), [true, false, false], "{one:?}");
    one.said(&["one node of a cluster", &format!("redis+cluster://{}", hosts[0])]);
    run(rlock(&cluster.masters[0], &["ls"])).said(&["one node of a cluster", "redis+cluster://host:port"]);
    cluster.masters[1].kill();
    let address = format!("redis+cluster://{},{}", hosts[0], hosts[2]);
    for more in [&[][..], &["--held"]] {
        let ended = ls(&address, more);
        assert_eq!((ended.code(), shown(&ended)), (69, vec![true, false, true]), "{ended:?}");
        ended.said(&[&hosts[1], "refused", "its locks are not shown"]);
        assert!(!ended.errors.contains(&hosts[0]) && !ended.errors.contains(&hosts[2]), "{ended:?}");
    }
    let inspected = run(bare(&["-u", &address, "inspect", &keys[1]]));
    inspected.failed(69, &[&format!("no server answers at {}", hosts[1]), "refused", "CLUSTER NODES"]);
}

#[test]
fn inspect_shows_holders_and_waiters() {
    let (server, mut client) = Server::with_client();
    let token = client.say("RLOCK.ACQUIRE key somebody 600000 FENCED").token();
    let _waits = waiting(&server, "key", 1, 0);
    let mut blocked = server.client();
    blocked.send(&["RLOCK.ACQUIRE", "key", "waiter", "600000", "WAIT", "600000"]);
    client.until_waiting(2);
    let shown = run(rlock(&server, &["inspect", "key"]));
    let lines = words(shown.succeeded());
    assert_eq!(lines[0].join(" "), format!("key: plain, lease ends in 9m 2 waiting, last token {token}"));
    assert_eq!(lines[2].join(" "), "HOLDER SIDE COUNT LEASE LEFT");
    assert_eq!(lines[3].join(" "), "somebody exclusive 1 9m");
    assert_eq!(lines[5].join(" "), "WAITER SIDE WAITED GIVES UP IN");
    assert_eq!((lines[6][1], lines[6][3], lines.len()), ("exclusive", "9m", 10));
    let object = json_of(&server, &["inspect", "key", "--json"], 0);
    let [by_ticket, waiter] = &object["waiters"].as_array().unwrap()[..] else { panic!("{object}") };
    let place = |waiter: &Value| format!("client {} at {}", waiter["client_id"], waiter["address"].as_str().unwrap());
    let session = by_ticket["session"].as_str().unwrap();
    assert_eq!(lines[7].join(" "), format!("session {session}, ticket 1, {}", place(by_ticket)));
    assert_eq!((session.len(), &by_ticket["ticket"], &by_ticket["attended"]), (8, &json!("1"), &json!(true)));
    assert_eq!(lines[8].join(" "), "waiter exclusive 0ms 9m".replace("0ms", lines[8][2]));
    assert_eq!(lines[9].join(" "), place(waiter));
    let few = run(rlock(&server, &["inspect", "--limit", "1", "key"]));
    assert!(few.succeeded().contains("… and 1 waiters more: --limit shows up to 10000\n"), "{few:?}");
    for (field, value) in [
        ("key", json!("key")),
        ("kind", json!("plain")),
        ("holder_count", json!(1)),
        ("fencing_token", json!(token)),
        ("waiter_count", json!(2)),
    ] {
        assert_eq!(object[field], value, "{object}");
    }
    assert!(object["time_left_ms"].as_u64().unwrap() > 500_000, "{object}");
    assert_eq!((&object["holders"][0]["count"], &object["holders"][0]["side"]), (&json!(1), &json!("exclusive")));
    for waiter in [by_ticket, waiter] {
        assert!(waiter["client_id"].is_u64() && waiter["waited_ms"].is_u64() && waiter["gives_up_in_ms"].is_u64());
    }
    assert_eq!(
        (&waiter["session"], &waiter["ticket"], &waiter["attended"]),
        (&Value::Null, &Value::Null, &json!(true))
    );
}

fn begin_grace(client: &mut Client) {
    for line in ["CONFIG SET rlock.grace 600000", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"] {
        client.say(line);
    }
}

/// Whether the text says that a grace runs, with any remaining time.
fn is_grace(text: &str) -> bool {
    let left = text.split_once("no lock is granted for ").and_then(|(_, rest)| rest.split_once(" more"));
    left.is_some_and(|(_, rest)| rest.starts_with(": grace period after a start or failover"))
}

/// No command may send its reader to another one that says less.
#[test]
fn in_a_grace_each_command_says_so() {
    let (server, mut client) = Server::with_client();
    begin_grace(&mut client);
    for (arguments, code) in [
        (&["run", "--no-wait", "key", "true"][..], 75),
        (&["run", "--wait", "50ms", "--all", "key,other", "true"], 75),
        (&["lock", "--no-wait", "--lease", "1m", "key"], 75),
        (&["hold", "--no-wait", "key"], 75),
        (&["inspect", "key"], 1),
    ] {
        let ended = run(rlock(&server, arguments));
        ended.failed(code, &["key"]);
        assert!(is_grace(&ended.errors) && !ended.errors.contains("rlock inspect"), "{ended:?}");
    }
    let waits = start(rlock(&server, &["run", "--verbose", "key", "true"]));
    client.until_waiting(1);
    let shown = run(rlock(&server, &["inspect", "key"])).succeeded().to_owned();
    assert!(shown.starts_with("key: not held, 1 waiting") && is_grace(&shown), "{shown}");
    assert!(json_of(&server, &["inspect", "--json", "key"], 0)["grace_left_ms"].as_u64().unwrap() > 500_000);
    for arguments in [&["ls"][..], &["doctor", "--short"], &["doctor"], &["top", "--batch", "--count", "1"]] {
        let ended = run(rlock(&server, arguments));
        assert!(is_grace(&(ended.errors + &ended.output)), "{arguments:?}");
    }
    let before = looks(&mut client);
    wait_until("it has looked, and shown that when it looks again", || looks(&mut client) >= before + 2);
    client.say("CONFIG SET rlock.grace 0");
    let ended = waits.end();
    assert!(is_grace(&ended.errors) && ended.errors.starts_with("rlock: key: 1st of 1 in line, "), "{ended:?}");
    assert_eq!(json_of(&server, &["inspect", "--json", "key"], 1)["grace_left_ms"], Value::Null);
    // Without the right to ask, the grace is not known.
    begin_grace(&mut client);
    client.say("ACL SETUSER default -rlock.inspect -info");
    run(rlock(&server, &["run", "--no-wait", "key", "true"])).failed(75, &["key: not free"]);
    assert_eq!(run(rlock(&server, &["ls"])).succeeded(), "");
}

const SESSION: &str = "5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1";

/// A session over TCP, as services have them; `open` sessions are open then. If the connection closes, it is unattended.
fn session(server: &Server, name: &str, open: i64) -> TcpStream {
    let mut connection = TcpStream::connect(tcp(server)).unwrap();
    connection.write_all(format!("RLOCK.EVENTS {name} WAIT 0 TTL 600000\r\n").as_bytes()).unwrap();
    wait_until("it is open", || server.client().figure("sessions") == open);
    connection
}

fn wait_by(client: &mut Client, session: &str, ticket: &str) {
    let holder = format!("{session}:{ticket}");
    let acquire = ["RLOCK.ACQUIRE", "key", &holder, "600000", "WAIT", "600000", "SESSION", session, ticket];
    assert_eq!(client.run(&acquire), rlock_testing::text("WAITING"));
}

/// Operators see which process waits, and whether it is alive.
#[test]
fn inspect_shows_sessions_and_their_tickets() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let attended = session(&server, SESSION, 1);
    let name = attended.local_addr().unwrap();
    wait_by(&mut client, SESSION, "7");
    let gone = session(&server, "a-session-that-is-gone", 2);
    wait_by(&mut client, "a-session-that-is-gone", "order:4711-of-a-long-name");
    drop(gone);
    wait_until("it is unattended", || client.figure("sessions_unattended") == 1);
    let shown = run(rlock(&server, &["inspect", "key"]));
    let lines: Vec<_> = shown.succeeded().lines().collect();
    let object = json_of(&server, &["inspect", "key", "--json"], 0);
    let [first, second] = &object["waiters"].as_array().unwrap()[..] else { panic!("{object}") };
    assert_eq!(lines[7], format!("  session 5d0f3f0e, ticket 7, client {} at {name}", first["client_id"]));
    assert_eq!(lines[9], "  unattended: session a-sessio, ticket order:4711-of-a…, no connection");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", shown.output);
    assert_eq!((&first["session"], &first["ticket"]), (&json!("5d0f3f0e"), &json!("7")));
    assert_eq!((&first["address"], &first["attended"]), (&json!(name.to_string()), &json!(true)));
    assert_eq!((&second["ticket"], &second["attended"]), (&json!("order:4711-of-a-long-name"), &json!(false)));
    assert_eq!((&second["client_id"], &second["address"]), (&Value::Null, &Value::Null));
}

/// The first page that a reader sees at night: which clients have filled the queue.
#[test]
fn inspect_of_a_long_queue_is_short_and_counts_the_waiters_of_each_client() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let connection = session(&server, SESSION, 1);
    let host = connection.local_addr().unwrap().ip();
    let mut wait = |holder: String, ticket: usize| {
        let ticket = ticket.to_string();
        client.run(&["RLOCK.ACQUIRE", "key", &holder, "600000", "WAIT", "0", "SESSION", SESSION, &ticket])
    };
    for ticket in 0..500 {
        let process = if ticket % 5 == 0 { "web-4:7:" } else { "web-3:4711:" };
        wait(format!("{process}{SESSION}:{ticket}"), ticket);
    }
    // Redisson has a uuid for each process, and no name.
    wait(format!("{SESSION}:12"), 500);
    let shown = run(rlock(&server, &["inspect", "key"])).succeeded().to_owned();
    assert!(shown.lines().count() <= 40, "{shown}");
    let (_, summary) = shown.split_once("\nwaiters by client:\n").unwrap_or_else(|| panic!("{shown}"));
    let lines = words(summary);
    assert_eq!(lines[0].join(" "), "CLIENT ADDRESS WAITERS OLDEST WAIT");
    let rows: Vec<_> = lines[1..].iter().map(|line| line[..3].join(" ")).collect();
    assert_eq!(
        rows,
        [("web-3:4711", 400), ("web-4:7", 100), (SESSION, 1)].map(|(name, n)| format!("{name} {host} {n}"))
    );
    let whole = run(rlock(&server, &["inspect", "--limit", "501", "key"])).succeeded().to_owned();
    assert!(!whole.contains("by client") && whole.matches("ticket ").count() == 501, "{whole}");
    assert_eq!(json_of(&server, &["inspect", "--json", "key"], 0)["waiters"].as_array().unwrap().len(), 100);
}

/// A terminal must not break a row into two lines. Programs get each name in full.
#[test]
fn tables_fit_a_terminal_and_are_whole_elsewhere() {
    const HOLDER: &str = "web-3:4711:5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1:1";
    const LONG_KEY: &str = "tenants:of-the-north:orders:42:payment";
    let server = Server::start();
    server.client().run(&["RLOCK.RACQUIRE", LONG_KEY, HOLDER, "600000"]);
    let terminal = Terminal::open(&server, &[]);
    let inspect = format!("inspect {LONG_KEY}");
    for (number, (columns, command, ends)) in [
        (80, "ls --held", &["tenants:of-", "ayment", "web-3:47", "1:1"][..]),
        (70, &inspect, &["web-3:4711:5d0f3f0e-", "d1:1"]),
    ]
    .into_iter()
    .enumerate()
    {
        terminal.resize_at_the_prompt(columns, 30);
        terminal.enter(&format!("clear; rlock {command}; echo number $(({number} + 1))"));
        terminal.wait_for(&format!("\nnumber {}\n", number + 1));
        let screen = terminal.screen();
        let row = screen.lines().find(|line| line.contains("read") && line.contains('…'));
        assert!(row.is_some_and(|row| ends.iter().all(|end| row.contains(end)) && row.contains("9m")), "{screen}");
        let whole = run(rlock(&server, &command.split(' ').collect::<Vec<_>>())).succeeded().to_owned();
        assert!(!whole.contains('…') && whole.contains(LONG_KEY) && whole.contains(HOLDER), "{whole}");
    }
    terminal.enter(&format!("clear; rlock break {LONG_KEY}"));
    terminal.wait_for("Break it? [y/N]");
    let screen = terminal.screen();
    assert!(screen.lines().any(|line| line.contains('…') && line.contains("read  ")), "{screen}");
}

#[test]
fn a_key_without_a_lock_is_recognized() {
    let server = Server::start();
    run(rlock(&server, &["inspect", "free"])).failed(1, &["free: not held, and without waiters", "rlock ls --held"]);
    let object = json_of(&server, &["inspect", "free", "--json"], 1);
    assert_eq!((&object["kind"], &object["waiters"]), (&Value::Null, &json!([])));
    run(rlock(&server, &["break", "--yes", "free"])).failed(1, &["not held", "nothing to break"]);
    assert_eq!(json_of(&server, &["break", "--yes", "--json", "free"], 1)["broken"], false);
    server.client().say("SET text 1");
    for command in [&["inspect", "text"][..], &["break", "--yes", "text"]] {
        run(rlock(&server, command)).failed(78, &["text: refused: WRONGTYPE"]);
    }
}

/// Names come from strangers: shown, they must not control the terminal; programs get them in full.
#[test]
fn names_of_any_bytes() {
    let (server, mut client) = Server::with_client();
    let (key, holder) = (b"\x1b[2Jkey\xff", b"\xfe\n");
    client.run(&[&b"RLOCK.ACQUIRE"[..], key, holder, b"600000"]);
    let with_key = |arguments: &[&str]| {
        let mut command = rlock(&server, arguments);
        command.arg(OsStr::from_bytes(key));
        run(command)
    };
    let shown = with_key(&["inspect"]);
    assert!(shown.succeeded().starts_with("\\x1b[2Jkey\\xff: plain"), "{shown:?}");
    assert!(shown.output.contains("\\xfe\\x0a  exclusive") && !shown.output.contains('\x1b'), "{shown:?}");
    let object: Value = serde_json::from_str(with_key(&["inspect", "--json"]).succeeded()).unwrap();
    assert_eq!((&object["key"], &object["key_hex"]), (&json!("\u{1b}[2Jkey\u{fffd}"), &json!("1b5b324a6b6579ff")));
    assert_eq!(object["holders"][0]["holder_hex"], "fe0a");
    let listed: Value = serde_json::from_str(run(rlock(&server, &["ls", "--held", "--json"])).succeeded()).unwrap();
    assert_eq!(listed[0]["key_hex"], "1b5b324a6b6579ff");
    let mut running = rlock(&server, &["run", "-n"]);
    running.arg(OsStr::from_bytes(key)).args(["--", "true"]);
    run(running).failed(75, &["\\x1b[2Jkey\\xff: not free"]);
    assert_eq!(with_key(&["break", "--yes"]).succeeded(), "\\x1b[2Jkey\\xff: broken; 0 waited for it\n");
}

#[test]
fn break_frees_a_lock_of_either_kind_for_the_next() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let waits = waiting(&server, "key", 1, 0);
    assert_eq!(run(rlock(&server, &["break", "key", "--yes"])).succeeded(), "key: broken; 1 waited for it\n");
    for waits in waits {
        waits.end().succeeded();
    }
    client.say("RLOCK.RACQUIRE key one 600000");
    let object = json_of(&server, &["break", "-y", "--json", "key"], 0);
    assert_eq!(
        (&object["key"], &object["broken"], &object["was"]["kind"]),
        (&json!("key"), &json!(true), &json!("read-write"))
    );
    assert!(!exists(&mut client, "key"));
}

/// What docs/on-call.md says of one waiter that is in the way.
#[test]
fn a_waiter_keeps_its_place_unless_an_operator_ends_its_wait() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let waits = start(rlock(&server, &["run", "--wait", "10m", "key", "--", "true"]));
    client.until_waiting(1);
    let mut next = server.client();
    next.send(&["RLOCK.ACQUIRE", "key", "next", "600000", "WAIT", "0"]);
    client.until_waiting(2);
    let connection_of_the_first =
        || json_of(&server, &["inspect", "key", "--json"], 0)["waiters"][0]["client_id"].as_u64();
    let connection = connection_of_the_first().unwrap();
    // The second success shows that it waited again after the first.
    for _ in 0..2 {
        let unblock = format!("CLIENT UNBLOCK {connection} TIMEOUT");
        wait_until("it waits for events", || client.say(&unblock).as_int() == 1);
    }
    client.say(&format!("CLIENT KILL ID {connection}"));
    let mut another = None;
    wait_until("it has another connection", || {
        another = connection_of_the_first().filter(|it| *it != connection);
        another.is_some()
    });
    // It has requested the lock once, and so has `next`: it still has its place from the beginning.
    assert_eq!((client.figure("waits"), client.figure("waiters")), (2, 2));
    let unblock = format!("CLIENT UNBLOCK {} ERROR", another.unwrap());
    wait_until("it waits for events", || client.say(&unblock).as_int() == 1);
    waits.end().failed(75, &["key: an operator has ended the wait", "nothing was run"]);
    assert_eq!((client.figure("waiters"), client.figure("grants")), (1, 1), "only `next` waits on");
}

/// It shows the holder; for data that may not be a lock, what would be deleted.
#[test]
fn break_asks_at_a_terminal() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "lock");
    run(rlock(&server, &["break", "lock"])).failed(64, &["no terminal", "--yes"]);
    client.say("HSET user:1 visits 5");
    client.say("HSET user:2 visits 5 logins 3");
    client.say("PEXPIRE user:2 600000");
    let terminal = Terminal::open(&server, &[]);
    for (key, words, answer, code) in [
        ("user:1", &["may be no lock", "deletes the hash with visits=5"][..], "n", 1),
        ("user:2", &["may be no lock", "visits=5", "logins=3"], "", 1),
        ("lock", &["somebody  exclusive", "may still be at work"], "n", 1),
        ("lock", &["somebody  exclusive", "may still be at work"], "y", 0),
    ] {
        terminal.enter("clear");
        terminal.wait_until("nothing but a prompt", |screen| screen.trim() == "prompt>");
        terminal.enter(&format!("rlock break {key}; echo code $?"));
        terminal.wait_for("Break it? [y/N]");
        let screen = terminal.screen();
        assert!(words.iter().all(|word| screen.contains(word)), "{screen}");
        terminal.enter(answer);
        terminal.wait_for(&format!("code {code}"));
        assert_eq!(exists(&mut client, key), code == 1);
    }
}
