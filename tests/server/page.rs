//! What tests take out of the pages of `docs`, so that no page can say what is not so.
//!
//! A block fenced as `sh` is run. One fenced as `sh only-parsed` needs root, systemd, Docker or Kubernetes: a shell
//! parses it, and the files that it names are there.

use std::path::Path;
use std::process::Command;

/// The project's own directory, from where the commands of the pages are to be typed.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

pub struct Page(pub &'static str);

impl Page {
    /// The blocks that are fenced with these words.
    pub fn blocks(&self, words: &str) -> Vec<&'static str> {
        let fence = format!("```{words}\n");
        self.0.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    }

    /// Each line that a reader would type, in order, without what is said behind it.
    pub fn commands(&self) -> Vec<String> {
        let command = |line: &str| line.split("  #").next().unwrap_or_default().trim().to_owned();
        let lines = self.blocks("sh").into_iter().flat_map(str::lines);
        lines.map(command).filter(|line| !line.is_empty()).collect()
    }

    /// What is only parsed is shell, and the pages' own files that it names are there: so many.
    pub fn parses(&self, files: usize) {
        let mut named = Vec::new();
        for block in self.blocks("sh only-parsed") {
            let output = Command::new("sh").args(["-n", "-c", block]).output().unwrap();
            assert!(output.status.success(), "{block}: {output:?}");
            let words = block.split(|letter: char| letter.is_whitespace() || "'\"=(),".contains(letter));
            named.extend(words.filter(|word| word.starts_with("docs/")));
        }
        for file in &named {
            assert!(Path::new(ROOT).join(file).exists(), "{file} is not there");
        }
        assert_eq!(named.len(), files, "{named:?}");
    }

    /// The first of its commands that has these words in it.
    pub fn shown(&self, words: &str) -> String {
        let commands = self.commands().into_iter();
        commands.into_iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words} is not shown"))
    }
}

/// All names in a text that begin with these letters.
pub fn names<'a>(text: &'a str, beginning: &str) -> Vec<&'a str> {
    let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut names: Vec<_> = text
        .split(|letter| !in_name(letter))
        .filter(|name| name.starts_with(beginning) && *name != beginning)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
