//! A set-up in a few lines: its servers, how many hold and wait, and what is wrong.

use super::checks::GRACE;
use super::finding::{Finding, Level};
use super::reading::{Node, Reading};
use super::report;
use crate::address::Address;
use crate::greeting::version;
use crate::ls::Glance;
use crate::output;
use crate::table::Table;
use serde_json::{Value, json};

pub fn text(at: &Address, reading: &Reading, held: &Glance, findings: &[Finding]) -> String {
    let mut text = format!("{at}: {}, {}, {}\n\n", report::parts(reading), waiting(reading), held_by(held));
    let mut table = Table::new(["SERVER", "ROLE", "VERSION", "MODULE"], &[]);
    reading.nodes.iter().for_each(|node| table.push(cells(node)));
    text += &table.text(output::form());
    text += "\n";
    news(findings).for_each(|finding| text += &(report::line(finding) + "\n"));
    text + match findings.iter().all(|finding| finding.level == Level::Note) {
        true => "nothing is wrong\n",
        false => "rlock doctor says how to mend it\n",
    }
}

pub fn object(reading: &Reading, held: &Glance, findings: &[Finding], is_fine: bool) -> Value {
    json!({
        "fine": is_fine,
        "servers": report::servers(reading),
        "waiters": sum(reading, "rlock_waiters"),
        "locks_with_waiters": sum(reading, "rlock_locks_with_waiters"),
        "held": held.held,
        "held_is_all": held.complete,
        "findings": news(findings).map(report::finding).collect::<Vec<_>>(),
    })
}

/// What is not fine, and a grace, which passes.
fn news(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.level != Level::Note || finding.about == GRACE)
}

fn cells(node: &Node) -> [String; 4] {
    let role = if node.follows.is_some() { "replica" } else { "master" };
    let told = node.greeting();
    let module = told.map(|told| told.module.map_or_else(|| "none".to_owned(), version));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "not known".to_owned());
    [node.address.clone(), role.to_owned(), or_unknown(told.map(|told| told.server.clone())), or_unknown(module)]
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

/// Of the masters: replicas do not know. `None`, if one of them does not tell.
fn sum(reading: &Reading, name: &str) -> Option<u64> {
    let told: Option<Vec<_>> = reading.masters().map(|node| node.info()?.number(name)).collect();
    told.filter(|told| !told.is_empty()).map(|told| told.iter().sum())
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
