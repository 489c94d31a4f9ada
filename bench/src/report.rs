//! The results: one page with one table, and the picture.

use crate::environment::Environment;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::{Shown, Verdict};
use crate::{Part, picture};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

pub struct Report<'a> {
    pub figures: &'a Figures,
    pub parts: &'a [&'a Part],
    pub plan: &'a Plan,
    pub environment: &'a Environment,
    pub seconds: u64,
}

const HOW_TO_READ: &str = "
- **Ratio**: how many times as good as the alternative ours is: the median over the rounds, in each of which both had their
  turn, with the lowest and the highest round. Below 1× the alternative is better.
- **Bar**: the limit that a ratio, or a figure without an alternative, must keep. A missed bar is published all the same.
- Figures are medians over the rounds. A figure without an alternative is that of the worst round.
- **Instructions** of the whole server are counted by callgrind, with the reading of commands and the writing of replies.
- All else is measured by the clock, over loopback. Other work on the machine moves these figures: look at the ratios.
";

impl Report<'_> {
    /// Writes the results, and prints the table. A missed bar is a result, not a failure.
    pub fn publish(&self, directory: &Path) -> ExitCode {
        let rows: Vec<_> = self.parts.iter().flat_map(|part| self.rows(part)).collect();
        let table = table(&rows);
        print!("{table}");
        let picture = picture::hand_overs(self.figures);
        let page = self.page(&table, &rows, picture.is_some());
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| picture.map_or(Ok(()), |svg| std::fs::write(directory.join(picture::NAME), svg)))
            .and_then(|()| std::fs::write(directory.join("results.md"), page));
        if let Err(error) = written {
            eprintln!("bench: the results cannot be written to {}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
        self.figures.left_out.iter().for_each(|what| eprintln!("bench: left out: {what}"));
        let missed = rows.iter().filter(|(_, shown)| shown.verdict == Verdict::Missed).count();
        eprintln!("bench: {missed} bars missed; {} s; {}", self.seconds, directory.join("results.md").display());
        ExitCode::SUCCESS
    }

    fn rows(&self, part: &Part) -> Vec<(&'static str, Shown)> {
        (part.rows)(self.plan).iter().map(|row| (part.name, row.show(self.figures))).collect()
    }

    fn page(&self, table: &str, rows: &[(&str, Shown)], has_picture: bool) -> String {
        let mut page = self.head();
        page += HOW_TO_READ;
        if has_picture {
            let _ = write!(page, "\n![Hand-overs per second against the number of waiters]({})\n", picture::NAME);
        }
        let _ = write!(page, "\n{table}\n## How each part is measured\n\n");
        for part in self.parts {
            let _ = writeln!(page, "- **{}**: {}", part.name, part.how);
        }
        let mut reasons: Vec<_> =
            rows.iter().filter(|(_, it)| it.verdict == Verdict::Missed).map(|(_, it)| it.why).collect();
        reasons.retain(|why| !why.is_empty());
        reasons.dedup();
        page += &list("What stands in the way of the bars that are missed", reasons);
        page += &list("Left out", self.figures.left_out.iter().map(String::as_str));
        page
    }

    fn head(&self) -> String {
        let it = self.environment;
        let command = if self.plan.is_whole { "make bench" } else { "make bench-quick" };
        let valgrind = if it.valgrind.is_empty() { "not counted, as there is no valgrind" } else { &it.valgrind };
        format!(
            "# Benchmarks\n\nWritten by `{command}` in {} s, of rlock at {}. {} on {} processors ({}), which had a load \
             of {} before. Instructions: {valgrind}.\n",
            self.seconds,
            if it.commit.is_empty() { "an unknown commit" } else { &it.commit },
            it.server,
            it.processors,
            it.architecture,
            it.load,
        )
    }
}

/// What a row has in common with the one above is not repeated.
fn table(rows: &[(&str, Shown)]) -> String {
    let mut text = "| part | what | ours | the alternative | ratio | bar |\n|---|---|--:|---|---|---|\n".to_owned();
    let mut above = [""; 3];
    for (part, Shown { columns, .. }) in rows {
        let [what, ours, others @ ..] = columns;
        let cells = [*part, what, ours];
        let common = cells.iter().zip(above).take_while(|(cell, above)| **cell == *above).count();
        let shown = cells.iter().enumerate().map(|(number, cell)| if number < common { "" } else { cell });
        let _ = writeln!(text, "| {} | {} |", shown.collect::<Vec<_>>().join(" | "), others.join(" | "));
        above = cells;
    }
    text
}

/// A heading and its items, or nothing.
fn list<'a>(title: &str, items: impl IntoIterator<Item = &'a str>) -> String {
    let items: String = items.into_iter().map(|item| format!("- {item}\n")).collect();
    if items.is_empty() { items } else { format!("\n## {title}\n\n{items}") }
}
