//! The layout of the screen.

use super::columns::{self, Column, Longest};
use super::looks::DETAIL_MAX;
use super::rows::Row;
use super::state::{Question, State};
use super::terminal::{Line, Look};
use super::words;
use crate::inspect;
use crate::shown;
use crate::table::{self, Form, Heading};

const KEYS: &str = "q quit  ? help  Enter inspect  s sort  r reverse  / filter  h held  b break";
const KEYS_IN_DETAIL: &str = "q back   ? help   ↑↓ scroll   b break";
const KEYS_WHILE_TYPING: &str = "Enter keep   Esc clear";
const KEYS_WHILE_ASKED: &str = "y break it   n leave it as it is   ↑↓ scroll";
const KEYS_IN_HELP: &str = "q back";

const HELP: &str = "\
Enter         one lock in full: its holders and its waiters, and from where they wait
↑ ↓ j k       select; PageUp, PageDown, Home and End as well
s             sort by the next: waiters, oldest wait, grants/s, holder for, key
r             the other way round
/             only names that contain what you type; Esc shows all again
h             also held locks without waiters: to find them, top looks through
              all keys, slowly
b             break the selected lock; it asks first
q, Esc        back; q quits

HOLDER        the first one, and how many more there are
OLDEST WAIT   how long the first of the queue has been waiting
GRANTS/S      how many of its waiters got the lock, per second
LEASE LEFT    of the lock; without one it may be data that looks like a lock
HOLDER FOR    how long this holder has been seen here: it may have had the lock
              before, or have released and acquired it again in between
NEXT          the next waiter
";

/// The whole screen, of so many columns and rows.
pub fn lines(state: &mut State, (width, height): (u16, u16)) -> Vec<Line> {
    let mut lines = vec![
        Line::new(words::headline(state), Look::Bold),
        Line::new(second_line(state, width.into()), Look::Plain),
        notice(state),
    ];
    let height = usize::from(height);
    let room = height.saturating_sub(lines.len() + 1);
    lines.extend(match (state.help, state.detail.is_some()) {
        (true, _) => plain(HELP).collect(),
        (_, true) => detail(state, width.into(), room),
        _ => locks(state, width, room),
    });
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(Line::new(keys(state), Look::Keys));
    lines
}

fn plain(text: &str) -> impl Iterator<Item = Line> {
    text.lines().map(|line| Line::new(line, Look::Plain))
}

fn keys(state: &State) -> &'static str {
    match state {
        State { help: true, .. } => KEYS_IN_HELP,
        State { question: Some(_), .. } => KEYS_WHILE_ASKED,
        State { typing: true, .. } => KEYS_WHILE_TYPING,
        State { detail: Some(_), .. } => KEYS_IN_DETAIL,
        _ => KEYS,
    }
}

/// The order is not a rate, so it is at the other end.
fn second_line(state: &State, width: usize) -> String {
    let rates = words::rates(state);
    let order = format!("sorted by {} {}", words::order(state.sort), words::arrow(state));
    match width.checked_sub(shown::width(&rates) + shown::width(&order)) {
        Some(free @ 3..) => format!("{rates}{:free$}{order}", ""),
        _ => rates,
    }
}

/// What must not be overlooked comes before what was typed.
fn notice(state: &State) -> Line {
    if let Some(trouble) = words::trouble(state) {
        return Line::new(trouble, Look::Alarm);
    }
    if let Some(question) = question(state) {
        return Line::new(question, Look::Alarm);
    }
    if let Some(message) = &state.message {
        return Line::new(message.clone(), Look::Bold);
    }
    if state.typing {
        return Line::new(format!("filter: {}_", state.filter), Look::Plain);
    }
    let filter = (!state.filter.is_empty()).then(|| format!("filter: {}", state.filter));
    Line::new(filter.into_iter().chain(words::remarks(state)).collect::<Vec<_>>().join("   "), Look::Plain)
}

fn question(state: &State) -> Option<String> {
    let (Question { about, .. }, detail) = (state.question.as_ref()?, state.detail.as_ref()?);
    let lock = detail.lock.as_ref().filter(|_| about.is_some());
    Some(match lock {
        None => "…".to_owned(),
        Some(lock) if inspect::may_be_data(lock) => {
            format!("Break it? y/n  This may be no lock. Breaking deletes {}.", inspect::data(lock))
        }
        Some(_) => "Break it? y/n  The holder may still be at work, and learns of it later.".to_owned(),
    })
}

fn locks(state: &mut State, width: u16, room: usize) -> Vec<Line> {
    if state.shown().is_empty() {
        state.window = 0..0;
        return vec![Line::default(), Line::new(words::nothing(state), Look::Plain)];
    }
    state.scroll(room.saturating_sub(1));
    let (rows, window) = (state.shown(), state.window.clone());
    let heading_of_key = match window.len() == rows.len() {
        true => Column::Key.heading().to_owned(),
        false => format!("{} {}-{} of {}", Column::Key.heading(), window.start + 1, window.end, rows.len()),
    };
    let heading = |column: Column| {
        let words = if column == Column::Key { heading_of_key.clone() } else { column.heading().to_owned() };
        if column.sort() == Some(state.sort) { words + words::arrow(state) } else { words }
    };
    let columns = columns::fit(width, longest(&rows, &heading(Column::Key)), state.sort);
    let widths: Vec<_> = columns.iter().map(|(_, width)| usize::from(*width)).collect();
    let line = |cell: &dyn Fn(Column) -> String| {
        let cells: Vec<_> = columns.iter().map(|(column, _)| cell(*column)).collect();
        table::line(&cells, &widths)
    };
    let (mut lines, selected) = (vec![Line::new(line(&heading), Look::Heading)], state.selected());
    for place in window {
        let look = if place == selected { Look::Selected } else { Look::Plain };
        lines.push(Line::new(line(&|column| words::cell(rows[place], column)), look));
    }
    lines
}

/// Over all rows, also those beyond the screen, so that the columns do not move.
fn longest(rows: &[&Row], heading_of_key: &str) -> Longest {
    let longest = |words: &dyn Fn(&Row) -> String, heading: &str| {
        let widths = rows.iter().map(|row| shown::width(&words(row)));
        let longest = widths.chain([shown::width(heading)]).max().unwrap_or_default();
        u16::try_from(longest).unwrap_or(u16::MAX)
    };
    Longest {
        key: longest(&|row| shown::name(&row.key), heading_of_key),
        holder: longest(&|row| row.holder().unwrap_or_default(), Column::Holder.heading()),
        next: longest(&|row| row.next().unwrap_or_default(), Column::Next.heading()),
    }
}

fn detail(state: &mut State, width: usize, room: usize) -> Vec<Line> {
    let Some(detail) = &mut state.detail else { return Vec::new() };
    let form = Form { heading: Heading::Plain, room: Some(width) };
    let text = match &detail.lock {
        Some(lock) => inspect::text(&detail.key, lock, DETAIL_MAX, form),
        None => format!("{}: …", shown::name(&detail.key)),
    };
    detail.first_line = detail.first_line.min(text.lines().count().saturating_sub(room));
    plain(&text).skip(detail.first_line).collect()
}
