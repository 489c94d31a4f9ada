//! What is taken out of the page.

pub const PAGE: &str = include_str!("../../../docs/operations.md");

/// The blocks that are fenced with this word.
pub fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The program among the blocks of shell, with its first line.
pub fn program() -> &'static str {
    blocks("sh").into_iter().find(|block| block.starts_with("#!")).expect("a program")
}

/// Each line that an operator would type, in order, without what is said behind it.
pub fn commands() -> Vec<String> {
    let shown = blocks("sh").into_iter().filter(|block| !block.starts_with("#!"));
    let command = |line: &str| line.split("  #").next().unwrap_or_default().trim().to_owned();
    let commands: Vec<_> = shown.flat_map(str::lines).map(command).filter(|line| !line.is_empty()).collect();
    assert!(commands.iter().all(|command| command.starts_with("redis-cli ")), "{commands:?}");
    commands
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
