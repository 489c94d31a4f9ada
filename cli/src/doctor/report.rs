//! What was found, for people and for programs.

use super::finding::{Finding, Level};
use super::reading::{Node, Reading};
use crate::address::Address;
use crate::greeting::version;
use crate::shown;
use serde_json::{Value, json};

pub fn text(at: &Address, reading: &Reading, findings: &[Finding]) -> String {
    let mut text = format!("{at}: {}\n", parts(reading));
    if findings.iter().all(|finding| finding.level == Level::Note) {
        text += "nothing is wrong\n";
    }
    for finding in findings {
        text += &format!("\n{}\n", line(finding));
        if let Some(line) = &finding.mend {
            text += &format!("  mend it: {}\n", shown::line(line));
        }
    }
    let has_settings = findings.iter().filter_map(|it| it.mend.as_ref()).any(|line| line.starts_with("CONFIG SET"));
    if has_settings {
        text += "\nCONFIG REWRITE, sent to the same servers, keeps what CONFIG SET has changed.\n";
    }
    text
}

/// Without what mends it.
pub fn line(Finding { level, at, what, .. }: &Finding) -> String {
    let servers = at.iter().map(|address| shown::line(address)).collect::<Vec<_>>().join(", ");
    format!("{}: {servers}: {}", level.word(), shown::line(what))
}

/// What belongs to it.
pub fn parts(reading: &Reading) -> String {
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

pub fn object(reading: &Reading, findings: &[Finding], is_fine: bool) -> Value {
    json!({
        "fine": is_fine,
        "servers": servers(reading),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

pub fn servers(reading: &Reading) -> Value {
    reading.nodes.iter().map(server).collect()
}

fn server(node: &Node) -> Value {
    json!({
        "address": node.address,
        "follows": node.follows,
        "server": node.greeting().map(|greeting| &greeting.server),
        "module": node.greeting().and_then(|greeting| greeting.module).map(version),
    })
}

pub fn finding(Finding { level, about, at, what, mend }: &Finding) -> Value {
    json!({ "level": level.word(), "about": about, "at": at, "what": what, "mend": mend })
}
