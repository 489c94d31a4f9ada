//! `rlock doctor`: which failure would lose a lock, let two hold it, or stop all; and the line that mends each.
//!
//! Three parts: `tour` and `visit` read, `checks` judge what was read, `report` says it. So each check is tried without
//! a server. `rlock status` is the same in short, beside how many hold and wait.

mod checks;
mod finding;
mod reading;
mod report;
mod status;
mod tour;
mod visit;

use crate::arguments::{Doctor, Server, Status};
use crate::failure::Failure;
use crate::{exit, ls, output};
use finding::{Finding, Level};

pub async fn doctor(args: &Doctor, server: &Server) -> Result<u8, Failure> {
    let (at, _, reading) = tour::read(server).await?;
    let findings = checks::all(&reading);
    let code = code(&findings);
    match args.json {
        true => output::print_json(&report::object(&reading, &findings, code == 0))?,
        false => output::print(&report::text(&at, &reading, &findings))?,
    }
    Ok(code)
}

pub async fn status(args: &Status, server: &Server) -> Result<u8, Failure> {
    let (at, locks, reading) = tour::read(server).await?;
    let findings = checks::all(&reading);
    let (code, held) = (code(&findings), ls::held_at_a_glance(&locks, b"*").await);
    match args.json {
        true => output::print_json(&status::object(&reading, &held, &findings, code == 0))?,
        false => output::print(&status::text(&at, &reading, &held, &findings))?,
    }
    Ok(code)
}

/// That nothing is wrong is said only if all was looked at.
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
