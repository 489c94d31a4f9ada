//! One process of a round: it runs a group of clients, which acquire locks, keep them and release them, and record each
//! of their steps. They have to cope with all faults of servers and connections; only a defect of this tool ends a
//! client early.
//!
//! All clients of a process are tasks of one thread, which does nothing that takes long: so a client acts late only if its
//! whole process is late.

mod adapters;
mod by_hand;
mod commands;
mod connections;
mod diary;
mod guards;
mod round;
mod route;
mod scripts;
mod speech;
#[cfg(test)]
mod tests;
mod wire;
mod wish;

use crate::history::Journal;
use crate::plan::{Address, Client, ClientKind, Plan};
use by_hand::ByHand;
use guards::{Doors, Keeper};
use round::Round;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// Runs one group of the plan in that file until the plan's time is over and all its steps have ended.
///
/// # Panics
/// If there is no such plan or group, if the journal cannot be written, and for a defect of a client.
pub fn work(plan_file: &Path, group: usize) {
    let plan = std::fs::read(plan_file).expect("the plan can be read");
    let Plan { directory, address, length_ms, mut groups, adapters, .. } =
        serde_json::from_slice(&plan).expect("the plan is one of this version");
    let journal = Journal::open(&directory, &format!("clients-{group}")).expect("the journal can be opened");
    let clients = groups.swap_remove(group);
    let adapter = adapters.get(group).map(String::as_str).filter(|command| !command.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let round = Round::of(Duration::from_millis(length_ms));
        // A client that has not ended in time is waiting for servers that do not answer.
        let _ = timeout_at(round.last_moment(), live(clients, &address, adapter, &journal, round)).await;
    });
    runtime.shutdown_background();
}

async fn live(clients: Vec<Client>, address: &Address, adapter: Option<&str>, journal: &Journal, round: Round) {
    let mut lives = JoinSet::new();
    let (by_guards, by_hand): (Vec<_>, Vec<_>) =
        clients.into_iter().partition(|client| client.kind == ClientKind::Guards);
    for client in by_hand.into_iter().map(|client| ByHand::new(client, address, journal, round)) {
        lives.spawn(client.live());
    }
    if !by_guards.is_empty() {
        let doors = guards::open(address.clone(), adapter.map(str::to_owned), round);
        lives.spawn(live_by_guards(by_guards, doors, journal.clone(), round));
    }
    finish(lives).await;
}

/// They share their connections, so none begins before these are open.
async fn live_by_guards(
    clients: Vec<Client>,
    doors: impl Future<Output = Option<Doors>>,
    journal: Journal,
    round: Round,
) {
    let Some(doors) = doors.await else { return };
    let keepers = clients.into_iter().map(|client| Keeper::new(client, doors.clone(), &journal, round).live());
    finish(keepers.collect()).await;
    for locks in &doors {
        // If a release is still under way then, the lease ends the hold.
        let _ = timeout_at(round.last_moment(), locks.settle()).await;
    }
}

async fn finish(mut lives: JoinSet<()>) {
    while let Some(life) = lives.join_next().await {
        life.expect("no client has a defect");
    }
}
