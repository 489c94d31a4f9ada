//! The page's table of what INFO tells, against what a server tells.

use super::PAGE;
use crate::page;
use rlock_testing::{Client, Server, text};

/// Each number of INFO with its value, in order of the names.
pub fn told(client: &mut Client) -> Vec<(String, String)> {
    let info = client.info("rlock");
    let mut told: Vec<_> = info.lines().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    told.sort();
    told
}

pub fn names(client: &mut Client) -> Vec<String> {
    told(client).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_number_that_is_named_is_told() {
    let server = Server::start();
    let told = names(&mut server.client());
    let named = page::names(PAGE.0, "rlock_");
    assert!(named.len() > 8, "{named:?}");
    for name in named {
        assert!(told.iter().any(|it| it == name), "INFO has no {name}");
    }
}

/// The rows of the page's table: the name, what it means, and when to worry.
fn rows() -> Vec<[&'static str; 3]> {
    let (_, table) = PAGE.0.split_once("| line | means | worry when |\n|---|---|---|\n").expect("the table");
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

#[test]
fn nobody_follows_a_server_that_is_alone() {
    let (_server, mut client) = Server::with_client();
    rlock_testing::wait_until("the server has been asked", || client.figure("followed") == 0);
    assert_eq!(client.say("CONFIG SET appendonly yes"), text("OK"));
    rlock_testing::wait_until("a file follows", || client.figure("followed") == 1);
}
