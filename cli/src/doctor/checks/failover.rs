//! Whether the old master stops granting before the new one begins. The promise of a grace depends on that.
//!
//! A server counts a replica as gone when its last message is more than `min-replicas-max-lag` seconds old, by a clock
//! of whole seconds, and checks once a second: so a master that is cut off stops granting at the latest two seconds
//! after that lag. The module notices a stall of the server itself two seconds later. A failover comes when the
//! sentinels, or the other masters of a cluster, have not reached the master for their configured time.

use crate::address::Way;
use crate::doctor::finding::Finding;
use crate::doctor::reading::{Node, Reading};

/// The servers' maximum delay in addition to the lag, and the longest unnoticed stall.
pub const MORE_S: u64 = 4;

/// The minimum lag to suggest: replicas report once a second, and one report may be late.
const LEAST_LAG_S: u64 = 2;

/// When a failover begins.
struct Begin {
    after_ms: u64,
    /// The setting that decides when it begins.
    whose: &'static str,
    /// The command that changes the setting, without the number.
    set: String,
}

pub fn look(reading: &Reading) -> Vec<Finding> {
    let stops = reading.nodes.iter().filter_map(|node| Some((node, stops_after_s(node)?)));
    match (begin(reading), reading.way) {
        (Some(begin), _) => stops.filter_map(|(node, stops)| compared(node, stops, &begin)).collect(),
        (None, Way::One) if reading.has_replicas() => {
            let masters = stops.filter(|(node, _)| node.follows.is_none());
            masters.map(|(node, stops)| by_hand(node, stops)).collect()
        }
        _ => Vec::new(),
    }
}

/// Seconds after which a server that is cut off has stopped granting. `None`: never, which another check reports; or unknown.
fn stops_after_s(node: &Node) -> Option<u64> {
    node.setting("min-replicas-to-write").filter(|count| *count > 0)?;
    Some(node.setting("min-replicas-max-lag").filter(|lag| *lag > 0)? + MORE_S)
}

fn begin(reading: &Reading) -> Option<Begin> {
    if reading.way == Way::Cluster {
        let timeouts = reading.nodes.iter().filter_map(|node| node.setting("cluster-node-timeout"));
        let set = "CONFIG SET cluster-node-timeout".to_owned();
        return Some(Begin { after_ms: timeouts.min()?, whose: "cluster-node-timeout", set });
    }
    let masters = reading.sentinels.iter().filter_map(|sentinel| sentinel.master.as_ref().ok());
    let downs = masters.filter_map(|master| Some((master.number("down-after-milliseconds")?, master.text("name")?)));
    let (after_ms, name) = downs.min()?;
    let set = format!("SENTINEL SET {name} down-after-milliseconds");
    Some(Begin { after_ms, whose: "the sentinels' down-after-milliseconds", set })
}

fn compared(node: &Node, stops_s: u64, begin: &Begin) -> Option<Finding> {
    let Begin { after_ms, whose, set } = begin;
    let stops_ms = stops_s.saturating_mul(1_000);
    if stops_ms <= *after_ms {
        return None;
    }
    let lag = stops_s - MORE_S;
    let what = format!(
        "min-replicas-max-lag is {lag}, so it grants locks for up to {stops_s} s after it was cut off, and a failover \
         begins after {after_ms} ms ({whose}): two masters may grant the same lock"
    );
    let wrong = Finding::wrong("min-replicas-max-lag", &node.address, what);
    let fits = (after_ms / 1_000).saturating_sub(MORE_S);
    Some(if fits >= LEAST_LAG_S { wrong.set(fits) } else { wrong.fixed_by(format!("{set} {stops_ms}")) })
}

fn by_hand(node: &Node, stops_s: u64) -> Finding {
    let what =
        format!("the address names no sentinels: promote a replica only after its master was cut off for {stops_s} s");
    Finding::note("failover", &node.address, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{cluster, found, sentinel, set, watched};

    #[test]
    fn the_old_master_stops_before_the_new_one_begins() {
        for (lag, after_ms, fix) in [
            (3, 7_000, None),
            (3, 6_999, Some("CONFIG SET min-replicas-max-lag 2")),
            (10, 13_999, Some("CONFIG SET min-replicas-max-lag 9")),
            (3, 1_000, Some("SENTINEL SET locks down-after-milliseconds 7000")),
        ] {
            let mut reading = watched();
            set(&mut reading, 0, &[("min-replicas-max-lag", &lag.to_string())]);
            (1..3).for_each(|node| set(&mut reading, node, &[("min-replicas-max-lag", "1")]));
            // The shortest of the sentinels' times counts.
            sentinel(&mut reading, 0).0.insert("down-after-milliseconds".to_owned(), "60000".to_owned());
            sentinel(&mut reading, 2).0.insert("down-after-milliseconds".to_owned(), "60000".to_owned());
            sentinel(&mut reading, 1).0.insert("down-after-milliseconds".to_owned(), after_ms.to_string());
            let findings = look(&reading);
            let of_master: Vec<_> =
                findings.into_iter().filter(|it| it.at == [reading.nodes[0].address.clone()]).collect();
            let expected = fix.map(|fix| ("min-replicas-max-lag", Some(fix)));
            assert_eq!(found(&of_master), Vec::from_iter(expected), "{lag} {after_ms}");
        }
    }

    #[test]
    fn a_cluster_goes_by_its_own_time() {
        let mut reading = cluster();
        assert_eq!(look(&reading), []);
        set(&mut reading, 4, &[("cluster-node-timeout", "3000")]);
        let findings = look(&reading);
        assert_eq!(findings.len(), reading.nodes.len());
        assert_eq!(findings[0].fix.as_deref(), Some("CONFIG SET cluster-node-timeout 6000"));
    }

    #[test]
    fn without_sentinels_the_failover_time_is_not_known() {
        let mut reading = watched();
        reading.sentinels.clear();
        reading.way = Way::One;
        let findings = look(&reading);
        assert_eq!(found(&findings), [("failover", None)]);
        assert!(findings[0].what.contains("6 s"), "{findings:?}");
    }
}
