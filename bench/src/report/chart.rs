//! Lines of figures against how many wait, both by powers of ten.

use super::svg::{GRID, Ink, TEXT, label, open};
use std::fmt::Write;

pub struct Chart<'a> {
    pub title: &'a str,
    pub subtitle: &'a str,
    /// What the ticks are numbers of.
    pub below: &'a str,
    pub ticks: &'a [usize],
    /// How a figure is written.
    pub say: fn(f64) -> String,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub name: String,
    pub ink: Ink,
    /// How many, and the figure.
    pub points: Vec<(usize, f64)>,
}

/// Between the first tick and the last.
const LEFT: f64 = 110.0;
const RIGHT: f64 = 490.0;
/// Between the highest power of ten and the lowest.
const TOP: f64 = 60.0;
const BOTTOM: f64 = 250.0;

impl Chart<'_> {
    pub fn draw(&self) -> String {
        let mut svg = open(760, 310, self.title, self.subtitle);
        let [lowest, highest] = self.powers();
        let mut power = lowest;
        while power <= highest {
            let figure = 10_f64.powf(power);
            let height = self.y(figure);
            let _ = writeln!(svg, r#"<path d="M80 {height:.1}H520" stroke-width="0.5" {}/>"#, GRID.stroke());
            label(&mut svg, 72.0, height + 4.0, "end", TEXT, &(self.say)(figure));
            power += 1.0;
        }
        for tick in self.ticks {
            label(&mut svg, self.x(*tick), 272.0, "middle", TEXT, &super::grouped(*tick as f64));
        }
        label(&mut svg, (LEFT + RIGHT) / 2.0, 294.0, "middle", TEXT, self.below);
        self.lines.iter().for_each(|line| self.trace(&mut svg, line));
        for (height, name, ink) in apart(self.names()) {
            label(&mut svg, 528.0, height + 4.0, "start", ink, &name);
        }
        svg + "</svg>\n"
    }

    fn trace(&self, svg: &mut String, line: &Line) {
        let points: Vec<_> = line.points.iter().map(|(count, figure)| (self.x(*count), self.y(*figure))).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        let _ = writeln!(svg, r#"<polyline points="{path}" stroke-width="2.5" {}/>"#, line.ink.stroke());
        for (x, y) in &points {
            let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" {}/>"#, line.ink.fill());
        }
    }

    /// Each as high as its line ends, with the figure there.
    fn names(&self) -> Vec<(f64, String, Ink)> {
        let name = |line: &Line| {
            let (_, figure) = *line.points.last()?;
            Some((self.y(figure), format!("{}: {}", line.name, (self.say)(figure)), line.ink))
        };
        self.lines.iter().filter_map(name).collect()
    }

    fn x(&self, count: usize) -> f64 {
        let ends = [self.ticks.first(), self.ticks.last()].map(|tick| tick.map_or(1.0, |tick| (*tick as f64).ln()));
        LEFT + ((count as f64).ln() - ends[0]) / (ends[1] - ends[0]) * (RIGHT - LEFT)
    }

    fn y(&self, figure: f64) -> f64 {
        let [lowest, highest] = self.powers();
        BOTTOM - (figure.log10() - lowest) / (highest - lowest) * (BOTTOM - TOP)
    }

    /// The powers of ten that all figures are between.
    fn powers(&self) -> [f64; 2] {
        let figures = || self.lines.iter().flat_map(|line| &line.points).map(|(_, figure)| figure.log10());
        let highest = figures().fold(f64::NEG_INFINITY, f64::max).ceil();
        [figures().fold(f64::INFINITY, f64::min).floor().min(highest - 1.0), highest]
    }
}

/// Names that would lie upon each other are moved.
fn apart(mut names: Vec<(f64, String, Ink)>) -> Vec<(f64, String, Ink)> {
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    for place in 1..names.len() {
        names[place].0 = names[place].0.max(names[place - 1].0 + 16.0);
    }
    names
}
