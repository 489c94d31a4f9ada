//! A process's name for operators: in its holders, and in the server's list of clients.

use crate::support::{until, until_waiting, url, waits_for};
use rlock_client::{Guard, Locks};
use rlock_testing::{Client, Server};

/// `host:process`, as reported by the system.
fn host_and_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("{}:{}", host.trim(), std::process::id())
}

/// The holder consists of this client name, a uuid, and a number.
#[track_caller]
fn assert_begins(guard: &Guard, name: &str) {
    let holder = guard.holder();
    let of_ours = holder.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
    let (uuid, number) = of_ours.and_then(|rest| rest.split_once(':')).unwrap_or_else(|| panic!("{holder}, {name}"));
    assert_eq!((uuid.len(), number.parse().ok()), (36, Some(1_u64)), "{holder}");
}

/// How many of this client's connections the server lists under that name.
fn listed(client: &mut Client, name: &str) -> usize {
    let list = client.say("CLIENT LIST");
    let of_ours = list.as_text().lines().filter(|line| line.contains(&format!(" name={name} ")));
    of_ours.count()
}

async fn until_listed(client: &mut Client, name: &str, count: usize) {
    until(&format!("{count} are listed as {name}"), || listed(client, name) == count).await;
}

#[tokio::test]
async fn without_a_name_it_is_host_and_process() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::connect(url(&server)).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert_begins(&guard, &host_and_process());
    assert_eq!(guard.holder(), format!("{}:1", locks.identity()));
    let seen = client.say("RLOCK.INSPECT orders:42");
    assert!(seen.words().iter().any(|word| word.starts_with(&host_and_process())), "{seen:?}");
    let name = format!("rlock:{}", host_and_process());
    until_listed(&mut client, &name, 1).await;
    let list = client.say("CLIENT LIST");
    if list.as_text().contains("lib-name=") {
        assert!(list.as_text().contains("lib-name=rlock-client"), "{list:?}");
    }
    // The connection for waits has the name, too.
    let waits = waits_for(locks.lock("orders:42"));
    until_waiting(&mut client, 1).await;
    until_listed(&mut client, &name, 2).await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_given_takes_their_place() {
    let server = Server::start();
    let mut client = server.client();
    for (given, name) in [("orders", "orders"), ("the orders:\n1", "the_orders__1")] {
        let locks = Locks::options().name(given).connect_to(url(&server)).await.unwrap();
        let guard = locks.lock("orders:42").acquire().await.unwrap();
        assert_begins(&guard, name);
        until_listed(&mut client, name, 1).await;
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_empty_name_is_none() {
    let server = Server::start();
    let locks = Locks::options().name("").connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert_eq!(guard.holder().len(), 36 + ":1".len(), "{guard:?}");
    let list = server.client().say("CLIENT LIST");
    assert!(list.as_text().lines().all(|line| line.contains(" name= ")), "{list:?}");
    guard.release().await.unwrap();
}

/// A user without the right to name connections can still connect.
#[tokio::test]
async fn a_server_that_refuses_the_name_is_no_hindrance() {
    let server = Server::start();
    let mut client = server.client();
    client.say("ACL SETUSER app on >secret ~orders:* +rlock.acquire +rlock.release");
    let address = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let locks = Locks::options().name("orders").connect_to(address).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert_begins(&guard, "orders");
    let is_refused = |client: &mut Client| client.info("errorstats").find("errorstat_NOPERM").is_some();
    until("the name is refused", || is_refused(&mut client)).await;
    guard.release().await.unwrap();
    assert_eq!(listed(&mut client, "orders"), 0);
}
