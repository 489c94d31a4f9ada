//! The published picture can be read: each colour has enough contrast with the paper of its scheme, by the formula of WCAG
//! 2.1. And it shows the figures of the page.

use std::collections::BTreeMap;
use std::path::Path;

/// The minimum contrast by level AA, of text, and of everything else that has to differ from the paper.
const OF_TEXT: f64 = 4.5;
const OF_LINES: f64 = 3.0;

fn published(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bench").join(name)).unwrap()
}

/// The share of a channel in the lightness of a colour.
fn linear(channel: u8) -> f64 {
    let share = f64::from(channel) / 255.0;
    if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
}

fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| linear(u8::from_str_radix(&colour[at..at + 2], 16).unwrap());
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The colours of rules like `.text{color:#3d444d}…`, by the names of the classes.
fn colours(rules: &str) -> BTreeMap<&str, &str> {
    let rules = rules.split('}').filter_map(|rule| rule.trim().trim_start_matches('.').split_once("{color:"));
    rules.collect()
}

/// The colours on light paper, and those on dark.
fn schemes(svg: &str) -> [BTreeMap<&str, &str>; 2] {
    let (_, style) = svg.split_once("<style>").expect("a style");
    let (style, _) = style.split_once("</style>").unwrap();
    let (light, dark) = style.split_once("@media (prefers-color-scheme: dark){").expect("colours for dark pages");
    [colours(light), colours(dark)]
}

/// Each element, with the class of its colour.
fn classes(svg: &str) -> Vec<(&str, &str)> {
    let elements = svg.lines().filter(|line| line.contains("class="));
    elements
        .map(|line| {
            let element = line.trim_start_matches('<').split(' ').next().unwrap();
            (element, line.split("class=\"").nth(1).unwrap().split('"').next().unwrap())
        })
        .collect()
}

#[test]
fn each_colour_differs_from_its_background() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9, "the formula");
    assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.01, "known to fail by little");
    let svg = published("hand-offs.svg");
    let used = classes(&svg);
    assert!(used.len() > 8, "{used:?}");
    assert_eq!(used[0], ("rect", "paper"), "it brings its own paper, below all else");
    for line in svg.lines().filter(|line| line.starts_with('<') && !line.contains("currentColor")) {
        assert!(!line.contains("fill=") && !line.contains("stroke="), "a colour past the schemes: {line}");
    }
    for scheme in schemes(&svg) {
        for (element, class) in used.iter().filter(|(_, class)| *class != "paper") {
            let measured = contrast(scheme[class], scheme["paper"]);
            let needed = if *element == "text" { OF_TEXT } else { OF_LINES };
            assert!(measured >= needed, "{element} {class} has {measured:.2}, and needs {needed}");
        }
    }
}

/// `RLOCK: 15,953` in the picture is `15,953 hand-overs/s` on the page, or `pub/sub: 148`.
#[test]
fn it_shows_the_figures_of_the_page() {
    let (svg, page) = (published("hand-offs.svg"), published("results.md"));
    // The second row has only what differs from the first.
    let rows: Vec<_> = page.lines().skip_while(|line| !line.contains("| one lock, 512 waiters |")).take(2).collect();
    let shown = |name: &str| {
        let (_, rest) = svg.split_once(&format!(">{name}: ")).unwrap();
        rest.split('<').next().unwrap()
    };
    let ours = format!("| {} hand-overs/s |", shown("RLOCK"));
    assert!(rows[0].contains(&ours) && rows[1].starts_with("|  |  |  | "), "{ours} {rows:?}");
    for (row, alternative, name) in [(rows[0], "pub/sub", "pub/sub"), (rows[1], "BLPOP", "BLPOP token (no lock)")] {
        let theirs = format!("| {alternative}: {} |", shown(name));
        assert!(row.contains(&theirs), "{theirs} {row}");
    }
}
