//! What locks cost: `make bench`, or `make bench-quick`.
//!
//! One run measures all contenders side by side, on servers that it starts itself. Costs are instructions of the
//! server, since other work on a machine moves what a clock measures; what only a clock can tell is told as ratios
//! within a round.
//!
//! ```text
//! rlock-bench whole|quick DIRECTORY [PART…]   results go there; parts by words of their names, or all
//! rlock-bench redisson DIRECTORY JAVA…        Redisson itself, by this command line
//! rlock-bench pictures DIRECTORY              draws the pictures again from DIRECTORY/results.json
//! ```
//!
//! `RLOCK_SERVER` and `RLOCK_MODULE` are as for the tests.

mod asked;
mod bars;
mod batch;
mod contenders;
mod counted;
mod crates;
mod environment;
mod figures;
mod flatness;
mod grants;
mod hand_off_costs;
mod hand_offs;
mod idle;
mod instructions;
mod interrupt;
mod line;
mod many_tasks;
mod memory;
mod no_server;
mod one_process;
mod plan;
mod processor;
mod profile;
mod progress;
mod reach;
mod redisson;
mod report;
mod servers;
mod session;
mod several_locks;
mod storms;
mod table;
mod throughput;
mod tickets;
mod turns;
mod waiters;
mod waiting_memory;

use environment::Environment;
use figures::Figures;
use plan::Plan;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

struct Part {
    name: &'static str,
    needs_valgrind: bool,
    measure: fn(&Plan, &mut Figures),
}

const PARTS: [Part; 24] = [
    Part { name: "instructions", needs_valgrind: true, measure: instructions::alone },
    Part { name: "instructions with an AOF file", needs_valgrind: true, measure: instructions::with_aof },
    Part { name: "instructions with a replica", needs_valgrind: true, measure: instructions::with_replica },
    Part { name: "instructions of a permit", needs_valgrind: true, measure: instructions::of_permits },
    Part { name: "instructions of a hand-off", needs_valgrind: true, measure: hand_off_costs::measure },
    Part { name: "a release with many waiters", needs_valgrind: true, measure: flatness::of_waiters },
    Part { name: "a read release with many readers", needs_valgrind: true, measure: flatness::of_readers },
    Part { name: "a read release by those who came last", needs_valgrind: true, measure: flatness::of_last_readers },
    Part { name: "a release with many who want several locks", needs_valgrind: true, measure: flatness::of_sets },
    Part { name: "a cycle with many locks", needs_valgrind: true, measure: flatness::of_locks },
    Part { name: "waits for several locks", needs_valgrind: false, measure: several_locks::measure },
    Part { name: "memory", needs_valgrind: false, measure: memory::measure },
    Part { name: "memory of a waiter", needs_valgrind: false, measure: memory::of_waiters },
    Part { name: "memory of all who wait", needs_valgrind: false, measure: waiting_memory::measure },
    Part { name: "INFO and QUEUES", needs_valgrind: false, measure: asked::measure },
    Part { name: "idle with waiters", needs_valgrind: false, measure: idle::measure },
    Part { name: "thousands at one stroke", needs_valgrind: false, measure: storms::measure },
    Part { name: "the longest turn", needs_valgrind: false, measure: turns::measure },
    Part { name: "pipelined", needs_valgrind: false, measure: throughput::measure },
    Part { name: "hand-offs", needs_valgrind: false, measure: hand_offs::measure },
    Part { name: "hand-offs of permits", needs_valgrind: false, measure: hand_offs::of_permits },
    Part { name: "hand-offs of one process", needs_valgrind: false, measure: one_process::measure },
    Part { name: "crates end to end", needs_valgrind: false, measure: crates::measure },
    Part { name: "1,000 tasks of one process", needs_valgrind: false, measure: many_tasks::measure },
];

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    // Started by another of its kind, which ends it if need be.
    if let [table::WORD, shape, waiters] = words[..] {
        return table::print(shape, waiters).map_or(ExitCode::from(2), |()| ExitCode::SUCCESS);
    }
    interrupt::watch();
    match words[..] {
        ["whole", directory, ref parts @ ..] => compare(&Plan::whole(), Path::new(directory), parts),
        ["quick", directory, ref parts @ ..] => compare(&Plan::quick(), Path::new(directory), parts),
        ["redisson", directory, ref java @ ..] if !java.is_empty() => redisson::compare(Path::new(directory), java),
        ["pictures", directory] => report::draw_again(Path::new(directory)),
        _ => {
            eprintln!(
                "usage: rlock-bench whole|quick DIRECTORY [PART…], rlock-bench redisson DIRECTORY JAVA…, or rlock-bench \
                 pictures DIRECTORY"
            );
            ExitCode::from(2)
        }
    }
}

fn compare(plan: &Plan, directory: &Path, wanted: &[&str]) -> ExitCode {
    let environment = Environment::look();
    let is_wanted = |part: &&Part| wanted.is_empty() || wanted.iter().any(|word| part.name.contains(word));
    let parts: Vec<_> = PARTS.iter().filter(is_wanted).collect();
    let figures = measure_all(&parts, plan, &environment);
    let seconds = progress::end();
    if figures.all.is_empty() {
        eprintln!("bench: nothing could be measured: {}", figures.left_out.join("; "));
        return ExitCode::FAILURE;
    }
    let bars = bars::all(&figures, plan);
    report::Report { figures: &figures, bars: &bars, plan, environment: &environment, seconds }.publish(directory)
}

fn measure_all(parts: &[&Part], plan: &Plan, environment: &Environment) -> Figures {
    let mut figures = Figures::new();
    if environment.valgrind.is_none() {
        eprintln!("bench: valgrind is not there, so instructions are left out; type: scripts/setup.sh bench");
    }
    progress::begin(parts.len());
    for part in parts {
        progress::part(part.name);
        if part.needs_valgrind && environment.valgrind.is_none() {
            figures.left_out.push(format!("{}: valgrind is not there", part.name));
            continue;
        }
        if let Err(reason) = attempt(|| (part.measure)(plan, &mut figures)) {
            figures.left_out.push(format!("{}: {reason}", part.name));
        }
    }
    figures
}

/// What fails takes nothing else with it.
fn attempt(measure: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(measure)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("it failed").lines().next().unwrap_or_default().to_owned()
    })
}
