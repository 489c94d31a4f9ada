//! Man pages, generated from the arguments: one for rlock, and one for each subcommand. Packagers build the feature
//! `manual` and request them with an environment variable; a subcommand would appear in the help and in the
//! completions.

use crate::arguments::Arguments;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const DIRECTORY: &str = "RLOCK_MANUAL_DIRECTORY";

/// `None`: not requested.
pub fn write_if_asked() -> Option<ExitCode> {
    let directory = std::env::var_os(DIRECTORY)?;
    let written = write(Path::new(&directory));
    Some(written.map_or_else(
        |error| {
            crate::failure::say(&format!("the manual cannot be written: {error}"));
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn write(directory: &Path) -> io::Result<()> {
    let mut rlock = Arguments::command();
    // Gives each subcommand the options that all have, and its name with a hyphen.
    rlock.build();
    let shown: Vec<_> = rlock.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).collect();
    let names: Vec<_> = shown.iter().map(|subcommand| name(subcommand)).collect();
    std::fs::write(directory.join("rlock.1"), page(&rlock, &names)?)?;
    for subcommand in shown {
        std::fs::write(directory.join(name(subcommand) + ".1"), page(subcommand, &["rlock".into()])?)?;
    }
    Ok(())
}

fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(command: &Command, see_also: &[String]) -> io::Result<Vec<u8>> {
    let manual = Man::new(command.clone()).title(name(command)).manual("rlock manual");
    let mut page = Vec::new();
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    manual.render_synopsis_section(&mut page)?;
    manual.render_description_section(&mut page)?;
    if command.has_subcommands() {
        manual.render_subcommands_section(&mut page)?;
    }
    manual.render_options_section(&mut page)?;
    write_tables(&command.get_after_help().map(ToString::to_string).unwrap_or_default(), &mut page)?;
    write_references(see_also, &mut page)?;
    Ok(page)
}

/// What follows the options: headings that end with a colon, and tables below them. Their lines must stay unchanged.
fn write_tables(text: &str, page: &mut dyn Write) -> io::Result<()> {
    for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
        let (heading, table) = part.trim_matches('\n').split_once('\n').unwrap_or((part, ""));
        let mut roff = Roff::new();
        roff.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in table.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.to_writer(page)?;
    }
    Ok(())
}

fn write_references(names: &[String], page: &mut dyn Write) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    for (place, name) in names.iter().enumerate() {
        let end = if place + 1 < names.len() { "(1)," } else { "(1)" };
        roff.text([bold(name), roman(end)]);
    }
    roff.to_writer(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subcommand_has_a_page_with_its_options_and_its_tables() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();

        let rlock = page("rlock.1");
        assert!(rlock.contains(".SH \"EXIT CODES\""), "{rlock}");
        for subcommand in Arguments::command().get_subcommands() {
            let name = format!("rlock-{}", subcommand.get_name());
            assert!(rlock.contains(&format!("\\fB{}\\fR(1)", name.replace('-', "\\-"))), "{name}: {rlock}");
            let page = page(&(name.clone() + ".1"));
            assert!(page.contains("\\-\\-password\\-file"), "{name}: {page}");
            assert!(page.contains(".SH EXAMPLES"), "{name}: {page}");
        }
        assert!(page("rlock-run.1").contains("\n  rlock run nightly\\-report"), "{}", page("rlock-run.1"));
    }
}
