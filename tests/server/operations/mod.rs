//! The page for people on call, `docs/operations.md`: its commands, scripts and users are taken out of it and tried, so
//! that it cannot say what is not so.

mod ground;
pub mod numbers;
mod rights;

use crate::page::Page;
use crate::shell::Shell;
use rlock_testing::{Client, Reply, Server, start_waiting, text};

pub const PAGE: Page = Page(include_str!("../../../docs/operations.md"));

/// A lock as somebody on call finds it: held with a token, and waited for.
pub fn stuck(server: &Server) -> [Client; 2] {
    server.client().say("RLOCK.ACQUIRE orders:42 worker-7 600000 FENCED");
    [8, 9].map(|number| start_waiting(server, &format!("RLOCK.ACQUIRE orders:42 worker-{number} 600000 WAIT 0")))
}

#[test]
fn every_command_that_is_shown_works() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("redis.conf");
    std::fs::write(&configuration, "").unwrap();
    let server = Server::prepare().configuration(&configuration).start();
    let _waiters = stuck(&server);
    let shell = Shell::on(&server);
    let commands = PAGE.commands();
    assert!(commands.iter().all(|command| command.starts_with("redis-cli ")), "{commands:?}");
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        shell.prints(&command);
    }
    assert!(std::fs::read_to_string(&configuration).unwrap().contains("latency-monitor-threshold 10"));
}

#[test]
fn who_holds_a_lock_is_seen_with_the_module_and_without() {
    let server = Server::start();
    let _waiters = stuck(&server);
    let shell = Shell::on(&server);
    let seen = shell.prints(&PAGE.shown("RLOCK.INSPECT"));
    for name in ["worker-7", "worker-8", "client-id"] {
        assert!(seen.contains(name), "{name}: {seen}");
    }
    assert!(!seen.contains("worker-9"), "few lines, however many wait: {seen}");
    assert!(shell.prints(&PAGE.shown("RLOCK.QUEUES")).contains("served"));
    assert_eq!(shell.prints(&PAGE.shown("HGETALL")), "worker-7\n1\n");
    let left: i64 = shell.prints(&PAGE.shown("PTTL")).trim().parse().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
}

#[test]
fn redis_cli_gets_the_password_as_the_page_says() {
    let (server, mut client) = Server::with_client();
    client.say("ACL SETUSER on-call on >secret +@all ~*");
    assert!(["`REDISCLI_AUTH`", "`--user`"].iter().all(|way| PAGE.0.contains(way)));
    let asked = Shell::on(&server).prints("REDISCLI_AUTH=secret redis-cli --user on-call ACL WHOAMI");
    assert_eq!(asked, "on-call\n");
}

#[test]
fn a_break_hands_over_and_the_former_holder_learns_it_by_itself() {
    let (server, mut client) = Server::with_client();
    let [mut first, _second] = stuck(&server);
    assert_eq!(Shell::on(&server).prints(&PAGE.shown("RLOCK.BREAK")), "1\n");
    assert_eq!(first.receive(), Reply::Nil);
    assert_eq!(client.say("RLOCK.RENEW orders:42 worker-7 600000"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE orders:42 worker-7"), Reply::Nil);
    assert_eq!(client.fields("orders:42"), "{worker-8:1}");
    assert_eq!(client.say("GET redisson_lock_token:{orders:42}"), text("1"), "tokens go on growing");
}

#[test]
fn without_the_module_a_lock_is_broken_by_plain_commands() {
    let server = Server::prepare().without_module().start();
    let (mut client, mut java) = (server.client(), server.client());
    client.say("HSET orders:42 worker-7 1");
    for channel in ["redisson_lock__channel:{orders:42}", "redisson_rwlock:{orders:42}"] {
        assert_eq!(java.run(&["SUBSCRIBE", channel]).words(), ["subscribe", channel]);
    }
    let shell = Shell::on(&server);
    assert_eq!(shell.prints(&PAGE.shown("HGETALL")), "worker-7\n1\n");
    assert_eq!(shell.prints(&PAGE.shown("DEL")), "1\n");
    for (channel, message) in [("redisson_lock__channel", "0"), ("redisson_rwlock", "1")] {
        shell.prints(&PAGE.shown(channel));
        assert_eq!(java.receive().as_list()[2], text(message), "{channel}");
    }
    assert_eq!(client.keys(), [""; 0]);
}

#[test]
fn one_waiter_is_sent_away_and_the_others_stay() {
    let (server, mut client) = Server::with_client();
    let [mut first, mut second] = stuck(&server);
    let waiters = client.say("RLOCK.INSPECT orders:42");
    let waiters = crate::inspect::of(&waiters, "waiters").as_list();
    let ids: Vec<_> = waiters.iter().map(|waiter| crate::inspect::of(waiter, "client-id").as_int()).collect();
    let shell = Shell::on(&server);
    let with_id = |words, id: i64| shell.prints(&PAGE.shown(words).replace("812", &id.to_string()));
    assert_eq!(with_id("CLIENT UNBLOCK", ids[0]), "1\n");
    assert!(first.receive().as_error().starts_with("UNBLOCKED"), "it is told that somebody wants it to go");
    assert_eq!(client.figure("waiters"), 1);
    assert_eq!(with_id("CLIENT KILL", ids[1]), "1\n");
    assert_eq!(second.try_receive(), None);
}
