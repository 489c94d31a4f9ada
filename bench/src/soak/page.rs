//! The page of a soak and its picture, both made of the samples alone.

use super::samples::{MAY_GROW, Samples};
use crate::picture::{GREEN, GRID, Ink, OURS, TEXT, label, open};
use crate::row::{fine, grouped};
use std::fmt::Write;
use std::io;
use std::path::Path;

const PICTURE: &str = "soak.svg";

/// # Errors
/// If the files cannot be written.
pub fn write(runs: &[Samples], to: &Path) -> io::Result<()> {
    if runs.is_empty() {
        return Err(io::Error::other("there are no samples"));
    }
    std::fs::write(to.join(PICTURE), picture(runs))?;
    std::fs::write(to.join("soak.md"), page(runs))
}

fn hours(runs: &[Samples]) -> f64 {
    runs.iter().map(|run| run.last("seconds")).max().unwrap_or_default() as f64 / 3_600.0
}

fn page(runs: &[Samples]) -> String {
    let [memory, resident] = MAY_GROW.map(|(_, limit)| grouped(limit as f64));
    let mut page = format!(
        "# Hours of load\n\nWritten by `make soak`, not by hand. {} hours of mixed load on each server, side by side, at commit {}.\n\n\
         ![Memory, reply times of a bystander, commands per second, waiters and keys over the time]({PICTURE})\n\n",
        fine(hours(runs)),
        runs[0].commit
    );
    let mut row = |what: &str, cell: &dyn Fn(&Samples) -> String| {
        let cells: Vec<_> = runs.iter().map(cell).collect();
        let _ = writeln!(page, "| {what} | {} |", cells.join(" | "));
    };
    let whole = |number: u64| grouped(number as f64);
    let growth = |run: &Samples, name: &str| {
        let [early, late] = run.tenths(name);
        let by = late - early;
        let share = by as f64 * 100.0 / early as f64;
        format!("{} to {}: {by:+} ({share:+.1} %)", grouped(early as f64), grouped(late as f64))
    };
    let share = |run: &Samples, name: &str| {
        format!("{:.1} %", run.last(name) as f64 / run.last("seconds").max(1) as f64 / 10.0)
    };
    row("", &|run| run.server.clone());
    row("---", &|_| "---".to_owned());
    row("verdict", &|run| if run.faults().is_empty() { "pass" } else { "**fail**" }.to_owned());
    row("hours", &|run| fine(run.last("seconds") as f64 / 3_600.0));
    row("commands", &|run| whole(run.last("commands")));
    row("grants; of these as a lock was released", &|run| {
        format!("{}; {}", whole(run.last("grants")), whole(run.last("hand_offs")))
    });
    row("leases that ended", &|run| whole(run.last("lease_expiries")));
    row("waits that timed out, or were cancelled", &|run| {
        format!("{}, {}", whole(run.last("timeouts")), whole(run.last("cancelled")))
    });
    row("answers given", &|run| whole(run.last("answers_given")));
    row("processor: server, all clients", &|run| {
        format!("{}, {}", share(run, "cpu_ms"), share(run, "cpu_of_clients_ms"))
    });
    row("at most: waiters, sessions, keys", &|run| {
        ["waiters", "sessions", "keys"].map(|name| whole(run.highest(name))).join(", ")
    });
    row("memory in use, bytes", &|run| growth(run, "used_memory"));
    row("resident memory, bytes", &|run| growth(run, "rss"));
    row("allocator fragmentation, median", &|run| fine(run.median("fragmentation_permille") as f64 / 1_000.0));
    row("bystander: PINGs and GETs", &|run| whole(run.all("replies").iter().sum()));
    row("… the slowest in a thousand, µs", &|run| whole(run.last("reply_p999_so_far_us")));
    row("… the longest, µs; with the time without a processor", &|run| {
        format!("{}; {}", whole(run.highest("reply_max_us")), whole(run.highest("reply_max_as_seen_us")))
    });
    row("calls of `rlock-client` that no server answered in time", &|run| whole(run.last("unavailable")));
    row("left at the end", &|run| match &run.end {
        None => "unknown".to_owned(),
        Some(end) if end.left.is_empty() => "nothing".to_owned(),
        Some(end) => end.left.iter().map(|(what, number)| format!("{number} {what}")).collect::<Vec<_>>().join(", "),
    });
    let faults: Vec<_> = runs.iter().flat_map(Samples::faults).map(|fault| format!("\n- **{fault}**")).collect();
    if !faults.is_empty() {
        let _ = writeln!(page, "{}", faults.concat());
    }
    let _ = write!(
        page,
        "\nEach point of the picture is the highest of its samples, so no peak is lost.\n\nA run fails\n\n\
         - if the median of the memory in use grows by more than {memory} bytes from the second tenth of the run to the last, \
         or that of resident memory by more than {resident}. The first tenth warms up;\n\
         - if 30 s after the load there is a waiter, a ticket, a session, an event, or a key that is not a fencing counter;\n\
         - if a client gets a reply that it should not get, or the load stalls.\n\n\
         The load: threads with plain, fenced, read-write and permit locks and pairs of locks, with renewals, leases that end \
         and locks that are deleted; leaders and callers of ONCE, some of which fail or vanish; clients that disconnect or are \
         killed while they wait; sessions that no client polls again; tasks of `rlock-client`, which give up some waits, drop \
         some guards and keep some for longer than a lease. Every 20 s there are 500 more locks and 500 more waiters for some \
         seconds. Names of locks change every minute.\n\n\
         The bystander sends PING and GET in turn, 50 times a second at most. The time in which it or the server was ready to \
         run and had no processor is left out, except where the table says so: other programs cause that.\n"
    );
    page
}

struct Panel {
    title: &'static str,
    of: fn(&Samples) -> Vec<f64>,
}

const PANELS: [Panel; 7] = [
    Panel { title: "memory in use, MiB", of: |run| scaled(run, "used_memory", 1_048_576.0) },
    Panel { title: "resident memory, MiB", of: |run| scaled(run, "rss", 1_048_576.0) },
    Panel { title: "bystander: the slowest reply in a hundred, ms", of: |run| scaled(run, "reply_p99_us", 1_000.0) },
    Panel { title: "bystander: the longest, ms", of: |run| scaled(run, "reply_max_us", 1_000.0) },
    Panel { title: "commands per second", of: rates },
    Panel { title: "waiters", of: |run| scaled(run, "waiters", 1.0) },
    Panel { title: "keys", of: |run| scaled(run, "keys", 1.0) },
];

fn scaled(run: &Samples, name: &str, unit: f64) -> Vec<f64> {
    run.all(name).into_iter().map(|number| number as f64 / unit).collect()
}

fn rates(run: &Samples) -> Vec<f64> {
    let samples: Vec<_> = run.all("seconds").into_iter().zip(run.all("commands")).collect();
    let before = [(0, 0)].into_iter().chain(samples.iter().copied());
    let pairs = before.zip(&samples);
    pairs.map(|(then, now)| (now.1 - then.1) as f64 / now.0.saturating_sub(then.0).max(1) as f64).collect()
}

const INKS: [Ink; 2] = [OURS, GREEN];
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const HEIGHT: f64 = 70.0;
const FIRST: f64 = 80.0;
const NEXT: f64 = 106.0;

/// The maximum of points of a line. Each is the highest of its share of the samples, so no peak is lost.
const POINTS: usize = 240;

fn picture(runs: &[Samples]) -> String {
    let mut svg = open("Hours of mixed load", "", [760.0, FIRST + NEXT * PANELS.len() as f64]);
    for (place, (run, ink)) in runs.iter().zip(INKS).enumerate() {
        label(&mut svg, [16.0 + 160.0 * place as f64, 45.0], "start", ink, &run.server);
    }
    let hours = hours(runs).max(f64::MIN_POSITIVE);
    for (place, panel) in PANELS.iter().enumerate() {
        let top = FIRST + NEXT * place as f64;
        let lines: Vec<_> = runs.iter().map(panel.of).collect();
        let highest = lines.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        label(&mut svg, [LEFT, top - 8.0], "start", TEXT, panel.title);
        for share in [0.0, 1.0] {
            let y = top + HEIGHT * (1.0 - share);
            let _ = writeln!(svg, r#"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke-width="0.5" {}/>"#, GRID.stroke());
            label(&mut svg, [LEFT - 8.0, y + 4.0], "end", TEXT, &fine(highest * share));
        }
        for ((run, line), ink) in runs.iter().zip(lines).zip(INKS) {
            let chunk = line.len().div_ceil(POINTS);
            let seconds = run.all("seconds");
            let points = line.chunks(chunk).zip(seconds.chunks(chunk)).map(|(values, seconds)| {
                let x = LEFT + seconds[0] as f64 / 3_600.0 / hours * (RIGHT - LEFT);
                format!("{x:.1},{:.1}", top + HEIGHT * (1.0 - values.iter().copied().fold(0.0, f64::max) / highest))
            });
            let points = points.collect::<Vec<_>>().join(" ");
            let _ = writeln!(svg, r#"<polyline points="{points}" stroke-width="1.2" {}/>"#, ink.stroke());
        }
    }
    let y = FIRST + NEXT * PANELS.len() as f64 - 18.0;
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let x = LEFT + (RIGHT - LEFT) * share;
        label(&mut svg, [x, y], anchor, TEXT, &format!("{} h", fine(hours * share)));
    }
    svg + "</svg>\n"
}
