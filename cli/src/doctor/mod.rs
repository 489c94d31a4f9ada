//! `rlock doctor`: finds the failures that would lose a lock, let two clients hold it, or stop everything, and prints
//! the line that fixes each.
//!
//! In three parts: `tour` and `visit` read, `checks` judge the readings, `report` prints. So each check can be tested
//! without a server.

mod checks;
mod finding;
mod reading;
mod report;
mod tour;
mod visit;

use crate::arguments::{Doctor, Server};
use crate::failure::Failure;
use crate::{exit, ls, output};
use finding::{Finding, Level};
pub use visit::text;

pub async fn doctor(args: &Doctor, short: bool, server: &Server) -> Result<u8, Failure> {
    let (at, locks, reading) = tour::read(server).await?;
    let findings = checks::all(&reading);
    let code = code(&findings);
    let held = if short { Some(ls::held_at_a_glance(&locks, b"*").await) } else { None };
    match (args.json, held) {
        (true, held) => output::print_json(&report::object(&reading, &findings, held.as_ref(), code == 0))?,
        (false, Some(held)) => output::print(&report::short(&at, &reading, &held, &findings))?,
        (false, None) => output::print(&report::text(&at, &reading, &findings))?,
    }
    Ok(code)
}

/// The exit code is 0 only if everything could be checked and nothing is wrong.
fn code(findings: &[Finding]) -> u8 {
    let has = |level| findings.iter().any(|finding| finding.level == level);
    let is_silent = findings.iter().any(|finding| finding.about == checks::SILENT);
    match (has(Level::Wrong), is_silent, has(Level::Unknown)) {
        (true, ..) => exit::NOTHING_DONE,
        (_, true, _) => exit::UNAVAILABLE,
        (_, _, true) => exit::FORBIDDEN,
        _ => 0,
    }
}
