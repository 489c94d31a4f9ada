//! How it looks. With NO_COLOR, bold and reversed do what colours do.

use super::state::{Row, State, Trouble};
use crate::arguments::Sort;
use crate::inspect;
use crate::output;
use crate::shown;
use crate::table::Heading;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

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
    format!(
        "rlock top  {}  every {}  {} waiting for {} locks",
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
        (false, true) => Line::raw(""),
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
    let heading = ["KEY", "HOLDER", "WAITERS", "OLDEST WAIT", "GRANTS/S"];
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Length(11),
        Constraint::Length(9),
    ];
    let table = Table::new(rows.iter().map(|row| cells(row)), widths)
        .header(TableRow::new(heading).style(colour(Color::Yellow).add_modifier(Modifier::BOLD)))
        .row_highlight_style(Modifier::REVERSED);
    let count = rows.len();
    let mut place = TableState::default().with_offset(state.window.start).with_selected(state.selected());
    frame.render_stateful_widget(table, area, &mut place);
    let height = usize::from(area.height.saturating_sub(1));
    state.window = place.offset()..count.min(place.offset() + height);
}

fn cells(row: &Row) -> TableRow<'static> {
    TableRow::new([
        Cell::from(shown::name(&row.key)),
        Cell::from(row.holder.clone().unwrap_or_else(|| "-".to_owned())),
        Cell::from(row.waiters.to_string()),
        Cell::from(shown::time(row.oldest_wait)),
        Cell::from(rate(row.rate)),
    ])
}

fn detail(frame: &mut Frame, state: &mut State, area: Rect) {
    let Some(detail) = &mut state.detail else { return };
    let text = match &detail.lock {
        Some(lock) => inspect::text(&detail.key, lock, Heading::Plain),
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
