//! Histories under faults, and their checker: see docs/proof.md.

mod arguments;
mod checker;
mod clients;
mod excerpt;
mod faults;
mod history;
mod observer;
mod plan;
mod run;
mod server_clock;
mod worlds;

use arguments::{USAGE, misuse, number, options, value};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A promise was broken.
const BROKEN: u8 = 1;
/// No result: the command line is wrong, or a file cannot be read or written.
const NO_RESULT: u8 = 2;

fn main() -> ExitCode {
    match carry_out(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(error) => {
            eprintln!("rlock-chaos: {error}");
            ExitCode::from(NO_RESULT)
        }
    }
}

/// Whether every promise was kept.
fn carry_out(mut arguments: impl Iterator<Item = String>) -> io::Result<bool> {
    let command = arguments.next().unwrap_or_default();
    match command.as_str() {
        "run" => return run::run(&options(arguments)?),
        // One of the processes of a round.
        "work" => {
            let plan = value("work", arguments.next())?;
            clients::work(Path::new(&plan), number("work", arguments.next())?);
        }
        "tell" => return print_verdict(Path::new(&value("tell", arguments.next())?)),
        "join" => print!("{}", run::joined(&arguments.map(PathBuf::from).collect::<Vec<_>>())?),
        "figures" => print!("{}", run::page(&arguments.map(PathBuf::from).collect::<Vec<_>>())?),
        "help" | "--help" | "-h" => println!("{USAGE}"),
        other => return Err(misuse(format!("there is no command named {other:?}"))),
    }
    Ok(true)
}

fn print_verdict(directory: &Path) -> io::Result<bool> {
    let records = history::read_all(directory)?;
    let verdict = checker::check(&records);
    print!("{verdict}");
    for violation in &verdict.violations {
        println!("\n{}", excerpt::excerpt(&records, violation));
    }
    Ok(verdict.violations.is_empty())
}
