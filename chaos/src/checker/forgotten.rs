//! What failovers made servers forget. No promise is broken by that; but how often it happens is worth a number, and
//! whether it happens less to those who asked for replicas.

use super::by_lock::LockHistory;
use super::certain::Certain;
use super::exclusion::overlaps;
use super::troubles::Troubles;
use super::verdict::Counted;
use crate::history::Request;
use std::collections::{HashMap, HashSet};

/// By how much was asked for: one server, replicas, a majority.
#[derive(Default)]
pub struct Forgotten {
    times: [u64; 3],
    of: [u64; 3],
}

const KINDS: [&str; 3] = [
    "a failover forgot a lock that one server had granted",
    "a failover forgot a lock that replicas had confirmed",
    "a failover forgot a lock of a majority",
];

pub fn check(lock: &LockHistory, pieces: &[Certain], troubles: &Troubles, forgotten: &mut Forgotten) {
    if troubles.failovers.is_empty() {
        return;
    }
    let kinds = kinds(lock);
    let kind = |who: &str| kinds.get(who).copied().unwrap_or(0);
    let pairs = |found: Vec<(usize, usize)>| -> HashSet<(&str, &str)> {
        found.into_iter().map(|(earlier, later)| (pieces[earlier].who, pieces[later].who)).collect()
    };
    let broken = pairs(overlaps(pieces, |piece| piece.until));
    let excused = pairs(overlaps(pieces, |piece| piece.until_but_for_failovers));
    let lost: HashSet<&str> = excused.difference(&broken).map(|(earlier, _)| *earlier).collect();
    for who in lost {
        forgotten.times[kind(who)] += 1;
    }
    let spans = |piece: &&Certain| troubles.failovers.touches(piece.from, piece.until_but_for_failovers);
    let at_risk: HashSet<&str> =
        pieces.iter().filter(|piece| piece.side.is_exclusive()).filter(spans).map(|piece| piece.who).collect();
    for who in at_risk {
        forgotten.of[kind(who)] += 1;
    }
}

impl Forgotten {
    pub fn counted(&self) -> impl Iterator<Item = Counted> {
        let all = KINDS.into_iter().zip(self.times).zip(self.of);
        all.filter(|(_, of)| *of > 0).map(|((what, times), of)| Counted { what: what.to_owned(), times, of })
    }
}

fn kinds<'a>(lock: &LockHistory<'a>) -> HashMap<&'a str, usize> {
    let kind = |request: &Request| match request {
        Request::Guard { majority: true, .. } => Some(2),
        Request::Guard { replicas, .. } | Request::Acquire { replicas, .. } => Some(usize::from(*replicas > 0)),
        _ => None,
    };
    let steps = lock.steps.iter().rev();
    steps.filter_map(|step| Some((step.who(), kind(&step.call().request)?))).collect()
}

#[cfg(test)]
mod tests {
    use crate::checker::Promise;
    use crate::checker::written::{Written, failover, granted, take};
    use crate::history::{Request, Side};

    fn two(first: Request) -> Written {
        Written::default().did("a", first, (0, 1), granted()).did("b", take(10), (50, 51), granted())
    }

    #[test]
    fn what_only_a_failover_explains_is_counted() {
        let history = || two(take(100)).troubled((40, 42), failover());
        assert_eq!(history().broken(), []);
        assert_eq!(history().counted("one server"), Some((1, 1)));
    }

    #[test]
    fn what_it_does_not_explain_is_broken() {
        assert_eq!(two(take(100)).troubled((60, 62), failover()).broken(), [Promise::OneHolder]);
        assert!(two(take(100)).broken().contains(&Promise::OneHolder));
    }

    #[test]
    fn by_what_was_asked_for() {
        let side = Side::Plain;
        let replicated = Request::Acquire {
            side,
            lease_ms: 100,
            wait_ms: None,
            fenced: false,
            by_script: false,
            replicas: 1,
            session: None,
        };
        assert_eq!(two(replicated).troubled((40, 42), failover()).counted("replicas"), Some((1, 1)));
        let kept = Written::default().did("a", take(100), (0, 1), granted()).troubled((40, 42), failover());
        assert_eq!(kept.counted("one server"), Some((0, 1)));
    }
}
