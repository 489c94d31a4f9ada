//! What is said of the locks, on the screen and in batches.

use super::columns::Column;
use super::rows::{Row, Totals};
use super::state::{State, Trouble};
use crate::arguments::Sort;
use crate::json;
use crate::shown;
use std::time::Duration;

pub fn headline(state: &State) -> String {
    let State { server, interval, totals, .. } = state;
    let by_ticket = if totals.tickets > 0 { format!(", {} by ticket", totals.tickets) } else { String::new() };
    format!(
        "rlock top  {}  every {}  {} waiting for {} locks{by_ticket}",
        shown::line(&server.to_string()),
        shown::time(*interval),
        totals.waiters,
        totals.locks
    )
}

pub fn rates(state: &State) -> String {
    let Totals { grants, hand_offs, timeouts, .. } = state.totals;
    let [grants, hand_offs, timeouts] = [grants, hand_offs, timeouts].map(rate);
    format!("per second: {grants} grants  {hand_offs} hand-offs  {timeouts} time-outs")
}

pub fn order(sort: Sort) -> &'static str {
    match sort {
        Sort::Waiters => "waiters",
        Sort::Wait => "oldest wait",
        Sort::Rate => "grants/s",
        Sort::Held => "holder for",
        Sort::Key => "key",
    }
}

/// Downwards if the largest comes first.
pub fn arrow(state: &State) -> &'static str {
    if (state.sort == Sort::Key) == state.reverse { "▼" } else { "▲" }
}

pub fn trouble(state: &State) -> Option<String> {
    if let Some(silence) = state.silence() {
        return Some(format!("no answer for {}; this is what was seen before", shown::time(silence)));
    }
    let Trouble { since, answered, words } = state.trouble.as_ref()?;
    let what = if *answered { "refused" } else { "no answer" };
    Some(format!("{what} for {}: {words}; this is what was seen before", shown::time(since.elapsed())))
}

/// What a user has to know to understand the rows.
pub fn remarks(state: &State) -> Vec<String> {
    held(state).into_iter().chain(unattended(&state.totals)).chain(grace(&state.totals)).collect()
}

/// How many locks are held without waiters, as far as that is known.
fn held(state: &State) -> Option<String> {
    if !state.held.wanted {
        return None;
    }
    let count = state.rows.iter().filter(|row| row.oldest_wait.is_none()).count();
    let held = state.held.seen.clone().unwrap_or_default();
    Some(match held.refused {
        Some(why) => format!("held locks cannot be looked for: {}", shown::line(&why)),
        None if held.limited => format!("held without a waiter: {count} and more"),
        None if held.rounds == 0 => format!("held without a waiter: {count} so far"),
        None if held.hidden => format!("held without a waiter: {count} that this user may look at"),
        None => format!("held without a waiter: {count}"),
    })
}

fn unattended(totals: &Totals) -> Option<String> {
    let Totals { sessions_unattended, sessions, .. } = totals;
    (*sessions_unattended > 0)
        .then(|| format!("{sessions_unattended} of {sessions} sessions unattended: their tickets are passed over"))
}

fn grace(totals: &Totals) -> Option<String> {
    let left = Duration::from_millis(totals.grace_left_ms);
    (!left.is_zero()).then(|| shown::grace(left))
}

/// Why no lock is shown. It says that none is held only if that is known.
pub fn nothing(state: &State) -> &'static str {
    let seen = state.held.seen.as_ref().filter(|held| held.rounds > 0 && !held.hidden && held.refused.is_none());
    match (state.filter.is_empty(), state.held.wanted, seen) {
        (false, ..) => "no lock has this in its name",
        (_, false, _) => "no lock has waiters; h shows held locks",
        (_, true, None) => "no lock has waiters",
        (_, true, Some(_)) => "no lock has waiters, and none is held",
    }
}

pub fn cell(row: &Row, column: Column) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    match column {
        Column::Key => shown::name(&row.key),
        Column::Holder => or_dash(row.holder()),
        Column::Waiters => row.waiters.to_string(),
        Column::OldestWait => or_dash(row.oldest_wait.map(shown::time)),
        Column::Rate => rate(row.rate),
        Column::LeaseLeft => or_dash(row.lease_left().map(shown::time)),
        Column::HolderFor => or_dash(row.holder_for().map(|time| shown::time(time) + "+")),
        Column::Kind => or_dash(row.kind().map(|kind| json::kind(kind).to_owned())),
        Column::Next => or_dash(row.next()),
    }
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}
