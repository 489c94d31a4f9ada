//! What a run has come to in numbers, for a terminal and for the page of the long runs.

use crate::checker::{Counted, Figures, Verdict};
use crate::history::Record;
use crate::worlds::WorldKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the observer calls the time in which a server gave no answer.
const SILENCE: &str = "longest silence of a server";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFigures {
    /// What the server says of itself.
    server: String,
    seed: u64,
    seconds: f64,
    worlds: BTreeMap<String, WorldFigures>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct WorldFigures {
    rounds: u64,
    violations: usize,
    sums: Figures,
    counted: Vec<Counted>,
    /// In ms, our own faults included.
    longest_silence: f64,
}

impl RunFigures {
    pub fn of(server: &str, seed: u64) -> Self {
        Self { server: server.to_owned(), seed, ..Self::default() }
    }

    pub fn took(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
    }

    pub fn add(&mut self, kind: WorldKind, records: &[Record], verdict: &Verdict) {
        let silences = records.iter().filter_map(|record| match record {
            Record::Measured { what, value, .. } if what.starts_with(SILENCE) => Some(*value),
            _ => None,
        });
        self.worlds.entry(kind.name().to_owned()).or_default().add(&WorldFigures {
            rounds: 1,
            violations: verdict.violations.len(),
            sums: verdict.figures.clone(),
            counted: verdict.counted.clone(),
            longest_silence: silences.fold(0.0, f64::max),
        });
    }

    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }
}

impl WorldFigures {
    fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.violations += other.violations;
        self.longest_silence = self.longest_silence.max(other.longest_silence);
        self.sums.add(&other.sums);
        for counted in &other.counted {
            match self.counted.iter_mut().find(|it| it.what == counted.what) {
                Some(known) => {
                    known.times += counted.times;
                    known.of += counted.of;
                }
                None => self.counted.push(counted.clone()),
            }
        }
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
    let (mut by_server, mut worlds) = (BTreeMap::new(), BTreeMap::<String, WorldFigures>::new());
    for run in runs {
        let server: &mut WorldFigures = by_server.entry(run.server.clone()).or_default();
        for (name, figures) in &run.worlds {
            server.add(figures);
            worlds.entry(name.clone()).or_default().add(figures);
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
    writeln!(out, "\nWhere a promise ends:\n\n| world | what | times | of |\n|---|---|---|---|")?;
    for (name, figures) in &worlds {
        for counted in &figures.counted {
            writeln!(out, "| {name} | {} | {} | {} |", counted.what, counted.times, counted.of)?;
        }
    }
    Ok(())
}

fn write_worlds(out: &mut impl fmt::Write, rows: &BTreeMap<String, WorldFigures>) -> fmt::Result {
    writeln!(
        out,
        "| | rounds | operations | grants | after a wait | unknown | faults | held against the model | undecided | \
         longest at a free lock | longest silence | violations |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for (name, row) in rows {
        let sums = &row.sums;
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} ms | {:.0} ms | {} |",
            row.rounds,
            sums.operations,
            sums.grants,
            sums.waited_grants,
            sums.unknown,
            sums.troubles,
            sums.lin_checked_operations,
            sums.lin_undecided_locks,
            sums.longest_free_with_waiter.as_millis(),
            row.longest_silence,
            row.violations,
        )?;
    }
    Ok(())
}
