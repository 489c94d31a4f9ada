//! `rlock doctor`: a correct setup is reported as such; each fault is found, and gone when the suggested line is sent.

use crate::pages::fence;
use crate::support::{bare, rlock, run, taken};
use rlock_testing::{Client, Cluster, Server, Watched, text, wait_until};
use serde_json::Value;
use std::process::Command;

/// The settings of the servers in docs/deploy.md, as far as they can be changed while a server runs.
fn settings_of_the_page(block: &str) -> Vec<String> {
    let fixed = ["port", "bind", "dir", "requirepass", "masterauth", "loadmodule", "cluster-enabled"];
    let page = fence("docs/deploy.md", &format!("conf {block}"));
    let lines = page.lines().filter(|line| line.split(' ').next().is_some_and(|name| !fixed.contains(&name)));
    lines.map(str::to_owned).collect()
}

fn set(server: &Server, setting: &str) {
    assert_eq!(server.client().say(&format!("CONFIG SET {setting}")), text("OK"), "{setting}");
}

fn doctor_at(url: &str) -> Command {
    bare(&["-u", url, "doctor", "--json"])
}

/// The code, and the findings.
fn examined(command: Command) -> (i32, Vec<Value>) {
    let ended = run(command);
    assert_eq!(ended.errors, "", "{ended:?}");
    let report: Value = serde_json::from_str(&ended.output).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(report["fine"], Value::Bool(ended.code() == 0), "{ended:?}");
    assert!(report["servers"].as_array().is_some_and(|servers| !servers.is_empty()), "{ended:?}");
    (ended.code(), report["findings"].as_array().unwrap().clone())
}

fn of_level<'a>(findings: &'a [Value], level: &str) -> Vec<&'a str> {
    findings.iter().filter(|it| it["level"] == level).map(|it| it["about"].as_str().unwrap()).collect()
}

/// Finds only this fault, and nothing after the suggested line fixed it.
#[track_caller]
fn is_fixed(doctor: impl Fn() -> Command, about: &str, mut send: impl FnMut(&Value, &str)) {
    let (code, findings) = examined(doctor());
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec![about]), "{findings:?}");
    let wrong = findings.iter().find(|it| it["level"] == "wrong").unwrap();
    send(&wrong["at"], wrong["fix"].as_str().unwrap());
    let (code, findings) = examined(doctor());
    assert_eq!((code, of_level(&findings, "wrong").len()), (0, 0), "{findings:?}");
}

fn say_to(servers: &[&Server], at: &Value, line: &str) {
    for address in at.as_array().unwrap() {
        let port = address.as_str().unwrap().rsplit(':').next().unwrap();
        let server = servers.iter().find(|server| server.port().to_string() == port).unwrap();
        assert_eq!(server.client().say(line), text("OK"), "{line}");
    }
}

#[test]
fn one_server_is_fine_and_its_risk_is_noted() {
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let (code, findings) = examined(rlock(&server, &["doctor", "--json"]));
    assert_eq!((code, findings.len(), of_level(&findings, "note")), (0, 1, vec!["replicas"]), "{findings:?}");
    assert!(findings[0]["what"].as_str().unwrap().contains("the locks of the last second"), "{findings:?}");
    let shown = run(rlock(&server, &["doctor"]));
    assert!(shown.succeeded().contains(": 1 master\nnothing is wrong\n\nnote: "), "{shown:?}");
    set(&server, "appendonly no");
    let shown = run(rlock(&server, &["doctor"]));
    assert_eq!(shown.code(), 1);
    for words in ["\nwrong: ", ": appendonly is no: ", "\n  fix: CONFIG SET appendonly yes\n", "CONFIG REWRITE"] {
        assert!(shown.output.contains(words), "{words}: {shown:?}");
    }
}

/// By either name: the servers, how many hold and wait, and what is wrong without the fix.
#[test]
fn in_short_it_shows_what_is_there_and_what_is_wrong() {
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let mut client = server.client();
    taken(&mut client, "key");
    taken(&mut client, "other");
    let mut waits = server.client();
    waits.send(&["RLOCK.ACQUIRE", "key", "waiter", "600000", "WAIT", "0"]);
    client.until_waiting(1);
    let text = run(rlock(&server, &["doctor", "--short"])).succeeded().to_owned();
    for words in ["1 master, 1 waiting for 1 lock, 2 held", "  master ", "  0.1.0\n", "\nnothing is wrong\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let report: Value = serde_json::from_str(run(rlock(&server, &["status", "--json"])).succeeded()).unwrap();
    assert_eq!(
        (&report["fine"], &report["waiters"], &report["held"]),
        (&true.into(), &1.into(), &2.into()),
        "{report}"
    );
    assert_eq!((&report["locks_with_waiters"], &report["held_is_all"]), (&1.into(), &true.into()), "{report}");
    assert_eq!(
        (&report["servers"][0]["module"], &report["findings"]),
        (&"0.1.0".into(), &Value::Array(vec![])),
        "{report}"
    );
    set(&server, "appendonly no");
    let status = run(rlock(&server, &["status"]));
    assert_eq!(status.code(), 1, "{status:?}");
    assert!(status.output.contains("\nwrong: ") && !status.output.contains("fix: "), "{status:?}");
    assert!(status.output.ends_with("\nrlock doctor says how to fix it\n"), "{status:?}");
}

#[test]
fn each_fault_of_one_server_is_fixed_by_its_line() {
    let server = Server::prepare().options(&["--appendonly", "yes", "--maxmemory", "1gb"]).start();
    for (fault, about) in [
        ("appendonly no", "appendonly"),
        ("appendfsync no", "appendfsync"),
        ("maxmemory-policy allkeys-lru", "maxmemory-policy"),
        ("maxmemory-policy volatile-ttl", "maxmemory-policy"),
        ("min-replicas-to-write 1", "min-replicas-to-write"),
    ] {
        set(&server, fault);
        is_fixed(
            || rlock(&server, &["doctor", "--json"]),
            about,
            |_, line| {
                assert_eq!(server.client().say(line), text("OK"), "{line}");
            },
        );
    }
}

/// A master and two replicas that three sentinels watch, and their address.
fn watched() -> (Watched, String) {
    let watched = Watched::start(2);
    for server in &watched.servers {
        settings_of_the_page("redis.conf").iter().for_each(|setting| set(server, setting));
    }
    let page = fence("docs/deploy.md", "conf sentinel.conf");
    assert!(page.contains("\nsentinel down-after-milliseconds locks 6000\n"), "{page}");
    after(&watched, 6_000);
    let hosts: Vec<_> = watched.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), Watched::NAME);
    until_in_touch(&watched.servers);
    (watched, url)
}

/// A server that requires a replica counts them once a second.
fn until_in_touch(servers: &[Server]) {
    let mut master = servers[0].client();
    wait_until("the replicas are in touch", || master.info("replication").number("min_slaves_good_slaves") == 2);
}

fn after(watched: &Watched, ms: u32) {
    for sentinel in &watched.sentinels {
        let command = format!("SENTINEL SET {} down-after-milliseconds {ms}", Watched::NAME);
        assert_eq!(sentinel.client().say(&command), text("OK"));
    }
}

#[test]
fn sentinels_and_their_servers() {
    let (watched, url) = watched();
    let doctor = || doctor_at(&url);
    let (code, findings) = examined(doctor());
    assert_eq!((code, findings), (0, vec![]));
    let short = run(bare(&["-u", &url, "status"])).succeeded().to_owned();
    let roles = |role: &str| short.lines().filter(|line| line.contains(&format!("  {role} "))).count();
    assert_eq!((roles("master"), roles("replica")), (1, 2), "{short}");
    assert!(short.contains("1 master, 2 replicas, 3 sentinels, 0 waiting for 0 locks, 0 held"), "{short}");
    let [servers, sentinels] = [&watched.servers, &watched.sentinels].map(|all| all.iter().collect::<Vec<_>>());
    for (place, fault, about) in [
        (0, "min-replicas-to-write 0", "min-replicas-to-write"),
        (1, "min-replicas-to-write 0", "min-replicas-to-write"),
        (2, "min-replicas-max-lag 0", "min-replicas-max-lag"),
        (1, "min-replicas-max-lag 10", "min-replicas-max-lag"),
        (0, "rlock.grace 0", "rlock.grace"),
        (2, "rlock.grace 29000", "rlock.grace"),
        (1, "appendonly no", "appendonly"),
    ] {
        set(servers[place], fault);
        is_fixed(doctor, about, |at, line| say_to(&servers, at, line));
        until_in_touch(&watched.servers);
    }
    servers.iter().for_each(|server| set(server, "min-replicas-max-lag 3"));
    after(&watched, 6_500);
    is_fixed(doctor, "min-replicas-max-lag", |at, line| {
        assert_eq!(line, "CONFIG SET min-replicas-max-lag 2");
        say_to(&servers, at, line);
    });
    after(&watched, 2_000);
    is_fixed(doctor, "min-replicas-max-lag", |_, line| {
        assert!(line.starts_with("SENTINEL SET"), "{line}");
        sentinels.iter().for_each(|sentinel| assert_eq!(sentinel.client().say(line), text("OK")));
    });
}

#[test]
fn what_has_failed_is_found() {
    let (mut watched, url) = watched();
    watched.sentinels[2].kill();
    let (code, findings) = examined(doctor_at(&url));
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec!["sentinel"]), "{findings:?}");
    watched.servers[2].kill();
    let mut master = watched.servers[0].client();
    wait_until("it is missed", || master.info("replication").number("connected_slaves") == 1);
    let (_, findings) = examined(doctor_at(&url));
    assert!(of_level(&findings, "wrong").contains(&"replication"), "{findings:?}");
    assert_eq!(of_level(&findings, "not known"), ["silence"]);
    assert_eq!(of_level(&findings, "note"), [""; 0], "a sentinel still knows of both replicas");
}

#[test]
fn a_cluster() {
    let mut cluster = Cluster::start_with_replicas();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.masters[0].port());
    for server in cluster.nodes() {
        settings_of_the_page("cluster.conf").iter().for_each(|setting| set(server, setting));
    }
    wait_until("the replicas are in touch", || {
        let good = |it: &Server| it.client().info("replication").number("min_slaves_good_slaves");
        cluster.masters.iter().all(|master| good(master) == 1)
    });
    let servers: Vec<_> = cluster.nodes().collect();
    let (code, findings) = examined(doctor_at(&url));
    assert_eq!((code, of_level(&findings, "note")), (0, vec!["min-replicas-to-write"]), "{findings:?}");
    servers.iter().for_each(|server| set(server, "cluster-node-timeout 1500"));
    is_fixed(
        || doctor_at(&url),
        "min-replicas-max-lag",
        |at, line| {
            assert_eq!((at.as_array().unwrap().len(), line), (6, "CONFIG SET cluster-node-timeout 6000"));
            say_to(&servers, at, line);
        },
    );
    set(servers[4], "rlock.grace 0");
    is_fixed(|| doctor_at(&url), "rlock.grace", |at, line| say_to(&servers, at, line));
    assert_eq!(servers[0].client().say("CLUSTER DELSLOTS 0"), text("OK"));
    let (code, findings) = examined(doctor_at(&url));
    assert_eq!((code, of_level(&findings, "wrong")[0]), (1, "slots"), "{findings:?}");
    assert_eq!(servers[0].client().say("CLUSTER ADDSLOTS 0"), text("OK"));
    let one = format!("redis://127.0.0.1:{}", cluster.masters[0].port());
    let (code, findings) = examined(doctor_at(&one));
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec!["address"]), "{findings:?}");
    assert_eq!(findings[0]["fix"], format!("RLOCK_URL={url}"));
    cluster.replicas[1].kill();
    let mut master = cluster.masters[1].client();
    wait_until("it is missed", || master.info("replication").number("connected_slaves") == 0);
    let (code, findings) = examined(doctor_at(&url));
    assert_eq!(code, 1);
    assert!(of_level(&findings, "wrong").iter().any(|it| ["replication", "server"].contains(it)), "{findings:?}");
}

#[test]
fn the_right_to_each_command_of_the_module_is_looked_for() {
    let (server, mut client) = Server::with_client();
    let commands = client.say("COMMAND LIST FILTERBY MODULE rlock");
    // A build for tests has two more.
    let commands = commands.words().into_iter().filter(|it| !["rlock.call", "rlock.panic"].contains(it));
    let commands: Vec<_> = commands.collect();
    assert!(commands.len() > 10, "{commands:?}");
    client.say(&format!("ACL SETUSER default {}", commands.iter().map(|it| format!("-{it} ")).collect::<String>()));
    let (_, findings) = examined(rlock(&server, &["doctor", "--json"]));
    let rights = findings.iter().filter(|it| it["about"] == "rights");
    let lines: String = rights.map(|it| format!("{} ", it["fix"].as_str().unwrap())).collect();
    for command in commands {
        assert!(lines.contains(&format!("+{command} ")), "{command}: {lines}");
    }
}

#[test]
fn a_replica_is_not_where_locks_are() {
    let (master, replica) = (Server::start(), Server::prepare().without_module().start());
    replica.follow(&master);
    let (code, findings) = examined(doctor_at(&format!("redis://127.0.0.1:{}", replica.port())));
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec!["address"]));
    let url = findings[0]["fix"].as_str().unwrap().strip_prefix("RLOCK_URL=").unwrap();
    let (_, findings) = examined(doctor_at(url));
    let module = findings.iter().find(|it| it["about"] == "module").unwrap();
    assert!(module["at"][0].as_str().unwrap().ends_with(&replica.port().to_string()), "{module:?}");
    assert!(module["fix"].as_str().unwrap().starts_with("loadmodule /"), "{module:?}");
}

#[test]
fn without_a_module_or_a_server() {
    let mut server = Server::prepare().without_module().options(&["--appendonly", "yes"]).start();
    let (code, findings) = examined(rlock(&server, &["doctor", "--json"]));
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec!["module"]));
    let status = run(rlock(&server, &["status"]));
    assert!(status.output.contains("  none\n") && status.output.contains("how many wait is not known"), "{status:?}");
    server.kill();
    run(rlock(&server, &["doctor", "--json"])).failed(69, &["no server answers"]);
}

/// What is not known is not fine.
#[test]
fn missing_rights_are_reported() {
    const LOCKS: &str = "+rlock.acquire +rlock.release +rlock.renew +rlock.events +rlock.cancel";
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let mut client = server.client();
    let mut as_app = |rights: &str| {
        let reply = client.say(&format!("ACL SETUSER app reset on >secret ~app:* {rights}"));
        assert_eq!(reply, text("OK"));
        let mut command = bare(&["doctor", "--json"]);
        command.env("RLOCK_URL", format!("redis://app@127.0.0.1:{}", server.port())).env("RLOCK_PASSWORD", "secret");
        command
    };
    let (code, findings) = examined(as_app(LOCKS));
    assert_eq!((code, of_level(&findings, "wrong")), (77, vec![]), "{findings:?}");
    assert_eq!(of_level(&findings, "not known"), ["info", "settings", "clock"]);
    let (code, findings) = examined(as_app(&format!("{LOCKS} +info +time +config|get")));
    assert_eq!((code, of_level(&findings, "not known")), (0, vec![]), "{findings:?}");
    let (code, findings) = examined(as_app("+info"));
    assert_eq!((code, of_level(&findings, "wrong")), (1, vec!["rights"]));
    let line = findings[0]["fix"].as_str().unwrap();
    assert_eq!(line, format!("ACL SETUSER app {LOCKS}"));
    assert_eq!(client.say(line), text("OK"));
    let mut again = bare(&["doctor", "--json"]);
    again.env("RLOCK_URL", format!("redis://app@127.0.0.1:{}", server.port())).env("RLOCK_PASSWORD", "secret");
    assert_eq!(of_level(&examined(again).1, "wrong"), [""; 0]);
}

/// Its requests change nothing.
#[test]
fn it_changes_nothing() {
    let server = Server::prepare().options(&["--appendonly", "yes"]).start();
    let mut client: Client = server.client();
    client.say("RLOCK.ACQUIRE held ann 600000");
    let (keys, offset) = (client.keys(), client.info("server").find("run_id").map(str::to_owned));
    let waits = ["waits", "sessions", "grants", "breaks"].map(|name| client.figure(name));
    run(rlock(&server, &["doctor"])).succeeded();
    assert_eq!((client.keys(), client.info("server").find("run_id").map(str::to_owned)), (keys, offset));
    assert_eq!(["waits", "sessions", "grants", "breaks"].map(|name| client.figure(name)), waits);
}
