//! What was found, for people and for programs.

use super::checks::GRACE;
use super::finding::{Finding, Level};
use super::reading::{Node, Reading};
use crate::address::{Address, Way};
use crate::greeting::version;
use crate::ls::Glance;
use crate::output;
use crate::shown;
use crate::table::Table;
use serde_json::{Value, json};

pub fn text(at: &Address, reading: &Reading, findings: &[Finding]) -> String {
    let mut text = format!("{at}: {}\n", parts(reading));
    if findings.iter().all(|finding| finding.level == Level::Note) {
        text += "nothing is wrong\n";
    }
    for finding in findings {
        text += &format!("\n{}\n", line(finding));
        if let Some(line) = &finding.fix {
            text += &format!("  fix: {}\n", shown::line(line));
        }
    }
    if reading.way != Way::One {
        text += "\ndoctor checks settings, not behaviour: rlock drill tries a failover, docs/drill.md\n";
    }
    let has_settings = findings.iter().filter_map(|it| it.fix.as_ref()).any(|line| line.starts_with("CONFIG SET"));
    if has_settings {
        text += "\nCONFIG REWRITE, sent to the same servers, keeps what CONFIG SET has changed.\n";
    }
    text
}

/// The short form: each server, how many hold and wait, and findings without their fixes.
pub fn short(at: &Address, reading: &Reading, held: &Glance, findings: &[Finding]) -> String {
    let mut text = format!("{at}: {}, {}, {}\n\n", parts(reading), waiting(reading), held_by(held));
    let mut table = Table::new(["SERVER", "ROLE", "VERSION", "MODULE"], &[]);
    reading.nodes.iter().for_each(|node| table.push(cells(node)));
    text += &table.text(output::form());
    text += "\n";
    news(findings).for_each(|finding| text += &(line(finding) + "\n"));
    text + match findings.iter().all(|finding| finding.level == Level::Note) {
        true => "nothing is wrong\n",
        false => "rlock doctor says how to fix it\n",
    }
}

/// The findings that are not just notes, and the note about a grace, which passes.
fn news(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.level != Level::Note || finding.about == GRACE)
}

fn cells(node: &Node) -> [String; 4] {
    let role = if node.follows.is_some() { "replica" } else { "master" };
    let greeting = node.greeting();
    let module = greeting.map(|greeting| greeting.module.map_or_else(|| "none".to_owned(), version));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "not known".to_owned());
    [
        node.address.clone(),
        role.to_owned(),
        or_unknown(greeting.map(|greeting| greeting.server.clone())),
        or_unknown(module),
    ]
}

fn waiting(reading: &Reading) -> String {
    match (sum(reading, "rlock_waiters"), sum(reading, "rlock_locks_with_waiters")) {
        (Some(waiters), Some(1)) => format!("{waiters} waiting for 1 lock"),
        (Some(waiters), Some(locks)) => format!("{waiters} waiting for {locks} locks"),
        _ => "how many wait is not known".to_owned(),
    }
}

fn held_by(held: &Glance) -> String {
    match held {
        Glance { held: 0, complete: false } => "how many are held is not known".to_owned(),
        Glance { held, complete } => format!("{}{held} held", if *complete { "" } else { "at least " }),
    }
}

/// The sum over the masters: replicas do not know. `None` if one of them does not report it.
fn sum(reading: &Reading, name: &str) -> Option<u64> {
    let numbers: Option<Vec<_>> = reading.masters().map(|node| node.info()?.number(name)).collect();
    numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| numbers.iter().sum())
}

/// Without the fix.
fn line(Finding { level, at, what, .. }: &Finding) -> String {
    let servers = at.iter().map(|address| shown::line(address)).collect::<Vec<_>>().join(", ");
    format!("{}: {servers}: {}", level.word(), shown::line(what))
}

/// How many masters, replicas and sentinels there are.
fn parts(reading: &Reading) -> String {
    let count = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let masters = reading.masters().count();
    let replicas = reading.nodes.len() - masters;
    let parts = [(masters, "master"), (replicas, "replica"), (reading.sentinels.len(), "sentinel")];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, one)| count(number, one));
    parts.collect::<Vec<_>>().join(", ")
}

/// `held`: only in the short form, which also has the held locks.
pub fn object(reading: &Reading, findings: &[Finding], held: Option<&Glance>, is_fine: bool) -> Value {
    let shown: Vec<_> = match held {
        Some(_) => news(findings).map(finding).collect(),
        None => findings.iter().map(finding).collect(),
    };
    let mut object = json!({
        "fine": is_fine,
        "servers": reading.nodes.iter().map(server).collect::<Value>(),
        "findings": shown,
    });
    if let Some(held) = held {
        object["waiters"] = json!(sum(reading, "rlock_waiters"));
        object["locks_with_waiters"] = json!(sum(reading, "rlock_locks_with_waiters"));
        object["held"] = held.held.into();
        object["held_is_all"] = held.complete.into();
    }
    object
}

fn server(node: &Node) -> Value {
    json!({
        "address": node.address,
        "follows": node.follows,
        "server": node.greeting().map(|greeting| &greeting.server),
        "module": node.greeting().and_then(|greeting| greeting.module).map(version),
    })
}

fn finding(Finding { level, about, at, what, fix }: &Finding) -> Value {
    json!({ "level": level.word(), "about": about, "at": at, "what": what, "fix": fix })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{alone, seen, watched};

    #[test]
    fn what_is_not_known_is_not_counted() {
        let mut reading = watched();
        assert_eq!(waiting(&reading), "how many wait is not known");
        let info = &mut seen(&mut reading, 0).info.as_mut().unwrap().0;
        info.insert("rlock_waiters".to_owned(), "5".to_owned());
        info.insert("rlock_locks_with_waiters".to_owned(), "1".to_owned());
        assert_eq!(waiting(&reading), "5 waiting for 1 lock");
        reading.nodes.remove(0);
        assert_eq!(waiting(&reading), "how many wait is not known", "replicas do not know");
        assert_eq!(held_by(&Glance { held: 0, complete: false }), "how many are held is not known");
        assert_eq!(held_by(&Glance { held: 2, complete: false }), "at least 2 held");
        seen(&mut reading, 0).greeting = Err("NOPERM".to_owned());
        assert_eq!(cells(&reading.nodes[0])[2..], ["not known", "not known"]);
        assert_eq!(cells(&alone().nodes[0])[1..], ["master", "redis 7.0.15", "0.1.0"]);
    }
}
