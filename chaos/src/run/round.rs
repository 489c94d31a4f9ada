//! One round: clients start, faults happen, everything is healed, and the history is judged.

use crate::checker::{Promise, Verdict, Violation, check};
use crate::excerpt::excerpt;
use crate::faults::{self, ProcessGroups, Scene};
use crate::history::{Journal, Moment, Record, read_all};
use crate::observer::Observer;
use crate::plan::{Plan, fleet};
use crate::worlds::{Stage, World};
use rlock_testing::Random;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often the locks are sampled; rarely if failovers are played alone, as these are judged by what clients report.
const LOOKS: Duration = Duration::from_millis(20);
const RARE_LOOKS: Duration = Duration::from_millis(200);

/// How long clients may take to finish what they have begun.
const TO_FINISH: Duration = Duration::from_secs(15);

/// How many violations get an excerpt. Usually all have one cause.
const EXCERPTS: usize = 5;

/// The clients of other languages: `name=command` and so on, divided by semicolons.
const ADAPTERS: &str = "RLOCK_ADAPTERS";

const SHOWS_SOMETHING: &str = "A round shows something.";

/// The result of a round.
pub struct Played {
    pub records: Vec<Record>,
    pub verdict: Verdict,
}

pub fn play(world: &mut World, length: Duration, directory: &Path, random: &mut Random) -> io::Result<Played> {
    let journal = &Journal::open(directory, "run")?;
    let makeup = world.makeup();
    let seed = random.draw();
    let groups = fleet(&makeup, random);
    let adapters = (0..groups.len()).map(adapter_of).collect();
    let plan = Plan {
        seed,
        directory: directory.to_owned(),
        address: world.address(),
        length_ms: length.as_millis().try_into().expect("a few seconds"),
        groups,
        adapters,
    };
    let file = directory.join("plan.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&plan)?)?;
    let clients = plan.groups.iter().flatten().count() as u64;
    let longest_lease = plan.groups.iter().flatten().map(|client| client.habits.lease_ms).max().unwrap_or_default();

    let looks = if world.play.is_failovers_alone() { RARE_LOOKS } else { LOOKS };
    let observer = Observer::start(journal, world.sockets(), &world.watched, &makeup.popular(), looks);
    let mut groups = start_groups(&file, plan.groups.len())?;
    let stage = Stage { kind: world.kind, play: world.play };
    let schedule = faults::schedule(stage, random, length);
    let mut scene = Scene { world, groups: &mut groups, journal, random: Random::from(seed) };
    if let Err(why) = faults::play(schedule, length, &mut scene) {
        journal.broken("servers recover when all faults are over", why);
    }
    groups.wait_for_all(TO_FINISH, journal);
    world.check_drained(journal, Duration::from_millis(longest_lease));
    faults::record_changes(world, journal);
    if observer.stop() == 0 {
        journal.broken(SHOWS_SOMETHING, "no sample shows a lock");
    }
    let records = read_all(directory)?;
    let mut verdict = check(&records);
    verdict.violations.extend(nothing_happened(&verdict, clients));
    Ok(Played { records, verdict })
}

/// The adapter command of this group, for clients other than `rlock-client`: each language in turn.
fn adapter_of(group: usize) -> String {
    let adapters = std::env::var(ADAPTERS).unwrap_or_default();
    let commands = adapters.split(';').filter_map(|adapter| adapter.split_once('=')).map(|(_, command)| command);
    let all: Vec<_> = std::iter::once("").chain(commands).collect();
    all[group % all.len()].trim().to_owned()
}

/// A round without progress of its clients keeps all promises and shows nothing.
fn nothing_happened(verdict: &Verdict, clients: u64) -> Option<Violation> {
    let grants = verdict.figures.of("grants");
    let what = format!("{grants} grants to {clients} clients");
    (grants * 10 < clients).then(|| Violation::without_lock(Promise::of(SHOWS_SOMETHING), Moment::now(), what))
}

/// Starts this program again for each group, so that a group can be stopped and killed.
fn start_groups(plan: &Path, count: usize) -> io::Result<ProcessGroups> {
    let program = std::env::current_exe()?;
    ProcessGroups::start((0..count).map(|group| {
        let mut command = Command::new(&program);
        command.arg("work").arg(plan).arg(group.to_string());
        command
    }))
}

/// Writes a file with the records around the first violations.
pub fn write_excerpts(directory: &Path, records: &[Record], verdict: &Verdict) -> io::Result<PathBuf> {
    let mut text = format!("{verdict}\n");
    for violation in verdict.violations.iter().take(EXCERPTS) {
        let _ = writeln!(text, "\n{}", excerpt(records, violation));
    }
    let path = directory.join("excerpts.txt");
    std::fs::write(&path, text)?;
    Ok(path)
}
