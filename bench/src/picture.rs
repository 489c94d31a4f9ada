//! The picture: hand-overs per second against the number of waiters, both by powers of ten. [`open`] and [`label`] also serve
//! the picture of a soak.
//!
//! It is shown on a light or a dark page. But an image knows only which scheme the reader's system prefers, not the page's.
//! So it has its own paper, light or dark, and each colour in two forms, one for each paper. `tests/pictures.rs` measures the
//! contrast of each colour with its paper.

use crate::figures::Figures;
use crate::hand_over::WAITERS;
use crate::row::{fine, grouped};
use std::fmt::Write;

pub const NAME: &str = "hand-offs.svg";

/// A colour by its use.
#[derive(Clone, Copy)]
pub struct Ink {
    class: &'static str,
    on_light: &'static str,
    on_dark: &'static str,
}

const PAPER: Ink = Ink { class: "paper", on_light: "#ffffff", on_dark: "#0d1117" };
pub const TEXT: Ink = Ink { class: "text", on_light: "#3d444d", on_dark: "#c9d1d9" };
pub const GRID: Ink = Ink { class: "grid", on_light: "#848d97", on_dark: "#6e7681" };
pub const OURS: Ink = Ink { class: "ours", on_light: "#0969da", on_dark: "#58a6ff" };
pub const GREEN: Ink = Ink { class: "green", on_light: "#1a7f37", on_dark: "#3fb950" };
const ORANGE: Ink = Ink { class: "orange", on_light: "#bc4c00", on_dark: "#f0883e" };

const INKS: [Ink; 6] = [PAPER, TEXT, GRID, OURS, GREEN, ORANGE];

impl Ink {
    fn fill(self) -> String {
        format!(r#"class="{}" fill="currentColor""#, self.class)
    }

    pub fn stroke(self) -> String {
        format!(r#"class="{}" fill="none" stroke="currentColor""#, self.class)
    }
}

struct Line {
    name: &'static str,
    ink: Ink,
    /// Hand-overs per second, for each number of waiters.
    rates: Vec<f64>,
}

const TITLE: &str = "Hand-overs per second of one lock";

/// The picture, if all its figures are there.
pub fn hand_overs(figures: &Figures) -> Option<String> {
    let line = |id: &str, name, ink| {
        let rate = |waiters: &usize| Some(figures.get(&format!("hand_over.{waiters}.{id}"))?.median().max(1.0));
        Some(Line { name, ink, rates: WAITERS.iter().map(rate).collect::<Option<_>>()? })
    };
    let lines = [
        line("rlock", "RLOCK", OURS)?,
        line("token", "BLPOP token (no lock)", GREEN)?,
        line("pubsub", "pub/sub", ORANGE)?,
    ];
    Some(draw(&lines))
}

/// Between the first number of waiters and the last.
const LEFT: f64 = 110.0;
const RIGHT: f64 = 490.0;
/// Between the highest power of ten and the lowest.
const TOP: f64 = 60.0;
const BOTTOM: f64 = 250.0;

fn draw(lines: &[Line]) -> String {
    let powers = powers_around(lines);
    let mut svg = open(TITLE, "many clients want it; each releases it at once", [760.0, 310.0]);
    let mut power = powers[0];
    while power <= powers[1] {
        let rate = 10_f64.powf(power);
        let height = y(rate, powers);
        let _ = writeln!(svg, r#"<path d="M80 {height:.1}H520" stroke-width="0.5" {}/>"#, GRID.stroke());
        label(&mut svg, [72.0, height + 4.0], "end", TEXT, &grouped(rate));
        power += 1.0;
    }
    for (place, waiters) in WAITERS.iter().enumerate() {
        label(&mut svg, [x(place), 272.0], "middle", TEXT, &grouped(*waiters as f64));
    }
    label(&mut svg, [(LEFT + RIGHT) / 2.0, 294.0], "middle", TEXT, "clients that wait");
    lines.iter().for_each(|line| trace(&mut svg, line, powers));
    let mut names: Vec<_> = lines.iter().map(|line| (line, line.rates[WAITERS.len() - 1])).collect();
    names.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut height = f64::NEG_INFINITY;
    for (line, rate) in names {
        // Names that would overlap are moved.
        height = y(rate, powers).max(height + 16.0);
        label(&mut svg, [528.0, height + 4.0], "start", line.ink, &format!("{}: {}", line.name, fine(rate)));
    }
    svg + "</svg>\n"
}

/// The head of a picture, with its paper, its title and a line below that.
pub fn open(title: &str, below: &str, [width, height]: [f64; 2]) -> String {
    let rules = |colour: fn(&Ink) -> &'static str| {
        INKS.iter().map(|ink| format!(".{}{{color:{}}}", ink.class, colour(ink))).collect::<String>()
    };
    let (light, dark) = (rules(|ink| ink.on_light), rules(|ink| ink.on_dark));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n<title>{title}</title>\n<style>\n\
         {light}\n@media (prefers-color-scheme: dark){{{dark}}}\n</style>\n"
    );
    let _ = writeln!(svg, r#"<rect width="{width}" height="{height}" rx="6" {}/>"#, PAPER.fill());
    let _ = writeln!(svg, r#"<text x="16" y="24" {} font-size="15" font-weight="600">{title}</text>"#, TEXT.fill());
    label(&mut svg, [16.0, 43.0], "start", TEXT, below);
    svg
}

pub fn label(svg: &mut String, [x, y]: [f64; 2], anchor: &str, ink: Ink, text: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {}>{text}</text>"#, ink.fill());
}

fn trace(svg: &mut String, line: &Line, powers: [f64; 2]) {
    let points: Vec<_> = line.rates.iter().enumerate().map(|(place, rate)| [x(place), y(*rate, powers)]).collect();
    let path: Vec<_> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let path = path.join(" ");
    let _ = writeln!(svg, r#"<polyline points="{path}" stroke-width="2.5" {}/>"#, line.ink.stroke());
    for [x, y] in points {
        let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" {}/>"#, line.ink.fill());
    }
}

/// Each number of waiters is eight times the one before.
fn x(place: usize) -> f64 {
    LEFT + place as f64 / (WAITERS.len() - 1) as f64 * (RIGHT - LEFT)
}

fn y(rate: f64, [lowest, highest]: [f64; 2]) -> f64 {
    BOTTOM - (rate.log10() - lowest) / (highest - lowest) * (BOTTOM - TOP)
}

/// The powers of ten around all rates.
fn powers_around(lines: &[Line]) -> [f64; 2] {
    let powers = || lines.iter().flat_map(|line| &line.rates).map(|rate| rate.log10());
    let highest = powers().fold(f64::NEG_INFINITY, f64::max).ceil();
    [powers().fold(f64::INFINITY, f64::min).floor().min(highest - 1.0), highest]
}
