//! Each fault once in each world where it may happen, with waiters; all at once; and their outcome.

use super::play::Troubles;
use super::schedule::{one, possible};
use super::*;
use crate::history::{Journal, Record, read_all};
use crate::worlds::{Play, Stage, WorldKind};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

fn each_fault_of(kind: WorldKind) {
    each_fault_at(Stage { kind, play: Play::Everything }, 20);
}

fn each_fault_at(stage: Stage, least: usize) {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path(), "faults").unwrap();
    let mut world = World::start(stage, directory.path());
    let mut groups = sleepers();
    let mut random = Random::from(7);
    for possible in possible(stage) {
        let waiting = wait_for_locks(&world);
        let (least, most) = possible.lasts;
        let fault = one(Kind { lasts: (least, least.max(most / 4)), ..possible }, &mut random);
        carry_out(fault, &mut scene(&mut world, &mut groups, &journal)).unwrap();
        assert_eq!(what_is_amiss(&world), None, "after {}", possible.name);
        drop(waiting);
    }
    Troubles::default().end_all(&mut scene(&mut world, &mut groups, &journal)).unwrap();
    for place in world.masters.clone() {
        assert!(world.nodes[place].answers());
    }
    world.check_drained(&journal, Duration::from_secs(20));
    end(groups);
    judge(directory.path(), least);
}

fn scene<'a>(world: &'a mut World, groups: &'a mut ProcessGroups, journal: &'a Journal) -> Scene<'a> {
    Scene { world, groups, journal, random: Random::from(1) }
}

/// One fault from its beginning to its end, and no other. An error if it does not end by itself in time.
fn carry_out(fault: Fault, scene: &mut Scene) -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    let mut troubles = Troubles::default();
    troubles.begin(fault, scene);
    while !(troubles.running.is_empty() && troubles.put_off.is_empty()) {
        if Instant::now() > deadline {
            return Err(format!("{} does not end", fault.kind.name));
        }
        troubles.attend(scene);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What is still wrong after the fault, without repairs.
fn what_is_amiss(world: &World) -> Option<String> {
    let unanswering = world.nodes.iter().find(|node| !node.answers());
    if let Some(node) = unanswering {
        return Some(format!("server {} does not answer", node.name));
    }
    let key = "probe";
    let Some(place) = world.owner_of(key) else { return Some(format!("no server has {key}")) };
    let set = world.nodes[place].say(&format!("SET {key} there PX 10"));
    set.err().map(|why| format!("server {} does not write: {why:?}", world.nodes[place].name))
}

/// Processes in place of those of clients.
fn sleepers() -> ProcessGroups {
    ProcessGroups::start((0..4).map(|_| {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").stdin(Stdio::null());
        sleep
    }))
    .unwrap()
}

fn end(mut groups: ProcessGroups) {
    assert_eq!(groups.running().len() + groups.killed, 4, "a process has ended by itself");
}

/// Connections by the proxies: some hold locks, others wait for them.
fn wait_for_locks(world: &World) -> Vec<TcpStream> {
    let ports = world.proxies.iter().map(|proxy| proxy.port);
    let mut streams = Vec::new();
    for (number, port) in ports.enumerate() {
        for lock in 0..12 {
            for client in 0..2 {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let line = format!("RLOCK.ACQUIRE hot:{lock} {number}-{client} 2000 WAIT 3000\r\n");
                stream.write_all(line.as_bytes()).unwrap();
                streams.push(stream);
            }
        }
    }
    streams
}

/// With no other in force, each fault can be made, except a few that find a server down or refusing.
fn judge(directory: &Path, least: usize) {
    let records = read_all(directory).unwrap();
    let mut troubles = 0;
    let mut not_made = Vec::new();
    for record in &records {
        match record {
            Record::Broken { promise, what, .. } => panic!("{promise}: {what}"),
            Record::Troubled(trouble) => {
                troubles += 1;
                assert!(trouble.began <= trouble.ended, "{trouble:?}");
            }
            Record::Measured { what, .. } if what.starts_with("faults that did not end") => panic!("{what}"),
            Record::Measured { what, .. } if what.starts_with("faults that") => not_made.push(what.clone()),
            _ => {}
        }
    }
    assert!(troubles >= least, "{troubles}");
    assert!(not_made.len() <= 3, "{not_made:#?}");
}

#[test]
fn each_fault_of_a_single_server() {
    each_fault_of(WorldKind::Single);
}

#[test]
fn each_fault_of_a_durable_server() {
    each_fault_of(WorldKind::Durable);
}

#[test]
fn each_fault_of_a_master_and_its_replica() {
    each_fault_of(WorldKind::Replicated);
}

#[test]
fn each_fault_of_servers_under_sentinels() {
    each_fault_of(WorldKind::Sentinel);
}

#[test]
fn each_fault_of_a_cluster() {
    each_fault_of(WorldKind::Cluster);
}

#[test]
fn each_failover_of_a_master_and_its_replica() {
    each_failover_of(WorldKind::Replicated);
}

#[test]
fn each_failover_of_servers_under_sentinels() {
    each_failover_of(WorldKind::Sentinel);
}

#[test]
fn each_failover_of_a_cluster() {
    each_failover_of(WorldKind::Cluster);
}

/// Without the protection: its grace would take most of the time.
fn each_failover_of(kind: WorldKind) {
    each_fault_at(Stage { kind, play: Play::Unprotected }, 2 + super::failovers::kinds(kind).len());
}
