//! The names of locks, for shells that complete them: `rlock inspect ord<TAB>`. The scripts of `completions.rs` ask for
//! them with what was typed so far, whatever that is; here it is known where a name belongs, and which server is meant.
//!
//! Somebody waits at the keyboard and did not ask for an error: there is a short time for it, and whatever goes wrong,
//! nothing is offered.

use crate::address;
use crate::arguments::{Arguments, Server};
use crate::operators::{Search, Unanswered, queues};
use crate::output;
use crate::shown;
use clap::{CommandFactory, FromArgMatches};
use rlock_client::{Locks, Master};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

/// What the scripts type. It is not listed among the commands, which are for people.
pub const COMMAND: &str = "complete-key";

/// For all of it.
const LIMIT: Duration = Duration::from_millis(700);

/// More would not help anybody to choose.
const NAMES_MAX: usize = 200;

/// As many queues, and steps of some thousand keys, are looked at.
const QUEUES_MAX: usize = 1_000;
const STEPS: usize = 10;

/// No step is begun later than this.
const TIME: Duration = Duration::from_millis(200);

/// Stands for the word that is completed, and is no name of a lock.
const HERE: &str = "\u{1}";

/// What has been typed, if a script asks: `rlock complete-key -- rlock inspect ord`.
pub fn asked(arguments: &[OsString]) -> Option<&[OsString]> {
    match arguments {
        [_, command, dashes, typed @ ..] if command == COMMAND && dashes == "--" => Some(typed),
        _ => None,
    }
}

/// Prints a name on each line.
pub fn print(typed: &[OsString]) {
    let (Some(server), Some(beginning)) = (server_if_a_key_is_next(typed), typed.last().and_then(|it| it.to_str()))
    else {
        return;
    };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let mut names = BTreeSet::new();
    runtime.block_on(async {
        let _ = timeout(LIMIT, find(&server, beginning, &mut names)).await;
    });
    runtime.shutdown_background();
    let lines: String = names.into_iter().take(NAMES_MAX).map(|name| name + "\n").collect();
    let _ = output::print(&lines);
}

/// The server that was typed, if the last word is to be the name of a lock.
fn server_if_a_key_is_next(typed: &[OsString]) -> Option<Server> {
    let (last, before) = typed.split_last()?;
    if last.as_encoded_bytes().starts_with(b"-") {
        return None;
    }
    let words = before.iter().cloned().chain([HERE.into()]);
    let matches = Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let (_, matches) = matches.subcommand()?;
    let key = matches.try_get_one::<OsString>("key").ok()??;
    let mut server = (key == HERE).then(|| Server::from_arg_matches(matches).ok())??;
    server.connect_timeout = server.connect_timeout.min(LIMIT);
    Some(server)
}

async fn find(server: &Server, beginning: &str, names: &mut BTreeSet<String>) -> Result<(), Unanswered> {
    let Ok((locks, _)) = address::connect(server).await else { return Ok(()) };
    let masters = locks.masters().await?;
    let queues = queues(&masters, QUEUES_MAX).await?;
    names.extend(queues.iter().filter_map(|queue| typable(&queue.key, beginning)));
    look_through(&locks, &masters, beginning, names).await
}

async fn look_through(
    locks: &Locks,
    masters: &[Master],
    beginning: &str,
    names: &mut BTreeSet<String>,
) -> Result<(), Unanswered> {
    let (began, mut search) = (Instant::now(), Search::on(locks, masters, pattern(beginning).as_bytes()));
    for _ in 0..STEPS {
        let Some(step) = search.step().await? else { break };
        names.extend(step.locks.iter().filter_map(|(key, _)| typable(key, beginning)));
        if names.len() > NAMES_MAX || began.elapsed() > TIME {
            break;
        }
    }
    Ok(())
}

/// A name that can be shown as it is can be typed.
fn typable(key: &[u8], beginning: &str) -> Option<String> {
    let name = std::str::from_utf8(key).ok()?;
    (name.starts_with(beginning) && shown::name(key) == name).then(|| name.to_owned())
}

/// All that begin like this, as `SCAN` takes it.
fn pattern(beginning: &str) -> String {
    let mut pattern = String::new();
    for character in beginning.chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "*"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(line: &str) -> Option<Server> {
        server_if_a_key_is_next(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn names_belong_where_a_key_belongs() {
        for line in
            ["rlock inspect ", "rlock inspect ord", "rlock break --yes or", "rlock run --wait 10s ", "rlock run -n o"]
        {
            assert!(server(line).is_some(), "{line}");
        }
        for line in [
            "",
            "rlock",
            "rlock ",
            "rlock ins",
            "rlock inspect",
            "rlock inspect -",
            "rlock inspect key ",
            "rlock inspect --limit ",
            "rlock run key ",
            "rlock run key -- ",
            "rlock run --wait ",
            "rlock ls ",
            "rlock -u ",
            "rlock --help ",
            "rlock nonsense ",
        ] {
            assert!(server(line).is_none(), "{line}");
        }
    }

    #[test]
    fn the_server_is_the_one_that_was_typed() {
        for line in ["rlock -u redis://h inspect or", "rlock inspect --url redis://h or", "rlock run -u=redis://h -n "]
        {
            assert_eq!(server(line).and_then(|server| server.url).as_deref(), Some("redis://h"), "{line}");
        }
        let slow = server("rlock --connect-timeout 1h inspect or").unwrap();
        assert_eq!(slow.connect_timeout, LIMIT);
    }

    #[test]
    fn what_was_typed_is_no_pattern() {
        assert_eq!(pattern("a*[b]?\\c:"), "a\\*\\[b]\\?\\\\c:*");
        assert_eq!(typable(b"a\x1b[2J", "a"), None);
        assert_eq!(typable(b"b", "a"), None);
        assert_eq!(typable("für:1".as_bytes(), "für"), Some("für:1".to_owned()));
    }
}
