//! Whether locks are held while nothing waits, for users that see an empty list. The server has no list of held locks,
//! and a full search was not requested: so this checks some keys, and claims nothing about the others.

use crate::inspect::may_be_data;
use crate::operators::{Search, Unanswered};
use rlock_client::Locks;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Each is some thousand keys.
const STEPS: usize = 10;

/// No step is begun later than this.
const TIME: Duration = Duration::from_millis(50);

/// A server that is busy is not waited for.
const LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Glance {
    pub held: usize,
    /// Whether every possible lock was checked.
    pub complete: bool,
}

pub async fn held_at_a_glance(locks: &Locks, pattern: &[u8]) -> Glance {
    let mut seen = Glance::default();
    // If the user lacks a right or no reply comes, the result is what was seen so far.
    let _ = timeout(LIMIT, look(locks, pattern, &mut seen)).await;
    seen
}

async fn look(locks: &Locks, pattern: &[u8], seen: &mut Glance) -> Result<(), Unanswered> {
    let began = Instant::now();
    let mut search = Search::on(locks, &locks.masters().await?, pattern);
    let (mut names, mut doubtful) = (HashSet::new(), 0);
    for step in 0.. {
        if search.is_over() {
            seen.complete = doubtful == 0;
            break;
        }
        if step == STEPS || began.elapsed() > TIME {
            break;
        }
        let found = search.step().await?.unwrap_or_default();
        doubtful += found.hidden + found.locks.iter().filter(|(_, lock)| may_be_data(lock)).count();
        names.extend(found.locks.into_iter().filter(|(_, lock)| !may_be_data(lock)).map(|(key, _)| key));
        seen.held = names.len();
    }
    Ok(())
}

/// The words after "no lock has waiters".
pub fn words(seen: &Glance) -> String {
    match seen {
        Glance { held: 0, complete: true } => ", and none is held".to_owned(),
        Glance { held: 0, complete: false } => "; rlock ls --held lists held locks".to_owned(),
        Glance { held, complete } => {
            let least = if *complete { "" } else { "at least " };
            let verb = if *held == 1 { "is" } else { "are" };
            format!("; {least}{held} {verb} held: rlock ls --held lists held locks")
        }
    }
}
