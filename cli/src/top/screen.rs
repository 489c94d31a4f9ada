//! How it looks. With NO_COLOR, bold and reversed do what colours do.

use super::columns::{self, Column, Longest};
use super::looks::DETAIL_MAX;
use super::rows::Row;
use super::state::{Question, State};
use super::words;
use crate::inspect;
use crate::output;
use crate::shown;
use crate::table::{Form, Heading};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row as TableRow, Table, TableState};

const KEYS: &str = "q quit  ? help  Enter inspect  s sort  r reverse  / filter  h held  b break";
const KEYS_IN_DETAIL: &str = "q back   ? help   ↑↓ scroll   b break";
const KEYS_WHILE_TYPING: &str = "Enter keep   Esc clear";
const KEYS_WHILE_ASKED: &str = "y break it   n leave it as it is   ↑↓ scroll";
const KEYS_IN_HELP: &str = "q back";

const HELP: &str = "\
Enter         one lock in full: its holders, and who waits from where
↑ ↓ j k       select; PageUp, PageDown, Home and End as well
s             sort by the next: waiters, oldest wait, grants/s, holder for, key
r             the other way round
/             only names that contain what you type; Esc shows all again
h             also locks that are held and nobody waits for: to find them, top
              looks through all keys, slowly
b             break the selected lock; it asks first
q, Esc        back; q quits

HOLDER        the first one, and how many there are beside it
OLDEST WAIT   how long the first of the queue has been waiting
GRANTS/S      how many of its waiters got the lock, per second
LEASE LEFT    of the lock; without one it may be data that looks like a lock
HOLDER FOR    how long this holder has been seen here: it may have had the lock
              before, or have given it back and got it again in between
NEXT          who gets it next
";

pub fn draw(frame: &mut Frame, state: &mut State) {
    let [first, second, third, body, last] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::styled(words::headline(state), Modifier::BOLD), first);
    frame.render_widget(second_line(state, second.width.into()), second);
    frame.render_widget(notice(state), third);
    match (state.help, state.detail.is_some()) {
        (true, _) => frame.render_widget(Paragraph::new(HELP), body),
        (_, true) => detail(frame, state, body),
        _ => locks(frame, state, body),
    }
    frame.render_widget(Line::styled(keys(state), colour(Color::Cyan)), last);
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

/// The order is no rate, so it stands at the other end.
fn second_line(state: &State, width: usize) -> String {
    let rates = words::rates(state);
    let order = format!("sorted by {} {}", words::order(state.sort), words::arrow(state));
    match width.checked_sub(shown::width(&rates) + shown::width(&order)) {
        Some(free @ 3..) => format!("{rates}{:free$}{order}", ""),
        _ => rates,
    }
}

/// What must not be overlooked comes before what was typed.
fn notice(state: &State) -> Line<'static> {
    if let Some(trouble) = words::trouble(state) {
        return Line::styled(trouble, colour(Color::Red).add_modifier(Modifier::BOLD));
    }
    if let Some(question) = question(state) {
        return Line::styled(question, colour(Color::Red).add_modifier(Modifier::BOLD));
    }
    if let Some(message) = &state.message {
        return Line::styled(message.clone(), Modifier::BOLD);
    }
    if state.typing {
        return Line::raw(format!("filter: {}_", state.filter));
    }
    let filter = (!state.filter.is_empty()).then(|| format!("filter: {}", state.filter));
    Line::raw(filter.into_iter().chain(words::remarks(state)).collect::<Vec<_>>().join("   "))
}

fn question(state: &State) -> Option<String> {
    let (Question { about, .. }, detail) = (state.question.as_ref()?, state.detail.as_ref()?);
    let lock = detail.lock.as_ref().filter(|_| about.is_some());
    Some(match lock {
        None => "…".to_owned(),
        Some(lock) if inspect::may_be_data(lock) => {
            format!("Break it? y/n  This may be no lock. Breaking deletes {}.", inspect::data(lock))
        }
        Some(_) => "Break it? y/n  Whoever holds it may still be at work, and learns of it later.".to_owned(),
    })
}

fn locks(frame: &mut Frame, state: &mut State, area: Rect) {
    let rows = state.shown();
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(format!("\n{}", words::nothing(state))), area);
        state.window = 0..0;
        return;
    }
    state.scroll(usize::from(area.height.saturating_sub(1)));
    let (rows, window) = (state.shown(), state.window.clone());
    let heading_of_key = match window.len() == rows.len() {
        true => Column::Key.heading().to_owned(),
        false => format!("{} {}-{} of {}", Column::Key.heading(), window.start + 1, window.end, rows.len()),
    };
    let heading = |column: Column| {
        let words = if column == Column::Key { heading_of_key.clone() } else { column.heading().to_owned() };
        if column.sort() == Some(state.sort) { words + words::arrow(state) } else { words }
    };
    let columns = columns::fit(area.width, longest(&rows, &heading(Column::Key)), state.sort);
    let headings = TableRow::new(columns.iter().map(|(column, _)| heading(*column)));
    let cells = |row: &&Row| {
        let cells = columns.iter().map(|(column, width)| words::cell(row, *column, usize::from(*width)));
        TableRow::new(cells.collect::<Vec<_>>())
    };
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    let table = Table::new(rows[window.clone()].iter().map(cells), widths)
        .column_spacing(columns::SPACE)
        .header(headings.style(colour(Color::Yellow).add_modifier(Modifier::BOLD)))
        .row_highlight_style(Modifier::REVERSED);
    let mut place = TableState::default().with_selected(state.selected().checked_sub(window.start));
    frame.render_stateful_widget(table, area, &mut place);
}

/// Of all rows, also those that are not on the screen, so that the columns stay where they are.
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

fn detail(frame: &mut Frame, state: &mut State, area: Rect) {
    let Some(detail) = &mut state.detail else { return };
    let form = Form { heading: Heading::Plain, room: Some(area.width.into()) };
    let text = match &detail.lock {
        Some(lock) => inspect::text(&detail.key, lock, DETAIL_MAX, form),
        None => format!("{}: …", shown::name(&detail.key)),
    };
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    detail.first_line = detail.first_line.min(lines.saturating_sub(area.height));
    frame.render_widget(Paragraph::new(text).scroll((detail.first_line, 0)), area);
}

fn colour(colour: Color) -> Style {
    if output::wants_colours() { Style::new().fg(colour) } else { Style::new() }
}
