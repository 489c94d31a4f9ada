//! Shells that know the names of locks: typed in a real one, as somebody on call would.

use crate::support::{Place, bare, rlock, run, taken, within_patience};
use crate::terminal::Terminal;
use rlock_testing::{Client, Server};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Names with what shells split, expand and quote; and a hash that is no lock.
fn some_locks(server: &Server) -> Client {
    let mut client = server.client();
    for key in ["orders:42", "import=all", "with blank", "$HOME"] {
        taken(&mut client, key);
    }
    client.say("HSET orders:profile name bob");
    // One that is waited for, and free by now.
    let session = ["SESSION", "a-session-of-a-service", "1"];
    client.send(&["RLOCK.EVENTS", session[1], "TTL", "600000"]);
    client.receive();
    client.run(&[&["RLOCK.ACQUIRE", "orders:42", "waiter", "600000", "WAIT", "0"][..], &session].concat());
    client
}

/// What a command line becomes by a Tab.
fn completes(terminal: &Terminal, typed: &str, becomes: &str) {
    terminal.type_in(typed);
    terminal.press("Tab");
    terminal.wait_until(becomes, |screen| {
        screen.lines().any(|line| line.trim_end().strip_prefix("prompt> ") == Some(becomes))
    });
    terminal.press("C-u");
}

fn names_are_completed(server: &Server, shell: &str, script: &str) {
    let _client = some_locks(server);
    let terminal = Terminal::open(server, &[]);
    terminal.resize_at_the_prompt(120, 30);
    terminal.enter(shell);
    terminal.enter(script);
    terminal.enter("clear; echo ready to type");
    terminal.wait_until("a prompt", |screen| screen.starts_with("ready to type\nprompt>"));
    completes(&terminal, "rlock inspect ord", "rlock inspect orders:42");
    completes(&terminal, "rlock inspect orders:", "rlock inspect orders:42");
    completes(&terminal, "rlock run --wait 10s imp", "rlock run --wait 10s import=all");
    completes(&terminal, "rlock break with", "rlock break with\\ blank");
    // The server is the one that is typed.
    let other = Server::start();
    taken(&mut other.client(), "only:there");
    let address = format!("rlock -u redis://127.0.0.1:{}", other.port());
    completes(&terminal, &format!("{address} inspect on"), &format!("{address} inspect only:there"));
    // What is no name is completed as ever.
    completes(&terminal, "rlock comp", "rlock completions");
    completes(&terminal, "rlock inspect --js", "rlock inspect --json");
}

#[test]
fn bash_knows_the_names_of_locks() {
    names_are_completed(&Server::start(), "exec bash --norc --noprofile", "eval \"$(rlock completions bash)\"");
}

fn is_installed(shell: &str) -> bool {
    let is_there = Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("{shell} is not installed: what it makes of its script is not tried");
    }
    is_there
}

#[test]
fn zsh_knows_the_names_of_locks() {
    let script = run(bare(&["completions", "zsh"])).succeeded().to_owned();
    let keys: Vec<_> = script.lines().filter(|line| line.starts_with("':key -- ")).collect();
    assert!(keys.len() >= 3 && keys.iter().all(|line| line.contains(":_rlock_keys'")), "{keys:?}");
    if is_installed("zsh") {
        let script = "autoload -Uz compinit; compinit -u -D; eval \"$(rlock completions zsh)\"; PS1='prompt> '";
        names_are_completed(&Server::start(), "exec zsh -f", script);
    }
}

#[test]
fn fish_knows_the_names_of_locks() {
    let script = run(bare(&["completions", "fish"])).succeeded().to_owned();
    let has = |line: &str| script.lines().any(|it| it == format!("complete -c rlock -n \"{line}"));
    for line in ["run\"", "inspect\" -f", "break\" -f"] {
        assert!(has(&format!("__fish_rlock_using_subcommand {line} -a \"(__fish_rlock_keys)\"")), "{line}: {script}");
    }
    if !is_installed("fish") {
        return;
    }
    let server = Server::start();
    let (_client, place) = (some_locks(&server), Place::new());
    let offered = |typed: &str| {
        let ask = format!("rlock completions fish | source; complete -C '{typed}'");
        let mut command = crate::support::program("fish", &["--no-config", "-c", &ask]);
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("RLOCK_URL", crate::support::url(&server)).current_dir(place.path());
        run(command).output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(offered("rlock inspect ord"), ["orders:42"]);
    assert_eq!(offered("rlock run --wait 10s imp"), ["import=all"]);
    assert_eq!(offered("rlock break wi"), ["with blank"]);
    assert!(offered("rlock run key -- slee").iter().any(|it| it.starts_with("sleep")));
}

fn asked(server: &Server, typed: &[&str]) -> String {
    let ended = run(rlock(server, &[&["complete-key", "--"], typed].concat()));
    ended.succeeded().to_owned()
}

#[test]
fn only_names_that_can_be_typed_are_offered_and_only_where_they_belong() {
    let server = Server::start();
    let mut client = some_locks(&server);
    for name in [&b"ord\xff"[..], b"ord\x1b[2J", b"ord\nrm"] {
        client.run(&[&b"RLOCK.ACQUIRE"[..], name, b"somebody", b"600000"]);
    }
    assert_eq!(asked(&server, &["rlock", "inspect", ""]), "$HOME\nimport=all\norders:42\nwith blank\n");
    assert_eq!(asked(&server, &["rlock", "inspect", "o"]), "orders:42\n");
    assert_eq!(asked(&server, &["rlock", "inspect", "*"]), "", "it is no pattern");
    client.say("CONFIG RESETSTAT");
    for typed in [&["rlock", "ls", ""][..], &["rlock", "run", "key", ""], &["rlock", "inspect", "--limit", ""]] {
        assert_eq!(asked(&server, typed), "", "{typed:?}");
    }
    assert_eq!(client.info("commandstats").find("cmdstat_rlock.queues"), None, "the server is not even asked");
    assert!(!run(bare(&["--help"])).succeeded().contains("complete-key"));
}

/// Somebody waits at the keyboard.
#[test]
fn whatever_goes_wrong_nothing_is_offered_and_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", listener.local_addr().unwrap());
    let server = Server::start();
    let mut client = some_locks(&server);
    client.say("ACL SETUSER app on >secret ~*");
    let forbidden = format!("redis://app@127.0.0.1:{}", server.port());
    for address in [&silent[..], "redis://127.0.0.1:1", &forbidden, "redis://user@nobody", "nonsense"] {
        let mut command = bare(&["complete-key", "--", "rlock", "-u", address, "inspect", "or"]);
        command.env("RLOCK_PASSWORD", "secret");
        let (ended, took) = within_patience(|| run(command));
        assert_eq!(ended.succeeded(), "", "{address}");
        assert!(took < Duration::from_secs(5), "{address}: {took:?}");
    }
}
