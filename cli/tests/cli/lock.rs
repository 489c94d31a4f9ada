//! `rlock lock`, `unlock` and `renew`: a lock for several commands of a script, with a lease without renewals.

use crate::support::{Place, exists, program, released, rlock, run, start, taken, url};
use rlock_testing::{Client, Server, wait_until};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A script with `rlock` in its PATH.
fn script(server: &Server, place: &Place, text: &str) -> Command {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
    let mut command = program("sh", &["-euc", text]);
    command.env("RLOCK_URL", url(server)).env("PATH", path).env_remove("RLOCK_HOLDER");
    place.of(command)
}

fn holder_of(client: &mut Client, key: &str) -> String {
    let holders = client.hash(key);
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders[0].0.clone()
}

#[test]
fn it_stays_held_until_it_is_unlocked_and_prints_the_holder() {
    let (server, mut client) = Server::with_client();
    for unlock in [
        "rlock unlock key \"$held\"",
        "rlock unlock key \"$(echo \"$held\" | sed -n s/RLOCK_HOLDER=//p)\"",
        "eval \"$held\"; rlock unlock key",
    ] {
        let place = Place::new();
        let ended = run(script(&server, &place, "rlock lock --token --lease 10m key"));
        let printed = ended.succeeded().to_owned();
        let holder = holder_of(&mut client, "key");
        let token = client.say("GET redisson_lock_token:{key}").as_text().to_owned();
        let lines = format!("RLOCK_HOLDER={holder}\nRLOCK_TOKEN={token}\nexport RLOCK_HOLDER RLOCK_TOKEN\n");
        assert_eq!(printed, lines);
        let left = client.expiry("key") - client.time_ms();
        assert!((540_000..=600_000).contains(&left), "{left}");
        let mut unlock = script(&server, &place, unlock);
        unlock.env("held", printed.trim_end());
        assert_eq!(run(unlock).succeeded(), "");
        assert!(!exists(&mut client, "key"));
    }
}

/// A token that the shell has from another lock would be taken for this lock's token.
#[test]
fn without_the_option_the_lines_take_a_former_token_away() {
    let server = Server::start();
    let place = Place::new();
    let text = "RLOCK_TOKEN=7; eval \"$(rlock lock --lease 10m key)\"; echo ${RLOCK_TOKEN-none}; rlock unlock key";
    assert_eq!(run(script(&server, &place, text)).succeeded(), "none\n");
    assert_eq!(server.client().keys(), [""; 0], "no counter is left");
}

/// Code 0 says that the lock is held.
#[test]
fn a_lock_that_is_not_free_cannot_be_code_0() {
    let server = Server::start();
    for arguments in [&["lock", "--lease", "10m", "-E", "0", "key"][..], &["hold", "--busy-code=0", "key"]] {
        run(rlock(&server, arguments)).failed(64, &["-E 0", "--quiet"]);
        assert!(!exists(&mut server.client(), "key"), "{arguments:?}");
    }
}

/// A lock that is waited for is requested by a session, and stays held when the session is gone.
#[test]
fn it_stays_held_when_nothing_is_left_of_the_program_that_waited() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    let waits = start(script(&server, &place, "rlock lock --lease 10m --token-file token key"));
    client.until_waiting(1);
    released(&mut client, "key");
    assert_eq!(waits.end().succeeded(), "");
    wait_until("the session is over", || client.figure("sessions") == 0);
    assert_eq!(place.lines("token")[0], format!("RLOCK_HOLDER={}", holder_of(&mut client, "key")));
    assert!(client.expiry("key") > client.time_ms() + 540_000);
    run(script(&server, &place, "rlock unlock --token-file token key")).succeeded();
    assert!(!exists(&mut client, "key"));
}

#[test]
fn a_token_file_is_for_one_user_and_one_script() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    run(script(&server, &place, "umask 0; rlock lock --token --lease 10m --token-file token key")).succeeded();
    let mode = place.file("token").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "nothing is left beside it");
    // Another script's file: that is reported without waiting for the lock.
    let other = run(script(&server, &place, "rlock lock --lease 10m --token-file token key"));
    other.failed(74, &["the token file token is there already", "a file of its own"]);
    assert_eq!(place.lines("token")[0], format!("RLOCK_HOLDER={}", holder_of(&mut client, "key")));
    // A shell reads it.
    let read =
        run(script(&server, &place, ". ./token; rlock unlock key \"$RLOCK_HOLDER\"; echo $RLOCK_TOKEN; rm token"));
    assert_eq!(read.succeeded().trim_end(), client.say("GET redisson_lock_token:{key}").as_text());
    // An empty file, as `mktemp` makes it.
    place.mark("token");
    run(script(&server, &place, "rlock lock --lease 10m --token-file token key; rlock unlock --token-file token key"))
        .succeeded();
    assert!(!place.has("token") && !exists(&mut client, "key"));
}

#[test]
fn what_cannot_be_written_holds_no_lock() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let refused = |text: &str, code: i32, words: &[&str]| run(script(&server, &place, text)).failed(code, words);
    refused("rlock lock --lease 10m --token-file nowhere/token key", 74, &["nowhere/token cannot be written"]);
    refused("rlock lock --lease 10m --token-file . key", 74, &["is there already"]);
    refused("rlock lock --lease 10m --token-fd 7 key", 64, &["--token-fd", "7 is not open"]);
    refused("rlock lock --lease 10m --token-fd 7 --token-file token key 7>fd", 64, &["--token-f"]);
    refused("rlock lock key", 64, &["--lease"]);
    refused("rlock lock --lease 10m ''", 64, &["KEY is empty"]);
    let mut full = script(&server, &place, "rlock lock --lease 10m key >/dev/full");
    full.env("LC_ALL", "C");
    run(full).failed(74, &["the holder could not be written", "No space left"]);
    assert!(!exists(&mut client, "key"));
}

#[test]
fn file_descriptors_do_as_well() {
    let server = Server::start();
    let place = Place::new();
    let text = "rlock lock --lease 10m --token-fd 7 key 7>token; rlock renew --lease 1h --token-fd 8 key 8<token; \
                rlock unlock --token-fd 9 key 9<token";
    assert_eq!(run(script(&server, &place, text)).succeeded(), "");
    assert!(!exists(&mut server.client(), "key") && place.has("token"));
}

#[test]
fn an_ended_lease_is_reported_and_the_next_holder_keeps_the_lock() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    run(script(&server, &place, "rlock lock --lease 500ms --token-file token key")).succeeded();
    wait_until("the lease has ended", || !exists(&mut client, "key"));
    taken(&mut client, "key");
    run(script(&server, &place, "rlock renew --lease 10m --token-file token key"))
        .failed(76, &["key: the lock was lost before it was renewed", "others may have had it"]);
    run(script(&server, &place, "rlock unlock --token-file token key"))
        .failed(76, &["key: the lock was lost before it was unlocked", "others may have had it"]);
    assert!(!place.has("token"), "it is of no use any more");
    assert_eq!(holder_of(&mut client, "key"), "somebody");
}

#[test]
fn a_lease_can_be_renewed() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    run(script(&server, &place, "rlock lock --lease 10m --token-file token key")).succeeded();
    run(script(&server, &place, "rlock renew --lease 1h --token-file token key")).succeeded();
    assert!(client.expiry("key") > client.time_ms() + 3_000_000);
    run(script(&server, &place, "rlock renew --lease 1m --token-file token key")).succeeded();
    assert!(client.expiry("key") < client.time_ms() + 60_001);
}

#[test]
fn a_wait_ends_as_that_of_run_does() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    let ended = run(script(&server, &place, "rlock lock --lease 10m --token-file token --wait 50ms -E 3 key"));
    ended.failed(3, &["key: not free", "rlock inspect"]);
    assert!(!ended.errors.contains("run;"), "{ended:?}");
    let waits = start(script(&server, &place, "exec rlock lock --lease 10m --token-file token key"));
    client.until_waiting(1);
    waits.signal("TERM");
    assert_eq!(waits.end().code(), 143);
    assert_eq!(client.figure("waiters"), 0);
    assert!(!place.has("token"));
}

#[test]
fn both_sides_of_a_read_write_lock() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let text = "one=$(rlock lock --read --lease 10m key); two=$(rlock lock --read --name two --lease 10m key); \
                rlock unlock key \"$one\"; echo \"$two\" >token";
    run(script(&server, &place, text)).succeeded();
    assert!(place.lines("token")[0].starts_with("RLOCK_HOLDER=two:"));
    run(script(&server, &place, "rlock lock --write -n --lease 10m key")).failed(75, &["not free"]);
    let text =
        "rlock unlock --token-file token key; held=$(rlock lock --write --lease 10m key); rlock unlock key \"$held\"";
    run(script(&server, &place, text)).succeeded();
    assert!(!exists(&mut client, "key"));
}

#[test]
fn the_holder_has_to_be_named() {
    let server = Server::start();
    let place = Place::new();
    File::create(place.file("empty")).unwrap();
    for (arguments, words) in [
        ("key", "RLOCK_HOLDER"),
        ("key ''", "which holder?"),
        ("--token-file empty key", "which holder?"),
        ("--token-file nowhere key", "nowhere cannot be read"),
        ("--token-fd 7 key", "7 is not open"),
        ("--token-file empty key holder", "--token-file"),
        ("'' holder", "KEY is empty"),
    ] {
        for command in ["unlock", "renew --lease 1m"] {
            run(script(&server, &place, &format!("rlock {command} {arguments}"))).failed(64, &[words]);
        }
    }
}
