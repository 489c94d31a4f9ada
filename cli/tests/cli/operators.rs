//! `rlock ls`, `rlock inspect` and `rlock break`, for people and for programs.

use crate::support::{Place, Running, bare, exists, given_back, looks, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Client, Cluster, Server, wait_until};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;

/// That many who wait for a lock, after so many others.
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

/// The words of each line. Of times of nearly ten minutes only the minutes: nobody knows how long a test takes.
fn words(text: &str) -> Vec<Vec<&str>> {
    let rough = |word| if str::starts_with(word, "9m") { "9m" } else { word };
    text.lines().map(|line| line.split_whitespace().map(rough).collect()).collect()
}

#[test]
fn ls_lists_the_longest_queue_first() {
    let server = Server::start();
    let mut client = server.client();
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

/// `app:a` with one who waits, and `web:b` with two.
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
    let server = Server::start();
    let mut client = server.client();
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
    assert_eq!(words(&limited.output).len(), 3);
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

const NOT_KNOWN: &str = "rlock: nobody waits for a lock; rlock ls --held lists what is held";

/// An empty list must not look as if no lock were held.
#[test]
fn ls_that_finds_no_queue_says_what_is_held() {
    let server = Server::start();
    let mut client = server.client();
    client.say("HSET profile name bob");
    assert_eq!(remark(&server, &[], ""), "rlock: nobody waits for a lock, and none is held");
    assert_eq!(remark(&server, &[], "--held 'web:*'"), "rlock: no lock that matches is held");
    taken(&mut client, "web:1");
    let one = remark(&server, &[], "");
    assert_eq!(one, "rlock: nobody waits for a lock; 1 is held: rlock ls --held lists what is held");
    client.say("RLOCK.RACQUIRE web:2 somebody 600000");
    assert!(remark(&server, &[], ">/dev/null").contains("; 2 are held"), "stderr is a terminal, too");
    assert!(remark(&server, &[], "'web:[2-9]'").contains("for a lock that matches; 1 is held"));
    // What looks like a lock may be somebody's data.
    client.say("DEL web:1 web:2");
    client.say("HSET user:1 visits 5");
    assert_eq!(remark(&server, &[], ""), NOT_KNOWN);
}

/// Programs and mails are left alone, and so is the server.
#[test]
fn ls_that_finds_no_queue_looks_no_further_for_nobody() {
    let server = Server::start();
    let mut client = server.client();
    taken(&mut client, "key");
    assert_eq!(run(rlock(&server, &["ls"])).succeeded(), "");
    assert_eq!(client.info("commandstats").find("cmdstat_scan"), None);
}

#[test]
fn ls_claims_nothing_of_keys_that_it_did_not_look_at() {
    let server = Server::start();
    let mut client = server.client();
    client.say("ACL SETUSER queues on >secret ~* +@connection +rlock.queues");
    client.say("ACL SETUSER app on >secret ~app:* +@connection +rlock.queues +rlock.inspect +scan");
    taken(&mut client, "web:1");
    for user in ["queues", "app"] {
        let address = format!("redis://{user}@127.0.0.1:{}", server.port());
        let variables = [("RLOCK_URL", &address[..]), ("RLOCK_PASSWORD", "secret")];
        assert_eq!(remark(&server, &variables, ""), NOT_KNOWN, "{user}");
    }
    // More keys than a glance sees, none of which matches.
    client.run(&["EVAL", "for n = 1, 40000 do redis.call('SET', 'other:' .. n, 1) end", "0"]);
    client.say("CONFIG RESETSTAT");
    assert_eq!(remark(&server, &[], "'app:*'"), NOT_KNOWN.replace("a lock", "a lock that matches"));
    let statistics = client.info("commandstats");
    let scans = statistics.find("cmdstat_scan").and_then(|it| it.strip_prefix("calls=")?.split(',').next());
    assert!(scans.is_some_and(|it| (1..=10).contains(&it.parse().unwrap())), "{scans:?}");
}

/// However few rows there is room for, they tell who holds what they show.
#[test]
fn ls_tells_who_holds_the_rows_that_it_shows() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    let listed = run(rlock(&server, &["ls", "--held", "--limit", "1"]));
    listed.said(&["more than these 1"]);
    assert_eq!(words(&listed.output)[1][..4], ["web:b", "plain", "somebody", "9m"]);
    let listed = run(rlock(&server, &["ls", "--held", "--limit", "1", "--json"]));
    let objects: Value = serde_json::from_str(&listed.output).unwrap();
    assert_eq!(objects[0]["lock"]["holders"][0]["holder"], "somebody");
    // A limit that those who are waited for reach together with another.
    taken(&mut client, "idle");
    let listed = run(rlock(&server, &["ls", "--held", "--limit", "2"]));
    let lines = words(&listed.output);
    assert_eq!(
        (lines[1][..3].join(" "), lines[2][..3].join(" ")),
        ("web:b plain somebody".into(), "app:a plain somebody".into())
    );
}

/// A lock on each master, held and waited for, and who waits.
fn on_each(cluster: &Cluster) -> (Vec<String>, Vec<Client>) {
    let keys: Vec<_> = (0..cluster.masters.len()).map(|master| cluster.key_on(master)).collect();
    let waits = cluster.masters.iter().zip(&keys).map(|(master, key)| {
        taken(&mut master.client(), key);
        let mut waiter = master.client();
        waiter.send(&["RLOCK.ACQUIRE", key, "waiter", "600000", "WAIT", "0"]);
        master.client().until_waiting(1);
        waiter
    });
    let waits = waits.collect();
    (keys, waits)
}

fn tcp(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[test]
fn ls_shows_what_the_living_nodes_have() {
    let mut cluster = Cluster::start();
    let (keys, _waits) = on_each(&cluster);
    let named = |keys: &[&String]| {
        let mut all: Vec<_> = keys.iter().map(|key| (*key).clone()).chain(["KEY".to_owned()]).collect();
        all.sort();
        all
    };
    let hosts: Vec<_> = cluster.masters.iter().map(tcp).collect();
    let ls = |more: &[&str]| {
        let address = format!("redis+cluster://{},{}", hosts[0], hosts[2]);
        let ended = run(bare(&[&["-u", &address, "ls"], more].concat()));
        let mut listed: Vec<_> = words(&ended.output).iter().map(|line| line[0].to_owned()).collect();
        listed.sort();
        (ended, listed)
    };
    assert_eq!(ls(&[]).1, named(&[&keys[0], &keys[1], &keys[2]]));
    cluster.masters[1].kill();
    for more in [&[][..], &["--held"]] {
        let (ended, listed) = ls(more);
        assert_eq!((ended.code(), listed), (69, named(&[&keys[0], &keys[2]])), "{ended:?}");
        ended.said(&[&hosts[1], "refused", "its locks are not shown"]);
        assert!(!ended.errors.contains(&hosts[0]) && !ended.errors.contains(&hosts[2]), "{ended:?}");
    }
    let address = format!("redis+cluster://{}", hosts[0]);
    let inspected = run(bare(&["-u", &address, "inspect", &keys[1]]));
    inspected.failed(69, &[&format!("no server answers at {}", hosts[1]), "refused", "CLUSTER NODES"]);
    let held = ls(&["--held"]).0;
    assert_eq!(held.output.matches("somebody").count(), 2, "{held:?}");
    assert_eq!(words(&ls(&["--limit", "1"]).0.output).len(), 2);
}

/// It would look as if there were no others.
#[test]
fn ls_of_one_node_says_that_it_is_not_all() {
    let cluster = Cluster::start();
    let (keys, _waits) = on_each(&cluster);
    let host = tcp(&cluster.masters[0]);
    let ended = run(bare(&["-u", &format!("redis://{host}"), "ls"]));
    assert_eq!((ended.code(), words(&ended.output)[1][0]), (0, &keys[0][..]));
    ended.said(&["one node of a cluster", &format!("redis+cluster://{host}")]);
    let socket = run(rlock(&cluster.masters[0], &["ls"]));
    assert_eq!(words(&socket.output).len(), 2);
    socket.said(&["one node of a cluster", "redis+cluster://host:port"]);
}

/// All of it is listed, so nothing must say that it is not all.
#[test]
fn ls_of_a_cluster_is_the_whole_however_many_nodes_name_it() {
    let cluster = Cluster::start();
    let (keys, _waits) = on_each(&cluster);
    let hosts: Vec<_> = cluster.masters.iter().map(tcp).collect();
    for named in [&hosts[..1], &hosts[1..], &hosts[..]] {
        let address = format!("redis+cluster://{}", named.join(","));
        for more in [&["ls"][..], &["ls", "--held"], &["ls", "--json"]] {
            let listed = run(bare(&[&["-u", &address], more].concat()));
            let whole = listed.succeeded();
            assert!(keys.iter().all(|key| whole.contains(key.as_str())), "{address} {more:?}: {whole}");
        }
    }
}

#[test]
fn inspect_shows_who_holds_and_who_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE key somebody 600000 FENCED");
    let _waits = waiting(&server, "key", 1, 0);
    let mut blocked = server.client();
    blocked.send(&["RLOCK.ACQUIRE", "key", "waiter", "600000", "WAIT", "600000"]);
    client.until_waiting(2);
    let shown = run(rlock(&server, &["inspect", "key"]));
    let lines = words(shown.succeeded());
    assert_eq!(lines[0].join(" "), "key: plain, lease ends in 9m 2 waiting, last token 1");
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
        ("fencing_token", json!(1)),
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

#[test]
fn a_grace_is_what_everybody_waits_for() {
    let server = Server::start();
    let mut client = server.client();
    let waits = waiting_in_a_grace(&server, &mut client);
    let text = run(rlock(&server, &["inspect", "key"])).succeeded().to_owned();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("key: held by nobody, 1 waiting"), "{text}");
    assert!(is_grace(lines[1]), "{text}");
    assert!(json_of(&server, &["inspect", "--json", "key"], 0)["grace_left_ms"].as_u64().unwrap() > 500_000);
    client.say("CONFIG SET rlock.grace 0");
    waits.end().succeeded();
    assert_eq!(json_of(&server, &["inspect", "--json", "key"], 1)["grace_left_ms"], Value::Null);
}

/// A server that has become a master, which nobody knows better than that it may have forgotten this lock.
fn waiting_in_a_grace(server: &Server, client: &mut Client) -> Running {
    begin_grace(client);
    waiting(server, "key", 1, 0).remove(0)
}

fn begin_grace(client: &mut Client) {
    for line in ["CONFIG SET rlock.grace 600000", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"] {
        client.say(line);
    }
}

/// The sentence, in which any time may be left.
fn is_grace(text: &str) -> bool {
    let left = text.split_once("no lock is granted for ").and_then(|(_, rest)| rest.split_once(" more"));
    left.is_some_and(|(_, rest)| rest.starts_with(": grace period after a start or failover"))
}

/// No command may send its reader to another one that says less.
#[test]
fn in_a_grace_each_command_says_so() {
    let server = Server::start();
    let mut client = server.client();
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
    for arguments in [&["ls"][..], &["status"], &["doctor"], &["top", "--batch", "--count", "1"]] {
        let ended = run(rlock(&server, arguments));
        assert!(is_grace(&(ended.errors + &ended.output)), "{arguments:?}");
    }
    let before = looks(&mut client);
    wait_until("it has looked, and shown that when it looks again", || looks(&mut client) >= before + 2);
    client.say("CONFIG SET rlock.grace 0");
    let ended = waits.end();
    assert!(is_grace(&ended.errors) && ended.errors.starts_with("rlock: key: 1st of 1 in line, "), "{ended:?}");
    // Without the right to ask, the server's own words are shown.
    begin_grace(&mut client);
    client.say("ACL SETUSER default -rlock.inspect -info");
    run(rlock(&server, &["run", "--no-wait", "key", "true"])).failed(75, &["key: not free"]);
    assert_eq!(run(rlock(&server, &["ls"])).succeeded(), "");
}

const SESSION: &str = "5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1";

/// A session over TCP, as services have them, and how many are open then. Closed, it is unattended.
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

/// Who is on call sees which process waits, and whether it is there.
#[test]
fn inspect_shows_sessions_and_their_tickets() {
    let server = Server::start();
    let mut client = server.client();
    taken(&mut client, "key");
    let attended = session(&server, SESSION, 1);
    let name = attended.local_addr().unwrap();
    wait_by(&mut client, SESSION, "7");
    let gone = session(&server, "a-session-that-is-gone", 2);
    wait_by(&mut client, "a-session-that-is-gone", "order:4711-of-a-long-name");
    drop(gone);
    wait_until("nobody attends to it", || client.figure("sessions_unattended") == 1);
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
    let server = Server::start();
    let mut client = server.client();
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
    // Redisson has no name but a number for each process.
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

/// As clients name themselves: host, process, and an id.
const HOLDER: &str = "web-3:4711:5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1:1";
const LONG_KEY: &str = "tenants:of-the-north:orders:42:payment";

/// A line that the terminal breaks is no row. Programs get all of each name.
#[test]
fn tables_fit_a_terminal_and_are_whole_elsewhere() {
    let server = Server::start();
    let mut client = server.client();
    client.run(&["RLOCK.RACQUIRE", LONG_KEY, HOLDER, "600000"]);
    let mut waiter = server.client();
    waiter.send(&["RLOCK.WACQUIRE", LONG_KEY, HOLDER.replace('1', "2").as_str(), "600000", "WAIT", "0"]);
    client.until_waiting(1);
    let terminal = Terminal::open(&server, &[]);
    terminal.resize_at_the_prompt(80, 30);
    let inspect = format!("inspect {LONG_KEY}");
    let shown = |commands: &str, number: usize| {
        terminal.enter(&format!("clear; {commands}; echo number $(({number} + 1))"));
        terminal.wait_for(&format!("\nnumber {}\n", number + 1));
        terminal.screen()
    };
    for (number, (command, heading, ends)) in [
        ("ls --held", "KEY", &["tenants:of-", "ayment", "web-3:47", "1:1"][..]),
        ("ls", "KEY", &[LONG_KEY]),
        (&inspect, "HOLDER", &["web-3:4711:5d0f3f0e-4a", "a7c5d1:1"]),
        (&inspect, "WAITER", &["web-3:4722:5d0f3f0e-4a", "write"]),
    ]
    .into_iter()
    .enumerate()
    {
        let screen = shown(&format!("rlock {command}"), number);
        let mut lines = screen.lines().skip_while(|line| !line.starts_with(heading));
        let (heading, row) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(ends.iter().all(|end| row.contains(end)), "{screen}");
        let columns = heading.split("  ").filter(|it| !it.is_empty()).count();
        assert_eq!(row.split("  ").filter(|it| !it.is_empty()).count(), columns, "it is whole: {screen}");
        let whole = run(rlock(&server, &command.split(' ').collect::<Vec<_>>())).succeeded().to_owned();
        assert!(!whole.contains('…') && whole.contains(LONG_KEY), "{whole}");
        assert_eq!(whole.contains(HOLDER), command != "ls", "{whole}");
    }
    terminal.resize_at_the_prompt(200, 60);
    let whole = shown(&format!("rlock ls --held | cat; rlock {inspect} --json"), 4);
    assert!(whole.matches(HOLDER).count() == 2 && !whole.contains('…'), "{whole}");
    let question = format!("clear; rlock break {LONG_KEY}");
    terminal.resize_at_the_prompt(70, 30);
    terminal.enter(&question);
    terminal.wait_for("Break it? [y/N]");
    let screen = terminal.screen();
    assert!(screen.lines().any(|line| line.contains('…') && line.contains("read  ")), "{screen}");
}

#[test]
fn a_key_without_a_lock_is_told_apart() {
    let server = Server::start();
    run(rlock(&server, &["inspect", "nobody"])).failed(1, &["nobody: nobody holds it", "rlock ls --held"]);
    let object = json_of(&server, &["inspect", "nobody", "--json"], 1);
    assert_eq!((&object["kind"], &object["waiters"]), (&Value::Null, &json!([])));
    run(rlock(&server, &["break", "--yes", "nobody"])).failed(1, &["nobody holds it", "nothing to break"]);
    assert_eq!(json_of(&server, &["break", "--yes", "--json", "nobody"], 1)["broken"], false);
    server.client().say("SET text 1");
    for command in [&["inspect", "text"][..], &["break", "--yes", "text"]] {
        run(rlock(&server, command)).failed(78, &["text: refused: WRONGTYPE"]);
    }
}

/// Names come from strangers: shown, they do nothing to the terminal; for programs they are there in full.
#[test]
fn names_of_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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

/// The connection of the first that waits, if it has one.
fn connection_of_the_first(server: &Server) -> Option<u64> {
    let object = json_of(server, &["inspect", "key", "--json"], 0);
    object["waiters"][0]["client_id"].as_u64()
}

/// What docs/operations.md says of one waiter that is in the way.
#[test]
fn one_who_waits_keeps_its_place_unless_it_is_told_to_go() {
    let server = Server::start();
    keeps_its_place(&server, &["run", "key", "--", "true"]);
    let server = Server::start();
    keeps_its_place(&server, &["run", "--wait", "10m", "key", "--", "true"]);
}

fn keeps_its_place(server: &Server, arguments: &[&str]) {
    let mut client = server.client();
    taken(&mut client, "key");
    let waits = start(rlock(server, arguments));
    client.until_waiting(1);
    let mut next = server.client();
    next.send(&["RLOCK.ACQUIRE", "key", "next", "600000", "WAIT", "0"]);
    client.until_waiting(2);
    let connection = connection_of_the_first(server).unwrap();
    // The second time says that it waits again after the first.
    for _ in 0..2 {
        let unblock = format!("CLIENT UNBLOCK {connection} TIMEOUT");
        wait_until("it waits for events", || client.say(&unblock).as_int() == 1);
    }
    client.say(&format!("CLIENT KILL ID {connection}"));
    let mut another = None;
    wait_until("it has another connection", || {
        another = connection_of_the_first(server).filter(|it| *it != connection);
        another.is_some()
    });
    // It has asked once, and `next` once: its place is the one that it had from the beginning.
    assert_eq!((client.figure("waits"), client.figure("waiters")), (2, 2));
    let unblock = format!("CLIENT UNBLOCK {} ERROR", another.unwrap());
    wait_until("it waits for events", || client.say(&unblock).as_int() == 1);
    waits.end().failed(75, &["key: an operator has ended the wait", "nothing was run"]);
    assert_eq!((client.figure("waiters"), client.figure("grants")), (1, 1), "only `next` waits on");
}

/// The whole story: cron's job is at work, somebody breaks its lock, and the job is ended.
#[test]
fn break_ends_what_runs_under_the_lock() {
    let server = Server::start();
    let place = Place::new();
    let running = start(
        place.of(rlock(&server, &["run", "--lease", "1s", "key", "sh", "-c", "echo ready >>log; exec sleep 600"])),
    );
    place.wait_for("log", "ready");
    run(rlock(&server, &["break", "--yes", "key"])).succeeded();
    running.end().failed(76, &["key: the lock was lost"]);
}

#[test]
fn break_asks_nobody_where_there_is_no_terminal() {
    let server = Server::start();
    let mut client = server.client();
    taken(&mut client, "key");
    run(rlock(&server, &["break", "key"])).failed(64, &["no terminal", "--yes"]);
    given_back(&mut client, "key");
}

/// A hash of numbers looks like a lock, and would be deleted like one.
#[test]
fn break_says_what_it_would_delete_if_it_may_be_no_lock() {
    let server = Server::start();
    let mut client = server.client();
    client.say("HSET user:1 visits 5");
    client.say("HSET user:2 visits 5 logins 3");
    client.say("PEXPIRE user:2 600000");
    taken(&mut client, "lock");
    let terminal = Terminal::open(&server, &[]);
    let question = |key: &str| {
        terminal.enter("clear");
        terminal.wait_until("nothing but a prompt", |screen| screen.trim() == "prompt>");
        terminal.enter(&format!("rlock break {key}; echo code $?"));
        terminal.wait_for("Break it? [y/N]");
        let screen = terminal.screen();
        terminal.enter("n");
        terminal.wait_for("code 1");
        screen
    };
    let of_one = question("user:1");
    assert!(of_one.contains("may be no lock") && of_one.contains("deletes the hash with visits=5"), "{of_one}");
    let of_two = question("user:2");
    assert!(
        of_two.contains("may be no lock") && of_two.contains("visits=5") && of_two.contains("logins=3"),
        "{of_two}"
    );
    assert!(!question("lock").contains("may be no lock"));
}

#[test]
fn break_asks_at_a_terminal() {
    let server = Server::start();
    let mut client = server.client();
    taken(&mut client, "key");
    let terminal = Terminal::open(&server, &[]);
    for (answer, code, left) in [("n", 1, true), ("", 1, true), ("y", 0, false)] {
        terminal.enter("clear");
        terminal.wait_until("nothing but a prompt", |screen| screen.trim() == "prompt>");
        terminal.enter("rlock break key; echo code $?");
        terminal.wait_for("Break it? [y/N]");
        assert!(terminal.screen().contains("somebody  exclusive"), "it shows who holds it");
        assert!(terminal.screen().lines().all(|line| line.chars().count() <= 80), "{}", terminal.screen());
        terminal.enter(answer);
        terminal.wait_for(&format!("code {code}"));
        assert_eq!(exists(&mut client, "key"), left);
    }
}
