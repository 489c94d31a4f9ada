//! The figures of a run, for a terminal and for the page of the long runs.

use crate::checker::{Failovers, Verdict};
use crate::faults::{PLANNED, lacks};
use crate::observer::SILENCE;
use crate::worlds::{OTHER_MODULE, Play, Stage, WorldKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The columns of each world, by the names of the figures.
const COLUMNS: [&str; 13] = [
    ROUNDS,
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

const ROUNDS: &str = "rounds";

/// The confidence of a risk's bound.
const CONFIDENCE: f64 = 0.95;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    about: About,
    seeds: BTreeSet<u64>,
    runs: u64,
    seconds: u64,
    /// All rounds of a world in one, without their violations.
    worlds: BTreeMap<String, Verdict>,
}

/// What was tested.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct About {
    /// The server's version.
    server: String,
    /// The commit of the module and of this program.
    build: String,
    /// The build of the module on every second server, if it is another one.
    other: Option<String>,
    /// The planned failovers that the server does not know.
    lacks: Vec<String>,
}

impl RunFigures {
    pub fn of(server: &str, build: &str, seed: u64) -> Self {
        let other = std::env::var_os(OTHER_MODULE).map(|_| std::env::var("RLOCK_OTHER_BUILD").unwrap_or_default());
        let lacks = lacks().into_iter().map(str::to_owned).collect();
        let about = About { server: server.to_owned(), build: build.to_owned(), other, lacks };
        Self { about, seeds: [seed].into(), runs: 1, ..Self::default() }
    }

    pub fn add(&mut self, stage: Stage, verdict: &Verdict) {
        let world = self.worlds.entry(stage.name()).or_default();
        world.join(Verdict { violations: Vec::new(), ..verdict.clone() });
        world.figures.add(ROUNDS, 1);
        world.figures.add("violations", verdict.violations.len() as u64);
    }

    pub fn took(&mut self, time: Duration) {
        self.seconds = time.as_secs();
    }

    /// How many failovers with exposed locks there were in that world.
    pub fn exposed(&self, stage: Stage) -> u64 {
        self.worlds.get(&stage.name()).map_or(0, |world| not_planned(world).exposed)
    }

    /// Whether that world had as many failovers as wanted, and two holders of a lock where nothing prevents that. Otherwise
    /// the run shows nothing about the protection.
    pub fn shows(&self, stage: Stage, wanted: u64) -> bool {
        let count = self.worlds.get(&stage.name()).map(not_planned).unwrap_or_default();
        let shows = count.exposed >= wanted && (stage.play != Play::Unprotected || count.doubled > 0);
        if !shows {
            println!(
                "{} shows nothing: {count:?}, and {wanted} failovers with exposed locks were wanted",
                stage.name()
            );
        }
        shows
    }

    /// Appends this run to a file, without the figures that no page shows.
    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let mut kept = self.clone();
        kept.worlds.values_mut().for_each(|world| world.figures.keep(&COLUMNS));
        let mut line = serde_json::to_vec(&kept)?;
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }

    fn join(&mut self, other: Self) {
        self.seeds.extend(other.seeds);
        self.runs += other.runs;
        self.seconds += other.seconds;
        for (name, world) in other.worlds {
            self.worlds.entry(name).or_default().join(world);
        }
    }
}

impl Display for RunFigures {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n{}, seeds {:?}, {} s", self.about.server, self.seeds, self.seconds)?;
        write_worlds(out, &self.worlds)?;
        write_failovers(out, std::slice::from_ref(self))
    }
}

/// All runs of these files, each on a line. Runs of one server and build become one.
///
/// # Errors
/// If one cannot be read.
pub fn joined(files: &[PathBuf]) -> io::Result<String> {
    let mut text = String::new();
    for run in read(files)? {
        text += &serde_json::to_string(&run)?;
        text.push('\n');
    }
    Ok(text)
}

/// All runs of these files as a page.
///
/// # Errors
/// If one cannot be read.
pub fn page(files: &[PathBuf]) -> io::Result<String> {
    let mut text = String::new();
    let _ = write_page(&mut text, &read(files)?);
    Ok(text)
}

fn read(files: &[PathBuf]) -> io::Result<Vec<RunFigures>> {
    let mut runs: BTreeMap<About, RunFigures> = BTreeMap::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            let run: RunFigures = serde_json::from_str(line)?;
            let about = run.about.clone();
            runs.entry(about.clone()).or_insert_with(|| RunFigures { about, ..RunFigures::default() }).join(run);
        }
    }
    Ok(runs.into_values().collect())
}

const HEAD: &str = "\
# Figures of the last long run

Written by `make chaos-long` out of [figures.jsonl](figures.jsonl), which its runs have left; not by hand. What the words mean:
[How it was tested](../proof.md).
";

fn write_page(out: &mut impl fmt::Write, runs: &[RunFigures]) -> fmt::Result {
    let hours = runs.iter().map(|run| run.seconds).sum::<u64>() as f64 / 3_600.0;
    let (mut by_server, mut worlds) = (BTreeMap::new(), BTreeMap::<String, Verdict>::new());
    for run in runs {
        let server: &mut Verdict = by_server.entry(run.about.server.clone()).or_default();
        for (name, world) in &run.worlds {
            server.join(world.clone());
            worlds.entry(name.clone()).or_default().join(world.clone());
        }
    }
    let seeds: BTreeSet<_> = runs.iter().flat_map(|run| &run.seeds).collect();
    let builds: BTreeSet<_> = runs.iter().map(|run| run.about.build.as_str()).collect();
    let others: BTreeSet<_> = runs.iter().filter_map(|run| run.about.other.as_deref()).collect();
    let count: u64 = runs.iter().map(|run| run.runs).sum();
    writeln!(out, "{HEAD}\n{count} runs, {hours:.1} hours of servers in all, with the seeds {seeds:?}.")?;
    writeln!(out, "The module's commit: {}.", Vec::from_iter(builds).join(", "))?;
    if !others.is_empty() {
        writeln!(
            out,
            "Where there are two builds, every other server has that of {}.",
            Vec::from_iter(others).join(", ")
        )?;
    }
    write_failovers(out, runs)?;
    write_lacks(out, runs)?;
    writeln!(out, "\n## All runs, by server\n")?;
    write_worlds(out, &by_server)?;
    writeln!(out, "\n## All runs, by world\n")?;
    write_worlds(out, &worlds)?;
    write_ends(out, &worlds)
}

/// What no promise excludes, in each world: how often it happened, and in how many cases it could have.
fn write_ends(out: &mut impl fmt::Write, worlds: &BTreeMap<String, Verdict>) -> fmt::Result {
    let kinds: BTreeSet<_> = worlds.values().flat_map(|world| world.counted.keys()).collect();
    writeln!(out, "\n## Where a promise ends\n")?;
    let heads = kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
    writeln!(out, "| | {} |\n|---|{}", heads.join(" | "), "---|".repeat(kinds.len()))?;
    for (name, world) in worlds {
        let cell = |(times, of): &(u64, u64)| format!("{times} of {of}");
        let cells = kinds.iter().map(|kind| world.counted.get(*kind).map_or_else(|| "–".to_owned(), cell));
        writeln!(out, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

fn write_failovers(out: &mut impl fmt::Write, runs: &[RunFigures]) -> fmt::Result {
    const COLUMNS: &str =
        "failovers | with exposed locks | with two holders | that is | exposed locks | with two holders | that is";
    let mut rows = Vec::new();
    let mut kinds: BTreeMap<String, [Failovers; 2]> = BTreeMap::new();
    for kind in WorldKind::WITH_REPLICAS {
        for (play, word) in [(Play::Unprotected, "unprotected"), (Play::Protected, "protected")] {
            for (has_two, builds) in [(false, ""), (true, ", two builds")] {
                let name = Stage { kind, play }.name();
                let of_these = runs.iter().filter(|run| run.about.other.is_some() == has_two);
                let worlds: Vec<_> = of_these.filter_map(|run| run.worlds.get(&name)).collect();
                let mut sum = Failovers::default();
                worlds.iter().for_each(|world| sum += not_planned(world));
                if sum.all > 0 {
                    rows.push((format!("{}, {word}{builds}", place(kind)), sum));
                }
                for (by, failovers) in worlds.iter().flat_map(|world| &world.failovers) {
                    let [protected, unprotected] = kinds.entry(format!("{}: {by}", place(kind))).or_default();
                    *(if play == Play::Protected { protected } else { unprotected }) += *failovers;
                }
            }
        }
    }
    if kinds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Failovers, by topology\n")?;
    writeln!(out, "Without those that are planned. A bound is one of {:.0} %.\n", CONFIDENCE * 100.0)?;
    writeln!(out, "| | {COLUMNS} |\n|---|{}", "---|".repeat(7))?;
    for (name, it) in rows {
        let Failovers { all, exposed, locks, doubled, locks_doubled } = it;
        let [of_failovers, of_locks] = [(doubled, exposed), (locks_doubled, locks)].map(|(times, of)| risk(times, of));
        writeln!(
            out,
            "| {name} | {all} | {exposed} | {doubled} | {of_failovers} | {locks} | {locks_doubled} | {of_locks} |"
        )?;
    }
    writeln!(out, "\n## Failovers, by kind\n")?;
    writeln!(out, "In each cell: failovers, exposed locks, of these with two holders.\n")?;
    writeln!(out, "| | protected | unprotected |\n|---|---|---|")?;
    for (name, [protected, unprotected]) in kinds {
        let cell = |it: Failovers| format!("{}, {}, {}", it.all, it.locks, it.locks_doubled);
        writeln!(out, "| {name} | {} | {} |", cell(protected), cell(unprotected))?;
    }
    Ok(())
}

fn write_lacks(out: &mut impl fmt::Write, runs: &[RunFigures]) -> fmt::Result {
    for name in PLANNED {
        let lacks = |run: &&RunFigures| run.about.lacks.iter().any(|it| it == name);
        let servers: BTreeSet<_> = runs.iter().filter(lacks).map(|run| run.about.server.as_str()).collect();
        if !servers.is_empty() {
            writeln!(out, "\n{name} is not known to {}.", Vec::from_iter(servers).join(", "))?;
        }
    }
    Ok(())
}

fn place(kind: WorldKind) -> &'static str {
    match kind {
        WorldKind::Sentinel => "sentinels",
        WorldKind::Cluster => "cluster",
        _ => "by hand",
    }
}

fn not_planned(world: &Verdict) -> Failovers {
    let mut sum = Failovers::default();
    let not_planned = world.failovers.iter().filter(|(by, _)| !PLANNED.contains(&by.as_str()));
    not_planned.for_each(|(_, failovers)| sum += *failovers);
    sum
}

/// The frequency; or its upper bound, if it never happened.
fn risk(times: u64, of: u64) -> String {
    match (times, of) {
        (_, 0) => "–".to_owned(),
        (0, _) => format!("at most {:.2} %", (1.0 - (1.0 - CONFIDENCE).powf(1.0 / of as f64)) * 100.0),
        _ => format!("{:.0} %", times as f64 / of as f64 * 100.0),
    }
}

fn write_worlds(out: &mut impl fmt::Write, rows: &BTreeMap<String, Verdict>) -> fmt::Result {
    writeln!(out, "| | {} |\n|---|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()))?;
    for (name, row) in rows {
        let cells = COLUMNS.map(|column| row.figures.of(column).to_string());
        writeln!(out, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_risk_falls_with_the_number_of_tries() {
        assert_eq!(risk(0, 59), "at most 4.95 %");
        assert_eq!(risk(0, 15), "at most 18.10 %");
        assert_eq!((risk(3, 4), risk(0, 0)), ("75 %".to_owned(), "–".to_owned()));
    }

    #[test]
    fn what_was_never_doubled_unprotected_shows_nothing() {
        let unprotected = Stage { kind: WorldKind::Sentinel, play: Play::Unprotected };
        let protected = Stage { play: Play::Protected, ..unprotected };
        let run = |stage: Stage, by: &str, exposed, doubled| {
            let count = Failovers { all: 5, exposed, locks: exposed, doubled, locks_doubled: doubled };
            let verdict = Verdict { failovers: [(by.to_owned(), count)].into(), ..Verdict::default() };
            let mut run = RunFigures::default();
            run.add(stage, &verdict);
            run.shows(stage, 3)
        };
        assert!(run(unprotected, "killed", 3, 1));
        assert!(!run(unprotected, "killed", 3, 0));
        assert!(run(protected, "killed", 3, 0));
        assert!(!run(protected, "killed", 2, 0), "too few");
        assert!(!run(protected, PLANNED[0], 3, 0), "nothing is lost in these");
    }

    #[test]
    fn runs_of_one_server_are_joined_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let stage = Stage { kind: WorldKind::Cluster, play: Play::Protected };
        let path = directory.path().join("runs");
        for seed in [3, 4] {
            let count = Failovers { all: 2, exposed: 1, locks: 30, ..Failovers::default() };
            let verdict = Verdict { failovers: [("killed".to_owned(), count)].into(), ..Verdict::default() };
            let mut run = RunFigures { seeds: [seed].into(), runs: 1, seconds: 1_800, ..RunFigures::default() };
            run.add(stage, &verdict);
            run.append_to(&path).unwrap();
        }
        let once = joined(std::slice::from_ref(&path)).unwrap();
        assert_eq!(once.lines().count(), 1);
        let shown = page(std::slice::from_ref(&path)).unwrap();
        assert!(shown.contains("2 runs, 1.0 hours of servers in all, with the seeds {3, 4}."), "{shown}");
        assert!(
            shown.contains("| cluster, protected | 4 | 2 | 0 | at most 77.64 % | 60 | 0 | at most 4.87 % |"),
            "{shown}"
        );
        std::fs::write(&path, once).unwrap();
        assert_eq!(page(&[path]).unwrap(), shown);
    }
}
