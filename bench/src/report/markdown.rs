//! The pages: what was to be shown, and each measurement in a table.

use super::{Report, grouped, many_tasks, one_process, row, waiting};
use crate::bars::{Bar, Verdict};
use crate::contenders::{BUSY, Contender, PAIRS, PERMITS, READS, RENEWALS, WRITES, is_measured_with_followers};
use crate::environment::Environment;
use crate::figures::{Figure, Figures};
use crate::profile::Profile;
use crate::{crates, flatness, hand_off_costs, hand_offs};
use std::fmt::Write;

/// What a reader wants: how it was measured, the pictures, and what had to be shown.
pub fn page(report: &Report, pictures: &[&str]) -> String {
    let mut page = head(report);
    page += METHOD;
    page += &shown_pictures(pictures);
    page += WHAT_A_BAR_IS;
    page += &bars(report.bars);
    page += &out_of_reach(report.bars);
    page += &left_out(report.figures);
    page
}

/// Each measurement, in a table of its own.
pub fn tables(report: &Report) -> String {
    let figures = report.figures;
    let mut page =
        "# Benchmarks: every figure\n\n[results.md](results.md) says where these were measured, how, and what \
                    they must show. *Spread*: the lowest and the highest sample.\n\n## Instructions of the server\n\n\
                    Holders are 39 bytes long.\n"
            .to_owned();
    for (title, what, contenders) in instruction_tables() {
        page += &table(figures, title, what, &contenders);
    }
    page += &hand_off_costs(figures);
    page += &flat(report);
    page += "\n## By the clock\n";
    let pairs: Vec<_> = PAIRS.iter().collect();
    page += &table(figures, "Pairs per second, 64 commands under way on each of 4 connections", "pipelined", &pairs);
    page += &hand_offs_per_second(figures);
    page += &one_process::section(figures);
    page += &end_to_end(figures);
    page += &many_tasks::section(figures, report.plan);
    page += &memory(figures);
    page += &waiting::sections(figures, report.plan);
    page += &profiles(figures);
    page
}

const METHOD: &str = "
- **Instructions** of the whole server are counted by callgrind, with the reading of commands and the writing of replies: the
  slope between two run lengths in one server, 64 commands under way.
- **By the clock**, all contenders take short turns, one after the other, over loopback. A ratio is the median over the rounds
  of what both did in the same round. Other work on the machine moves the rates, so look at the ratios.
- [tables.md](tables.md) has every figure with its lowest and its highest sample.
";

const WHAT_A_BAR_IS: &str = "
## What it must show

A **bar** is the least that a figure must reach; a missed one is published all the same. An **aim** is the best that seems
reachable; below the table is what stands in the way.

";

fn shown_pictures(names: &[&str]) -> String {
    names.iter().map(|name| format!("\n![{}]({name})\n", name.trim_end_matches(".svg").replace('-', " "))).collect()
}

fn head(report: &Report) -> String {
    let (mode, command) =
        if report.plan.is_whole { ("the whole", "make bench") } else { ("the short", "make bench-quick") };
    let valgrind = report.environment.valgrind.as_deref();
    format!(
        "# Benchmarks\n\nWritten by `{command}`, {mode} run, in {} s. {} Instructions: {}.\n",
        report.seconds,
        place(report.environment),
        valgrind.unwrap_or("not counted, as there is no valgrind"),
    )
}

/// On what it was measured, in a sentence.
fn place(it: &Environment) -> String {
    let load = it.load.map_or(String::new(), |load| format!(", which had a load of {load} before"));
    format!("{} on {} processors ({}){load}.", it.server, it.processors, it.architecture)
}

/// Redisson itself, as it is and wrapped, against the commands.
pub fn redisson_page(figures: &Figures, environment: &Environment) -> String {
    let mut text = format!(
        "# Redisson and the commands\n\nWritten by `make bench-redisson`. {} All take turns in one JVM, over loopback, \
         Redisson as it is on a server of its own. *Wrapped*: the same lock() and unlock() by java/. *RLOCK*: the \
         commands through Jedis, which keeps no lease alive, and takes a connection for each wait. *Contended*: so many \
         clients, each with its own connections, as processes would have them, on one lock that is given back at once. \
         *Threads*: so many of one client. The server's processor time is per cycle; the longest wait is that of the \
         worst round. Other work on the machine moves these figures: look at the ratios.\n\n| | cycles/s | against \
         Redisson | spread | \
         server, \u{b5}s | longest wait, ms | connections |\n|---|--:|--:|---|--:|--:|--:|\n",
        place(environment)
    );
    for what in ["alone", "contended.8", "contended.32", "threads.200"] {
        for (id, name) in [("redisson", "Redisson"), ("wrapped", "**Redisson, wrapped**"), ("rlock", "RLOCK")] {
            text += &redisson_row(figures, what, id, name);
        }
    }
    text
}

fn redisson_row(figures: &Figures, what: &str, id: &str, name: &str) -> String {
    let rates = format!("{what}.{id}");
    let Some(rate) = figures.get(&rates) else { return String::new() };
    let ratio = figures.ratio(&rates, &format!("{what}.redisson")).unwrap_or(f64::NAN);
    let of = |kind: &str| figures.get(&format!("{what}.{kind}.{id}"));
    let processor = of("processor").map_or(f64::NAN, Figure::median);
    let longest = of("longest").map_or(f64::NAN, Figure::highest);
    let connections = of("connections").map_or("\u{2013}".to_owned(), |figure| format!("{:.0}", figure.highest()));
    format!(
        "| {}: {name} | {} | {ratio:.2}\u{d7} | {} \u{2026} {} | {processor:.0} | {longest:.0} | {connections} |\n",
        what.replace('.', ", "),
        grouped(rate.median()),
        grouped(rate.lowest()),
        grouped(rate.highest()),
    )
}

/// What must be shown, and whether it is.
pub fn bars(bars: &[Bar]) -> String {
    let mut text = "| what | measured | bar | aim | |\n|---|---|---|---|---|\n".to_owned();
    for bar in bars {
        let figure = bar.figure.map_or("–".to_owned(), |figure| format!("{figure:.2}{}", bar.unit));
        let (limit, aim) = (bar.limit(bar.bar), bar.limit(bar.aim));
        let _ = writeln!(text, "| {} | {figure} | {limit} | {aim} | {} |", bar.what, bar.verdict().in_words());
    }
    text
}

/// Why an aim is missed, and what it would take.
fn out_of_reach(bars: &[Bar]) -> String {
    let mut told = Vec::new();
    for bar in bars.iter().filter(|bar| matches!(bar.verdict(), Verdict::Bar | Verdict::Missed) && !bar.why.is_empty())
    {
        if !told.contains(&bar.why) {
            told.push(bar.why);
        }
    }
    if told.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = told.iter().map(|why| format!("- {why}\n")).collect();
    format!("\nWhat it would take to reach the aims that are missed:\n\n{}", lines.concat())
}

fn left_out(figures: &Figures) -> String {
    if figures.left_out.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = figures.left_out.iter().map(|what| format!("- {what}\n")).collect();
    format!("\nLeft out:\n\n{}", lines.concat())
}

fn instruction_tables() -> [(&'static str, &'static str, Vec<&'static Contender>); 8] {
    let followed = || PAIRS.iter().filter(|contender| is_measured_with_followers(contender)).collect();
    [
        ("A lock cycle: taken and given back", "pair", PAIRS.iter().collect()),
        ("A busy lock is asked for", "busy", BUSY.iter().collect()),
        ("A lease is renewed", "renew", RENEWALS.iter().collect()),
        ("A read cycle of a read-write lock", "read", READS.iter().collect()),
        ("A write cycle of a read-write lock", "write", WRITES.iter().collect()),
        ("A permit's cycle: one of 4, taken and given back", "permit", PERMITS.iter().collect()),
        ("A lock cycle with an AOF file, synced each second", "aof", followed()),
        ("A lock cycle with one replica", "replica", followed()),
    ]
}

fn table(figures: &Figures, title: &str, what: &str, contenders: &[&Contender]) -> String {
    let mut text =
        format!("\n### {title}\n\n| | {} | against RLOCK | spread |\n|---|--:|--:|---|\n", unit(figures, what));
    for contender in contenders {
        text += &row(figures, contender.name, &format!("{what}.{}", contender.id), &format!("{what}.rlock"));
    }
    text
}

/// How many parts are worth a line.
const PARTS: usize = 12;

fn profiles(figures: &Figures) -> String {
    if figures.profiles.is_empty() {
        return String::new();
    }
    let mut text = "\n## Where the instructions go\n\nBy the functions of the server's module API that the module \
                    calls, each with everything that it calls itself.\n"
        .to_owned();
    for Profile { title, parts } in &figures.profiles {
        let _ = write!(text, "\n### {title}: where it goes\n\n| part | instructions |\n|---|--:|\n");
        for (part, cost) in parts.iter().take(PARTS) {
            let _ = writeln!(text, "| {part} | {} |", grouped(*cost));
        }
        let rest: f64 = parts.iter().skip(PARTS).map(|(_, cost)| cost).sum();
        let _ = writeln!(text, "| all others | {} |", grouped(rest));
    }
    text
}

fn unit(figures: &Figures, what: &str) -> &'static str {
    figures.get(&format!("{what}.rlock")).map_or("not measured", |figure| figure.unit)
}

const WAYS: [(&str, &str); 3] =
    [("rlock", "**RLOCK … WAIT**"), ("pubsub", "pub/sub, everyone tries again"), ("token", "BLPOP, a token")];

fn hand_off_costs(figures: &Figures) -> String {
    let mut text =
        "\n### One hand-off\n\nOne client has the lock, releases it and asks again; the next one gets it. The token \
         in a list is not a lock: it is the least that waiting in the server can cost. *By ticket*: with the \
         session's next poll; and with many locks that change hands together, whose grants come in one reply.\n\n| | \
         waiters | instructions | against RLOCK | spread |\n|---|--:|--:|--:|---|\n"
            .to_owned();
    let mut add = |waiters: usize, id: &str, name: &str| {
        let [id, base] = [id, "rlock"].map(|id| format!("hand_off.{waiters}.{id}"));
        text += &row(figures, &format!("{name} | {waiters}"), &id, &base);
    };
    for waiters in hand_off_costs::WAITERS {
        let [blocked, others @ ..] = WAYS;
        for (id, name) in [blocked, ("tickets", "**RLOCK … WAIT … SESSION**, by ticket")].into_iter().chain(others)
        {
            add(waiters, id, name);
        }
    }
    let name = format!("by ticket, {} locks at once", hand_off_costs::AT_ONCE);
    add(hand_off_costs::WAITERS[0], "tickets_at_once", &name);
    text
}

const SETS: &str =
    "RLOCK.RELEASE of three locks and MACQUIRE … WAIT of three (inside the module); others who want three";

fn flat(report: &Report) -> String {
    let mut text = "\n### However many others there are\n\nIn Redisson's layout each read hold's lease is a key of \
                    its own, and a read release must know the longest lease that remains. With up to 16 readers it \
                    looks at all of them. With more it looks only if the released hold may be the one with the \
                    longest lease, and then at 256 at most; if there are more, the lock's lease stays as it is. \
                    *Those who came last leave first*: each has a longer lease than all before it, so every release \
                    has to look. They are compared with one reader that stays while another, with a shorter lease, \
                    leaves. *Who want three*: all of them the same lock, and each two of seven others; the first two \
                    releases free locks that nobody can use, and at each look at a lock at most 16 are asked.\n\n| | others | instructions | against the few | spread |\n|---|--:|--:|--:|---|\n"
        .to_owned();
    let mut rows = |name: &str, what: &str, counts: &[usize]| {
        for &count in counts {
            let name = format!("{name} | {}", grouped(count as f64));
            text += &row(report.figures, &name, &format!("flat.{what}.{count}"), &format!("flat.{what}.{}", counts[0]));
        }
    };
    rows("RLOCK cycle, other locks", "locks", &[1, report.plan.many_locks]);
    rows("RLOCK hand-off (inside the module), waiters", "waiters", &[1, report.plan.many_waiters]);
    rows(SETS, "sets", &flatness::SETS);
    rows("RLOCK read release, another's lease is the longest; other readers", "readers", &flatness::READERS);
    rows("… its own is the longest", "last_reader", &flatness::READERS);
    let name =
        format!("RLOCK read release (inside the module), the {} who came last leave first; others", flatness::LAST);
    rows(&name, "leaving", &flatness::STAYING);
    text
}

/// Who gives a lock back may be the first to take it again, where nobody has it in between: told apart here.
const CHANGES: &str = "*To another*: how many of these grants went to another client than the one before. The bars \
                       count all grants, which favours polling. *Unfairness*: the most grants that one client got \
                       minus the fewest, the median over the rounds.";

fn hand_offs_per_second(figures: &Figures) -> String {
    let mut text = format!(
        "\n### Hand-offs per second\n\nMany clients want one lock, and each releases it at once. {CHANGES}\n\n| | \
         waiters | hand-offs/s | against RLOCK | spread | to another | unfairness |\n|---|--:|--:|--:|---|--:|--:|\n"
    );
    let mut add = |waiters: usize, kind: &str, [id, name]: [&str; 2]| {
        let ids = [id, "rlock"].map(|id| format!("hand_offs.{waiters}.{kind}{id}"));
        let row = row(figures, &format!("{name} | {waiters}"), &ids[0], &ids[1]);
        let more = ["changes", "unfairness"].map(|what| shown(figures, &format!("{what}.{waiters}.{kind}{id}")));
        let _ = writeln!(text, "{} {} | {} |", row.trim_end(), more[0], more[1]);
    };
    for waiters in hand_offs::WAITERS {
        WAYS.into_iter().for_each(|(id, name)| add(waiters, "", [id, name]));
    }
    for (id, name) in WAYS {
        add(hand_offs::PERMIT_WAITERS, "permits.", [id, &format!("4 permits: {name}")]);
    }
    text
}

fn end_to_end(figures: &Figures) -> String {
    let mut text = format!(
        "\n### Crates for Rust, end to end\n\nOne process, one connection, over loopback. *Contended*: {} tasks on one \
         lock. rlock-client keeps leases alive and waits in the server; rslock does neither, and asks again after a \
         random time, so that one task may have the lock most of the time.\n\n| | cycles/s | against rlock-client | \
         spread | to another | unfairness |\n|---|--:|--:|---|--:|--:|\n",
        crates::TASKS
    );
    for what in ["alone", "contended"] {
        for (id, name) in [("rlock_client", "**rlock-client**"), ("rslock", "rslock")] {
            let base = format!("crate.{what}.rlock_client");
            let row = row(figures, &format!("{name}, {what}"), &format!("crate.{what}.{id}"), &base);
            let more = ["changes", "unfairness"].map(|figure| match what {
                "alone" => String::new(),
                _ => shown(figures, &format!("crate.{figure}.{id}")),
            });
            let _ = writeln!(text, "{} {} | {} |", row.trim_end(), more[0], more[1]);
        }
    }
    text
}

fn shown(figures: &Figures, id: &str) -> String {
    figures.median(id).map_or("–".to_owned(), grouped)
}

fn memory(figures: &Figures) -> String {
    let mut text = "\n## Memory of a held lock\n\nMEMORY USAGE over all its keys.\n\n| | by the commands | by \
                    Redisson's scripts |\n|---|--:|--:|\n"
        .to_owned();
    for kind in ["plain", "read", "write"] {
        let [ours, theirs] = ["rlock", "scripts"].map(|id| shown(figures, &format!("memory.{kind}.{id}")));
        let _ = writeln!(text, "| {kind} | {ours} | {theirs} |");
    }
    text
}
