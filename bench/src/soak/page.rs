//! The page of a soak and its picture, both made of the samples alone.

use super::samples::{
    COMMANDS, CPU, End, GRANTS, LONGEST, MEMORY, P99, PINGS, RSS, SECONDS, SESSIONS, Samples, WAITERS,
};
use crate::picture::{GREEN, GRID, Ink, OURS, TEXT, label, open};
use crate::row::{fine, grouped};
use std::fmt::Write;
use std::io;
use std::path::Path;

const PICTURE: &str = "soak.svg";

/// Writes `soak.md` and its picture.
///
/// # Errors
/// If they cannot be written.
pub fn write(runs: &[Samples], to: &Path) -> io::Result<()> {
    if runs.is_empty() {
        return Err(io::Error::other("there is no run"));
    }
    std::fs::write(to.join(PICTURE), picture(runs))?;
    std::fs::write(to.join("soak.md"), page(runs))
}

fn page(runs: &[Samples]) -> String {
    let hours = runs.iter().map(|run| run.last(SECONDS)).max().unwrap_or_default() as f64 / 3_600.0;
    let mut page = format!(
        "# Soak\n\nWritten by `make soak`, of rlock at {}: {hours:.1} hours of mixed load on each server, side by side.\n\n\
         ![Memory, the reply time of a bystander, and the rate of commands over time]({PICTURE})\n\n",
        runs[0].commit
    );
    let mut row = |what: &str, cell: &dyn Fn(&Samples) -> String| {
        let cells: Vec<_> = runs.iter().map(cell).collect();
        let _ = writeln!(page, "| {what} | {} |", cells.join(" | "));
    };
    row("", &|run| run.server.clone());
    row("---", &|_| "--:".to_owned());
    row("commands", &|run| grouped(run.last(COMMANDS) as f64));
    row("grants", &|run| grouped(run.last(GRANTS) as f64));
    row("processor of the server", &|run| {
        format!("{:.1} %", run.last(CPU) as f64 / run.last(SECONDS).max(1) as f64 / 10.0)
    });
    row("waiters, sessions at a time, at most", &|run| format!("{}, {}", run.highest(WAITERS), run.highest(SESSIONS)));
    row("`used_memory`, median", &|run| format!("{} bytes", grouped(run.median(MEMORY) as f64)));
    row("… its growth from the second tenth of the time to the last", &|run| format!("{} bytes", run.growth(MEMORY)));
    row("resident memory, growth", &|run| format!("{} bytes", run.growth(RSS)));
    row("PINGs of a bystander", &|run| grouped(run.all.iter().map(|sample| sample.0[PINGS]).sum::<u64>() as f64));
    row("… the slowest in a hundred, median of all samples", &|run| {
        format!("{} µs", grouped(run.median(P99) as f64))
    });
    row("… the longest", &|run| format!("{} µs", grouped(run.highest(LONGEST) as f64)));
    row("left over: waiters, tickets, sessions, keys", &|run| {
        run.end.as_ref().map_or("unknown".to_owned(), |End(left)| left.map(|number| number.to_string()).join(", "))
    });
    row("verdict", &|run| {
        let faults = run.faults();
        if faults.is_empty() { "pass".to_owned() } else { faults.join("; ") }
    });
    page.push_str(
        "\nThe load: six threads with plain, fenced, read-write and permit locks and pairs of locks, leases that end and locks \
         that are deleted; two that lead by ONCE, and at times fail or vanish; clients that disconnect or are killed while \
         they wait, and sessions that no client polls again; 24 tasks of three `rlock-client`s, some of which give up their \
         waits or drop their guards. Names of locks change every minute. The time in which the server or the bystander had no \
         processor does not count as a PING's.\n",
    );
    page
}

/// One panel of the picture: what it shows, in which unit, and of which part of a unit.
struct Panel {
    title: &'static str,
    of: fn(&Samples, usize) -> f64,
}

const PANELS: [Panel; 4] = [
    Panel { title: "used memory, MiB", of: |run, place| run.all[place].0[MEMORY] as f64 / 1_048_576.0 },
    Panel { title: "longest PING of a bystander, ms", of: |run, place| run.all[place].0[LONGEST] as f64 / 1_000.0 },
    Panel { title: "commands per second", of: rate },
    Panel { title: "waiters", of: |run, place| run.all[place].0[WAITERS] as f64 },
];

fn rate(run: &Samples, place: usize) -> f64 {
    let Some(before) = place.checked_sub(1) else { return 0.0 };
    let [now, then] = [place, before].map(|place| &run.all[place].0);
    now[COMMANDS].saturating_sub(then[COMMANDS]) as f64 / now[SECONDS].saturating_sub(then[SECONDS]).max(1) as f64
}

const INKS: [Ink; 2] = [OURS, GREEN];
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const HEIGHT: f64 = 90.0;
const FIRST: f64 = 80.0;
const NEXT: f64 = 130.0;

/// So many points a line: each is the highest of its share of the samples, so no peak is lost.
const POINTS: usize = 240;

fn picture(runs: &[Samples]) -> String {
    let mut svg = open("Hours of mixed load", "", [760.0, FIRST + NEXT * PANELS.len() as f64]);
    for (place, (run, ink)) in runs.iter().zip(INKS).enumerate() {
        label(&mut svg, [16.0 + 220.0 * place as f64, 43.0], "start", ink, &run.server);
    }
    let seconds = runs.iter().map(|run| run.last(SECONDS)).max().unwrap_or_default().max(1) as f64;
    for (place, panel) in PANELS.iter().enumerate() {
        let top = FIRST + NEXT * place as f64;
        let highest =
            runs.iter().flat_map(|run| (0..run.all.len()).map(|place| (panel.of)(run, place))).fold(0.0, f64::max);
        let highest = highest.max(f64::MIN_POSITIVE);
        label(&mut svg, [LEFT, top - 8.0], "start", TEXT, panel.title);
        for share in [0.0, 1.0] {
            let y = top + HEIGHT * (1.0 - share);
            let _ = writeln!(svg, r#"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke-width="0.5" {}/>"#, GRID.stroke());
            label(&mut svg, [LEFT - 8.0, y + 4.0], "end", TEXT, &fine(highest * share));
        }
        for (run, ink) in runs.iter().zip(INKS) {
            let chunk = run.all.len().div_ceil(POINTS).max(1);
            let points: Vec<_> = (0..run.all.len()).collect();
            let points = points.chunks(chunk).map(|places| {
                let value = places.iter().map(|&place| (panel.of)(run, place)).fold(0.0, f64::max);
                let x = LEFT + run.all[places[0]].0[SECONDS] as f64 / seconds * (RIGHT - LEFT);
                format!("{x:.1},{:.1}", top + HEIGHT * (1.0 - value / highest))
            });
            let path = points.collect::<Vec<_>>().join(" ");
            let _ = writeln!(svg, r#"<polyline points="{path}" stroke-width="1.2" {}/>"#, ink.stroke());
        }
    }
    let y = FIRST + NEXT * (PANELS.len() - 1) as f64 + HEIGHT + 22.0;
    label(&mut svg, [LEFT, y], "start", TEXT, "0 h");
    label(&mut svg, [RIGHT, y], "end", TEXT, &format!("{:.1} h", seconds / 3_600.0));
    svg + "</svg>\n"
}
