//! Histories under faults, and what a checker makes of them: see docs/proof.md.

mod arguments;
mod checker;
mod clients;
mod faults;
mod history;
mod network;
mod observer;
mod plan;
mod run;
mod story;
mod worlds;

use arguments::{Command, USAGE};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// A promise was broken.
const BROKEN: u8 = 1;
/// Nothing can be said: the command line is wrong, or a file cannot be read or written.
const NO_RESULT: u8 = 2;

fn main() -> ExitCode {
    let command = match arguments::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(misuse) => {
            eprintln!("rlock-chaos: {misuse}\n\n{USAGE}");
            return ExitCode::from(NO_RESULT);
        }
    };
    match carry_out(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(error) => {
            eprintln!("rlock-chaos: {error}");
            ExitCode::from(NO_RESULT)
        }
    }
}

/// Whether every promise was kept.
fn carry_out(command: Command) -> io::Result<bool> {
    match command {
        Command::Run(options) => return run::run(&options),
        Command::Work { plan, crew } => clients::work(&plan, crew),
        Command::Tell { directory } => return tell(&directory),
        Command::Figures { files } => print!("{}", run::page(&files)?),
        Command::Help => println!("{USAGE}"),
    }
    Ok(true)
}

fn tell(directory: &Path) -> io::Result<bool> {
    let records = history::read_all(directory)?;
    let verdict = checker::check(&records);
    print!("{verdict}");
    for violation in &verdict.violations {
        println!("\n{}", story::story(&records, violation));
    }
    Ok(verdict.violations.is_empty())
}
