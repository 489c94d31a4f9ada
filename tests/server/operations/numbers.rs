//! The numbers that the page names, and the two ways in which it brings them into Prometheus.

use super::{Shell, page, stuck};
use rlock_testing::{Client, Reply, Server, text};

/// Of redis_exporter's own metrics those that the alerts use, as its version 1.88.0 names them.
const EXPORTED: [&str; 5] =
    ["redis_errors_total", "redis_evicted_keys_total", "redis_instance_info", "redis_latency_spike_last", "redis_up"];

/// Each number of INFO with its value, in order of the names.
fn told(client: &mut Client) -> Vec<(String, String)> {
    let info = client.info("rlock");
    let mut told: Vec<_> = info.lines().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    told.sort();
    told
}

fn names(client: &mut Client) -> Vec<String> {
    told(client).into_iter().map(|(name, _)| name).collect()
}

/// What passes between two looks does not matter here.
fn without_times(mut told: Vec<(String, String)>) -> Vec<(String, String)> {
    told.retain(|(name, _)| name != "rlock_oldest_wait_ms");
    told
}

#[test]
fn every_number_that_is_named_is_told() {
    let server = Server::start();
    let told = names(&mut server.client());
    let named = page::names(page::PAGE, "rlock_");
    assert!(named.len() > 8, "{named:?}");
    for name in named {
        assert!(told.iter().any(|it| it == name), "INFO has no {name}");
    }
}

/// The rows of the page's table: the name, what it means, and when to worry.
fn rows() -> Vec<[&'static str; 3]> {
    let (_, table) = page::PAGE.split_once("| line | means | worry when |\n|---|---|---|\n").expect("the table");
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    rows.map(|row| {
        let cells: Vec<_> = row.splitn(3, " | ").collect();
        [cells[0].strip_suffix('`').expect("a name alone"), cells[1], cells[2]]
    })
    .collect()
}

#[test]
fn the_table_has_every_line_of_info_once_and_no_other() {
    let server = Server::start();
    let mut named: Vec<_> = rows().iter().map(|[name, ..]| (*name).to_owned()).collect();
    named.sort();
    assert_eq!(named, names(&mut server.client()));
    for [name, means, worry] in rows() {
        assert!(!means.trim().is_empty() && !worry.trim().is_empty(), "{name}");
    }
}

/// Who has a name from INFO looks for it as it is.
#[test]
fn every_number_has_its_own_name_in_the_reference_too() {
    assert!(page::PAGE.contains("(commands.md#info)"));
    let explained = include_str!("../../../docs/commands.md").split("\n### INFO").nth(1).unwrap();
    let explained = explained.split("\n### ").next().unwrap();
    let server = Server::start();
    for name in names(&mut server.client()) {
        assert!(explained.contains(&format!("`{name}`")), "{name} is not explained");
    }
}

#[test]
fn alerts_use_only_numbers_that_the_recipe_yields() {
    let server = Server::start();
    let told = names(&mut server.client());
    let alerts = page::blocks("yaml")[0];
    for name in page::names(alerts, "rlock_") {
        assert!(told.iter().any(|it| it == name), "nobody yields {name}");
    }
    assert_eq!(page::names(alerts, "redis_"), EXPORTED);
}

#[test]
fn errors_that_alerts_count_have_the_names_that_the_server_counts_them_by() {
    let server = Server::start();
    let mut client = server.client();
    client.say("CONFIG SET rlock.max-waiters 0");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("RLOCK.RACQUIRE k bob 600000");
    client.say("RLOCK.RACQUIRE r bob 600000");
    client.say("RLOCK.WACQUIRE r bob 600000 WAIT 0");
    let errors = client.info("errorstats");
    for name in ["QUEUEFULL", "WRONGKIND", "DEADLOCK"] {
        assert_eq!(errors.find(&format!("errorstat_{name}")), Some("count=1"), "{errors:?}");
        assert!(page::PAGE.contains(name));
    }
}

/// As redis_exporter runs it: without keys, with one argument; what comes back are names, each with a number behind it.
fn by_script(client: &mut Client, command: &str) -> Vec<(String, String)> {
    let reply = client.run(&[command, page::blocks("lua")[0], "0", "0"]);
    let flat = reply.as_list().iter().map(Reply::as_text).map(str::to_owned).collect::<Vec<_>>();
    let mut told: Vec<_> = flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert!(told.iter().all(|(_, value)| value.parse::<f64>().is_ok()), "{told:?}");
    told.sort();
    told
}

#[test]
fn the_exporters_script_tells_what_info_tells() {
    let server = Server::start();
    let mut client = server.client();
    let _waiters = stuck(&server);
    for command in ["EVAL", "EVAL_RO"] {
        assert_eq!(without_times(by_script(&mut client, command)), without_times(told(&mut client)), "{command}");
    }
    let unloaded = Server::prepare().without_module().start();
    assert_eq!(by_script(&mut unloaded.client(), "EVAL"), [], "no error either, which would make redis_up 0");
}

#[test]
fn the_exporters_script_goes_on_in_bad_times() {
    let server = Server::start();
    let (mut client, mut exporter) = (server.client(), server.client());
    let expected = names(&mut client).len();
    client.say("CLIENT PAUSE 600000 WRITE");
    assert_eq!(by_script(&mut exporter, "EVAL_RO").len(), expected, "while writes are paused");
    client.say("CLIENT UNPAUSE");
    client.say("CONFIG SET maxmemory 1");
    assert_eq!(by_script(&mut exporter, "EVAL").len(), expected, "on a full server");
    client.say("CONFIG SET maxmemory 0");
    client.say("CONFIG SET min-replicas-to-write 1");
    assert_eq!(by_script(&mut exporter, "EVAL").len(), expected, "without enough replicas");
    client.say("CONFIG SET min-replicas-to-write 0");
    client.say("REPLICAOF 127.0.0.1 1");
    assert_eq!(by_script(&mut exporter, "EVAL").len(), expected, "on a replica");
}

#[test]
fn the_file_for_the_textfile_collector_has_each_number_once() {
    let mut server = Server::start();
    let mut client = server.client();
    let _waiters = stuck(&server);
    let shell = Shell::on(&server);
    shell.program("rlock-metrics", page::program());
    let file = shell.path().join("rlock.prom");
    assert_eq!(shell.prints("rlock-metrics rlock.prom"), "");
    let written = std::fs::read_to_string(&file).unwrap();
    let label = format!("{{port=\"{}\"}}", server.port());
    let mut lines: Vec<_> = written
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, value)| (name.strip_suffix(&label).unwrap().to_owned(), value.to_owned()))
        .collect();
    lines.sort();
    assert_eq!(without_times(lines), without_times(told(&mut client)));
    assert_eq!(client.figure("waiters"), 2);
    server.kill();
    assert_eq!(shell.run("rlock-metrics rlock.prom").status.code(), Some(69), "no server answers");
    assert!(!file.exists(), "old numbers are no numbers");
    assert!(!shell.path().join("rlock.prom.new").exists());
}

#[test]
fn without_the_module_there_is_no_file() {
    let server = Server::prepare().without_module().start();
    let shell = Shell::on(&server);
    shell.program("rlock-metrics", page::program());
    assert_eq!(shell.run("rlock-metrics rlock.prom").status.code(), Some(78), "no module");
    assert!(!shell.path().join("rlock.prom").exists());
    assert!(!shell.path().join("rlock.prom.new").exists());
}

/// redis_exporter puts `key` and `filename` on what its script yields, which the alerts do not expect.
#[test]
fn no_label_of_the_script_stays() {
    let recipe = page::blocks("yaml")[1];
    for label in ["key", "filename"] {
        let empties = format!("regex: \"rlock_.+\", target_label: {label}, replacement: \"\"");
        assert!(recipe.contains(&empties), "{label}");
    }
}

#[test]
fn nobody_follows_a_server_that_is_alone() {
    let server = Server::start();
    let mut client = server.client();
    rlock_testing::wait_until("the server has been asked", || client.figure("followed") == 0);
    assert_eq!(client.say("CONFIG SET appendonly yes"), text("OK"));
    rlock_testing::wait_until("a file follows", || client.figure("followed") == 1);
}
