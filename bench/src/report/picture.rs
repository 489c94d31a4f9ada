//! Two pictures, as SVG: no background and colours of middle lightness, so that they are read on light and dark pages.

use super::grouped;
use crate::contenders::PAIRS;
use crate::figures::Figures;
use crate::hand_offs::WAITERS;
use std::fmt::Write;

const TEXT: &str = "#808890";
const FAINT: &str = "#80889055";
const OURS: &str = "#2f81f7";
const OTHERS: &str = "#98a0a8";

/// Hand-offs per second against waiters, both by powers of ten.
pub fn hand_offs(figures: &Figures) -> Option<String> {
    let lines =
        [("rlock", "RLOCK", OURS), ("token", "BLPOP token (no lock)", "#3fa45b"), ("pubsub", "pub/sub", "#d9822b")];
    let rates = |id: &str| -> Option<Vec<f64>> {
        WAITERS.iter().map(|waiters| figures.median(&format!("hand_offs.{waiters}.{id}"))).collect()
    };
    let all: Vec<_> =
        lines.into_iter().map(|(id, name, colour)| Some((rates(id)?, name, colour))).collect::<Option<_>>()?;
    let every = || all.iter().flat_map(|(rates, _, _)| rates).map(|rate| rate.max(1.0).log10());
    let top = every().fold(f64::NEG_INFINITY, f64::max).ceil();
    let bottom = every().fold(f64::INFINITY, f64::min).floor().min(top - 1.0);
    let y = |rate: f64| 250.0 - (rate.max(1.0).log10() - bottom) / (top - bottom) * 190.0;
    let x = |place: usize| 110.0 + 190.0 * place as f64;

    let mut svg =
        open(760, 310, "Hand-offs per second of one lock", "many clients want it; each gives it back at once");
    let mut power = bottom;
    while power <= top {
        let (height, rate) = (y(10_f64.powf(power)), grouped(10_f64.powf(power)));
        let _ = writeln!(svg, r#"<path d="M80 {height:.1}H520" stroke="{FAINT}"/>"#);
        label(&mut svg, 72.0, height + 4.0, "end", TEXT, &rate);
        power += 1.0;
    }
    for (place, waiters) in WAITERS.iter().enumerate() {
        label(&mut svg, x(place), 272.0, "middle", TEXT, &format!("{waiters}"));
    }
    label(&mut svg, 300.0, 294.0, "middle", TEXT, "clients that wait");
    let mut names = Vec::new();
    for (rates, name, colour) in &all {
        let points: Vec<_> = rates.iter().enumerate().map(|(place, &rate)| (x(place), y(rate))).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        let _ = writeln!(svg, r#"<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>"#);
        for (x, y) in &points {
            let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#);
        }
        let last = rates.last().copied().unwrap_or_default();
        names.push((y(last), format!("{name}: {}", grouped(last)), *colour));
    }
    for (height, name, colour) in apart(names) {
        label(&mut svg, 528.0, height + 4.0, "start", colour, &name);
    }
    Some(svg + "</svg>\n")
}

/// Names that would lie upon each other are moved.
fn apart(mut names: Vec<(f64, String, &'static str)>) -> Vec<(f64, String, &'static str)> {
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    for place in 1..names.len() {
        names[place].0 = names[place].0.max(names[place - 1].0 + 16.0);
    }
    names
}

/// Instructions of a lock cycle, as bars.
pub fn lock_cycle(figures: &Figures) -> Option<String> {
    let costs: Vec<_> = PAIRS
        .iter()
        .map(|contender| Some((contender, figures.median(&format!("pair.{}", contender.id))?)))
        .collect::<Option<_>>()?;
    let most = costs.iter().map(|(_, cost)| *cost).fold(1.0, f64::max);
    let height = 70 + costs.len() * 28;
    let mut svg =
        open(680, height, "Instructions of one lock cycle", "the server's, for taking a lock and giving it back");
    for (place, (contender, cost)) in costs.iter().enumerate() {
        let y = 62.0 + 28.0 * place as f64;
        let ours = contender.id == "rlock";
        let (colour, width) = (if ours { OURS } else { OTHERS }, cost / most * 300.0);
        label(&mut svg, 296.0, y + 14.0, "end", if ours { OURS } else { TEXT }, short_name(contender.id));
        let _ = writeln!(svg, r#"<rect x="304" y="{y}" width="{width:.1}" height="20" rx="2" fill="{colour}"/>"#);
        label(&mut svg, 310.0 + width, y + 14.0, "start", if ours { OURS } else { TEXT }, &grouped(*cost));
    }
    Some(svg + "</svg>\n")
}

fn short_name(id: &str) -> &'static str {
    match id {
        "noop" => "a module that does nothing",
        "set_del" => "SET NX PX + DEL (unsafe)",
        "rlock" => "RLOCK",
        "set_script" => "SET NX PX + compare-and-delete script",
        "scripts" => "Redisson's scripts, EVALSHA",
        "scripts_latch" => "… with unlock latch (today's Redisson)",
        "eval" => "Redisson's scripts, EVAL",
        _ => "… with unlock latch",
    }
}

fn open(width: usize, height: usize, title: &str, subtitle: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n<title>{title}</title>\n"
    );
    let _ = writeln!(svg, r#"<text x="16" y="24" fill="{TEXT}" font-size="15" font-weight="600">{title}</text>"#);
    label(&mut svg, 16.0, 43.0, "start", TEXT, subtitle);
    svg
}

fn label(svg: &mut String, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}">{text}</text>"#);
}
