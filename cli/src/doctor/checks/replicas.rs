//! Whether a master's grants reach a replica, and whether it stops granting if they do not. And what is lost without
//! replicas, which is a cost rather than a fault.

use crate::doctor::finding::Finding;
use crate::doctor::reading::{Lines, Node, Reading};
use crate::doctor::tour;

/// How long a replica may be out of touch before a finding, if the servers have no limit.
const LAG_S: u64 = 10;

pub fn look(reading: &Reading) -> Vec<Finding> {
    let of_masters = reading.masters().flat_map(|master| {
        let replicas: Vec<_> = reading.replicas_of(master).collect();
        let known = u64::try_from(replicas.len()).unwrap_or(u64::MAX);
        let mut found = Vec::new();
        if replicas.is_empty() && !reading.has_replicas() {
            found.push(alone(master));
        }
        found.extend(fence(master, known));
        found.extend(links(master, &replicas));
        found
    });
    let of_replicas = reading.nodes.iter().filter(|node| node.follows.is_some()).flat_map(|node| {
        let wanted = switched_off(node);
        wanted.into_iter().chain(link(node))
    });
    let down = reading.nodes.iter().filter(|node| node.is_down).map(|node| {
        let what = "the others say that it is down: with one more of them locks may be lost, or stop";
        Finding::wrong("server", &node.address, what)
    });
    of_masters.chain(of_replicas).chain(down).collect()
}

/// What a crash costs if no replica takes the place of the crashed server.
fn alone(master: &Node) -> Finding {
    let setting = |name| master.settings().and_then(|settings| settings.text(name)).unwrap_or_default();
    let has_grace = master.setting("rlock.grace").is_some_and(|grace| grace > 0);
    let lost = match (setting("appendonly"), setting("appendfsync"), has_grace) {
        ("yes", "always", _) => "a crash loses no lock",
        ("yes", _, true) => {
            "a crash of its machine loses the locks of the last second, and no client gets them in the grace"
        }
        ("yes", _, false) => "a crash of its machine loses the locks of the last second, and others get them at once",
        _ => "a crash loses locks",
    };
    let what = format!("no replica follows it: while it is down no client gets a lock; {lost}");
    Finding::note("replicas", &master.address, what)
}

/// Whether a master stops granting when it is cut off, and only then.
fn fence(master: &Node, known: u64) -> Vec<Finding> {
    let Some(wanted) = master.setting("min-replicas-to-write") else { return Vec::new() };
    let wrong = |what: String| Finding::wrong("min-replicas-to-write", &master.address, what);
    let good = master.info().and_then(|info| info.number("min_slaves_good_slaves"));
    match good {
        _ if known == 0 && wanted == 0 => Vec::new(),
        _ if wanted > known => {
            let what = format!("min-replicas-to-write is {wanted}, and only {known} follow it: it refuses all locks");
            vec![wrong(what).set(known.min(1))]
        }
        _ if switched_off(master).is_some() => switched_off(master).into_iter().collect(),
        Some(good) if good < wanted => {
            let what = format!(
                "it refuses all locks now: {good} replicas are in touch, and min-replicas-to-write is {wanted}"
            );
            vec![wrong(what)]
        }
        _ if wanted == known => {
            let what = format!(
                "min-replicas-to-write is {wanted}, and no more follow it: while one of them is down no client gets \
                 a lock; a further replica would change that"
            );
            vec![Finding::note("min-replicas-to-write", &master.address, what)]
        }
        _ => Vec::new(),
    }
}

/// A master without a fence goes on granting when it is cut off; so does a replica that becomes one.
fn switched_off(node: &Node) -> Option<Finding> {
    let zero = |name| node.setting(name) == Some(0);
    let goes_on = "a master that its replicas cannot reach goes on granting locks, which a failover gives to others";
    if zero("min-replicas-to-write") {
        let what = format!("min-replicas-to-write is 0: {goes_on}");
        return Some(Finding::wrong("min-replicas-to-write", &node.address, what).set(1));
    }
    let what = format!("min-replicas-max-lag is 0, which switches min-replicas-to-write off: {goes_on}");
    zero("min-replicas-max-lag").then(|| Finding::wrong("min-replicas-max-lag", &node.address, what).set(2))
}

/// The replicas' links, as the master sees them.
fn links(master: &Node, replicas: &[&Node]) -> Vec<Finding> {
    let Some(info) = master.info() else { return Vec::new() };
    let lines = || info.0.iter().filter(|(name, _)| tour::is_a_replica(name)).map(|(_, line)| line);
    let most = master.setting("min-replicas-max-lag").filter(|most| *most > 0).unwrap_or(LAG_S);
    let state = |replica: &&&Node| {
        let line = lines().find(|line| tour::replica(line).is_some_and(|address| address == replica.address));
        let wrong = |what: String| Some(Finding::wrong("replication", &replica.address, what));
        let Some(line) = line else {
            return wrong(format!(
                "its master {} does not know it: nothing that is granted reaches it",
                master.address
            ));
        };
        let parts = Lines::of_info(&line.replace(',', "\n").replace('=', ":"));
        match (parts.text("state"), parts.number("lag")) {
            (Some("online"), Some(lag)) if lag > most => wrong(format!("its master has not heard of it for {lag} s")),
            (Some("online"), _) => None,
            (state, _) => wrong(format!("it has no copy of its master yet (state {})", state.unwrap_or("unknown"))),
        }
    };
    replicas.iter().filter(|replica| !replica.is_down).filter_map(|replica| state(&replica)).collect()
}

/// The link to the master, as the replica sees it.
fn link(replica: &Node) -> Option<Finding> {
    let info = replica.info()?;
    info.text("master_link_status").filter(|status| *status != "up")?;
    let what = "its link to its master is down: it has heard of no lock since; its log says why";
    Some(Finding::wrong("replication", &replica.address, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{alone, found, seen, set, watched};
    use crate::doctor::finding::Level;

    #[test]
    fn nothing_follows_and_that_has_its_price() {
        let mut reading = alone();
        for (fsync, grace, words) in [
            ("everysec", "0", "the last second, and others get them at once"),
            ("everysec", "30000", "no client gets them in the grace"),
            ("always", "0", "loses no lock"),
        ] {
            set(&mut reading, 0, &[("appendfsync", fsync), ("rlock.grace", grace)]);
            let findings = look(&reading);
            assert_eq!((findings.len(), findings[0].level), (1, Level::Note));
            assert!(findings[0].what.contains(words), "{findings:?}");
        }
        set(&mut reading, 0, &[("min-replicas-to-write", "1")]);
        assert!(
            found(&look(&reading)).contains(&("min-replicas-to-write", Some("CONFIG SET min-replicas-to-write 0")))
        );
    }

    #[test]
    fn a_master_without_its_replicas_must_stop() {
        let mut reading = watched();
        assert_eq!(look(&reading), []);
        for node in 0..3 {
            let mut reading = watched();
            set(&mut reading, node, &[("min-replicas-to-write", "0")]);
            let fix = Some("CONFIG SET min-replicas-to-write 1");
            assert_eq!(found(&look(&reading)), [("min-replicas-to-write", fix)]);
            set(&mut reading, node, &[("min-replicas-to-write", "1"), ("min-replicas-max-lag", "0")]);
            assert_eq!(found(&look(&reading)), [("min-replicas-max-lag", Some("CONFIG SET min-replicas-max-lag 2"))]);
        }
        set(&mut reading, 0, &[("min-replicas-to-write", "3")]);
        assert_eq!(found(&look(&reading)), [("min-replicas-to-write", Some("CONFIG SET min-replicas-to-write 1"))]);
        set(&mut reading, 0, &[("min-replicas-to-write", "2")]);
        assert_eq!(look(&reading)[0].level, Level::Note);
        seen(&mut reading, 0).info.as_mut().unwrap().0.insert("min_slaves_good_slaves".to_owned(), "1".to_owned());
        assert!(look(&reading)[0].what.contains("it refuses all locks now"));
    }

    #[test]
    fn what_is_granted_reaches_each_replica() {
        for (line, words) in [
            ("ip=10.0.0.2,port=6379,state=online,offset=1,lag=9", "for 9 s"),
            ("ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0", "no copy of its master yet"),
            ("ip=10.0.0.7,port=6379,state=online,offset=1,lag=0", "does not know it"),
        ] {
            let mut reading = watched();
            seen(&mut reading, 0).info.as_mut().unwrap().0.insert("slave0".to_owned(), line.to_owned());
            let findings = look(&reading);
            assert_eq!(found(&findings), [("replication", None)]);
            assert!(findings[0].what.contains(words), "{findings:?}");
        }
        let mut reading = watched();
        seen(&mut reading, 1).info.as_mut().unwrap().0.insert("master_link_status".to_owned(), "down".to_owned());
        assert_eq!(found(&look(&reading)), [("replication", None)]);
        reading = watched();
        reading.nodes[1].is_down = true;
        assert_eq!(found(&look(&reading)), [("server", None)]);
    }
}
