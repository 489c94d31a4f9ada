//! The page `docs/recipes.md`: each of its commands is run, and does what the page says. What it has in Rust is compiled
//! with the client.

use crate::support::{Place, exists, program, run, start, taken, url};
use rlock_testing::{Client, Server};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/recipes.md");

/// What is to be typed under this heading: by `rlock`, and by the commands.
fn recipe(heading: &str) -> [&'static str; 2] {
    let (_, recipe) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let recipe = recipe.split("\n## ").next().unwrap();
    let blocks: Vec<_> = recipe.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    blocks.try_into().expect("two blocks")
}

/// A shell that has `rlock`, and in which `redis-cli` talks to this server and fails with its errors.
fn shell(server: &Server, place: &Place, text: &str) -> Command {
    let work = "#!/bin/sh\necho $RLOCK_KEY >ran\n";
    let client = format!("#!/bin/sh\nPATH=${{PATH#*:}}\nexec redis-cli -e -s {} \"$@\"\n", server.socket().display());
    let works = ["train", "transfer", "render", "reply", "refresh", "report", "serve", "post"].map(|name| (name, work));
    for (name, script) in works.into_iter().chain([("redis-cli", client.as_str())]) {
        std::fs::write(place.file(name), script).unwrap();
        std::fs::set_permissions(place.file(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap().display();
    let path = format!("{}:{bin}:{}", place.path().display(), std::env::var("PATH").unwrap());
    let mut command = program("sh", &["-euc", text]);
    command.env("RLOCK_URL", url(server)).env("PATH", path);
    place.of(command)
}

fn both_ways(heading: &str, told: &str, keys: &str) {
    let server = Server::start();
    let place = Place::new();
    let [by_rlock, by_commands] = recipe(heading);
    assert_eq!(run(shell(&server, &place, by_rlock)).succeeded(), "");
    assert_eq!(place.lines("ran"), [keys]);
    assert_eq!(run(shell(&server, &place, by_commands)).succeeded(), told);
    let locks = keys.split(',').filter(|key| exists(&mut server.client(), key));
    assert_eq!(locks.count(), 0);
}

/// It runs as soon as another one has released the lock.
fn waits_for(heading: &str, key: &str) {
    let (server, place) = (Server::start(), Place::new());
    let mut client = server.client();
    client.say(&format!("RLOCK.ACQUIRE {key} other 600000"));
    let next = start(shell(&server, &place, recipe(heading)[0]));
    client.until_waiting(1);
    assert!(!place.has("ran"));
    client.say(&format!("RLOCK.RELEASE {key} other"));
    next.end().succeeded();
    assert!(place.has("ran"));
}

/// The nth of a queue, which the test gives up.
fn waits(server: &Server, command: &str) -> Client {
    let (mut client, mut looks) = (server.client(), server.client());
    let before = looks.figure("waiters");
    client.send(&command.split(' ').collect::<Vec<_>>());
    looks.until_waiting(before + 1);
    client
}

#[test]
fn at_most_n_at_once() {
    both_ways("At most n at once", "\n1\n1\n", "gpu");
    let server = Server::start();
    let mut client = server.client();
    let place = Place::new();
    for number in 0..4 {
        client.say(&format!("RLOCK.PACQUIRE gpu other-{number} 600000 LIMIT 4"));
    }
    let fifth = start(shell(&server, &place, recipe("At most n at once")[0]));
    client.until_waiting(1);
    assert!(!place.has("ran"));
    client.say("RLOCK.RELEASE gpu other-2");
    fifth.end().succeeded();
    assert!(place.has("ran"));
}

#[test]
fn the_messages_of_a_conversation_in_their_order() {
    let heading = "The messages of a conversation, in their order";
    both_ways(heading, "\n1\n", "conversation:42");
    waits_for(heading, "conversation:42");
    let (server, place) = (Server::start(), Place::new());
    for text in recipe(heading) {
        run(shell(&server, &place, text)).succeeded();
    }
    assert_eq!(server.client().keys(), [""; 0], "a free lock costs nothing");
}

#[test]
fn a_token_that_is_refreshed_once() {
    let heading = "A token that is refreshed once";
    both_ways(heading, "\n1\n", "token:lock");
    let (server, place) = (Server::start(), Place::new());
    let [by_rlock, _] = recipe(heading);
    run(shell(&server, &place, by_rlock)).succeeded();
    assert!(place.has("ran"));
    std::fs::remove_file(place.file("ran")).unwrap();
    run(shell(&server, &place, by_rlock)).succeeded();
    assert!(!place.has("ran"), "it is new");
    // An old one stays until there is a new one, so that the next process tries again.
    run(program("touch", &["-d", "2 hours ago", &place.file("token").display().to_string()])).succeeded();
    let fails = || {
        let command = shell(&server, &place, by_rlock);
        std::fs::write(place.file("refresh"), "#!/bin/sh\nexit 7\n").unwrap();
        run(command).code()
    };
    assert_eq!([fails(), fails()], [7, 7]);
    run(shell(&server, &place, by_rlock)).succeeded();
    assert!(place.has("ran"));
}

#[test]
fn a_job_on_many_hosts_once() {
    let (server, place) = (Server::start(), Place::new());
    let [by_rlock, by_commands] = recipe("A job on many hosts, once");
    run(shell(&server, &place, by_rlock)).succeeded();
    assert!(place.has("ran"));
    std::fs::remove_file(place.file("ran")).unwrap();
    let left = server.client().say("PTTL nightly").as_int();
    assert!((590_000..=600_000).contains(&left), "{left}");
    assert_eq!(run(shell(&server, &place, by_rlock)).succeeded(), "", "cron has nothing to send");
    assert!(!place.has("ran"), "another host has made it");
    server.client().say("DEL nightly");
    assert_eq!(run(shell(&server, &place, by_commands)).succeeded(), "\n1\n");
}

#[test]
fn a_leader_and_the_next_one_within_milliseconds() {
    let heading = "A leader, and the next one within milliseconds";
    both_ways(heading, "\n1\n1\n", "leader");
    waits_for(heading, "leader");
}

#[test]
fn an_advisory_lock_behind_a_pooler() {
    let (server, place) = (Server::start(), Place::new());
    let [by_rlock, by_commands] = recipe("An advisory lock behind a pooler");
    run(shell(&server, &place, by_rlock)).succeeded();
    assert_eq!(place.lines("ran"), ["invoice:42"]);
    let told = run(shell(&server, &place, by_commands)).succeeded().to_owned();
    assert_eq!(
        told.lines().filter(|line| line.parse::<u64>().is_ok()).count(),
        2,
        "a token, and that it is released: {told}"
    );
}

/// A holder that writes twice has the same token both times.
#[test]
fn the_statement_that_checks_a_token_takes_each_write_of_its_holder() {
    let (_, condition) = PAGE.split_once(" and token ").expect("the statement");
    let allows = |stored: u64, own: u64| match condition.split_once(" $1").unwrap().0 {
        "<=" => stored <= own,
        "<" => stored < own,
        other => panic!("{other}"),
    };
    assert_eq!([allows(6, 7), allows(7, 7), allows(8, 7)], [true, true, false]);
}

#[test]
fn two_locks_no_deadlock() {
    both_ways("Two locks, no deadlock", "\n1\n1\n1\n1\n", "account:1,account:2");
}

#[test]
fn a_bounded_queue_for_a_request_handler() {
    let heading = "A bounded queue for a request handler";
    both_ways(heading, "\n1\n", "page");
    let server = Server::start();
    taken(&mut server.client(), "page");
    let place = Place::new();
    let mut queue: Vec<_> = Vec::new();
    for number in 0..10 {
        queue.push(waits(&server, &format!("RLOCK.ACQUIRE page waiter-{number} 600000 WAIT 0")));
    }
    let [by_rlock, by_commands] = recipe(heading);
    run(shell(&server, &place, by_rlock)).failed(75, &["as many wait for it as --max-waiters allows"]);
    let refused = run(shell(&server, &place, by_commands));
    assert!(refused.code() != 0 && format!("{refused:?}").contains("QUEUEFULL"), "{refused:?}");
    assert!(!place.has("ran"));
}
