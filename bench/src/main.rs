//! What locks cost: `make bench`, or `make bench-quick`.
//!
//! One run measures all contenders side by side, on servers that it starts itself. Costs are instructions of the server,
//! since other work on a machine moves what a clock measures; what only a clock can measure is compared within a round.
//!
//! ```text
//! rlock-bench whole|quick DIRECTORY [PART…]   writes results.md and its picture there, of these parts or of all
//! rlock-bench soak DIRECTORY NAME HOURS       load on one server; its samples go to NAME.tsv there
//! rlock-bench soak-page DIRECTORY TO          writes soak.md and its picture, of the runs in the directory
//! ```
//!
//! `RLOCK_SERVER` and `RLOCK_MODULE` are as for the tests.

mod batch;
mod busy;
mod by_clock;
mod circle;
mod contenders;
mod counted;
mod cycle;
mod environment;
mod figures;
mod grants;
mod hand_over;
mod line;
mod many_tasks;
mod memory;
mod once;
mod one_process;
mod permits;
mod picture;
mod plan;
mod renew;
mod report;
mod row;
mod servers;
mod session;
mod sets;
mod soak;

use environment::Environment;
use figures::Figures;
use plan::Plan;
use report::Report;
use row::Row;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub struct Part {
    pub name: &'static str,
    /// How it is measured, for the page.
    pub how: &'static str,
    pub measure: fn(&Plan, &mut Figures),
    pub rows: fn(&Plan) -> Vec<Row>,
}

const PARTS: [Part; 10] = [
    cycle::PART,
    busy::PART,
    renew::PART,
    hand_over::PART,
    memory::PART,
    one_process::PART,
    many_tasks::PART,
    sets::PART,
    permits::PART,
    once::PART,
];

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["whole", directory, ref parts @ ..] => run(&Plan::whole(), Path::new(directory), parts),
        ["quick", directory, ref parts @ ..] => run(&Plan::quick(), Path::new(directory), parts),
        ["soak", directory, name, hours] => soak::measure(Path::new(directory), name, hours, false),
        ["soak", directory, name, hours, "leak"] => soak::measure(Path::new(directory), name, hours, true),
        ["soak-page", directory, to] => soak::publish(Path::new(directory), Path::new(to)),
        _ => {
            eprintln!(
                "usage: rlock-bench whole|quick DIRECTORY [PART…] | soak DIRECTORY NAME HOURS [leak] | soak-page DIRECTORY TO"
            );
            ExitCode::from(2)
        }
    }
}

fn run(plan: &Plan, directory: &Path, wanted: &[&str]) -> ExitCode {
    let (environment, start) = (Environment::look(), Instant::now());
    let is_wanted = |part: &&Part| wanted.is_empty() || wanted.contains(&part.name);
    let parts: Vec<_> = PARTS.iter().filter(is_wanted).collect();
    let mut figures = Figures::default();
    for (number, part) in parts.iter().enumerate() {
        eprintln!("bench: {} s: part {} of {}: {}", start.elapsed().as_secs(), number + 1, parts.len(), part.name);
        if let Err(reason) = attempt(|| (part.measure)(plan, &mut figures)) {
            figures.left_out.push(format!("{}: {reason}", part.name));
        }
    }
    if figures.is_empty() {
        eprintln!("bench: nothing could be measured: {}", figures.left_out.join("; "));
        return ExitCode::FAILURE;
    }
    let seconds = start.elapsed().as_secs();
    Report { figures: &figures, parts: &parts, plan, environment: &environment, seconds }.publish(directory)
}

/// A part that fails does not stop the other parts.
fn attempt(measure: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(measure)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("it failed").lines().next().unwrap_or_default().to_owned()
    })
}
