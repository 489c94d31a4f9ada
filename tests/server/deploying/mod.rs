//! The page about deploying, `docs/deploy.md`, and the files beside it. What needs no other system is run; the rest is
//! parsed, as is said in `page.rs`.

mod cluster;
mod kubernetes;
mod machines;
mod sentinel;

use crate::page::{Page, ROOT};
use crate::shell::Shell;
use rlock_testing::{Server, module};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub const PAGE: Page = Page(include_str!("../../../docs/deploy.md"));

/// Where the page says that the module lies.
pub const INSTALLED: &str = "/usr/lib/redis/modules/librlock.so";

#[test]
fn what_needs_another_system_is_shell_and_names_files_that_are_there() {
    PAGE.parses(2);
    let fences: Vec<_> = PAGE.0.lines().filter_map(|line| line.strip_prefix("```sh")).collect();
    assert_eq!(fences.iter().filter(|words| words.is_empty()).count(), 2, "what is run");
    assert!(fences.iter().all(|words| ["", " only-parsed"].contains(words)), "{fences:?}");
}

#[test]
fn that_the_module_is_there_is_seen_by_these_commands() {
    let server = Server::start();
    let shell = Shell::on(&server);
    let seen: Vec<_> =
        PAGE.commands().iter().filter(|it| !it.contains("SENTINEL")).map(|it| shell.prints(it)).collect();
    let [list, info, acquired, released] = &seen[..] else { panic!("{seen:?}") };
    assert!(list.contains("rlock") && info.contains("rlock_grants:0"), "{list}{info}");
    assert_eq!([acquired, released], ["\n", "1\n"]);
    let without = Shell::on(&Server::prepare().without_module().start());
    assert!(!without.run(&PAGE.shown("RLOCK.ACQUIRE")).status.success());
}

#[test]
fn every_file_is_installed_where_the_page_says() {
    let elsewhere =
        |line: &&str| line.contains("librlock.so") && line.contains("/usr/lib") && !line.contains(INSTALLED);
    assert_eq!(PAGE.0.lines().find(elsewhere), None);
    let example = include_str!("../../../redis.conf.example");
    assert!(example.contains(&format!("\nloadmodule {INSTALLED}\n")));
}

/// What the log says of a module that cannot be loaded.
fn refused(path: &Path) -> String {
    let Err(log) = Server::prepare().module(path.to_owned()).try_start() else { panic!("it starts") };
    log
}

/// The first column of the table of what the log says.
fn explained(words: &str) -> bool {
    PAGE.0.lines().any(|line| line.starts_with(&format!("| `{words}` |")))
}

#[test]
fn a_module_that_is_not_executable_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("librlock.so");
    std::fs::copy(module(), &path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let words = "It does not have execute permissions";
    assert!(refused(&path).contains(words) && explained(words));
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    Server::prepare().module(path).start();
}

#[test]
fn a_module_that_is_not_there_is_refused() {
    let words = "cannot open shared object file: No such file or directory";
    assert!(refused(Path::new("/nowhere/librlock.so")).contains(words) && explained(words));
}

#[test]
fn a_module_that_refuses_says_why() {
    let start = Server::prepare().options(&["--rename-command", "HSET", ""]);
    let Err(log) = start.try_start() else { panic!("it starts") };
    assert!(log.contains("rlock is not loaded: ") && explained("rlock is not loaded: …"), "{log}");
}

/// With systemd's own parser, where there is one.
#[test]
fn systemd_knows_every_line_of_the_drop_in() {
    let drop_in = std::fs::read_to_string(format!("{ROOT}/docs/systemd/rlock.conf")).unwrap();
    let lines: Vec<_> = drop_in.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, ["[Service]", "ExecPaths=/opt/rlock"]);
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    let units = tempfile::tempdir().unwrap();
    let unit = units.path().join("redis-server.service");
    std::fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    std::fs::create_dir(units.path().join("redis-server.service.d")).unwrap();
    std::fs::write(units.path().join("redis-server.service.d/rlock.conf"), &drop_in).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.arg("verify").arg(&unit).env("SYSTEMD_UNIT_PATH", format!("{}:", units.path().display()));
    let said = String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned();
    assert!(!said.contains("rlock.conf"), "{said}");
}
