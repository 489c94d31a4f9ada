//! The page's part on those who wait: what they cost while nothing happens, and what happens to all at one stroke.

use super::{fine, grouped};
use crate::figures::{Figure, Figures};
use crate::plan::Plan;
use crate::{asked, idle, memory, storms, waiting_memory};
use std::fmt::Write;

pub fn sections(figures: &Figures, plan: &Plan) -> String {
    let parts = [
        "\n## With many who wait\n".to_owned(),
        idle_server(figures, plan),
        asked_about(figures, plan),
        memory_of_a_waiter(figures),
        memory_of_all(figures, plan),
        at_one_stroke(figures),
    ];
    parts.concat()
}

fn idle_server(figures: &Figures, plan: &Plan) -> String {
    let mut text = format!(
        "\n### A server that nobody asks for anything\n\nThe processor's time that it takes all the same, in % of a \
         core (`used_cpu_user` and `used_cpu_sys` over {} s, the median of {}): with so many connections that do not \
         wait, and with the same connections each waiting for a lock of its own, whose lease has no end in sight. The \
         server has its chores for each connection, so what counts is the difference: the module looks at 100 of the \
         waited-for locks each 100 ms, in turn, however many there are.\n\n| waited-for locks | as many connections | \
         they wait | more | spread while they wait |\n|--:|--:|--:|--:|---|\n",
        plan.idle_look.as_secs(),
        plan.idle_looks,
    );
    for &locks in plan.idle_locks {
        let [connected, waiting] = ["connected", "waiting"].map(|what| format!("idle.{locks}.{what}"));
        let count = grouped(locks as f64);
        if let Some(reason) = figures.why_not(&idle::name(locks)) {
            let _ = writeln!(text, "| {count} | not measured: {reason} | – | – | – |");
            continue;
        }
        let more = figures.difference(&waiting, &connected).map_or("–".to_owned(), fine);
        let [were_connected, wait] = [&connected, &waiting].map(|id| median(figures, id));
        let _ = writeln!(text, "| {count} | {were_connected} | {wait} | {more} | {} |", spread(figures.get(&waiting)));
    }
    text
}

/// In the order of [`asked::QUESTIONS`].
const QUESTIONS: [&str; 3] =
    ["INFO rlock", "RLOCK.QUEUES, 100 shown", "RLOCK.QUEUES, by a user who may read none of them"];

fn asked_about(figures: &Figures, plan: &Plan) -> String {
    let mut text =
        "\n### INFO and QUEUES\n\n*In the module*: what it looks up for them in its own structure, in which \
                    so many locks are waited for, after the processor's caches were filled with something else; a \
                    million clients that wait would take some 35 GB. *On a server*: the whole command as the server \
                    counts it (`commandstats`), with so many clients or tickets that wait, each for a lock of its \
                    own.\n\n| | locks | µs | against one lock | spread |\n|---|--:|--:|--:|---|\n"
            .to_owned();
    let questions = || asked::QUESTIONS.into_iter().zip(QUESTIONS);
    for (id, name) in questions() {
        rows(figures, &mut text, &format!("{name}, in the module"), &format!("table.{id}"), asked::LOCKS);
    }
    for (id, name) in questions() {
        rows(figures, &mut text, &format!("{name}, on a server"), &format!("server.{id}"), asked::CLIENTS);
    }
    for (id, name) in questions() {
        let name = format!("{name}, on a server, by ticket");
        rows(figures, &mut text, &name, &format!("tickets.{id}"), asked::tickets(plan));
    }
    rows(figures, &mut text, LOOKS, "table.looks", asked::LOCKS);
    text
}

const LOOKS: &str = "for comparison: the looks at waited-for locks that are due each 100 ms, in the module";

fn rows(figures: &Figures, text: &mut String, name: &str, id: &str, counts: [usize; 3]) {
    for count in counts {
        let (one, this) = (format!("{id}.{}", counts[0]), format!("{id}.{count}"));
        let against = match (figures.median(&this), figures.median(&one)) {
            (Some(this), Some(one)) => format!("{:.2}×", this / one),
            _ => "–".to_owned(),
        };
        let count = grouped(count as f64);
        let (time, spread) = (median(figures, &this), spread(figures.get(&this)));
        let _ = writeln!(text, "| {name} | {count} | {time} | {against} | {spread} |");
    }
}

fn memory_of_a_waiter(figures: &Figures) -> String {
    let mut text = format!(
        "\n### Memory of a waiter\n\nThe module's own, over {} of them, whose names are 43 bytes long and whose locks' \
         are 13; what the server takes for a connection and for a client that it keeps is many times that.\n\n| | \
         bytes each |\n|---|--:|\n",
        grouped(memory::WAITERS as f64)
    );
    for (id, name) in [
        ("one_lock", "one lock for all, without an end"),
        ("one_lock_in_time", "one lock for all, each for some time"),
        ("lock_each", "a lock each, whose lease ends"),
    ] {
        let _ = writeln!(text, "| {name} | {} |", median(figures, &format!("memory.waiter.{id}")));
    }
    text
}

/// In the order of [`waiting_memory::KINDS`].
const KINDS: [&str; 5] = [
    "RLOCK … WAIT: a blocked client each, for one lock",
    "RLOCK … WAIT … SESSION: a ticket each, for one lock",
    "RLOCK … WAIT … SESSION: a ticket each, for a lock each",
    "pub/sub: a subscriber each, for one lock",
    "pub/sub: a subscription each, of one subscriber for a lock each",
];

fn memory_of_all(figures: &Figures, plan: &Plan) -> String {
    let mut text = "\n### Memory of all who wait\n\nWhat `used_memory` grows by, connections included, the locks \
                    themselves not. Holders are 39 bytes long, and each wait has a deadline. A blocked client and a \
                    subscriber of its own are connections; tickets and subscriptions share one. With pub/sub that is \
                    the server's part only: who waits, and that it must ask again, each process keeps for itself.\n\n| \
                    | waiters | bytes each | together, MB |\n|---|--:|--:|--:|\n"
        .to_owned();
    for (kind, name) in waiting_memory::KINDS.iter().zip(KINDS) {
        for count in kind.counts(plan) {
            let bytes = figures.median(&kind.figure(count));
            let shown = |scale: f64| bytes.map_or("–".to_owned(), |bytes| fine(bytes / scale));
            let (each, together, count) = (shown(count as f64), shown(1e6), grouped(count as f64));
            let _ = writeln!(text, "| {name} | {count} | {each} | {together} |");
        }
    }
    text
}

fn at_one_stroke(figures: &Figures) -> String {
    let mut text = "\n### Thousands at one stroke\n\n*The last*: how many ms later than it could the last of them was \
                    served, and *longest PING*: how long a client that has nothing to do with locks waited for an \
                    answer meanwhile, asking about each ms; both but for the time in which others on the machine had \
                    the processors. *By the clock*: the last with that time. All in ms, medians over the rounds; \
                    `cargo test --test storms -- --nocapture` has many more.\n\n| | clients | the last | spread | by \
                    the clock | longest PING | spread |\n|---|--:|--:|---|--:|--:|---|\n"
        .to_owned();
    for storm in &storms::STORMS {
        let id = |what: &str| format!("storm.{}.{what}", storm.id);
        let [crowd, late, by_the_clock, silence] =
            ["crowd", "late", "late_by_the_clock", "silence"].map(|what| median(figures, &id(what)));
        let [lates, silences] = ["late", "silence"].map(|what| spread(figures.get(&id(what))));
        let _ =
            writeln!(text, "| {} | {crowd} | {late} | {lates} | {by_the_clock} | {silence} | {silences} |", storm.what);
    }
    text
}

fn median(figures: &Figures, id: &str) -> String {
    figures.median(id).map_or("–".to_owned(), fine)
}

fn spread(figure: Option<&Figure>) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{} … {}", fine(figure.lowest()), fine(figure.highest())))
}
