//! Completions for shells, made from the arguments themselves.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;
use clap_complete::{Shell, generate};

pub fn print(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "rlock", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
