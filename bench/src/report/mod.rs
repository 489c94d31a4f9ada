//! The results: two pages, the same for programs, and pictures. All of them appear at once, or none does.

mod chart;
mod json;
mod many_tasks;
mod markdown;
mod one_process;
mod picture;
mod svg;
mod waiting;

pub use json::redisson_json;
pub use markdown::redisson_page;

use crate::bars::{Bar, Verdict};
use crate::environment::Environment;
use crate::figures::Figures;
use crate::interrupt;
use crate::plan::Plan;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub struct Report<'a> {
    pub figures: &'a Figures,
    pub bars: &'a [Bar],
    pub plan: &'a Plan,
    pub environment: &'a Environment,
    pub seconds: u64,
}

impl Report<'_> {
    /// Writes it all, and tells how it came out. A bar that is missed is a result, not a failure.
    pub fn publish(&self, directory: &Path) -> ExitCode {
        print!("{}", markdown::bars(self.bars));
        let mut written: Vec<_> = pictures(self.figures, self.plan).collect();
        let names: Vec<_> = written.iter().map(|(name, _)| *name).collect();
        let pages = [("results.md", markdown::page(self, &names)), ("tables.md", markdown::tables(self))];
        written.extend(pages);
        written.push(("results.json", json::text(self)));
        if let Err(error) = write_all(directory, &written) {
            eprintln!("bench: the results cannot be written to {}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
        self.figures.left_out.iter().for_each(|what| eprintln!("bench: left out: {what}"));
        let missed: Vec<_> = self.bars.iter().filter(|bar| bar.verdict() == Verdict::Missed).collect();
        eprintln!("bench: {} bars missed{}", missed.len(), if missed.is_empty() { "" } else { ":" });
        missed.iter().for_each(|bar| eprintln!("bench:   {}", bar.what));
        eprintln!("bench: {} s, results in {}", self.seconds, directory.join("results.md").display());
        ExitCode::SUCCESS
    }
}

/// Those whose figures are all there.
fn pictures(figures: &Figures, plan: &Plan) -> impl Iterator<Item = (&'static str, String)> {
    let drawn = [
        ("hand-offs.svg", picture::hand_offs(figures)),
        ("memory.svg", picture::memory(figures, plan)),
        ("lock-cycle.svg", picture::lock_cycle(figures)),
    ];
    drawn.into_iter().filter_map(|(name, picture)| Some((name, picture?)))
}

/// Draws the pictures of a directory again from its results.json, so that a change of how they look needs no new run.
pub fn draw_again(directory: &Path) -> ExitCode {
    let drawn = std::fs::read_to_string(directory.join("results.json")).and_then(|text| {
        let (figures, plan) = json::read(&text).ok_or(std::io::ErrorKind::InvalidData)?;
        write_all(directory, &pictures(&figures, &plan).collect::<Vec<_>>())
    });
    match drawn {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: the pictures of {} cannot be drawn: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Under other names first, which are changed when all of them are there.
pub fn write_all(directory: &Path, files: &[(&str, String)]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let place = |name: &str| (directory.join(format!(".{name}.new")), directory.join(name));
    let write = || {
        files.iter().try_for_each(|(name, text)| std::fs::write(place(name).0, text))?;
        files.iter().try_for_each(|(name, _)| {
            let (new, old) = place(name);
            std::fs::rename(new, old)
        })
    };
    interrupt::undisturbed(|| {
        write().inspect_err(|_| {
            let left: Vec<PathBuf> = files.iter().map(|(name, _)| place(name).0).collect();
            left.iter().for_each(|path| drop(std::fs::remove_file(path)));
        })
    })
}

/// A line of a table: a figure, how many times another it is, and its samples.
fn row(figures: &Figures, name: &str, id: &str, base: &str) -> String {
    let Some(figure) = figures.get(id) else { return format!("| {name} | – | – | – |\n") };
    let against = figures.ratio(id, base).map_or("–".to_owned(), |ratio| format!("{ratio:.2}×"));
    let spread = format!("{} … {}", grouped(figure.lowest()), grouped(figure.highest()));
    format!("| {name} | {} | {against} | {spread} |\n", grouped(figure.median()))
}

/// 1234567 as 1,234,567.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let length = digits.len();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (length - place) % 3 == 0 && digit != '-' {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that may be small: three digits of it, or all where there are more before the point.
fn fine(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 || number.fract() == 0.0 => grouped(number),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
