//! What a restart forgets. If a master comes back empty before any server has noticed that it was gone, it empties its
//! replicas: so each server that is or may become a master needs its AOF file.

use crate::doctor::finding::Finding;
use crate::doctor::reading::{Node, Reading};

pub fn look(reading: &Reading) -> Vec<Finding> {
    reading.nodes.iter().flat_map(|node| [file(reading, node), sync(node), errors(node)]).flatten().collect()
}

fn file(reading: &Reading, node: &Node) -> Option<Finding> {
    let settings = node.settings()?;
    settings.text("appendonly").filter(|value| *value == "no")?;
    let since = if settings.text("save").is_none_or(str::is_empty) { "" } else { " since its last snapshot" };
    let copies = if reading.has_replicas() { ", and what follows it then copies that" } else { "" };
    let what = format!("appendonly is no: a restart forgets every lock{since}{copies}");
    Some(Finding::wrong("appendonly", &node.address, what).set("yes"))
}

fn sync(node: &Node) -> Option<Finding> {
    node.settings()?.text("appendfsync").filter(|value| *value == "no")?;
    let what = "appendfsync is no: a crash of its machine forgets the locks of up to half a minute";
    Some(Finding::wrong("appendfsync", &node.address, what).set("everysec"))
}

fn errors(node: &Node) -> Option<Finding> {
    node.info()?.text("aof_last_write_status").filter(|status| *status != "ok")?;
    let what = "it cannot write its AOF file, and refuses all locks: is its disk full?";
    Some(Finding::wrong("aof", &node.address, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{alone, found, seen};

    #[test]
    fn a_full_disk_is_found() {
        let mut reading = alone();
        let info = seen(&mut reading, 0).info.as_mut().unwrap();
        info.0.insert("aof_last_write_status".to_owned(), "err".to_owned());
        assert_eq!(found(&look(&reading)), [("aof", None)]);
    }
}
