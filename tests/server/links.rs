//! Every link between the project's own pages leads somewhere: the file is there, and so is the heading.

use crate::page::ROOT;
use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let inside = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = ["", "docs", "docs/bench", "docs/proof", "client", "cli", "java"].map(|it| Path::new(ROOT).join(it));
    let files = folders.into_iter().chain(inside(Path::new(ROOT).join("clients"))).flat_map(inside);
    files.filter(|path| path.extension().is_some_and(|it| it == "md")).collect()
}

/// The headings of a page, as links name them.
fn anchors(page: &str) -> Vec<String> {
    let mut in_block = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        in_block ^= line.starts_with("```");
        if !in_block && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
            anchors.push(kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect());
        }
    }
    anchors
}

/// What stands in `](…)`.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect()
}

/// What stands between these marks, on one line.
fn between<'a>(page: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    page.lines().flat_map(move |line| line.split(mark).skip(1).step_by(2))
}

/// `core/src/lock`, `tests/server` …: a path of this project, or a pattern of such.
fn is_path(words: &str) -> bool {
    let folders = ["src/", "tests/", "core/", "cli/", "client/", "testing/", "bench/", "chaos/", "docs/", "scripts/"];
    folders.iter().any(|folder| words.starts_with(folder)) && !words.contains([' ', '*', '<'])
}

#[test]
fn every_file_that_is_named_is_there() {
    let mut missing = Vec::new();
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        let named = between(&page, "`").filter(|words| is_path(words));
        missing.extend(
            named.filter(|name| !Path::new(ROOT).join(name).exists()).map(|name| (path.clone(), name.to_owned())),
        );
    }
    assert_eq!(missing, [], "not there");
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        for link in links(&page).into_iter().filter(|link| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !heading.is_empty() {
                let there = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|it| it == heading), "{}: {link}: {there:?}", path.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 60, "{followed}");
}
