//! The page's cluster: nine servers from its own configuration, joined by its own command. They become a cluster in
//! which each master has two replicas that hear of it, and grant locks.

use super::PAGE;
use super::machines::{Machines, Process, block, fit_together, number, wait_long_until};
use rlock_testing::free_port;
use std::process::Command;

const SERVERS: usize = 9;

/// The command of the page, for servers on these ports.
fn create(ports: &[u16]) -> String {
    let shown = PAGE.blocks("sh only-parsed").into_iter().find(|it| it.contains("--cluster create")).unwrap();
    let command = shown.split("\nRLOCK_PASSWORD").next().unwrap();
    let mut ports = ports.iter();
    let words = command.split(' ').map(|word| match word.trim_end().strip_prefix("10.0.0.") {
        Some(address) if address.contains(":700") => format!("127.0.0.1:{}", ports.next().unwrap()),
        _ => word.to_owned(),
    });
    let command = words.collect::<Vec<_>>().join(" ");
    assert!(ports.next().is_none() && !command.contains("10.0.0."), "{command}");
    command
}

#[test]
fn the_times_of_the_page_fit_together() {
    fit_together(block("cluster.conf"), number(block("cluster.conf"), "cluster-node-timeout"));
}

#[test]
fn the_configuration_becomes_a_cluster_that_grants_locks() {
    let machines = Machines::new(SERVERS);
    let start = |port: &u16| {
        // Ten thousand above a port that is free may be none.
        let bus = free_port().to_string();
        machines.server(*port, block("cluster.conf"), &["--cluster-port", &bus])
    };
    let servers: Vec<_> = machines.ports.iter().map(start).collect();
    let created = Command::new("sh").args(["-c", &create(&machines.ports)]).output().unwrap();
    assert!(created.status.success(), "{created:?}");

    let info = |server: &Process, line: &str| server.says("INFO replication").contains(line);
    let masters: Vec<_> = servers.iter().filter(|server| info(server, "role:master")).collect();
    assert_eq!(masters.len(), 3);
    for server in &servers {
        wait_long_until("it sees the whole", || server.says("CLUSTER INFO").contains("cluster_state:ok"));
    }
    for master in &masters {
        wait_long_until("two replicas are in touch", || info(master, "min_slaves_good_slaves:2"));
        assert_eq!(master.says("CONFIG SET rlock.grace 0"), "OK");
        assert_eq!(master.says("CONFIG SET rlock.grace 30000"), "OK");
    }
    let acquire = "-c RLOCK.ACQUIRE orders:42 ann 30000";
    assert_eq!(servers[0].says(acquire), "");
    assert!(servers[1].says(&acquire.replace("ann", "bob")).parse::<i64>().unwrap() > 0, "it is ann's");
    assert!(servers[2].says("-c RLOCK.ACQUIRE orders:43 ann 30001").starts_with("ERR lease must be at most"));
}
