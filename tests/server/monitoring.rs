//! The page about monitoring, `docs/monitoring.md`, and the files beside it: the numbers that they name, and the two
//! ways in which they bring them into Prometheus. Their queries run on a real one in `scripts/test-monitoring.sh`.

use crate::operations::numbers::{names, told};
use crate::operations::{self, stuck};
use crate::page::{self, Page, ROOT};
use crate::shell::Shell;
use rlock_testing::{Client, Reply, Server, start_waiting};
use serde_json::Value;

const PAGE: Page = Page(include_str!("../../docs/monitoring.md"));
const ALERTS: &str = include_str!("../../docs/monitoring/alerts.yaml");
const DASHBOARD: &str = include_str!("../../docs/monitoring/grafana-dashboard.json");
const RECIPE: &str = include_str!("../../docs/monitoring/prometheus.yaml");
pub const SCRIPT: &str = include_str!("../../docs/monitoring/rlock.lua");

/// Of redis_exporter's own metrics those that are used, as its version 1.88.0 names them.
const EXPORTED: [&str; 7] = [
    "redis_commands_duration_seconds_total",
    "redis_commands_total",
    "redis_errors_total",
    "redis_evicted_keys_total",
    "redis_instance_info",
    "redis_latency_spike_last",
    "redis_up",
];

/// What passes between two looks does not matter here.
fn without_times(mut told: Vec<(String, String)>) -> Vec<(String, String)> {
    told.retain(|(name, _)| name != "rlock_oldest_wait_ms");
    told
}

/// What becomes of a name of INFO: one of Prometheus, and the bound of a histogram's bucket.
fn in_prometheus(name: &str) -> (String, Option<&str>) {
    match name.strip_prefix("rlock_wait_ms_le_") {
        Some("inf") => ("rlock_wait_ms_bucket".to_owned(), Some("+Inf")),
        Some(bound) => ("rlock_wait_ms_bucket".to_owned(), Some(bound)),
        None => (name.to_owned(), None),
    }
}

#[test]
fn only_numbers_that_the_recipe_yields_are_used() {
    let server = Server::start();
    let told: Vec<_> = names(&mut server.client()).into_iter().map(|name| in_prometheus(&name).0).collect();
    for text in [PAGE.0, ALERTS, DASHBOARD] {
        let used = page::names(text, "rlock_");
        assert!(!used.is_empty());
        for name in used {
            assert!(told.iter().any(|it| it == name), "the recipe yields no {name}");
        }
        let of_the_exporter = page::names(text, "redis_").into_iter();
        for name in of_the_exporter.filter(|name| !["redis_exporter", "redis_script_values"].contains(name)) {
            assert!(EXPORTED.contains(&name) || name == "redis_module_info", "the exporter has no {name}");
        }
    }
}

/// The alerts, each with its lines.
fn alerts() -> Vec<(&'static str, &'static str)> {
    ALERTS.split("- alert: ").skip(1).map(|alert| alert.split_once('\n').unwrap()).collect()
}

fn told_by<'a>(alert: &'a str, name: &str) -> &'a str {
    let value = alert.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no {name}: {alert}")).trim_matches('"')
}

#[test]
fn every_alert_has_a_row_that_says_what_to_do() {
    let rows = operations::PAGE.0.lines().filter_map(|line| line.strip_prefix("| `Rlock"));
    let rows: Vec<_> = rows.map(|row| row.splitn(3, " | ").collect::<Vec<_>>()).collect();
    let named: Vec<_> = rows.iter().map(|row| format!("Rlock{}", row[0].trim_end_matches('`'))).collect();
    assert_eq!(named, alerts().iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (row, (_, alert)) in rows.iter().zip(alerts()) {
        assert_eq!(row[1] == "yes", alert.contains("labels: {severity: page}"), "{row:?}");
        assert!(row[2].len() > 10, "{row:?}");
        let section = told_by(alert, "runbook").strip_prefix("docs/operations.md").expect("it is on that page");
        assert!(section == "#what-to-alert-on" || row[2].contains(&format!("({section})")), "{section}: {row:?}");
    }
}

/// Who is woken up has many servers.
#[test]
fn every_alert_names_the_server_and_the_value() {
    for (name, alert) in alerts() {
        let summary = told_by(alert, "summary");
        assert!(summary.starts_with("{{ $labels.instance }}: ") && summary.contains("{{ $value "), "{name}: {summary}");
    }
}

/// What is tolerated is said once, in the file and on the page, and used.
#[test]
fn what_is_tolerated_is_on_the_page() {
    let records = ALERTS.split("record: \"rlock:").skip(1).map(|rest| rest.split_once('"').unwrap());
    let mut count = 0;
    for (name, rest) in records {
        count += 1;
        let used = ALERTS.matches(&format!(" rlock:{name}")).count();
        assert_eq!(used, 1, "{name}");
        let row = PAGE.0.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("the page has no {name}"));
        let value = rest.split_once("vector(").unwrap().1.split_once(')').unwrap().0;
        assert!(row.contains(&format!("| {value} |")) || name.starts_with("max_"), "{name}: {row}");
    }
    assert_eq!(count, 8);
}

/// The limits are the settings' own.
#[test]
fn the_limits_of_the_alerts_are_those_of_a_fresh_server() {
    let (_server, mut client) = Server::with_client();
    for name in ["max_waiters", "max_tickets", "max_sessions"] {
        let setting = client.say(&format!("CONFIG GET rlock.{}", name.replace('_', "-")));
        let record = format!("{{record: \"rlock:{name}\", expr: vector({})}}", setting.words()[1]);
        assert!(ALERTS.contains(&record), "{record}");
    }
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

#[test]
fn every_panel_of_the_dashboard_says_what_it_shows() {
    let panels = panels();
    assert!(panels.len() > 10);
    for panel in &panels {
        for what in ["title", "description"] {
            assert!(panel[what].as_str().unwrap().len() > 3, "{panel}");
        }
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains("instance=~\"$instance\""), "one server alone can be chosen: {query}");
            assert_eq!(target["datasource"]["uid"], "${DS_PROMETHEUS}", "{query}");
        }
    }
    let mut ids: Vec<_> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
}

#[test]
fn no_panel_lies_upon_another() {
    let mut taken = std::collections::HashSet::new();
    for panel in panels() {
        let of = |what: &str| panel["gridPos"][what].as_i64().unwrap();
        assert!(of("x") + of("w") <= 24, "Grafana's grid has 24 columns: {}", panel["title"]);
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "{} at {x}, {y}", panel["title"]);
            }
        }
    }
}

/// The script of scripts/test-monitoring.sh finds the queries by their lines.
#[test]
fn every_query_has_a_line_of_its_own() {
    let queries: usize = panels().iter().map(|panel| panel["targets"].as_array().unwrap().len()).sum();
    let lines = DASHBOARD.lines().filter(|line| line.trim_start().starts_with("\"expr\": \""));
    assert_eq!(lines.count(), queries);
}

#[test]
fn errors_that_alerts_count_have_the_names_that_the_server_counts_them_by() {
    let (_server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.max-waiters 0");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("RLOCK.RACQUIRE k bob 600000");
    client.say("RLOCK.RACQUIRE r bob 600000");
    client.say("RLOCK.WACQUIRE r bob 600000 WAIT 0");
    let errors = client.info("errorstats");
    for name in ["QUEUEFULL", "WRONGKIND", "DEADLOCK"] {
        assert_eq!(errors.find(&format!("errorstat_{name}")), Some("count=1"), "{errors:?}");
        assert!(PAGE.0.contains(name));
    }
}

/// The alert about limits that are reached takes the one from the other.
#[test]
fn who_is_turned_away_by_its_own_bound_is_counted_as_an_error_and_by_itself() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let _bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("RLOCK.ACQUIRE k cid 600000 WAIT 0 MAX 1");
    assert_eq!(client.info("errorstats").find("errorstat_QUEUEFULL"), Some("count=1"));
    assert_eq!(client.figure("turned_away"), 1);
    assert!(ALERTS.contains("- on (instance) rlock_turned_away"));
}

/// As redis_exporter runs it: without keys, with one argument; what comes back are names, each with a number behind it.
fn by_script(client: &mut Client, command: &str) -> Vec<(String, String)> {
    let reply = client.run(&[command, SCRIPT, "0", "0"]);
    let flat = reply.as_list().iter().map(Reply::as_text).map(str::to_owned).collect::<Vec<_>>();
    let mut told: Vec<_> = flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert!(told.iter().all(|(_, value)| value.parse::<f64>().is_ok()), "{told:?}");
    told.sort();
    told
}

#[test]
fn the_exporters_script_tells_what_info_tells() {
    let (server, mut client) = Server::with_client();
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
fn what_needs_root_is_shell_and_names_files_that_are_there() {
    PAGE.parses(3);
}

/// As the page runs it.
fn textfile(shell: &Shell) -> std::process::Output {
    std::os::unix::fs::symlink(format!("{ROOT}/docs"), shell.path().join("docs")).unwrap();
    let [command] = &PAGE.commands()[..] else { panic!("one command is run: {:?}", PAGE.commands()) };
    shell.run(command)
}

#[test]
fn the_file_for_the_textfile_collector_has_each_number_once() {
    let (server, mut client) = Server::with_client();
    let _waiters = stuck(&server);
    let shell = Shell::on(&server);
    let output = textfile(&shell);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let written = std::fs::read_to_string(shell.path().join("rlock.prom")).unwrap();
    let label = format!("port=\"{}\"", server.port());
    let named = |(name, value): (String, String)| match in_prometheus(&name) {
        (name, None) => (format!("{name}{{{label}}}"), value),
        (name, Some(bound)) => (format!("{name}{{{label},le=\"{bound}\"}}"), value),
    };
    let without_time = |(name, _): &(String, String)| !name.starts_with("rlock_oldest_wait_ms{");
    let mut expected: Vec<_> = told(&mut client).into_iter().map(named).filter(without_time).collect();
    let lines = written.lines().map(|line| line.split_once(' ').unwrap());
    let mut lines: Vec<_> =
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).filter(without_time).collect();
    expected.sort();
    lines.sort();
    assert_eq!(lines, expected);
    assert_eq!(client.figure("waiters"), 2);
}

fn leaves_no_file(shell: &Shell, code: i32) {
    std::fs::write(shell.path().join("rlock.prom"), "rlock_waiters 1").unwrap();
    assert_eq!(textfile(shell).status.code(), Some(code));
    assert!(!shell.path().join("rlock.prom").exists(), "old numbers are no numbers");
    assert!(!shell.path().join("rlock.prom.new").exists());
}

#[test]
fn without_a_server_there_is_no_file() {
    let mut server = Server::start();
    let shell = Shell::on(&server);
    server.kill();
    leaves_no_file(&shell, 69);
}

#[test]
fn without_the_module_there_is_no_file() {
    let server = Server::prepare().without_module().start();
    leaves_no_file(&Shell::on(&server), 78);
}

/// redis_exporter puts `key` and `filename` on what its script yields, which the alerts do not expect.
#[test]
fn no_label_of_the_script_stays() {
    for label in ["key", "filename"] {
        let empties = format!("regex: \"rlock_.+\", target_label: {label}, replacement: \"\"");
        assert!(RECIPE.contains(&empties), "{label}");
    }
}

#[test]
fn the_exporters_user_is_on_the_page_for_people_on_call() {
    assert!(PAGE.0.contains("(operations.md#who-may-do-what)"));
    assert!(operations::PAGE.blocks("acl")[0].contains("\nuser metrics "));
}
