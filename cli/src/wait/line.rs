//! The place in the queue, and the holder: shown to a user that waits at a terminal.
//!
//! Only what the server says is shown. It does not know since when a lock is held, so that is left out; we know
//! ourselves how long we have waited. A user without the right to inspect waits as well, and sees nothing.

use super::divided;
use super::screen::Screen;
use crate::arguments::Wish;
use crate::holder;
use crate::operators::{Holder, Inspection, Unanswered, inspect};
use crate::shown;
use rlock_client::{ErrorKind, Locks};
use std::future::pending;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::{Instant, interval_at};

/// Nothing is shown before this: a short wait is no surprise.
const FIRST: Duration = Duration::from_secs(1);

/// How many waiters are read. Listing a hundred takes a server 60 µs, however many there are behind them.
const SEEN: usize = 100;

/// The pause between two queries grows up to this.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Shows the line until this future is dropped.
pub async fn show(locks: &Locks, wish: &Wish) {
    let Some(mut screen) = Screen::for_this(wish) else { return pending().await };
    let began = Instant::now();
    let mut ticks = interval_at(began + FIRST, FIRST);
    let (mut place, mut pause, mut asked) = (None, FIRST, None::<Instant>);
    loop {
        ticks.tick().await;
        if asked.is_none_or(|asked| asked.elapsed() >= pause) {
            place = match place_of(locks, wish).await {
                Ok(place) => place,
                Err(why) if is_for_good(&why) => return nothing_more(screen).await,
                Err(why) => {
                    let parts = vec![format!("not there yet ({})", why.reason())];
                    Some(Place { key: shown::name(wish.key.as_bytes()), parts, grace_ends: None })
                }
            };
            if asked.replace(Instant::now()).is_some() {
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        match &place {
            Some(place) => screen.show(&place.now(), began.elapsed()),
            None => screen.clear(),
        }
    }
}

/// What the last query saw. It may stay on the screen for longer than a grace that it saw.
struct Place {
    key: String,
    parts: Vec<String>,
    grace_ends: Option<Instant>,
}

impl Place {
    fn now(&self) -> String {
        let left = self.grace_ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        let grace = left.filter(|left| !left.is_zero()).map(shown::grace);
        format!("{}: {}", self.key, self.parts.iter().cloned().chain(grace).collect::<Vec<_>>().join(", "))
    }
}

/// The place for the first of the locks that another client holds, or that a grace keeps.
async fn place_of(locks: &Locks, wish: &Wish) -> Result<Option<Place>, Unanswered> {
    for key in divided(&wish.key, wish.all) {
        let seen = inspect(locks, key, SEEN).await?;
        if let Some(parts) = in_words(&seen, locks.identity().as_bytes()) {
            let grace_ends = seen.grace_left.map(|left| Instant::now() + left);
            return Ok(Some(Place { key: shown::name(key), parts, grace_ends }));
        }
    }
    Ok(None)
}

async fn nothing_more(screen: Screen) {
    drop(screen);
    pending().await
}

fn is_for_good(why: &Unanswered) -> bool {
    let Unanswered::Error(error) = why else { return true };
    matches!(error.kind(), ErrorKind::Refused | ErrorKind::ModuleMissing | ErrorKind::ModuleTooOld)
}

/// `None` if the lock is ours or free. `our`: the prefix of our holder.
fn in_words(seen: &Inspection, our: &[u8]) -> Option<Vec<String>> {
    let is_ours = |holder: &[u8]| holder.strip_prefix(our).is_some_and(|rest| rest.starts_with(b":"));
    let is_free = seen.holders.is_empty();
    if (is_free && seen.grace_left.is_none()) || seen.holders.iter().any(|it| is_ours(&it.holder)) {
        return None;
    }
    let held = (!is_free).then(|| format!("held by {}", holders(&seen.holders, seen.holder_count)));
    let place = seen.waiters.iter().position(|waiter| is_ours(&waiter.holder));
    let place = match place {
        Some(place) => Some(format!("{} of {} in line", ordinal(place + 1), seen.waiter_count)),
        None if seen.waiter_count > seen.waiters.len() => {
            Some(format!("behind the first {} of {} in line", seen.waiters.len(), seen.waiter_count))
        }
        None => None,
    };
    Some(place.into_iter().chain(held).collect())
}

fn holders(holders: &[Holder], count: usize) -> String {
    let first = holders.first().map_or_else(String::new, |first| shown::name(holder::process(&first.holder)));
    match count.saturating_sub(1) {
        0 => first,
        1 => format!("{first} and one more"),
        others => format!("{first} and {others} more"),
    }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_do() {
        let cases = [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th")];
        for (number, shown) in cases.into_iter().chain([(21, "21st"), (102, "102nd"), (111, "111th")]) {
            assert_eq!(ordinal(number), shown);
        }
    }
}
