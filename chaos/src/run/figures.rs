//! What a run has come to in numbers, for a terminal and for the page of the long runs.

use crate::checker::Verdict;
use crate::observer::SILENCE;
use crate::worlds::{Play, Stage, WorldKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is shown of each world, by the names of the figures.
const COLUMNS: [&str; 13] = [
    "rounds",
    "operations",
    "grants",
    "after a wait",
    "permits certain",
    "grants of one of several",
    "answers stored",
    "answers got",
    "unknown",
    "faults",
    "longest wait at a free lock, ms",
    SILENCE,
    "violations",
];

const SECONDS: &str = "seconds of clients at work";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFigures {
    /// What the server says of itself.
    server: String,
    seed: u64,
    pub seconds: f64,
    /// All rounds of a world in one, without what was broken in them.
    worlds: BTreeMap<String, Verdict>,
}

impl RunFigures {
    pub fn of(server: &str, seed: u64) -> Self {
        Self { server: server.to_owned(), seed, ..Self::default() }
    }

    pub fn add(&mut self, stage: Stage, length: Duration, verdict: &Verdict) {
        let world = self.worlds.entry(stage.name()).or_default();
        world.join(Verdict { violations: Vec::new(), ..verdict.clone() });
        world.figures.add("rounds", 1);
        world.figures.add(SECONDS, length.as_secs());
        world.figures.add("violations", verdict.violations.len() as u64);
    }

    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }
}

impl Display for RunFigures {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n{}, seed {}, {:.0} s", self.server, self.seed, self.seconds)?;
        write_worlds(out, &self.worlds)
    }
}

/// All runs of these files as a page.
///
/// # Errors
/// If one cannot be read.
pub fn page(files: &[PathBuf]) -> io::Result<String> {
    let mut runs: Vec<RunFigures> = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            runs.push(serde_json::from_str(line)?);
        }
    }
    let mut text = String::new();
    let _ = write_page(&mut text, &runs);
    Ok(text)
}

fn write_page(out: &mut impl fmt::Write, runs: &[RunFigures]) -> fmt::Result {
    let hours = runs.iter().map(|run| run.seconds).sum::<f64>() / 3_600.0;
    let (mut by_server, mut worlds) = (BTreeMap::new(), BTreeMap::<String, Verdict>::new());
    for run in runs {
        let server: &mut Verdict = by_server.entry(run.server.clone()).or_default();
        for (name, world) in &run.worlds {
            server.join(world.clone());
            worlds.entry(name.clone()).or_default().join(world.clone());
        }
    }
    let mut seeds: Vec<_> = runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    writeln!(out, "{} runs, {hours:.1} hours in all, with the seeds {seeds:?}.\n", runs.len())?;
    writeln!(out, "By server:\n")?;
    write_worlds(out, &by_server)?;
    writeln!(out, "\nBy world:\n")?;
    write_worlds(out, &worlds)?;
    write_failovers(out, &worlds)?;
    writeln!(out, "\nWhere a promise ends:\n\n| world | what | times | of |\n|---|---|---|---|")?;
    for (name, world) in &worlds {
        for (what, (times, of)) in &world.counted {
            writeln!(out, "| {name} | {what} | {times} | {of} |")?;
        }
    }
    Ok(())
}

/// In two columns: without the protection, and with it.
fn write_failovers(out: &mut impl fmt::Write, worlds: &BTreeMap<String, Verdict>) -> fmt::Result {
    writeln!(out, "\nFailovers alone, to a replica that lacks what was granted last:\n")?;
    let columns = "| | failovers | held twice, unprotected | per minute | failovers | held twice, protected |";
    writeln!(out, "{columns}\n|---|---|---|---|---|---|")?;
    for kind in WorldKind::WITH_REPLICAS {
        let [unprotected, protected] = [Play::Unprotected, Play::Protected]
            .map(|play| worlds.get(&Stage { kind, play }.name()).cloned().unwrap_or_default());
        let [failovers, as_many] = [&unprotected, &protected].map(|world| world.figures.of("rounds"));
        let [twice, never] = [&unprotected, &protected].map(Verdict::held_twice);
        let per_minute = twice * 60 / unprotected.figures.of(SECONDS).max(1);
        let name = Stage { kind, play: Play::Everything }.name();
        writeln!(out, "| {name} | {failovers} | {twice} | {per_minute} | {as_many} | {never} |")?;
    }
    Ok(())
}

fn write_worlds(out: &mut impl fmt::Write, rows: &BTreeMap<String, Verdict>) -> fmt::Result {
    writeln!(out, "| | {} |\n|---|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()))?;
    for (name, row) in rows {
        let cells = COLUMNS.map(|column| row.figures.of(column).to_string());
        writeln!(out, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}
