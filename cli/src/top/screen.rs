//! How it looks. With NO_COLOR, bold and reversed do what colours do.

use super::columns::{self, Columns};
use super::state::{Row, State, Totals, Trouble};
use crate::arguments::Sort;
use crate::inspect;
use crate::output;
use crate::shown;
use crate::table::{Form, Heading};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row as TableRow, Table, TableState};

const HELP: &str = "q quit   ↑↓ select   Enter inspect   s sort   / filter";
const HELP_DETAIL: &str = "q back   ↑↓ scroll";
const HELP_TYPING: &str = "Enter keep   Esc clear";

pub fn draw(frame: &mut Frame, state: &mut State) {
    let [first, second, third, body, last] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::styled(headline(state), Modifier::BOLD), first);
    frame.render_widget(totals(state), second);
    frame.render_widget(notice(state), third);
    match state.detail.is_some() {
        true => detail(frame, state, body),
        false => locks(frame, state, body),
    }
    let help = match (state.typing, state.detail.is_some()) {
        (true, _) => HELP_TYPING,
        (_, true) => HELP_DETAIL,
        _ => HELP,
    };
    frame.render_widget(Line::styled(help, colour(Color::Cyan)), last);
}

fn headline(state: &State) -> String {
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

fn totals(state: &State) -> String {
    let totals = &state.totals;
    format!(
        "per second: {} grants  {} hand-offs  {} time-outs   by {}",
        rate(totals.grants),
        rate(totals.hand_offs),
        rate(totals.timeouts),
        order(state.sort)
    )
}

/// What must not be overlooked comes before what was typed.
fn notice(state: &State) -> Line<'static> {
    if let Some(Trouble { since, answered, words }) = &state.trouble {
        let what = if *answered { "refused" } else { "no answer" };
        let text = format!("{what} for {}: {words}; this is what was seen before", shown::time(since.elapsed()));
        return Line::styled(text, colour(Color::Red).add_modifier(Modifier::BOLD));
    }
    match (state.typing, state.filter.is_empty()) {
        (true, _) => Line::raw(format!("filter: {}_", state.filter)),
        (false, false) => Line::raw(format!("filter: {}", state.filter)),
        (false, true) => unattended(&state.totals),
    }
}

fn unattended(totals: &Totals) -> Line<'static> {
    match totals {
        Totals { sessions_unattended: 0, .. } => Line::raw(""),
        Totals { sessions_unattended, sessions, .. } => {
            Line::raw(format!("{sessions_unattended} of {sessions} sessions unattended: their tickets are passed over"))
        }
    }
}

fn locks(frame: &mut Frame, state: &mut State, area: Rect) {
    let rows = state.shown();
    if rows.is_empty() {
        let words = if state.filter.is_empty() { "nobody waits for a lock" } else { "no lock has this in its name" };
        frame.render_widget(Paragraph::new(format!("\n{words}")), area);
        state.window = 0..0;
        return;
    }
    state.scroll(usize::from(area.height.saturating_sub(1)));
    let (rows, window) = (state.shown(), state.window.clone());
    let key_heading = match window.len() == rows.len() {
        true => "KEY".to_owned(),
        false => format!("KEY {}-{} of {}", window.start + 1, window.end, rows.len()),
    };
    let names = rows.iter().map(|row| shown::width(&shown::name(&row.key)));
    let longest = names.chain([shown::width(&key_heading)]).max().unwrap_or_default();
    let columns = Columns::fit(area.width, u16::try_from(longest).unwrap_or(u16::MAX));
    let heading = TableRow::new(columns.heading(key_heading));
    let widths = columns.widths().into_iter().map(Constraint::Length);
    let table = Table::new(rows[window.clone()].iter().map(|row| cells(row, &columns)), widths)
        .column_spacing(columns::SPACE)
        .header(heading.style(colour(Color::Yellow).add_modifier(Modifier::BOLD)))
        .row_highlight_style(Modifier::REVERSED);
    let mut place = TableState::default().with_selected(state.selected().checked_sub(window.start));
    frame.render_stateful_widget(table, area, &mut place);
}

fn cells(row: &Row, columns: &Columns) -> TableRow<'static> {
    let holder = row.holder.clone().unwrap_or_else(|| "-".to_owned());
    let words = [(shown::name(&row.key), columns.key), (holder, columns.holder)];
    let words = words.into_iter().filter(|(_, width)| *width > 0);
    let words = words.map(|(text, width)| shown::cut(&text, usize::from(width)));
    let numbers = [row.waiters.to_string(), shown::time(row.oldest_wait), rate(row.rate)];
    TableRow::new(words.chain(numbers.into_iter().take(columns.numbers)))
}

fn detail(frame: &mut Frame, state: &mut State, area: Rect) {
    let Some(detail) = &mut state.detail else { return };
    let form = Form { heading: Heading::Plain, room: Some(area.width.into()) };
    let text = match &detail.lock {
        Some(lock) => inspect::text(&detail.key, lock, form),
        None => format!("{}: …", shown::name(&detail.key)),
    };
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    detail.first_line = detail.first_line.min(lines.saturating_sub(area.height));
    frame.render_widget(Paragraph::new(text).scroll((detail.first_line, 0)), area);
}

fn order(sort: Sort) -> &'static str {
    match sort {
        Sort::Waiters => "waiters",
        Sort::Wait => "oldest wait",
        Sort::Rate => "grants/s",
        Sort::Key => "key",
    }
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

fn colour(colour: Color) -> Style {
    if output::wants_colours() { Style::new().fg(colour) } else { Style::new() }
}
