//! What the pages say of servers and none of their fences shows: rights, figures, memory, files. cli/tests/cli/pages runs the
//! fences.

use rlock_testing::{Client, Reply, Server, Start, start_waiting, unix_ms, wait_until};
use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use yaml_rust2::{Yaml, YamlLoader};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ON_CALL: &str = include_str!("../../docs/on-call.md");
const RUNNING: &str = include_str!("../../docs/running.md");
const DEPLOY: &str = include_str!("../../docs/deploy.md");
const MONITORING: &str = include_str!("../../docs/monitoring.md");
const ALERTS: &str = include_str!("../../docs/monitoring/alerts.yaml");
const DASHBOARD: &str = include_str!("../../docs/monitoring/grafana-dashboard.json");
const SCRIPT: &str = include_str!("../../docs/monitoring/rlock.lua");
const MANIFEST: &str = include_str!("../../docs/kubernetes/rlock.yaml");
const OF_OTHERS: [(&str, &str); 3] = [
    ("ot-operator.yaml", include_str!("../../docs/kubernetes/ot-operator.yaml")),
    ("valkey-operator.yaml", include_str!("../../docs/kubernetes/valkey-operator.yaml")),
    ("valkey-helm.yaml", include_str!("../../docs/kubernetes/valkey-helm.yaml")),
];
const FIELDS: &str = include_str!("manifest-fields.txt");
const INSTALLED: &str = "/usr/lib/redis/modules/librlock.so";

/// A server with the users of docs/running.md, as an ACL file has them.
fn with_users() -> Start {
    let (_, users) = RUNNING.split_once("\n```acl\n").unwrap();
    let start = Server::prepare();
    let path = start.directory().join("users.acl");
    std::fs::write(&path, users.split_once("```").unwrap().0).unwrap();
    start.options(&["--aclfile", path.to_str().unwrap()])
}

fn client_as(server: &Server, user: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.say(&format!("AUTH {user} change-me")).words(), ["OK"]);
    client
}

/// Commands, and the users of the page that may send them. All other users are refused.
const RIGHTS: [(&str, &str); 51] = [
    ("CLIENT SETNAME rlock:web-3:4711", "orders-service watcher operator metrics orders-redisson"),
    ("RLOCK.ACQUIRE app:1 h 600000 FENCED", "orders-service"),
    ("RLOCK.RENEW app:1 h 600000", "orders-service"),
    ("RLOCK.RELEASE app:1 h", "orders-service"),
    ("RLOCK.RACQUIRE app:2 h 600000 FENCED", "orders-service"),
    ("RLOCK.RELEASE app:2 h ALL", "orders-service"),
    ("RLOCK.WACQUIRE app:{3} h 600000 WAIT 0", "orders-service"),
    ("RLOCK.RELEASE app:{3} h WRITE", "orders-service"),
    ("RLOCK.PACQUIRE app:4 h 600000 LIMIT 2", "orders-service"),
    ("RLOCK.MACQUIRE 2 app:5 app:6 h 600000", "orders-service"),
    ("RLOCK.EVENTS the-session-of-orders", "orders-service"),
    ("RLOCK.ACQUIRE app:7 h 600000 WAIT 0 SESSION the-session-of-orders 1", "orders-service"),
    ("RLOCK.CANCEL the-session-of-orders 1", "orders-service"),
    ("RLOCK.ACQUIRE other h 600000", ""),
    ("RLOCK.ACQUIRE {app:1} h 600000", ""),
    ("RLOCK.MACQUIRE 2 app:5 other h 600000", ""),
    ("RLOCK.INSPECT app:held", "watcher operator"),
    ("RLOCK.INSPECT other", ""),
    ("RLOCK.QUEUES", "watcher operator"),
    ("INFO rlock", "watcher operator metrics"),
    ("SLOWLOG LEN", "metrics"),
    ("LATENCY LATEST", "operator metrics"),
    ("LATENCY HISTOGRAM", "operator metrics"),
    ("EVAL return(0) 0", "metrics orders-redisson"),
    ("EVAL return(redis.call('DEL','other')) 0", ""),
    ("EVAL return(0) 1 other", ""),
    ("EVAL return(redis.call('hincrby',KEYS[1],'uuid:1',1)) 1 app:8", "orders-redisson"),
    ("EVAL return(redis.call('pexpire',KEYS[1],30000)) 1 app:8", "orders-redisson"),
    ("EVAL return(redis.call('publish',KEYS[1],0)) 1 redisson_lock__channel:{app:8}", "orders-redisson"),
    ("EVAL return(redis.call('publish',KEYS[1],1)) 1 redisson_rwlock:{app:8}", "orders-redisson"),
    ("EVAL return(redis.call('set',KEYS[1],1,'px',1000)) 1 redisson_unlock_latch:{app:8}:0f", "orders-redisson"),
    ("EVAL return(redis.call('incr',KEYS[1])) 1 redisson_lock_token:{app:8}", "orders-redisson"),
    ("EVAL return(redis.call('exists',KEYS[1])) 1 {app:8}:uuid:1:rwlock_timeout", "orders-redisson"),
    ("EVAL return(redis.call('del',KEYS[1])) 1 app:8", "orders-redisson"),
    ("SUBSCRIBE redisson_lock__channel:{app:1}", "orders-redisson"),
    ("SUBSCRIBE redisson_rwlock:{app:1}", "orders-redisson"),
    ("SUBSCRIBE redisson_lock__channel:{other}", ""),
    ("GET redisson_lock_token:{app:1}", "orders-redisson"),
    ("HGETALL app:held", "operator orders-redisson"),
    ("PTTL app:held", "operator orders-redisson"),
    ("DEL other", ""),
    ("SCAN 0", "operator"),
    ("CLIENT LIST", "operator"),
    ("CLIENT UNBLOCK 812", "operator"),
    ("CLIENT KILL ID 812", "operator"),
    ("RLOCK.BREAK other", ""),
    ("RLOCK.BREAK app:held", "operator"),
    ("RLOCK.SESSIONS END 1000", ""),
    ("CONFIG GET maxmemory", ""),
    ("FLUSHALL", ""),
    ("SHUTDOWN NOSAVE", ""),
];

#[test]
fn each_user_of_the_page_may_do_what_is_said_of_it_and_nothing_else() {
    let server = with_users().start();
    let mut admin = server.client();
    let _waiters = ["app:held", "other"].map(|key| {
        admin.say(&format!("RLOCK.ACQUIRE {key} h 600000"));
        start_waiting(&server, &format!("RLOCK.ACQUIRE {key} w 600000 WAIT 0"))
    });
    let users = admin.say("ACL USERS");
    let users: Vec<_> = users.words().into_iter().filter(|name| *name != "default").collect();
    assert_eq!(users.len(), RIGHTS[0].1.split(' ').count());
    for (command, allowed) in RIGHTS {
        for user in &users {
            let reply = client_as(&server, user).say(command);
            // Servers report a script's missing rights in words of their own.
            let is_refused =
                matches!(&reply, Reply::Error(line) if line.starts_with("NOPERM") || command.starts_with("EVAL"));
            assert_eq!(is_refused, !allowed.split(' ').any(|it| it == *user), "{user}: {command}: {reply:?}");
            assert!(is_refused || !matches!(reply, Reply::Error(_)), "{user}: {command}: {reply:?}");
            assert!(command != "RLOCK.QUEUES" || !reply.words().contains(&"other"), "{user}: {reply:?}");
        }
    }
    // A session belongs to its user.
    let of_another = admin.say("RLOCK.CANCEL the-session-of-orders");
    assert!(of_another.as_error().starts_with("NOSESSION"), "{of_another:?}");
    admin.say("ACL SETUSER operator allkeys");
    assert_eq!(client_as(&server, "operator").say("RLOCK.SESSIONS END 1000"), Reply::Int(0));
}

/// If the page asks for a command that an operator may not send, it says that the command is the administrator's.
#[test]
fn what_an_operator_may_not_do_is_named() {
    let server = with_users().start();
    let mut client = server.client();
    let said = RUNNING.split("- **operator**").nth(1).unwrap().split("- **metrics**").next().unwrap();
    let mut refused = HashSet::new();
    for line in ON_CALL.lines().chain(RUNNING.lines()).filter_map(|line| line.strip_prefix("redis-cli ")) {
        let line = line.split("  ").next().unwrap().replace("orders:42", "app:1");
        let words: Vec<_> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        let dry = [&["ACL", "DRYRUN", "operator"], &words[..]].concat();
        if !words[0].starts_with('-') && client.run(&dry).words() != ["OK"] {
            refused.insert(words[0].to_owned());
        }
    }
    assert!(refused.contains("DEL") && !refused.contains("RLOCK.BREAK"), "{refused:?}");
    assert!(refused.iter().all(|name| said.contains(&format!("`{name}`"))), "{refused:?}");
}

#[test]
fn a_server_with_the_commands_in_its_acl_file_starts_only_with_the_module() {
    let log = with_users().without_module().try_start().err().expect("it must not start");
    assert!(log.to_lowercase().contains("acl"), "{log}");
}

/// Each line of INFO in order of the names, except the one that changes with time alone.
fn figures(client: &mut Client) -> Vec<(String, String)> {
    let info = client.info("rlock");
    let mut lines: Vec<_> = info.lines().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    lines.retain(|(name, _)| name != "rlock_oldest_wait_ms");
    lines.sort();
    lines
}

/// What the recipe turns a name of INFO into: a name of Prometheus, and the bound of a histogram's bucket.
fn in_prometheus(name: &str) -> (&str, Option<&str>) {
    match name.strip_prefix("rlock_wait_ms_le_") {
        Some("inf") => ("rlock_wait_ms_bucket", Some("+Inf")),
        Some(bound) => ("rlock_wait_ms_bucket", Some(bound)),
        None => (name, None),
    }
}

/// All names in a text that begin with these letters.
fn names<'a>(text: &'a str, beginning: &str) -> HashSet<&'a str> {
    let names = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    names.filter(|name| name.starts_with(beginning) && *name != beginning).collect()
}

#[test]
fn the_pages_have_every_line_of_info_and_no_other() {
    let (_server, mut client) = Server::with_client();
    let info = client.info("rlock");
    let received: HashSet<_> = info.lines().map(|(name, _)| name).collect();
    let (recipe, section) = MONITORING.split_once("\n## What each line of INFO means\n").unwrap();
    let (_, table) = section.split_once("| line | means | worry when |\n|---|---|---|\n").unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<_> = rows.map(|(name, _)| name).collect();
    assert_eq!((rows.len(), rows.into_iter().collect::<HashSet<_>>()), (received.len(), received.clone()));
    for text in [section, ON_CALL, RUNNING] {
        assert_eq!(names(text, "rlock_").difference(&received).count(), 0);
    }
    let received: HashSet<_> = received.into_iter().map(|name| in_prometheus(name).0).collect();
    // redis_exporter's own metrics that are used, as its version 1.88.0 names them.
    let exported = "redis_commands_duration_seconds_total redis_commands_total redis_errors_total redis_evicted_keys_total \
                    redis_instance_info redis_latency_spike_last redis_up redis_exporter redis_script_values redis_module_info";
    for text in [recipe, ALERTS, DASHBOARD] {
        assert_eq!(names(text, "rlock_").difference(&received).count(), 0, "the recipe yields no such name");
        assert_eq!(names(text, "redis_").difference(&exported.split_whitespace().collect()).count(), 0);
    }
}

/// The alerts, each with its lines.
fn alerts() -> Vec<(&'static str, &'static str)> {
    ALERTS.split("- alert: ").skip(1).map(|alert| alert.split_once('\n').unwrap()).collect()
}

#[test]
fn every_alert_names_the_server_and_has_a_row_that_says_what_to_do() {
    let rows = ON_CALL.lines().filter(|line| line.starts_with("| `Rlock"));
    let rows: Vec<_> = rows.map(|row| row.split(" | ").collect::<Vec<_>>()).collect();
    assert_eq!(rows.len(), alerts().len());
    for (row, (name, alert)) in rows.iter().zip(alerts()) {
        let of = |what: &str| alert.split_once(&format!("{what}: \"")).unwrap().1.lines().next().unwrap();
        assert_eq!(row[0], format!("| `{name}`"));
        assert_eq!(row[1] == "yes", alert.contains("labels: {severity: page}"), "{name}");
        let section = of("runbook").trim_start_matches("docs/").trim_start_matches("on-call.md").trim_end_matches('"');
        assert!(section == "#what-to-alert-on" || row[2].contains(&format!("({section})")), "{name}: {section}");
        assert!(
            of("summary").starts_with("{{ $labels.instance }}: ") && of("summary").contains("{{ $value "),
            "{name}"
        );
    }
}

/// Each threshold is set once in the file, is used once, and is on the page; those of limits are the settings' own.
#[test]
fn what_the_alerts_go_by_is_on_the_page() {
    let (_server, mut client) = Server::with_client();
    let records: Vec<_> = ALERTS.split("record: \"rlock:").skip(1).map(|it| it.split_once('"').unwrap()).collect();
    assert_eq!(records.len(), 8);
    for (name, rest) in records {
        let value = rest.split_once("vector(").unwrap().1.split_once(')').unwrap().0;
        assert_eq!(ALERTS.matches(&format!(" rlock:{name}")).count(), 1, "{name}");
        let row =
            MONITORING.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{name}`"))).unwrap();
        if name.starts_with("max_") {
            let setting = client.say(&format!("CONFIG GET rlock.{}", name.replace('_', "-")));
            assert_eq!(setting.words()[1], value, "{name}");
        } else {
            assert!(row.contains(&format!("| {value} |")), "{name}: {row}");
        }
    }
}

/// Runs the script as redis_exporter does, as the user of the page. Returns names, each with its number.
fn by_script(client: &mut Client, command: &str) -> Vec<(String, String)> {
    let reply = client.run(&[command, SCRIPT, "0", "0"]);
    let mut pairs: Vec<_> = reply.words().chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    pairs.retain(|(name, _)| name != "rlock_oldest_wait_ms");
    pairs.sort();
    pairs
}

#[test]
fn the_exporters_script_agrees_with_info_also_in_trouble() {
    let server = with_users().start();
    let (mut client, mut exporter) = (server.client(), client_as(&server, "metrics"));
    client.say("RLOCK.ACQUIRE orders:42 worker-7 600000");
    let _waiter = start_waiting(&server, "RLOCK.ACQUIRE orders:42 worker-8 600000 WAIT 0");
    for (trouble, command) in [
        ("PING", "EVAL"),
        ("CLIENT PAUSE 600000 WRITE", "EVAL_RO"),
        ("CLIENT UNPAUSE", "EVAL_RO"),
        ("CONFIG SET maxmemory 1", "EVAL"),
        ("CONFIG SET maxmemory 0", "EVAL"),
        ("CONFIG SET min-replicas-to-write 1", "EVAL"),
        ("CONFIG SET min-replicas-to-write 0", "EVAL"),
    ] {
        client.say(trouble);
        assert_eq!(by_script(&mut exporter, command), figures(&mut client), "{trouble}");
    }
    client.say("REPLICAOF 127.0.0.1 1");
    assert_eq!(by_script(&mut client, "EVAL").len(), figures(&mut client).len(), "on a replica");
    let unloaded = Server::prepare().without_module().start();
    assert_eq!(by_script(&mut unloaded.client(), "EVAL"), [], "no error either, which would make redis_up 0");
}

/// Runs a line in a shell in which this name of redis-cli leads to the server.
fn shell(server: &Server, name: &str, line: &str, place: &Path) -> Output {
    let script = format!("#!/bin/sh\nPATH=${{PATH#*:}} exec redis-cli -s {} \"$@\"\n", server.socket().display());
    std::fs::write(place.join(name), script).unwrap();
    std::fs::set_permissions(place.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.display(), std::env::var("PATH").unwrap());
    Command::new("sh").args(["-c", line]).env("PATH", path).current_dir(place).output().unwrap()
}

#[test]
fn the_file_for_the_textfile_collector_has_each_number_or_is_not_there() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("rlock.prom");
    let write = |server: &Server| {
        let line = format!("{ROOT}/docs/monitoring/rlock-metrics rlock.prom");
        shell(server, "redis-cli", &line, place.path()).status.code()
    };
    let (mut server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE orders:42 worker-7 600000");
    assert_eq!(write(&server), Some(0));
    let label = format!("port=\"{}\"", server.port());
    let named = |(name, value): (String, String)| match in_prometheus(&name) {
        (name, None) => format!("{name}{{{label}}} {value}"),
        (name, Some(bound)) => format!("{name}{{{label},le=\"{bound}\"}} {value}"),
    };
    let expected: HashSet<_> = figures(&mut client).into_iter().map(named).collect();
    let written = std::fs::read_to_string(&file).unwrap();
    let lines = written.lines().filter(|line| !line.starts_with("rlock_oldest")).map(str::to_owned);
    assert_eq!(lines.collect::<HashSet<_>>(), expected);
    server.kill();
    let unloaded = Server::prepare().without_module().start();
    for (server, code) in [(&server, 69), (&unloaded, 78)] {
        std::fs::write(&file, "rlock_waiters 1").unwrap();
        assert_eq!((write(server), file.exists()), (Some(code), false), "old numbers are no numbers");
    }
}

/// The manifest for Kubernetes.
#[test]
fn a_pod_loads_the_module_and_is_ready_with_it_only() {
    let documents = YamlLoader::load_from_str(MANIFEST).unwrap();
    let of = |kind: &str| documents.iter().find(|it| it["kind"].as_str() == Some(kind)).unwrap();
    let (set, service) = (of("StatefulSet"), of("Service"));
    let (template, data) = (&set["spec"]["template"], &of("ConfigMap")["data"]["valkey.conf"]);
    let (init, server) = (&template["spec"]["initContainers"][0], &template["spec"]["containers"][0]);
    assert_eq!(set["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]);
    assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], server["ports"][0]["name"]);
    let mounts = |container: &Yaml, name: &str| {
        let mounts = container["volumeMounts"].as_vec().unwrap();
        mounts.iter().find(|it| it["name"].as_str() == Some(name)).unwrap()["mountPath"].as_str().unwrap().to_owned()
    };
    assert_eq!(init["command"][1].as_str(), Some("/rlock/gnu/librlock.so"));
    assert_eq!(init["command"][2].as_str().unwrap(), format!("{}/librlock.so", mounts(init, "modules")));
    assert_eq!(INSTALLED, format!("{}/librlock.so", mounts(server, "modules")));
    assert_eq!(server["command"][1].as_str().unwrap(), format!("{}/valkey.conf", mounts(server, "configuration")));

    let place = tempfile::tempdir().unwrap();
    let here = data.as_str().unwrap().replace(INSTALLED, rlock_testing::module().to_str().unwrap());
    std::fs::write(place.path().join("conf"), here.replace("dir /data", &format!("dir {}", place.path().display())))
        .unwrap();
    let with = Server::prepare().without_module().configuration(&place.path().join("conf")).start();
    let mut without = Server::prepare().without_module().start();
    let passes = |probe: &str, on: &Server| {
        let command = server[probe]["exec"]["command"][2].as_str().unwrap();
        shell(on, "valkey-cli", command, place.path()).status.success()
    };
    assert!(passes("readinessProbe", &with) && passes("livenessProbe", &with));
    assert!(!passes("readinessProbe", &without) && passes("livenessProbe", &without));
    without.kill();
    assert!(!passes("livenessProbe", &without));
}

/// Each value of a manifest, as a line of manifest-fields.txt.
fn fields(value: &Yaml, path: &str, found: &mut HashSet<String>) {
    match value {
        Yaml::Hash(pairs) => {
            let under = |key: &Yaml| [path, key.as_str().unwrap()].join(if path.is_empty() { "" } else { "." });
            pairs.iter().for_each(|(key, value)| fields(value, &under(key), found));
        }
        Yaml::Array(items) => items.iter().for_each(|item| fields(item, &format!("{path}[]"), found)),
        Yaml::String(_) => drop(found.insert(format!("{path} string"))),
        Yaml::Integer(_) => drop(found.insert(format!("{path} integer"))),
        Yaml::Boolean(_) => drop(found.insert(format!("{path} boolean"))),
        other => panic!("{path}: {other:?}"),
    }
}

/// The manifests for a chart and for operators.
#[test]
fn manifests_for_operators_have_known_fields_and_a_configuration_that_starts() {
    for (file, text) in OF_OTHERS {
        let documents = YamlLoader::load_from_str(text).unwrap();
        let (_, known) = FIELDS.split_once(&format!("\n{file}: ")).expect("its fields");
        let known: HashSet<_> = known.lines().skip(1).take_while(|line| !line.is_empty()).map(str::to_owned).collect();
        let mut found = HashSet::new();
        fields(documents.last().unwrap(), "", &mut found);
        assert_eq!(found, known, "{file}");

        let (first, last) = (&documents[0], documents.last().unwrap());
        let lines = match file {
            "ot-operator.yaml" => {
                assert_eq!(last["spec"]["redisConfig"]["additionalRedisConfig"], first["metadata"]["name"]);
                first["data"]["redis-additional.conf"].as_str().unwrap().to_owned()
            }
            "valkey-operator.yaml" => {
                let line =
                    |(key, value): (&Yaml, &Yaml)| format!("{} {}", key.as_str().unwrap(), value.as_str().unwrap());
                let arguments = last["spec"]["containers"][0]["args"].as_vec().unwrap();
                assert_eq!(arguments[0].as_str(), Some("--loadmodule"));
                let mut lines: Vec<_> = last["spec"]["config"].as_hash().unwrap().iter().map(line).collect();
                lines.push(format!("loadmodule {}", arguments[1].as_str().unwrap()));
                lines.join("\n")
            }
            _ => last["valkeyConfig"].as_str().unwrap().to_owned(),
        };
        // The server loads the file that the init container copies.
        assert!(lines.contains(&format!("loadmodule {INSTALLED}")), "{file}");
        assert_eq!(text.matches(INSTALLED).count(), if file == "valkey-operator.yaml" { 1 } else { 2 }, "{file}");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("conf");
        std::fs::write(&path, lines.replace(INSTALLED, rlock_testing::module().to_str().unwrap())).unwrap();
        let server = Server::prepare().without_module().configuration(&path).start();
        assert_eq!(server.client().figure("waiters"), 0, "{file}");
    }
}

/// A copy of the module in a directory of its own, with some of its bytes changed.
fn module_with(place: &Path, name: &str, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(rlock_testing::module()).unwrap();
    change(&mut bytes);
    let path = place.join(name).join("librlock.so");
    std::fs::create_dir(place.join(name)).unwrap();
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let places: Vec<_> = (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}

/// A launcher for the server, or none if this machine does not allow it.
fn launcher(words: &[&str]) -> Option<Vec<String>> {
    let (program, arguments) = words.split_first().unwrap();
    let allowed =
        Command::new(program).args(arguments).arg("true").output().is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("not tried, as this machine does not allow it: {words:?}");
    }
    allowed.then(|| words.iter().map(|word| (*word).to_owned()).collect())
}

/// The lines of musl's loader come from the images' tests.
#[test]
fn the_log_of_a_server_that_does_not_load_the_module_says_what_the_page_explains() {
    let (_, table) = DEPLOY.split_once("## It does not load").unwrap();
    let rows: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let place = tempfile::tempdir().unwrap();
    let module = |name: &str, change: &dyn Fn(&mut Vec<u8>)| module_with(place.path(), name, change);
    let as_built = module("as-built", &|_| ());
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let start = |path: &Path| Server::prepare().module(path.to_owned());

    let not_executable = module("not-executable", &|_| ());
    mode(&not_executable, 0o644);
    let other_machine = module("other-machine", &|bytes| bytes[18] ^= 1);
    let newer_glibc = module("newer-glibc", &|bytes| replace(bytes, b"GLIBC_2.", b"GLIBC_9."));
    let of_musl = module("of-musl", &|bytes| replace(bytes, b"libc.so.6\0", b"libc.so\0\0\0"));
    let twice = place.path().join("conf");
    std::fs::write(&twice, format!("loadmodule {}\n", as_built.display())).unwrap();
    let mut cases = vec![
        (start(&not_executable), "It does not have execute permissions"),
        (start(Path::new("/nowhere/librlock.so")), "cannot open shared object file: No such file or directory"),
        (start(&other_machine), "cannot open shared object file: No such file or directory"),
        (start(&newer_glibc), "version `GLIBC_"),
        (Server::prepare().options(&["--rename-command", "HSET", ""]), "rlock is not loaded: "),
        (Server::prepare().configuration(&twice), "rlock is loaded already: "),
    ];
    // A machine that compiles nothing has no library of that name.
    let has_linker_script =
        Path::new("/usr/lib").join(format!("{}-linux-gnu/libc.so", std::env::consts::ARCH)).exists();
    let of_musl_says = if has_linker_script { "libc.so: invalid ELF header" } else { "libc.so: cannot open" };
    cases.push((start(&of_musl), of_musl_says));

    let hidden = module("hidden", &|_| ());
    mode(hidden.parent().unwrap(), 0);
    // Root can open the directory all the same, unless these rights are taken away.
    let by = if std::fs::metadata(place.path()).unwrap().uid() == 0 {
        launcher(&["setpriv", "--bounding-set=-dac_override,-dac_read_search"])
    } else {
        launcher(&["env"])
    };
    if let Some(by) = by {
        cases.push((start(&hidden).launched_by(&by), "cannot open shared object file: Permission denied"));
    }
    let elsewhere = place.path().join("noexec");
    std::fs::create_dir(&elsewhere).unwrap();
    let (to, from) = (elsewhere.display(), as_built.display());
    let mount = format!("mount -t tmpfs -o noexec none {to} && cp {from} {to} && exec \"$@\"");
    if let Some(by) = launcher(&["unshare", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"]) {
        let noexec = start(&elsewhere.join("librlock.so")).launched_by(&by);
        cases.push((noexec, "failed to map segment from shared object"));
    }

    for (start, words) in cases {
        let log = start.try_start().err().expect("it does not start");
        assert!(log.contains(words), "{words}: {log}");
        assert!(rows.iter().any(|row| row.trim_start_matches('`').contains(words)), "the page does not have: {words}");
    }
    mode(hidden.parent().unwrap(), 0o755);
}

#[test]
fn a_suspended_server_goes_on_with_the_clock() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("RLOCK.RENEW k ann 500");
    let end = unix_ms() + 500;
    server.freeze();
    wait_until("the lease is over", || unix_ms() > end);
    server.thaw();
    assert_eq!(waiter.receive(), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW k ann 600000"), Reply::Int(0));
}

#[test]
fn idle_connections_are_closed_and_waiters_never() {
    let server = Server::prepare().options(&["--timeout", "1"]).start();
    server.client().say("RLOCK.ACQUIRE k ann 600000");
    let mut waiter = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    // This client is idle for less time than the other waits.
    assert_eq!(server.client().try_receive(), None, "idle");
    assert_eq!(server.client().say("RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(waiter.receive(), Reply::Nil);
}

const HOLDER: &str = "b983c153-7421-469a-addb-44fb92259a1b";

fn used_memory(client: &mut Client) -> i64 {
    client.info("memory").number("used_memory")
}

/// Redis's figure, which is the larger one, in the row of the page's table that begins with `row`.
fn figure(row: &str) -> i64 {
    let row = RUNNING.lines().find(|line| line.starts_with(&format!("| {row}"))).expect("a row");
    row.split('|').nth(2).unwrap().trim().replace(',', "").parse().unwrap()
}

fn is_as_said(measured: i64, row: &str) {
    let said = figure(row);
    assert!((said / 2..=said + said / 10).contains(&measured), "{row}: {measured} and not {said}");
}

#[test]
fn locks_take_no_more_memory_than_is_said() {
    // With this number the server's table of keys, which is part of the measure, is as full as with 100,000.
    const LOCKS: i64 = 25_000;
    let of_each = |command: &str, more: &str| {
        let server = Server::start();
        let mut client = server.client();
        let before = used_memory(&mut client);
        let acquire = format!("redis.call('{command}', 'orders:' .. i, '{HOLDER}:1', '600000'{more})");
        client.run(&["EVAL", &format!("for i = 1, {LOCKS} do {acquire} end"), "0"]);
        (used_memory(&mut client) - before) / LOCKS
    };
    let plain = of_each("RLOCK.ACQUIRE", "");
    is_as_said(plain, "a held lock");
    is_as_said(of_each("RLOCK.ACQUIRE", ", 'FENCED'") - plain, "its fencing counter");
    is_as_said(of_each("RLOCK.RACQUIRE", ""), "a read lock");
}

#[test]
fn tickets_take_no_more_memory_than_is_said() {
    const TICKETS: i64 = 25_000;
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.EVENTS the-session-of-orders TTL 600000");
    for (lock, row) in [("orders", "a ticket that waits behind"), ("orders:#", "a ticket that waits alone")] {
        let named = |number: i64| lock.replace('#', &number.to_string());
        client.say_all((0..=TICKETS).map(|number| format!("RLOCK.ACQUIRE {} ann 600000", named(number))));
        let before = used_memory(&mut client);
        let waiting = client.say_all((0..TICKETS).map(|number| {
            let (lock, session) = (named(number), "the-session-of-orders");
            format!("RLOCK.ACQUIRE {lock} {HOLDER}:{number} 600000 WAIT 600000 SESSION {session} {lock}{number}")
        }));
        assert!(waiting.iter().all(|reply| *reply == rlock_testing::text("WAITING")));
        is_as_said((used_memory(&mut client) - before) / TICKETS, row);
    }
}

#[test]
fn waiters_take_no_more_memory_than_is_said() {
    const WAITERS: i64 = 500;
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE orders:1 ann 600000");
    let before = used_memory(&mut client);
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| server.client()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&["RLOCK.ACQUIRE", "orders:1", &format!("{HOLDER}:{number}"), "600000", "WAIT", "0"]);
    }
    client.until_waiting(WAITERS);
    let measured = (used_memory(&mut client) - before) / WAITERS;
    let (settled, most) = (figure("a client that waits"), figure("the same in its first seconds"));
    assert!((settled - settled / 10..=most + most / 10).contains(&measured), "{measured}, not {settled} to {most}");
}
