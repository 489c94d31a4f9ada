//! What one process of a round does: it runs a crew of clients, who want locks, keep them and give them back, and record
//! each of their steps. Whatever servers and connections do is theirs to bear; only a defect of this tool ends one early.
//!
//! All clients of a process are tasks of one thread, which does nothing that takes long: a client that is certain to have a
//! lock is as late as its process, and no later.

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

/// Runs a crew of the plan in that file until the plan's time is over, and what was begun then is at an end.
///
/// # Panics
/// If there is no such plan or crew, if the journal cannot be written, and for a defect of a client.
pub fn work(plan_file: &Path, crew: usize) {
    let plan = std::fs::read(plan_file).expect("the plan can be read");
    let Plan { directory, address, length_ms, mut crews, adapters, .. } =
        serde_json::from_slice(&plan).expect("the plan is one of this version");
    let journal = Journal::open(&directory, &format!("crew-{crew}")).expect("the journal can be opened");
    let clients = crews.swap_remove(crew);
    let adapter = adapters.get(crew).map(String::as_str).filter(|command| !command.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let round = Round::of(Duration::from_millis(length_ms));
        // Who is not through by then has waited for servers that do not answer.
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

/// They share their connections, so none begins before these are there.
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
        // What is still being given back in the background by then ends with its lease.
        let _ = timeout_at(round.last_moment(), locks.settle()).await;
    }
}

async fn finish(mut lives: JoinSet<()>) {
    while let Some(life) = lives.join_next().await {
        life.expect("no client has a defect");
    }
}
