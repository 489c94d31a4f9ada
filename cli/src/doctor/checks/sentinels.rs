//! Whether a failing master causes a failover, and only one: enough sentinels, which agree.

use crate::doctor::finding::Finding;
use crate::doctor::reading::{Lines, Reading, Sentinel};

/// With fewer, the loss of one leaves no majority.
const LEAST: u64 = 3;

pub fn look(reading: &Reading) -> Vec<Finding> {
    let answered: Vec<_> = reading.sentinels.iter().filter_map(|it| Some((it, it.master.as_ref().ok()?))).collect();
    let silent = reading.sentinels.iter().filter_map(|sentinel| {
        let what = format!(
            "this sentinel does not answer, or watches no master of this name: {}",
            sentinel.master.as_ref().err()?
        );
        Some(Finding::wrong("sentinel", &sentinel.address, what))
    });
    let mut found: Vec<_> = silent.collect();
    let Some((first, master)) = answered.first() else { return found };
    let others = answered.iter().filter(|(_, its)| place(its) != place(master)).map(|(sentinel, its)| {
        let what = format!("it names {} as the master, and {} names {}", place(its), first.address, place(master));
        Finding::wrong("master", &sentinel.address, what)
    });
    found.extend(others);
    found.extend(answered.iter().filter_map(|(sentinel, _)| no_quorum(sentinel)));
    let watching =
        answered.iter().filter_map(|(_, its)| Some(its.number("num-other-sentinels")? + 1)).max().unwrap_or(0);
    let named = u64::try_from(reading.sentinels.len()).unwrap_or(u64::MAX);
    if watching < LEAST {
        let what =
            format!("{watching} sentinels watch the master: with one of them fails the majority that a failover takes");
        let line =
            format!("sentinel monitor {} {} 2", master.text("name").unwrap_or("NAME"), place(master).replace(':', " "));
        found.push(Finding::wrong("sentinels", &first.address, what).fixed_by(line));
    }
    if named < watching {
        let what =
            format!("the address names {named} of {watching} sentinels: while those are down clients find no master");
        found.push(Finding::note("address", &first.address, what));
    }
    found
}

fn place(master: &Lines) -> String {
    format!("{}:{}", master.text("ip").unwrap_or_default(), master.text("port").unwrap_or_default())
}

/// In the sentinel's own words.
fn no_quorum(sentinel: &Sentinel) -> Option<Finding> {
    let what = format!("no failover would come now: {}", sentinel.quorum.as_ref().err()?);
    Some(Finding::wrong("quorum", &sentinel.address, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{found, sentinel, watched};
    use crate::doctor::finding::Level;

    #[test]
    fn three_of_them_agree() {
        let mut reading = watched();
        assert_eq!(look(&reading), []);
        sentinel(&mut reading, 2).0.insert("port".to_owned(), "6380".to_owned());
        assert_eq!(found(&look(&reading)), [("master", None)]);
        reading = watched();
        reading.sentinels[1].quorum = Err("NOQUORUM 1 usable Sentinels".to_owned());
        assert_eq!(found(&look(&reading)), [("quorum", None)]);
        reading = watched();
        reading.sentinels[0].master = Err("refused".to_owned());
        assert_eq!(found(&look(&reading)), [("sentinel", None)]);
    }

    #[test]
    fn two_are_too_few_and_one_address_is_a_risk() {
        let mut reading = watched();
        reading.sentinels.truncate(1);
        assert_eq!((found(&look(&reading)), look(&reading)[0].level), (vec![("address", None)], Level::Note));
        sentinel(&mut reading, 0).0.insert("num-other-sentinels".to_owned(), "0".to_owned());
        assert_eq!(found(&look(&reading)), [("sentinels", Some("sentinel monitor locks 10.0.0.1 6379 2"))]);
    }
}
