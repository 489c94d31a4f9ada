//! Reads what was typed, and says what is wrong with it.

use super::{Arguments, Command, Once, Run};
use crate::failure::Failure;
use crate::other_tools;
use crate::output;
use crate::shown;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;

/// Reads them. What only asks for help is printed, and that is all.
pub fn read() -> Result<Arguments, Failure> {
    let typed = as_an_option(std::env::args_os().collect());
    let known = Arguments::command();
    let read = Arguments::try_parse_from(typed.clone()).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            must_only_ask_for_help(&typed, &known)?;
            let text = error.render();
            let text = if output::has_colours() { text.ansi().to_string() } else { text.to_string() };
            output::print(&format!("{}\n", text.trim_end()))?;
            std::process::exit(0);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let commands: Vec<_> = known.get_subcommands().map(clap::Command::get_name).collect();
            Err(Failure::usage(format!("what to do? One of {}; see rlock --help", commands.join(", "))))
        }
        ErrorKind::UnknownArgument => Err(unknown(&error)),
        _ => Err(mistyped(&error.render().to_string())),
    })?;
    must_name_key_before_cmd(&read.command, &typed)?;
    Ok(read)
}

/// `rlock run -- env true` would take `env` for KEY. A KEY that begins with a dash can only be there.
fn must_name_key_before_cmd(command: &Command, typed: &[OsString]) -> Result<(), Failure> {
    let (name, key, work) = match command {
        Command::Run(Run { wish, work, .. }) => ("run", &wish.key, work),
        Command::Once(Once { key, work, .. }) => ("once", key, work),
        _ => return Ok(()),
    };
    let behind = typed.iter().position(|word| word == "--").map_or(0, |dashes| typed.len() - dashes - 1);
    let is_cmd = !work.command.is_empty() && behind == work.command.len() + 1;
    if is_cmd && !key.as_encoded_bytes().starts_with(b"-") {
        let key = shown::name(key.as_encoded_bytes());
        return Err(Failure::usage(format!("KEY comes before --: rlock {name} KEY -- {key} …")));
    }
    Ok(())
}

/// `-h` with a host, as for `redis-cli`, would print the help and look like success; so would help when a command
/// should run: cron would take it for done.
fn must_only_ask_for_help(typed: &[OsString], known: &clap::Command) -> Result<(), Failure> {
    let own: Vec<_> = typed.iter().take_while(|word| *word != "--").collect();
    let behind = own.iter().position(|word| *word == "-h").and_then(|place| own.get(place + 1));
    let is_host = |word: &OsString| known.find_subcommand(word).is_none() && !word.as_encoded_bytes().starts_with(b"-");
    if behind.is_some_and(|word| is_host(word)) {
        return Err(Failure::usage("-h prints help and takes no host: for a server use -u host:port"));
    }
    match own.len() == typed.len() {
        true => Ok(()),
        false => {
            Err(Failure::usage("with -h, --help or -V there is only that printed, and CMD is not run: leave it out"))
        }
    }
}

/// What other tools have may be meant.
fn unknown(error: &clap::Error) -> Failure {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.as_str(),
        _ => "",
    };
    match other_tools::advice(option) {
        Some(advice) => Failure::usage(format!("there is no {option}: {advice}")),
        None => mistyped(&error.render().to_string()),
    }
}

/// `rlock help run` is `rlock run --help`. It is not a separate command, which would be listed and completed with the
/// others.
fn as_an_option(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.get(1).is_some_and(|first| first == "help") {
        typed.remove(1);
        typed.push("--help".into());
    }
    typed
}

/// What is wrong in one line, without the usage that comes after it; and what may have been meant.
fn mistyped(error: &str) -> Failure {
    let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let (tips, words): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("tip:"));
    let words = words.join(" ");
    let words = format!("{}; see rlock --help", words.strip_prefix("error: ").unwrap_or(&words));
    let tips = tips.iter().map(|tip| tip.trim_start_matches("tip:").trim().to_owned()).collect();
    Failure::usage(words).with_tips(tips)
}
