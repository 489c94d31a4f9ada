//! Three pictures of the figures.

use super::chart::{Chart, Line};
use super::svg::{GREEN, OCHRE, ORANGE, OTHERS, OURS, TEXT, VIOLET, label, open};
use super::{fine, grouped};
use crate::contenders::PAIRS;
use crate::figures::Figures;
use crate::hand_offs::WAITERS;
use crate::plan::Plan;
use crate::waiting_memory::{KINDS, TICKETS};
use std::fmt::Write;

/// Hand-offs per second against waiters.
pub fn hand_offs(figures: &Figures) -> Option<String> {
    let line = |id: &str, name: &str, ink| {
        let rate = |waiters: &usize| figures.median(&format!("hand_offs.{waiters}.{id}")).map(|rate| rate.max(1.0));
        let points = WAITERS.iter().map(|waiters| Some((*waiters, rate(waiters)?))).collect::<Option<_>>()?;
        Some(Line { name: name.to_owned(), ink, points })
    };
    let chart = Chart {
        title: "Hand-offs per second of one lock",
        subtitle: "many clients want it; each gives it back at once",
        below: "clients that wait",
        ticks: &WAITERS,
        say: grouped,
        lines: vec![
            line("rlock", "RLOCK", OURS)?,
            line("token", "BLPOP token (no lock)", GREEN)?,
            line("pubsub", "pub/sub", ORANGE)?,
        ],
    };
    Some(chart.draw())
}

/// Memory against waiters, in MB. Where each has a connection there are not so many.
pub fn memory(figures: &Figures, plan: &Plan) -> Option<String> {
    let line = |id: &str, name: &str, ink| {
        let kind = KINDS.iter().find(|kind| kind.id == id)?;
        let counts = kind.counts(plan);
        let most = counts.last().filter(|most| **most < plan.many_tickets);
        let name = most.map_or_else(|| name.to_owned(), |most| format!("{} {name}", grouped(*most as f64)));
        let megabytes = |count| figures.median(&kind.figure(count)).map(|bytes| bytes / 1e6);
        let points = counts.into_iter().map(|count| Some((count, megabytes(count)?))).collect::<Option<_>>()?;
        Some(Line { name, ink, points })
    };
    let ticks: Vec<_> = TICKETS.into_iter().filter(|count| *count <= plan.many_tickets).collect();
    let chart = Chart {
        title: "Memory of all who wait, in MB",
        subtitle: "used_memory of the server, connections included, held locks not",
        below: "waiters",
        ticks: &ticks,
        say: fine,
        lines: vec![
            line("clients", "blocked clients", VIOLET)?,
            line("subscribers", "pub/sub subscribers", ORANGE)?,
            line("tickets_lock_each", "tickets, a lock each", OURS)?,
            line("tickets_one_lock", "tickets, one lock", GREEN)?,
            line("subscriptions", "pub/sub, one subscriber", OCHRE)?,
        ],
    };
    Some(chart.draw())
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
        let (bar, words) = if ours { (OURS, OURS) } else { (OTHERS, TEXT) };
        let width = cost / most * 300.0;
        label(&mut svg, 296.0, y + 14.0, "end", words, short_name(contender.id));
        let _ = writeln!(svg, r#"<rect x="304" y="{y}" width="{width:.1}" height="20" rx="2" {}/>"#, bar.fill());
        label(&mut svg, 310.0 + width, y + 14.0, "start", words, &grouped(*cost));
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
