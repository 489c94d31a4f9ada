//! The conversations with redis-cli that the README and docs/clients.md begin with, on a real server.

use crate::page::Page;
use rlock_testing::{Reply, Server};

const README: Page = Page(include_str!("../../README.md"));
const CLIENTS: Page = Page(include_str!("../../docs/clients.md"));

/// A reply as redis-cli shows it, in lines.
fn shown(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Nil => vec!["(nil)".to_owned()],
        Reply::Int(number) => vec![format!("(integer) {number}")],
        Reply::List(items) => {
            let lines = items.iter().flat_map(shown);
            lines.enumerate().map(|(place, line)| format!("{}) {line}", place + 1)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The time that is left passes, and a token is the time; all else is told exactly.
fn without_times(line: &str) -> String {
    let (before, number) = line.split_once("(integer) ").unwrap_or((line, ""));
    match number.parse::<u64>() {
        Ok(20_000..=30_000) => format!("{before} some ms"),
        Ok(1_700_000_000_000_000..9_000_000_000_000_000) => format!("{before} a token"),
        _ => line.to_owned(),
    }
}

#[test]
fn the_first_conversation_is_as_it_is_shown() {
    is_as_it_is_shown(&README);
}

#[test]
fn the_calls_of_a_client_without_a_package_are_as_they_are_shown() {
    is_as_it_is_shown(&CLIENTS);
}

fn is_as_it_is_shown(page: &Page) {
    let server = Server::prepare().default_settings().start();
    let mut client = server.client();
    let conversation = page.blocks("text")[0];
    let mut told: Vec<String> = Vec::new();
    let mut commands = 0;
    for line in conversation.lines().skip(1) {
        if let Some(command) = line.strip_prefix("> ") {
            assert!(told.is_empty(), "not shown: {told:?}");
            told = shown(&client.say(command));
            commands += 1;
        } else {
            let expected = line.split("   ").next().unwrap().trim();
            assert_eq!(without_times(&told.remove(0)), without_times(expected), "{line}");
        }
    }
    assert!(told.is_empty() && commands > 4);
}
