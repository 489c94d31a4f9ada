//! The holder's name for operators: host and process, or a given name.

use crate::support::{Place, rlock, run, start, taken};
use rlock_testing::{Client, Server, wait_until};

/// A CMD that prints its holder, and runs until there is a file `end`.
const TELLING: &str = "echo $RLOCK_HOLDER; touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";

/// The names by which the server lists its connections, each once.
fn listed(client: &mut Client) -> Vec<String> {
    let list = client.say("CLIENT LIST");
    let names = list.as_text().split(' ').filter_map(|word| word.strip_prefix("name="));
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.dedup();
    names
}

#[test]
fn a_holder_has_its_host_and_process() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let running = start(place.of(rlock(&server, &["run", "key", "--", "sh", "-c", TELLING])));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let who = format!("{}:{}", host.trim(), running.id());
    wait_until("CMD runs", || place.has("running"));
    wait_until("the connection has a name", || listed(&mut client) == [format!("rlock:{who}")]);
    let inspected = run(rlock(&server, &["inspect", "key"]));
    let holder = inspected.succeeded().lines().find(|line| line.starts_with(&format!("{who}:"))).map(str::to_owned);
    let holder = holder.unwrap_or_else(|| panic!("{inspected:?}"));
    place.mark("end");
    assert_eq!(holder.split(' ').next(), Some(running.end().succeeded().trim()));
}

#[test]
fn a_name_takes_their_place() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let waits =
        start(rlock(&server, &["run", "--name", "nightly report", "key", "--", "sh", "-c", "echo $RLOCK_HOLDER"]));
    client.until_waiting(1);
    wait_until("the connections have a name", || listed(&mut client) == ["nightly_report"]);
    let waiting = client.say("RLOCK.INSPECT key");
    assert!(waiting.words().iter().any(|word| word.starts_with("nightly_report:")), "{waiting:?}");
    crate::support::released(&mut client, "key");
    let ended = waits.end();
    let holder = ended.succeeded().strip_prefix("nightly_report:").and_then(|rest| rest.strip_suffix(":1\n"));
    assert_eq!(holder.map(str::len), Some(36), "{ended:?}");
    run(rlock(&server, &["run", "--name", "", "key", "true"])).failed(64, &["--name"]);
}
