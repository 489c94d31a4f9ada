//! The command line: what is to be run.

use crate::worlds::Stage;
use std::io;
use std::path::PathBuf;

pub const USAGE: &str = "\
usage: rlock-chaos run [--seed N] [--seconds N | --failovers N] [--world NAME]... [--directory PATH] [--build TEXT]
                       [--until-violation] [--keep]
       rlock-chaos tell DIRECTORY
       rlock-chaos join FILE...
       rlock-chaos figures FILE...

run      plays rounds of clients and faults on servers of ours (RLOCK_SERVER, RLOCK_MODULE), and judges each round's history
tell     judges the history that a round left in a directory, and shows the records around each violation
join     prints the figures of all runs in the files; runs of one server and build become one
figures  prints a page with the figures of all runs in the files

worlds: single durable replicated sentinel cluster; and those of failovers alone: replicated-unprotected
replicated-protected sentinel-unprotected sentinel-protected cluster-unprotected cluster-protected, together: failovers.
Without --world: the five. With --failovers: until each world of failovers had N in which the new master lacked locks";

pub struct Options {
    pub seed: u64,
    pub seconds: u64,
    /// How many failovers with exposed locks there must be in each world, whatever time that takes.
    pub failovers: Option<u64>,
    /// The commit that was run, for the page.
    pub build: String,
    pub worlds: Vec<Stage>,
    /// Where the histories are written.
    pub directory: PathBuf,
    /// Ends with the first violation.
    pub until_violation: bool,
    /// Keeps also the histories without a violation.
    pub keeps: bool,
}

pub fn options(mut arguments: impl Iterator<Item = String>) -> io::Result<Options> {
    let mut options = Options {
        seed: 1,
        seconds: 60,
        failovers: None,
        build: String::new(),
        worlds: Vec::new(),
        directory: PathBuf::from("target/chaos"),
        until_violation: false,
        keeps: false,
    };
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--seed" => options.seed = number(&option, arguments.next())?,
            "--seconds" => options.seconds = number(&option, arguments.next())?,
            "--failovers" => options.failovers = Some(number(&option, arguments.next())?),
            "--build" => options.build = value(&option, arguments.next())?,
            "--world" => {
                let name = value(&option, arguments.next())?;
                let worlds = Stage::by_name(&name);
                if worlds.is_empty() {
                    return Err(misuse(format!("there is no world named {name}")));
                }
                options.worlds.extend(worlds);
            }
            "--directory" => options.directory = value(&option, arguments.next())?.into(),
            "--until-violation" => options.until_violation = true,
            "--keep" => options.keeps = true,
            _ => return Err(misuse(format!("there is no option {option}"))),
        }
    }
    if options.worlds.is_empty() {
        options.worlds = Stage::of_a_run();
    }
    Ok(options)
}

pub fn value(option: &str, value: Option<String>) -> io::Result<String> {
    value.ok_or_else(|| misuse(format!("{option} needs a value")))
}

pub fn number<T: std::str::FromStr>(option: &str, given: Option<String>) -> io::Result<T> {
    let given = value(option, given)?;
    given.parse().map_err(|_| misuse(format!("{option} needs a number, not {given}")))
}

/// The error for a wrong command line: what is wrong, and the usage.
pub fn misuse(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{why}\n\n{USAGE}"))
}
