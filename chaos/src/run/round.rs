//! One round: clients are started, faults happen, everything is healed, and what was recorded is judged.

use crate::checker::{Verdict, check};
use crate::faults::{self, Crews};
use crate::history::{Journal, Record, read_all};
use crate::observer::Observer;
use crate::plan::{Plan, fleet};
use crate::random::Random;
use crate::story;
use crate::worlds::World;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the locks are looked at.
const LOOKS: Duration = Duration::from_millis(20);

/// What clients may take to bring to an end what they have begun.
const TO_FINISH: Duration = Duration::from_secs(15);

/// Of so many violations the story is told. Usually all have one cause.
const STORIES: usize = 5;

pub fn play(
    world: &mut World,
    length: Duration,
    directory: &Path,
    journal: &Journal,
    random: &mut Random,
) -> io::Result<(Vec<Record>, Verdict)> {
    let makeup = world.makeup();
    let plan = Plan {
        seed: random.next(),
        directory: directory.to_owned(),
        address: world.address(),
        length_ms: length.as_millis().try_into().expect("a few seconds"),
        crews: fleet(&makeup, random),
    };
    let file = directory.join("plan.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&plan)?)?;
    let longest_lease = plan.crews.iter().flatten().map(|client| client.habits.lease_ms).max().unwrap_or_default();

    let hot = (0..makeup.hot).map(|number| format!("hot:{number}")).collect();
    let observer = Observer::start(journal.clone(), world.observed(), hot, LOOKS);
    let mut crews = Crews::start(&file, plan.crews.len())?;
    faults::play(faults::schedule(world.kind(), length, random), world, &mut crews, journal, random);
    world.calm(journal);
    crews.finish(TO_FINISH, journal);
    world.check_drained(journal, Duration::from_millis(longest_lease));
    observer.stop();
    let records = read_all(directory)?;
    let verdict = check(&records);
    Ok((records, verdict))
}

/// A file with what led to the first violations.
pub fn write_stories(directory: &Path, records: &[Record], verdict: &Verdict) -> io::Result<PathBuf> {
    let mut text = format!("{verdict}\n");
    for violation in verdict.violations.iter().take(STORIES) {
        let _ = writeln!(text, "\n== {}: {}\n{}", violation.promise, violation.what, story::of(records, violation));
    }
    let path = directory.join("story.txt");
    std::fs::write(&path, text)?;
    Ok(path)
}
