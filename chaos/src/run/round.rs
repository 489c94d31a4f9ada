//! One round: clients are started, faults happen, everything is healed, and what was recorded is judged.

use crate::checker::{Promise, Verdict, Violation, check};
use crate::faults::{self, Crews, Scene};
use crate::history::{Journal, Moment, Record, read_all};
use crate::observer::Observer;
use crate::plan::{Plan, fleet};
use crate::story::story;
use crate::worlds::{Stage, World};
use rlock_testing::Random;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often the locks are looked at; rarely where failovers are played alone, as these are judged by what clients say.
const LOOKS: Duration = Duration::from_millis(20);
const RARE_LOOKS: Duration = Duration::from_millis(200);

/// What clients may take to bring to an end what they have begun.
const TO_FINISH: Duration = Duration::from_secs(15);

/// Of so many violations the story is told. Usually all have one cause.
const STORIES: usize = 5;

/// The clients of other languages: `name=command` and so on, divided by semicolons.
const ADAPTERS: &str = "RLOCK_ADAPTERS";

const SHOWS_SOMETHING: &str = "A round shows something.";

/// What came of a round.
pub struct Played {
    pub records: Vec<Record>,
    pub verdict: Verdict,
}

pub fn play(world: &mut World, length: Duration, directory: &Path, random: &mut Random) -> io::Result<Played> {
    let journal = &Journal::open(directory, "run")?;
    let makeup = world.makeup();
    let seed = random.draw();
    let crews = fleet(&makeup, random);
    let adapters = (0..crews.len()).map(adapter_of).collect();
    let plan = Plan {
        seed,
        directory: directory.to_owned(),
        address: world.address(),
        length_ms: length.as_millis().try_into().expect("a few seconds"),
        crews,
        adapters,
    };
    let file = directory.join("plan.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&plan)?)?;
    let clients = plan.crews.iter().flatten().count() as u64;
    let longest_lease = plan.crews.iter().flatten().map(|client| client.habits.lease_ms).max().unwrap_or_default();

    let looks = if world.play.is_failovers_alone() { RARE_LOOKS } else { LOOKS };
    let observer = Observer::start(journal, world.sockets(), &world.watched, &makeup.popular(), looks);
    let mut crews = start_crews(&file, plan.crews.len())?;
    let stage = Stage { kind: world.kind, play: world.play };
    let schedule = faults::schedule(stage, random, length);
    let mut scene = Scene { world, crews: &mut crews, journal, random: Random::from(seed) };
    if let Err(why) = faults::play(schedule, length, &mut scene) {
        journal.broken("servers are well once nobody troubles them", why);
    }
    crews.wait_for_all(TO_FINISH, journal);
    world.check_drained(journal, Duration::from_millis(longest_lease));
    faults::tell_changes(world, journal);
    if observer.stop() == 0 {
        journal.broken(SHOWS_SOMETHING, "nobody has seen a lock");
    }
    let records = read_all(directory)?;
    let mut verdict = check(&records);
    verdict.violations.extend(nothing_happened(&verdict, clients));
    Ok(Played { records, verdict })
}

/// The command by which the guards of this crew come, if they are not of `rlock-client`: each language in turn.
fn adapter_of(crew: usize) -> String {
    let adapters = std::env::var(ADAPTERS).unwrap_or_default();
    let commands = adapters.split(';').filter_map(|adapter| adapter.split_once('=')).map(|(_, command)| command);
    let all: Vec<_> = std::iter::once("").chain(commands).collect();
    all[crew % all.len()].trim().to_owned()
}

/// A round in which clients get nowhere keeps all promises and shows nothing.
fn nothing_happened(verdict: &Verdict, clients: u64) -> Option<Violation> {
    let grants = verdict.figures.of("grants");
    let what = format!("{grants} grants to {clients} clients");
    (grants * 10 < clients).then(|| Violation::told(Promise::of(SHOWS_SOMETHING), Moment::now(), what))
}

/// This program once more for each crew, so that a crew can be stopped and killed.
fn start_crews(plan: &Path, count: usize) -> io::Result<Crews> {
    let program = std::env::current_exe()?;
    Crews::start((0..count).map(|crew| {
        let mut command = Command::new(&program);
        command.arg("work").arg(plan).arg(crew.to_string());
        command
    }))
}

/// A file with what led to the first violations.
pub fn write_stories(directory: &Path, records: &[Record], verdict: &Verdict) -> io::Result<PathBuf> {
    let mut text = format!("{verdict}\n");
    for violation in verdict.violations.iter().take(STORIES) {
        let _ = writeln!(text, "\n{}", story(records, violation));
    }
    let path = directory.join("story.txt");
    std::fs::write(&path, text)?;
    Ok(path)
}
