//! A run: rounds of clients and faults on one world after another, each judged by itself.
//!
//! A world's servers live through all of its rounds, so that whatever a server never frees shows in its memory.

mod figures;
mod memory;
mod round;

pub use figures::{RunFigures, joined, page};

use crate::arguments::Options;
use crate::checker::Verdict;
use crate::worlds::{Stage, World};
use memory::Memory;
use rlock_testing::{Random, ServerVersion};
use round::Played;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a round takes in addition to its length: starting servers, waiting for leases, judging the history.
const AROUND: Duration = Duration::from_secs(5);

/// Whether every promise was kept.
///
/// # Errors
/// If the histories cannot be written or read.
pub fn run(options: &Options) -> io::Result<bool> {
    let began = Instant::now();
    let mut figures = RunFigures::of(&ServerVersion::under_test().to_string(), &options.build, options.seed);
    let mut are_kept = true;
    let count = u32::try_from(options.worlds.len()).expect("a few");
    for (place, stage) in (0..).zip(&options.worlds) {
        // The next worlds share the remaining time.
        let left = Duration::from_secs(options.seconds).saturating_sub(began.elapsed()) / (count - place);
        are_kept &= play(*stage, Instant::now() + left, options, &mut figures)?;
        if !are_kept && options.until_violation {
            break;
        }
    }
    figures.took(began.elapsed());
    println!("{figures}");
    figures.append_to(&options.directory.join("figures.jsonl"))?;
    Ok(are_kept)
}

/// The rounds of one world. A run that is too short for one round of each world takes longer than its limit.
fn play(stage: Stage, until: Instant, options: &Options, figures: &mut RunFigures) -> io::Result<bool> {
    let mut random = Random::from(options.seed.wrapping_mul(31).wrapping_add(stage.kind as u64));
    let (shortest, longest) = stage.play.round();
    let base = options.directory.join(format!("seed-{}", options.seed)).join(stage.name());
    let mut world: Option<World> = None;
    let mut memory = Memory::default();
    let mut are_kept = true;
    for number in 1.. {
        let left = match options.failovers {
            None => until.saturating_duration_since(Instant::now()),
            Some(wanted) => {
                let more = u32::try_from(wanted.saturating_sub(figures.exposed(stage))).unwrap_or(u32::MAX);
                stage.play.each_failover().unwrap_or(longest).saturating_mul(more) + AROUND
            }
        };
        let is_enough = match options.failovers {
            None => left < shortest + AROUND,
            Some(wanted) => figures.exposed(stage) >= wanted || number > 2 + wanted,
        };
        if number > 1 && is_enough {
            break;
        }
        let directory = empty(&base.join(format!("round-{number}")))?;
        let world = world.get_or_insert_with(|| World::start(stage, &base));
        let length = left.saturating_sub(AROUND).clamp(shortest, longest);
        let played = round::play(world, length, &directory, &mut random)?;
        let Played { records, mut verdict } = played;
        verdict.violations.extend(memory.after_round(&records));
        figures.add(stage, &verdict);
        let is_kept = verdict.violations.is_empty();
        print_round(&format!("{} {number}", stage.name()), &verdict);
        if is_kept && !options.keeps {
            std::fs::remove_dir_all(&directory)?;
        } else if !is_kept {
            let excerpt = round::write_excerpts(&directory, &records, &verdict)?;
            println!("  the history: {}; the excerpt: {}", directory.display(), excerpt.display());
        }
        are_kept &= is_kept;
        if !are_kept && options.until_violation {
            break;
        }
    }
    are_kept &= options.failovers.is_none_or(|wanted| figures.shows(stage, wanted));
    Ok(are_kept)
}

fn print_round(round: &str, verdict: &Verdict) {
    let [operations, grants, answers, faults] =
        ["operations", "grants", "answers got", "faults"].map(|name| verdict.figures.of(name));
    println!("{round}: {operations} operations, {grants} grants, {answers} answers, {faults} faults");
    for (by, it) in &verdict.failovers {
        let [all, exposed, twice] = [it.all, it.locks, it.locks_doubled];
        println!("  {all} failovers, {by}: {exposed} exposed locks, {twice} of them with two holders");
    }
    verdict.shown().for_each(|violation| println!("{violation}"));
}

fn empty(directory: &Path) -> io::Result<PathBuf> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    std::fs::create_dir_all(directory)?;
    directory.canonicalize()
}
