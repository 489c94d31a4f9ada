//! The command line: what is to be run.

use crate::worlds::WorldKind;
use std::path::PathBuf;

pub const USAGE: &str = "\
usage: rlock-chaos run [--seed N] [--seconds N] [--world NAME]... [--directory PATH] [--until-violation]
       rlock-chaos tell DIRECTORY
       rlock-chaos figures FILE...

run      plays rounds of clients and faults on servers of ours (RLOCK_SERVER, RLOCK_MODULE), and judges each round's history
tell     judges the history that a round left in a directory, and tells how what broke a promise came about
figures  a page with the figures of all runs that are in the files

worlds: single durable replicated sentinel cluster majority";

/// What is wrong with the command line.
pub type Misuse = String;

pub enum Command {
    /// Rounds, each judged.
    Run(Options),
    /// One of the processes that a round consists of.
    Work { plan: PathBuf, crew: usize },
    /// To judge a history that is there.
    Tell { directory: PathBuf },
    /// The page with what runs have come to.
    Figures { files: Vec<PathBuf> },
    /// How all this is called.
    Help,
}

pub struct Options {
    pub seed: u64,
    pub seconds: u64,
    pub worlds: Vec<WorldKind>,
    /// Where the histories are written. Those in which nothing is wrong are removed.
    pub directory: PathBuf,
    /// To end with the first violation, since nothing more is to be learnt.
    pub until_violation: bool,
}

pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, Misuse> {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref() {
        Some("run") => Ok(Command::Run(options(arguments)?)),
        Some("work") => {
            let plan = value("work", arguments.next())?.into();
            Ok(Command::Work { plan, crew: number("work", arguments.next())? })
        }
        Some("tell") => Ok(Command::Tell { directory: value("tell", arguments.next())?.into() }),
        Some("figures") => Ok(Command::Figures { files: arguments.map(PathBuf::from).collect() }),
        Some("help" | "--help" | "-h") => Ok(Command::Help),
        Some(other) => Err(format!("there is no command named {other}")),
        None => Err("what is to be done?".to_owned()),
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Misuse> {
    let mut options = Options {
        seed: 1,
        seconds: 60,
        worlds: Vec::new(),
        directory: PathBuf::from("target/chaos"),
        until_violation: false,
    };
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--seed" => options.seed = number(&option, arguments.next())?,
            "--seconds" => options.seconds = number(&option, arguments.next())?,
            "--world" => {
                let name = value(&option, arguments.next())?;
                let world = WorldKind::by_name(&name).ok_or_else(|| format!("there is no world named {name}"))?;
                options.worlds.push(world);
            }
            "--directory" => options.directory = value(&option, arguments.next())?.into(),
            "--until-violation" => options.until_violation = true,
            _ => return Err(format!("there is no option {option}")),
        }
    }
    if options.worlds.is_empty() {
        options.worlds = WorldKind::ALL.to_vec();
    }
    Ok(options)
}

fn value(option: &str, value: Option<String>) -> Result<String, Misuse> {
    value.ok_or_else(|| format!("{option} needs a value"))
}

fn number<T: std::str::FromStr>(option: &str, given: Option<String>) -> Result<T, Misuse> {
    let given = value(option, given)?;
    given.parse().map_err(|_| format!("{option} needs a number, not {given}"))
}
