//! The page's part on those who wait: what they cost while nothing happens, and what happens to all at one stroke.

use super::{fine, grouped};
use crate::figures::{Figure, Figures};
use crate::plan::Plan;
use crate::{asked, idle, memory, several_locks, storms, turns, waiting_memory};
use std::fmt::Write;

pub fn sections(figures: &Figures, plan: &Plan) -> String {
    let parts = [
        "\n## With many who wait\n".to_owned(),
        idle_server(figures, plan),
        asked_about(figures, plan),
        memory_of_a_waiter(figures),
        memory_of_all(figures, plan),
        at_one_stroke(figures),
        longest_turns(figures),
        for_several_locks(figures),
    ];
    parts.concat()
}

fn idle_server(figures: &Figures, plan: &Plan) -> String {
    let mut text = format!(
        "\n### An idle server\n\nHow much of a core it uses while no command comes, in % (`used_cpu_user` and \
         `used_cpu_sys` over {} s, the median of {}): with so many connections that do not wait, and with the same \
         connections when each waits for a lock of its own with a long lease. The server does some work for each \
         connection anyway, so what counts is the difference: every 100 ms the module looks at 100 of the locks that \
         have waiters, in turn.\n\n| waited-for locks | as many connections | they wait | more | spread while they \
         wait |\n|--:|--:|--:|--:|---|\n",
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
        "\n### INFO and QUEUES\n\n*In the module*: the look-up in the module's own structure alone, with waiters for \
         so many locks and cold processor caches, since a million clients that wait would take some 35 GB. *On a \
         server*: the whole command as the server counts it (`commandstats`), with so many clients or tickets that \
         wait, each for a lock of its own.\n\n| | locks | µs | against one lock | spread |\n|---|--:|--:|--:|---|\n"
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
        "\n### Memory of a waiter\n\nWhat the module itself uses, with {} waiters whose holders' names have 43 bytes \
         and whose locks' names have 13. What the server uses for a connection and a blocked client is many times \
         that.\n\n| | bytes each |\n|---|--:|\n",
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
                    themselves not. Holders are 39 bytes long, and each wait has a deadline. Each blocked client and \
                    each subscriber is a connection; tickets and subscriptions share one. For pub/sub this is the \
                    server's part only: each process also keeps track of its own waiters.\n\n| | waiters | bytes \
                    each | together, MB |\n|---|--:|--:|--:|\n"
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
    let mut text = "\n### Thousands at one stroke\n\n*The last*: how many ms after the earliest possible moment the \
                    last client was served. *Longest PING*: the longest that another client, which asks about each \
                    ms, waited for a reply meanwhile. Both leave out the time in which other programs had the \
                    processors; *by the clock* includes it. All in ms, medians over the rounds; `cargo test --test \
                    storms -- --nocapture` has more cases.\n\n| | clients | the last | spread | by the clock | \
                    longest PING | spread |\n|---|--:|--:|---|--:|--:|---|\n"
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

fn longest_turns(figures: &Figures) -> String {
    let mut text =
        "\n### The longest turn\n\nFor how long one user's command keeps all other clients waiting: the most \
                    processor time that the server's main thread took between two replies to another client's PING, in \
                    ms, with the server's own work for the command. The lowest of the rounds, as other work on the \
                    machine only adds turns to it.\n\n| | ms | spread |\n|---|--:|---|\n"
            .to_owned();
    for case in &turns::CASES {
        let figure = figures.get(&format!("turn.{}", case.id));
        let lowest = figure.map_or("–".to_owned(), |figure| fine(figure.lowest()));
        let _ = writeln!(text, "| {} | {lowest} | {} |", case.name, spread(figure));
    }
    text
}

/// In the order of [`several_locks::WAYS`].
const WAYS: [&str; 6] = [
    "all at once, and again in each turn until they are free",
    "one after the other, in the order of their names",
    "**RLOCK.MACQUIRE … WAIT**",
    "the same rule, as a naive list",
    "… if nobody may pass who comes later",
    "… if everybody may",
];

fn for_several_locks(figures: &Figures) -> String {
    let mut text = format!(
        "\n### Several locks at once\n\nA simulation in turns on the module's own engine, without a server or a clock, \
         the same each time: {} locks, {} clients that want one of them and {} that want {}, any. Each has what it \
         wants for one turn, gives it back and asks for others; {} turns. Waits are in turns; those who want one lock \
         always wait in its queue. *Idle*: how often somebody wants a lock and nobody works with it, in % of all locks \
         and turns.\n\n| who wants {3} asks for | waits: mean | 99 of 100 | others wait: mean | 99 of 100 | idle \
         |\n|---|--:|--:|--:|--:|--:|\n",
        several_locks::LOCKS,
        several_locks::SINGLES,
        several_locks::SETS,
        several_locks::WANTED,
        grouped(several_locks::TURNS as f64),
    );
    for (way, name) in several_locks::WAYS.iter().zip(WAYS) {
        let figures = ["sets.mean", "sets.99", "singles.mean", "singles.99", "idle"]
            .map(|what| median(figures, &format!("several.{}.{what}", way.id)));
        let _ = writeln!(text, "| {name} | {} |", figures.join(" | "));
    }
    text
}

fn median(figures: &Figures, id: &str) -> String {
    figures.median(id).map_or("–".to_owned(), fine)
}

fn spread(figure: Option<&Figure>) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{} … {}", fine(figure.lowest()), fine(figure.highest())))
}
